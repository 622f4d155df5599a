"""One store used from many threads, each with mixed reads and writes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import plait
from plait.testing.faults import invariants
from tests.behaviour.values import note, picture
from tests.dose import dose

THREADS = 16
APPENDS = dose(short=12, soak=500)


@pytest.fixture(params=["file", ":memory:"])
def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[plait.Sessions]:
    path = tmp_path / "a.db" if request.param == "file" else ":memory:"
    with plait.open(path, durability="process") as sessions:
        yield sessions
    if request.param == "file":
        assert invariants(path) == []


def together(work: Callable[[int], object], threads: int = THREADS) -> list[object]:
    """Run `work(0)` to `work(n)` in threads that begin at once; the first failure is raised."""
    start = threading.Barrier(threads)

    def begin(n: int) -> object:
        start.wait(30)
        return work(n)

    with ThreadPoolExecutor(threads) as pool:
        return [future.result() for future in [pool.submit(begin, n) for n in range(threads)]]


def test_sixteen_threads_with_mixed_calls_see_one_database(sessions: plait.Sessions) -> None:
    """B-036: made in the main thread, used in all; also the one in memory."""
    sessions.session("shared").append(note("first"))

    def work(n: int) -> None:
        shared, mine = sessions.session("shared"), sessions.session(f"own-{n}")
        for m in range(APPENDS):
            shared.append(note(f"{n}-{m}"))
            mine.append(picture(f"m{m}", b"shared payload"))
            found = shared.get(f"{n}-{m}")
            assert found is not None and found.id == f"{n}-{m}"
            assert [message.id for message in mine.history()] == [f"m{k}" for k in range(m + 1)]
            assert shared.recent(count=3).total_messages > m
            shared.update_state({f"t{n}": m})

    together(work)
    shared = sessions.session("shared")
    path = [message.id for message in shared.history()]
    assert len(path) == THREADS * APPENDS + 1 and len(shared.leaves()) == 1
    for n in range(THREADS):
        assert [id for id in path if id.startswith(f"{n}-")] == [f"{n}-{m}" for m in range(APPENDS)]
    assert shared.state() == {f"t{n}": APPENDS - 1 for n in range(THREADS)}
    assert sorted(message.seq for message in shared.everything()) == list(range(1, len(path) + 1))


def test_concurrent_appends_form_one_chain_and_a_conflict_is_only_raised_when_asked_for(
    sessions: plait.Sessions,
) -> None:
    """B-026, B-031: of those that state what they expect, one wins each round."""
    chat = sessions.session("chat")
    chat.append(note("root"))

    def work(n: int) -> str:
        try:
            chat.append(note(f"c{n}"), expect_leaf="root")
        except plait.LeafMovedError as error:
            return f"moved to {error.leaf_id}"
        return f"won by c{n}"

    outcomes = sorted(map(str, together(work)))
    winner = outcomes[-1].removeprefix("won by ")
    assert outcomes == [f"moved to {winner}"] * (THREADS - 1) + [f"won by {winner}"]
    assert len(chat.leaves()) == 1 and chat.totals().messages == 2
    leaf = chat.leaf()
    assert leaf is not None

    def branch(n: int) -> bool:
        return chat.append(note(f"b{n}"), expect_leaf=leaf.id, on_moved="branch").branched

    assert sorted(map(bool, together(branch))) == [False] + [True] * (THREADS - 1)
    children = chat.children(leaf.id)
    assert len(children) == THREADS
    active = chat.leaf()
    assert active is not None and active.id == children[0].id


def test_the_same_message_appended_by_all_is_stored_once(sessions: plait.Sessions) -> None:
    """B-043: retries that meet."""
    chat = sessions.session("chat")
    for round in range(5):
        results = together(lambda n, round=round: chat.append(note(f"m{round}", "the same")))  # type: ignore[misc]
        assert sum(result.inserted for result in results) == 1  # type: ignore[attr-defined]
        assert len({result.seq for result in results}) == 1  # type: ignore[attr-defined]
    assert [message.id for message in chat.history()] == [f"m{n}" for n in range(5)]


def test_one_failing_write_among_many_harms_none(sessions: plait.Sessions) -> None:
    """B-045: every third thread asks for the impossible, in the same batches as the others."""
    chat = sessions.session("chat")
    chat.append(note("root"))

    def work(n: int) -> int:
        refused = 0
        for m in range(APPENDS):
            try:
                if n % 3 == 0:
                    chat.append_many([note(f"{n}-{m}-a"), note(f"{n}-{m}-b")], parent="absent")
                elif n % 3 == 1:
                    chat.append(note("root", "other"), on_conflict="raise")
                else:
                    chat.append(note(f"{n}-{m}"))
            except plait.PlaitError:
                refused += 1
        return refused

    assert together(work) == [0 if n % 3 == 2 else APPENDS for n in range(THREADS)]
    good = sum(n % 3 == 2 for n in range(THREADS)) * APPENDS
    assert len(list(chat.history())) == good + 1
    assert len(chat.leaves()) == 1


def test_the_last_use_of_a_payload_may_go_while_another_comes(sessions: plait.Sessions) -> None:
    """B-121: one appends the image while the other deletes the last other use."""
    keep, drop = sessions.session("keep"), sessions.session("drop")
    for n in range(dose(short=60, soak=500)):
        drop.append(picture(f"d{n}", b"shared"))
        together(lambda which, n=n: keep.append(picture(f"k{n}", b"shared")) if which else drop.delete(f"d{n}"), 2)  # type: ignore[misc]
        assert b"".join(keep.read_attachment(f"k{n}")) == b"shared"
        keep.delete(f"k{n}")
    assert sessions.doctor() == []


def test_many_first_uses_of_one_store_open_it_once(tmp_path: Path) -> None:
    """B-029, B-035: no call before the threads meet."""
    sessions = plait.open(tmp_path / "a.db", durability="process")
    together(lambda n: sessions.session("chat").append(note(f"m{n}")))
    assert sessions.session("chat").totals().messages == THREADS
    together(lambda n: sessions.close())
    assert invariants(tmp_path / "a.db") == []


def test_two_stores_on_one_file_in_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    stores = [plait.open(tmp_path / "a.db", durability="process") for _ in range(4)]
    together(lambda n: [stores[n % 4].session("chat").append(note(f"{n}-{m}")) for m in range(APPENDS)], 8)
    stores[0].close()  # lets go of no lock that the others need
    together(lambda n: [stores[1 + n].session("chat").append(note(f"late-{n}-{m}")) for m in range(APPENDS)], 3)
    assert stores[1].session("chat").totals().path_messages == 11 * APPENDS
    for store in stores:
        store.close()
    assert invariants(tmp_path / "a.db") == []


ROUNDS = dose(short=60, soak=2000)
ASKING = 8
HELD = 50_000
"""As many handles as a thread keeps at most: it makes them faster than another one closes the store."""


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_that_ask_for_a_session_at_once_get_one_handle(switching: None) -> None:
    with plait.open(":memory:") as sessions:
        for n in range(ROUNDS):
            handles = together(lambda _, n=n: sessions.session(f"s{n}"), ASKING)  # type: ignore[misc]
            assert len(set(map(id, handles))) == 1


def test_threads_that_take_a_fresh_handle_at_once_get_one(tmp_path: Path, switching: None) -> None:
    """The remedy of `SessionDeletedError`, taken by all who were told of it."""
    with plait.open(tmp_path / "a.db", durability="relaxed") as sessions, plait.open(tmp_path / "a.db") as others:
        dead = [sessions.session(f"s{n}") for n in range(ROUNDS)]
        for chat in dead:
            chat.append(note("m"))
        others.retain(max_count=0)
        for chat in dead:
            with pytest.raises(plait.SessionDeletedError):
                chat.append(note("late"))
            fresh = together(lambda _, chat=chat: sessions.session(chat.id), ASKING)  # type: ignore[misc]
            assert len(set(map(id, fresh))) == 1 and fresh[0] is not chat


def test_a_store_is_closed_while_threads_make_handles(switching: None) -> None:
    sessions = plait.open(":memory:")
    sessions.open()
    held = [sessions.session(f"held {n}") for n in range(500)]
    closed = threading.Event()

    def work(n: int) -> None:
        try:
            for _ in range(0 if n else ROUNDS // 4):
                sessions.close()
        finally:
            if n == 0:
                closed.set()
        made = 0
        while not closed.is_set():
            handle = sessions.session(f"{n}-{made}")
            made += 1
            if made < HELD:
                held.append(handle)

    together(work, 3)
    assert len(set(map(id, held))) == len(held)


@dataclass
class Hearing:
    """A listener that is the same as another one made alike, as bound methods are."""

    n: int
    told: list[int] = field(compare=False)

    def __call__(self, _change: plait.Change) -> None:
        self.told.append(self.n)


def test_subscriptions_are_made_and_ended_by_threads_at_once(switching: None) -> None:
    told: list[int] = []
    with plait.open(":memory:") as sessions:

        def work(_: int) -> None:
            for _ in range(2 * ROUNDS):
                for cancel in [sessions.subscribe(Hearing(n, told)) for n in range(8)]:
                    cancel()

        together(work, ASKING)
        sessions.create("unheard")
        sessions.subscribe(Hearing(1, told))
        sessions.create("heard")
    assert told == [1]


def test_blocks_declared_by_threads_at_once_are_all_there(switching: None) -> None:
    with plait.open(":memory:") as sessions:
        for n in range(ROUNDS):
            chat = sessions.session(f"s{n}")
            together(lambda m, chat=chat: chat.with_context(f"block {m}"), ASKING)  # type: ignore[misc]
            assert sorted(chat.context.labels()) == [f"block {m}" for m in range(ASKING)]


def test_a_block_added_by_threads_at_once_is_added_by_one(switching: None) -> None:
    def add(context: plait.Context) -> bool:
        try:
            context.add("block")
        except plait.ConflictError:
            return False
        return True

    with plait.open(":memory:") as sessions:
        for n in range(ROUNDS):
            context = sessions.session(f"s{n}").context
            added = together(lambda _, context=context: add(context), ASKING)  # type: ignore[misc]
            assert sum(map(bool, added)) == 1 and context.labels() == ["block"]


def test_compaction_set_up_by_threads_at_once_is_set_up_whole(switching: None) -> None:
    def nothing(_messages: list[plait.Message]) -> None:
        asked.append(1)

    def work(m: int) -> object:
        return chat.on_compaction(nothing) if m else chat.compact_after(1)

    with plait.open(":memory:") as sessions:
        for n in range(ROUNDS):
            asked: list[int] = []
            chat = sessions.session(f"s{n}")
            together(work, 2)
            chat.append(note("m", "more words than one token is"))
            assert asked
