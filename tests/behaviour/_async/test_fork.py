"""Forking: a copy of a path that is a session of its own, with nothing lost and nothing shared."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from plait import AsyncSession, AsyncSessions, ConflictError, NotFoundError, StaleValueError, UsageError
from tests.behaviour._async.helpers import chain, dicts_of, facts, ids_of, readable
from tests.behaviour.values import note, picture
from tests.dose import dose


async def rich(chat: AsyncSession) -> None:
    """A session with everything: branches, media, slices, tool pairs, foreign messages, deletes, equal times."""
    same_time = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.timezone.utc)
    await chat.import_message(note("i0"), parent=None, created_at=same_time)
    await chat.import_message(note("i1"), parent="i0", created_at=same_time)
    await chat.append(picture("p", b"payload"))
    await chat.append(
        {"id": "call", "role": "assistant", "parts": [{"type": "tool-x", "toolCallId": "c", "input": {}}]}
    )
    await chat.append({"role": "tool", "tool_call_id": "c", "content": "result"}, id="result")
    await chat.append(note("gone"))
    await chat.append(note("big", "é" * 1_600_000))
    await chat.append(note("side"), parent="p")
    await chat.append(note("end"), parent="big")
    await chat.delete("gone")


async def test_a_fork_is_the_same_path_with_ids_seqs_times_and_content(
    sessions: AsyncSessions, chat: AsyncSession
) -> None:
    """B-054, B-056, B-057"""
    await rich(chat)
    fork = await chat.fork("fork", name="a copy")
    assert [message async for message in fork.history()] == [message async for message in chat.history()]
    assert await dicts_of(fork.history()) == await dicts_of(chat.history())
    assert [stat async for stat in fork.path_stats()] == [stat async for stat in chat.path_stats()]
    info = await fork.info()
    assert info is not None and (info.id, info.name, info.parent_id) == ("fork", "a copy", "chat")
    path = await chat.totals()
    assert (info.totals.messages, info.totals.bytes, info.totals.tokens) == (
        path.path_messages,
        path.path_bytes,
        path.path_tokens,
    )
    assert info.totals.path_messages == info.totals.messages
    assert await fork.get("side") is None


async def test_a_fork_is_listed_first_and_knows_where_it_is_from(sessions: AsyncSessions) -> None:
    source, other = sessions.session("source"), sessions.session("other")
    await chain(source, 2)
    await chain(other, 1)
    fork = await source.fork("fork")
    listed = (await sessions.list()).sessions
    assert listed[0].id == "fork" and listed[0].parent_id == "source"
    assert await ids_of(fork.history()) == ["m0", "m1"]


async def test_fork_and_original_are_independent(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-056: whatever happens to one leaves the other, until both are gone."""
    await rich(chat)
    fork = await chat.fork("fork")
    original = await dicts_of(chat.history())
    await chat.update(note("i0", "changed in the original"))
    await chat.delete(["p", "call"])
    assert await dicts_of(fork.history()) == original
    await fork.update(note("i1", "changed in the fork"))
    await fork.append(note("only in the fork"))
    assert await chat.get("only in the fork") is None
    assert readable(await chat.get("i1")).text == "words"
    await sessions.delete("chat")
    assert (await ids_of(fork.history()))[-1] == "only in the fork"
    assert readable(await fork.get("p")).to_dict() == picture("p", b"payload")


async def test_a_fork_of_a_fork_counts_everything_once(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-057"""
    await chain(chat, 5)
    second = await (await chat.fork("first")).fork("second")
    assert (await second.totals()).messages == 5
    assert len(await ids_of(second.everything())) == 5
    info = await second.info()
    assert info is not None and info.parent_id == "first"


@pytest.mark.parametrize("at", ["m0", "m3", "m9", "b1"])
async def test_a_fork_at_a_message_holds_the_path_to_it(chat: AsyncSession, at: str) -> None:
    await chain(chat, 10)
    await chat.append_many([note("b0"), note("b1")], parent="m4")
    fork = await chat.fork(at=at)
    assert await ids_of(fork.history()) == await ids_of(chat.history(at))
    next = await fork.append(note("next"))
    assert next.parent_id == at
    assert next.seq > readable(await fork.get(at)).seq


async def test_a_fork_of_many_equal_times_keeps_the_order(chat: AsyncSession) -> None:
    """B-054: 200 messages of one time."""
    same_time = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    parent: str | None = None
    for n in range(200):
        parent = (await chat.import_message(note(f"m{n}"), parent=parent, created_at=same_time)).id
    fork = await chat.fork()
    assert await ids_of(fork.history()) == [f"m{n}" for n in range(200)]
    assert {message.created_at async for message in fork.history()} == {same_time}  # type: ignore[union-attr]


async def test_a_fork_larger_than_one_transaction_is_whole(chat: AsyncSession) -> None:
    """B-089"""
    count = dose(short=2500, soak=100_000)
    await chain(chat, count)
    await chat.append_many([note(f"big{n}", "x" * 1_500_000) for n in range(6)])
    fork = await chat.fork("fork")
    assert await ids_of(fork.history()) == await ids_of(chat.history())
    assert (await fork.totals()).messages == count + 6


async def test_a_fork_of_nothing_is_an_empty_session(sessions: AsyncSessions, chat: AsyncSession) -> None:
    fork = await chat.fork("fork")
    assert await ids_of(fork.history()) == []
    info = await sessions.get("fork")
    assert info is not None and info.parent_id is None
    assert await sessions.get("chat") is None
    await sessions.create("empty")
    await sessions.session("empty").fork("of an empty one")
    info = await sessions.get("of an empty one")
    assert info is not None and info.parent_id == "empty"


async def test_a_fork_that_cannot_be_changes_nothing(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chain(chat, 3)
    await sessions.create("taken")
    before = await facts(chat)
    with pytest.raises(ConflictError, match="exists already"):
        await chat.fork("taken")
    with pytest.raises(ConflictError, match="exists already"):
        await chat.fork("chat")
    with pytest.raises(NotFoundError):
        await chat.fork("fork", at="absent")
    with pytest.raises(UsageError):
        await chat.fork("")
    assert await facts(chat) == before
    assert {info.id async for info in sessions.all()} == {"chat", "taken"}


@pytest.mark.parametrize("change", ["update", "delete", "clear", "append"])
async def test_a_fork_whose_source_changes_while_it_is_copied_fails_typed_or_is_right(
    sessions: AsyncSessions,
    chat: AsyncSession,
    reopened: Callable[[], AsyncSessions],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    await chain(chat, 30)
    original = sessions.store._copy  # type: ignore[attr-defined]

    async def late(*args: Any, **options: Any) -> Any:
        copied = await original(*args, **options)
        async with reopened() as others:
            other = others.session("chat")
            if change == "update":
                await other.update(note("m3", "changed"))
            elif change == "delete":
                await other.delete("m3")
            elif change == "clear":
                await other.clear()
            else:
                await other.append(note("later"))
        return copied

    monkeypatch.setattr(sessions.store, "_copy", late)
    if change == "append":
        fork = await chat.fork("fork")
        assert await ids_of(fork.history()) == [f"m{n}" for n in range(30)]
    else:
        with pytest.raises(ConflictError) as caught:
            await chat.fork("fork")
        assert isinstance(caught.value, StaleValueError) or change == "clear"
        assert await sessions.get("fork") is None
        assert await sessions.doctor(fix=True) == []
