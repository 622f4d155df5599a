"""The statements of the PostgreSQL driver: those of SQLite, by the rules that let a database spread its tables by session."""

from __future__ import annotations

import ast as python
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import plait.store.postgres
from plait.store.postgres import schema
from plait.store.postgres import statements as postgres
from plait.store.postgres.statements import Statement
from plait.store.sqlite import statements as sqlite
from tests.sql import rules

OURS, THEIRS = postgres.load(), sqlite.load()
OWN = postgres.own()
ALL = {**OURS, **OWN}
HINTS = postgres.parse(postgres.read("hints.sql"))
INDEXES = [index for _, script in postgres.migrations() for index in rules.indexes(script)]
CHANGED = {name: rules.changed(statement) for name, statement in ALL.items()}

LOOKING_AFTER = ["doctor.sql", "mend.sql", "inspect.sql"]
BY_PAYLOAD = {"unused_attachments": "a payload's number is its own in the whole store"}
"""Statements of the doctor that join two tables by something else than the home."""

MOVES = {
    "rename_session": "a hidden session is published, once",
    "move_changes": "a hidden session is published, once",
    "move_info": "a hidden session is published, once",
    "move_shelf": "a hidden session is published, once",
    "raise_value_texts": "a hidden session is published, once",
    "raise_value_slices": "a hidden session is published, once",
    "graft_strand": "staged messages become a session's, once",
    "graft_message_ids": "staged messages become a session's, once",
    "graft_overlays": "staged messages become a session's, once",
    "graft_changes": "staged messages become a session's, once",
    "finish_attachment": "a payload has been put, once",
    "move_chunks": "a payload has been put, once",
    "move_upload": "a payload has been put, once",
    "show_removal": "a big delete goes on, at most twice",
    "spoil_removals": "a big delete goes on, at most twice",
    "add_words": "the search index is brought up to date, after appends and not in them",
    "add_value_words": "the search index is brought up to date, after appends and not in them",
}
"""Statements that change what an index has: none is part of an append."""

BUILT = {
    "executor.py": [b"DECLARE plait_rows NO SCROLL CURSOR FOR ", b"FETCH %d FROM plait_rows", b"CLOSE plait_rows"],
    "schema.py": ["BEGIN;\n\n", "\n\nCOMMIT;\n", "CREATE TABLE plait."],
}
"""The texts of SQL in Python. The executor reads rows until they reach a budget of bytes, through a cursor that ends with
its transaction; the rest is a script for whoever makes the schema by hand."""

WORDS = re.compile(
    r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SET|RESET|DECLARE|FETCH|MOVE|CLOSE"
    r"|LISTEN|UNLISTEN|NOTIFY|PREPARE|EXECUTE|DEALLOCATE|DISCARD|LOCK|CREATE|DROP|ALTER|TRUNCATE|COPY|VACUUM|CALL|DO|ANALYZE)\s"
)


def test_both_dialects_have_the_same_statements() -> None:
    assert list(OURS) == list(THEIRS)


@pytest.mark.parametrize("name", THEIRS)
def test_a_statement_takes_the_same_parameters_in_both_dialects(name: str) -> None:
    assert OURS[name].parameters == THEIRS[name].parameters


@pytest.mark.parametrize("name", [*ALL, *HINTS])
def test_every_statement_is_of_one_home_and_does_nothing_that_a_pooler_or_a_distributed_database_would_break(
    name: str,
) -> None:
    assert rules.faults({**ALL, **HINTS}[name]) == []


@pytest.mark.parametrize("name", rules.MANY_SESSIONS)
def test_a_reason_to_look_at_many_sessions_is_still_needed(name: str) -> None:
    statement = OURS[name]
    assert "home" not in statement.given
    assert [fault for stmt in rules.parse(statement.query.decode()) for fault in rules.loose(statement, stmt)]


EVERYTHING = {**ALL, **HINTS, **postgres.parse(postgres.read("inspect.sql"))}
OTHERWISE = {*rules.KINDS_OF, *rules.FUNCTIONS_OF, *rules.TYPES_OF}


@pytest.mark.parametrize("name", sorted(OTHERWISE & EVERYTHING.keys()))
def test_a_reason_to_be_otherwise_is_still_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed in (rules.KINDS_OF, rules.FUNCTIONS_OF, rules.TYPES_OF):
        monkeypatch.delitem(allowed, name, raising=False)  # type: ignore[arg-type]
    assert rules.faults(EVERYTHING[name], homes=False)


@pytest.mark.parametrize("name", ["save_sessions", "add_message", "add_message_id", "add_strand", "add_activity"])
def test_a_statement_that_takes_many_rows_takes_as_many_values(name: str) -> None:
    statement = OURS[name]
    for size, query in statement.many.items():
        numbers = {int(n) for n in re.findall(rb"\$(\d+)", query)}
        assert numbers == set(range(1, len(statement.given) + size * len(statement.parameters) + 1))
        rules.parse(query.decode())


# -- writes


def test_the_update_that_begins_an_append_checks_fence_version_and_life() -> None:
    assert rules.fence_faults(OWN["advance_session"]) == []


def test_hints_are_the_only_statements_of_a_session_and_touch_no_table() -> None:
    assert list(HINTS) == ["hint", "listen", "unlisten"]
    for statement in HINTS.values():
        assert not any(statement.names_table(table) for table in tables())
    notifies = [name for name, statement in {**ALL, **HINTS}.items() if "notify" in statement.text.lower()]
    assert notifies == ["hint"]


@pytest.mark.parametrize(
    "path", sorted(Path(plait.store.postgres.__file__).parent.rglob("*.py")), ids=lambda path: path.name
)
def test_python_builds_no_statement_but_a_cursor_of_its_transaction(path: Path) -> None:
    built = list(built_in(path.read_text(encoding="utf-8")))
    assert [text for text in built if text not in BUILT.get(path.name, ())] == []
    if path.name == "executor.py":
        assert sorted(map(bytes, BUILT[path.name])) == sorted(built)  # type: ignore[arg-type]
        assert [fault for text in built for fault in rules.built_faults(_text(text))] == []


def built_in(source: str) -> Iterator[str | bytes]:
    """The texts of SQL in a module's source."""
    for node in python.walk(python.parse(source)):
        if isinstance(node, python.Constant) and isinstance(node.value, str | bytes) and WORDS.match(_text(node.value)):
            yield node.value


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


# -- migrations


@pytest.mark.parametrize(("version", "script"), postgres.migrations(), ids=lambda value: str(value)[:2])
def test_a_migration_adds_tables_columns_and_indexes_by_the_rules(version: int, script: str) -> None:
    assert rules.schema_faults(script) == []


@pytest.mark.parametrize("parts", [1, 3])
def test_tables_in_parts_are_by_the_same_rules(parts: int) -> None:
    for _, script in postgres.migrations():
        made = schema.parted(script, parts)
        kept = [stmt for stmt in rules.parse(made) if not getattr(stmt, "partbound", None)]
        assert len(kept) == len(rules.parse(script))
        assert [fault for stmt in kept for fault in rules.schema_faults(rules.RawStream()(stmt))] == []


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [version for version, _ in postgres.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def tables() -> list[str]:
    made = [stmt for _, script in postgres.migrations() for stmt in rules.parse(script)]
    return [stmt.relation.relname for stmt in made if isinstance(stmt, rules.ast.CreateStmt)]


def test_what_the_view_reads_is_of_one_home_in_each_row() -> None:
    for _, script in postgres.migrations():
        for stmt in rules.parse(script):
            if isinstance(stmt, rules.ast.ViewStmt):
                view = Statement("messages_view", rules.RawStream()(stmt.query))
                (select,) = rules.parse(view.text)
                assert rules.loose(view, select, free=1) == []
                return
    raise AssertionError("there is no view")


# -- indexes


def moved() -> Iterator[tuple[str, str, str]]:
    """Statements that change columns of an index: their names, the table, the index."""
    for name, (table, columns) in CHANGED.items():
        for on, index, indexed in INDEXES:
            if on == table and columns & indexed:
                yield name, table, index


def test_no_index_has_a_column_that_a_write_changes_without_a_reason() -> None:
    """Each version of such a row would be a new entry in every index of its table."""
    assert {name for name, _, _ in moved()} == set(MOVES)


@pytest.mark.parametrize("name", ["add_message", "add_message_id", "claim_id", "claim_ids", "add_messages"])
def test_what_an_append_adds_to_has_its_primary_key_and_no_other_index(name: str) -> None:
    (stmt,) = rules.parse(ALL[name].query.decode())
    assert [index for table, index, _ in INDEXES if table == stmt.relation.relname] == ["CONSTR_PRIMARY"]


# -- the doctor, row security


@pytest.mark.parametrize("file", ["doctor.sql", "mend.sql"])
def test_the_doctor_has_the_same_rules_in_both_dialects(file: str) -> None:
    ours, theirs = postgres.parse(postgres.read(file)), sqlite.parse(sqlite.read(file))
    assert sorted(ours) == sorted(theirs)
    assert [statement.parameters for statement in ours.values() if statement.parameters] == []


@pytest.mark.parametrize("file", LOOKING_AFTER)
def test_what_the_doctor_asks_joins_rows_of_one_home_or_scope(file: str) -> None:
    """One table may be looked at from end to end; whatever else is asked for is joined to its rows by home or scope."""
    for name, statement in postgres.parse(postgres.read(file)).items():
        assert rules.faults(statement, homes=False) == [], name
        assert bool(joined_loosely(statement)) == (name in BY_PAYLOAD), name


def joined_loosely(statement: Statement) -> list[str]:
    """What a statement of the doctor looks for in more than one home, but for one table, if it is told of none."""
    free = int(not statement.given)
    parsed = [stmt for stmt in rules.parse(statement.query.decode()) if isinstance(stmt, rules.KINDS)]
    return [fault for stmt in parsed for fault in rules.loose(statement, stmt, free=free)]


def test_row_security_is_what_the_server_can_parse_and_every_policy_names_who_asks() -> None:
    script = schema.secured("app")
    rules.parse(script)
    assert "current_setting('plait" not in script, "whoever can send SQL can change a setting"
    assert script.count("m.role = current_user") == 2 and "FORCE" not in script
