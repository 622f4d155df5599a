"""The statements of the PostgreSQL driver: those of SQLite, by the rules that let a database spread its tables by session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from plait.store.postgres import statements as postgres
from plait.store.postgres.statements import Statement
from plait.store.sqlite import statements as sqlite

pglast = pytest.importorskip("pglast", reason="pglast is not installed")

OURS, THEIRS = postgres.load(), sqlite.load()
OWN = postgres.own()
ALL = {**OURS, **OWN}

# Tables that do not begin with a session's home, and what they begin with instead.
BY_SCOPE = {"attachment", "chunk", "upload"}
WHOLE = {
    "meta": "one row",
    "tick": "a row a minute, of the store",
    "search_on": "one row",
    "pruned_pulse": "a row for each scope",
}

# Statements over many sessions: they read, or may be repeated, and none is part of a turn.
MANY_SESSIONS = {
    "stages": "finds what crashes left behind",
    "next_scope": "lists sessions",
    "next_bucket": "lists sessions",
    "sessions_in_bucket": "lists sessions",
    "attachment_in_use": "payloads are shared by sessions",
    "lapsed_uploads": "finds payloads that nobody came for",
    "pulses": "reads the feed of a scope",
    "sessions_after": "lists sessions",
    "oldest_pulses": "prunes the feed of a scope",
    "prune_pulses": "prunes the feed of a scope",
    "purges": "finds what crashes left behind",
    "any_removal": "finds what is being removed",
    "removals": "finds what crashes left behind",
    "mark_all_behind": "the search index is made anew",
    "search_behind": "finds what is to be indexed",
    "search_all_behind": "finds what is to be indexed",
    "search_left": "counts what is to be indexed",
    "search_pending": "finds what is to be indexed",
    "clear_words": "the search index is made anew",
    "clear_search_progress": "the search index is made anew",
    "clear_search_behind": "the search index is made anew",
    "clear_search_pending": "the search index is made anew",
    "sessions_with_stale_texts": "finds what an erasure has to take away",
    "values_gone": "finds what is to be indexed",
    "sessions_with_pending_values": "finds what is to be indexed",
    "count_value_words": "weighs words by all that is indexed",
    "count_words": "weighs words by all that is indexed",
    "search_scope_best": "searches all sessions of a scope",
    "search_scope_newest": "searches all sessions of a scope",
    "scope_sessions": "lists sessions",
}
FORBIDDEN = re.compile(
    r"advisory|\blisten\b|\bnotify\b|clock_timestamp|\btrigger\b|\btemp\b|holdable|with hold", re.IGNORECASE
)


def nodes(node: Any) -> Iterator[Any]:
    """A node of a parsed statement and all below it."""
    from pglast import ast

    if isinstance(node, ast.Node):
        yield node
        for name in node:
            yield from nodes(getattr(node, name))
    elif isinstance(node, tuple | list):
        for item in node:
            yield from nodes(item)


def parsed(statement: Statement) -> Any:
    (raw,) = pglast.parse_sql(statement.query.decode())
    return raw.stmt


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def tables(statement: Statement) -> list[tuple[str, str]]:
    """The tables of ours that a statement names, each with the name it has there."""
    from pglast import ast

    found: list[tuple[str, str]] = []
    for node in nodes(parsed(statement)):
        if isinstance(node, ast.RangeVar) and node.schemaname == "plait":
            found.append((node.relname, node.alias.aliasname if node.alias else node.relname))
    return found


def equal_columns(statement: Statement) -> set[tuple[str, str]]:
    """The columns that a statement wants equal to something, as (table or "", column)."""
    from pglast import ast

    found: set[tuple[str, str]] = set()
    for node in nodes(parsed(statement)):
        if isinstance(node, ast.A_Expr) and [part.sval for part in node.name] == ["="]:
            for side in (node.lexpr, node.rexpr):
                if isinstance(side, ast.ColumnRef):
                    names = [part.sval for part in side.fields]
                    found.add(("" if len(names) == 1 else names[0], names[-1]))
    return found


def test_both_dialects_have_the_same_statements() -> None:
    assert list(OURS) == list(THEIRS)


@pytest.mark.parametrize("name", THEIRS)
def test_a_statement_takes_the_same_parameters_in_both_dialects(name: str) -> None:
    assert OURS[name].parameters == THEIRS[name].parameters


@pytest.mark.parametrize("name", ALL)
def test_every_statement_is_one_that_the_server_can_parse(name: str) -> None:
    parsed(ALL[name])


@pytest.mark.parametrize("name", ALL)
def test_no_statement_does_what_a_pooler_or_a_distributed_database_would_break(name: str) -> None:
    from pglast import ast

    assert not FORBIDDEN.search(ALL[name].text)
    for node in nodes(parsed(ALL[name])):
        if isinstance(node, ast.CommonTableExpr):
            assert isinstance(node.ctequery, ast.SelectStmt), "a common table expression that writes"
        if isinstance(node, ast.VariableSetStmt):
            assert node.is_local
        if isinstance(node, ast.SelectStmt) and node.lockingClause:
            assert "home" in ALL[name].given or "scope" in ALL[name].given or "meta" in ALL[name].text


@pytest.mark.parametrize("name", ALL)
def test_every_table_of_a_statement_is_narrowed_to_a_home(name: str) -> None:
    statement = ALL[name]
    if name in MANY_SESSIONS:
        return
    columns = equal_columns(statement)
    inserted = re.match(r"INSERT INTO plait\.(\w+)", statement.text)
    for table, alias in tables(statement):
        if table in WHOLE:
            continue
        column = "scope" if table in BY_SCOPE else "home"
        if inserted and inserted[1] == table:
            assert re.search(rf"INSERT INTO plait\.{table}(?: AS \w+)?\s*\({column}\b", statement.text), table
            continue
        assert (alias, column) in columns or ("", column) in columns, (table, alias)


@pytest.mark.parametrize("name", MANY_SESSIONS)
def test_a_reason_to_look_at_many_sessions_is_still_needed(name: str) -> None:
    assert "home" not in OURS[name].given


def created() -> list[Any]:
    return [raw.stmt for _, script in postgres.migrations() for raw in pglast.parse_sql(script)]


def test_every_key_begins_with_the_home_or_the_scope() -> None:
    from pglast import ast
    from pglast.enums import ConstrType

    keys = {ConstrType.CONSTR_PRIMARY, ConstrType.CONSTR_UNIQUE, ConstrType.CONSTR_FOREIGN}
    for statement in created():
        if isinstance(statement, ast.CreateStmt) and statement.relation.relname not in WHOLE:
            table = statement.relation.relname
            first = "scope" if table in BY_SCOPE else "home"
            found = [c for c in statement.tableElts if isinstance(c, ast.Constraint) and c.contype in keys]
            assert found, table
            for key in found:
                assert key.keys[0].sval == first, (table, key)
            for column in statement.tableElts:
                if isinstance(column, ast.ColumnDef):
                    assert not [c for c in column.constraints or () if c.contype in keys], (table, column.colname)
        if isinstance(statement, ast.IndexStmt) and statement.unique:
            assert statement.indexParams[0].name in ("home", "scope")


def test_migrations_make_tables_and_indexes_and_nothing_that_runs_in_a_statement() -> None:
    from pglast import ast

    plain_ddl = (ast.CreateStmt, ast.IndexStmt, ast.InsertStmt, ast.AlterTableStmt)
    for_others = (ast.ViewStmt, ast.CreateFunctionStmt)
    assert [s for s in created() if not isinstance(s, plain_ddl + for_others)] == []
    functions = [s.funcname[-1].sval for s in created() if isinstance(s, ast.CreateFunctionStmt)]
    views = [s.view.relname for s in created() if isinstance(s, ast.ViewStmt)]
    assert functions == ["message_text"] and views == ["messages"]
    for statement in ALL.values():
        assert not re.search(r"\bplait\.(?:message_text|messages)\b", statement.text)


def test_what_the_view_reads_is_of_one_home_in_each_row() -> None:
    from pglast import ast

    (view,) = [s for s in created() if isinstance(s, ast.ViewStmt)]
    named = {(n.alias.aliasname, n.relname) for n in nodes(view) if isinstance(n, ast.RangeVar) and n.alias}
    compared = {
        side.fields[0].sval
        for node in nodes(view)
        if isinstance(node, ast.A_Expr) and [part.sval for part in node.name] == ["="]
        for side in (node.lexpr, node.rexpr)
        if isinstance(side, ast.ColumnRef) and side.fields[-1].sval == "home"
    }
    assert {alias for alias, _ in named} == compared


def test_no_index_has_a_column_that_an_append_changes() -> None:
    from pglast import ast

    set_by_append = set(re.findall(r"(\w+) = :", OURS["save_session"].text)) - {"home", "session"}
    for statement in created():
        if isinstance(statement, ast.IndexStmt) and statement.relation.relname == "session":
            named = {node.name for node in statement.indexParams}
            named |= {n.fields[-1].sval for n in nodes(statement.whereClause) if isinstance(n, ast.ColumnRef)}
            assert not named & set_by_append


@pytest.mark.parametrize("file", ["doctor.sql", "mend.sql"])
def test_the_doctor_has_the_same_rules_in_both_dialects(file: str) -> None:
    ours, theirs = postgres.parse(postgres.read(file)), sqlite.parse(sqlite.read(file))
    assert sorted(ours) == sorted(theirs)
    assert [statement.parameters for statement in ours.values() if statement.parameters] == []


@pytest.mark.parametrize("file", ["doctor.sql", "mend.sql", "inspect.sql"])
def test_what_the_doctor_asks_joins_rows_of_one_home_or_scope(file: str) -> None:
    """Every table but the first is compared with another by its first column; none of it is forbidden elsewhere."""
    from pglast import ast

    for name, statement in postgres.parse(postgres.read(file)).items():
        assert not FORBIDDEN.search(statement.text), name
        for raw in pglast.parse_sql(statement.query.decode()):
            named = [n for n in nodes(raw.stmt) if isinstance(n, ast.RangeVar) and n.schemaname == "plait"]
            columns = {
                (side.fields[0].sval, side.fields[-1].sval)
                for node in nodes(raw.stmt)
                for side in _sides(node)
                if isinstance(side, ast.ColumnRef) and isinstance(side.fields[-1], ast.String)
            }
            reads = [n for n in named if n.alias]
            if name in BY_PAYLOAD or len(reads) < 2:
                continue
            for table in reads:
                assert {(table.alias.aliasname, "home"), (table.alias.aliasname, "scope")} & columns, (
                    name,
                    table.relname,
                )


BY_PAYLOAD = {"unused_attachments": "a payload's number is its own in the whole store"}


def _sides(node: Any) -> tuple[Any, ...]:
    from pglast import ast

    if isinstance(node, ast.A_Expr) and [part.sval for part in node.name] == ["="]:
        return node.lexpr, node.rexpr
    if isinstance(node, ast.SubLink) and isinstance(node.testexpr, ast.RowExpr):
        return tuple(node.testexpr.args)
    return ()


def test_row_security_is_what_the_server_can_parse_and_every_policy_names_who_asks() -> None:
    from plait.store.postgres import schema

    script = schema.secured("app")
    pglast.parse_sql(script)
    assert "current_setting('plait" not in script, "whoever can send SQL can change a setting"
    assert script.count("m.role = current_user") == 2 and "FORCE" not in script


def test_hints_are_the_only_statements_of_a_session_and_touch_no_table() -> None:
    found = postgres.parse(postgres.read("hints.sql"))
    assert list(found) == ["hint", "listen", "unlisten"]
    for statement in found.values():
        parsed(statement)
        assert tables(statement) == []
    assert "synchronous_commit" in found["hint"].text and "true" in found["hint"].text


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [version for version, _ in postgres.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("name", ["save_sessions", "add_message", "add_message_id", "add_strand", "add_activity"])
def test_a_statement_that_takes_many_rows_takes_as_many_values(name: str) -> None:
    statement = OURS[name]
    for size, query in statement.many.items():
        numbers = {int(n) for n in re.findall(rb"\$(\d+)", query)}
        assert numbers == set(range(1, len(statement.given) + size * len(statement.parameters) + 1))
        pglast.parse_sql(query.decode())
