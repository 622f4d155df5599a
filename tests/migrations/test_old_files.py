"""Files of every version still open, read and take writes; files of a newer version are left alone."""

from __future__ import annotations

import gzip
import hashlib
import re
import sqlite3
from pathlib import Path
from typing import cast

import apsw
import pytest

import plait
from plait.logic.ids import SHARED_SESSION
from plait.store._sync.port import Contextual
from plait.store.protocol import Scope, SessionRef
from plait.store.sqlite.connection import APPLICATION_ID, newest_version

FILES = sorted((Path(__file__).parent / "files").glob("version-*.db.gz"))


@pytest.fixture(params=FILES, ids=lambda path: path.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a file that an earlier version wrote."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    path.with_suffix(".version").write_text(re.sub(r"\D", "", request.param.name))
    return path


def test_there_is_a_file_of_every_version() -> None:
    assert [path.name for path in FILES] == [f"version-{n}.db.gz" for n in range(1, newest_version() + 1)]


def test_an_old_file_reads_as_it_was_written(old: Path) -> None:
    with plait.open(old) as sessions:
        chat = sessions.session("chat")
        assert [message.id for message in chat.history()] == ["u1", "a2", "p1", "long", "foreign"]
        assert [message.id for message in chat.leaves()] == ["a1", "foreign"]
        first, long, foreign = chat.get("u1"), chat.get("long"), chat.get("foreign")
        assert isinstance(first, plait.Message) and first.text == "Where is my order? 你好 \U0001f600 \ud83d"
        assert isinstance(long, plait.Message) and long.text == "long " * 400_000
        assert isinstance(foreign, plait.Message)
        assert foreign.to_dict() == {"role": "assistant", "content": "kept as it is"}
        info = sessions.get("chat")
        assert info is not None and (info.name, info.owner, info.pinned) == ("An order", "ann", True)
        assert chat.state() == {"step": 3}
        assert [message.id for message in sessions.session("fork").history()] == ["u1", "a1"]
        assert [message.text for message in sessions.scoped("acme", "bob").session("chat").history()] == [
            "another scope"
        ]
        assert sessions.get("deleted") is None
        assert sessions.doctor() == []


def test_an_old_file_takes_writes(old: Path) -> None:
    with plait.open(old) as sessions:
        chat = sessions.session("chat")
        newest = chat.newest()
        assert newest is not None
        added = chat.append(plait.user("and now?"))
        assert added.parent_id == "foreign" and added.seq > newest.seq + 1, "the deleted message's seq stays used"
        sessions.session("deleted").append(plait.user("again"))
        assert sessions.doctor() == []


def test_an_old_file_can_be_read_without_being_written(old: Path) -> None:
    before = old.read_bytes()
    with plait.open(old, read_only=True) as sessions:
        assert sessions.session("chat").leaf() is not None
    assert old.read_bytes() == before


def test_an_attachment_in_an_old_file_is_the_same_bytes(old: Path) -> None:
    with plait.open(old) as sessions:
        data = b"".join(sessions.session("chat").read_attachment("p1"))
        assert data.startswith(b"\x89PNG") and len(data) == 70


def newer(path: Path) -> None:
    with plait.open(path) as sessions:
        sessions.session("s").append(plait.user("hi"))
    database = apsw.Connection(str(path))
    database.execute(f"PRAGMA user_version = {newest_version() + 1}")
    database.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_file_is_refused_with_both_versions_named_and_left_untouched(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "newer.db"
    newer(path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(plait.SchemaError) as refused:
        plait.open(path, read_only=read_only).open()
    assert str(newest_version() + 1) in str(refused.value) and f"up to {newest_version()}" in str(refused.value)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [file.name for file in tmp_path.iterdir()] == ["newer.db"], "nothing was made beside it"


@pytest.mark.parametrize("content", [b"not a database", b"\x00" * 4096, b"SQLite format 3\x00" + b"\xff" * 200])
def test_a_file_that_is_no_database_is_refused_and_left_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(plait.StoreError, match=r"notes\.txt"):
        plait.open(path).open()
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE message (id)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(plait.SchemaError, match="another program"):
        plait.open(path).open()
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with plait.open(path) as sessions:
        sessions.session().append(plait.user("hi"))
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == newest_version()


def test_a_migration_that_is_cut_short_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    with plait.open(path) as sessions:
        sessions.session("s").append(plait.user("kept"))
    from plait.store.sqlite import connection as files

    steps = files.migrations()
    broken = [*steps, (len(steps) + 1, "CREATE TABLE half (x); CREATE TABLE half (x);")]
    monkeypatch.setattr(files, "migrations", lambda: broken)
    with pytest.raises(plait.StoreError):
        plait.open(path).open()
    monkeypatch.undo()
    with plait.open(path) as sessions:
        assert [message.text for message in sessions.session("s").history()] == ["kept"]
        assert sessions.doctor() == []


def test_an_old_file_is_searched_alike_whether_it_can_be_written_or_not(old: Path) -> None:
    with plait.open(old, read_only=True) as sessions:
        before = [hit.id for hit in sessions.session("chat").search("ships", newest_first=True)]
        assert [hit.id for hit in sessions.session("chat").search("你好")] == ["u1"]
        assert len(sessions.search("ships")) == 3
    with plait.open(old) as sessions:
        assert [hit.id for hit in sessions.session("chat").search("ships", newest_first=True)] == before == ["a2", "a1"]
        assert len(sessions.search("ships")) == 3
        assert sessions.doctor() == []


@pytest.mark.parametrize("read_only", [False, True])
def test_values_in_an_old_file_are_read_and_searched(old: Path, read_only: bool) -> None:
    before = old.read_bytes()
    written = int(old.with_suffix(".version").read_text()) >= 6
    with plait.open(old, read_only=read_only) as sessions:
        store, chat = cast("Contextual", sessions.store), SessionRef(Scope(), "chat")
        memory = store.read_value(chat, "memory")
        assert (memory and memory.content) == ("likes green tea\x00\ud83d" if written else None)
        assert [value.content for value in store.value_history(chat, "memory")][1:] == ["likes tea"] * written
        assert [value.key for value in store.values(chat, "notes")] == ["gate", "long"] * written
        found = [hit.value.content for hit in store.search_values(chat, "notes", "gate 4712")]
        assert found == ["The gate code is 4712"] * written
        assert store.search_values(chat, "notes", "4711") == []
        shared = store.read_value(SessionRef(Scope(), SHARED_SESSION), "team")
        assert (shared and shared.content) == ("for all" if written else None)
        assert "plait:shared" not in [info.id for info in sessions.all()]
    if read_only:
        assert old.read_bytes() == before
