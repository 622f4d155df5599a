from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from plait.errors import UsageError
from plait.interchange import ImportEntry, Transcript, read
from plait.interchange import cloudflare as reader

SCHEMA = """
CREATE TABLE cf_agents_session_messages (
    session_id TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, parent_id TEXT, type TEXT NOT NULL DEFAULT 'message',
    role TEXT NOT NULL, content TEXT NOT NULL, content_chunks INTEGER NOT NULL DEFAULT 0,
    token_estimate INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, id)) WITHOUT ROWID;
CREATE TABLE cf_agents_session_message_chunks (
    session_id TEXT, id TEXT, idx INTEGER, content TEXT, PRIMARY KEY (session_id, id, idx)) WITHOUT ROWID;
CREATE TABLE cf_agents_session_compactions (
    session_id TEXT, id TEXT, seq INTEGER, summary TEXT, from_message_id TEXT, to_message_id TEXT, created_at INTEGER,
    PRIMARY KEY (session_id, id)) WITHOUT ROWID;
CREATE TABLE cf_agents_session_config (session_id TEXT, key TEXT, value TEXT, PRIMARY KEY (session_id, key)) WITHOUT ROWID;
CREATE TABLE cf_agents_session_attachment_meta (hash TEXT PRIMARY KEY, bytes INTEGER, media_type TEXT, chunks INTEGER) WITHOUT ROWID;
CREATE TABLE cf_agents_session_attachment_chunks (hash TEXT, idx INTEGER, data BLOB, PRIMARY KEY (hash, idx)) WITHOUT ROWID;
CREATE TABLE cf_agents_session_attachment_refs (
    session_id TEXT, message_id TEXT, hash TEXT, PRIMARY KEY (session_id, message_id, hash)) WITHOUT ROWID;
"""
LEGACY = """
CREATE TABLE assistant_messages (
    id TEXT PRIMARY KEY, session_id TEXT NOT NULL DEFAULT '', parent_id TEXT, role TEXT NOT NULL, content TEXT NOT NULL,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE assistant_compactions (
    id TEXT PRIMARY KEY, session_id TEXT NOT NULL DEFAULT '', summary TEXT NOT NULL, from_message_id TEXT NOT NULL,
    to_message_id TEXT NOT NULL, created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE assistant_config (session_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (session_id, key));
CREATE TABLE assistant_sessions (id TEXT PRIMARY KEY, name TEXT, parent_session_id TEXT, model TEXT, created_at DATETIME);
"""
CHAT = "CREATE TABLE cf_ai_chat_agent_messages (id TEXT PRIMARY KEY, message TEXT NOT NULL, created_at DATETIME)"
PIXEL = bytes(range(256)) * 9
HASH = hashlib.sha256(PIXEL).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sqlite"


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def ui(id: str, text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}], **more}


def put(
    db: sqlite3.Connection, message: dict[str, Any], seq: int, parent: str | None, session: str = "s", **more: Any
) -> None:
    row = {"id": message["id"], "content": json.dumps(message), "chunks": 0, **more}
    db.execute(
        "INSERT INTO cf_agents_session_messages (session_id, id, seq, parent_id, role, content, content_chunks, created_at)"
        " VALUES (?,?,?,?,'user',?,?,?)",
        (session, row["id"], seq, parent, row["content"], row["chunks"], 1_700_000_000_000 + seq),
    )


def put_old(db: sqlite3.Connection, message: dict[str, Any], parent: str | None, at: str, session: str = "") -> None:
    row = (message["id"], session, parent, json.dumps(message), at)
    db.execute("INSERT INTO assistant_messages VALUES (?,?,?,'user',?,?)", row)


def everything(path: Path) -> list[tuple[Transcript, list[ImportEntry]]]:
    return [(transcript, list(transcript.entries)) for transcript in read(path)]


def one(path: Path) -> tuple[Transcript, list[ImportEntry]]:
    [found] = everything(path)
    return found


def tree(entries: list[ImportEntry]) -> list[tuple[str, str | None]]:
    return [(entry.id, entry.parent) for entry in entries]


def test_branches_come_in_order_with_their_times(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA)
    messages = [ui("a"), ui("b", n=9007199254740993), ui("c")]
    put(db, messages[0], 1, None)
    put(db, messages[2], 3, "a")
    put(db, messages[1], 2, "a")
    transcript, entries = one(path)
    assert tree(entries) == [("a", None), ("b", "a"), ("c", "a")]
    assert [entry.message for entry in entries] == messages
    assert entries[1].created_at == dt.datetime(2023, 11, 14, 22, 13, 20, 2000, dt.timezone.utc)
    assert (transcript.id, transcript.format, transcript.leaf, transcript.count) == ("s", "cloudflare", "c", 3)
    assert transcript.report.count == 0


def test_sessions_are_kept_apart_and_the_nameless_one_gets_a_name(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA)
    for session in ("", "x"):
        put(db, ui("a", session), 1, None, session)
    found = everything(path)
    assert [transcript.metadata["imported"]["session_id"] for transcript, _ in found] == ["", "x"]
    assert found[0][0].id.startswith("agent-")
    assert found[0][0].id == everything(path)[0][0].id
    assert found[1][0].id == "x"
    assert [entries[0].message["parts"][0]["text"] for _, entries in found] == ["", "x"]


def test_slices_are_joined_and_a_missing_one_is_reported(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA)
    text = json.dumps(ui("a", "é" * 500), ensure_ascii=False)
    for n, (id, parent) in enumerate([("a", None), ("torn", "a"), ("c", "torn")], 1):
        content = text.replace('"a"', f'"{id}"')
        put(db, {"id": id}, n, parent, content=content[:100], chunks=2)
        for idx, piece in enumerate((content[100:200], content[200:]), 1):
            if (id, idx) != ("torn", 2):
                db.execute("INSERT INTO cf_agents_session_message_chunks VALUES ('s',?,?,?)", (id, idx, piece))
    transcript, entries = one(path)
    assert tree(entries) == [("a", None), ("c", "a")]
    assert entries[0].message == ui("a", "é" * 500)
    assert [(problem.line, problem.lost) for problem in transcript.report.problems] == [(2, True)]
    assert "1 of its 2" in transcript.report.problems[0].reason


def test_a_key_that_comes_twice_is_reported_and_its_row_is_there(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA)
    text = json.dumps(ui("a", "x")).replace('"role"', '"more": 1, "more": 2, "role"')
    put(db, {"id": "a"}, 1, None, content=text)
    transcript, entries = one(path)
    assert [entry.message["more"] for entry in entries] == [2]
    assert [(problem.line, problem.lost) for problem in transcript.report.problems] == [(1, True)]
    assert "twice" in transcript.report.problems[0].reason


def attach(db: sqlite3.Connection, hash: str, *holders: str) -> None:
    db.execute("INSERT INTO cf_agents_session_attachment_meta VALUES (?,?,'image/png',2)", (hash, len(PIXEL)))
    for idx, piece in enumerate((PIXEL[:1000], PIXEL[1000:])):
        db.execute("INSERT INTO cf_agents_session_attachment_chunks VALUES (?,?,?)", (hash, idx, piece))
    for holder in holders:
        db.execute("INSERT INTO cf_agents_session_attachment_refs VALUES ('s',?,?)", (holder, hash))


def test_attachments_are_put_back_where_the_message_holds_them(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA)
    pointer = f"attachment:sha256:{HASH}"
    nested: dict[str, Any] = {"type": "tool-x", "output": {"list": [{"mediaType": "image/png", "data": pointer}]}}
    parts = [{"type": "file", "mediaType": "image/png", "url": pointer}, nested, {"type": "text", "text": pointer}]
    attach(db, HASH, "a")
    put(db, ui("a", parts=parts), 1, None)
    put(db, ui("forged", parts=parts[:1]), 2, "a")
    transcript, entries = one(path)
    payload = base64.b64encode(PIXEL).decode()
    assert entries[0].message["parts"][0]["url"] == f"data:image/png;base64,{payload}"
    assert entries[0].message["parts"][1]["output"]["list"][0]["data"] == payload
    assert entries[0].message["parts"][2]["text"] == pointer
    assert entries[1].message["parts"][0]["url"] == pointer
    assert [(problem.line, problem.lost) for problem in transcript.report.problems] == [(2, False)]


def test_a_damaged_attachment_stays_a_pointer_and_is_reported(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA)
    pointer = f"attachment:sha256:{HASH}"
    attach(db, HASH, "a")
    put(db, ui("a", parts=[{"type": "file", "url": pointer}]), 1, None)
    db.execute("UPDATE cf_agents_session_attachment_chunks SET data = x'00' WHERE idx = 1")
    transcript, entries = one(path)
    assert entries[0].message["parts"][0]["url"] == pointer
    assert "damaged" in transcript.report.problems[0].reason


def test_damaged_rows_are_reported_and_their_children_attached(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA)
    put(db, ui("a"), 1, None)
    put(db, {"id": "bad"}, 2, "a", content='{"id": "bad"')
    put(db, {"id": "odd"}, 3, "bad", content='{"id": "odd", "what": 1}')
    put(db, ui("d"), 4, "odd")
    put(db, ui("e"), 5, "gone")
    put(db, ui("inner"), 6, "d", id="outer")
    db.execute("UPDATE cf_agents_session_messages SET content = CAST(x'7b22ff' AS TEXT) WHERE id = 'bad'")
    transcript, entries = one(path)
    assert tree(entries) == [("a", None), ("d", "a"), ("e", None), ("outer", "d")]
    assert entries[3].message == {**ui("outer"), "importedId": "inner"}
    assert [(problem.line, problem.lost) for problem in transcript.report.problems] == [
        (2, True),
        (3, True),
        (5, False),
    ]
    assert transcript.count == 4


def test_compactions_and_configuration_go_to_the_metadata(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA)
    put(db, ui("a"), 1, None)
    db.execute("INSERT INTO cf_agents_session_compactions VALUES ('s','k',1,'sum','a','a',5)")
    db.execute("INSERT INTO cf_agents_session_config VALUES ('s','key','value')")
    kept = one(path)[0].metadata["imported"]
    assert kept["compactions"][0]["summary"] == "sum"
    assert kept["config"] == [{"session_id": "s", "key": "key", "value": "value"}]


def test_legacy_tables_are_read_in_order_of_time(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(LEGACY)
    put_old(db, ui("b"), "a", "2025-01-01 00:00:02", "s")
    put_old(db, ui("a"), None, "2025-01-01 00:00:01", "s")
    put_old(db, ui("c"), "a", "2025-01-01 00:00:02", "s")
    db.execute(
        "INSERT INTO assistant_sessions VALUES ('s','Named','p','m','2025-01-01 00:00:00'), ('empty','E',NULL,NULL,NULL)"
    )
    db.execute(
        "INSERT INTO assistant_compactions (id, session_id, summary, from_message_id, to_message_id) VALUES ('k','s','x','a','b')"
    )
    [(first, entries), (second, none)] = everything(path)
    assert tree(entries) == [("a", None), ("b", "a"), ("c", "a")]
    assert (first.id, first.name, first.leaf) == ("s", "Named", "c")
    assert entries[0].created_at == dt.datetime(2025, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)
    assert first.metadata["imported"]["header"]["parent_session_id"] == "p"
    assert first.metadata["imported"]["compactions"][0]["id"] == "k"
    assert (second.id, second.name, none) == ("empty", "E", [])


def test_flat_chat_tables_are_a_chain(path: Path, db: sqlite3.Connection) -> None:
    db.execute(CHAT)
    old_style = {"id": "b", "role": "assistant", "content": "before parts"}
    for message, at in (
        (old_style, "2025-01-01 00:00:01"),
        (ui("c"), "2025-01-01 00:00:01"),
        (ui("a"), "2025-01-01 00:00:00"),
    ):
        db.execute("INSERT INTO cf_ai_chat_agent_messages VALUES (?,?,?)", (message["id"], json.dumps(message), at))
    transcript, entries = one(path)
    assert tree(entries) == [("a", None), ("b", "a"), ("c", "b")]
    assert entries[1].message == old_style
    assert transcript.metadata["imported"]["table"] == "cf_ai_chat_agent_messages"


def test_legacy_rows_beside_the_new_tables_are_read_only_if_they_were_not_copied(
    path: Path, db: sqlite3.Connection
) -> None:
    db.executescript(SCHEMA + LEGACY)
    for session in ("copied", "partly"):
        put(db, ui(session), 1, None, session)
        put_old(db, ui(session), None, "2025-01-01 00:00:00", session)
    put_old(db, ui("left"), "partly", "2025-01-01 00:00:01", "partly")
    assert [transcript.id for transcript, _ in everything(path)] == ["copied", "partly", "partly-assistant"]


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in folder.iterdir()}


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_source_is_not_touched(path: Path, db: sqlite3.Connection, mode: str) -> None:
    db.executescript(f"PRAGMA journal_mode = {mode};" + SCHEMA)
    put(db, ui("a"), 1, None)
    before = state(path.parent)
    assert ("agent.sqlite-wal" in before) == (mode == "wal")
    assert tree(one(path)[1]) == [("a", None)]
    assert state(path.parent) == before


def test_a_closed_database_in_wal_mode_gets_no_files_beside_it(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript("PRAGMA journal_mode = wal;" + SCHEMA)
        put(db, ui("a"), 1, None)
    assert tree(one(path)[1]) == [("a", None)]
    assert os.listdir(path.parent) == ["agent.sqlite"]


def test_a_source_that_keeps_changing_is_refused(
    path: Path, db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.executescript("PRAGMA journal_mode = wal;" + SCHEMA)
    put(db, ui("a"), 1, None)
    sizes = iter(range(100))
    monkeypatch.setattr(reader._Copy, "_state", lambda _: [(next(sizes), 0)])  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(UsageError, match="being written"):
        list(reader.read(path))


def test_a_chain_of_5_000_rows_is_read(path: Path, db: sqlite3.Connection) -> None:
    db.executescript(SCHEMA + "BEGIN")
    for n in range(5000):
        put(db, ui(f"m{n}"), n + 1, f"m{n - 1}" if n else None)
    db.execute("COMMIT")
    assert tree(one(path)[1])[-1] == ("m4999", "m4998")
