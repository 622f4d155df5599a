"""A view is a legal conversation, whatever is stored and wherever it is cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import formats, jsontext
from plait.formats import native
from plait.logic.legal import NO_RESULT, RESULT_PREFIX, legal, legal_view
from plait.logic.turns import Unit, Units, UnitsBackward, units
from plait.model import Damaged, Json, Message
from tests.unit.conversations import (
    ITEM_THOUGHT,
    META,
    PENDING,
    THOUGHT,
    block,
    block_result,
    call,
    chat_call,
    chat_result,
    conversations,
    entry,
    faults,
    item_call,
    item_result,
    item_text,
    result,
    said,
    stored,
    text,
    user,
)


def view(*contents: Json) -> list[Message]:
    shown = list(legal_view(stored(*contents)))
    assert faults(shown) == []
    return shown


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


@given(conversations)
def test_any_view_is_legal(messages: list[Message]) -> None:
    before = [message.to_json() for message in messages]
    shown = list(legal_view(messages))
    assert faults(shown) == []
    assert [message.to_json() for message in messages] == before


@given(conversations, st.data())
def test_any_piece_of_a_conversation_is_legal(messages: list[Message], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(messages)))
    assert faults(legal_view(messages[start : data.draw(st.integers(start, len(messages)))])) == []


@given(conversations)
def test_the_view_of_a_view_is_the_same(messages: list[Message]) -> None:
    shown = list(legal_view(messages))
    assert [message.to_json() for message in legal_view(shown)] == [message.to_json() for message in shown]
    assert ids(list(legal_view(shown))) == ids(shown)


@given(conversations)
def test_every_message_is_in_one_unit_and_units_are_the_same_backward(messages: list[Message]) -> None:
    forward = list(units(messages))
    assert [message.id for unit in forward for message in unit.messages] == ids(messages)
    backward = UnitsBackward()
    found = [unit for message in reversed(messages) for unit in backward.feed(message)] + backward.end()
    assert [ids(unit.messages) for unit in reversed(found)] == [ids(unit.messages) for unit in forward]
    assert [ids(legal(unit)) for unit in reversed(found)] == [ids(legal(unit)) for unit in forward]


@given(conversations)
def test_what_is_left_out_has_its_reason(messages: list[Message]) -> None:
    shown = {message.id for message in legal_view(messages)}
    for message in messages:
        words = [part for part in message.parts if part.get("type") == "text" and part["text"].strip()]
        if message.role == "meta":
            assert message.id not in shown
        elif words and not any("tool" in str(part["type"]) for part in message.parts) and message.format != "openai":
            assert message.id in shown


@given(conversations)
def test_signed_reasoning_is_kept_byte_for_byte_or_not_at_all(messages: list[Message]) -> None:
    signed = [part for message in messages for part in message.parts if "providerMetadata" in part]
    for message in legal_view(messages):
        for part in message.parts:
            assert "providerMetadata" not in part or part in signed


def test_a_healthy_conversation_is_shown_as_the_same_objects() -> None:
    messages = stored(
        user(), call("a", "b"), result("a"), result("b"), text(), chat_call("a"), chat_result("a"), text()
    )
    shown = list(legal_view(messages))
    assert len(shown) == len(messages) and all(map(lambda one, two: one is two, shown, messages))


def test_a_crash_between_call_and_result_is_closed_by_an_error_that_says_so() -> None:
    """B-064: and the question after it can be answered."""
    shown = view(user(), call("a", "b"), result("a"), user("and now?"))
    assert ids(shown) == ["m1", "m2", "m3", "m4"]
    first, second = shown[1].parts
    assert "state" not in first
    assert (second["state"], second["errorText"], second["input"]) == ("output-error", NO_RESULT, {"n": 1})


def test_a_result_that_comes_after_the_model_has_gone_on_is_left_out() -> None:
    """B-064: a late result is no orphan in the view."""
    shown = view(user(), call("a"), user("and now?"), text(), result("a"))
    assert ids(shown) == ["m1", "m2", "m3", "m4"]
    assert shown[1].parts[0]["errorText"] == NO_RESULT


def test_a_result_that_comes_after_a_word_from_the_user_is_moved_to_its_call() -> None:
    assert ids(view(call("a"), user("wait"), result("a"), text())) == ["m1", "m3", "m2", "m4"]


def test_a_pending_approval_stays_pending() -> None:
    shown = view(user(), said(PENDING), user("well?"))
    assert shown[1].parts == [PENDING]
    answered = view(user(), said({**PENDING, "state": "approval-responded"}), result("a"))
    assert ids(answered) == ["m1", "m2", "m3"]


def test_ids_of_calls_repeat_from_turn_to_turn() -> None:
    shown = view(call("a"), text(), user(), call("a"), result("a"))
    assert shown[0].parts[0]["errorText"] == NO_RESULT
    assert "errorText" not in shown[3].parts[0]
    twice = view(call("a"), result("a"), result("a"), call("a"), result("a"))
    assert ids(twice) == ["m1", "m2", "m4", "m5"]


def test_results_may_stand_in_messages_of_the_assistant() -> None:
    assert ids(view(call("a", "b"), result("b", role="assistant"), result("a", role="assistant"), text())) == [
        "m1",
        "m2",
        "m3",
        "m4",
    ]


def test_results_of_several_messages_come_right_after_each() -> None:
    shown = view(call("a"), call("b"), result("a", "b"))
    assert ids(shown) == ["m1", f"{RESULT_PREFIX}m3:0", "m2", "m3"]
    assert [message.to_dict() for message in (shown[1], shown[3])] == [result("a"), result("b")]
    assert (shown[1].role, shown[1].seq, shown[1].parent_id) == ("tool", 3, "m2")
    with_id = view(call("a"), call("b"), {**result("a", "b"), "id": "m3"})
    assert with_id[1].content["id"] == f"{RESULT_PREFIX}m3:0"


def test_results_that_a_model_goes_on_from_stay_with_it_if_its_call_comes_just_before() -> None:
    so = said(*result("a")["parts"], {"type": "text", "text": "so"})
    assert ids(view(call("a"), so)) == ["m1", "m2"]
    shown = view(call("a"), text(), so)
    assert ids(shown) == ["m1", f"{RESULT_PREFIX}m3:0", "m2", "m3"]
    assert shown[3].to_dict() == text("so")


def test_words_beside_results_come_after_all_results() -> None:
    blocks = {"role": "user", "content": [block_result("b"), {"type": "text", "text": "y"}]}
    assert ids(view(call("a", "b"), blocks, result("a"))) == ["m1", "m3", "m2"]
    shown = view(call("a", "b"), blocks, said(*result("a")["parts"], {"type": "text", "text": "so"}))
    assert ids(shown) == ["m1", f"{RESULT_PREFIX}m3:0", "m2", "m3"]
    assert (shown[2].to_dict(), shown[3].to_dict()) == (blocks, text("so"))
    both = view(call("a", "b"), blocks, said(*result("a")["parts"], {"type": "text", "text": "z"}, role="user"))
    assert ids(both) == ["m1", f"{RESULT_PREFIX}m3:0", "m2", "m3"]


def test_words_before_a_result_in_its_message_come_after_it() -> None:
    words: Json = {"type": "text", "text": "by the way"}
    blocks = {"role": "user", "content": [words, block_result("b"), words]}
    made, first, rest = view({"role": "assistant", "content": [block("a"), block("b")]}, blocks)[1:]
    assert (made.parts[0]["errorText"], first.id, rest.id) == (NO_RESULT, f"{RESULT_PREFIX}m2:0", "m2")
    assert first.to_dict() == {"role": "user", "content": [block_result("b")]}
    assert rest.to_dict() == {"role": "user", "content": [words, words]}
    blank = {"role": "user", "content": [{"type": "text", "text": " "}, block_result("a")]}
    assert [message.to_dict() for message in view(chat_call("a"), blank)[1:]] == [first_of(blank)]


def first_of(message: Json) -> Json:
    return {**message, "content": message["content"][1:]}


def test_results_in_a_message_of_a_torn_piece_go_without_what_stands_beside_them() -> None:
    computer = {"type": "computer_call", "id": "cu", "call_id": "c", "action": {"type": "screenshot"}}
    shown = view(ITEM_THOUGHT, computer, item_call("a"), said(*result("a")["parts"], {"type": "text", "text": "so"}))
    assert [message.to_dict() for message in shown] == [text("so")]
    shown = view(ITEM_THOUGHT, computer, item_call("a"), call("b"), result("a", "b"))
    assert [message.to_dict() for message in shown] == [call("b"), result("b")]


def test_native_reasoning_belongs_to_the_next_message_only() -> None:
    messages = stored(call("a"), said(THOUGHT), item_text(), call("b"))
    assert [len(unit.messages) for unit in units(messages)] == [1, 2, 1]


def test_several_calls_in_messages_that_follow_one_another_have_their_results_beside_them() -> None:
    assert ids(view(chat_call("a"), chat_call("b"), chat_result("a"), chat_result("b"))) == ["m1", "m3", "m2", "m4"]
    assert ids(view(ITEM_THOUGHT, item_call("a"), item_call("b"), item_result("a"), item_result("b"))) == [
        f"m{n}" for n in range(1, 6)
    ]


@pytest.mark.parametrize("limit", range(1, 7))
def test_no_limit_cuts_between_a_call_and_its_results(limit: int) -> None:
    messages = stored(user(), call("a", "b", "c"), result("a"), result("b"), result("c"), text())
    shown = list(legal_view(messages[-limit:]))
    assert faults(shown) == []
    assert ids(shown) == (["m6"] if limit < 5 else ids(messages)[-limit:])


def test_reasoning_stays_with_its_item_or_goes() -> None:
    items = [ITEM_THOUGHT, item_call("a"), item_result("a"), ITEM_THOUGHT, item_text()]
    assert [len(unit.messages) for unit in units(stored(*items))] == [3, 2]
    assert ids(view(user(), *items[:1], user())) == ["m1", "m3"]
    assert ids(view(user(), *items[:1])) == ["m1"]
    assert ids(view(said(THOUGHT), text())) == ["m1", "m2"]
    computer = {"type": "computer_call", "id": "cu", "call_id": "a", "action": {"type": "screenshot"}}
    assert ids(view(user(), ITEM_THOUGHT, computer, user())) == ["m1", "m4"]


def test_a_call_that_the_provider_runs_itself_needs_no_result() -> None:
    searched = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "x"}}
    assert ids(view(ITEM_THOUGHT, searched, item_text())) == ["m1", "m2", "m3"]


def test_what_no_model_sees_is_left_out() -> None:
    assert ids(view(META, user(), said(), user("\n"), said({"type": "step-start"}), text())) == ["m2", "m6"]


def test_what_nobody_said_is_left_out_though_it_has_words() -> None:
    told = {"parentUuid": None, "sessionId": "s", "uuid": "u"}
    hook = {**told, "type": "system", "content": "a hook succeeded"}
    title = {**told, "type": "summary", "summary": "The title of the chat"}
    assert ids(view(user(), hook, call("a"), title, result("a"), text("noted", "meta"))) == ["m1", "m3", "m5"]


def test_what_is_damaged_is_left_out() -> None:
    messages: list[Message | Damaged] = [
        *stored(call("a")),
        Damaged("m2", 2, "tool", "m1", "cut"),
        *stored(user(), first=3),
    ]
    shown = list(legal_view(messages))
    assert ids(shown) == ["m1", "m3"] and faults(shown) == []


CLAUDE: Json = {"type": "assistant", "uuid": "u1", "parentUuid": None, "sessionId": "s", "timestamp": "t"}
MISSING = {
    "openai-chat": (chat_call("a"), {"role": "tool", "tool_call_id": "a", "content": NO_RESULT}),
    "legacy": (
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": NO_RESULT},
    ),
    "blocks": (
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": NO_RESULT, "is_error": True}],
        },
    ),
    "openai": (item_call("a"), {"type": "function_call_output", "call_id": "a", "output": NO_RESULT}),
    "custom": (
        {"type": "custom_tool_call", "call_id": "a", "name": "f", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": NO_RESULT},
    ),
    "pi": (
        entry("assistant", content=[{"type": "toolCall", "id": "a", "name": "f", "arguments": {}}]),
        entry(
            "toolResult",
            toolCallId="a",
            toolName="f",
            content=[{"type": "text", "text": NO_RESULT}],
            isError=True,
        ),
    ),
    "claude-code": (
        {
            **CLAUDE,
            "message": {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        },
        {
            "type": "user",
            "parentUuid": "u1",
            "sessionId": "s",
            "timestamp": "t",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": NO_RESULT, "is_error": True}],
            },
        },
    ),
    "tool-call": (
        said({"type": "tool-call", "toolCallId": "a", "toolName": "f", "input": {}}),
        {
            "id": f"{RESULT_PREFIX}m1:0",
            "role": "tool",
            "parts": [
                {
                    "type": "tool-result",
                    "toolCallId": "a",
                    "toolName": "f",
                    "output": {"type": "error-text", "value": NO_RESULT},
                }
            ],
        },
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_result_is_said_in_the_format_of_the_call(name: str) -> None:
    asked, answer = MISSING[name]
    shown = view(asked, user())
    assert [message.to_dict() for message in shown] == [asked, answer, user()]
    made = shown[1]
    assert (made.id, made.parent_id, made.seq, made.created_at) == (
        f"{RESULT_PREFIX}m1:0",
        "m1",
        1,
        shown[0].created_at,
    )
    assert formats.recognize(answer).name == made.format
    assert made.tokens > 0 and made.bytes == len(jsontext.encode(answer))


@pytest.mark.parametrize(
    ("mixed", "left"),
    [
        (said(*result("a")["parts"], {"type": "text", "text": "so"}), text("so")),
        (
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}, {"type": "text", "text": "y"}],
            },
            {"role": "user", "content": [{"type": "text", "text": "y"}]},
        ),
        (
            entry("assistant", content=[{"type": "text", "text": "t"}]),
            entry("assistant", content=[{"type": "text", "text": "t"}]),
        ),
    ],
)
def test_an_orphan_is_taken_out_of_its_message(mixed: Json, left: Json) -> None:
    assert [message.to_dict() for message in view(user(), mixed)] == [user(), left]


class Shouting:
    """A format of a user's own, which says nothing of repairs: `{"shout": [parts]}`."""

    name = "shouting-parts"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        return "shout" in message

    def id(self, message: Mapping[str, Any]) -> str | None:
        return None

    def role(self, message: Mapping[str, Any]) -> str:
        return str(message["role"])

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        return list(message["shout"])

    def metadata(self, message: Mapping[str, Any]) -> Json:
        return {}

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        return None


@pytest.fixture
def shouting() -> Iterator[None]:
    cancel = formats.register(Shouting())
    yield
    cancel()


@pytest.mark.usefixtures("shouting")
def test_a_format_that_says_nothing_of_repairs_is_repaired_in_native_messages() -> None:
    asked: Json = {"role": "assistant", "shout": call("a")["parts"]}
    mixed: Json = {"role": "user", "shout": [*result("z")["parts"], native.text_part("hi")]}
    shown = view(asked, mixed)
    assert [message.format for message in shown] == ["shouting-parts", "plait", "plait"]
    assert shown[1].parts[0]["errorText"] == NO_RESULT
    assert shown[2].to_dict() == {"role": "user", "parts": [native.text_part("hi")]}


def test_a_reader_holds_one_turn_at_most() -> None:
    reader, held, most = Units(), 0, 0
    for message in stored(*[user(), call("a"), result("a"), text(), said(THOUGHT), text()] * 50):
        held += 1 - sum(len(unit.messages) for unit in reader.feed(message))
        most = max(most, held)
    assert (most, held) == (1, 0)


def test_a_call_that_still_waits_makes_its_unit_open() -> None:
    found: list[Unit] = list(units(stored(call("a"), result("a"), call("a", "b"), result("b"))))
    assert [unit.open for unit in found] == [False, True]
    assert next(units(stored(said(PENDING)))).open
