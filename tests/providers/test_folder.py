"""A folder of files: no path, link or pipe leads out of it, and what is written is whole or not there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from plait import LimitError, NotFoundError, StoreUnavailableError, UsageError
from plait.providers import folder as folders
from plait.providers.folder import Folder
from tests.providers.test_paths import BAD

MIB = 1 << 20


@pytest.fixture(params=["by handle", "by path"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside a secret, looked at both ways: as systems that open names within a folder do, and as others."""
    if request.param == "by path":
        monkeypatch.setattr(folders, "BY_HANDLE", False)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def paths(root: Path) -> list[str]:
    return [entry.path for entry in Folder(str(root)).entries().entries]


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_written_is_read_and_listed(root: Path) -> None:
    place = Folder(str(root))
    place.write("b/c.md", b"two", description=None)
    place.write("a.md", b"one", description="First\nof all")
    assert [(entry.path, entry.size) for entry in place.entries().entries] == [("a.md", 3), ("b/c.md", 3)]
    assert place.read("b/c.md", max_bytes=3) == b"two"
    assert place.descriptions(["a.md", "b/c.md", "absent"]) == {"a.md": "First\nof all"}


def test_a_description_goes_with_its_file(root: Path) -> None:
    place = Folder(str(root))
    place.write("a", b"1", description="one")
    place.write("a", b"2", description="two" * 100_000)
    assert place.descriptions(["a"]) == {"a": "two" * 100_000}
    place.write("a", b"3", description=None)
    assert place.descriptions(["a"]) == {}
    assert everything(root) == {"a": b"3"}


@pytest.mark.parametrize("path", BAD, ids=ascii)
def test_a_path_that_leads_elsewhere_reads_nothing_and_writes_nothing(root: Path, path: str) -> None:
    place = Folder(str(root))
    assert place.read(path, max_bytes=MIB) is None
    with pytest.raises(UsageError, match="cannot be used"):
        place.write(path, b"evil", description=None)
    assert everything(root.parent) == {"secret": b"secret"}


@pytest.mark.parametrize("path", [".git/config", "a/node_modules/b", ".DS_Store"])
def test_what_would_not_be_listed_is_not_written_and_not_read(root: Path, path: str) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("token")
    assert Folder(str(root)).read(path, max_bytes=MIB) is None
    with pytest.raises(UsageError, match="would not be listed"):
        Folder(str(root)).write(path, b"evil", description=None)
    assert paths(root) == []


def test_a_link_is_neither_listed_nor_followed(root: Path) -> None:
    (root / "file").symlink_to(root.parent / "secret")
    (root / "dir").symlink_to(root.parent)
    (root / "within").mkdir()
    (root / "within" / "link").symlink_to("../..")
    place = Folder(str(root))
    listing = place.entries()
    assert listing.entries == ()
    assert [path for path, reason in listing.left_out if "link" in reason] == ["dir", "file", "within/link"]
    for path in ("file", "dir/secret", "within/link/secret"):
        assert place.read(path, max_bytes=MIB) is None
        with pytest.raises(UsageError):
            place.write(path, b"evil", description=None)
    with pytest.raises(UsageError):
        place.write("dir/new", b"evil", description=None)
    assert (root.parent / "secret").read_text() == "secret" and not (root.parent / "new").exists()


def test_the_root_itself_may_be_a_link(root: Path) -> None:
    (root / "a").write_text("1")
    (root.parent / "link").symlink_to(root)
    place = Folder(str(root.parent / "link"))
    place.write("b", b"2", description=None)
    assert [entry.path for entry in place.entries().entries] == ["a", "b"]
    assert place.read("a", max_bytes=9) == b"1"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    place = Folder(str(root))
    assert place.entries().left_out == (("pipe", "not a regular file"),)
    assert place.read("pipe", max_bytes=MIB) is None
    with pytest.raises(UsageError, match="not a regular file"):
        place.write("pipe", b"x", description=None)


def test_folders_in_the_way_are_refused(root: Path) -> None:
    (root / "dir").mkdir()
    (root / "file").write_text("x")
    place = Folder(str(root))
    assert place.read("dir", max_bytes=9) is None and place.read("file/below", max_bytes=9) is None
    with pytest.raises(UsageError, match="not a regular file"):
        place.write("dir", b"x", description=None)
    with pytest.raises(UsageError, match="in its way"):
        place.write("file/below", b"x", description=None)
    assert everything(root) == {"file": b"x"}


def test_a_name_that_is_no_text_is_left_out(root: Path) -> None:
    try:
        (root / os.fsdecode(b"\xff\xfe")).write_text("x")
    except OSError:
        pytest.skip("this file system takes only names that are text")
    listing = Folder(str(root)).entries()
    assert listing.entries == () and "U+DCFF" in listing.left_out[0][1]


def test_a_file_over_the_limit_is_an_error_and_one_at_it_is_not(root: Path) -> None:
    (root / "a").write_bytes(b"x" * 11)
    assert Folder(str(root)).read("a", max_bytes=11) == b"x" * 11
    with pytest.raises(LimitError, match="larger than 10 bytes"):
        Folder(str(root)).read("a", max_bytes=10)


def test_an_absent_root_is_named_and_made_by_the_first_write(root: Path) -> None:
    place = Folder(str(root / "new"), "deeper/still/")
    with pytest.raises(NotFoundError, match="no folder"):
        place.entries()
    assert place.read("a", max_bytes=9) is None and place.descriptions(["a"]) == {}
    place.write("a", b"1", description=None)
    assert (root / "new" / "deeper" / "still" / "a").read_bytes() == b"1"


@pytest.mark.parametrize("prefix", ["..", "a/../..", "a//b", "a\0"])
def test_a_prefix_cannot_lead_out_either(root: Path, prefix: str) -> None:
    with pytest.raises(UsageError, match="prefix"):
        Folder(str(root), prefix)


def test_a_replaced_file_keeps_its_permissions(root: Path) -> None:
    (root / "a").write_text("1")
    (root / "a").chmod(0o640)
    Folder(str(root)).write("a", b"2", description=None)
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o640


def test_a_failed_write_leaves_what_was_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Folder(str(root))
    place.write("a", b"old", description="d")
    before = everything(root)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreUnavailableError, match="No space left"):
        place.write("a", b"new", description="d")
    assert everything(root) == before


def test_a_reader_sees_one_whole_write_or_another(root: Path) -> None:
    place = Folder(str(root))
    place.write("a", b"0" * 50_000, description=None)
    done = threading.Event()

    def write(digit: bytes) -> None:
        for _ in range(30):
            place.write("a", digit * 50_000, description=None)

    def read(seen: list[bytes]) -> None:
        while not done.is_set():
            data = place.read("a", max_bytes=MIB)
            assert data is not None and data == data[:1] * 50_000
            seen.append(data[:1])

    seen: list[bytes] = []
    reader = threading.Thread(target=read, args=(seen,))
    writers = [threading.Thread(target=write, args=(digit,)) for digit in (b"1", b"2")]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen and list(everything(root)) == ["a"]


def test_what_a_killed_writer_left_is_not_listed(root: Path) -> None:
    program = (
        "import os, signal\nfrom plait.providers.folder import Folder\n"
        "os.replace = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"Folder({str(root)!r}).write('a', b'half', description=None)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert ended.returncode != 0 and len(everything(root)) == 1
    assert paths(root) == []


def test_a_description_that_is_not_one_is_no_description(root: Path) -> None:
    place = Folder(str(root))
    place.write("a", b"1", description="d")
    (file,) = (root / ".plait-descriptions").iterdir()
    for text in (
        "",
        "[]",
        '{"key": "b", "description": "d"}',
        '{"key": "a", "description": 3}',
        "[" * 100_000,
        "\udcff",
    ):
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        assert place.descriptions(["a"]) == {}
