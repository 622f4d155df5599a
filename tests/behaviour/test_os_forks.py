"""A process that forks with a store open: parent and child both go on, and neither harms the other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import plait
from plait.testing.faults import invariants
from tests.behaviour.programs import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

WAIT = """
def waited(pids):
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        assert status == 0, status

def child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(code)
"""

IDS = """
sessions = plait.open(sys.argv[1], durability="process")
sessions.session("chat").append(plait.user("before"))
def work():
    for m in range(25):
        sessions.session("chat").append(plait.user("hello"))
waited([child(work) for n in range(4)])
work()
ids = [message.id for message in sessions.session("chat").history()]
random_parts = {id[19:] for id in ids}
assert len(ids) == len(random_parts) == 126, (len(ids), len(random_parts))
sessions.close()
"""


BOTH_WRITE = """
sessions = plait.open(sys.argv[1], durability="process")
chat = sessions.session("chat")
chat.append(note("before"))
iterator = chat.history()
def work(n):
    for m in range(25):
        chat.append(note(f"{n}-{m}"))
        assert chat.get(f"{n}-{m}") is not None
        assert list(chat.history())[0].id == "before"
    if n % 2:
        sessions.close()
pids = [child(lambda n=n: work(n)) for n in range(4)]
work(10)
waited(pids)
assert [m.id for m in iterator][0] == "before"
chat.append(note("after"))
sessions.close()
"""

BUSY_PARENT = """
sessions = plait.open(sys.argv[1], durability="process")
chat = sessions.session("chat")
chat.append_many([note(f"m{n}") for n in range(600)])
stop = threading.Event()
def write(n):
    for m in range(400):
        chat.append(note(f"t{n}-{m}"))
        if stop.is_set():
            return
def read():
    while not stop.is_set():
        assert sum(1 for _ in chat.history()) >= 600
threads = [threading.Thread(target=write, args=(n,)) for n in range(2)] + [threading.Thread(target=read)]
for thread in threads: thread.start()
def work(n):
    for m in range(5):
        chat.append(note(f"c{n}-{m}"))
    assert sum(1 for _ in chat.history()) >= 605
for n in range(6):
    waited([child(lambda n=n: work(n))])
stop.set()
for thread in threads: thread.join()
sessions.close()
"""

LOOPS = """
sessions = plait.open_async(sys.argv[1], durability="process")
async def turn(name):
    chat = sessions.session("chat")
    await asyncio.gather(*(chat.append(note(f"{name}-{n}")) for n in range(10)))
    assert len([m async for m in chat.history()]) >= 10
asyncio.run(turn("before"))
pids = [child(lambda n=n: asyncio.run(turn(f"child{n}"))) for n in range(3)]
asyncio.run(turn("parent"))
waited(pids)
asyncio.run(sessions.close())
"""

MEMORY = """
sessions = plait.open(":memory:")
chat = sessions.session("chat")
chat.append(note("before"))
def work():
    chat.append(note("child"))
    assert [m.id for m in chat.history()] == ["before", "child"]
waited([child(work)])
chat.append(note("parent"))
assert [m.id for m in chat.history()] == ["before", "parent"]
"""

POOL = """
import multiprocessing
sessions = plait.open(sys.argv[1], durability="process")
sessions.session("chat").append(note("before"))
def work(n):
    sessions.session("chat").append(note(f"p{n}"))
    return sessions.session("chat").get("before").id
if __name__ == "__main__":
    for method in ("fork", "fork"):
        with multiprocessing.get_context(method).Pool(3) as pool:
            assert pool.map(work, range(30)) == ["before"] * 30
    sessions.close()
"""

IN_A_TRANSACTION = """
sessions = plait.open(sys.argv[1], durability="process")
chat = sessions.session("chat")
def forking(change):
    if change.message.id == "a":
        waited([child(lambda: chat.append(note("child")))])
sessions.subscribe(forking)
chat.append(note("a"))
chat.append(note("b"))
for message in chat.history():
    waited([child(lambda: chat.append(note(f"while reading {message.id}")))])
sessions.close()
"""

BUSY_HANDLES = """
sys.setswitchinterval(1e-6)
sessions = plait.open(":memory:")
chat = sessions.session("chat")
stop = threading.Event()
def ask(n):
    while not stop.is_set():
        kept = [sessions.session(f"{n}-{m}") for m in range(50)]
        opened.append(plait.open(":memory:"))
opened = []
threads = [threading.Thread(target=ask, args=(n,)) for n in range(3)]
for thread in threads: thread.start()
def work():
    assert sessions.session("chat") is chat
    with plait.open(":memory:") as others:
        others.session("new").append(note("m"))
for _ in range(25):
    waited([child(work)])
    del opened[:]
stop.set()
for thread in threads: thread.join()
"""


@pytest.mark.parametrize(
    ("program", "messages"),
    [(BOTH_WRITE, 127), (BUSY_PARENT, None), (LOOPS, 50), (POOL, 31), (IN_A_TRANSACTION, 6)],
    ids=["both write", "busy parent", "event loops", "pools", "from a subscriber and a loop"],
)
def test_parent_and_child_both_go_on_after_a_fork(tmp_path: Path, program: str, messages: int | None) -> None:
    path = tmp_path / "a.db"
    run(WAIT + program, path)
    assert invariants(path) == []
    with plait.open(path) as sessions:
        chat = sessions.session("chat")
        assert len(chat.leaves()) == 1
        path_messages = chat.totals().path_messages
        assert path_messages == len(list(chat.history())) == (messages or path_messages)
        assert sessions.doctor() == []


def test_a_store_in_memory_is_copied_by_a_fork() -> None:
    run(WAIT + MEMORY)


def test_a_fork_beside_threads_that_make_handles_and_stores() -> None:
    """No child finds what they share in the hands of a thread that it has not got."""
    run(WAIT + BUSY_HANDLES)


def test_a_forked_child_makes_ids_of_its_own(tmp_path: Path) -> None:
    """Also their random parts differ from its parent's and its siblings', whatever the clock says."""
    run(WAIT + IDS, tmp_path / "a.db")
