"""A database of an older version opened by many programs at once is migrated once, by one of them."""

from __future__ import annotations

import signal
from pathlib import Path

import apsw

import plait
from plait.store.sqlite.connection import newest_version
from tests.behaviour.programs import run_together, start
from tests.behaviour.values import note

NEXT = """
from plait.store.sqlite import connection as files
steps = [*files.migrations(), (files.newest_version() + 1, "CREATE TABLE next (x); INSERT INTO next VALUES (1);")]
files.migrations = lambda: steps
"""

OPEN = (
    NEXT
    + """
ready()
with plait.open(sys.argv[2], durability="process") as sessions:
    sessions.session("chat").append(note(f"m{sys.argv[1]}"))
"""
)


def test_many_programs_migrate_an_old_file_once(tmp_path: Path) -> None:
    """B-030"""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        sessions.session("chat").append(note("old"))
    run_together(OPEN, 8, path)
    check(path, 9)


KILLED = (
    NEXT
    + """
import apsw
def kill(connection, sql, bindings):
    if "INSERT INTO next" in sql:
        os.kill(os.getpid(), 9)
    return True
apsw.connection_hooks.append(lambda connection: setattr(connection, "exec_trace", kill))
plait.open(sys.argv[1]).open()
"""
)


def test_a_migration_killed_in_the_middle_is_done_by_the_next_program(tmp_path: Path) -> None:
    """B-030, B-123: no partial schema, the data as it was."""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        sessions.session("chat").append(note("old"))
    process = start(KILLED, path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, errors
    with plait.open(path) as sessions:  # this program knows nothing of the next version, and the file is not of it
        assert [message.id for message in sessions.session("chat").history()] == ["old"]
        assert sessions.doctor() == []
    run_together(OPEN, 3, path)
    check(path, 4)


def check(path: Path, messages: int) -> None:
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA user_version").fetchall() == [(newest_version() + 1,)]
    assert connection.execute("SELECT count(*) FROM next").fetchall() == [(1,)]
    connection.execute(f"DROP TABLE next; PRAGMA user_version = {newest_version()}")
    connection.close()
    with plait.open(path) as sessions:
        chat = sessions.session("chat")
        assert len(list(chat.history())) == messages and len(chat.leaves()) == 1
        assert sessions.doctor() == []
