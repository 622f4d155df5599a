"""How PostgreSQL finds what a statement names, in tables with many rows: by an index, unless there is a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from plait.store.postgres.statements import load, own
from tests.postgres_server import database

STATEMENTS = {**load(), **own()}
ASKING = [name for name, s in STATEMENTS.items() if s.text.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"))]
ROWS, FEW, HOMES = 10_000, 1_000, 400
"""Rows of a table, of one that holds only what is being worked on, and over how many homes they are spread."""

WORKED_ON = {"purge", "removal", "removal_range", "search_behind", "search_pending", "value_pending", "upload", "lease"}

SCANS = {
    "find_session": ("tick", "the newest tick is the last of its index"),
    "claim_id": ("tick", "the newest tick is the last of its index"),
    "claim_ids": ("tick", "the newest tick is the last of its index"),
    "turn_tick": ("tick", "the newest tick is the last of its index"),
    "tick": ("tick", "the newest ticks are the last of their index"),
    "search_pending": ("search_pending", "what is gone of all that is out of date is asked for"),
    "stages": ("session", "the partial index has only what is being staged"),
    "lapsed_uploads": ("upload", "the table holds only payloads put ahead and not yet used"),
    "purges": (
        "purge session",
        "lives that are being removed; where these are many, a join with all sessions is the best",
    ),
    "mark_all_behind": ("session", "the search index is made anew"),
    "search_is_on": ("search_on", "the table has one row or none"),
    "switch_search_anew": ("search_on", "the table has one row or none"),
    "keep_search_on": ("search_on", "the table has one row or none"),
    "search_all_behind": ("search_behind session", "all that is to be indexed is asked for"),
    "search_left": ("search_behind session", "all that is to be indexed is counted"),
    "clear_words": ("message_words", "the search index is made anew"),
    "clear_search_progress": ("search_progress", "the search index is made anew"),
    "clear_search_behind": ("search_behind", "the search index is made anew"),
    "clear_search_pending": ("search_pending", "the search index is made anew"),
    "values_gone": ("value_pending value", "the table holds only what is to be indexed"),
    "sessions_with_pending_values": (
        "value_progress shelf value_pending",
        "a purge looks at all that was ever indexed",
    ),
    "sessions_with_stale_texts": ("overlay", "an erasure looks at all overlays"),
    "removals": ("removal", "the table holds only what is being removed"),
    "schema_version": ("meta", "the table has one row"),
    "lock_schema": ("meta", "the table has one row"),
    "note_schema": ("meta", "the table has one row"),
    "any_removal": ("removal", "the table holds only what is being removed"),
}
"""Statements that read tables from end to end, which, and why that is right."""

VALUES = {
    "uuid": f"md5((n % {HOMES})::text)::uuid",
    "bigint": "n",
    "text": "'t' || n",
    "bytea": "convert_to('b' || n, 'UTF8')",
    "tsvector": "array_to_tsvector(ARRAY['w' || n])",
    "xid8": "'0'::xid8",
}
ALIKE = {"live": "1", "there": "1"}
"""Columns that are the same in nearly all rows."""

COLUMNS = """
SELECT c.table_name, array_agg(c.column_name::text), array_agg(c.data_type::text)
  FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
 WHERE c.table_schema = 'plait' AND t.table_type = 'BASE TABLE' AND c.is_identity = 'NO'
   AND c.table_name NOT IN ('meta', 'search_on') GROUP BY c.table_name
"""


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    with database(fresh=True) as url, psycopg.connect(url, autocommit=True) as connection:
        for table, columns, types in connection.execute(COLUMNS).fetchall():
            values = ", ".join(ALIKE.get(column, VALUES[type]) for column, type in zip(columns, types, strict=True))
            rows = FEW if table in WORKED_ON else ROWS
            connection.execute(
                f"INSERT INTO plait.{table} ({', '.join(columns)}) "
                f"SELECT {values} FROM generate_series(2, {rows}) AS n".encode()
            )
        connection.execute("VACUUM (ANALYZE)")
        yield connection


def scanned(plan: Any) -> Iterator[str]:
    """The tables of ours that a plan reads from end to end."""
    narrowed = "Index Cond" in plan or plan["Node Type"] == "Bitmap Heap Scan"
    table = plan.get("Relation Name", "pg_")
    if not table.startswith("pg_") and not narrowed and "Scan" in plan["Node Type"]:
        yield table
    for below in plan.get("Plans", []):
        yield from scanned(below)


def explained(connection: psycopg.Connection[Any], name: str) -> set[str]:
    query = b"EXPLAIN (GENERIC_PLAN, FORMAT JSON) " + STATEMENTS[name].query
    row = connection.execute(query).fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return set(scanned(plan[0]["Plan"]))


@pytest.mark.parametrize("name", ASKING)
def test_a_statement_reads_no_table_from_end_to_end_without_a_reason(
    connection: psycopg.Connection[Any], name: str
) -> None:
    tables, _ = SCANS.get(name, ("", ""))
    found = explained(connection, name)
    assert found <= set(tables.split()) and bool(found) == bool(tables)


def test_a_path_is_looked_up_strand_by_strand_before_the_server_has_counted_them() -> None:
    """Its statistics say two rows: read from end to end for each of 256 they took half a second, and a checkout forty times that."""
    with database(fresh=True) as url, psycopg.connect(url, autocommit=True) as connection:
        insert = "INSERT INTO plait.strand SELECT {}::uuid, n, 1, n - 1, 1 FROM generate_series(1, {}) AS n"
        connection.execute(insert.format("md5(n::text)", 2).encode())
        connection.execute("ANALYZE plait.strand")
        connection.execute(insert.format("md5('')", 8000).encode())
        connection.execute(b"PREPARE chain AS " + STATEMENTS["strand_chain"].query)
        explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE chain (md5('')::uuid, 8000, 256)"
        row = connection.execute(explain).fetchone()
        assert row is not None
        plan = row[0][0]["Plan"]
        assert plan["Actual Rows"] == 256
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 10 * 256
