"""Generated from src/plait/store/postgres/_async/connecting.py by tools/unasync.py: edit that file. Connections: to a server that plait can work with, at a schema that it knows."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from psycopg import Connection, RawCursor, IsolationLevel
from psycopg.adapt import Transformer
from psycopg.errors import Diagnostic
from psycopg.pq.abc import PGconn, PGresult

from plait.errors import SchemaError, StoreUnavailableError
from plait.pauses import rest
from plait.store.plan import Row
from plait.store.postgres import settings as given
from plait.store.postgres import wire
from plait.store.postgres.errors import is_again, is_lost
from plait.store.postgres.settings import Settings
from plait.store.postgres.statements import migrations, own

log = logging.getLogger("plait")
OWN = own()
RACES = 20
"""How often a step of making the schema is tried where others make it at the same time."""
PAUSE_S = 0.05
"""How long a store that is being opened waits before it tries anew on another connection."""


class Line(Connection[Any]):
    """A connection on which many statements go in one round trip, prepared on it if `names` is a dictionary.

    `server` says what it leads to. `unsure` is set once the server has said of a commit that it did
    not wait for the standby.
    """

    def __init__(self, pgconn: PGconn, *args: Any, **kwargs: Any) -> None:
        super().__init__(pgconn, *args, **kwargs)
        self.names: dict[bytes, bytes] | None = None
        self.server: given.Server | None = None
        self.unsure = False
        self._transformer = Transformer.from_context(self)
        self.add_notice_handler(self._noticed)

    def talk(
        self, items: Sequence[wire.Item], patience_s: float | None = None, *, commits: bool = False
    ) -> list[PGresult]:
        """Send statements; the result of each. `wire.Overdue` if nothing is heard for so long.

        Where whoever waits is interrupted, the server is asked to cancel, but not if this `commits`: it would say that
        it has committed, and wait for its standby no longer. Then the connection is of no more use.
        """
        talking = wire.exchange(self.pgconn, items, self.names, patience_s)
        return (wire.settle(talking, self.pgconn.socket) if commits else self.wait(talking))

    def rows(self, result: PGresult) -> list[Row]:
        """The rows of a result."""
        return wire.rows(result, self._transformer)

    def _noticed(self, notice: Diagnostic) -> None:
        if notice.source_function == wire.WAITED_IN_VAIN:
            self.unsure = True


def connect(settings: Settings) -> Line:
    """A connection, checked; statements are prepared on it if nothing stands between it and the server."""
    line = _reached(settings)
    try:
        line.server = _checked(line, settings)
    except BaseException:
        line.close()
        raise
    if line.server.direct:
        line.names = {}
    return line


def _reached(settings: Settings) -> Line:
    line = Line.connect(**given.options(settings), cursor_factory=RawCursor)
    given.prepare(line)
    return line


def _checked(line: Line, settings: Settings) -> given.Server:
    (result,) = line.talk([(given.SERVER_QUERY, ())], settings.short_answer_s)
    return given.check(line.rows(result)[0], line.info.backend_pid)


def prepare(settings: Settings) -> bool:
    """Bring the schema to the newest version; whether the server takes writes.

    A connection that ends meanwhile is replaced, as long as `busy_timeout_s`; one that cannot be
    made is an error at once, for its URL may be wrong.
    """
    deadline = time.monotonic() + settings.busy_timeout_s
    while True:
        line = _reached(settings)
        try:
            return _prepared(line, settings)
        except Exception as error:
            if not is_lost(error) or time.monotonic() > deadline:
                raise
        finally:
            line.close()
        rest(PAUSE_S)


def _prepared(line: Line, settings: Settings) -> bool:
    server = _checked(line, settings)
    writable = not settings.read_only and not server.standby
    if writable:
        _migrate(line, server, settings)
    elif not server.has_schema:
        raise StoreUnavailableError("the database holds no store of plait's, and none can be made here")
    _refuse_newer(_version(line, "schema_version", settings))
    return writable


def newest_version() -> int:
    return migrations()[-1][0]


def _migrate(line: Line, server: given.Server, settings: Settings) -> None:
    if server.has_schema and _version(line, "schema_version", settings) >= newest_version():
        return
    line.set_isolation_level(IsolationLevel.READ_COMMITTED)
    line.set_read_only(False)
    for name in ("make_schema", "make_meta", "start_schema"):
        _patiently(line, name, settings)
    for version, script in migrations():
        with line.transaction():
            _limit(line, settings)
            if _version(line, "lock_schema", settings) < version:
                line.execute(script.encode())
                line.execute(OWN["note_schema"].query.replace(b"$1", b"%d" % version))


def _patiently(line: Line, name: str, settings: Settings) -> None:
    """A step that fails where somebody else does it at the same time, though it says `IF NOT EXISTS`."""
    for attempt in range(RACES):
        try:
            with line.transaction():
                _limit(line, settings)
                line.execute(OWN[name].query)
            return
        except Exception as error:
            if not is_again(error) or attempt == RACES - 1:
                raise


def _limit(line: Line, settings: Settings) -> None:
    """Wait no longer for others in this transaction, and let no others wait longer for it, than a write does."""
    line.talk([(OWN["limits"].query, settings.write_limits())], settings.short_answer_s)


def _version(line: Line, name: str, settings: Settings) -> int:
    """Which schema there is; `wire.Overdue` if somebody keeps that from being read or locked."""
    patience_s = settings.answer_s(settings.busy_timeout_s)
    (result,) = line.talk([(OWN[name].query, ())], patience_s)
    rows = line.rows(result)
    return int(rows[0][0]) if rows else 0


def _refuse_newer(version: int) -> None:
    if version > newest_version():
        raise SchemaError(
            f"the database was written by a newer plait (schema version {version}); this one knows versions up to "
            f"{newest_version()}: upgrade plait. Nothing was changed",
            found=version,
            known=newest_version(),
        )
