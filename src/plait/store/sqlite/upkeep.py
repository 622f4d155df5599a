"""Looking after a database file: backup, checks and mending, vacuum."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import cast

import apsw

from plait.errors import StoreUnavailableError, UsageError
from plait.model import Finding
from plait.store.looking import damage, findings
from plait.store.plan import Plan
from plait.store.plans import common, messages
from plait.store.sqlite import veil
from plait.store.sqlite.connection import Settings, cannot_open, migrate, patiently, transaction
from plait.store.sqlite.executor import Executor
from plait.store.sqlite.stale import stale_texts, stale_values
from plait.store.sqlite.statements import Statement, load, parse, read

BACKUP_PAGES = 1024
"""Pages copied at a time (8 MiB); writers go on between."""

DERIVED = ("message_id", "activity")
"""Tables that can be filled anew from the others."""


def backup(connection: apsw.Connection, path: str) -> None:
    """Copy everything into a new file, which appears under its name only when it is whole."""
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already; name a new file for the backup")
    draft = f"{path}.{os.urandom(4).hex()}.part"
    try:
        _copy(connection, draft)
        _appear(draft, path)
    except FileExistsError:
        raise UsageError(f"{path} exists already; name a new file for the backup") from None
    except apsw.CantOpenError as error:
        raise StoreUnavailableError(cannot_open(path)) from error
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            if os.path.exists(draft + end):
                os.unlink(draft + end)


def _appear(draft: str, path: str) -> None:
    """Give a file its name; `FileExistsError` if somebody made one of that name meanwhile."""
    try:
        os.link(draft, path)  # a rename would replace that one
    except FileExistsError:
        raise
    except OSError:  # this file system has no links
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        os.rename(draft, path)


def _copy(connection: apsw.Connection, draft: str) -> None:
    target = apsw.Connection(draft)
    try:
        with transaction(connection):  # one snapshot, so that writers in between do not make it begin anew
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            with target.backup("main", connection, "main") as copying:
                while not copying.done:
                    copying.step(BACKUP_PAGES)
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


def vacuum(connection: apsw.Connection, settings: Settings, *, purge: bool) -> None:
    """Write the file anew and empty the log; with `purge` it is an error if readers stay in the way of that."""
    connection.execute("VACUUM")
    if purge:
        patiently(settings, lambda: _empty_log(connection))  # SQLite does not wait for another's checkpoint to end
    else:
        with suppress(apsw.BusyError):
            _empty_log(connection)


def _empty_log(connection: apsw.Connection) -> None:
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def examine(connection: apsw.Connection, settings: Settings, *, fix: bool) -> list[Finding]:
    """Check the file's pages, then plait's own rules; mend in one transaction what can be mended."""
    broken = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    if broken:
        return [Finding("damaged file", detail) for detail in broken]
    with transaction(connection, "BEGIN IMMEDIATE" if fix else "BEGIN"):
        found = [*_journal(connection, settings), *_schema(connection, fix)]
        if all(finding.fixed or finding.kind != "missing table" for finding in found):
            veil.look(connection)
            found += [*_rules(connection, fix), *_path_totals(connection, fix)]
            found += [*_payloads(connection), *_bodies(connection)]
            if not any(finding.kind == "damaged message" for finding in found):
                found += stale_texts(connection, _doctor("inspect.sql"), fix=fix)
            found += stale_values(connection, _doctor("inspect.sql"), fix=fix)
            if fix:
                connection.execute(_doctor("inspect.sql")["mark_pending_behind"].text)
    return found


def _journal(connection: apsw.Connection, settings: Settings) -> Iterator[Finding]:
    mode = str(connection.execute("PRAGMA journal_mode").fetchall()[0][0])
    if not settings.read_only and mode not in (settings.journal_mode, "memory"):
        yield Finding("journal mode", f"{mode} is in force where {settings.journal_mode} was asked for")


def _schema(connection: apsw.Connection, fix: bool) -> Iterator[Finding]:
    """Tables and indexes that are not there; what can be filled from the rest is made anew."""
    look = _doctor("inspect.sql")["schema"].text
    wanted = apsw.Connection(":memory:")
    try:
        migrate(wanted)
        there = {name for _, name, _ in connection.execute(look)}
        missing = [row for row in wanted.execute(look).fetchall() if row[1] not in there]
    finally:
        wanted.close()
    for kind, name, sql in missing:
        mended = fix and (kind == "index" or name in DERIVED) and _made(connection, str(sql))
        yield Finding(f"missing {kind}", str(name), mended)


def _made(connection: apsw.Connection, sql: str) -> bool:
    try:
        connection.execute(sql)
    except (apsw.SQLError, apsw.ConstraintError):  # its table is missing too, or holds something twice
        return False
    return True


def _rules(connection: apsw.Connection, fix: bool) -> Iterator[Finding]:
    """What breaks a rule of `doctor.sql`, mended by the statement of the same name in `mend`."""
    for name, check in _doctor("doctor.sql").items():
        rows = connection.execute(check.text).fetchall()
        if not rows:
            continue
        mended = fix and name in _doctor("mend.sql")
        if mended:
            connection.execute(_doctor("mend.sql")[name].text)
        yield from findings(name.replace("_", " "), rows, mended)


def _doctor(name: str) -> dict[str, Statement]:
    return parse(read(name))


def _path_totals(connection: apsw.Connection, fix: bool) -> Iterator[Finding]:
    """Sessions whose totals of the active path are not what its messages add up to."""
    statements, executor = _doctor("inspect.sql"), Executor(connection, load())
    for session, id, leaf, *kept in connection.execute(statements["path_totals_kept"].text).fetchall():
        counted = executor.run(partial(_counted, cast("int", leaf)))
        if tuple(kept) != counted:
            if fix:
                connection.execute(statements["forget_path_totals"].text, (session,))
            yield Finding("wrong path totals", f"{id}, {kept} where {list(counted)} are there", fix)


def _counted(leaf: int) -> Plan[tuple[int, int, int]]:
    return (yield from common.range_totals((yield from common.path_to(leaf))))


def _payloads(connection: apsw.Connection) -> Iterator[Finding]:
    """Payloads that are not what their hash says; nothing mends these."""
    statements = _doctor("inspect.sql")
    for attachment, hash in connection.execute(statements["payloads"].text).fetchall():
        digest = hashlib.sha256()
        for (data,) in connection.execute(statements["pieces"].text, (attachment,)):
            digest.update(cast("bytes", data))
        if digest.digest() != hash:
            users = [repr(id) for (id,) in connection.execute(statements["users_of_payload"].text, (attachment,))]
            yield Finding("damaged attachment", f"{attachment}, used by {', '.join(users) or 'no message'}")


def _bodies(connection: apsw.Connection) -> Iterator[Finding]:
    """Messages that cannot be put together, are not JSON or not what their row says; nothing mends these."""
    executor = Executor(connection, load())
    args = (messages.LARGE_BYTES, 0, 1 << 62, -1)
    for row in connection.execute(load()["messages_up"].text, args):
        reason = executor.run(partial(damage, row))
        if reason:
            yield Finding("damaged message", f"{row[messages.ID]!r} (key {row[messages.KEY]}): {reason}")
