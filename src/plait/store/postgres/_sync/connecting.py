"""Generated from src/plait/store/postgres/_async/connecting.py by tools/unasync.py: edit that file. Connecting: a server that plait can work with, at a schema that it knows."""

from __future__ import annotations

import logging
from typing import Any

from psycopg import Connection, RawCursor

from plait.errors import SchemaError, StoreUnavailableError
from plait.store.postgres import settings as given
from plait.store.postgres.errors import is_again
from plait.store.postgres.settings import Settings
from plait.store.postgres.statements import migrations, own

log = logging.getLogger("plait")
OWN = own()
PREPARED = 400
RACES = 20
"""How often a step of making the schema is tried where others make it at the same time."""


def connect(settings: Settings) -> Connection[Any]:
    """A connection, checked; statements are prepared on it if nothing stands between it and the server."""
    connection, server = _connected(settings)
    if server.direct:
        connection.prepare_threshold = 1
        connection.prepared_max = PREPARED
    return connection


def _connected(settings: Settings) -> tuple[Connection[Any], given.Server]:
    connection = Connection.connect(**given.options(settings), cursor_factory=RawCursor)
    try:
        given.prepare(connection)
        row = (connection.execute(given.SERVER_QUERY)).fetchone()
        return connection, given.check(row, connection.info.backend_pid)
    except BaseException:
        connection.close()
        raise


def prepare(settings: Settings) -> bool:
    """Bring the schema to the newest version; whether the server takes writes."""
    connection, server = _connected(settings)
    try:
        writable = not settings.read_only and not server.standby
        if writable:
            _migrate(connection, server)
        elif not server.has_schema:
            raise StoreUnavailableError("the database holds no store of plait's, and none can be made here")
        _refuse_newer(_version(connection, "schema_version"))
        return writable
    finally:
        connection.close()


def newest_version() -> int:
    return migrations()[-1][0]


def _migrate(connection: Connection[Any], server: given.Server) -> None:
    if server.has_schema and _version(connection, "schema_version") >= newest_version():
        return
    for name in ("make_schema", "make_meta", "start_schema"):
        _patiently(connection, name)
    for version, script in migrations():
        with connection.transaction():
            if _version(connection, "lock_schema") < version:
                connection.execute(script.encode())
                connection.execute(OWN["note_schema"].query.replace(b"$1", b"%d" % version))


def _patiently(connection: Connection[Any], name: str) -> None:
    """A step that fails where somebody else does it at the same time, though it says `IF NOT EXISTS`."""
    for attempt in range(RACES):
        try:
            connection.execute(OWN[name].query)
            return
        except Exception as error:
            if not is_again(error) or attempt == RACES - 1:
                raise


def _version(connection: Connection[Any], name: str) -> int:
    row = (connection.execute(OWN[name].query)).fetchone()
    return int(row[0]) if row else 0


def _refuse_newer(version: int) -> None:
    if version > newest_version():
        raise SchemaError(
            f"the database was written by a newer plait (schema version {version}); this one knows versions up to "
            f"{newest_version()}: upgrade plait. Nothing was changed",
            found=version,
            known=newest_version(),
        )
