"""The statements of the SQLite driver: each is named, found by an index, and bound as plans give it."""

from __future__ import annotations

import re

import apsw
import pytest

from plait.store.sqlite import connection as files
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.statements import Statement, load, migrations, parse

STATEMENTS = load()

# What a statement may do though it looks like more than an index look-up, and why that is right.
SORTS = {
    "keys_by_seq": "an export of all branches is in order of arrival, across strands; it sorts keys, not rows",
    "search_any_best": "hits that are as good as one another come newest first",
    "search_best": "hits that are as good as one another come newest first",
    "search_scope_best": "hits that are as good as one another come newest first",
    "search_values": "hits that are as good as one another come newest first",
    "appends_by_seq": "a feed delivers insertions in order of arrival, across strands, a stretch of seqs at a time",
}
SCANS = {
    "purges": "the table holds only lives that are being removed",
    "removals": "the table holds only big deletes whose rows are being removed",
    "spoil_removals": "the table holds only big deletes whose rows are being removed",
    "sessions_with_stale_texts": "a purge looks at every overlay",
    "lapsed_uploads": "the table holds only payloads put ahead and not yet used",
    "search_is_on": "the table has one row or none",
    "keep_search_on": "the table has one row or none",
    "switch_search_anew": "the table has one row or none",
    "search_mark": "the table has one row or none",
    "mark_all_behind": "the first search marks every session",
    "search_all_behind": "all that is to be indexed is asked for",
    "search_left": "all that is to be indexed is counted",
    "search_pending": "the first rows of the table are asked for",
    "count_words": "what is indexed is counted",
    "count_value_words": "what is indexed is counted",
    "values_were_indexed": "the first row of the table is asked for",
}


@pytest.fixture(scope="module")
def database() -> apsw.Connection:
    """An empty database with the newest schema."""
    return files.open_writer(Settings(files.MEMORY))


def explained(database: apsw.Connection, statement: Statement) -> list[str]:
    """The lines of the query plan."""
    bindings = dict.fromkeys(statement.parameters, "[]")
    rows = database.execute(f"EXPLAIN QUERY PLAN {statement.text}", bindings).fetchall()
    return [str(row[3]) for row in rows]


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_scans_a_table_without_a_reason(database: apsw.Connection, name: str) -> None:
    tables = {str(row[0]) for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    scanned = [line for line in explained(database, STATEMENTS[name]) if line.startswith("SCAN")]
    whole = [line for line in scanned if line.split()[1] in tables and " USING " not in line and "VIRTUAL" not in line]
    assert not whole or name in SCANS, whole


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_sorts_without_a_reason(database: apsw.Connection, name: str) -> None:
    sorts = [line for line in explained(database, STATEMENTS[name]) if "TEMP B-TREE" in line and "DISTINCT" not in line]
    assert not sorts or name in SORTS, sorts


@pytest.mark.parametrize("name", [*SORTS, *SCANS])
def test_a_reason_is_still_needed(database: apsw.Connection, name: str) -> None:
    lines = explained(database, STATEMENTS[name])
    assert any("TEMP B-TREE" in line if name in SORTS else line.startswith("SCAN") for line in lines)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_has_a_line_that_says_what_for(name: str) -> None:
    text = "\n".join(f"-- {name}\n-- A purpose.\nSELECT 1;".splitlines())
    assert parse(text)[name].text == "SELECT 1"
    assert not re.match(r"\s*--", STATEMENTS[name].text), "the purpose is one line"


@pytest.mark.parametrize("name", ["save_sessions", "add_message", "add_message_id", "add_strand", "add_activity"])
def test_a_statement_that_takes_many_rows_takes_as_many_values(database: apsw.Connection, name: str) -> None:
    statement = STATEMENTS[name]
    for size, text in statement.many.items():
        assert text.count("?") == size * len(statement.parameters)
        database.execute(f"EXPLAIN {text}", [0] * text.count("?")).fetchall()


def test_a_statement_without_a_row_of_values_cannot_be_repeated() -> None:
    with pytest.raises(ValueError, match="find_message has no VALUES row"):
        _ = STATEMENTS["find_message"].many


def test_the_schema_made_at_once_is_the_one_made_step_by_step(database: apsw.Connection) -> None:
    stepwise = apsw.Connection(":memory:")
    for version, script in migrations():
        stepwise.execute(script)
        stepwise.execute(f"PRAGMA user_version = {version}")
    sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    assert stepwise.execute(sql).fetchall() == database.execute(sql).fetchall()


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [version for version, _ in migrations()] == list(range(1, files.newest_version() + 1))
