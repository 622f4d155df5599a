"""Reading the context blocks and search entries that Cloudflare's Agents SDK keeps beside its sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from plait.interchange.common import is_legal_id, moment
from plait.interchange.values import ImportValue, Report
from plait.logic.blocks import PROMPT_LABEL

BLOCKS: Final = "cf_agents_context_blocks"
ENTRIES: Final = ("cf_agents_search_entries", "cf_agents_search_fts")
"""The older table with a row for each entry, and the index that the newer ones keep alone."""

PROMPT: Final = "_system_prompt"
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def values(db: sqlite3.Connection, session: str, sessions: Sequence[str], report: Report) -> Iterator[ImportValue]:
    """The blocks, the frozen prompt and the entries of one session of the file.

    A block is kept under its label, followed by `_` and the session's id where the session has one
    of its own; one without that is shared by all sessions that have none, and so are search entries.
    """
    for label, content, at in _blocks(db, session, sessions):
        yield from _checked(report, PROMPT_LABEL if label == PROMPT else label, "", content, at)
    for label, key, content, at in _entries(db):
        yield from _checked(report, label, key, content, at)


def _blocks(db: sqlite3.Connection, session: str, sessions: Sequence[str]) -> list[tuple[str, Any, Any]]:
    columns = _columns(db, BLOCKS)
    if not {"label", "content"} <= columns:
        return []
    at = "updated_at" if "updated_at" in columns else "NULL"
    rows = {str(row[0]): (row[1], row[2]) for row in db.execute(f"SELECT label, content, {at} FROM {BLOCKS}")}
    own = {
        name.removesuffix(f"_{session}"): row for name, row in rows.items() if session and name.endswith(f"_{session}")
    }
    shared = {name: row for name, row in rows.items() if not any(one and name.endswith(f"_{one}") for one in sessions)}
    return [(label, *row) for label, row in sorted({**shared, **own}.items())]


def _entries(db: sqlite3.Connection) -> Iterator[tuple[Any, Any, Any, Any]]:
    for table in ENTRIES:
        columns = _columns(db, table)
        if {"label", "key", "content"} <= columns:
            at = "updated_at" if "updated_at" in columns else "NULL"
            yield from db.execute(f"SELECT label, key, content, {at} FROM {table} ORDER BY label, key")
            return


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    try:
        return {str(row[0]) for row in db.execute(_COLUMNS, (table,))}
    except sqlite3.OperationalError:  # a virtual table of a module that this SQLite does not have
        return set()


def _checked(report: Report, label: Any, key: Any, content: Any, at: Any) -> Iterator[ImportValue]:
    """The value, or nothing and a word in the report if it cannot be kept under its name."""
    if not (isinstance(label, str) and is_legal_id(label) and isinstance(key, str) and (key == "" or is_legal_id(key))):
        report.add(0, f"block {label!r:.80} {key!r:.80} has a name that cannot be used", str(content or ""), lost=True)
        return
    if content is not None:
        yield ImportValue(label, key, content if isinstance(content, str) else str(content), None, {}, None, _time(at))


def _time(at: Any) -> Any:
    return moment(at / 1000 if isinstance(at, int | float) else at)
