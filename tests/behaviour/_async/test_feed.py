"""The durable feed: each change once and in order, from where the reader stopped."""

from __future__ import annotations

import datetime as dt

import pytest

import plait
from plait import AsyncSession, AsyncSessions, Change
from tests.behaviour.values import note


async def read(feed: AsyncSession | AsyncSessions, after: str | None = None, limit: int = 256) -> list[Change]:
    """All changes there are after a cursor."""
    found: list[Change] = []
    while True:
        page = await feed.changes(after=after, limit=limit)
        found += page.changes
        after = page.cursor
        if not page.more:
            return found


async def test_each_change_comes_once_in_order_with_what_there_is_now(chat: AsyncSession) -> None:
    await chat.append_many([note("a"), note("b"), note("c")])
    await chat.update(note("a", "new"))
    await chat.delete(["b", "absent"])
    await chat.checkout("a")
    changes = await read(chat)
    assert [(change.version, change.kind, change.ids) for change in changes] == [
        (1, "append", ("a",)),
        (3, "append", ("c",)),
        (4, "update", ("a",)),
        (5, "delete", ("b",)),
        (6, "checkout", ("a",)),
    ]
    assert changes[0].message is not None and changes[0].message.text == "new"
    assert changes[1].parent_id == "a"
    for limit in (1, 2, 3):
        assert [change.version for change in await read(chat, limit=limit)] == [1, 3, 4, 5, 6]
    for change in changes:
        rest = await read(chat, change.cursor)
        assert [later.version for later in rest] == [v for v in (1, 3, 4, 5, 6) if v > (change.version or 0)]
    assert await read(chat, await chat.cursor()) == []


async def test_a_reader_follows_over_clear_delete_and_a_new_life(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chat.append(note("a"))
    mark = await chat.cursor()
    await chat.append(note("gone"))
    await chat.clear()
    await chat.append(note("b"))
    await sessions.delete("chat")
    await sessions.session("chat").append(note("c"))
    assert [change.kind for change in await read(chat, mark)] == ["clear", "delete session", "append"]


async def test_cursors_of_anything_else_are_refused(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-023"""
    await chat.append(note("a"))
    other = sessions.session("other")
    for wrong in ("", "nonsense", "é", await other.cursor(), await sessions.cursor()):
        with pytest.raises(plait.UsageError):
            await chat.changes(after=wrong)
    for wrong in ("", "nonsense", await chat.cursor(), await sessions.scoped("x").cursor()):
        with pytest.raises(plait.UsageError):
            await sessions.changes(after=wrong)


async def test_a_cursor_older_than_what_was_pruned_says_so(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chat.append(note("a"))
    old = await chat.cursor()
    for n in range(5):
        await chat.update(note("a", str(n)))
    late = await chat.cursor()
    assert await sessions.prune_changes(max_age=dt.timedelta(days=1)) == 0
    assert await sessions.prune_changes(max_count=2) == 3
    with pytest.raises(plait.CursorExpiredError):
        await chat.changes(after=old)
    assert await read(chat, late) == []
    assert [change.kind for change in await read(chat, limit=1)] == ["append", "update", "update"]
    with pytest.raises(plait.UsageError):
        await sessions.prune_changes()


async def test_a_scope_hears_of_its_own_sessions_only(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-103"""
    await sessions.scoped("other").session("chat").append(note("theirs"))
    await chat.append(note("a"))
    await sessions.session("second").append(note("b"))
    assert [(change.session_id, change.version) for change in await read(sessions)] == [("chat", 1), ("second", 1)]
    mark = await sessions.cursor()
    await sessions.delete("second")
    assert [(change.session_id, change.kind) for change in await read(sessions, mark)] == [("second", "delete session")]


async def test_watching_goes_on_with_what_comes(chat: AsyncSession) -> None:
    await chat.append(note("a"))
    seen: list[str] = []
    async for change in chat.watch():
        seen += change.ids
        if len(seen) == 1:
            await chat.append(note("b"))
        else:
            break
    assert seen == ["a", "b"]


async def test_watching_ends_when_the_store_is_closed(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chat.append(note("a"))
    async for _ in chat.watch():
        await sessions.close()
    with pytest.raises(plait.ClosedError):
        await chat.changes()
