"""Many writers of the same rows: one chain, no number twice, payloads kept as long as somebody uses them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import plait
from plait import Session, Sessions
from plait.errors import StaleValueError
from tests.dose import dose


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Do work in threads that begin together; raises what one of them raised."""
    gate = threading.Barrier(count)
    failed: list[BaseException] = []

    def run(n: int) -> None:
        gate.wait()
        try:
            work(n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def text(id: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": id}]}


def picture(id: str, payload: str) -> dict[str, Any]:
    part = {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{payload}"}
    return {"id": id, "role": "user", "parts": [part]}


def test_many_stores_on_one_session_make_one_chain(url: str) -> None:
    each = dose(short=15, soak=200)

    def write(n: int) -> None:
        with plait.open(url) as sessions:
            for i in range(each):
                assert sessions.session("chat").append(text(f"{n}-{i}")).inserted

    in_threads(4, write)
    with plait.open(url) as sessions:
        chat = sessions.session("chat")
        found = list(chat.history())
        assert [message.seq for message in found] == list(range(1, 4 * each + 1))
        assert [message.parent_id for message in found[1:]] == [message.id for message in found[:-1]]
        info = chat.info()
        assert info is not None and info.totals.path_messages == info.version == 4 * each


def test_a_session_begun_by_many_at_once_has_one_life(url: str) -> None:
    for round in range(dose(short=5, soak=100)):

        def write(n: int, round: int = round) -> None:
            with plait.open(url) as sessions:
                sessions.session(f"chat {round}").append(text(f"{n}"))

        in_threads(4, write)
        with plait.open(url) as sessions:
            assert sorted(message.id for message in sessions.session(f"chat {round}").history()) == ["0", "1", "2", "3"]


def test_a_payload_that_one_session_lets_go_is_kept_for_another(sessions: Sessions) -> None:
    rounds = dose(short=15, soak=500)

    def use(n: int) -> None:
        for i in range(rounds):
            chat = sessions.session(f"chat {n}")
            chat.append(picture(f"{i}", "AAAA"))
            kept = chat.get(f"{i}")
            assert isinstance(kept, plait.Message) and kept.to_dict() == picture(f"{i}", "AAAA")
            chat.delete(f"{i}")

    in_threads(3, use)


def test_mixed_work_of_many_ends_in_a_sound_tree(sessions: Sessions) -> None:
    rounds = dose(short=8, soak=300)
    chat = sessions.session("chat")
    chat.append_many([text(f"m{n}") for n in range(10)])

    def work(n: int) -> None:
        for i in range(rounds):
            chat.append(text(f"{n}-{i}"))
            if i % 3 == 0:
                chat.delete(f"{n}-{i}")
            elif i % 3 == 1:
                chat.append(text(f"{n}-{i}-branch"), parent=f"{n}-{i}")
            else:
                with suppress(StaleValueError):  # a message of it was deleted meanwhile
                    chat.fork(f"copy {n}-{i}")

    in_threads(4, work)
    everything = [row.id for row in chat.everything()]
    info = chat.info()
    assert info is not None and info.totals.messages == len(everything) == len(set(everything))
    for row in chat.everything():
        assert row.parent_id is None or row.id in [child.id for child in chat.children(row.parent_id)]
    assert all(session.totals.messages for session in sessions.list(limit=200).sessions)


def test_a_feed_misses_nothing_of_writers_that_are_late(sessions: Sessions, url: str) -> None:
    """What is committed long after it was begun comes before the reader's cursor by no order but its session's."""
    cursor = sessions.cursor()
    seen: list[tuple[str, int]] = []
    done = threading.Event()

    def read() -> None:
        nonlocal cursor
        while True:
            over = done.is_set()
            page = sessions.changes(after=cursor, limit=7)
            seen.extend((change.session_id, change.version) for change in page.changes)
            cursor = page.cursor
            if over and not page.more and not page.changes:
                return

    reader = threading.Thread(target=read)
    reader.start()
    each = dose(short=10, soak=300)

    def write(n: int) -> None:
        with plait.open(url) as other:
            for i in range(each):
                other.session(f"chat {n}").append(text(f"{n}-{i}"))

    try:
        in_threads(3, write)
    finally:
        done.set()
        reader.join()
    for n in range(3):
        versions = [version for session, version in seen if session == f"chat {n}"]
        assert sorted(set(versions)) == list(range(1, each + 1))


def test_first_writes_of_one_handle_at_once_all_count(sessions: Sessions) -> None:
    """One of them begins the session; for the others it was absent a moment ago, and is bound to their handle meanwhile."""
    for n in range(dose(short=10, soak=200)):
        chat = sessions.session(f"first-{n}")
        in_threads(8, partial(first_write, chat))
        assert len(chat.records()) == 8


def first_write(chat: Session, n: int) -> None:
    chat.write_records({bytes([n]): b"x"})
