"""Context blocks and search entries of Cloudflare's tables are read with their session."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import plait
from plait import interchange
from plait.interchange import cloudflare as reader
from tests.unit.test_interchange_cloudflare import LEGACY, SCHEMA, put, ui

BLOCKS = (
    "CREATE TABLE cf_agents_context_blocks (label TEXT PRIMARY KEY, content TEXT NOT NULL, updated_at INTEGER NOT NULL)"
)
FTS = (
    "CREATE VIRTUAL TABLE cf_agents_search_fts USING fts5 (label, key UNINDEXED, content, tokenize='porter unicode61')"
)
ENTRIES = "CREATE TABLE cf_agents_search_entries (label TEXT, key TEXT, content TEXT, created_at, updated_at)"


def file(path: Path, *scripts: str, sessions: tuple[str, ...] = ("s", "t")) -> Path:
    """A file with a message in each session, and some blocks."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(SCHEMA + ";".join([BLOCKS, *scripts]))
        for session in sessions:
            put(db, ui(f"m-{session}"), 1, None, session)
        rows = [("memory", "shared"), ("memory_s", "of s"), ("soul", "kind"), ("_system_prompt_t", "frozen of t")]
        db.executemany("INSERT INTO cf_agents_context_blocks VALUES (?, ?, 1700000000000)", rows)
    return path


def values(path: Path) -> dict[str, list[tuple[str, str, str | None]]]:
    found = {}
    for transcript in reader.read(path):
        list(transcript.entries)
        found[transcript.id] = [(value.label, value.key, value.content) for value in transcript.values]
        assert transcript.report.problems == []
    return found


def test_a_block_belongs_to_the_session_that_its_label_names_or_to_all(tmp_path: Path) -> None:
    assert values(file(tmp_path / "a.sqlite")) == {
        "s": [("memory", "", "of s"), ("soul", "", "kind")],
        "t": [("plait:prompt", "", "frozen of t"), ("memory", "", "shared"), ("soul", "", "kind")],
    }


def test_search_entries_are_read_from_their_table_or_from_the_index(tmp_path: Path) -> None:
    entry = "INSERT INTO {} (label, key, content) VALUES ('notes', 'gate', 'code 4711')"
    older = file(tmp_path / "a.sqlite", ENTRIES, entry.format("cf_agents_search_entries"), sessions=("s",))
    newer = file(tmp_path / "b.sqlite", FTS, entry.format("cf_agents_search_fts"), sessions=("s",))
    assert values(older)["s"][-1] == values(newer)["s"][-1] == ("notes", "gate", "code 4711")


def test_blocks_of_the_legacy_tables_come_along_and_odd_names_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(LEGACY + BLOCKS)
        row = ("m", "", None, '{"id":"m","role":"user","parts":[]}', "2026-01-01 10:00:00")
        db.execute("INSERT INTO assistant_messages VALUES (?,?,?,'user',?,?)", row)
        db.execute("INSERT INTO cf_agents_context_blocks VALUES ('  ', 'x', 1)")
        db.execute("INSERT INTO cf_agents_context_blocks VALUES ('memory', 'legacy', '2026-01-01 10:00:00')")
    with plait.open(tmp_path / "store.db") as sessions:
        (report,) = interchange.import_file(sessions, path)
        (value,) = sessions.session(report.session_id).value_versions()
        assert (value.label, value.content, value.written_at.year) == ("memory", "legacy", 2026)
        assert report.report.lost == 1
