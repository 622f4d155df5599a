"""Keyed documents as a block, in every kind of place: a folder, memory, local files by URL, S3."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from plait import LimitError, StoreUnavailableError, UsageError
from plait.logic import providers as kinds
from plait.providers import WritableDocuments, documents, text_file
from plait.providers.places import Place, find
from tests.providers.test_paths import BAD

BUCKET = "plait-test"


@pytest.fixture(scope="session")
def s3() -> Iterator[Mapping[str, Any]]:
    """An S3 on this machine; the options that reach it."""
    if find_spec("moto") is None or find_spec("s3fs") is None:
        pytest.skip("needs s3fs and moto[server]")
    from moto.server import ThreadedMotoServer  # type: ignore[import-not-found]

    os.environ["MOTO_S3_DEFAULT_MAX_KEYS"] = "7"  # so that few objects already fill several pages
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    server.stop()
    del os.environ["MOTO_S3_DEFAULT_MAX_KEYS"]


@pytest.fixture(params=["folder", "memory", "file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place; each test has another."""
    if request.param == "folder":
        return find(tmp_path / "docs")
    if request.param == "file":
        pytest.importorskip("fsspec")
        return find(f"file://{tmp_path}/docs")
    pytest.importorskip("fsspec")
    name = uuid.uuid4().hex
    if request.param == "memory":
        return find(f"memory://{name}")
    options = request.getfixturevalue("s3")
    import fsspec  # type: ignore[import-not-found, import-untyped, unused-ignore]

    fs = fsspec.filesystem("s3", **options)
    if not fs.exists(BUCKET):
        fs.mkdir(BUCKET)
    return find(f"s3://{BUCKET}/{name}", storage_options=options)


@pytest.fixture
def docs(place: Place) -> Callable[..., WritableDocuments]:
    return lambda **options: WritableDocuments(place, **options)


Docs = Callable[..., WritableDocuments]


def test_documents_are_listed_loaded_and_written(docs: Docs) -> None:
    block = docs()
    assert block.get() is None and block.keys() == [] and block.load("a.md") is None
    block.set("b/c.md", "Two\r\n", "Second: of\nall")
    block.set("a.md", "One")
    assert block.get() == "- a.md\n- b/c.md: Second: of all"
    assert block.load("b/c.md") == "Two\r\n" and block.load("a.md") == "One"
    assert block.load("b") is None and block.load("c.md") is None


def test_a_write_replaces_content_and_description(docs: Docs) -> None:
    block = docs()
    block.set("a", "1", "one")
    block.set("a", "2", "zwei – 二 %41")
    assert (block.load("a"), block.get()) == ("2", "- a: zwei – 二 %41")
    block.set("a", "3")
    assert (block.load("a"), block.get()) == ("3", "- a")
    block.set("a", "4", "x" * 5000)
    assert block.get() == "- a: " + "x" * 5000
    block.set("a", "5", "short")
    assert block.get() == "- a: short"


def test_only_the_given_keys_are_listed_and_loaded_but_all_may_be_written(docs: Docs) -> None:
    docs().set("a", "1", "one")
    docs().set("b", "2")
    only = docs(keys=["b", "absent"])
    assert only.get() == "- b" and only.load("b") == "2"
    assert only.load("a") is None and only.load("absent") is None
    only.set("c", "3")
    assert only.get() == "- b" and only.load("c") is None and docs().load("c") == "3"
    assert docs(keys=[]).keys() == ["a", "b", "c"]


@pytest.mark.parametrize("key", BAD, ids=ascii)
def test_a_key_that_cannot_be_used_loads_nothing_and_is_refused_before_anything_is_written(
    docs: Docs, key: str
) -> None:
    block = docs()
    assert block.load(key) is None
    with pytest.raises(UsageError, match="cannot be used"):
        block.set(key, "x", "d")
    assert block.keys() == []


@pytest.mark.parametrize("content", ["", "\0", "\ud800 alone", "\ufeffmark", "😀" * 10, "\r\n\x85\u2028"], ids=ascii)
def test_text_is_kept_exactly(docs: Docs, content: str) -> None:
    docs().set("a", content)
    assert docs().load("a") == content


def test_ten_megabytes_come_back_and_more_than_the_limit_is_an_error(docs: Docs) -> None:
    block = docs(max_bytes=10_000_000)
    block.set("big", "x" * 10_000_000)
    assert block.load("big") == "x" * 10_000_000
    with pytest.raises(LimitError, match="larger than 9,999,999 bytes"):
        docs(max_bytes=9_999_999).load("big")


def test_what_another_wrote_is_seen_at_once(docs: Docs) -> None:
    one, other = docs(), docs()
    assert one.keys() == [] and other.keys() == []
    one.set("a", "1")
    assert other.keys() == ["a"] and other.load("a") == "1"
    other.set("a", "2")
    assert one.load("a") == "2"


def test_every_page_of_a_listing_is_followed(place: Place, docs: Docs) -> None:
    if "s3" not in place.name:
        pytest.skip("only object stores list in pages")
    fs, root = place._fs, place._root  # type: ignore[attr-defined]
    fs.pipe({f"{root}/{n:02}": b"x" for n in range(23)})
    assert docs().keys() == [f"{n:02}" for n in range(23)]
    listed = fs.call_s3("list_objects_v2", Bucket=BUCKET, Prefix=root.partition("/")[2])
    assert listed["IsTruncated"] and len(listed["Contents"]) == 7


def test_what_lies_beside_the_prefix_is_not_seen(place: Place) -> None:
    docs = WritableDocuments(place)
    docs.set("notes/a", "1")
    docs.set("notes-old/b", "2")
    assert docs.keys() == ["notes-old/b", "notes/a"]


def test_bytes_that_are_no_text_are_shown_as_such(place: Place) -> None:
    place.write("a", b"ok \xff", description=None)
    assert WritableDocuments(place).load("a") == "ok \ufffd"


def test_a_prefix_names_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    where = f"memory://{uuid.uuid4().hex}"
    documents(where).set("notes/a", "1")
    documents(where).set("notes-old/b", "2")
    for prefix in ("notes", "notes/", "/notes/"):
        below = documents(where, prefix=prefix)
        assert below.keys() == ["a"] and below.load("a") == "1" and below.load("../notes-old/b") is None


def test_a_file_system_may_be_given_instead_of_a_url() -> None:
    fsspec = pytest.importorskip("fsspec")
    name = uuid.uuid4().hex
    fs = fsspec.filesystem("memory")
    documents(fs, prefix=name).set("a", "1")
    assert fs.cat(f"/{name}/a") == b"1"


def test_a_local_file_system_follows_no_links(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "link").symlink_to(tmp_path / "secret")
    for where in (f"file://{tmp_path}/docs", f"local://{tmp_path}/docs"):
        assert documents(where).load("link") is None and documents(where).keys() == []
    block = documents(fsspec.filesystem("file"), prefix=str(tmp_path / "docs"))
    assert block.load("link") is None and block.keys() == []
    assert block.problems == ("'link' was left out: a link, which is not followed",)


def test_read_only_documents_offer_no_way_to_write(tmp_path: Path) -> None:
    assert kinds.is_skill(documents(tmp_path, read_only=True)) and not kinds.is_writable(
        documents(tmp_path, read_only=True)
    )
    assert kinds.is_skill(documents(tmp_path)) and kinds.is_writable(documents(tmp_path))
    assert not kinds.is_writable(text_file(tmp_path / "a")) and kinds.is_writable(
        text_file(tmp_path / "a", read_only=False)
    )
    assert not kinds.is_keyed(text_file(tmp_path / "a"))


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_one_file_is_the_text_of_a_block(tmp_path: Path, kind: str) -> None:
    if kind == "memory":
        pytest.importorskip("fsspec")
    where = str(tmp_path / "deep" / "SOUL.md") if kind == "folder" else f"memory://{uuid.uuid4().hex}/SOUL.md"
    soul: Any = text_file(where, read_only=False)
    assert soul.get() is None
    soul.set("You are kind.")
    assert text_file(where).get() == "You are kind."
    soul.set("")
    assert text_file(where).get() == ""


@pytest.mark.parametrize("where", ["", "  ", b"docs", 3, None, object(), "nosuch://x/y"])
def test_what_is_no_place_is_refused(where: Any) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(UsageError):
        documents(where)


@pytest.mark.parametrize("where", ["", "..", "a/", "a\0b", ".git"])
def test_what_is_no_file_is_refused(where: str) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(UsageError):
        text_file(where)


def test_one_text_is_not_taken_for_some_keys(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="some keys"):
        documents(tmp_path, keys="a.md")


@pytest.mark.parametrize("content", [None, b"x", 3])
def test_content_that_is_no_text_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(UsageError, match="content must be text"):
        documents(tmp_path).set("a", content)
    with pytest.raises(UsageError, match="content must be text"):
        text_file(tmp_path / "a", read_only=False).set(content)  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_fails_is_named(s3: Mapping[str, Any]) -> None:
    away = {
        **s3,
        "client_kwargs": {**s3["client_kwargs"], "endpoint_url": "http://127.0.0.1:9"},
        "config_kwargs": {"retries": {"max_attempts": 0}},
    }
    block = documents("s3://bucket/x", storage_options=away)
    for call in (block.get, lambda: block.load("a"), lambda: block.set("a", "x")):
        with pytest.raises(StoreUnavailableError, match="s3://bucket/x"):
            call()
    with pytest.raises(StoreUnavailableError, match="plait-absent"):
        documents("s3://plait-absent/x", storage_options=s3).set("a", "x")
