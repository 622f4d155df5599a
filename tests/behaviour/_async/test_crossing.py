"""A path as another framework's messages, as a session answers it."""

from __future__ import annotations

import pytest

import plait
from plait import AsyncSessions, UsageError

ITEMS = [
    {"role": "user", "content": "Weather in Lyon?"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Lyon"}'},
]


async def test_a_path_comes_in_another_format_with_its_overlays_laid_on(sessions: AsyncSessions) -> None:
    chat = sessions.session("chat")
    first, last = await chat.append(plait.user("one")), await chat.append(plait.assistant("two"))
    await chat.append(plait.user("three"))
    await chat.add_overlay(first.id, last.id, summary="They counted.")
    items = [item async for item in chat.history(as_="openai")]
    assert [item["content"] for item in items] == ["They counted.", "three"]
    assert [item["content"] async for item in chat.history(last.id, as_="openai")] == ["They counted."]


async def test_messages_of_the_format_come_out_as_given(sessions: AsyncSessions) -> None:
    chat = sessions.session("chat")
    await chat.append_many(ITEMS)
    assert [item async for item in chat.history(as_="openai")] == ITEMS


async def test_for_a_model_it_is_a_legal_conversation_in_that_format(sessions: AsyncSessions) -> None:
    chat = sessions.session("chat")
    await chat.append_many(ITEMS)
    open_call = [message async for message in chat.history(as_="pydantic-ai")]
    legal = [message async for message in chat.history(as_="pydantic-ai", for_model=True)]
    assert [len(open_call), len(legal)] == [2, 3]
    returned = legal[-1]["parts"][0]
    assert (returned["part_kind"], returned["tool_name"], returned["content"]) == (
        "tool-return",
        "weather",
        plait.NO_RESULT,
    )


async def test_entries_of_claude_code_are_of_the_session(sessions: AsyncSessions) -> None:
    id = "01a22bfb-1aa6-7ba6-8743-574c91579555"
    chat = sessions.session(id)
    await chat.append(plait.user("Hi"))
    assert [entry["sessionId"] async for entry in chat.history(as_="claude")] == [id]


async def test_the_order_is_that_of_the_path(sessions: AsyncSessions) -> None:
    chat = sessions.session("chat")
    with pytest.raises(UsageError, match="leave newest_first out"):
        [item async for item in chat.history(newest_first=True, as_="ui")]  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="as_ must be"):
        [item async for item in chat.history(as_="html")]  # type: ignore[call-overload]


async def test_an_absent_session_gives_nothing(sessions: AsyncSessions) -> None:
    assert [item async for item in sessions.session("absent").history(as_="ui")] == []
