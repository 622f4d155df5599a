"""Deletes of very many messages: gone at once for whoever looks, while no writer waits for all their rows."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait.store._sync import removing
from plait.store._sync.store import PlanStore
from plait.store.plan import Plan
from plait.store.plans import removal
from plait.store.protocol import Scope, SessionRef
from plait.store.sqlite import veil
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.driver import SQLiteDriver
from plait.store.sqlite.executor import Executor
from plait.testing.faults import invariants
from tests.dose import dose

MESSAGES = dose(short=3000, soak=100_000)
DOOMED = [f"m{n}" for n in range(200, MESSAGES - 100)]


def fill(chat: plait.Session, count: int = MESSAGES) -> None:
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        chat.append_many([plait.user(f"word number {n}", id=f"m{n}") for n in numbers])


def ids(messages: Any) -> list[str]:
    return [message.id for message in messages]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("filled") / "a.db"
    with plait.open(path, durability="relaxed") as sessions:
        fill(sessions.session("c"))
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path / "a.db"))


def _nothing(_number: int, _limit: int) -> Plan[bool]:
    """Removes no row of a big delete."""
    yield from ()
    return False


@pytest.fixture
def lingering(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which a big delete was done and its rows were not removed, as a killed process leaves it."""
    with monkeypatch.context() as patch:
        patch.setattr(removal, "purge_step", _nothing)
        with plait.open(path, durability="relaxed") as sessions:
            assert sessions.session("c").delete(DOOMED) == DOOMED
    assert rows(path, "SELECT count(*) FROM message") == MESSAGES
    return path


def rows(path: Path, sql: str) -> Any:
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(sql).fetchall()[0][0]


def bound_of(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many transactions some work takes, and how many rows the largest of them writes."""
    counts: list[int] = []
    original = SQLiteDriver.write

    def write(self: SQLiteDriver, plan: Any, weight: int = 0, *, light: bool = False) -> Any:
        connection = self._writer.ready().connection  # pyright: ignore[reportPrivateUsage]
        before = connection.total_changes()
        try:
            return original(self, plan, weight, light=light)
        finally:
            counts.append(connection.total_changes() - before)

    monkeypatch.setattr(SQLiteDriver, "write", write)
    work()
    return len(counts), max(counts)


@pytest.mark.parametrize("step", [1, 2], ids=["one run", "every other"])
def test_no_transaction_of_a_big_delete_is_long(path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    with plait.open(path, durability="relaxed") as sessions:
        chat = sessions.session("c")
        doomed = ids(chat.transcript())[100::step]
        transactions, most = bound_of(lambda: chat.delete(doomed), monkeypatch)
        assert transactions > len(doomed) / 1000
        assert most <= 2 * removal.PART + removal.PART, "a message, its id, and the run it was noted in"
        assert chat.totals().messages == MESSAGES - len(doomed)
        assert sessions.doctor() == []
    assert rows(path, "SELECT count(*) FROM message") == MESSAGES - len(doomed)
    assert [rows(path, f"SELECT count(*) FROM {table}") for table in ("removal", "removal_range")] == [0, 0]
    assert invariants(path) == []


def test_a_delete_of_a_few_is_one_transaction_as_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with plait.open(path, durability="relaxed") as sessions:
        chat = sessions.session("c")
        now = time.time_ns() + 120 * 10**9
        monkeypatch.setattr(time, "time_ns", lambda: now)
        for words in (
            "in this minute",
            "again",
        ):  # the first change of one begins a tick, the next notes where it stands
            chat.append(plait.user(words))
        assert bound_of(lambda: chat.delete([f"m{n}" for n in range(900)]), monkeypatch) == (1, 900 * 2 + 2)


def test_a_few_large_messages_are_a_big_delete(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with plait.open(path, durability="relaxed") as sessions:
        chat = sessions.session("c")
        chat.append_many([plait.user("x" * 1_200_000, id=f"big{n}") for n in range(5)])
        transactions, _ = bound_of(lambda: chat.delete([f"big{n}" for n in range(5)]), monkeypatch)
        assert transactions > 3
        leaf = chat.leaf()
        assert leaf is not None and leaf.id == f"m{MESSAGES - 1}"
        assert sessions.doctor() == []


def test_what_a_big_delete_does_is_one_change(path: Path) -> None:
    with plait.open(path, durability="relaxed") as sessions:
        chat = sessions.session("c")
        cursor = chat.cursor()
        assert chat.delete([*DOOMED, "absent", *DOOMED[:5]]) == DOOMED
        (told,) = chat.changes(after=cursor).changes
        assert (told.kind, told.ids) == ("delete", tuple(DOOMED))


def test_nobody_sees_what_is_still_there(lingering: Path) -> None:
    left = [f"m{n}" for n in (*range(200), *range(MESSAGES - 100, MESSAGES))]
    with plait.open(lingering) as sessions:
        chat = sessions.session("c")
        assert ids(chat.history()) == ids(chat.transcript(newest_first=True))[::-1] == left
        assert chat.totals().messages == chat.totals().path_messages == len(left)
        assert chat.get(DOOMED[0]) is None
        parent = chat.get(f"m{MESSAGES - 100}")
        assert isinstance(parent, plait.Message) and parent.parent_id == "m199"
        assert ids(chat.children("m199")) == [f"m{MESSAGES - 100}"]
        hits = chat.search("word number", limit=MESSAGES)
        assert {hit.id for hit in hits} == set(left)
        with pytest.raises(plait.NotFoundError):
            chat.checkout(DOOMED[0])
        assert ids(chat.fork("copy").history()) == left
        assert sessions.doctor() == []
    assert invariants(lingering) == []


def test_nobody_sees_it_who_may_not_write(lingering: Path) -> None:
    with plait.open(lingering, read_only=True) as sessions:
        assert sessions.session("c").get(DOOMED[0]) is None
        assert len(list(sessions.session("c").history())) == 300
        assert sessions.doctor() == []


def test_a_backup_has_it_taken_away_too(lingering: Path, tmp_path: Path) -> None:
    with plait.open(lingering) as sessions:
        sessions.backup(tmp_path / "copy.db")
    with plait.open(tmp_path / "copy.db") as sessions:
        assert len(list(sessions.session("c").history())) == 300
        sessions.vacuum()
    assert rows(tmp_path / "copy.db", "SELECT count(*) FROM message") == 300


def test_readers_and_writers_that_are_open_already_see_it_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with plait.open(path) as other, plait.open(path) as sessions:
        there = other.session("c")
        assert len(list(there.history())) == MESSAGES
        there.append(plait.user("mine", id="mine"))
        with monkeypatch.context() as patch:
            patch.setattr(removal, "purge_step", _nothing)
            sessions.session("c").delete(DOOMED)
        assert len(list(there.history())) == 301
        assert there.append(plait.user("again", id=DOOMED[3])).inserted
        assert sessions.session("c").get(DOOMED[3]) is not None
        sessions.vacuum()
        assert len(list(there.history())) == 302
        assert sessions.doctor() == other.doctor() == []
    assert rows(path, "SELECT count(*) FROM message") == 302
    assert invariants(path) == []


def test_an_id_that_was_taken_away_can_be_used_at_once(lingering: Path) -> None:
    with plait.open(lingering, durability="relaxed") as sessions:
        chat = sessions.session("c")
        assert chat.append(plait.user("anew", id=DOOMED[0])).inserted
        assert not chat.append(plait.user("anew", id=DOOMED[0])).inserted
        assert chat.append(plait.user("beside", id=DOOMED[1]), parent="m5").inserted
        written = chat.append_many([plait.user("many", id=id) for id in DOOMED[2:50]])
        assert all(item.inserted for item in written)
        chat.delete([DOOMED[1], DOOMED[7]])
        chat.import_message(plait.user("imported", id=DOOMED[1]), parent=None)
        sessions.vacuum()
        assert {DOOMED[n]: chat.get(DOOMED[n]) is not None for n in (0, 1, 7, 8, 60)} == {
            DOOMED[0]: True, DOOMED[1]: True, DOOMED[7]: False, DOOMED[8]: True, DOOMED[60]: False,
        }  # fmt: skip
        assert sessions.doctor() == []
    assert invariants(lingering) == []


def test_a_session_may_go_while_rows_of_it_are_left(lingering: Path) -> None:
    with plait.open(lingering, durability="relaxed") as sessions:
        chat = sessions.session("c")
        chat.clear()
        assert chat.append(plait.user("new", id=DOOMED[0])).inserted
        assert sessions.doctor() == []
        sessions.delete("c")
        sessions.vacuum()
    assert [rows(lingering, f"SELECT count(*) FROM {name}") for name in ("message", "message_id", "strand")] == [
        0,
        0,
        0,
    ]
    assert invariants(lingering) == []


@pytest.fixture
def interfered(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[plait.Session, list[Any]]]:
    """A session whose big deletes are interrupted, each time they are ready, by what the list holds next."""
    steps: list[Any] = []
    original = removing._noted  # pyright: ignore[reportPrivateUsage]
    with plait.open(path, durability="relaxed") as sessions:
        chat = sessions.session("c")

        def noted(*arguments: Any) -> bool:
            done = original(*arguments)
            if steps:
                steps.pop(0)(chat)
            return done

        monkeypatch.setattr(removing, "_noted", noted)
        yield chat, steps
        assert sessions.doctor() == []
    assert invariants(path) == []


def test_what_is_added_meanwhile_stays(interfered: tuple[plait.Session, list[Any]]) -> None:
    chat, steps = interfered
    steps.append(lambda chat: chat.append(plait.user("late", id="late")))
    assert chat.delete(DOOMED) == DOOMED
    assert ids(chat.history())[-1] == "late" and chat.totals().messages == 301


def test_a_message_changed_or_deleted_meanwhile_is_counted_again(interfered: tuple[plait.Session, list[Any]]) -> None:
    chat, steps = interfered
    steps.append(lambda chat: chat.update(plait.user("longer " * 100, id=DOOMED[5])))
    steps.append(lambda chat: chat.delete(DOOMED[9]))
    assert chat.delete(DOOMED) == [id for id in DOOMED if id != DOOMED[9]]
    assert chat.totals().messages == 300 and steps == []


def test_what_never_stays_as_it_is_is_deleted_in_one_transaction(interfered: tuple[plait.Session, list[Any]]) -> None:
    chat, steps = interfered
    for n in range(removing.TRIES + 2):
        steps.append(partial(lambda n, chat: chat.update(plait.user(f"changed {n}", id=DOOMED[5])), n))
    assert chat.delete(DOOMED) == DOOMED
    assert chat.totals().messages == 300 and len(steps) == 2


def test_tokens_counted_anew_meanwhile_are_taken_off_as_they_are(interfered: tuple[plait.Session, list[Any]]) -> None:
    chat, steps = interfered
    chat.compact_after(1 << 40, counter=lambda message: 1000)
    steps.append(lambda chat: chat.restamp_tokens())
    assert chat.delete(DOOMED) == DOOMED
    assert chat.totals().tokens == 300 * 1000


def test_a_session_cleared_meanwhile_is_not_deleted_from(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = removing._noted  # pyright: ignore[reportPrivateUsage]
    with plait.open(path, durability="relaxed") as sessions, plait.open(path) as other:

        def noted(*arguments: Any) -> bool:
            done = original(*arguments)
            other.session("c").clear()
            other.session("c").append(plait.user("new life", id=DOOMED[0]))
            return done

        monkeypatch.setattr(removing, "_noted", noted)
        with pytest.raises(plait.SessionDeletedError):
            sessions.session("c").delete(DOOMED)
        assert ids(other.session("c").history()) == [DOOMED[0]]
        assert sessions.doctor() == []


def test_overlays_go_stale_and_show_nothing_once_all_they_cover_is_gone(path: Path) -> None:
    with plait.open(path, durability="relaxed") as sessions:
        chat = sessions.session("c")
        chat.add_overlay("m10", "m20", summary="untouched")
        chat.add_overlay("m150", "m300", summary="in part")
        chat.add_overlay(DOOMED[200], DOOMED[300], summary="as a whole")
        cursor = chat.cursor()
        chat.delete(DOOMED)
        told = [(item.stale, item.left) for item in chat.overlays()]
        assert told == [(False, 11), (True, 50), (True, 0)]
        kinds: list[str] = []
        while page := chat.changes(after=cursor).changes:  # that of many ids fills a page by itself
            kinds += [item.kind for item in page]
            cursor = page[-1].cursor
        assert kinds == ["delete", "overlay", "overlay"]
        assert len(list(chat.history())) == 300 - 11 - 50 + 2 == chat.totals().view_messages
        assert {finding.kind for finding in sessions.doctor()} == {"stale overlays"}
    assert invariants(path) == []


def test_the_leaf_goes_where_a_small_delete_would_take_it(path: Path) -> None:
    with plait.open(path, durability="relaxed") as sessions:
        chat = sessions.session("c")
        chat.append(plait.user("aside", id="aside"), parent="m3")
        chat.checkout(f"m{MESSAGES - 1}")
        chat.delete([f"m{n}" for n in range(100, MESSAGES)])
        leaf = chat.leaf()
        assert leaf is not None and leaf.id == "m99" and ids(chat.history())[-1] == "m99"
        added = chat.append(plait.user("on"))
        assert added.parent_id == "m99"
        fill(sessions.session("d"))
        sessions.session("d").append(plait.user("other", id="other"), parent=None)
        sessions.session("d").checkout(f"m{MESSAGES - 1}")
        sessions.session("d").delete([f"m{n}" for n in range(MESSAGES)])
        assert ids(sessions.session("d").history()) == ["other"]
        assert sessions.session("d").totals().path_messages == 1
        assert sessions.doctor() == []
    assert invariants(path) == []


def test_two_stores_may_delete_the_same(path: Path) -> None:
    with plait.open(path, durability="relaxed") as one, plait.open(path, durability="relaxed") as two:
        gone: list[list[str]] = []
        workers = [
            threading.Thread(target=lambda store=store: gone.append(store.session("c").delete(DOOMED)))
            for store in (one, two)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sorted(map(len, gone)) == [0, len(DOOMED)]
        assert one.session("c").totals().messages == 300
        assert one.doctor() == []
    assert invariants(path) == []


def test_a_read_on_the_event_loop_goes_to_a_thread_while_rows_are_left(lingering: Path) -> None:
    import asyncio

    threads: set[int] = set()
    original = Executor.run

    def run(self: Any, plan: Any) -> Any:
        result = original(self, plan)
        threads.add(threading.get_ident())
        return result

    async def read() -> int:
        async with plait.open_async(lingering) as sessions:
            return len([message async for message in sessions.session("c").history()])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executor, "run", run)
        assert asyncio.run(read()) == 300
    assert threading.get_ident() not in threads


def test_the_views_are_gone_when_the_rows_are(lingering: Path) -> None:
    store = PlanStore(SQLiteDriver(Settings(str(lingering))))
    store.open()
    assert store.path(SessionRef(Scope(), "c"), plait.LEAF) is not None
    (reader,) = store.driver._idle  # type: ignore[attr-defined]
    assert reader.veiled and veil.is_on(reader.connection)
    store.sweep()
    assert store.path(SessionRef(Scope(), "c"), plait.LEAF) is not None
    assert not reader.veiled and not veil.is_on(reader.connection)
    store.close()


def test_a_delete_given_up_before_it_was_done_takes_nothing_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(removing, "_noted", fail)
    with plait.open(path, durability="relaxed") as sessions:
        with pytest.raises(KeyboardInterrupt):
            sessions.session("c").delete(DOOMED)
        assert sessions.session("c").totals().messages == MESSAGES
    assert rows(path, "SELECT count(*) FROM removal") == 0
