"""How many rows each operation writes, counted by SQLite and pinned: the price list of the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from tests.behaviour.values import ROW_BUDGET_BYTES, noise, note, picture


class Counted:
    """A store whose row writes are counted."""

    def __init__(self, sessions: plait.Sessions) -> None:
        self.sessions = sessions
        self.chat = sessions.session("chat")

    def rows(self, work: Callable[[], Any]) -> int:
        """The rows inserted, changed and deleted by `work`."""
        before = self._total()
        work()
        return self._total() - before

    def _total(self) -> int:
        writer: Any = self.sessions.store.driver._writer  # type: ignore[attr-defined]
        with writer.gate:  # its thread may be at a checkpoint
            return int(writer.ready().connection.total_changes())


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """A session of three messages at a frozen time, so that its activity does not move."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        sessions.session("chat").append_many([note("a"), note("b"), note("c")])
        yield Counted(sessions)


MESSAGE = 2  # its row and its id's
SESSION = 1  # the session's own row: lock, counter and totals
CHANGE = 1  # the record of a change that is not an append
STRAND = 2  # its row and the counter


def test_a_text_append_writes_its_message_and_the_session(counted: Counted) -> None:
    assert counted.rows(lambda: counted.chat.append(note("m"))) == MESSAGE + SESSION
    assert counted.rows(lambda: counted.chat.append(plait.user("without an id"))) == MESSAGE + SESSION


def test_a_batch_writes_the_session_once(counted: Counted) -> None:
    assert counted.rows(lambda: counted.chat.append_many([note(f"m{n}") for n in range(20)])) == 20 * MESSAGE + SESSION


@pytest.mark.parametrize(
    "repeat",
    [
        lambda chat: chat.append(note("a")),
        lambda chat: chat.append(note("a", "other words")),
        lambda chat: chat.append_many([note("a"), note("b")]),
        lambda chat: chat.upsert(note("b")),
        lambda chat: chat.update(note("b")),
        lambda chat: chat.update(note("absent")),
        lambda chat: chat.import_message(note("b"), parent=None),
        lambda chat: chat.delete(["absent"]),
        lambda chat: chat.checkout("c"),
        lambda chat: chat.update_state({}),
        lambda chat: chat._sessions.get_or_create("chat"),
        lambda chat: chat._sessions.merge_metadata("chat", {}),
    ],
    ids=[
        "append",
        "append other",
        "append_many",
        "upsert",
        "update",
        "update absent",
        "import",
        "delete",
        "checkout",
        "state",
        "get_or_create",
        "metadata",
    ],
)
def test_what_changes_nothing_writes_nothing(
    counted: Counted, tmp_path: Path, repeat: Callable[[plait.Session], Any]
) -> None:
    """No row is committed, and no page: another connection sees no commit at all."""
    other = apsw.Connection(str(tmp_path / "a.db"), flags=apsw.SQLITE_OPEN_READONLY)
    before = other.execute("PRAGMA data_version").fetchall()
    repeat(counted.chat)
    assert other.execute("PRAGMA data_version").fetchall() == before
    counted.chat.append(note("a change"))
    assert other.execute("PRAGMA data_version").fetchall() != before
    other.close()


def test_an_update_writes_the_message_its_change_and_the_session(counted: Counted) -> None:
    assert counted.rows(lambda: counted.chat.update(note("b", "other words"))) == 1 + CHANGE + SESSION


@pytest.mark.parametrize("slices", [1, 2, 4])
def test_a_sliced_message_writes_one_row_more_for_each_slice(counted: Counted, slices: int) -> None:
    big = note("m", "x" * (slices * ROW_BUDGET_BYTES - 100))
    assert counted.rows(lambda: counted.chat.append(big)) == MESSAGE + SESSION + slices - 1
    assert counted.rows(lambda: counted.chat.update(big)) == 0
    changed = note("m", "y" + "x" * (slices * ROW_BUDGET_BYTES - 101))
    assert counted.rows(lambda: counted.chat.update(changed)) == 1 + 2 * (slices - 1) + CHANGE + SESSION


@pytest.mark.parametrize(("size", "pieces"), [(200 << 10, 1), (1 << 20, 1), (2 << 20, 2)])
def test_an_image_writes_its_payload_once_and_a_reference_for_each_use(
    counted: Counted, size: int, pieces: int
) -> None:
    assert counted.rows(lambda: counted.chat.append(picture("p", noise(size)))) == MESSAGE + SESSION + 2 + pieces
    assert counted.rows(lambda: counted.chat.append(picture("q", noise(size)))) == MESSAGE + SESSION + 1
    assert counted.rows(lambda: counted.chat.update(picture("q", noise(size)))) == 0
    assert counted.rows(lambda: counted.chat.delete("p")) == MESSAGE + 1 + CHANGE + SESSION
    assert counted.rows(lambda: counted.chat.delete("q")) == MESSAGE + 2 + pieces + CHANGE + SESSION


@pytest.mark.parametrize("doomed", [["a"], ["b"], ["c"]])
def test_a_delete_relinks_children_without_a_write(counted: Counted, doomed: list[str]) -> None:
    counted.chat.append(note("side"), parent="b")
    assert counted.rows(lambda: counted.chat.delete(doomed)) == MESSAGE + CHANGE + SESSION


def test_deleting_a_run_costs_its_rows_and_one_change(counted: Counted) -> None:
    counted.chat.append_many([note(f"m{n}") for n in range(20)])
    assert counted.rows(lambda: counted.chat.delete([f"m{n}" for n in range(19)])) == 19 * MESSAGE + CHANGE + SESSION


def test_a_branch_writes_one_strand_more(counted: Counted) -> None:
    assert counted.rows(lambda: counted.chat.append(note("side"), parent="a")) == MESSAGE + SESSION + STRAND
    assert counted.rows(lambda: counted.chat.append(note("on"))) == MESSAGE + SESSION
    assert counted.rows(lambda: counted.chat.append(note("root"), parent=None)) == MESSAGE + SESSION + STRAND


def test_a_checkout_writes_its_change_and_the_session(counted: Counted) -> None:
    assert counted.rows(lambda: counted.chat.checkout("a")) == CHANGE + SESSION


def test_reading_writes_nothing(counted: Counted) -> None:
    def read() -> None:
        chat = counted.chat
        list(chat.history())
        list(chat.everything())
        list(chat.path_stats())
        chat.recent(count=1)
        chat.leaves()
        chat.children("a")
        chat.totals()
        counted.sessions.list()
        counted.sessions.get("chat")

    assert counted.rows(read) == 0


@contextmanager
def gate_held_elsewhere(writer: Any) -> Iterator[None]:
    """As if another thread were just committing: whoever comes has to queue."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with writer.gate:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_group_of_writers_shares_the_session_row(tmp_path: Path) -> None:
    """What many callers append in one transaction writes the session once."""
    import asyncio

    async def work() -> tuple[int, int]:
        async with plait.open_async(tmp_path / "b.db", durability="process") as sessions:
            chat = sessions.session("chat")
            await chat.append(note("first"))
            connection: Any = sessions.store.driver._writer.writing.connection  # type: ignore[attr-defined]
            before = connection.total_changes()
            with gate_held_elsewhere(sessions.store.driver._writer):  # type: ignore[attr-defined]
                appends = [asyncio.ensure_future(chat.append(note(f"m{n}"))) for n in range(64)]
                await asyncio.sleep(0)  # all are waiting by then
            await asyncio.gather(*appends)
            return connection.total_changes() - before, 64 * MESSAGE

    written, least = asyncio.run(work())
    assert least < written < least + 20
