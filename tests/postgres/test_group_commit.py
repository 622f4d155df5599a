"""Appends that are worked out beforehand and share transactions: one trip each where nobody is in the way, right where
somebody is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import plait
from plait import Session, Sessions
from plait.errors import LeafMovedError, LeaseHeldError, SessionDeletedError, StoreUnavailableError
from plait.interchange import import_file, write_jsonl
from plait.store.postgres._async import executor as awaited
from plait.store.postgres._async.running import AsyncRunner
from plait.store.postgres._sync.executor import Executor
from plait.store.postgres.evidence import Unsure
from plait.store.postgres.lanes import Lane, Waiting
from tests.dose import dose
from tests.postgres.test_many_writers import in_threads


def text(id: str, words: str = "words") -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": words}]}


def chain(chat: Session) -> list[str]:
    """The ids of a session's transcript, after looking at what must hold of it."""
    found = list(chat.transcript())
    assert [message.parent_id for message in found[1:]] == [message.id for message in found[:-1]]
    info = chat.info()
    assert info is not None and info.totals.path_messages == len(found)
    assert info.totals.path_bytes == sum(message.bytes for message in found if isinstance(message, plait.Message))
    return [message.id for message in found]


class Trips:
    """Counts what is sent to the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: Any = Executor) -> None:
        self.count = 0
        send = kind._send_all

        def sending(executor: Any) -> Any:
            self.count += 1
            return send(executor)

        monkeypatch.setattr(kind, "_send_all", sending)


@pytest.fixture
def other(url: str) -> Iterator[Sessions]:
    """The same store, as another process has it."""
    with plait.open(url) as sessions:
        yield sessions


@pytest.fixture
def chat(sessions: Sessions) -> Session:
    """A session that the next append to goes in one trip."""
    chat = sessions.session("chat")
    for id in ("a", "b"):
        chat.append(text(id))
    return chat


def test_an_append_after_another_is_one_round_trip(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    trips = Trips(monkeypatch)
    for n in range(5):
        assert chat.append(text(f"{n}")).inserted
    assert trips.count == 5
    assert chain(chat) == ["a", "b", *"01234"]


def leased(chat: Session) -> None:
    with chat.lease(ttl_s=60) as turn:
        turn.append(text("theirs"))


MEANWHILE: dict[str, Callable[[Session], Any]] = {
    "append": lambda theirs: theirs.append(text("theirs")),
    "branch": lambda theirs: theirs.append(text("theirs"), parent="a"),
    "update": lambda theirs: theirs.update(text("b", "other words")),
    "delete": lambda theirs: theirs.delete("b"),
    "checkout": lambda theirs: theirs.checkout("a"),
    "same id": lambda theirs: theirs.append(text("new")),
    "overlay": lambda theirs: theirs.add_overlay("a", "b", summary="what was said"),
    "search": lambda theirs: theirs.search("words"),
    "restamp": lambda theirs: theirs.append(text("theirs")) and theirs.search("words"),
    "lease and back": lambda theirs: leased(theirs),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_what_others_did_meanwhile_is_seen(chat: Session, other: Sessions, name: str) -> None:
    MEANWHILE[name](other.session("chat"))
    found = chat.append(text("new"))
    assert found.inserted == (name != "same id")
    assert chain(chat)[-1] == "new" and found.parent_id == ([*chain(chat), "new"][-3] if found.inserted else "b")
    assert chat.append(text("next")).parent_id == "new"
    assert {hit.id for hit in other.session("chat").search("words")} >= {"new", "next"}


RAISED = {
    "next_seq": "next_seq + 5",
    "leaf": "leaf - 1",
    "version": "version + 1",
    "active_at": "active_at + 1",
    "epoch": "epoch + 1",
    "incarnation": "incarnation + 1",
    "live": "0",
}
"""Whatever an append that was worked out beforehand sets, or compares, and not only adds to."""


@pytest.mark.parametrize("column", RAISED)
def test_a_row_that_is_not_as_it_was_left_in_any_column_takes_no_append_worked_out_before(
    chat: Session, url: str, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    done: list[bool] = []
    together = Executor.together

    def noting(executor: Any, groups: Any) -> None:
        together(executor, groups)
        done.append(True)

    monkeypatch.setattr(Executor, "together", noting)
    chat.append(text("c"))
    assert done == [True]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"UPDATE plait.session SET {column} = {RAISED[column]} WHERE id = 'chat'".encode())
        with suppress(SessionDeletedError):
            chat.append(text("d"))
        assert done == [True]
        (value,) = connection.execute(f"SELECT {column} FROM plait.session WHERE id = 'chat'".encode()).fetchone() or ()
    assert value is not None
    if column == "next_seq":
        assert list(chat.history())[-1].seq == 9 and value == 10


@pytest.mark.parametrize("count", [1, 3])
def test_an_import_into_a_session_and_another_s_appends_give_no_seq_twice(
    chat: Session, sessions: Sessions, other: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Seqs are set aside when the import begins, which changes no version; the appends come before it is published."""
    cursor, file = chat.cursor(), tmp_path / "messages.jsonl"
    other.session("other").append_many([text(f"i{n}") for n in range(6)])
    with open(file, "wb") as stream:
        write_jsonl(other.session("other"), stream)
    merge = other.store.merge

    def merging(*args: Any, **options: Any) -> Any:
        for n in range(count):
            chat.append(text(f"mid {n}"))
        return merge(*args, **options)

    monkeypatch.setattr(other.store, "merge", merging)
    import_file(other, file, session_id="chat")
    chat.checkout("i5")
    for n in range(2):
        assert chat.append(text(f"later {n}")).inserted
    seqs = [message.seq for message in chat.everything()]
    assert len(seqs) == len(set(seqs)) == 2 + count + 6 + 2
    told = [id for change in sessions.session("chat").changes(after=cursor, limit=100).changes for id in change.ids]
    assert {f"mid {n}" for n in range(count)} | {f"i{n}" for n in range(6)} | {"later 0", "later 1"} <= set(told)
    assert sessions.doctor() == []


def test_a_lease_that_another_took_is_in_the_way(chat: Session, other: Sessions) -> None:
    with other.session("chat").lease(ttl_s=60), pytest.raises(LeaseHeldError):
        chat.append(text("new"))
    assert chat.append(text("new")).inserted


@pytest.mark.parametrize("end", [lambda theirs, all: theirs.clear(), lambda theirs, all: all.delete("chat")])
def test_a_session_that_another_ended_takes_nothing_more(chat: Session, other: Sessions, end: Any) -> None:
    end(other.session("chat"), other)
    with pytest.raises(SessionDeletedError):
        chat.append(text("new"))
    assert list(other.session("chat").history()) == []
    other.session("chat").append(text("again"))
    with pytest.raises(SessionDeletedError):
        chat.append(text("new"))
    assert chain(other.session("chat")) == ["again"]


def test_an_expectation_is_compared_with_what_is_there(chat: Session, other: Sessions) -> None:
    assert chat.append(text("c"), expect_leaf="b").inserted
    with pytest.raises(LeafMovedError):
        chat.append(text("d"), expect_leaf="b")
    other.session("chat").append(text("theirs"))
    with pytest.raises(LeafMovedError):
        chat.append(text("d"), expect_leaf="c")
    assert chain(chat) == ["a", "b", "c", "theirs"]


def test_a_feed_is_told_of_an_append_in_a_tick_that_another_began(chat: Session, sessions: Sessions, url: str) -> None:
    cursor = sessions.cursor()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO plait.tick SELECT max(tick) + 1, pg_snapshot_xmin(pg_current_snapshot()) FROM plait.tick"
        )
    chat.append(text("new"))
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(
            "SELECT count(*) FROM plait.pulse WHERE tick = (SELECT max(tick) FROM plait.tick)"
        ).fetchone() == (1,)
    assert [change.ids for change in sessions.changes(after=cursor).changes] == [("new",)]


def test_a_session_that_others_write_to_as_well_is_not_guessed_at(
    chat: Session, other: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = other.session("chat")
    for n in range(2):
        theirs.append(text(f"their {n}"))
        chat.append(text(f"my {n}"))
    theirs.append(text("their last"))
    monkeypatch.setattr(Executor, "together", None)
    assert chat.append(text("mine")).inserted


# -- many callers --------------------------------------------------------------


async def crowd(url: str, sessions: int, each: int) -> None:
    """Callers that write to sessions of their own and to one of them all."""
    async with plait.open_async(url) as store:

        async def caller(n: int) -> None:
            for i in range(each):
                found = await store.session(f"chat {n}").append(text(f"{i}"))
                assert found.inserted and found.message.id == f"{i}"
                await store.session("all").append(text(f"{n}-{i}"))

        await asyncio.gather(*(caller(n) for n in range(sessions)))


def test_many_callers_share_transactions_and_each_is_answered(
    url: str, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips = Trips(monkeypatch, awaited.AsyncExecutor)
    callers, each = 32, dose(short=6, soak=200)
    asyncio.run(crowd(url, callers, each))
    for n in range(callers):
        assert chain(sessions.session(f"chat {n}")) == [str(i) for i in range(each)]
    found = chain(sessions.session("all"))
    assert sorted(found) == sorted(f"{n}-{i}" for n in range(callers) for i in range(each))
    assert trips.count < 1.5 * len(found) * 2, "they were not written together"


def test_threads_share_transactions_and_each_is_answered(sessions: Sessions) -> None:
    each = dose(short=8, soak=300)

    def write(n: int) -> None:
        for i in range(each):
            assert sessions.session(f"chat {n}").append(text(f"{i}")).inserted
            assert sessions.session("all").append(text(f"{n}-{i}")).inserted

    in_threads(8, write)
    assert len(chain(sessions.session("all"))) == 8 * each
    for n in range(8):
        assert chain(sessions.session(f"chat {n}")) == [str(i) for i in range(each)]


def together(url: str, ids: list[str], prepare: Callable[[AsyncRunner], None] = lambda _: None) -> list[Any]:
    """Append a message to each of some sessions at once, one of them twice the same, after an append to each."""

    async def run() -> list[Any]:
        async with plait.open_async(url) as store:
            chats = [store.session(f"chat {n}") for n in range(len(ids))]
            for chat in chats:
                await chat.append(text("first"))
            prepare(store.store.driver._on_loop())  # type: ignore[attr-defined]
            appends = [chat.append(text(id)) for chat, id in zip(chats, ids, strict=True)]
            return await asyncio.gather(*appends, chats[0].append(text(ids[0])), return_exceptions=True)

    return asyncio.run(run())


def test_what_fails_in_a_batch_fails_alone(url: str, sessions: Sessions) -> None:
    found = together(url, ["x", "first", "y"])
    assert [item.inserted for item in found] == [True, False, True, False]
    assert [chain(sessions.session(f"chat {n}")) for n in range(3)] == [["first", "x"], ["first"], ["first", "y"]]


def lost_before(executor: Any) -> None:
    executor.connection.pgconn.finish()
    raise psycopg.OperationalError("the connection is lost")


async def lost_after(executor: Any, send: Any) -> None:
    await send(executor)
    lost_before(executor)


async def unsure_after(executor: Any, send: Any) -> Any:
    results = await send(executor)
    executor.connection.unsure = True
    return results


async def lost_at_once(executor: Any, send: Any) -> None:
    lost_before(executor)


async def refused(executor: Any, send: Any) -> None:
    raise psycopg.errors.LockNotAvailable("held")


@pytest.mark.parametrize("trouble", [lost_after, lost_at_once, unsure_after, refused])
def test_a_batch_in_trouble_is_written_once(
    url: str, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, trouble: Any
) -> None:
    send = awaited.AsyncExecutor._send_all
    met: list[int] = []

    async def sending(executor: Any) -> Any:
        if len(executor._held) > 6 and not met:
            met.append(len(executor._held))
            return await trouble(executor, send)
        return await send(executor)

    def prepare(_: AsyncRunner) -> None:
        monkeypatch.setattr(awaited.AsyncExecutor, "_send_all", sending)

    found = together(url, ["x", "y", "z"], prepare)
    assert met, "nothing was sent together"
    assert [item.inserted for item in found] == [True, True, True, False]
    assert [chain(sessions.session(f"chat {n}")) for n in range(3)] == [["first", id] for id in "xyz"]


def test_where_tables_are_spread_a_batch_holds_one_session(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    commit = awaited.AsyncExecutor.together

    async def counted(executor: Any, groups: Any) -> None:
        held.append(len(groups))
        await commit(executor, groups)

    def prepare(runner: AsyncRunner) -> None:
        runner._spread = True
        monkeypatch.setattr(awaited.AsyncExecutor, "together", counted)

    assert [item.inserted for item in together(url, ["x", "y", "z"], prepare)] == [True, True, True, False]
    assert set(held) == {1} and len(held) >= 3


def test_a_commit_that_the_standby_was_not_waited_for_is_no_acknowledgement(
    chat: Session, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cannot find out in time is told that it is not known."""
    send = Executor._send_all

    def sending(executor: Any) -> Any:
        results = send(executor)
        executor.connection.unsure = True
        return results

    with plait.open(url, busy_timeout_s=0.2) as hasty:
        hasty.session("chat").append(text("c"))
        monkeypatch.setattr(Executor, "_send_all", sending)
        with pytest.raises(StoreUnavailableError, match="did not wait for its standby"):
            hasty.session("chat").append(text("d"))
        with pytest.raises(StoreUnavailableError, match="did not wait for its standby"):
            hasty.session("chat").append_many([text("e"), text("f")])
        monkeypatch.undo()
        assert not hasty.session("chat").append(text("d")).inserted
    assert issubclass(Unsure, Exception)


# -- lanes ---------------------------------------------------------------------


def test_a_leader_who_is_interrupted_leaves_the_lane_to_the_next() -> None:
    lane = Lane(30)

    def interrupted(batch: list[Waiting]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lane.run(Waiting(lambda: None, 0), interrupted)  # type: ignore[arg-type,return-value]
    seen: list[int] = []
    in_threads(4, lambda n: lane.run(Waiting(lambda: None, 0), lambda batch: seen.append(len(batch))))  # type: ignore[arg-type,return-value]
    assert sum(seen) == 4


def test_a_batch_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[int]:
        from plait.store.postgres.lanes import AsyncLane

        lane, sizes = AsyncLane(30), []

        async def work(batch: list[Waiting]) -> None:
            sizes.append(len(batch))

        await asyncio.gather(*(lane.run(Waiting(None, 1 << 20), work) for _ in range(9)))  # type: ignore[arg-type]
        await asyncio.gather(*(lane.run(Waiting(None, 1), work) for _ in range(300)))  # type: ignore[arg-type]
        return sizes

    assert asyncio.run(run()) == [4, 4, 1, 256, 44]


def test_a_write_cancelled_while_it_waits_is_never_done() -> None:
    async def run() -> list[int]:
        from plait.store.postgres.lanes import AsyncLane

        lane, sizes, gate = AsyncLane(30), [], asyncio.Event()

        async def work(batch: list[Waiting]) -> None:
            sizes.append(len(batch))
            await gate.wait()

        first = asyncio.ensure_future(lane.run(Waiting(None, 0), work))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second = asyncio.ensure_future(lane.run(Waiting(None, 0), work))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        gate.set()
        await first
        return sizes

    assert asyncio.run(run()) == [1]
