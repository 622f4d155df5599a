"""Looking after a database file: backup, checks and mending, vacuum."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import apsw

from plait.errors import CorruptError, UsageError
from plait.model import Finding
from plait.store.plan import Row
from plait.store.plans import messages
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.executor import Executor
from plait.store.sqlite.statements import Statement, load, parse, read

BACKUP_PAGES = 1024
"""Pages copied at a time (8 MiB); writers go on between."""

SHOWN = 20
"""How many places of one kind of damage are named."""


def backup(connection: apsw.Connection, path: str) -> None:
    """Copy everything into a new file, which appears under its name only when it is whole."""
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already; name a new file for the backup")
    draft = f"{path}.{os.urandom(4).hex()}.part"
    try:
        _copy(connection, draft)
        os.link(draft, path)  # fails if somebody made the file meanwhile, where a rename would replace it
    except FileExistsError:
        raise UsageError(f"{path} exists already; name a new file for the backup") from None
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            if os.path.exists(draft + end):
                os.unlink(draft + end)


def _copy(connection: apsw.Connection, draft: str) -> None:
    target = apsw.Connection(draft)
    try:
        connection.execute("BEGIN")  # one snapshot, so that writers in between do not make it begin anew
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with target.backup("main", connection, "main") as copying:
            while not copying.done:
                copying.step(BACKUP_PAGES)
        connection.execute("ROLLBACK")
        target.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        target.close()
    _sync(draft)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def vacuum(connection: apsw.Connection, *, purge: bool) -> None:
    """Write the file anew and empty the log; with `purge` it is an error if readers are in the way of that."""
    connection.execute("VACUUM")
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        if purge:
            raise


def examine(connection: apsw.Connection, settings: Settings, *, fix: bool) -> list[Finding]:
    """Check the file's pages, then plait's own rules; mend in one transaction what can be mended."""
    broken = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    if broken:
        return [Finding("damaged file", detail) for detail in broken]
    connection.execute("BEGIN IMMEDIATE" if fix else "BEGIN")
    try:
        found = [*_journal(connection, settings), *_rules(connection, fix), *_bodies(connection)]
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return found


def _journal(connection: apsw.Connection, settings: Settings) -> Iterator[Finding]:
    mode = str(connection.execute("PRAGMA journal_mode").fetchall()[0][0])
    if not settings.read_only and mode not in (settings.journal_mode, "memory"):
        yield Finding("journal mode", f"{mode} is in force where {settings.journal_mode} was asked for")


def _rules(connection: apsw.Connection, fix: bool) -> Iterator[Finding]:
    """What breaks a rule of `doctor.sql`, mended by the statement of the same name in `mend`."""
    for name, check in _doctor("doctor.sql").items():
        rows = connection.execute(check.text).fetchall()
        if not rows:
            continue
        mended = fix and name in _doctor("mend.sql")
        if mended:
            connection.execute(_doctor("mend.sql")[name].text)
        yield from _findings(name.replace("_", " "), rows, mended)


def _findings(kind: str, rows: Iterable[Row], fixed: bool) -> Iterator[Finding]:
    rows = list(rows)
    for row in rows[:SHOWN]:
        yield Finding(kind, ", ".join(str(value) for value in row), fixed)
    if len(rows) > SHOWN:
        yield Finding(kind, f"and {len(rows) - SHOWN} more", fixed)


def _doctor(name: str) -> dict[str, Statement]:
    return parse(read(name))


def _bodies(connection: apsw.Connection) -> Iterator[Finding]:
    """Messages that cannot be put together or are not JSON; nothing mends these."""
    executor = Executor(connection, load())
    args = (messages.LARGE_BYTES, 0, 1 << 62, -1)
    for row in connection.execute(load()["messages_up"].text, args):
        message = executor.run(lambda row=row: messages.build_one(row, None))  # type: ignore[misc]
        try:
            reason = getattr(message, "reason", None)
            if reason is None:
                message.to_dict()  # type: ignore[union-attr]
        except CorruptError as error:
            reason = f"its text is not JSON: {error.__cause__}"
        if reason:
            yield Finding("damaged message", f"{row[messages.ID]!r} (key {row[messages.KEY]}): {reason}")
