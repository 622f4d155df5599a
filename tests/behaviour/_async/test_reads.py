"""Reading a path: lazily, in windows, in batches, by pages, newest first, while others write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from plait import AsyncSession, AsyncSessions, Message, SessionDeletedError, StaleValueError, UsageError
from tests.behaviour._async.helpers import chain, ids_of, readable
from tests.behaviour.values import note, picture

BOUNDARIES = [0, 1, 49, 50, 51, 120, 305, 306, 307, 562, 563]
FAR = 700
"""More messages than an iterator has read ahead when it has yielded a hundred."""


@pytest.mark.parametrize("count", BOUNDARIES)
async def test_every_length_around_a_window_is_read_whole_in_both_directions(chat: AsyncSession, count: int) -> None:
    expected = await chain(chat, count) if count else []
    assert await ids_of(chat.history()) == expected
    assert await ids_of(chat.history(newest_first=True)) == expected[::-1]
    assert await ids_of(chat.transcript()) == expected
    assert await ids_of(chat.everything()) == expected
    assert [stat.id async for stat in chat.path_stats()] == expected
    assert [message.id for message in (await chat.recent()).messages] == expected


async def test_history_of_a_leaf_follows_its_branch_across_windows(chat: AsyncSession) -> None:
    trunk = await chain(chat, 60)
    await chat.append_many([note(f"a{n}") for n in range(70)], parent="m29")
    await chat.append_many([note(f"b{n}") for n in range(70)], parent="a9")
    a, b = [f"a{n}" for n in range(70)], [f"b{n}" for n in range(70)]
    assert await ids_of(chat.history("m59")) == trunk
    assert await ids_of(chat.history("a69")) == trunk[:30] + a
    assert await ids_of(chat.history()) == trunk[:30] + a[:10] + b
    assert await ids_of(chat.history(newest_first=True)) == (trunk[:30] + a[:10] + b)[::-1]
    assert await ids_of(chat.history("m10")) == trunk[:11]


async def test_breaking_out_leaves_the_rest_unread(chat: AsyncSession, monkeypatch: pytest.MonkeyPatch) -> None:
    await chain(chat, 500)
    loads = noted(chat, monkeypatch)
    async for message in chat.history(newest_first=True):
        assert message.id == "m499"
        break
    assert len(loads) == 1
    async for message in chat.history():
        assert message.id == "m0"
        break
    assert len(loads) == 2


async def test_a_window_holds_50_rows_at_first_then_256_and_ends_at_512_kib(
    chat: AsyncSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chain(chat, 600)
    loads = noted(chat, monkeypatch)
    assert len(await ids_of(chat.history())) == 600
    assert [len(window) for window in loads] == [50, 256, 256, 38]
    del loads[:]
    assert len(await ids_of(chat.history(newest_first=True))) == 600
    assert [len(window) for window in loads] == [50, 256, 256, 38]
    del loads[:]
    await chat.append_many([note(f"big{n}", "x" * 200_000) for n in range(7)])
    assert len(await ids_of(chat.history(newest_first=True))) == 607
    assert [len(window) for window in loads[:2]] == [3, 3]
    del loads[:]
    assert len(await ids_of(chat.transcript(limit=20))) == 20
    assert [len(window) for window in loads] == [20]


def noted(chat: AsyncSession, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The ids of each window that is loaded from now on."""
    loads: list[list[str]] = []
    original = chat._store.load

    async def load(*args: Any, **options: Any) -> Any:
        window = await original(*args, **options)
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
async def test_batches_keep_both_bounds_and_are_never_empty(
    chat: AsyncSession, count: int, bytes: int, sizes: list[int]
) -> None:
    await chat.append_many([note(f"m{n}") for n in range(5)])
    assert (await chat.totals()).bytes == 5 * 66
    batches = [batch async for batch in chat.batches(count=count, bytes=bytes)]
    assert [len(batch) for batch in batches] == sizes
    assert [message.id for batch in batches for message in batch] == [f"m{n}" for n in range(5)]
    backwards = [
        message.id async for batch in chat.batches(count=count, bytes=bytes, newest_first=True) for message in batch
    ]
    assert backwards == [f"m{n}" for n in reversed(range(5))]


async def test_an_oversized_message_is_a_batch_of_its_own(chat: AsyncSession) -> None:
    await chat.append_many(
        [note("a"), note("big", "x" * 2_000_000), note("b"), picture("p", bytes(1_500_000)), note("c")]
    )
    assert [[m.id for m in batch] async for batch in chat.batches(bytes=1_000_000)] == [
        ["a"],
        ["big"],
        ["b"],
        ["p"],
        ["c"],
    ]


@pytest.mark.parametrize("page", [1, 20, 33, 95, 200])
async def test_paging_by_seq_meets_every_message_once_while_others_append_and_delete(
    chat: AsyncSession, page: int
) -> None:
    """B-023: 95 messages of one time, both ways, and the walk ends."""
    import datetime as dt

    same_time = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    parent = None
    for n in range(95):
        parent = (await chat.import_message(note(f"m{n}"), parent=parent, created_at=same_time)).id
    doomed = {"m40", "m41", "m90"}
    down: list[str] = []
    before: int | None = None
    while found := [
        message async for message in chat.transcript("m94", newest_first=True, before_seq=before, limit=page)
    ]:
        down += [message.id for message in found]
        before = found[-1].seq
        await chat.append(note(f"late{len(down)}"))
        await chat.delete(sorted(doomed))
    assert len(down) == len(set(down))
    assert {f"m{n}" for n in range(95)} - doomed <= set(down)
    up: list[str] = []
    after: int | None = None
    while found := [message async for message in chat.transcript(after_seq=after, limit=page)]:
        assert len(found) <= page
        up += [message.id for message in found]
        after = found[-1].seq
    assert [id for id in up if id.startswith("m")] == [f"m{n}" for n in range(95) if f"m{n}" not in doomed]
    assert len(up) == len(set(up))


async def test_a_page_lies_between_its_bounds(chat: AsyncSession) -> None:
    await chain(chat, 200)  # seqs 1 to 200
    assert await ids_of(chat.transcript(after_seq=50, before_seq=54)) == ["m50", "m51", "m52"]
    assert await ids_of(chat.transcript(after_seq=50, before_seq=54, newest_first=True)) == ["m52", "m51", "m50"]
    assert await ids_of(chat.transcript(after_seq=50, before_seq=51)) == []
    assert await ids_of(chat.transcript(after_seq=200)) == []
    assert await ids_of(chat.transcript(before_seq=1)) == []
    assert await ids_of(chat.transcript(after_seq=500)) == []
    assert await ids_of(chat.transcript(limit=0)) == []
    assert await ids_of(chat.transcript("m9", after_seq=7, limit=100)) == ["m7", "m8", "m9"]
    with pytest.raises(UsageError, match="limit"):
        await ids_of(chat.transcript(limit=-1))
    with pytest.raises(UsageError, match="limit"):
        await ids_of(chat.everything(limit=-1))


async def test_a_copy_is_continued_where_it_ended(chat: AsyncSession) -> None:
    await chain(chat, 10)
    await chat.append(note("branch"), parent="m3")
    copied = [message async for message in chat.everything(limit=7)]
    await chat.append(note("more"))
    copied += [message async for message in chat.everything(after_seq=copied[-1].seq)]
    assert [message.id for message in copied] == [*[f"m{n}" for n in range(10)], "branch", "more"]


@pytest.mark.parametrize("stop", [1, 60, 99])
async def test_an_iterator_sees_the_path_it_began_with(chat: AsyncSession, stop: int) -> None:
    """Later appends are not seen, a branch taken meanwhile changes nothing, a deleted row is left out."""
    await chain(chat, FAR)
    seen: list[str] = []
    async for message in chat.history():
        seen.append(message.id)
        if len(seen) == stop:
            await chat.append(note("later"))
            await chat.append(note("branch"), parent="m2")
            await chat.delete(f"m{FAR - 2}")
            await chat.update(note(f"m{FAR - 1}", "as it is then"))
        if message.id == f"m{FAR - 1}":
            assert readable(message).text == "as it is then"
    assert seen == [f"m{n}" for n in range(FAR) if n != FAR - 2]


async def test_an_iterator_newest_first_sees_the_path_it_began_with(chat: AsyncSession) -> None:
    await chain(chat, FAR)
    seen: list[str] = []
    async for message in chat.history(newest_first=True):
        seen.append(message.id)
        if len(seen) == 10:
            await chat.append(note("later"))
            await chat.delete(["m5", "m0"])
    assert seen == [f"m{n}" for n in reversed(range(FAR)) if n not in (0, 5)]


@pytest.mark.parametrize("end", ["clear", "delete", "clear elsewhere", "delete elsewhere", "delete and make anew"])
async def test_an_iterator_does_not_outlive_its_session(
    sessions: AsyncSessions, chat: AsyncSession, reopened: Callable[[], AsyncSessions], end: str
) -> None:
    await chain(chat, FAR)
    with pytest.raises(SessionDeletedError):
        async for message in chat.history():
            if message.id != "m10":
                continue
            async with reopened() as others:
                where = others if "elsewhere" in end else sessions
                if "clear" in end:
                    await where.session("chat").clear()
                else:
                    await where.delete("chat")
                if "anew" in end:
                    await chain(where.session("chat"), FAR)


@pytest.mark.parametrize("change", ["update", "delete"])
async def test_a_consistent_read_notices_a_change_of_its_path(chat: AsyncSession, change: str) -> None:
    await chain(chat, FAR)
    await chat.append(note("off the path"), parent="m2")
    await chat.checkout(f"m{FAR - 1}")

    async def read(id: str) -> int:
        count = 0
        async for message in chat.history(consistent=True):
            count += 1
            if message.id == "m10":
                await chat.append(note(f"beside {id}"), parent="m1")
                await chat.checkout(f"m{FAR - 1}")
                if change == "update":
                    await chat.update(note(id, "changed"))
                else:
                    await chat.delete(id)
        return count

    assert await read("off the path") == FAR
    with pytest.raises(StaleValueError):
        await read("m3")


async def test_an_iterator_holds_no_lock_and_no_snapshot(
    sessions: AsyncSessions, chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    """B-033: no read transaction is open while user code runs, here one that writes, backs up and vacuums."""
    await chain(chat, FAR)
    async with reopened() as others:
        count = 0
        async for _ in chat.history():
            count += 1
            if count in (1, 60):
                await others.session("chat").append(note(f"from another {count}"))
                await chat.append(note(f"from here {count}"))
                await others.vacuum()
    assert count == FAR


async def test_what_is_read_knows_its_place_size_and_time(chat: AsyncSession) -> None:
    await chat.append_many([note("a", "one two three"), picture("p", bytes(1000))])
    message = readable(await chat.get("p"))
    (stat,) = [stat async for stat in chat.path_stats() if stat.id == "p"]
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


async def test_one_answer_comes_from_one_state(chat: AsyncSession) -> None:
    """A window and its totals, children and leaves: each call sees one committed state."""
    await chain(chat, 30)
    window = await chat.recent(count=10)
    assert (len(window.messages), window.truncated, window.total_messages) == (10, True, 30)
    assert isinstance(window.messages[0], Message)
    totals = await chat.totals()
    info = await chat.info()
    assert info is not None and info.totals == totals
    assert (window.total_bytes, window.total_tokens) == (totals.path_bytes, totals.path_tokens)


async def test_reading_logs_nothing_and_changes_nothing(
    chat: AsyncSession, caplog: pytest.LogCaptureFixture, sessions: AsyncSessions
) -> None:
    await chain(chat, 60)
    info = await chat.info()
    with caplog.at_level(logging.INFO, "plait"):
        await ids_of(chat.history())
        await chat.recent(count=3)
        await chat.leaves()
        [session async for session in sessions.all()]
    assert await chat.info() == info
    assert caplog.records == []
