"""Statements on the wire: many in one round trip, each prepared once on a connection.

Spoken with libpq's functions, not through psycopg's cursors: those take four times as long, and end what they have
prepared at every ROLLBACK.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from uuid import UUID

import psycopg
from psycopg import errors, pq, waiting
from psycopg.waiting import Ready, Wait

from plait.store.plan import Row

if TYPE_CHECKING:
    from psycopg.abc import Transformer
    from psycopg.pq.abc import PGconn, PGresult

T = TypeVar("T")
Talk: TypeAlias = Generator[Wait, Ready | int, T]
Item: TypeAlias = tuple[bytes, Sequence[Any]]
"""A statement and its parameters."""

MAX_PREPARED = 500
"""How many statements are prepared on a connection; further ones are parsed each time."""

SPOILED = frozenset({"0A000", "26000", "42P05"})
"""What is prepared on the connection is not what we think: a table was changed, a pooler gave us another server."""

WAITED_IN_VAIN = "SyncRepWaitForLSN"
"""Where the server says that it has committed, but waits no longer for the standby."""

LOOK_S = 0.1
"""How often whoever waits for the server looks whether he was interrupted."""

_FATAL, _SYNC, _DONE = pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_SYNC, pq.ExecStatus.COMMAND_OK
_TEXT, _BINARY = 0, 1
_BYTEA = 17
_kind_of: Callable[[Any], type[Any]] = type


class Overdue(psycopg.OperationalError):
    """The server says nothing any more; what it was sent may have been done."""


class Bodies(list[bytes]):
    """Many byte strings as one parameter, an array."""


def exchange(
    connection: PGconn, items: Sequence[Item], names: dict[bytes, bytes] | None, patience_s: float | None = None
) -> Talk[list[PGresult]]:
    """Send statements at once; the result of each. Raises the first error, after which the server did none.

    `names` has what is prepared on the connection, and is added to; `None` if nothing may be. Where nothing goes to the
    server or comes from it for `patience_s`, the connection is ended and `Overdue` raised.
    """
    ready = [(query, *packed(values)) for query, values in items]
    connection.enter_pipeline_mode()
    known = len(names) if names is not None else 0
    for query, given, formats in ready:
        _put(connection, query, given, formats, names)
    connection.pipeline_sync()
    since = time.monotonic()
    while connection.flush():
        state = yield Wait.RW
        if state & Ready.R:  # it may answer before it has read all: what it sent has to be taken then
            connection.consume_input()
        since = _heard(connection, state, since, patience_s)
    results = yield from _results(connection, patience_s)
    connection.exit_pipeline_mode()
    for result in results:
        if result.status == _FATAL:
            if names is not None:
                _forget_unprepared(names, known, results)
            raise errors.error_from_result(result)
    return [result for result in results if result.nfields or result.command_status]  # without those of preparing


def settle(talk: Talk[T], socket: int) -> T:
    """Wait for what is under way in this thread; an interruption ends the wait, and is not told to the server."""
    return waiting.wait(talk, socket, interval=LOOK_S)


async def settle_async(talk: Talk[T], socket: int) -> T:
    """The same on the running event loop."""
    return await waiting.wait_async(talk, socket, interval=LOOK_S)


def _put(
    connection: PGconn,
    query: bytes,
    given: Sequence[bytes | None],
    formats: Sequence[int],
    names: dict[bytes, bytes] | None,
) -> None:
    name = names.get(query) if names is not None else None
    if name is None and names is not None and len(names) < MAX_PREPARED:
        name = b"plait_%d" % len(names)
        connection.send_prepare(name, query)
        names[query] = name
    if name is not None:
        connection.send_query_prepared(name, given, formats, result_format=_BINARY)
    else:
        connection.send_query_params(query, given, param_formats=formats, result_format=_BINARY)


def _forget_unprepared(names: dict[bytes, bytes], known: int, results: Sequence[PGresult]) -> None:
    """After an error the server did not look at what came later: of what was to be prepared it has the first few."""
    done = sum(result.status == _DONE and not result.command_status for result in results)
    for query in list(names)[known + done :]:
        del names[query]


def _heard(connection: PGconn, ready: Ready | int, since: float, patience_s: float | None) -> float:
    """Since when nothing has been heard; ends a connection that has been silent for too long."""
    now = time.monotonic()
    if ready:
        return now
    if patience_s is not None and now - since > patience_s:
        connection.finish()
        raise Overdue(f"the server has not answered for {patience_s:g} s")
    return since


def _results(connection: PGconn, patience_s: float | None) -> Talk[list[PGresult]]:
    """What the server answers, up to the end of all that it was sent."""
    results: list[PGresult] = []
    since = time.monotonic()
    while True:
        while connection.is_busy():
            ready = yield Wait.R
            if ready:
                connection.consume_input()
            since = _heard(connection, ready, since, patience_s)
        result = connection.get_result()
        if result is None:
            if connection.status != pq.ConnStatus.OK:
                raise _lost(connection, results)
        elif result.status == _SYNC:
            return results
        else:
            results.append(result)


def _lost(connection: PGconn, results: Sequence[PGresult]) -> psycopg.Error:
    for result in results:
        if result.status == _FATAL:
            return errors.error_from_result(result)
    return psycopg.OperationalError(f"the connection is lost: {connection.get_error_message()}")


def rows(result: PGresult, transformer: Transformer) -> list[Row]:
    """The rows of a result."""
    if not result.ntuples:
        return []
    transformer.set_pgresult(result, format=pq.Format.BINARY)
    return transformer.load_rows(0, result.ntuples, tuple)


def packed(values: Sequence[Any]) -> tuple[list[bytes | None], list[int]]:
    """Parameters as they are sent, and in which format each."""
    given: list[bytes | None] = []
    formats: list[int] = []
    for value in values:
        kind, format = _kind_of(value), _TEXT
        if kind is int:
            value = b"%d" % value
        elif kind is str:
            value = _text(value)
        elif kind is UUID:
            value, format = value.bytes, _BINARY
        elif kind is bytes:
            format = _BINARY
        elif kind is list:
            value = _text("{" + ",".join([_element(item) for item in value]) + "}")
        elif value is not None:
            value, format = _other(value)
        given.append(value)
        formats.append(format)
    return given, formats


def _other(value: Any) -> tuple[bytes, int]:
    if isinstance(value, Bodies):
        return _array(value), _BINARY
    if isinstance(value, bytearray | memoryview):
        return bytes(cast("bytes", value)), _BINARY
    if isinstance(value, bool):
        return (b"t" if value else b"f"), _TEXT
    return _text(str(value)), _TEXT


def _text(value: str) -> bytes:
    encoded = value.encode()
    if b"\x00" in encoded:  # libpq would end the text there
        raise psycopg.DataError("PostgreSQL text cannot hold the character NUL")
    return encoded


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return str(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _array(values: Sequence[bytes]) -> bytes:
    """A one-dimensional array of `bytea` as the server reads and writes it."""
    parts = [struct.pack("!iiIii", 1, 0, _BYTEA, len(values), 1) if values else struct.pack("!iiI", 0, 0, _BYTEA)]
    for value in values:
        parts += (struct.pack("!i", len(value)), value)
    return b"".join(parts)
