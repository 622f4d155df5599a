"""Leases between processes: stopped ones, killed ones, many at once, and clocks that are wrong."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.store.sqlite import driver as drivers
from plait.store.sqlite.statements import Statement
from tests.behaviour.programs import finished, run_together, start
from tests.dose import dose

HOLDER = """
with plait.open(sys.argv[1]) as sessions:
    chat = sessions.session("c")
    lease = chat.lease(ttl_s=float(sys.argv[2]), holder="first")
    with lease as turn:
        turn.append(note("one"))
        turn.compact_after(10**9, counter=lambda message: 7)
        turn.restamp_tokens()
        turn.compact_after(10**9, counter=lambda message: 9)
        print("holding", flush=True)
        sys.stdin.readline()
        works = {
            "append": lambda: turn.append(note("x")), "many": lambda: turn.append_many([note("x"), note("y")]),
            "branch": lambda: turn.append(note("x"), parent="one"), "root": lambda: turn.append(note("x"), parent=None),
            "repeat": lambda: turn.append(note("one")),
            "update": lambda: turn.update(note("one", "other")), "upsert": lambda: turn.upsert(note("one", "other")),
            "delete": lambda: turn.delete("one"), "clear": turn.clear, "checkout": lambda: turn.checkout("one"),
            "import": lambda: turn.import_message(note("x"), parent="one"),
            "overlay": lambda: turn.add_overlay("one", "one", summary="s"), "archive": lambda: turn.archive("one", "one"),
            "omit": lambda: turn.omit("one"), "replace": lambda: turn.replace("one", "s"),
            "state": lambda: turn.update_state({"k": 1}), "restamp": turn.restamp_tokens, "renew": lease.renew,
        }
        said = {}
        for name, work in works.items():
            try:
                work()
                said[name] = "done"
            except plait.PlaitError as error:
                said[name] = type(error).__name__
        print(json.dumps([said, lease.lost, [m.id for m in turn.history()]]), flush=True)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new store of either kind, as `plait.open` takes it."""
    if request.param == "sqlite":
        yield str(tmp_path / "a.db")
        return
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'plait[postgres]'")
    from tests.postgres_server import database

    with database() as url:
        yield url


def test_a_holder_that_was_stopped_past_its_time_writes_nothing_when_it_wakes(place: str) -> None:
    path = place
    with plait.open(path):
        pass
    holder = start(HOLDER, path, 0.5, env={"PYTHONWARNINGS": "ignore"})
    assert holder.stdout is not None and holder.stdout.readline() == "holding\n"
    holder.send_signal(signal.SIGSTOP)
    try:
        with plait.open(path) as sessions, sessions.session("c").lease(ttl_s=60, wait_s=60, holder="second") as turn:
            before = sessions.get("c")
            holder.send_signal(signal.SIGCONT)
            out, err = holder.communicate("go\n", timeout=100)
            said, lost, seen = json.loads(out)
            assert set(said.values()) == {"LeaseLostError"}, said
            assert lost and seen == ["one"]
            assert "was lost" in err or err == ""
            assert sessions.get("c") == before
            turn.append(plait.user("two", id="two"))
            assert [message.id for message in turn.history()] == ["one", "two"]
    finally:
        holder.kill()
        holder.wait()


def test_the_lease_of_a_killed_holder_runs_out(place: str) -> None:
    path = place
    holder = start(HOLDER, path, 0.5)
    assert holder.stdout is not None and holder.stdout.readline() == "holding\n"
    holder.kill()
    holder.communicate()
    with plait.open(path) as sessions:
        with sessions.session("c").lease(wait_s=60) as turn:
            turn.append(plait.user("two", id="two"))
        assert [message.id for message in sessions.session("c").history()] == ["one", "two"]


RIVAL = """
with plait.open(sys.argv[2]) as sessions:
    ready()
    lease = sessions.session("c").lease(ttl_s=600, holder=sys.argv[1])
    try:
        turn = lease.__enter__()
        turn.append(note(sys.argv[1]))
        print(json.dumps(lease.epoch), flush=True)
        os._exit(0)  # with the lease in hand
    except plait.LeaseHeldError as error:
        print(json.dumps(0), flush=True)
"""


def test_of_many_that_want_it_at_once_one_gets_it(place: str) -> None:
    path = place
    with plait.open(path):
        pass
    said = [json.loads(out) for out in run_together(RIVAL, 8, path)]
    assert sorted(said) == [0] * 7 + [1]
    with plait.open(path) as sessions:
        assert [message.id for message in sessions.session("c").history()] == [str(said.index(1))]


DAY = """
wrong = int(sys.argv[2]) * 86_400
real, real_ns = time.time, time.time_ns
time.time, time.time_ns = lambda: real() + wrong, lambda: real_ns() + wrong * 10**9
with plait.open(sys.argv[1]) as sessions:
    chat = sessions.session("c")
    try:
        chat.append(note("x"))
        print("written")
    except plait.LeaseHeldError:
        print("held", end=" ")
    try:
        with chat.lease():
            print("taken")
    except plait.LeaseHeldError:
        print("held")
"""


@pytest.mark.parametrize("days", [-1, 1])
def test_the_clocks_of_clients_change_nothing(place: str, days: int) -> None:
    """The time is the database's, which on SQLite is not that of Python's clock either."""
    with plait.open(place) as sessions, sessions.session("c").lease(ttl_s=600):
        assert finished(start(DAY, place, days)) == "held held\n"


@contextmanager
def clock_off_by(seconds: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stores opened inside have a machine whose clock is wrong."""
    load = drivers.load

    def wrong() -> dict[str, Statement]:
        statements = load()
        statements["now"].text += f" + {int(seconds * 1_000_000)}"
        return statements

    with monkeypatch.context() as patch:
        patch.setattr(drivers, "load", wrong)
        yield


def test_wrong_clocks_never_let_two_write_in_one_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message says by whom it was written under which lease: no lease's messages come after another's."""
    path = tmp_path / "a.db"
    stores: list[plait.Sessions] = []
    for seconds in (0, 5, -5, 3600, -3600):
        with clock_off_by(seconds, monkeypatch):
            stores.append(plait.open(path, durability="relaxed"))
    workers = [threading.Thread(target=compete, args=(store, n)) for n, store in enumerate(stores)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    told = [message.to_dict()["metadata"]["by"] for message in stores[0].session("c").transcript()]
    turns = [by for n, by in enumerate(told) if n == 0 or told[n - 1] != by]
    assert len(turns) == len(set(map(tuple, turns))), "a turn went on after somebody else had written"
    epochs = [by[1] for by in turns if by[1]]
    assert epochs == sorted(set(epochs)) and len(epochs) > 5
    assert stores[0].doctor() == []
    for store in stores:
        store.close()


def compete(sessions: plait.Sessions, number: int) -> None:
    """Take leases and write under them, or write without one, as chance has it."""
    chance = random.Random(number)
    chat = sessions.session("c")
    for n in range(dose(short=60, soak=2000)):
        try:
            if chance.random() < 0.3:
                chat.append(said([number, 0, n]))
                continue
            lease = chat.lease(ttl_s=0.1)
            with lease as turn:
                for _ in range(chance.randrange(6)):
                    turn.append(said([number, lease.epoch, 0]))
        except (plait.LeaseHeldError, plait.LeaseLostError):
            continue


def said(by: list[Any]) -> dict[str, Any]:
    return {"role": "user", "parts": [], "metadata": {"by": by}}


def test_a_program_that_ends_in_the_block_gives_the_lease_back(tmp_path: Path) -> None:
    program = """
with plait.open(sys.argv[1]) as sessions, sessions.session("c").lease(ttl_s=600) as turn:
    turn.append(note("one"))
    sys.exit(0)
"""
    finished(start(program, tmp_path / "a.db"))
    with plait.open(tmp_path / "a.db") as sessions:
        assert sessions.session("c").lease_info() is None
