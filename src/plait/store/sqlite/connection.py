"""Opening a database file: who may, in which journal mode, at which version of the schema."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from typing import Literal, TypeVar

import apsw
from msgspec import Struct
from msgspec.structs import replace

from plait.errors import CorruptError, SchemaError, StoreBusyError, StoreUnavailableError
from plait.store.sqlite.statements import bridges, migrations

T = TypeVar("T")
Durability = Literal["strict", "process", "relaxed"]
JournalMode = Literal["wal", "delete"]

APPLICATION_ID = 0x706C6169  # "plai"
PAGE_SIZE = 8192
MEMORY = ":memory:"
SYNCHRONOUS: dict[Durability, str] = {"strict": "EXTRA", "process": "NORMAL", "relaxed": "OFF"}
"""With EXTRA a commit without a log also waits for the folder that its journal was removed from; with a log it is FULL."""
JOURNAL_IN_MEMORY = "PRAGMA temp_store = MEMORY"
"""For short transactions: a statement of many rows keeps the pages it changes, in a file on disk unless told not to."""
STATEMENT_CACHE = 200
MAX_TIMEOUT_MS = (1 << 31) - 1

log = logging.getLogger("plait")


class Settings(Struct, frozen=True):
    """How a database file is to be opened.

    `journal_mode` is what is asked for: a file system that cannot do WAL gives another, which the
    store reports. `vfs` names a SQLite VFS, for tests. `immutable` reads a file without any lock, where
    nobody can be writing.
    """

    path: str
    durability: Durability = "strict"
    journal_mode: JournalMode = "wal"
    read_only: bool = False
    busy_timeout_s: float = 30.0
    vfs: str | None = None
    immutable: bool = False

    @property
    def busy_timeout_ms(self) -> int:
        return int(min(self.busy_timeout_s * 1000, MAX_TIMEOUT_MS))

    @property
    def in_memory(self) -> bool:
        return self.path == MEMORY


def newest_version() -> int:
    """The schema version this plait writes."""
    return migrations()[-1][0]


def prepare(settings: Settings) -> tuple[Settings, str]:
    """Make the file ready for readers and writers; answers how to open it, and the journal mode in force.

    A file of a newer plait, or of another program, is refused and not touched. Processes that do
    this at the same time wait for one another.
    """
    if settings.in_memory:
        return settings, "memory"
    _refuse_no_file(settings.path)
    if settings.read_only:
        return _prepare_reading(settings)
    _refuse_foreign(settings)
    connection = _connect(settings, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        mode = patiently(settings, lambda: _set_journal(connection, settings))
        migrate(connection)
    finally:
        connection.close()
    if mode != settings.journal_mode:
        log.warning(
            "%s: asked for journal mode %s, the file system gives %s", settings.path, settings.journal_mode, mode
        )
    return settings, mode


def _prepare_reading(settings: Settings) -> tuple[Settings, str]:
    """Find a way to read that needs no permission to write, not even the log's side files."""
    try:
        return settings, _look(settings)
    except StoreUnavailableError:
        if not os.path.exists(settings.path):
            raise
    if os.path.exists(settings.path + "-wal") and os.path.getsize(settings.path + "-wal"):
        raise StoreUnavailableError(
            f"{settings.path} has a log (-wal) that cannot be read without write permission on its folder; "
            "copy the file and its -wal somewhere writable, or let its owner open and close it once"
        )
    settings = replace(settings, immutable=True)
    return settings, _look(settings)


def open_writer(settings: Settings) -> apsw.Connection:
    """The connection that writes."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if settings.in_memory else 0)
    connection = _connect(settings, flags)
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[settings.durability]}")
    connection.execute("PRAGMA secure_delete = OFF")
    connection.wal_autocheckpoint(0)
    if settings.in_memory:
        migrate(connection)
    return connection


def sync(settings: Settings) -> None:
    """Put everything committed so far on disk, by a commit that waits for it.

    That commit syncs the whole log (or the file, where there is no log). It is SQLite that syncs, for
    a descriptor of ours would drop its locks on the file when closed.
    """
    with (
        closing(open_writer(replace(settings, durability="strict"))) as connection,
        transaction(connection, "BEGIN IMMEDIATE"),
    ):
        # Written even if it is the same: SQLite compares rows, not the header.
        connection.execute(f"PRAGMA user_version = {_version(connection)}")


def open_reader(settings: Settings, *, wait: bool = True) -> apsw.Connection:
    """A connection that only reads; it waits for nobody unless told to."""
    connection = _connect(settings, apsw.SQLITE_OPEN_READONLY)
    if settings.read_only:  # else the file has been migrated
        version = patiently(settings, lambda: _version(connection))
        for number, script in bridges():
            if number > version:
                connection.execute(script)
    connection.set_busy_timeout(settings.busy_timeout_ms if wait else 0)
    return connection


def _connect(settings: Settings, flags: int) -> apsw.Connection:
    path = _spelled(settings.path)
    if settings.immutable:
        path, flags = f"{_uri(path)}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(path, flags=flags, vfs=settings.vfs, statementcachesize=STATEMENT_CACHE)
    except apsw.CantOpenError as error:
        raise StoreUnavailableError(cannot_open(settings.path)) from error
    connection.set_busy_timeout(settings.busy_timeout_ms)
    return connection


def _spelled(path: str) -> str:
    """The path as SQLite wants it, whatever the locale."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def _uri(path: str) -> str:
    """The path as SQLite takes it before parameters; spelled here because pathlib takes long to import."""
    whole = os.path.abspath(path).replace(os.sep, "/").encode("utf-8", "surrogateescape")
    spelled = "".join(chr(byte) if byte < 0x80 and byte not in b"%?#" else f"%{byte:02X}" for byte in whole)
    return f"file://{spelled}" if spelled.startswith("/") else f"file:///{spelled}"


def cannot_open(path: str) -> str:
    """Why a file that SQLite cannot open cannot be opened, as far as can be told."""
    if os.path.isdir(path):
        return f"{path} is a folder; give the path of a database file in it"
    if _no_descriptors():
        return f"{path} cannot be opened: too many files are open; close some, or raise the limit (`ulimit -n`)"
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        return f"{path} cannot be opened: the folder {parent} does not exist"
    if not os.path.exists(path):
        return f"{path} does not exist and cannot be made here: check the path and the permissions of its folder"
    if not os.path.isfile(path):
        return f"{path} is no file but a device or a pipe; give the path of a database file"
    return f"{path} cannot be opened: check its permissions, and how many files this process may have open"


def _no_descriptors() -> bool:
    """Whether this process, or the machine, can open no file at all now: SQLite does not say why it could not."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


@contextmanager
def transaction(connection: apsw.Connection, begin: str = "BEGIN") -> Generator[None]:
    """Commit what is done inside, or undo it; an error such as a full disk may have undone it already."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def patiently(settings: Settings, step: Callable[[], T]) -> T:
    """Repeat a step that does not wait for locks by itself, up to the wait limit."""
    deadline = time.monotonic() + settings.busy_timeout_s
    while True:
        try:
            return step()
        except (apsw.BusyError, apsw.LockedError) as error:
            if time.monotonic() > deadline:
                raise StoreBusyError(f"{settings.path} stayed locked for {settings.busy_timeout_s:g} s") from error
            time.sleep(0.001 + 0.009 * os.urandom(1)[0] / 256)


def _set_journal(connection: apsw.Connection, settings: Settings) -> str:
    """Set page size and journal mode where they are not set; answers the mode in force."""
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # of a new file; another stays as it is
    current = str(connection.execute("PRAGMA journal_mode").fetchall()[0][0])
    if current == settings.journal_mode:
        return current
    return str(connection.execute(f"PRAGMA journal_mode = {settings.journal_mode}").fetchall()[0][0])


def migrate(connection: apsw.Connection) -> None:
    """Bring the schema to the newest version: a new file in one transaction, an older one step by step."""
    if not _version(connection):
        _step(connection, migrations())
    for migration in migrations():
        _step(connection, [migration])


def _step(connection: apsw.Connection, wanted: Sequence[tuple[int, str]]) -> None:
    """Run those of these migrations that the file has not had yet, in one transaction."""
    if _version(connection) >= wanted[-1][0]:
        return
    with transaction(connection, "BEGIN IMMEDIATE"):
        for version, script in wanted:
            if _version(connection) < version:  # nobody else was faster
                connection.execute(script)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {version}")


def _version(connection: apsw.Connection) -> int:
    return _number(connection, "PRAGMA user_version")


def _number(connection: apsw.Connection, sql: str) -> int:
    value = connection.execute(sql).fetchall()[0][0]
    assert isinstance(value, int)
    return value


def _refuse_no_file(path: str) -> None:
    """Raise if something else than a file has that name: opening a pipe would wait, and a device is no disk."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise StoreUnavailableError(cannot_open(path))


def _refuse_foreign(settings: Settings) -> None:
    """Raise unless the file is absent, empty or one of ours, looking without a byte changed."""
    try:
        if not os.stat(settings.path).st_size:
            return
    except OSError:
        return
    _look(settings)


def _look(settings: Settings) -> str:
    """Check the file through a connection that only reads; answers the journal mode."""
    if not os.path.exists(settings.path):
        raise StoreUnavailableError(cannot_open(settings.path))
    _check_header(settings)
    connection = _connect(settings, apsw.SQLITE_OPEN_READONLY)
    try:
        return patiently(settings, lambda: _check(connection, settings.path))
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise CorruptError(f"{settings.path} is not a sound SQLite database: {error}") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        raise StoreUnavailableError(f"{settings.path} cannot be read: {error}") from error
    finally:
        connection.close()


def _check_header(settings: Settings) -> None:
    """Refuse a file that is no database, or a newer plait's, before SQLite is let near it."""
    path, header = settings.path, _header(settings)
    if not header:
        return
    if not header.startswith(b"SQLite format 3\x00"):
        raise SchemaError(f"{path} is not a SQLite database; give another path")
    _check_version(path, int.from_bytes(header[60:64], "big"), int.from_bytes(header[68:72], "big"))


def _header(settings: Settings) -> bytes:
    """The first bytes of a file, through SQLite's own file layer.

    A descriptor opened beside it would, when closed, take away the locks of every connection that
    this process has on the file.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
    try:
        file = apsw.VFSFile(settings.vfs or "", _spelled(settings.path), [flags, 0])
    except apsw.Error as error:
        raise StoreUnavailableError(cannot_open(settings.path)) from error
    try:
        return file.xRead(min(100, file.xFileSize()), 0)
    except apsw.Error as error:
        raise StoreUnavailableError(f"{settings.path} cannot be read: {error}") from error
    finally:
        file.xClose()


def _check_version(path: str, version: int, application: int) -> None:
    if application == APPLICATION_ID and version > newest_version():
        raise SchemaError(
            f"{path} was written by a newer plait (schema version {version}); this one knows versions up to "
            f"{newest_version()}: upgrade plait. Nothing was changed",
            found=version,
            known=newest_version(),
        )


def _check(connection: apsw.Connection, path: str) -> str:
    """Refuse what is not ours; in one snapshot, since somebody else may just be making the file."""
    with transaction(connection):
        application = _number(connection, "PRAGMA application_id")
        _check_version(path, _version(connection), application)
        if _number(connection, "SELECT count(*) FROM sqlite_schema") and application != APPLICATION_ID:
            raise SchemaError(f"{path} is a SQLite database of another program; give another path")
    return str(connection.execute("PRAGMA journal_mode").fetchall()[0][0])
