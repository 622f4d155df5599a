"""Generated from tests/behaviour/_async/test_reads.py by tools/unasync.py: edit that file. Reading a path: lazily, in windows, in batches, by pages, newest first, while others write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from plait import Session, Sessions, Message, SessionDeletedError, StaleValueError, UsageError
from tests.behaviour._sync.helpers import chain, ids_of, readable
from tests.behaviour.values import note, picture

BOUNDARIES = [0, 1, 49, 50, 51, 120, 305, 306, 307, 562, 563]
FAR = 700
"""More messages than an iterator has read ahead when it has yielded a hundred."""


@pytest.mark.parametrize("count", BOUNDARIES)
def test_every_length_around_a_window_is_read_whole_in_both_directions(chat: Session, count: int) -> None:
    expected = chain(chat, count) if count else []
    assert ids_of(chat.history()) == expected
    assert ids_of(chat.history(newest_first=True)) == expected[::-1]
    assert ids_of(chat.transcript()) == expected
    assert ids_of(chat.everything()) == expected
    assert [stat.id for stat in chat.path_stats()] == expected
    assert [message.id for message in (chat.recent()).messages] == expected


def test_history_of_a_leaf_follows_its_branch_across_windows(chat: Session) -> None:
    trunk = chain(chat, 60)
    chat.append_many([note(f"a{n}") for n in range(70)], parent="m29")
    chat.append_many([note(f"b{n}") for n in range(70)], parent="a9")
    a, b = [f"a{n}" for n in range(70)], [f"b{n}" for n in range(70)]
    assert ids_of(chat.history("m59")) == trunk
    assert ids_of(chat.history("a69")) == trunk[:30] + a
    assert ids_of(chat.history()) == trunk[:30] + a[:10] + b
    assert ids_of(chat.history(newest_first=True)) == (trunk[:30] + a[:10] + b)[::-1]
    assert ids_of(chat.history("m10")) == trunk[:11]


def test_breaking_out_leaves_the_rest_unread(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    chain(chat, 500)
    loads = noted(chat, monkeypatch)
    for message in chat.history(newest_first=True):
        assert message.id == "m499"
        break
    assert len(loads) == 1
    for message in chat.history():
        assert message.id == "m0"
        break
    assert len(loads) == 2


def test_a_window_holds_50_rows_at_first_then_256_and_ends_at_512_kib(
    chat: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(chat, 600)
    loads = noted(chat, monkeypatch)
    assert len(ids_of(chat.history())) == 600
    assert [len(window) for window in loads] == [50, 256, 256, 38]
    del loads[:]
    assert len(ids_of(chat.history(newest_first=True))) == 600
    assert [len(window) for window in loads] == [50, 256, 256, 38]
    del loads[:]
    chat.append_many([note(f"big{n}", "x" * 200_000) for n in range(7)])
    assert len(ids_of(chat.history(newest_first=True))) == 607
    assert [len(window) for window in loads[:2]] == [3, 3]
    del loads[:]
    assert len(ids_of(chat.transcript(limit=20))) == 20
    assert [len(window) for window in loads] == [20]


def noted(chat: Session, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The ids of each window that is loaded from now on."""
    loads: list[list[str]] = []
    original = chat._store.load

    def load(*args: Any, **options: Any) -> Any:
        window = original(*args, **options)
        loads.append([message.id for message in window])
        return window

    monkeypatch.setattr(chat._store, "load", load)
    return loads


@pytest.mark.parametrize(
    ("count", "bytes", "sizes"),
    [
        (2, 1 << 20, [2, 2, 1]),
        (50, 1 << 20, [5]),
        (1, 1 << 20, [1] * 5),
        (1, 1, [1] * 5),
        (50, 0, [1] * 5),
        (50, 160, [2, 2, 1]),
    ],
)
def test_batches_keep_both_bounds_and_are_never_empty(
    chat: Session, count: int, bytes: int, sizes: list[int]
) -> None:
    chat.append_many([note(f"m{n}") for n in range(5)])
    assert (chat.totals()).bytes == 5 * 66
    batches = [batch for batch in chat.batches(count=count, bytes=bytes)]
    assert [len(batch) for batch in batches] == sizes
    assert [message.id for batch in batches for message in batch] == [f"m{n}" for n in range(5)]
    backwards = [
        message.id for batch in chat.batches(count=count, bytes=bytes, newest_first=True) for message in batch
    ]
    assert backwards == [f"m{n}" for n in reversed(range(5))]


def test_an_oversized_message_is_a_batch_of_its_own(chat: Session) -> None:
    chat.append_many(
        [note("a"), note("big", "x" * 2_000_000), note("b"), picture("p", bytes(1_500_000)), note("c")]
    )
    assert [[m.id for m in batch] for batch in chat.batches(bytes=1_000_000)] == [
        ["a"],
        ["big"],
        ["b"],
        ["p"],
        ["c"],
    ]


@pytest.mark.parametrize("page", [1, 20, 33, 95, 200])
def test_paging_by_seq_meets_every_message_once_while_others_append_and_delete(
    chat: Session, page: int
) -> None:
    """B-023: 95 messages of one time, both ways, and the walk ends."""
    import datetime as dt

    same_time = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    parent = None
    for n in range(95):
        parent = (chat.import_message(note(f"m{n}"), parent=parent, created_at=same_time)).id
    doomed = {"m40", "m41", "m90"}
    down: list[str] = []
    before: int | None = None
    while found := [
        message for message in chat.transcript("m94", newest_first=True, before_seq=before, limit=page)
    ]:
        down += [message.id for message in found]
        before = found[-1].seq
        chat.append(note(f"late{len(down)}"))
        chat.delete(sorted(doomed))
    assert len(down) == len(set(down))
    assert {f"m{n}" for n in range(95)} - doomed <= set(down)
    up: list[str] = []
    after: int | None = None
    while found := [message for message in chat.transcript(after_seq=after, limit=page)]:
        assert len(found) <= page
        up += [message.id for message in found]
        after = found[-1].seq
    assert [id for id in up if id.startswith("m")] == [f"m{n}" for n in range(95) if f"m{n}" not in doomed]
    assert len(up) == len(set(up))


def test_a_page_lies_between_its_bounds(chat: Session) -> None:
    chain(chat, 200)  # seqs 1 to 200
    assert ids_of(chat.transcript(after_seq=50, before_seq=54)) == ["m50", "m51", "m52"]
    assert ids_of(chat.transcript(after_seq=50, before_seq=54, newest_first=True)) == ["m52", "m51", "m50"]
    assert ids_of(chat.transcript(after_seq=50, before_seq=51)) == []
    assert ids_of(chat.transcript(after_seq=200)) == []
    assert ids_of(chat.transcript(before_seq=1)) == []
    assert ids_of(chat.transcript(after_seq=500)) == []
    assert ids_of(chat.transcript(limit=0)) == []
    assert ids_of(chat.transcript("m9", after_seq=7, limit=100)) == ["m7", "m8", "m9"]
    with pytest.raises(UsageError, match="limit"):
        ids_of(chat.transcript(limit=-1))
    with pytest.raises(UsageError, match="limit"):
        ids_of(chat.everything(limit=-1))


def test_a_copy_is_continued_where_it_ended(chat: Session) -> None:
    chain(chat, 10)
    chat.append(note("branch"), parent="m3")
    copied = [message for message in chat.everything(limit=7)]
    chat.append(note("more"))
    copied += [message for message in chat.everything(after_seq=copied[-1].seq)]
    assert [message.id for message in copied] == [*[f"m{n}" for n in range(10)], "branch", "more"]


@pytest.mark.parametrize("stop", [1, 60, 99])
def test_an_iterator_sees_the_path_it_began_with(chat: Session, stop: int) -> None:
    """Later appends are not seen, a branch taken meanwhile changes nothing, a deleted row is left out."""
    chain(chat, FAR)
    seen: list[str] = []
    for message in chat.history():
        seen.append(message.id)
        if len(seen) == stop:
            chat.append(note("later"))
            chat.append(note("branch"), parent="m2")
            chat.delete(f"m{FAR - 2}")
            chat.update(note(f"m{FAR - 1}", "as it is then"))
        if message.id == f"m{FAR - 1}":
            assert readable(message).text == "as it is then"
    assert seen == [f"m{n}" for n in range(FAR) if n != FAR - 2]


def test_an_iterator_newest_first_sees_the_path_it_began_with(chat: Session) -> None:
    chain(chat, FAR)
    seen: list[str] = []
    for message in chat.history(newest_first=True):
        seen.append(message.id)
        if len(seen) == 10:
            chat.append(note("later"))
            chat.delete(["m5", "m0"])
    assert seen == [f"m{n}" for n in reversed(range(FAR)) if n not in (0, 5)]


@pytest.mark.parametrize("end", ["clear", "delete", "clear elsewhere", "delete elsewhere", "delete and make anew"])
def test_an_iterator_does_not_outlive_its_session(
    sessions: Sessions, chat: Session, reopened: Callable[[], Sessions], end: str
) -> None:
    chain(chat, FAR)
    with pytest.raises(SessionDeletedError):
        for message in chat.history():
            if message.id != "m10":
                continue
            with reopened() as others:
                where = others if "elsewhere" in end else sessions
                if "clear" in end:
                    where.session("chat").clear()
                else:
                    where.delete("chat")
                if "anew" in end:
                    chain(where.session("chat"), FAR)


@pytest.mark.parametrize("change", ["update", "delete"])
def test_a_consistent_read_notices_a_change_of_its_path(chat: Session, change: str) -> None:
    chain(chat, FAR)
    chat.append(note("off the path"), parent="m2")
    chat.checkout(f"m{FAR - 1}")

    def read(id: str) -> int:
        count = 0
        for message in chat.history(consistent=True):
            count += 1
            if message.id == "m10":
                chat.append(note(f"beside {id}"), parent="m1")
                chat.checkout(f"m{FAR - 1}")
                if change == "update":
                    chat.update(note(id, "changed"))
                else:
                    chat.delete(id)
        return count

    assert read("off the path") == FAR
    with pytest.raises(StaleValueError):
        read("m3")


def test_an_iterator_holds_no_lock_and_no_snapshot(
    sessions: Sessions, chat: Session, reopened: Callable[[], Sessions]
) -> None:
    """B-033: no read transaction is open while user code runs, here one that writes, backs up and vacuums."""
    chain(chat, FAR)
    with reopened() as others:
        count = 0
        for _ in chat.history():
            count += 1
            if count in (1, 60):
                others.session("chat").append(note(f"from another {count}"))
                chat.append(note(f"from here {count}"))
                others.vacuum()
    assert count == FAR


def test_what_is_read_knows_its_place_size_and_time(chat: Session) -> None:
    chat.append_many([note("a", "one two three"), picture("p", bytes(1000))])
    message = readable(chat.get("p"))
    (stat,) = [stat for stat in chat.path_stats() if stat.id == "p"]
    assert (message.id, message.role, message.seq, message.parent_id, message.format) == ("p", "user", 2, "a", "plait")
    assert (stat.id, stat.role, stat.seq, stat.bytes, stat.tokens) == (
        message.id,
        message.role,
        message.seq,
        message.bytes,
        message.tokens,
    )
    assert stat.created_at == message.created_at
    assert message.bytes == len(message.to_json().encode())
    assert message.tokens > 0
    assert message.created_at.tzinfo is not None
    assert [part["type"] for part in message.parts] == ["text", "file"]
    assert message.text == "look" and message.metadata == {} and message.usage is None


def test_one_answer_comes_from_one_state(chat: Session) -> None:
    """A window and its totals, children and leaves: each call sees one committed state."""
    chain(chat, 30)
    window = chat.recent(count=10)
    assert (len(window.messages), window.truncated, window.total_messages) == (10, True, 30)
    assert isinstance(window.messages[0], Message)
    totals = chat.totals()
    info = chat.info()
    assert info is not None and info.totals == totals
    assert (window.total_bytes, window.total_tokens) == (totals.path_bytes, totals.path_tokens)


def test_reading_logs_nothing_and_changes_nothing(
    chat: Session, caplog: pytest.LogCaptureFixture, sessions: Sessions
) -> None:
    chain(chat, 60)
    info = chat.info()
    with caplog.at_level(logging.INFO, "plait"):
        ids_of(chat.history())
        chat.recent(count=3)
        chat.leaves()
        [session for session in sessions.all()]
    assert chat.info() == info
    assert caplog.records == []
