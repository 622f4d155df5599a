"""What happens to a compaction when its places, its session, its leaf or its store change before it is done."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import plait
from plait import AsyncSession, AsyncSessions, ClosedError, Message
from tests.behaviour._async.helpers import ids_of

Act = Callable[[AsyncSessions, AsyncSession], Awaitable[object]]


async def fill(chat: AsyncSession, count: int, name: str = "m") -> None:
    await chat.append_many([plait.user(f"message {n} with some words in it", id=f"{name}{n}") for n in range(count)])


def compacting(chat: AsyncSession, summarize: Callable[[str], object] = lambda prompt: "S", head: int = 3) -> None:
    chat.on_compaction(plait.compact_function(summarize, keep_recent_tokens=0, protect_head=head))  # type: ignore[arg-type]


async def delete_first(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chat.delete("m3")


async def delete_last(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chat.delete("m11")


async def clear(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chat.clear()


async def delete_session(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await sessions.delete(chat.id)


async def cover(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chat.add_overlay("m5", "m12", summary="somebody else's")


@pytest.mark.parametrize("act", [delete_first, delete_last, clear, delete_session, cover])
async def test_what_is_summarized_may_change_and_nothing_comes_of_it(
    sessions: AsyncSessions, chat: AsyncSession, act: Act
) -> None:
    await fill(chat, 14)

    async def summarize(prompt: str) -> str:
        await act(sessions, chat)
        return "S"

    compacting(chat, summarize)
    done = await chat.compact()
    assert not done.done and done.reason.startswith("what was summarized changed meanwhile")
    assert [overlay for overlay in await sessions.session("chat").overlays() if overlay.summary == "S"] == []


@pytest.mark.parametrize("act", [delete_first, delete_last, clear, delete_session])
async def test_such_a_change_is_no_failure_of_automatic_compaction(
    sessions: AsyncSessions, chat: AsyncSession, act: Act
) -> None:
    errors: list[Exception] = []
    await fill(chat, 13)

    async def summarize(prompt: str) -> str:
        await act(sessions, chat)
        return "S"

    compacting(chat, summarize)
    chat.on_compaction_error(errors.append)
    chat.compact_after(10)
    await chat.append(plait.user("message 13", id="m13"))
    assert errors == []
    assert (chat.compaction_state().paused, chat.compaction_state().attempts) == (None, 0)


async def test_the_leaf_and_all_else_outside_the_range_may_go_away(chat: AsyncSession) -> None:
    await fill(chat, 14)

    async def summarize(prompt: str) -> str:
        await chat.delete(["m0", "m12", "m13"])
        await chat.append(plait.user("another", id="b"), parent="m2")
        return "S"

    compacting(chat, summarize)
    done = await chat.compact()
    assert (done.done, done.from_id, done.to_id) == (True, "m3", "m11")
    assert await ids_of(chat.history()) == ["m1", "m2", "b"]
    await chat.checkout("m11")
    assert [message.text for message in [m async for m in chat.history()] if isinstance(message, Message)][-1] == "S"


@pytest.mark.parametrize("end", ["from_id", "to_id", "both"])
async def test_a_summary_is_folded_in_though_its_ends_are_gone(chat: AsyncSession, end: str) -> None:
    await fill(chat, 20)
    compacting(chat, head=1)
    first = (await chat.compact()).overlay
    assert first is not None
    await chat.delete([first.from_id, first.to_id] if end == "both" else getattr(first, end))
    await fill(chat, 8, "n")
    copy = await chat.fork("copy")
    compacting(copy, head=1)
    for session in (chat, copy):
        planned = await session.compact(dry_run=True)
        done = await session.compact()
        assert done.overlay is not None
        assert (done.from_id, done.to_id) == (planned.from_id, planned.to_id) == (first.from_id, "n5")
        assert done.overlay.from_seq == first.from_seq
        assert len([m async for m in session.history() if isinstance(m, Message) and m.overlay]) == 1


async def test_a_summary_that_ends_the_range_and_lost_its_end_is_folded_in(chat: AsyncSession) -> None:
    await fill(chat, 20)
    mine = (await chat.add_overlay("m14", "m17", summary="mine")).overlay
    await chat.delete("m17")
    compacting(chat, head=1)
    done = await chat.compact()
    assert done.overlay is not None and done.overlay.to_seq == mine.to_seq


async def test_an_overlay_of_a_branch_in_the_way_is_told_before_anybody_is_asked(chat: AsyncSession) -> None:
    prompts: list[str] = []
    await fill(chat, 12)
    await chat.append(plait.user("a branch", id="b"), parent="m8")
    other = (await chat.add_overlay("m6", "b", summary="of the branch")).overlay
    await chat.checkout("m9")
    compacting(chat, lambda prompt: prompts.append(prompt) or "S", head=1)
    for done in (await chat.compact(dry_run=True), await chat.compact(), await chat.compact()):
        assert not done.done and other.id in done.reason and "meanwhile" not in done.reason
    assert prompts == []
    await chat.remove_overlay(other.id)
    assert (await chat.compact()).done


async def test_a_function_of_ones_own_is_told_so_too(chat: AsyncSession) -> None:
    await fill(chat, 12)
    await chat.append(plait.user("a branch", id="b"), parent="m8")
    other = (await chat.add_overlay("m6", "b", summary="of the branch")).overlay
    await chat.checkout("m11")
    chat.on_compaction(lambda messages: plait.Summary("S", "m2", "m7"))
    done = await chat.compact()
    assert not done.done and other.id in done.reason and "meanwhile" not in done.reason


async def test_closing_lets_others_compact_at_once(
    sessions: AsyncSessions, chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    await fill(chat, 14)

    async def summarize(prompt: str) -> str:
        await sessions.close()
        return "S"

    compacting(chat, summarize)
    with pytest.raises(ClosedError):
        await chat.compact()
    async with reopened() as others:
        other = others.session("chat")
        compacting(other)
        assert (await other.compact()).done


async def test_a_claim_left_by_a_killed_process_lapses_within_a_minute(chat: AsyncSession, file: Path) -> None:
    await fill(chat, 14)
    left: list[float] = []

    def summarize(prompt: str) -> str:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as looking:
            (until_us,) = looking.execute("SELECT until FROM compaction_claim").fetchone()
        left.append(until_us / 1e6 - time.time())
        return "S"

    compacting(chat, summarize)
    assert (await chat.compact()).done
    assert 0 < left[0] <= 60


async def test_another_process_that_compacts_does_not_make_automatic_compaction_wait(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    await fill(chat, 14)
    async with reopened() as others:
        other = others.session("chat")
        compacting(other)
        other.compact_after(10)

        async def summarize(prompt: str) -> str:
            await other.append(plait.user("more", id="more"))
            return "S"

        compacting(chat, summarize)
        assert (await chat.compact()).done
        assert (other.compaction_state().paused, other.compaction_state().attempts) == (None, 0)
