"""Event loops that come and go, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait._async import session
from plait.store._async import searching
from plait.store.plans import search
from plait.store.sqlite import writer
from plait.store.sqlite.writer import Writer
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


def counted(sessions: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that are handed to the writer's thread from now on."""
    writer: Any = sessions.store.driver._writer  # type: ignore[attr-defined]
    submit, seen = writer.submit, list[Any]()
    monkeypatch.setattr(writer, "submit", lambda entry: (seen.append(entry), submit(entry)))
    return seen


@pytest.mark.parametrize(("durability", "handed"), [("strict", 5), ("process", 0), ("relaxed", 0)])
async def test_a_lone_append_is_handed_to_a_thread_only_where_it_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any, handed: int
) -> None:
    async with plait.open_async(tmp_path / "a.db", durability=durability) as sessions:
        chat = sessions.session("chat")
        await chat.append(note("first"))
        seen = counted(sessions, monkeypatch)
        for n in range(5):
            assert (await chat.append(note(f"m{n}"))).seq == n + 2
        assert len(seen) == handed
        await chat.append(note("large", "x" * 100_000))
        await chat.append_many([note("x"), note("y")])
        await chat.append(note("branch"), parent="m1")
        assert len(seen) == handed + 3  # these may take longer than a loop should be held
    assert invariants(tmp_path / "a.db") == []


async def test_appends_on_the_loop_give_the_others_their_turn(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        ticking = asyncio.create_task(tick())
        for n in range(50):
            await chat.append(note(f"m{n}"))
        ticking.cancel()
        assert turns >= 49


async def test_of_many_appends_at_once_only_the_first_is_committed_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append(note("first"))
        seen = counted(sessions, monkeypatch)
        await asyncio.gather(*(chat.append(note(f"m{n}")) for n in range(50)))
        assert len(seen) == 49
        assert await ids_of(chat) == ["first", *(f"m{n}" for n in range(50))]


async def test_an_append_on_the_loop_does_not_wait_there_for_a_locked_file(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append(note("first"))
        other = apsw.Connection(str(tmp_path / "a.db"))
        other.execute("BEGIN IMMEDIATE")
        (task,) = await queued(chat.append(note("second")))
        assert not task.done()  # and this line was reached
        other.execute("ROLLBACK")
        other.close()
        assert (await task).parent_id == "first"


async def test_cancelling_an_append_committed_on_the_loop_lets_it_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append(note("first"))
        seen = counted(sessions, monkeypatch)
        task = asyncio.create_task(chat.append(note("second")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await chat.append(note("third"))
        assert await ids_of(chat) == ["first", "second", "third"]
        assert seen == []


async def test_a_refusal_on_the_loop_is_the_callers_and_leaves_no_trace(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append(note("first"))
        with pytest.raises(plait.LeafMovedError):
            await chat.append(note("second"), expect_leaf="other")
        assert not (await chat.append(note("first", "other"))).inserted
        assert (await chat.append(note("third"))).parent_id == "first"


async def test_a_repeat_whose_parent_is_gone_is_known_among_others_that_are_committed_with_it(tmp_path: Path) -> None:
    """B-043: ids are taken on trust where many share a transaction, also where one of them is refused."""
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.append_many([note("a"), note("b")])
        given = {"b": "nobody", "refused": "nobody", **{f"n{n}": "a" for n in range(5)}}
        calls = [chat.append(note(id), parent=parent) for id, parent in given.items()]
        again, refused, *new = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(again, plait.Appended) and (again.inserted, again.parent_id) == (False, "a")
        assert isinstance(refused, plait.NotFoundError)
        assert [isinstance(result, plait.Appended) and result.parent_id for result in new] == ["a"] * 5
        assert await chat.get("refused") is None


def test_a_lone_caller_goes_on_while_the_log_is_moved_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving, go_on = threading.Event(), threading.Event()
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        chat.append(note("first"))
        writer: Any = sessions.store.driver._writer  # type: ignore[attr-defined]
        aside = writer._checkpoint_aside

        def slow() -> None:
            moving.set()
            assert go_on.wait(60)
            aside()

        monkeypatch.setattr(writer, "_checkpoint_aside", slow)
        n = 0
        while not moving.is_set():
            chat.append(note(f"m{n}", "x" * 30_000))
            n += 1
        run_here = writer.run_here
        here: list[bool] = []
        monkeypatch.setattr(writer, "run_here", lambda entry: here.append(run_here(entry)) or here[-1])
        for m in range(20):
            chat.append(note(f"while {m}"))
        assert here == [True] * 20
        go_on.set()
    assert invariants(tmp_path / "a.db") == []
    assert not (tmp_path / "a.db-wal").exists()


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
    async with plait.open_async(tmp_path / "a.db", durability="strict") as sessions:
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

        for round in range(dose(short=25, soak=500)):
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


async def test_more_writers_than_the_queue_holds_wait_and_all_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUEUE_PLANS", 50)
    waiting: list[int] = []
    submit = Writer.submit

    def counted(self: Writer, entry: Any) -> None:
        submit(self, entry)
        waiting.append(self._queue.qsize())

    monkeypatch.setattr(Writer, "submit", counted)
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        count = dose(short=1_000, soak=30_000)
        await asyncio.gather(*(sessions.session(f"s{n % 7}").append(note(f"m{n}")) for n in range(count)))
        totals = [(await sessions.session(f"s{n}").totals()).path_messages for n in range(7)]
    assert sum(totals) == count
    assert 40 < max(waiting) <= 51


def test_a_writer_stands_back_after_a_batch_only_where_another_writes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(writer.time, "sleep", slept.append)
    with plait.open(tmp_path / "a.db") as one:
        for n in range(5):
            one.session("a").append(note(f"a{n}"))
        assert writer.GAP_S not in slept
        with plait.open(tmp_path / "a.db") as other:
            for n in range(5):
                other.session("b").append(note(f"b{n}"))
                one.session("a").append(note(f"c{n}"))
        assert slept.count(writer.GAP_S) >= 5


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


async def test_of_many_who_get_or_create_a_session_only_one_describes_it(tmp_path: Path) -> None:
    """B-025: what the others brought is not laid over it."""
    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        found = await asyncio.gather(
            *(sessions.get_or_create("chat", name=f"{n}", metadata={f"{n}": n}) for n in range(8))
        )
        info = await sessions.get("chat")
        assert info is not None and info.metadata == {f"{info.name}": int(f"{info.name}")}
        assert [other.metadata for other in found] == [info.metadata] * 8


@pytest.mark.parametrize("place", ["a.db", ":memory:"])
def test_a_long_query_is_neither_taken_apart_nor_compared_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    done: list[int] = []

    def noting(original: Any) -> Any:
        def work(*given: Any, **named: Any) -> Any:
            done.append(threading.get_ident())
            return original(*given, **named)

        return work

    monkeypatch.setattr(searching, "parse", noting(searching.parse))
    monkeypatch.setattr(search, "occurrences", noting(search.occurrences))
    many = " ".join(f"w{n}" for n in range(1_500))

    async def run() -> None:
        path = place if place == ":memory:" else str(tmp_path / place)
        async with plait.open_async(path) as sessions:
            chat = sessions.session("chat").with_context("pile", kind="collection")
            await chat.append(plait.user(many, id="many"))
            await chat.context.put("pile", many, key="many")
            assert [hit.id for hit in await chat.search("w1")] == ["many"]
            assert done == [threading.get_ident()]
            assert [hit.id for hit in await chat.search(many)] == ["many"]
            assert [hit.id for hit in await sessions.search(many, newest_first=True)] == ["many"]
            assert "[many]" in (await chat.context.search("pile", many) or "")
            assert threading.get_ident() not in done[1:] and len(done) > 4

    asyncio.run(run())


@pytest.mark.parametrize("shape", ["long", "wide", "many", "media"])
def test_what_takes_long_to_prepare_is_not_prepared_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    prepared: list[int] = []
    original = session.prepare

    def prepare(*given: Any) -> Any:
        prepared.append(threading.get_ident())
        return original(*given)

    monkeypatch.setattr(session, "prepare", prepare)
    picture = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}
    large: Any = {
        "long": [plait.user("x" * 400_000)],
        "wide": [{"role": "user", "parts": [{"type": "data", "items": [0] * 9_000}]}],
        "many": [plait.user("x" * 1_000) for _ in range(400)],
        "media": [{"role": "user", "parts": [picture] * 3_000}],
    }[shape]

    async def run() -> None:
        async with plait.open_async(tmp_path / "a.db") as sessions:
            chat = sessions.session("chat")
            await chat.append(plait.user("small", id="small"))
            assert prepared == [threading.get_ident()]
            await chat.append_many(large)
            await chat.append(large[0] if len(large) == 1 else plait.user("y" * 400_000))
            await chat.update({**large[0], "id": "small"} if len(large) == 1 else plait.user("z" * 400_000, id="small"))
            assert threading.get_ident() not in prepared[1:] and len(prepared) == len(large) + 3

    asyncio.run(run())
