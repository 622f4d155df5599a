"""A process keeps its locks on the database, whatever else it does with the file.

On POSIX a process loses all its locks on a file as soon as it closes any descriptor of it. Without its
lock another process takes the file for abandoned when it closes it, and deletes the log that is being written.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import plait
from plait.errors import SchemaError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")

LOOK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)  # SQLite's shared range
    except OSError:
        print("held")
"""
COME_AND_GO = """
import plait, sys
with plait.open(sys.argv[1]) as sessions:
    sessions.session("s").append(plait.user("theirs", id="theirs"))
"""


def other(script: str, path: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def flush(sessions: plait.Sessions, path: Path) -> None:
    sessions.flush()


def open_again(sessions: plait.Sessions, path: Path) -> None:
    with plait.open(path) as again:
        again.session("s").append(plait.user("again", id="again"))


def read_again(sessions: plait.Sessions, path: Path) -> None:
    with plait.open(path, read_only=True) as again:
        assert again.session("s").leaf() is not None


def back_up(sessions: plait.Sessions, path: Path) -> None:
    sessions.backup(path.with_suffix(".copy"))


def examine(sessions: plait.Sessions, path: Path) -> None:
    assert sessions.doctor(fix=True) == []


def back_up_onto_itself(sessions: plait.Sessions, path: Path) -> None:
    with pytest.raises(plait.PlaitError):
        sessions.backup(path)


ACTS: list[Callable[[plait.Sessions, Path], None]] = [
    flush,
    open_again,
    read_again,
    back_up,
    examine,
    back_up_onto_itself,
]


@pytest.mark.parametrize("durability", ["strict", "process", "relaxed"])
@pytest.mark.parametrize("act", ACTS)
def test_the_file_stays_locked_and_nothing_is_lost(
    tmp_path: Path, act: Callable[[plait.Sessions, Path], None], durability: plait.Durability
) -> None:
    path = tmp_path / "a.db"
    with plait.open(path, durability=durability) as sessions:
        chat = sessions.session("s")
        chat.append(plait.user("one", id="one"))
        act(sessions, path)
        assert other(LOOK, path) == "held\n"
        other(COME_AND_GO, path)
        chat.append(plait.user("two", id="two"))
        with plait.open(path) as again:
            ids = [message.id for message in again.session("s").history()]
        assert ids[0] == "one"
        assert ids[-2:] == ["theirs", "two"]


def test_a_refused_open_of_a_newer_file_keeps_the_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        sessions.session("s").append(plait.user("one"))
        with monkeypatch.context() as patch:
            patch.setattr("plait.store.sqlite.connection.newest_version", lambda: 0)
            with pytest.raises(SchemaError), plait.open(path):
                pass
        assert other(LOOK, path) == "held\n"
