"""Event loops that come and go, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.testing.faults import invariants
from tests.behaviour.values import note
from tests.dose import dose


async def ids_of(session: plait.AsyncSession) -> list[str]:
    return [message.id async for message in session.history()]


def test_one_store_serves_three_event_loops_in_a_row(tmp_path: Path) -> None:
    """B-035: built outside any loop, used in three, read from the sync face in between."""
    sessions = plait.open_async(tmp_path / "a.db", durability="process")
    chat = sessions.session("chat")

    async def turn(n: int) -> list[str]:
        await asyncio.gather(*(chat.append(note(f"{n}-{m}")) for m in range(5)))
        return await ids_of(chat)

    for n in range(3):
        assert len(asyncio.run(turn(n))) == 5 * (n + 1)
        with plait.open(tmp_path / "a.db") as others:
            assert others.session("chat").totals().path_messages == 5 * (n + 1)
    asyncio.run(sessions.close())
    gc.collect()  # nothing left over warns


def test_one_store_serves_four_threads_each_with_its_own_loop(tmp_path: Path) -> None:
    """B-035"""
    sessions = plait.open_async(tmp_path / "a.db", durability="process")
    start = threading.Barrier(4)

    async def turn(n: int) -> None:
        for m in range(20):
            await sessions.session("chat").append(note(f"{n}-{m}"))
            await ids_of(sessions.session("chat"))

    def work(n: int) -> None:
        start.wait(30)
        asyncio.run(turn(n))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    async def check() -> list[str]:
        async with sessions:
            return await ids_of(sessions.session("chat"))

    found = asyncio.run(check())
    for n in range(4):
        assert [id for id in found if id.startswith(f"{n}-")] == [f"{n}-{m}" for m in range(20)]
    assert len(found) == 80


def test_a_store_that_is_dropped_open_warns_of_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """B-035: no warning at exit, and what was acknowledged is there."""

    async def work() -> None:
        sessions = plait.open_async(tmp_path / "a.db", durability="process")
        await sessions.session("chat").append(note("m"))

    asyncio.run(work())
    gc.collect()
    with plait.open(tmp_path / "a.db") as sessions:
        assert sessions.session("chat").get("m") is not None


class Gate:
    """Holds the writer back before its next batch until it is opened."""

    def __init__(self, sessions: plait.AsyncSessions) -> None:
        self._gate = sessions.store.driver._writer.gate  # type: ignore[attr-defined]
        self._held = threading.Event()
        self._release = threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self._thread.start()
        assert self._held.wait(10)

    def _hold(self) -> None:
        with self._gate:
            self._held.set()
            self._release.wait(60)

    def open(self) -> None:
        self._release.set()
        self._thread.join()


async def queued(*work: Any) -> list[asyncio.Task[Any]]:
    """Start tasks and let each go as far as the writer's queue."""
    tasks = [asyncio.create_task(item) for item in work]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_cancelling_a_queued_write_removes_it(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append(note("a"))
        gate = Gate(sessions)
        first = await queued(chat.append(note("first")), *(chat.append(note(f"w{n}")) for n in range(300)))
        doomed = first[290]  # beyond the batch the writer can have taken
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        gate.open()
        await asyncio.gather(*(task for task in first if task is not doomed))
        await chat.append(note("last"))
        found = await ids_of(chat)
    assert found == ["a", "first", *[f"w{n}" for n in range(300) if n != 289], "last"]
    assert invariants(tmp_path / "a.db") == []


async def test_cancelling_a_started_write_cancels_the_waiter_and_the_write_completes(tmp_path: Path) -> None:
    started, go_on = threading.Event(), threading.Event()
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append(note("a"))
        writer = sessions.store.driver._writer  # type: ignore[attr-defined]
        original = writer._commit

        def slow(batch: Any) -> bool:
            started.set()
            go_on.wait(20)
            return bool(original(batch))

        writer._commit = slow
        task = asyncio.create_task(chat.append(note("b")))
        await asyncio.to_thread(started.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        writer._commit = original
        assert (await chat.append(note("c"))).parent_id == "b"
        assert await ids_of(chat) == ["a", "b", "c"]


async def test_cancelling_at_random_moments_leaves_every_write_whole_or_absent(tmp_path: Path) -> None:
    """B-033: and what was acknowledged is there, in one chain."""
    import random

    dice, acknowledged = random.Random(7), set[str]()
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")

        async def write(n: int) -> None:
            results = await chat.append_many([note(f"{n}a"), note(f"{n}b"), note(f"{n}c")])
            acknowledged.update(result.id for result in results)

        for round in range(dose(short=25, soak=2000)):
            tasks = [asyncio.create_task(write(round * 20 + n)) for n in range(20)]
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(0)
            await asyncio.sleep(dice.choice([0, 0, 0.0005, 0.002]))
            for task in dice.sample(tasks, 10):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        found = await ids_of(chat)
        assert len(await chat.leaves()) == 1
    assert acknowledged <= set(found)
    assert len(found) == len(set(found)) and len(found) % 3 == 0
    for n in range(0, len(found), 3):
        assert [id[-1] for id in found[n : n + 3]] == ["a", "b", "c"]
    assert invariants(tmp_path / "a.db") == []


def test_a_loop_closed_with_writes_in_flight_loses_nobody_elses(tmp_path: Path) -> None:
    """The writer's answers to a closed loop are dropped; it goes on, and the writes stand or do not, whole."""
    sessions = plait.open_async(tmp_path / "a.db", durability="process")
    for round in range(dose(short=10, soak=500)):

        async def leave(round: int = round) -> list[asyncio.Task[Any]]:
            chat = sessions.session("chat")
            tasks = [asyncio.ensure_future(chat.append(note(f"{round}-{n}"))) for n in range(50)]
            await asyncio.sleep(0)
            return tasks

        loop = asyncio.new_event_loop()
        for task in loop.run_until_complete(leave()):
            task._log_destroy_pending = False  # type: ignore[attr-defined] # they are left behind on purpose
        loop.close()

    async def after() -> list[str]:
        async with sessions:
            await sessions.session("chat").append(note("still here"))
            assert len(await sessions.session("chat").leaves()) == 1
            return await ids_of(sessions.session("chat"))

    found = asyncio.run(after())
    assert found[-1] == "still here" and len(found) == len(set(found)) > 1
    for round in {id.split("-")[0] for id in found[:-1]}:
        own = [int(id.split("-")[1]) for id in found[:-1] if id.startswith(f"{round}-")]
        assert own == sorted(own)
    assert invariants(tmp_path / "a.db") == []


async def test_a_task_cancelled_while_iterating_leaves_nothing_open(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append_many([note(f"m{n}") for n in range(700)])

        async def read() -> None:
            async for _ in chat.history():
                await asyncio.sleep(0)

        for _ in range(20):
            task = asyncio.create_task(read())
            await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert sessions.store.driver._busy_readers == 0  # type: ignore[attr-defined]
        await sessions.vacuum()


async def test_the_loop_goes_on_while_the_store_works(tmp_path: Path) -> None:
    """Between two turns of the loop no read or write holds it for long: counted in turns, not in time."""
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append_many([note(f"m{n}", "x" * 2000) for n in range(1000)])
        await chat.append(note("big", "y" * 8_000_000))
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        ticking = asyncio.create_task(tick())
        for work, least in (
            (lambda: ids_of(chat), 5),
            (lambda: chat.append(note("n", "z" * 4_000_000)), 1),
            (lambda: chat.fork(), 5),
            (lambda: chat.get("big"), 1),
        ):
            before = turns
            await work()
            assert turns - before >= least
        ticking.cancel()


async def test_more_writers_than_the_queue_holds_wait_and_all_are_served(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        count = dose(short=3000, soak=30_000)
        await asyncio.gather(*(sessions.session(f"s{n % 7}").append(note(f"m{n}")) for n in range(count)))
        totals = [(await sessions.session(f"s{n}").totals()).path_messages for n in range(7)]
    assert sum(totals) == count


async def test_two_writers_with_a_pause_between_read_and_write_lose_nothing(tmp_path: Path) -> None:
    """B-025: each reads, waits for the other to have read, writes."""
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await sessions.create("chat", metadata={})
        both = asyncio.Barrier(2)

        async def run(name: str) -> None:
            await ids_of(chat)
            await chat.state()
            await both.wait()
            await chat.append(note(name))
            await chat.update_state({name: 1})
            await sessions.merge_metadata("chat", {name: 1})

        await asyncio.gather(run("a"), run("b"))
        info = await chat.info()
        assert sorted(await ids_of(chat)) == ["a", "b"] and len(await chat.leaves()) == 1
        assert await chat.state() == {"a": 1, "b": 1}
        assert info is not None and info.metadata == {"a": 1, "b": 1}
