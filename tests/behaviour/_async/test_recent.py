"""The newest messages of a path: by count, by bytes, honest about what was left out."""

from __future__ import annotations

import pytest

from plait import AsyncSession, AsyncSessions, Message, UsageError
from plait.model import OverlayKind
from tests.behaviour._async.helpers import chain, readable
from tests.behaviour.values import noise, note, picture


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, []),
        (1, [9]),
        (3, [7, 8, 9]),
        (10, list(range(10))),
        (11, list(range(10))),
        (10**9, list(range(10))),
        (None, list(range(10))),
    ],
)
async def test_the_newest_n_are_the_last_ones_oldest_first(
    chat: AsyncSession, count: int | None, expected: list[int]
) -> None:
    """B-019: not the first n, not reversed; 0 gives none, more than there are gives all."""
    await chain(chat, 10)
    window = await chat.recent(count=count)
    assert [message.id for message in window.messages] == [f"m{n}" for n in expected]
    assert window.truncated == (len(expected) < 10)
    assert window.total_messages == 10
    assert [message.id async for message in chat.transcript(newest_first=True, limit=count)] == [
        f"m{n}" for n in reversed(expected)
    ]


@pytest.mark.parametrize("count", [-1, -(10**9)])
async def test_a_negative_count_is_a_clear_error(chat: AsyncSession, count: int) -> None:
    """B-019"""
    await chain(chat, 3)
    with pytest.raises(UsageError, match="count must be a whole number of at least 0"):
        await chat.recent(count=count)


async def test_every_budget_gives_the_longest_suffix_that_fits(chat: AsyncSession) -> None:
    sizes = [50, 10, 700, 20, 1, 300, 5]
    await chat.append_many([note(f"m{n}", "x" * size) for n, size in enumerate(sizes)])
    bytes = [stat.bytes async for stat in chat.path_stats()]
    total = sum(bytes)
    edges = {sum(bytes[n:]) + d for n in range(len(bytes)) for d in (-1, 0, 1)}
    for budget in sorted(edges | {0, -1, -(10**9), 10**12}):
        window = await chat.recent(budget_bytes=budget)
        fitting = [n for n in range(len(bytes)) if sum(bytes[n:]) <= budget]
        start = min(fitting, default=len(bytes) - 1)  # the newest is always there
        assert [message.id for message in window.messages] == [f"m{n}" for n in range(start, len(bytes))], budget
        assert (window.truncated, window.total_bytes, window.total_messages) == (start > 0, total, len(bytes))


async def test_both_bounds_hold_together(chat: AsyncSession) -> None:
    await chain(chat, 10)
    size = readable(await chat.get("m9")).bytes
    assert len((await chat.recent(count=5, budget_bytes=3 * size)).messages) == 3
    assert len((await chat.recent(count=2, budget_bytes=3 * size)).messages) == 2
    assert len((await chat.recent(count=0, budget_bytes=3 * size)).messages) == 0
    assert len((await chat.recent(count=2, budget_bytes=0)).messages) == 1


async def test_the_budget_counts_slices_and_media_as_they_are_read(chat: AsyncSession) -> None:
    """B-004, B-082: a budget that the first slice would fit does not admit the whole message."""
    await chat.append_many([note("a"), note("big", "x" * 4_000_000), picture("p", noise(600_000)), note("z")])
    big, image = readable(await chat.get("big")), readable(await chat.get("p"))
    assert big.bytes > 4_000_000 and image.bytes > 700_000
    assert [m.id for m in (await chat.recent(budget_bytes=700_000)).messages] == ["z"]
    assert [m.id for m in (await chat.recent(budget_bytes=1_600_000)).messages] == ["p", "z"]
    assert [m.id for m in (await chat.recent(budget_bytes=(await chat.totals()).bytes - 1)).messages] == [
        "big",
        "p",
        "z",
    ]
    assert not (await chat.recent(budget_bytes=5_000_000)).truncated


async def test_a_run_of_images_does_not_exceed_the_budget(chat: AsyncSession) -> None:
    await chat.append_many([picture(f"p{n}", noise(400_000, n)) for n in range(8)])
    window = await chat.recent(budget_bytes=1_500_000)
    assert [message.id for message in window.messages] == ["p6", "p7"]
    assert window.truncated
    assert sum(readable(message).bytes for message in window.messages) <= 1_500_000


async def test_the_same_image_twice_in_one_message_is_charged_twice_as_it_is_read_twice(chat: AsyncSession) -> None:
    message = picture("p", noise(300_000))
    message["parts"].append(dict(message["parts"][1]))
    await chat.append(message)
    stored = readable(await chat.get("p"))
    assert stored.bytes == len(stored.to_json().encode()) > 800_000
    assert (await chat.totals()).bytes == stored.bytes


async def test_a_window_of_a_branch_is_that_of_its_path(chat: AsyncSession) -> None:
    await chain(chat, 6)
    await chat.append_many([note("a"), note("b")], parent="m1")
    window = await chat.recent(count=3)
    assert [message.id for message in window.messages] == ["m1", "a", "b"]
    assert (window.total_messages, window.truncated) == (4, True)
    other = await chat.recent(count=3, leaf="m5")
    assert [message.id for message in other.messages] == ["m3", "m4", "m5"]
    assert (other.total_messages, other.truncated) == (6, True)
    inner = await chat.recent(leaf="m2")
    assert [message.id for message in inner.messages] == ["m0", "m1", "m2"]
    assert (inner.total_messages, inner.truncated) == (3, False)


async def test_totals_follow_every_kind_of_write(chat: AsyncSession) -> None:
    """The aggregates on the session row are what a count of the rows gives."""

    async def check() -> None:
        totals = await chat.totals()
        rows = [readable(message) async for message in chat.everything()]
        path = [stat async for stat in chat.path_stats()]
        assert (totals.messages, totals.bytes, totals.tokens) == (
            len(rows),
            sum(m.bytes for m in rows),
            sum(m.tokens for m in rows),
        )
        assert (totals.path_messages, totals.path_bytes, totals.path_tokens) == (
            len(path),
            sum(stat.bytes for stat in path),
            sum(stat.tokens for stat in path),
        )

    await chain(chat, 8)
    await check()
    for step in (
        lambda: chat.append(note("b1"), parent="m3"),
        lambda: chat.append(note("b2")),
        lambda: chat.checkout("m7"),
        lambda: chat.update(note("m2", "much longer " * 100)),
        lambda: chat.update(note("b1", "off the path")),
        lambda: chat.delete(["m1", "b1"]),
        lambda: chat.append(picture("p", noise(10_000))),
        lambda: chat.update(note("p", "no picture")),
        lambda: chat.import_message(note("i"), parent="m2", activate=False),
        lambda: chat.append(note("big", "x" * 2_000_000)),
        lambda: chat.delete(["p", "big", "m7", "m6"]),
        lambda: chat.append(note("root"), parent=None),
        lambda: chat.checkout("b2"),
        lambda: chat.clear(),
        lambda: chat.append(note("anew")),
    ):
        await step()
        await check()


async def test_with_many_overlays_every_count_and_budget_gives_the_end_of_the_history(chat: AsyncSession) -> None:
    """Only overlays at the end are looked at first: wherever that stops, the window is the same."""
    await chain(chat, 160)
    for n in range(40):
        kind: OverlayKind = "archive" if n % 5 == 4 else "compaction"
        summary = None if kind == "archive" else f"S{n}"
        await chat.add_overlay(f"m{4 * n + 1}", f"m{4 * n + 2}", summary=summary, kind=kind)
    for n in (20, 25, 30):
        await chat.add_overlay(f"m{4 * n}", f"m{4 * n + 7}", summary=f"over {n}")
    await chat.append({"id": "aside", "role": "user", "parts": []}, parent="m90")
    for leaf in ("aside", "m159"):
        await chat.checkout(leaf)
        history = [message async for message in chat.history()]
        totals = await chat.totals()
        for count in range(len(history) + 2):
            window = await chat.recent(count=count)
            assert window.messages == history[len(history) - min(count, len(history)) :], count
            assert (window.view_messages, window.total_messages) == (totals.view_messages, totals.path_messages)
        for kept in range(1, len(history), 3):
            budget = sum(message.bytes for message in history[-kept:] if isinstance(message, Message))
            assert (await chat.recent(budget_bytes=budget)).messages == history[-kept:]
        assert [message async for message in chat.history(newest_first=True)] == history[::-1]
        assert (await chat.recent()).messages == history
        for at in range(0, 160, 7):
            assert (await chat.recent(leaf=f"m{at}", count=9)).messages == [
                message async for message in chat.history(f"m{at}")
            ][-9:]


async def test_a_path_counted_before_is_counted_anew_when_what_changed_since_was_pruned(
    sessions: AsyncSessions, chat: AsyncSession
) -> None:
    await chat.append_many([note("m0"), note("m1"), note("m2")])
    await chat.append(note("b"), parent="m0")  # another leaf is active: the path to m2 has to be counted
    assert (await chat.recent(leaf="m2")).total_messages == 3
    await chat.update(note("m1", "many words " * 50))
    await sessions.prune_changes(max_count=0)
    found = await chat.recent(leaf="m2")
    stats = [row async for row in chat.path_stats("m2")]
    assert found.total_messages == len(stats) == 3
    assert found.total_bytes == sum(row.bytes for row in stats)
