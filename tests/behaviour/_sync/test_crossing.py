"""Generated from tests/behaviour/_async/test_crossing.py by tools/unasync.py: edit that file. A path as another framework's messages, as a session answers it."""

from __future__ import annotations

import pytest

import plait
from plait import Sessions, UsageError

ITEMS = [
    {"role": "user", "content": "Weather in Lyon?"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Lyon"}'},
]


def test_a_path_comes_in_another_format_with_its_overlays_laid_on(sessions: Sessions) -> None:
    chat = sessions.session("chat")
    first, last = chat.append(plait.user("one")), chat.append(plait.assistant("two"))
    chat.append(plait.user("three"))
    chat.add_overlay(first.id, last.id, summary="They counted.")
    items = [item for item in chat.history(as_="openai")]
    assert [item["content"] for item in items] == ["They counted.", "three"]
    assert [item["content"] for item in chat.history(last.id, as_="openai")] == ["They counted."]


def test_messages_of_the_format_come_out_as_given(sessions: Sessions) -> None:
    chat = sessions.session("chat")
    chat.append_many(ITEMS)
    assert [item for item in chat.history(as_="openai")] == ITEMS


def test_for_a_model_it_is_a_legal_conversation_in_that_format(sessions: Sessions) -> None:
    chat = sessions.session("chat")
    chat.append_many(ITEMS)
    open_call = [message for message in chat.history(as_="pydantic-ai")]
    legal = [message for message in chat.history(as_="pydantic-ai", for_model=True)]
    assert [len(open_call), len(legal)] == [2, 3]
    returned = legal[-1]["parts"][0]
    assert (returned["part_kind"], returned["tool_name"], returned["content"]) == (
        "tool-return",
        "weather",
        plait.NO_RESULT,
    )


def test_entries_of_claude_code_are_of_the_session(sessions: Sessions) -> None:
    id = "01a22bfb-1aa6-7ba6-8743-574c91579555"
    chat = sessions.session(id)
    chat.append(plait.user("Hi"))
    assert [entry["sessionId"] for entry in chat.history(as_="claude")] == [id]


def test_the_order_is_that_of_the_path(sessions: Sessions) -> None:
    chat = sessions.session("chat")
    with pytest.raises(UsageError, match="leave newest_first out"):
        [item for item in chat.history(newest_first=True, as_="ui")]  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="as_ must be"):
        [item for item in chat.history(as_="html")]  # type: ignore[call-overload]


def test_an_absent_session_gives_nothing(sessions: Sessions) -> None:
    assert [item for item in sessions.session("absent").history(as_="ui")] == []
