"""What the doctor finds of values that somebody damaged by hand, and how it mends them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import apsw
import pytest

import plait
from plait.store._sync.port import Contextual
from plait.store.protocol import Scope, SessionRef
from plait.testing.faults import invariants


def chat() -> SessionRef:
    """A new hold on the session, bound to no life yet."""
    return SessionRef(Scope(), "chat")


def contextual(sessions: plait.Sessions) -> Contextual:
    return cast("Contextual", sessions.store)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with values that were searched, one of them long."""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        for n, (key, text) in enumerate([("a", "one"), ("a", "two words"), ("b", "y" * 2_000_000), ("c", "gone")]):
            given = {"operation": str(n), "created_at_us": 1_800_000_000_000_000}
            contextual(sessions).write_value(chat(), "notes", key, text, **given)  # type: ignore[arg-type]
        contextual(sessions).search_values(chat(), "notes", "words")
    return path


DAMAGE = {
    "values without session": "DELETE FROM shelf",
    "shelves without session": "INSERT INTO shelf VALUES (99, 99, 0, 1)",
    "versions without value": "DELETE FROM value WHERE key = 'c'",
    "slices without version": "DELETE FROM value_text WHERE value IN (SELECT value FROM value WHERE key = 'b')",
    "values at another version": "UPDATE value SET version = 1 WHERE key = 'a'",
    "values past the counter": "UPDATE shelf SET next = 2",
    "stale index of values": "INSERT OR REPLACE INTO value_words (rowid, words) SELECT value, 'others' FROM value",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_values_are_found_and_mended(file: Path, kind: str) -> None:
    database = apsw.Connection(str(file))
    database.execute(DAMAGE[kind])
    database.close()
    with plait.open(file) as sessions:
        assert kind in {finding.kind for finding in sessions.doctor()}
        assert any(finding.fixed for finding in sessions.doctor(fix=True) if finding.kind == kind)
        sessions.doctor(fix=True)
        left = {finding.kind for finding in sessions.doctor()}
        assert left <= {"values at another version"} if kind == "slices without version" else not left


@pytest.mark.parametrize("body", ["torn \\ud8", "not ascii é", "ends in \\"])
def test_a_damaged_text_is_read_as_far_as_it_goes_and_told_of(
    file: Path, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    with plait.open(file) as sessions:
        given = {"operation": "x", "created_at_us": 1_800_000_000_000_000}
        contextual(sessions).write_value(chat(), "notes", "odd", "half \ud800", **given)  # type: ignore[arg-type]
    database = apsw.Connection(str(file))
    database.execute("UPDATE value_text SET body = ? WHERE value = (SELECT value FROM value WHERE key = 'odd')", [body])
    database.close()
    with plait.open(file) as sessions:
        keys = [value.key for value in contextual(sessions).values(chat(), "notes", after=None, limit=9)]
        assert keys == ["a", "b", "c", "odd"]
        value = contextual(sessions).read_value(chat(), "notes", "odd")
        assert value is not None and value.content is not None and value.content.startswith(body[:4])
        assert "'odd' (version 1) is damaged" in caplog.text
        sessions.doctor()


def test_the_search_finds_what_is_there_after_its_index_was_mended(file: Path) -> None:
    database = apsw.Connection(str(file))
    database.execute(DAMAGE["stale index of values"])
    database.close()
    with plait.open(file) as sessions:
        assert contextual(sessions).search_values(chat(), "notes", "words") == []
        sessions.doctor(fix=True)
        assert [hit.value.key for hit in contextual(sessions).search_values(chat(), "notes", "words")] == ["a"]
        assert contextual(sessions).search_values(chat(), "notes", "others") == []


def test_a_value_that_lost_its_newest_version_says_what_it_said_before(file: Path) -> None:
    database = apsw.Connection(str(file))
    database.execute("DELETE FROM value_text WHERE version = 2")
    database.close()
    with plait.open(file) as sessions:
        sessions.doctor(fix=True)
        value = contextual(sessions).read_value(chat(), "notes", "a")
        assert value is not None and (value.content, value.version) == ("one", 1)
    assert invariants(file) == []


def test_no_word_of_a_deleted_session_is_left_in_the_file_after_a_purge(file: Path) -> None:
    with plait.open(file) as sessions:
        given = {"operation": "x", "created_at_us": 1_800_000_000_000_000}
        contextual(sessions).write_value(chat(), "notes", "secret", "xylophonic zebra", **given)  # type: ignore[arg-type]
        contextual(sessions).search_values(chat(), "notes", "xylophonic")
        sessions.delete("chat")
        sessions.vacuum(purge=True)
    data = file.read_bytes() + Path(f"{file}-wal").read_bytes() if Path(f"{file}-wal").exists() else file.read_bytes()
    assert b"xylophon" not in data and b"zebra" not in data


def test_what_a_value_said_is_gone_once_its_history_is_pruned_and_the_file_purged(file: Path) -> None:
    with plait.open(file) as sessions:
        for n, text in enumerate(["xylophonic zebra", None]):
            given = {"operation": f"x{n}", "created_at_us": 1_800_000_000_000_000}
            contextual(sessions).write_value(chat(), "notes", "secret", text, **given)  # type: ignore[arg-type]
            contextual(sessions).search_values(chat(), "notes", "xylophonic")
        contextual(sessions).prune_values(Scope(), before_us=None, keep=0)
        sessions.vacuum(purge=True)
    data = file.read_bytes()
    assert b"xylophon" not in data and b"zebra" not in data


@pytest.mark.parametrize("at", ["text", "slice"])
def test_bytes_that_are_no_text_are_replaced_and_said(file: Path, at: str, caplog: pytest.LogCaptureFixture) -> None:
    key, table = ("a", "value_text") if at == "text" else ("b", "value_slice")
    database = apsw.Connection(str(file))
    body = "CAST(substr(CAST(body AS BLOB), 1, 2) || x'ff' || substr(CAST(body AS BLOB), 4) AS TEXT)"
    database.execute(f"UPDATE {table} SET body = {body} WHERE value = (SELECT value FROM value WHERE key = '{key}')")
    database.close()
    with plait.open(file) as sessions:
        found = contextual(sessions).read_value(chat(), "notes", key)
        assert found is not None and (found.content or "").count("\ufffd") == 1
        assert found.damaged and "damaged" in caplog.text
        others = [contextual(sessions).read_value(chat(), "notes", other) for other in "abc" if other != key]
        assert not any("\ufffd" in (value.content or "") for value in others if value is not None)
