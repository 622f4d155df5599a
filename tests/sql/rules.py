"""What every statement and migration for PostgreSQL holds to. Each function answers what of it is broken, in words.

What is allowed is listed, and the rest is refused: a function, a kind of statement or a type that nobody thought of is
thought of when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from plait.store.postgres.statements import Statement

pglast = pytest.importorskip("pglast", reason="pglast is not installed")

from pglast import ast, enums  # noqa: E402
from pglast.stream import RawStream  # noqa: E402

BY_SCOPE = {"attachment", "chunk", "upload"}
"""Tables that do not begin with a session's home but with its scope."""

WHOLE = {
    "meta": "one row",
    "tick": "a row a minute, of the store",
    "search_on": "one row",
    "pruned_pulse": "a row for each scope",
}
"""Tables that begin with neither."""

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
"""Statements over many sessions: they read, or may be repeated, and none is part of a turn. One table of each may be
looked at from end to end; the others are joined to its rows by their home."""

FUNCTIONS = frozenset(
    [
        "count",
        "length",
        "octet_length",
        "max",
        "min",
        "sum",
        "row_number",
        "substr",
        "unnest",
        "jsonb_array_elements",
        "ts_rank",
        "pg_catalog.extract",
        "now",
        "pg_current_snapshot",
        "pg_snapshot_xmax",
        "pg_snapshot_xmin",
        "pg_current_xact_id",
    ]
)
"""What statements may call: nothing that differs when it is asked again in one transaction, keeps anything beyond it,
waits, gives numbers, or speaks to other connections."""

FUNCTIONS_OF = {
    "server": {"pg_backend_pid", "current_setting", "pg_encoding_to_char", "current_database", "pg_is_in_recovery"}
    | {"to_regclass"},
    "limits": {"set_config", "current_setting"},
    "read_limits": {"set_config"},
    "how_ended": {"pg_xact_status"},
    "hint": {"set_config", "pg_notify"},
    "vacuum": {"format", "pg_has_role"},
    "vacuum_all": {"format", "pg_has_role"},
}
"""What single statements may call besides: what a server is, the settings of one transaction, and what became of it. `hint` is the one that
notifies: on a connection of its own, after the commit."""

SETTINGS = {
    "lock_timeout": None,
    "statement_timeout": None,
    "idle_in_transaction_session_timeout": None,
    "synchronous_commit": "CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on' "
    "ELSE current_setting('synchronous_commit') END",
}
"""What a transaction may set for itself, and to what only: never to wait less for the disk or the standby."""

KINDS = (ast.SelectStmt, ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt)
KINDS_OF = {
    "begin_write": (ast.TransactionStmt, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
    "begin_read": (ast.TransactionStmt, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    "commit": (ast.TransactionStmt, "COMMIT"),
    "rollback": (ast.TransactionStmt, "ROLLBACK"),
    "begin_turn": (ast.TransactionStmt, "SAVEPOINT plait_turn"),
    "end_turn": (ast.TransactionStmt, "RELEASE SAVEPOINT plait_turn"),
    "make_schema": (ast.CreateSchemaStmt, "CREATE SCHEMA IF NOT EXISTS plait"),
    "make_meta": (
        ast.CreateStmt,
        "CREATE TABLE IF NOT EXISTS plait.meta (name text PRIMARY KEY, value bigint NOT NULL)",
    ),
    "listen": (ast.ListenStmt, "LISTEN plait"),
    "unlisten": (ast.UnlistenStmt, "UNLISTEN plait"),
    "lock_sessions": (ast.LockStmt, "LOCK TABLE plait.session IN EXCLUSIVE MODE"),
}
"""The statements of other kinds, word for word: the bounds of transactions and of the turning of a tick, the first making of the schema, the one
connection that listens, and a doctor that mends and is run by hand."""

TYPES = frozenset(["int8", "int4", "float8", "text", "bytea", "uuid", "tsvector", "tsquery", "regclass"])
TYPES_OF = {
    "last_in_each": {"jsonb"},
    "overlays_ending": {"jsonb"},
    "find_kept": {"xid", "xid8"},
    "how_ended": {"xid8"},
}
"""Numbers go to the server as a JSON list in the first two, and transactions' in the others; nothing that is stored is ever
`jsonb`."""

COLUMN_TYPES = frozenset(["uuid", "int8", "text", "bytea", "tsvector", "xid8"])
IDENTITY = {("attachment", "attachment"): "names a payload, and says nothing of order"}
FUNCTIONS_FOR_OTHERS = {"message_text"}
VIEWS_FOR_OTHERS = {"messages"}
"""What other tools may read; no statement of plait's does."""

GIVES = {"home": {"home", "other_home"}, "scope": {"scope"}}
"""The parameters that say which home, or scope, a row is in: the executor has them from the session that was taken."""


def parse(text: str) -> list[Any]:
    return [raw.stmt for raw in pglast.parse_sql(text)]


def nodes(node: Any) -> Iterator[Any]:
    """A node of a parsed statement and all below it."""
    if isinstance(node, ast.Node):
        yield node
        for name in node:
            yield from nodes(getattr(node, name))
    elif isinstance(node, tuple | list):
        for item in node:
            yield from nodes(item)


def faults(statement: Statement, *, homes: bool = True) -> list[str]:
    """What a statement of the driver breaks; without `homes`, of what it may name and call only."""
    found: list[str] = []
    for stmt in parse(statement.query.decode()):
        found += [*_kind(statement, stmt), *_calls(statement, stmt), *_clauses(statement, stmt)]
        found += _session_row(statement, stmt) if homes else []
        if homes and isinstance(stmt, KINDS):
            found += loose(statement, stmt, free=int(statement.name in MANY_SESSIONS))
    return found


# -- kinds, functions, clauses


def _kind(statement: Statement, stmt: Any) -> Iterator[str]:
    kind, text = KINDS_OF.get(statement.name, (KINDS, None))
    if not isinstance(stmt, kind) or text not in (None, statement.text.strip().rstrip(";")):
        yield f"is a {type(stmt).__name__}"


def _calls(statement: Statement, stmt: Any) -> Iterator[str]:
    allowed = FUNCTIONS | FUNCTIONS_OF.get(statement.name, set())
    types = TYPES | TYPES_OF.get(statement.name, set())
    for node in nodes(stmt):
        if isinstance(node, ast.FuncCall):
            name = ".".join(part.sval for part in node.funcname)
            if name not in allowed:
                yield f"calls {name}"
            if name == "set_config":
                yield from _setting(statement, *node.args)
        elif isinstance(node, ast.SQLValueFunction):
            yield f"asks for {node.op.name}"
        elif isinstance(node, ast.TypeCast) and node.typeName.names[-1].sval not in types:
            yield f"casts to {node.typeName.names[-1].sval}"


def _setting(statement: Statement, name: Any, value: Any, local: Any) -> Iterator[str]:
    setting = name.val.sval if isinstance(name, ast.A_Const) else "?"
    if not (isinstance(local, ast.A_Const) and getattr(local.val, "boolval", False) is True):
        yield f"sets {setting} beyond the transaction"
    if setting not in SETTINGS:
        yield f"sets {setting}"
    elif SETTINGS[setting] not in (None, RawStream()(value)) and statement.name != "hint":
        yield f"sets {setting} to something else"


def _clauses(statement: Statement, stmt: Any) -> Iterator[str]:
    made = {node.ctename for node in nodes(stmt) if isinstance(node, ast.CommonTableExpr)}
    for node in nodes(stmt):
        if isinstance(node, ast.CommonTableExpr) and not isinstance(node.ctequery, ast.SelectStmt):
            yield "writes in a common table expression"
        elif isinstance(node, ast.LockingClause):
            if node.waitPolicy != enums.LockWaitPolicy.LockWaitBlock:
                yield f"locks with {node.waitPolicy.name}"
            if statement.name in MANY_SESSIONS:
                yield "locks rows of many sessions"
        elif isinstance(node, ast.IntoClause):
            yield "makes a table"
        elif isinstance(node, ast.RangeVar):
            if not (node.schemaname in ("plait", "pg_catalog") or (node.schemaname is None and node.relname in made)):
                yield f"names {node.schemaname}.{node.relname}"
            elif node.schemaname == "plait" and node.relname in VIEWS_FOR_OTHERS:
                yield f"names plait.{node.relname}, which is for others"


def _session_row(statement: Statement, stmt: Any) -> Iterator[str]:
    """A session's row is changed by its whole key, so never two of them at once."""
    if isinstance(stmt, ast.UpdateStmt | ast.DeleteStmt) and stmt.relation.relname == "session":
        compared = [node.lexpr.fields[-1].sval for node in _conjuncts(stmt.whereClause) if _is_column(node)]
        if "session" not in compared:
            yield "changes session rows without naming one"


def _is_column(node: Any) -> bool:
    return isinstance(node, ast.A_Expr) and _is_equal(node) and isinstance(node.lexpr, ast.ColumnRef)


def _is_equal(node: Any) -> bool:
    return node.kind == enums.A_Expr_Kind.AEXPR_OP and [part.sval for part in node.name] == ["="]


def _conjuncts(node: Any) -> Iterator[Any]:
    """What must hold: the sides of every AND, not those of an OR or a NOT."""
    if isinstance(node, ast.BoolExpr) and node.boolop == enums.BoolExprType.AND_EXPR:
        for arg in node.args:
            yield from _conjuncts(arg)
    elif node is not None:
        yield node


# -- homes


@dataclass(eq=False)
class Source:
    """A table, a subquery or a function's rows where a statement names them; `tied` once they are known to be of one home."""

    alias: str
    table: str = ""
    columns: frozenset[str] = frozenset()
    arms: Sequence[tuple[Any, Place]] = ()
    tied: bool = False

    @property
    def key(self) -> str:
        return "scope" if self.table in BY_SCOPE else "home"

    @property
    def needs_key(self) -> bool:
        return bool(self.table) and self.table not in WHOLE


@dataclass(eq=False)
class Place:
    """One SELECT, INSERT, UPDATE or DELETE: what it names, and what must hold there."""

    outer: Place | None
    sources: list[Source] = field(default_factory=list)
    holds: list[tuple[Any, frozenset[str] | None]] = field(default_factory=list)
    """A condition, and for whose rows it holds where that is not all (an outer join's)."""

    def find(self, column: ast.ColumnRef) -> Source | None:
        """Whose column it is."""
        names = [part.sval for part in column.fields if isinstance(part, ast.String)]
        if len(names) == 2:
            found = [source for source in self.sources if source.alias == names[0]]
        else:
            found = [source for source in self.sources if names and names[0] in source.columns]
        if found:
            return found[0] if len(found) == 1 else None
        return self.outer.find(column) if self.outer else None


class _Walk:
    """All places of a statement."""

    def __init__(self, statement: Statement) -> None:
        self.names = {number: name for name, number in statement._numbers.items()}
        self.places: list[Place] = []
        self.at: dict[int, Place] = {}

    def visit(self, node: Any, outer: Place | None) -> None:
        """Go through what is below a node, and into its subqueries."""
        if isinstance(node, ast.SelectStmt):
            self.select(node, outer)
        elif isinstance(node, ast.Node):
            for name in node:
                self.visit(getattr(node, name), outer)
        elif isinstance(node, tuple | list):
            for item in node:
                self.visit(item, outer)

    def place(self, outer: Place | None) -> Place:
        self.places.append(Place(outer))
        return self.places[-1]

    def select(self, node: Any, outer: Place | None) -> list[tuple[Any, Place]]:
        """Each arm of a SELECT with its place."""
        if node.op != enums.SetOperation.SETOP_NONE:
            return [*self.select(node.larg, outer), *self.select(node.rarg, outer)]
        place = self.at[id(node)] = self.place(outer)
        self._begin(place, node, node.fromClause or ())
        return [(node, place)]

    def change(self, node: Any) -> None:
        """An INSERT, UPDATE or DELETE."""
        place = self.place(None)
        target = self._table(place, node.relation)
        if isinstance(node, ast.InsertStmt):
            target.tied = self._inserts(node, target.key)
            conflict = node.onConflictClause
            if conflict is not None and conflict.infer is not None and target.needs_key:
                target.tied &= conflict.infer.indexElems[0].name == target.key
            self.visit([conflict, node.returningClause], place)
            return
        self._begin(place, node, getattr(node, "fromClause", None) or getattr(node, "usingClause", None) or ())

    def _begin(self, place: Place, node: Any, named: Any) -> None:
        for item in named:
            self._from(place, item)
        place.holds += [(condition, None) for condition in _conjuncts(node.whereClause)]
        for name in node:
            if name not in ("fromClause", "usingClause", "relation"):
                self.visit(getattr(node, name), place.outer if name == "withClause" else place)

    def _table(self, place: Place, node: Any) -> Source:
        table = node.relname if node.schemaname == "plait" else ""
        columns = frozenset({"scope"} if table in BY_SCOPE else {"home"} if table and table not in WHOLE else ())
        source = Source(node.alias.aliasname if node.alias else node.relname, table, columns)
        place.sources.append(source)
        return source

    def _from(self, place: Place, node: Any) -> frozenset[str]:
        """Take in what a FROM names; the names it has there."""
        if isinstance(node, ast.JoinExpr):
            return self._join(place, node)
        if isinstance(node, ast.RangeVar):
            return frozenset({self._table(place, node).alias})
        given = frozenset(part.sval for part in (node.alias.colnames or ()))
        source = Source(node.alias.aliasname, columns=given)
        if isinstance(node, ast.RangeSubselect):
            source.arms = self.select(node.subquery, place if node.lateral else place.outer)
            source.columns |= {_named(target) for select, _ in source.arms for target in select.targetList or ()}
        else:
            self.visit(node.functions, place)
            told = {self.names.get(param.number) for param in nodes(node.functions) if isinstance(param, ast.ParamRef)}
            source.tied = "home" in given and "homes" in told
        place.sources.append(source)
        return frozenset({source.alias})

    def _join(self, place: Place, node: Any) -> frozenset[str]:
        left, right = self._from(place, node.larg), self._from(place, node.rarg)
        narrowed = {
            enums.JoinType.JOIN_INNER: None,
            enums.JoinType.JOIN_LEFT: right,
            enums.JoinType.JOIN_RIGHT: left,
        }.get(node.jointype, frozenset())
        place.holds += [(condition, narrowed) for condition in _conjuncts(node.quals)]
        self.visit(node.quals, place)
        return left | right

    def _inserts(self, node: Any, key: str) -> bool:
        """Whether new rows begin with a home, or scope, that was given."""
        if not node.cols or node.cols[0].name != key:
            return False
        if node.selectStmt.valuesLists:
            self.visit(node.selectStmt.valuesLists, None)
            return all(self.given(row[0], key) for row in node.selectStmt.valuesLists)
        arms = self.select(node.selectStmt, None)
        self.tie()
        return all(self.is_tied(select.targetList[0].val, key, place) for select, place in arms)

    # What is tied: by a parameter, or to what is tied.

    def given(self, node: Any, key: str) -> bool:
        if isinstance(node, ast.TypeCast):
            return self.given(node.arg, key)
        return isinstance(node, ast.ParamRef) and self.names.get(node.number) in GIVES[key]

    def is_tied(self, node: Any, key: str, place: Place, but: Source | None = None) -> bool:
        if not isinstance(node, ast.ColumnRef):
            return self.given(node, key)
        source = place.find(node)
        return source is not None and source is not but and _last(node) == key and source.tied

    def tie(self) -> None:
        """Mark what must be of one home, until nothing more is found."""
        found = True
        while found:
            found = False
            for place in self.places:
                for source in [source for source in place.sources if not source.tied]:
                    source.tied = self._tied(source, place)
                    found |= source.tied

    def _tied(self, source: Source, place: Place) -> bool:
        if source.arms:
            return all(self._exports(select, inner) for select, inner in source.arms)
        return source.needs_key and any(
            isinstance(one, ast.ColumnRef)
            and _last(one) == source.key
            and place.find(one) is source
            and self.is_tied(other, source.key, there, but=source)
            for condition, narrowed in place.holds
            if narrowed is None or source.alias in narrowed
            for one, other, there in self._equal(condition, place)
        )

    def _equal(self, condition: Any, place: Place) -> Iterator[tuple[Any, Any, Place]]:
        """What a condition wants equal, and where the second of the two stands."""
        if isinstance(condition, ast.A_Expr) and _is_equal(condition):
            yield condition.lexpr, condition.rexpr, place
            yield condition.rexpr, condition.lexpr, place
        elif (
            isinstance(condition, ast.SubLink)
            and condition.subLinkType == enums.SubLinkType.ANY_SUBLINK
            and isinstance(condition.testexpr, ast.RowExpr)
            and id(condition.subselect) in self.at
        ):
            found = condition.subselect.targetList
            for one, target in zip(condition.testexpr.args, found, strict=True):
                yield one, target.val, self.at[id(condition.subselect)]

    def _exports(self, select: Any, place: Place) -> bool:
        return any(
            _named(target) == "home" and self.is_tied(target.val, "home", place) for target in select.targetList or ()
        )


def _last(column: ast.ColumnRef) -> str:
    last = column.fields[-1]
    return str(last.sval) if isinstance(last, ast.String) else "*"


def _named(target: Any) -> str:
    return str(target.name or (_last(target.val) if isinstance(target.val, ast.ColumnRef) else ""))


def loose(statement: Statement, stmt: Any, *, free: int = 0) -> list[str]:
    """The tables of a statement that are not narrowed to one home, where so many of them need not be."""
    walk = _Walk(statement)
    walk.select(stmt, None) if isinstance(stmt, ast.SelectStmt) else walk.change(stmt)
    walk.tie()
    found = _untied(walk)
    if not free or not found:
        return [f"looks for {source.table} {source.alias} in more than one {source.key}" for source in found]
    return min((_without(statement, stmt, n) for n in range(len(walk.places))), key=len)


def _untied(walk: _Walk) -> list[Source]:
    return [source for place in walk.places for source in place.sources if source.needs_key and not source.tied]


def _without(statement: Statement, stmt: Any, n: int) -> list[str]:
    """What is loose where the first table of the n-th place may be looked at from end to end."""
    walk = _Walk(statement)
    walk.select(stmt, None) if isinstance(stmt, ast.SelectStmt) else walk.change(stmt)
    for source in [source for source in walk.places[n].sources if source.needs_key][:1]:
        source.tied = True
    walk.tie()
    if isinstance(stmt, ast.InsertStmt):
        walk.places[0].sources[0].tied = walk.places[0].sources[0].tied or _inserts_what_it_reads(walk, stmt)
    return [f"looks for {source.table} {source.alias} in more than one {source.key}" for source in _untied(walk)]


def _inserts_what_it_reads(walk: _Walk, stmt: Any) -> bool:
    key = walk.places[0].sources[0].key
    return stmt.cols[0].name == key and walk.is_tied(stmt.selectStmt.targetList[0].val, key, walk.places[1])


# -- migrations


def schema_faults(script: str) -> list[str]:
    """What a migration breaks."""
    return [fault for stmt in parse(script) for fault in _ddl(stmt)]


def _ddl(stmt: Any) -> Iterator[str]:
    if isinstance(stmt, ast.CreateStmt):
        yield from _table_faults(stmt)
    elif isinstance(stmt, ast.IndexStmt):
        table = stmt.relation.relname
        if stmt.unique and table not in WHOLE and stmt.indexParams[0].name != _key_of(table):
            yield f"a unique index of {table} does not begin with its {_key_of(table)}"
        if stmt.concurrent:
            yield "an index is made outside the migration's transaction"
    elif isinstance(stmt, ast.AlterTableStmt):
        for cmd in stmt.cmds:
            if cmd.subtype != enums.AlterTableType.AT_AddColumn:
                yield f"{cmd.subtype.name}: a migration only adds"
            else:
                yield from _column_faults(stmt.relation.relname, cmd.def_)
    elif isinstance(stmt, ast.CreateFunctionStmt):
        if stmt.funcname[-1].sval not in FUNCTIONS_FOR_OTHERS:
            yield "makes a function"
    elif isinstance(stmt, ast.ViewStmt):
        if stmt.view.relname not in VIEWS_FOR_OTHERS:
            yield "makes a view"
    elif not isinstance(stmt, ast.InsertStmt):
        yield f"is a {type(stmt).__name__}"


def _key_of(table: str) -> str:
    return "scope" if table in BY_SCOPE else "home"


KEYS = {enums.ConstrType.CONSTR_PRIMARY, enums.ConstrType.CONSTR_UNIQUE, enums.ConstrType.CONSTR_FOREIGN}
PLAIN = {enums.ConstrType.CONSTR_NOTNULL, enums.ConstrType.CONSTR_NULL}


def _table_faults(stmt: Any) -> Iterator[str]:
    table = stmt.relation.relname
    if stmt.relation.relpersistence != "p" or stmt.inhRelations:
        yield f"{table} is temporary, unlogged or inherits"
    parts = [part for part in stmt.tableElts if isinstance(part, ast.Constraint)]
    for column in stmt.tableElts:
        if isinstance(column, ast.ColumnDef):
            yield from _column_faults(table, column)
    if table in WHOLE:
        return
    keys = [part for part in parts if part.contype in KEYS]
    if not any(part.contype == enums.ConstrType.CONSTR_PRIMARY for part in keys):
        yield f"{table} has no primary key"
    for part in keys:
        for columns in filter(None, (part.keys, part.fk_attrs, part.pk_attrs)):
            if columns[0].sval != _key_of(table):
                yield f"a key of {table} does not begin with its {_key_of(table)}"
        if part.contype == enums.ConstrType.CONSTR_FOREIGN and not (part.fk_attrs and part.pk_attrs):
            yield f"a foreign key of {table} does not name its columns"


def _column_faults(table: str, column: Any) -> Iterator[str]:
    name = f"{table}.{column.colname}"
    if column.typeName.names[-1].sval not in COLUMN_TYPES or column.typeName.arrayBounds:
        yield f"{name} is {column.typeName.names[-1].sval}"
    if column.colname in ("home", "scope") and column.typeName.names[-1].sval != "uuid":
        yield f"{name} is not a uuid"
    for part in column.constraints or ():
        if part.contype in PLAIN:
            continue
        if part.contype == enums.ConstrType.CONSTR_DEFAULT:
            if any(isinstance(node, ast.FuncCall | ast.SQLValueFunction) for node in nodes(part.raw_expr)):
                yield f"{name} has a default that is worked out"
        elif part.contype == enums.ConstrType.CONSTR_IDENTITY:
            if (table, column.colname) not in IDENTITY:
                yield f"{name} is numbered by the server"
        elif table not in WHOLE:
            yield f"{name} has a {part.contype.name}"


# -- what appends change, and indexes


def indexes(script: str) -> Iterator[tuple[str, str, set[str]]]:
    """Every index that a migration makes: its table, its name, the columns it depends on."""
    for stmt in parse(script):
        if isinstance(stmt, ast.IndexStmt):
            named = [*stmt.indexParams, *(stmt.indexIncludingParams or ())]
            columns = {node.name for node in named if node.name}
            below = [*(node.expr for node in named), stmt.whereClause]
            columns |= {_last(node) for node in nodes(below) if isinstance(node, ast.ColumnRef)}
            yield stmt.relation.relname, stmt.idxname or "index", columns
        elif isinstance(stmt, ast.CreateStmt):
            for part in stmt.tableElts:
                if isinstance(part, ast.Constraint) and part.contype in KEYS:
                    yield stmt.relation.relname, part.contype.name, {key.sval for key in part.keys or ()}
                for own in (part.constraints or ()) if isinstance(part, ast.ColumnDef) else ():
                    if own.contype in KEYS:
                        yield stmt.relation.relname, own.contype.name, {part.colname}


def changed(statement: Statement) -> tuple[str, set[str]]:
    """The table whose rows a statement changes in place, and in which columns."""
    for stmt in parse(statement.query.decode()):
        targets = ()
        if isinstance(stmt, ast.UpdateStmt):
            targets = stmt.targetList
        elif isinstance(stmt, ast.InsertStmt) and stmt.onConflictClause is not None:
            targets = stmt.onConflictClause.targetList or ()
        if targets:
            return stmt.relation.relname, {target.name for target in targets}
    return "", set()


def fence_faults(statement: Statement) -> list[str]:
    """What the one UPDATE that begins an append does not check of the row it moves on: its fence, and whatever it sets
    to a value that was worked out from the one before, and does not add to."""
    (stmt,) = parse(statement.query.decode())
    fence = {"version", "next_seq", "leaf", "active_at", "epoch", "incarnation", "live"}
    checked: set[str] = set()
    for target in stmt.targetList if isinstance(stmt, ast.UpdateStmt) else ():
        if target.name == "version" and isinstance(target.val, ast.CaseExpr) and target.val.defresult is None:
            (when,) = target.val.args
            checked |= {_last(node.lexpr) for node in _conjuncts(when.expr) if _is_column(node)}
        elif isinstance(target.val, ast.ParamRef):
            fence.add(target.name)
    return [f"does not check the {name}" for name in sorted(fence - checked)]


# -- what Python makes of statements by itself

CURSOR = "plait_rows"


def built_faults(text: str) -> list[str]:
    """What a text of SQL in the driver's Python breaks: only a cursor that ends with its transaction is made there."""
    whole = text.replace("%d", "1") + ("SELECT 1" if text.rstrip().endswith("FOR") else "")
    try:
        stmts = parse(whole)
    except pglast.Error:
        return ["is no statement"]
    return [fault for stmt in stmts for fault in _cursor(stmt)] + ["is many statements"] * (len(stmts) - 1)


def _cursor(stmt: Any) -> Iterator[str]:
    if isinstance(stmt, ast.DeclareCursorStmt):
        if stmt.options & enums.CURSOR_OPT_HOLD:
            yield "keeps its cursor beyond the transaction"
    elif not isinstance(stmt, ast.FetchStmt | ast.ClosePortalStmt):
        yield f"is a {type(stmt).__name__}"
        return
    if stmt.portalname != CURSOR:
        yield f"names the cursor {stmt.portalname}"
