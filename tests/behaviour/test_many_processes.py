"""Many processes on one file: every append lands, in one chain, and everybody can open it at once."""

from __future__ import annotations

from pathlib import Path

import plait
from tests.behaviour.programs import finished, start
from tests.dose import dose

STRICT = {"PYTHONWARNINGS": "error"}
WRITER = """
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with plait.open(path, durability="process") as sessions:
    chat = sessions.session("shared")
    for n in range(count):
        chat.append(plait.user(f"{name}-{n}", id=f"{name}-{n}"))
"""
READER = """
path, total = sys.argv[1], int(sys.argv[2])
with plait.open(path, read_only=True) as sessions:
    chat = sessions.session("shared")
    seen = 0
    while seen < total:
        messages = list(chat.history())
        assert [m.seq for m in messages] == list(range(1, len(messages) + 1)), "a gap, or out of order"
        assert len(messages) >= seen, "a message that was read is gone"
        seen = len(messages)
"""
OPENER = """
with plait.open(sys.argv[1], durability="process") as sessions:
    sessions.session("shared").append(plait.user("hello", id=sys.argv[2]))
"""


def test_eight_writers_and_four_readers_make_one_chain(tmp_path: Path) -> None:
    """B-026, B-027: no lock error, no lost append, no fork that nobody asked for."""
    path, writers, appends = tmp_path / "a.db", 8, dose(short=40, soak=200)
    with plait.open(path) as sessions:
        sessions.session("shared").append(plait.user("first", id="first"))
    total = writers * appends + 1
    processes = [start(WRITER, path, f"w{n}", appends, env=STRICT) for n in range(writers)]
    processes += [start(READER, path, total, env=STRICT) for _ in range(4)]
    for process in processes:
        finished(process)
    with plait.open(path) as sessions:
        chat = sessions.session("shared")
        messages = list(chat.history())
        assert [message.seq for message in messages] == list(range(1, total + 1))
        expected = {"first"} | {f"w{n}-{k}" for n in range(writers) for k in range(appends)}
        assert {message.id for message in messages} == expected
        for n in range(writers):
            own = [message.id for message in messages if message.id.startswith(f"w{n}-")]
            assert own == [f"w{n}-{k}" for k in range(appends)], "a writer's own order is kept"
        assert len(chat.leaves()) == 1
        assert sessions.doctor() == []


def test_a_fresh_file_opened_by_eight_processes_at_once_takes_them_all(tmp_path: Path) -> None:
    """B-029, B-030: making the file, its journal and its tables is done once, and nobody fails for it."""
    for round in range(dose(short=4, soak=20)):
        path = tmp_path / f"{round}.db"
        for process in [start(OPENER, path, f"m{n}", env=STRICT) for n in range(8)]:
            finished(process)
        with plait.open(path) as sessions:
            chat = sessions.session("shared")
            assert {message.id for message in chat.history()} == {f"m{n}" for n in range(8)}
            assert len(chat.leaves()) == 1
