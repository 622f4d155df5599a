"""Looking after a database on a server: checks and mending, vacuum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

import psycopg

from plait.errors import StoreUnavailableError
from plait.model import Finding
from plait.store.looking import findings, stretch
from plait.store.plan import Plan
from plait.store.plans import common
from plait.store.postgres import homes
from plait.store.postgres.asking import BYTES, ROWS, Reader, rows_of, statements
from plait.store.postgres.homes import Where
from plait.store.postgres.stale import stale
from plait.store.postgres.statements import own
from plait.store.protocol import Scope, SessionRef

NO_LIMIT = "0"


def examine(connection: psycopg.Connection[Any], driver: Reader, *, fix: bool, wait_ms: str) -> list[Finding]:
    """Check plait's own rules, mending in one transaction what can be mended, then every payload and message."""
    found = [*_rules(connection, fix, wait_ms), *_payloads(connection)]
    for ref in _sessions(connection):
        found += _path_totals(connection, driver, ref, fix)
        found += _bodies(driver, ref)
        found += stale(connection, driver, ref, fix=fix)
    if fix:
        connection.execute(statements("inspect.sql")["mark_pending_behind"].query)
    return found


def vacuum(connection: psycopg.Connection[Any], *, purge: bool) -> None:
    """Give the room of what was deleted back to the tables; with `purge` write them anew, which keeps everybody waiting.

    The server leaves out tables of other roles without an error; so that nobody takes them for done, it is one here.
    """
    tables = rows_of(connection, statements("inspect.sql")["vacuum_all" if purge else "vacuum"])
    for command, may in tables:
        if may:
            connection.execute(command)
    left = sum(not may for _, may in tables)
    if left:
        raise StoreUnavailableError(
            f"{left} of {len(tables)} tables were not vacuumed, because they belong to another role: open the store as that role"
        )


def _rules(connection: psycopg.Connection[Any], fix: bool, wait_ms: str) -> list[Finding]:
    """What breaks a rule of `doctor.sql`, mended by the statement of the same name in `mend.sql`."""
    found = list(findings("invalid index", rows_of(connection, statements("inspect.sql")["invalid_indexes"]), False))
    _begin(connection, fix, wait_ms)
    try:
        for name, check in statements("doctor.sql").items():
            rows = rows_of(connection, check)
            mended = fix and bool(rows) and name in statements("mend.sql")
            if mended:
                connection.execute(statements("mend.sql")[name].query)
            found += findings(name.replace("_", " "), rows, mended)
        connection.execute(own()["commit"].query)
    except BaseException:
        if not connection.closed:
            connection.execute(own()["rollback"].query)
        raise
    return found


def _begin(connection: psycopg.Connection[Any], fix: bool, wait_ms: str) -> None:
    if not fix:
        connection.execute(own()["begin_read"].query)
        rows_of(connection, own()["read_limits"], (NO_LIMIT, NO_LIMIT, NO_LIMIT))
        return
    connection.execute(own()["begin_write"].query)
    rows_of(connection, own()["limits"], (wait_ms, NO_LIMIT, NO_LIMIT))
    connection.execute(statements("inspect.sql")["lock_sessions"].query)


def _sessions(connection: psycopg.Connection[Any]) -> Iterator[SessionRef]:
    for tenant, owner, id in rows_of(connection, statements("inspect.sql")["all_sessions"]):
        yield SessionRef(Scope(tenant, owner), id)


def _path_totals(connection: psycopg.Connection[Any], driver: Reader, ref: SessionRef, fix: bool) -> Iterator[Finding]:
    """Whether a session's totals of the active path are what its messages add up to."""
    wrong = driver.read(partial(_counted, ref))
    if wrong is not None:
        if fix:
            where = homes.of_session(ref)
            rows_of(connection, statements("inspect.sql")["forget_path_totals"], (wrong[0],), where)
        yield Finding("wrong path totals", f"{ref.id}, {wrong[1]} where {wrong[2]} are there", fix)


def _counted(ref: SessionRef) -> Plan[tuple[int, list[int | None], list[int]] | None]:
    head = yield from common.take(SessionRef(ref.scope, ref.id))
    if head is None or head.path_messages is None:
        return None
    kept = [head.path_messages, head.path_bytes, head.path_tokens]
    counted = list((yield from common.range_totals((yield from common.path_to(head.leaf)))))
    return None if kept == counted else (head.session, kept, counted)


def _payloads(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Payloads that are not what their hash says; nothing mends these."""
    inspect = statements("inspect.sql")
    for scope, attachment, hash in rows_of(connection, inspect["payloads"]):
        if _is_damaged(connection, scope, attachment, bytes(hash)):
            users = [repr(id) for (id,) in rows_of(connection, inspect["users_of_payload"], (attachment,))]
            yield Finding("damaged attachment", f"{attachment}, used by {', '.join(users) or 'no message'}")


def _is_damaged(connection: psycopg.Connection[Any], scope: UUID, attachment: int, hash: bytes) -> bool:
    """Whether a payload that is still there, when it has been read, is twice not what its hash says.

    It is read a piece at a time; meanwhile it may be removed with the last that uses it, or mended by who puts it again.
    """
    there, where = statements("inspect.sql")["payload_is_there"], Where(scope=scope)
    return all(
        _digest(connection, scope, attachment) != hash and rows_of(connection, there, (attachment,), where)
        for _ in range(2)
    )


def _digest(connection: psycopg.Connection[Any], scope: UUID, attachment: int) -> bytes:
    digest, n = hashlib.sha256(), 0
    piece, where = statements("inspect.sql")["piece"], Where(scope=scope)
    while rows := rows_of(connection, piece, (attachment, n), where):
        digest.update(rows[0][0])
        n += 1
    return digest.digest()


def _bodies(driver: Reader, ref: SessionRef) -> Iterator[Finding]:
    """Messages of a session that cannot be read, or are not what their row says; nothing mends these."""
    seq = 0
    while True:
        after, found = driver.read(partial(stretch, SessionRef(ref.scope, ref.id), seq, ROWS, BYTES))
        yield from found
        if not after:
            return
        seq = after
