"""Which format a message is of, and what each reader finds in it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from plait import formats, jsontext
from plait.errors import InvalidMessageError, UsageError
from plait.formats import native
from plait.model import Format, Json

NATIVE, OPENAI, CHAT = (formats.named(name) for name in ("plait", "openai", "openai-chat"))

KNOWN = ["plait", "pi", "claude-code", "chatgpt", "adk", "pydantic-ai", "langchain", "openai", "openai-chat"]
OWN = [format for format in formats.FORMATS if format.name in ("plait", "openai", "openai-chat")]
"""Those whose message says all of itself; the others are lines of transcripts, held by their own tests."""

NATIVE_MESSAGES: list[Json] = [
    {"role": "user", "parts": []},
    {"id": "m", "role": "tool", "parts": [{"type": "brand-new", "v": 1}], "content": "old"},
]
OPENAI_ITEMS: list[Json] = [
    {"type": "message", "role": "user", "content": "Hi"},
    {"type": "message", "role": "assistant", "content": []},
    {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "1"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "screenshot"}},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "arguments": "{}"},
    {"type": "some_future_call", "id": "x_1"},
]
CHAT_MESSAGES: list[Json] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "assistant", "tool_calls": []},
    {"role": "tool", "tool_call_id": "c", "content": "1"},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "user", "content": []},
    {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}], "usage": {"input_tokens": 1}},
]
NO_MESSAGES: list[Json] = [
    {},
    {"role": "user"},
    {"content": "Hi"},
    {"role": 7, "content": "Hi"},
    {"role": "user", "content": {"text": "Hi"}},
    {"role": "user", "parts": "Hi"},
    {"role": "model", "parts": [{"text": "Hi"}]},
    {"role": "user", "parts": [{"type": "text", "text": "a"}, {"type": 3}]},
    {"role": "user", "parts": ["Hi"]},
    {"type": "robot", "data": {"content": "Hi"}},
    {"kind": "request", "parts": [{"no_part_kind": "user-prompt"}]},
]


@pytest.mark.parametrize(
    ("message", "format"),
    [
        *((message, NATIVE) for message in NATIVE_MESSAGES),
        *((message, OPENAI) for message in OPENAI_ITEMS),
        *((message, CHAT) for message in CHAT_MESSAGES),
    ],
)
def test_a_message_is_recognized_as_what_it_is(message: Json, format: Format) -> None:
    assert formats.recognize(message) is format


@pytest.mark.parametrize("message", NO_MESSAGES)
def test_what_fits_no_format_is_refused_by_name(message: Json) -> None:
    with pytest.raises(InvalidMessageError, match=", ".join(KNOWN)):
        formats.recognize(message)


@pytest.mark.parametrize(
    ("message", "path", "words"),
    [
        ({"role": "user", "parts": [{"type": "text"}, {"text": "x"}]}, "parts[1].type", "no `type`"),
        ({"role": "user", "parts": [{"type": "text"}, "x"]}, "parts[1]", "not an object"),
        ({"role": "user", "parts": "x"}, "parts", "not a list"),
        ({"parts": []}, "role", "no `role`"),
        ({"content": "x"}, "role", "no `role`"),
        ({"kind": "request"}, "", "'kind'"),
        ({}, "", "nothing"),
    ],
)
def test_the_refusal_says_what_is_wrong_and_where(message: Json, path: str, words: str) -> None:
    with pytest.raises(InvalidMessageError, match=words) as caught:
        formats.recognize(message)
    assert caught.value.path == path


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=rf"'haystack' \(known: {', '.join(KNOWN)}\)"):
        formats.named("haystack")


def test_the_built_in_formats_are_listed_in_order() -> None:
    assert [format.name for format in formats.FORMATS] == KNOWN
    assert formats.FORMATS[0] is formats.NATIVE is native.FORMAT


class Shouting(native.Native):
    """A format of a user's own: `{"shout": "HI"}`."""

    name = "shouting"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        return "shout" in message

    def role(self, message: Mapping[str, Any]) -> str:
        return "user"

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        return [native.text_part(str(message["shout"]))]


class Impostor(Shouting):
    """Another format under the same name."""


@pytest.fixture
def shouting() -> Iterator[Format]:
    format = Shouting()
    cancel = formats.register(format)
    yield format
    cancel()


def test_a_registered_format_is_recognized_until_it_is_taken_out() -> None:
    format = Shouting()
    cancel = formats.register(format)
    assert formats.recognize({"shout": "HI", "role": "user", "content": "x"}) is format
    assert formats.named("shouting") is formats.stored("shouting") is format
    cancel()
    cancel()
    with pytest.raises(UsageError):
        formats.named("shouting")


def test_a_native_message_stays_native_whatever_is_registered(shouting: Format) -> None:
    assert formats.recognize({"role": "user", "parts": [], "shout": "HI"}) is NATIVE


def test_registering_the_same_kind_again_replaces_it(shouting: Format) -> None:
    again = Shouting()
    cancel = formats.register(again)
    assert formats.named("shouting") is again
    assert [format.name for format in formats.formats()].count("shouting") == 1
    cancel()


@pytest.mark.parametrize("name", ["shouting", "plait", "openai-chat"])
def test_a_taken_name_is_refused(shouting: Format, name: str) -> None:
    impostor = Impostor()
    impostor.name = name
    with pytest.raises(UsageError, match=name):
        formats.register(impostor)


def test_a_stored_message_of_an_unregistered_format_can_be_looked_at() -> None:
    format = formats.stored("from-elsewhere")
    message = {"role": "user", "content": "Hi"}
    assert format.name == "from-elsewhere"
    assert not format.recognizes(message)
    assert (format.id(message), format.role(message), format.parts(message)) == (None, "", [])
    assert (format.metadata(message), format.usage(message)) == ({}, None)


# --- ids, roles, metadata, usage


@pytest.mark.parametrize(
    ("format", "message", "id"),
    [
        (NATIVE, {"id": "m"}, "m"),
        (NATIVE, {"id": ""}, ""),  # the door refuses it, rather than making another
        (NATIVE, {"id": 7}, None),
        (NATIVE, {}, None),
        (CHAT, {"id": "msg_1"}, "msg_1"),
        (CHAT, {"id": " "}, None),
        (OPENAI, {"type": "reasoning", "id": "rs_1"}, "rs_1"),
        (OPENAI, {"type": "message", "id": "__fake_id__"}, None),
        (OPENAI, {"type": "item_reference", "id": "msg_1"}, None),
        (OPENAI, {"type": "function_call", "id": None, "call_id": "c"}, None),
    ],
)
def test_id_is_the_messages_own_or_none(format: Format, message: Json, id: str | None) -> None:
    assert format.id(message) == id


@pytest.mark.parametrize(
    ("format", "message", "role"),
    [
        (NATIVE, {"role": "system"}, "system"),
        (CHAT, {"role": "developer"}, "developer"),
        (OPENAI, {"role": "developer", "content": []}, "developer"),
        (OPENAI, {"type": "function_call"}, "assistant"),
        (OPENAI, {"type": "reasoning"}, "assistant"),
        (OPENAI, {"type": "function_call_output"}, "tool"),
        (OPENAI, {"type": "computer_call_output"}, "tool"),
        (NATIVE, {}, ""),
    ],
)
def test_role_says_who_speaks(format: Format, message: Json, role: str) -> None:
    assert format.role(message) == role


@pytest.mark.parametrize("format", [NATIVE, OPENAI, CHAT])
def test_metadata_is_the_messages_own(format: Format) -> None:
    assert format.metadata({"metadata": {"a": 1}}) == {"a": 1}
    assert format.metadata({"metadata": ["a"]}) == {}
    assert format.metadata({}) == {}


USAGE = {"input_tokens": 7}


@pytest.mark.parametrize("format", [NATIVE, OPENAI, CHAT])
@pytest.mark.parametrize(
    "message",
    [
        {"usage": USAGE},
        {"metadata": {"usage": USAGE}},
        {"metadata": {"totalUsage": USAGE}, "usage": {"other": 1}},
        {"usage_metadata": USAGE},
        {"response_metadata": {"token_usage": USAGE}},
        {"usage": None, "metadata": None, "usageMetadata": USAGE},
    ],
)
def test_usage_is_found_where_it_is_carried(format: Format, message: Json) -> None:
    assert format.usage(message) == USAGE


@pytest.mark.parametrize("message", [{}, {"usage": {}}, {"usage": 5}, {"metadata": [USAGE]}])
def test_usage_that_is_not_there_is_none(message: Json) -> None:
    assert NATIVE.usage(message) is None


# --- parts


def test_native_parts_are_the_messages_own_list() -> None:
    message: Json = {"role": "user", "parts": [{"type": "text", "text": "Hi"}]}
    assert NATIVE.parts(message) is message["parts"]


PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ("Hi", {"type": "text", "text": "Hi"}),
        ({"type": "text", "text": "Hi"}, {"type": "text", "text": "Hi"}),
        ({"type": "refusal", "refusal": "No."}, {"type": "text", "text": "No.", "refusal": True}),
        ({"type": "image_url", "image_url": {"url": PNG}}, {"type": "file", "mediaType": "image/png", "url": PNG}),
        (
            {"type": "image_url", "image_url": "https://x/a"},
            {"type": "file", "mediaType": "image/*", "url": "https://x/a"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            {"type": "file", "mediaType": "audio/mpeg", "data": "AAAA"},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
            {
                "type": "file",
                "mediaType": "application/pdf",
                "url": "data:application/pdf;base64,AAAA",
                "filename": "a.pdf",
            },
        ),
        (
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "mediaType": "application/octet-stream", "fileId": "file-1"},
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AAAA"}},
            {"type": "file", "mediaType": "image/gif", "data": "AAAA"},
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
            {"type": "file", "mediaType": "application/pdf", "url": "https://x/a.pdf"},
        ),
        ({"type": "document", "source": {"type": "text", "data": "Hi"}}, {"type": "text", "text": "Hi"}),
        (
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "reasoning", "text": "Hm.", "providerMetadata": {"anthropic": {"signature": "s"}}},
        ),
        (
            {"type": "redacted_thinking", "data": "d"},
            {"type": "reasoning", "text": "", "providerMetadata": {"anthropic": {"redactedData": "d"}}},
        ),
        (
            {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
            {
                "type": "dynamic-tool",
                "toolName": "f",
                "toolCallId": "c",
                "state": "input-available",
                "input": {"a": 1},
            },
        ),
        (
            {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "1"}]},
            {"type": "dynamic-tool", "toolCallId": "c", "state": "output-available", "output": "1"},
        ),
        (
            {"type": "tool_result", "tool_use_id": "c", "content": "boom", "is_error": True},
            {"type": "dynamic-tool", "toolCallId": "c", "state": "output-error", "errorText": "boom"},
        ),
        ({"type": "brand-new", "v": 1}, {"type": "brand-new", "v": 1}),
        ({"v": 1}, {"v": 1, "type": "unknown"}),
        (5, {"type": "unknown", "value": 5}),
    ],
)
def test_each_chat_block_has_its_native_part(block: Any, part: Json) -> None:
    assert CHAT.parts({"role": "user", "content": [block]}) == [part]


def test_a_chat_reply_reads_in_the_order_it_was_made() -> None:
    reply = {
        "role": "assistant",
        "reasoning_content": "Hm.",
        "content": "Calling.",
        "refusal": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"n": 9007199254740993}'}},
            {"id": "b", "type": "custom", "custom": {"name": "g", "input": "free text"}},
            {"id": "c", "type": "function", "function": {"name": "h", "arguments": '{"cut off'}},
        ],
    }
    reasoning, text, first, second, third = CHAT.parts(reply)
    assert (reasoning["text"], text["text"]) == ("Hm.", "Calling.")
    assert first["input"] == {"n": 9007199254740993}
    assert (second["toolName"], second["input"]) == ("g", "free text")
    assert (third["toolCallId"], third["input"]) == ("c", '{"cut off')


def test_a_chat_tool_message_is_the_result_of_a_call_elsewhere() -> None:
    message = {"role": "tool", "tool_call_id": "c", "content": "17.5"}
    result = {"type": "dynamic-tool", "toolCallId": "c", "state": "output-available", "output": "17.5"}
    assert CHAT.parts(message) == [result]
    listed = {**message, "content": [{"type": "text", "text": "17"}, {"type": "image_url", "image_url": PNG}]}
    assert [part["type"] for part in CHAT.parts(listed)[0]["output"]] == ["text", "file"]


def test_legacy_function_calls_pair_by_name() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result = {"role": "function", "name": "f", "content": "1"}
    assert CHAT.parts(call)[0]["toolCallId"] == CHAT.parts(result)[0]["toolCallId"] == "f"


def test_a_spoken_reply_has_its_words_and_its_sound() -> None:
    reply = {"role": "assistant", "content": None, "audio": {"id": "a", "data": "AAAA", "transcript": "Hello"}}
    assert [part["type"] for part in CHAT.parts(reply)] == ["text", "file"]


@pytest.mark.parametrize(
    ("item", "part"),
    [
        (
            {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
            {
                "type": "dynamic-tool",
                "toolName": "f",
                "toolCallId": "c",
                "state": "input-available",
                "input": {"a": 1},
            },
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": "1"},
            {"type": "dynamic-tool", "toolCallId": "c", "state": "output-available", "output": "1"},
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "3 found"}]},
            {"type": "dynamic-tool", "toolCallId": "c", "state": "output-available", "output": "3 found"},
        ),
        (
            {
                "type": "computer_call_output",
                "call_id": "c",
                "output": {"type": "computer_screenshot", "image_url": PNG},
            },
            {
                "type": "dynamic-tool",
                "toolCallId": "c",
                "state": "output-available",
                "output": [{"type": "file", "mediaType": "image/png", "url": PNG}],
            },
        ),
        (
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "a"}, {"text": "b"}]},
            {"type": "reasoning", "text": "a\n\nb", "providerMetadata": {"openai": {"itemId": "rs"}}},
        ),
        (
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            {
                "type": "reasoning",
                "text": "",
                "providerMetadata": {"openai": {"reasoningEncryptedContent": "x"}},
            },
        ),
        (
            {"type": "computer_call", "call_id": "c", "action": {"type": "click"}},
            {
                "type": "dynamic-tool",
                "toolName": "computer",
                "toolCallId": "c",
                "state": "input-available",
                "input": {"type": "click"},
            },
        ),
        (
            {"type": "image_generation_call", "id": "ig", "result": "AAAA"},
            {
                "type": "dynamic-tool",
                "toolName": "image_generation",
                "toolCallId": "ig",
                "state": "output-available",
                "input": None,
                "providerExecuted": True,
                "output": [{"type": "file", "mediaType": "image/png", "data": "AAAA"}],
            },
        ),
        ({"type": "item_reference", "id": "msg_1"}, {"type": "item_reference", "id": "msg_1"}),
    ],
)
def test_each_responses_item_has_its_native_part(item: Json, part: Json) -> None:
    assert OPENAI.parts(item) == [part]


def test_a_responses_message_has_one_part_for_each_block() -> None:
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": PNG, "detail": "low"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://x/a.pdf", "filename": "a.pdf"},
        {"type": "refusal", "refusal": "No."},
        {"type": "brand-new"},
    ]
    types = [(part["type"], part.get("mediaType")) for part in OPENAI.parts({"role": "user", "content": content})]
    assert types == [
        ("text", None),
        ("file", "image/png"),
        ("file", "image/*"),
        ("file", "application/octet-stream"),
        ("text", None),
        ("brand-new", None),
    ]


ODD: list[Any] = [None, True, 3, -1.5, "", "text", [], [None, [1], {"type": 3}, "x"], {}, {"type": []}, {"a": {"b": 1}}]
ODD_KEYS = [
    *("id", "role", "type", "parts", "content", "metadata", "usage", "response_metadata", "output", "summary"),
    *("tool_calls", "function_call", "refusal", "audio", "reasoning", "arguments", "action", "call_id", "result"),
]
ODD_BLOCKS = [
    *("text", "image_url", "input_audio", "file", "image", "document", "thinking", "redacted_thinking", "tool_use"),
    *("tool_result", "input_text", "input_image", "input_file", "computer_screenshot", "refusal", "reasoning"),
]


def look_at(format: Format, message: Json) -> None:
    """Use every method as a store would; nothing may raise, change the message or answer what is no part."""
    before = copy.deepcopy(message)
    format.recognizes(message)
    assert format.id(message) is None or isinstance(format.id(message), str)
    assert isinstance(format.role(message), str)
    assert isinstance(format.metadata(message), dict)
    assert format.usage(message) is None or isinstance(format.usage(message), dict)
    parts = format.parts(message)
    assert isinstance(parts, list)
    if format is not NATIVE:
        assert all(isinstance(part["type"], str) for part in parts)
    assert message == before


@pytest.mark.parametrize("format", OWN)
@pytest.mark.parametrize("key", ODD_KEYS)
def test_readers_raise_nothing_on_odd_fields(format: Format, key: str) -> None:
    for bases in (NATIVE_MESSAGES, OPENAI_ITEMS, CHAT_MESSAGES):
        for base in bases:
            for odd in ODD:
                look_at(format, {**base, key: odd})


@pytest.mark.parametrize("format", [CHAT, OPENAI])
@pytest.mark.parametrize("kind", ODD_BLOCKS)
def test_readers_raise_nothing_on_odd_blocks(format: Format, kind: str) -> None:
    keys = (kind, "text", "source", "image_url", "content", "input", "data", "file_data", "filename")
    for odd in ODD:
        look_at(format, {"role": "user", "content": [{"type": kind, key: odd} for key in keys]})


def test_arguments_nested_beyond_all_measure_stay_text() -> None:
    arguments = "[" * 200_000
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    assert OPENAI.parts(call)[0]["input"] == arguments


def test_derived_parts_are_json_as_long_as_the_message_is() -> None:
    for message in (*OPENAI_ITEMS, *CHAT_MESSAGES):
        parts = formats.recognize(message).parts(message)
        assert jsontext.decode(jsontext.encode(parts)) == parts
