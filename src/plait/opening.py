"""Opening a store by its URL or path; the one place that picks a driver.

What only one face or one driver needs is imported when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from plait.errors import UsageError

if TYPE_CHECKING:
    from plait._async.sessions import AsyncSessions
    from plait._sync.sessions import Sessions
    from plait.store.driver import Driver
    from plait.store.sqlite.connection import Durability, JournalMode

Counter = Callable[[Mapping[str, Any]], float]
DURABILITIES = ("strict", "process", "relaxed")
JOURNAL_MODES = ("wal", "delete")
MOST_CONNECTIONS = 10_000
_SCHEME_SIGNS = str.maketrans(dict.fromkeys("+.-"))
_POSTGRES = ("postgresql", "postgres")


def open(
    path: str | os.PathLike[str],
    *,
    durability: Durability = "strict",
    read_only: bool = False,
    busy_timeout_s: float = 30.0,
    statement_timeout_s: float = 300.0,
    max_connections: int = 16,
    journal_mode: JournalMode = "wal",
    scope: tuple[str, str] = ("", ""),
    counter: Counter | None = None,
    reserved_metadata_keys: Iterable[str] = (),
) -> Sessions:
    """Open the store in a SQLite file (or `:memory:`) or a PostgreSQL database, to be used from threads.

    `path` is a file's path, `sqlite:///path`, `:memory:` or `postgresql://user@host/database`, which takes what libpq
    takes (`plait[postgres]` has to be installed). On a server an acknowledged write is always committed, whatever
    `durability` says, and `journal_mode` means nothing; `max_connections` is how many are open at once at most, for
    all threads together and for each event loop, and `statement_timeout_s` how long one statement may take before
    `StoreBusyError`. Both mean nothing for a file.

    `durability` says what an acknowledged write survives: `strict` a power cut, `process` a killed
    process (a power cut may take the newest writes), `relaxed` the same without any fsync: a power
    cut may damage the file. `busy_timeout_s` is how long a write waits for other processes before
    `StoreBusyError`. A file system that cannot do WAL needs `journal_mode="delete"`, in which
    readers and writers wait for one another.

    Nothing is read or written until the first use. Raises `UsageError` for a URL it does not know.
    """
    from plait._sync.sessions import Sessions
    from plait.store._sync.store import PlanStore

    driver = _driver(path, durability, journal_mode, read_only, busy_timeout_s, statement_timeout_s, max_connections)
    return Sessions(PlanStore(driver), scope=scope, counter=counter, reserved_metadata_keys=reserved_metadata_keys)


def open_async(
    path: str | os.PathLike[str],
    *,
    durability: Durability = "strict",
    read_only: bool = False,
    busy_timeout_s: float = 30.0,
    statement_timeout_s: float = 300.0,
    max_connections: int = 16,
    journal_mode: JournalMode = "wal",
    scope: tuple[str, str] = ("", ""),
    counter: Counter | None = None,
    reserved_metadata_keys: Iterable[str] = (),
) -> AsyncSessions:
    """The same as `open`, to be used from asyncio."""
    from plait._async.sessions import AsyncSessions
    from plait.store._async.store import AsyncPlanStore

    driver = _driver(path, durability, journal_mode, read_only, busy_timeout_s, statement_timeout_s, max_connections)
    return AsyncSessions(
        AsyncPlanStore(driver), scope=scope, counter=counter, reserved_metadata_keys=reserved_metadata_keys
    )


def _driver(
    path: str | os.PathLike[str],
    durability: Durability,
    journal_mode: JournalMode,
    read_only: bool,
    busy_timeout_s: float,
    statement_timeout_s: float,
    max_connections: int,
) -> Driver:
    from plait.logic import arguments

    arguments.word("durability", durability, DURABILITIES)
    arguments.word("journal_mode", journal_mode, JOURNAL_MODES)
    busy_timeout_s = arguments.seconds("busy_timeout_s", busy_timeout_s)
    statement_timeout_s = arguments.seconds("statement_timeout_s", statement_timeout_s)
    max_connections = arguments.between("max_connections", max_connections, 1, MOST_CONNECTIONS)
    read_only = arguments.flag("read_only", read_only)
    place = arguments.file("path", path)
    if place.partition("://")[0].lower() in _POSTGRES:
        return _postgres(place, read_only, busy_timeout_s, statement_timeout_s, max_connections)
    file = _file(place)

    from plait.store.sqlite.connection import Settings
    from plait.store.sqlite.driver import SQLiteDriver

    return SQLiteDriver(Settings(file, durability, journal_mode, read_only, busy_timeout_s))


def _postgres(
    url: str, read_only: bool, busy_timeout_s: float, statement_timeout_s: float, max_connections: int
) -> Driver:
    try:
        from plait.store.postgres.driver import PostgresDriver
        from plait.store.postgres.settings import Settings, check_url
    except ImportError as error:
        raise UsageError(f"PostgreSQL needs psycopg: pip install 'plait[postgres]' ({error})") from error
    check_url(url)
    return PostgresDriver(Settings(url, read_only, busy_timeout_s, statement_timeout_s, max_connections))


def _file(path: str) -> str:
    """The file a path or a `sqlite:///` URL names."""
    scheme, is_url, _ = path.partition("://")
    if not is_url or not _is_scheme(scheme):
        if path.lower().startswith(_NEARLY):  # it may hold a password, so it is no file name to be told
            raise UsageError("this is nearly a URL of PostgreSQL's; give postgresql://user@host/database")
        return path
    if scheme.lower() != "sqlite":
        raise UsageError(
            f"plait does not know {scheme}:// stores; give a path, sqlite:///path, ':memory:' or postgresql://host/database"
        )
    return path.removeprefix("sqlite:///")


_NEARLY = ("postgres:", "postgres//", "postgresql:", "postgresql//")


def _is_scheme(text: str) -> bool:
    """Whether a URL may begin so; by hand, for compiling a pattern takes longer than the rest of this module."""
    return text[:1].isalpha() and text.isascii() and text.translate(_SCHEME_SIGNS).isalnum()
