"""Old messages are shortened on copies; containers keep their kind and limits hold exactly."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait import UsageError, enforce_row_size, jsontext, truncate_older_messages
from plait.logic.trimming import MAX_DEPTH, truncated
from plait.model import Json, Message
from tests.unit.conversations import call, chat_result, item_result, said, stored, text, user


def done(output: Any, **fields: Any) -> Json:
    return said(
        {"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": {}, "output": output, **fields}
    )


def older(*contents: Json, **options: Any) -> list[Json]:
    given = [*contents, *[user()] * 4]
    before = copy.deepcopy(given)
    shown = truncate_older_messages(given, **options)
    assert given == before
    return [dict(message) for message in shown[: len(contents)]]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=8), inner, max_size=20),
    max_leaves=60,
)


@given(values, st.integers(120, 900))
def test_what_is_cut_fits_and_keeps_its_kind(value: Any, limit: int) -> None:
    before = copy.deepcopy(value)
    short = truncated(value, limit)
    assert value == before
    assert type(short) is type(value)
    size = len(short) if isinstance(short, str) else len(jsontext.encode(short))
    assert size <= limit or short == value
    fits = (len(value) if isinstance(value, str) else len(jsontext.encode(value))) <= limit
    assert (short is value) == fits or isinstance(value, str | int | None)


def test_a_text_says_how_long_it_was() -> None:
    (short,) = older(text("x" * 10_001))
    assert short["parts"][0]["text"] == "x" * 10_000 + "... [truncated 10001 chars]"
    (same,) = older(text("x" * 10_000))
    assert same == text("x" * 10_000)


def test_a_string_output_stays_a_string_of_exactly_the_limit() -> None:
    (short,) = older(done("y" * 501))
    output = short["parts"][0]["output"]
    assert len(output) == 500 and output.endswith("y... [truncated 501 chars]")
    assert truncated("z" * 100, 10) == "... [trunc"


def test_an_object_output_stays_an_object() -> None:
    (short,) = older(done({"stdout": "x" * 3000, "code": 0, "ok": True}))
    output = short["parts"][0]["output"]
    assert output["code"] == 0 and output["ok"] is True
    assert output["stdout"].endswith("... [truncated 3000 chars]")
    assert len(jsontext.encode(output)) <= 500


def test_an_object_too_large_for_its_keys_becomes_a_marker_object() -> None:
    value = {f"key{n}": n for n in range(300)}
    size = len(jsontext.encode(value))
    assert truncated(value, 500) == {"__truncated": True, "__truncatedChars": size, "note": "output too large to show"}
    assert truncated(value, 20) == {"__truncated": True, "__truncatedChars": size}


def test_an_object_whose_texts_are_shrunk_says_what_it_was() -> None:
    short = truncated({"a": "x" * 500, "n": [1] * 200}, 300)
    assert short["__truncated"] is True and short["__truncatedChars"] > 300
    assert len(short["a"]) == 75 and short["n"][0] == 1
    assert len(jsontext.encode(short)) <= 300


def test_a_list_says_how_many_are_gone_and_keeps_the_first() -> None:
    short = truncated(["x" * 30] * 100, 500)
    assert short[0] == "x" * 30 and short[-1] == f"... [{100 - len(short) + 1} more items truncated]"
    assert len(jsontext.encode(short)) <= 500


def test_nested_lists_with_a_small_budget_become_one_marker() -> None:
    value = [[["x" * 400] * 3] * 3]
    assert truncated(value, 60) == [[{"__truncated": True, "__truncatedChars": len(jsontext.encode(value[0]))}]]


def test_deep_values_are_left_out_below_eight_levels() -> None:
    value: Any = "x" * 1000
    for _ in range(MAX_DEPTH + 4):
        value = {"in": value}
    assert "[nested output omitted]" in jsontext.encode(truncated(value, 200))


def test_recent_messages_and_short_lists_are_the_same_objects() -> None:
    few = [done("x" * 9000)] * 4
    assert truncate_older_messages(few) is few
    many = [user(), *few]
    shown = truncate_older_messages(many)
    assert shown is not many and all(map(lambda one, two: one is two, shown, many))


def test_reasoning_inputs_media_and_what_a_provider_ran_stay() -> None:
    parts: list[Json] = [
        {"type": "reasoning", "text": "r" * 20_000},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64," + "A" * 20_000},
        {"type": "tool-f", "toolCallId": "c", "input": "i" * 20_000, "output": "o", "state": "output-available"},
        {"type": "tool-f", "toolCallId": "d", "input": 1, "output": "o" * 9000, "providerExecuted": True},
    ]
    assert older(said(*parts)) == [said(*parts)]
    assert older(done("x" * 9000), tool_outputs=False) == [done("x" * 9000)]


def test_foreign_messages_are_shortened_in_their_own_format() -> None:
    chat = older({**chat_result("c"), "content": "x" * 900}, {"role": "user", "content": "y" * 20_000})
    assert len(chat[0]["content"]) == 500 and chat[0]["tool_call_id"] == "c"
    assert chat[1]["content"].endswith("... [truncated 20000 chars]")
    blocks = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x" * 900}]}
    assert len(older(blocks)[0]["content"][0]["content"]) == 500
    (item,) = older({**item_result("c"), "output": "x" * 900})
    assert item["type"] == "function_call_output" and len(item["output"]) == 500


def test_messages_read_from_a_session_are_shortened_on_copies() -> None:
    messages: list[Message] = stored(call("c"), done("x" * 9000), *[user()] * 4)
    shown = truncate_older_messages(messages)
    assert shown[0] is messages[0]
    short = shown[1]
    assert (short.id, short.seq, short.parent_id) == ("m2", 2, "m1")
    assert short.tokens < messages[1].tokens and short.bytes == len(short.to_json())
    assert messages[1].parts[0]["output"] == "x" * 9000


@pytest.mark.parametrize("name", ["keep_recent", "max_tool_output_chars", "max_text_chars"])
def test_negative_limits_are_refused(name: str) -> None:
    options: dict[str, Any] = {name: -1}
    with pytest.raises(UsageError, match=name):
        truncate_older_messages([], **options)


def test_a_message_that_fits_a_row_is_the_same_object() -> None:
    message = done("x" * 1_000_000)
    assert enforce_row_size(message) is message
    (kept,) = stored(message)
    assert enforce_row_size(kept) is kept


def test_an_assistants_tool_outputs_are_cut_first_and_listed() -> None:
    message = {**done({"data": "x" * 2_000_000}), "metadata": {"kept": 1}}
    message["parts"] = [*message["parts"], {"type": "text", "text": "w" * 5000}]
    short = enforce_row_size(message)
    assert len(jsontext.encode(short["parts"][0]["output"])) <= 1000
    assert isinstance(short["parts"][0]["output"], dict)
    assert short["metadata"] == {"kept": 1, "compactedToolOutputs": ["c"]}
    assert short["parts"][1] == message["parts"][1]


def test_an_object_too_large_to_keep_its_keys_is_a_compact_marker() -> None:
    short = enforce_row_size(done({f"k{n}": "x" * 10 for n in range(100_000)}))
    assert short["parts"][0]["output"]["__truncated"] is True


def test_texts_are_cut_oldest_first_until_it_fits_in_bytes() -> None:
    message = said(*[{"type": "text", "text": "é" * 400_000}] * 3, role="user")
    short = enforce_row_size(message)
    assert short["metadata"] == {"compactedTextParts": [0]}
    assert "400000" in short["parts"][0]["text"] and short["parts"][0]["text"].endswith("é" * 500)
    assert len(short["parts"][0]["text"]) < 700
    assert short["parts"][1:] == message["parts"][1:]
    assert len(jsontext.encode(short).encode()) <= 1_800_000


def test_a_foreign_message_too_large_for_a_row_becomes_native() -> None:
    (message,) = stored({"role": "user", "content": "x" * 2_000_000})
    short = enforce_row_size(message)
    assert short.format == "plait" and short.id == message.id
    assert message.text == "x" * 2_000_000


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ({"role": "tool", "tool_call_id": "a", "content": "z" * 5000}, "output"),
        ({"type": "function_call_output", "call_id": "a", "output": "z" * 5000}, "output"),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "z" * 5000}]}, "output"),
        (
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "z" * 5000}],
            },
            "errorText",
        ),
    ],
)
def test_outputs_are_cut_in_messages_of_every_role_and_format(message: Json, key: str) -> None:
    short = enforce_row_size(message, max_bytes=2000)
    assert len(short["parts"][0][key]) == 1000
    assert short["metadata"] == {"compactedToolOutputs": ["a"]}
    assert len(jsontext.encode(short)) <= 2000


def test_what_is_damaged_stays_as_it_is() -> None:
    damaged = plait.Damaged("m", 1, "user", None, "cut")
    assert truncate_older_messages([damaged, damaged], keep_recent=0) == [damaged, damaged]
    assert enforce_row_size(damaged) is damaged
