"""How PostgreSQL finds what a statement names: by an index, unless there is a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from plait.store.postgres.statements import load
from tests.postgres_server import database

STATEMENTS = load()
SCANS = {
    "find_session": "the newest tick is the last of its index",
    "turn_tick": "the newest tick is the last of its index",
    "tick": "the newest ticks are the last of their index",
    "search_pending": "the first rows of the table are asked for",
    "stages": "the partial index has only what is being staged",
    "lapsed_uploads": "the table holds only payloads put ahead and not yet used",
    "purges": "the table holds only lives that are being removed",
    "mark_all_behind": "the search index is made anew",
    "search_is_on": "the table has one row or none",
    "switch_search_off": "the table has one row or none",
    "search_all_behind": "all that is to be indexed is asked for",
    "search_left": "all that is to be indexed is counted",
    "clear_words": "the search index is made anew",
    "clear_search_progress": "the search index is made anew",
    "clear_search_behind": "the search index is made anew",
    "clear_search_pending": "the search index is made anew",
    "values_gone": "the table holds only what is to be indexed",
    "sessions_with_pending_values": "a purge looks at all that was ever indexed",
    "sessions_with_stale_texts": "an erasure looks at all overlays",
    "removals": "the table holds only what is being removed",
    "any_removal": "the table holds only what is being removed",
}


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    # A fresh one: in one that another test has vacuumed the planner knows that the tables are empty, and takes any index.
    with database(fresh=True) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        yield connection


def scanned(plan: Any) -> Iterator[str]:
    """The tables of ours that a plan reads from end to end."""
    narrowed = "Index Cond" in plan or plan["Node Type"] == "Bitmap Heap Scan"
    if (
        plan.get("Schema", "plait") == "plait"
        and plan.get("Relation Name")
        and not narrowed
        and "Scan" in plan["Node Type"]
    ):
        yield plan["Relation Name"]
    for below in plan.get("Plans", []):
        yield from scanned(below)


def explained(connection: psycopg.Connection[Any], name: str) -> list[str]:
    query = b"EXPLAIN (GENERIC_PLAN, FORMAT JSON) " + STATEMENTS[name].query
    row = connection.execute(query).fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return sorted(set(scanned(plan[0]["Plan"])))


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_reads_a_table_from_end_to_end_without_a_reason(
    connection: psycopg.Connection[Any], name: str
) -> None:
    found = explained(connection, name)
    assert not found or name in SCANS, found


@pytest.mark.parametrize("name", SCANS)
def test_a_reason_is_still_needed(connection: psycopg.Connection[Any], name: str) -> None:
    assert explained(connection, name)
