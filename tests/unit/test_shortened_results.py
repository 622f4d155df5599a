"""A tool's old result is shortened as one, whatever API's it is: blocks stay blocks, no file is cut through."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait import enforce_row_size, formats, jsontext, truncate_older_messages
from plait.logic.trimming import truncated
from plait.model import Json
from tests.dose import dose
from tests.unit.conversations import stored

FLOOR = 150
"""What a result may take where its limit has no room for saying what is missing."""

IMAGE = base64.b64encode(b"\x89PNG" + bytes(range(256)) * 9).decode()
Blocks = list[Any]


def anthropic(content: Any, **fields: Any) -> Json:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": content, **fields}]}


def chat(content: Any) -> Json:
    return {"role": "tool", "tool_call_id": "c", "content": content}


def item(output: Any, kind: str = "function_call_output") -> Json:
    return {"type": kind, "call_id": "c", "output": output}


def native(output: Any, kind: str = "tool-shot", key: str = "output", **fields: Any) -> Json:
    part: Json = {"type": kind, "toolCallId": "c", "state": "output-available", "input": {}, key: output, **fields}
    return {"role": "assistant", "parts": [part]}


def langchain(content: Any) -> Json:
    return {"type": "tool", "data": {"type": "tool", "tool_call_id": "c", "name": "f", "content": content}}


def pydantic(content: Any, kind: str = "tool-return") -> Json:
    part = {"part_kind": kind, "tool_name": "f", "tool_call_id": "c", "content": content}
    return {"kind": "request", "parts": [part]}


def adk(response: Any, parts: Blocks | None = None) -> Json:
    answer = {"id": "c", "name": "f", "response": response, **({} if parts is None else {"parts": parts})}
    content = {"role": "user", "parts": [{"functionResponse": answer}]}
    return {"author": "agent", "invocationId": "i", "timestamp": 1.0, "id": "e", "content": content}


def pi(content: Any) -> Json:
    said = {"role": "toolResult", "toolCallId": "c", "toolName": "f", "content": content}
    return {"type": "message", "timestamp": "2026-01-01T00:00:00Z", "message": said}


def claude_code(content: Any) -> Json:
    return {"type": "user", "uuid": "u", "sessionId": "s", "message": anthropic(content)}


def field(message: Json) -> Any:
    """What the tool gave back in a message that one of these makes, or in the native copy of one."""
    if "functionResponse" in jsontext.encode(message):
        answer = message["content"]["parts"][0]["functionResponse"]
        return {"response": answer["response"], "parts": answer["parts"]} if "parts" in answer else answer["response"]
    if "data" in message:
        return message["data"]["content"]
    if "parts" in message:
        part = message["parts"][0]
        return next(part[key] for key in ("output", "result", "errorText", "content") if key in part)
    content = message["output"] if "output" in message else message["content"]
    blocks = message["role"] == "user" if "role" in message else False
    return content[0]["content"] if blocks else content


def shortened(message: Json, limit: int = 500) -> Json:
    before = copy.deepcopy(message)
    (kept,) = stored(message)
    text = kept.to_json()
    (short,) = truncate_older_messages([message], keep_recent=0, max_tool_output_chars=limit)
    (again,) = truncate_older_messages([kept], keep_recent=0, max_tool_output_chars=limit)
    assert message == before and kept.to_json() == text
    assert again.content == short
    return dict(short)


# Every format, with what it calls a text and files of every spelling it knows.
Spelling = tuple[Callable[[Any], Json], Callable[[str], Any], list[Callable[[str], Any]]]


def _text(words: str) -> Json:
    return {"type": "text", "text": words}


def _source(data: str) -> Json:
    return {"type": "base64", "media_type": "image/png", "data": data}


def _url(data: str) -> str:
    return f"data:image/png;base64,{data}"


ANTHROPIC_FILES: list[Callable[[str], Any]] = [
    lambda data: {"type": "image", "source": _source(data)},
    lambda data: {"type": "document", "source": {**_source(data), "media_type": "application/pdf"}, "title": "t"},
]
SPELLINGS: dict[str, Spelling] = {
    "anthropic": (anthropic, _text, ANTHROPIC_FILES),
    "chat": (
        chat,
        _text,
        [
            lambda data: {"type": "image_url", "image_url": {"url": _url(data)}},
            lambda data: {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
            lambda data: {"type": "file", "file": {"file_data": _url(data), "filename": "f.png"}},
        ],
    ),
    "responses": (
        item,
        lambda words: {"type": "input_text", "text": words},
        [
            lambda data: {"type": "input_image", "image_url": _url(data), "detail": "auto"},
            lambda data: {"type": "input_file", "file_data": data, "filename": "f.pdf"},
        ],
    ),
    "native parts": (
        native,
        _text,
        [
            lambda data: {"type": "file", "mediaType": "image/png", "url": _url(data)},
            lambda data: {"type": "file", "mediaType": "image/png", "data": data},
        ],
    ),
    "ai sdk": (
        lambda value: native({"type": "content", "value": value}),
        _text,
        [
            lambda data: {"type": "media", "mediaType": "image/png", "data": data},
            lambda data: {"type": "image-data", "mediaType": "image/png", "data": data},
            lambda data: {"type": "file-data", "mediaType": "image/png", "data": data, "filename": "f"},
        ],
    ),
    "mcp": (
        lambda value: native({"content": value, "isError": False}),
        _text,
        [
            lambda data: {"type": "image", "mimeType": "image/png", "data": data},
            lambda data: {"type": "resource", "resource": {"uri": "x:1", "mimeType": "image/png", "blob": data}},
        ],
    ),
    "langchain": (
        langchain,
        _text,
        [
            lambda data: {"type": "image", "base64": data, "mime_type": "image/png"},
            lambda data: {"type": "image", "source_type": "base64", "data": data, "mime_type": "image/png"},
            lambda data: {"type": "image_url", "image_url": {"url": _url(data)}},
        ],
    ),
    "pydantic-ai": (
        pydantic,
        lambda words: words,
        [lambda data: {"kind": "binary", "media_type": "image/png", "data": data, "identifier": "x"}],
    ),
    "adk": (
        lambda parts: adk({"result": "w" * 40}, parts),
        lambda words: {"fileData": {"fileUri": "gs://bucket/file", "mimeType": "text/plain"}},  # no words among them
        [lambda data: {"inlineData": {"mimeType": "image/png", "data": data}}],
    ),
    "pi": (pi, _text, [lambda data: {"type": "image", "data": data, "mimeType": "image/png"}]),
    "claude-code": (claude_code, _text, ANTHROPIC_FILES),
}


def size(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(jsontext.encode(value))


def payloads(value: Any) -> list[str]:
    """Everything that looks like a piece of a file."""
    return re.findall(r"(?:[A-Za-z0-9+/]{4}){12,}[A-Za-z0-9+/=]*", jsontext.encode(value))


def labelled(value: Any) -> list[str]:
    """What stands where an object that declares a media type has its bytes."""
    if isinstance(value, list):
        return [found for inner in value for found in labelled(inner)]
    if not isinstance(value, dict):
        return []
    own = [data for key in ("data", "base64", "blob", "file_data") if isinstance(data := value.get(key), str)]
    return own + [found for inner in value.values() for found in labelled(inner)]


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_result_of_files_only_keeps_no_bytes_but_says_what_they_were(name: str) -> None:
    make, _, files = SPELLINGS[name]
    for file in files:
        short = shortened(make([file(IMAGE)]))
        assert payloads(short) == [] and labelled(field(short)) == []
        assert re.search(r"\[(image/png|application/pdf|media), 2308 bytes\]", jsontext.encode(short))
        assert size(field(short)) <= 500


@pytest.mark.parametrize("name", [name for name in SPELLINGS if name not in ("adk",)])
def test_the_texts_of_a_result_share_one_budget(name: str) -> None:
    make, text, files = SPELLINGS[name]
    short = shortened(make([text("x" * 400) for _ in range(50)]))
    assert size(field(short)) <= 500
    assert "truncated" in jsontext.encode(short)
    mixed = shortened(make([text("first"), files[0](IMAGE), text("y" * 9000), text("last")]))
    assert size(field(mixed)) <= 500
    shown = jsontext.encode(field(mixed))
    assert "first" in shown and ", 2308 bytes]" in shown and "yyy" in shown
    assert "... [truncated 9000 chars]" in shown or "more items truncated" in shown


def test_a_text_that_fills_the_budget_exactly_leaves_room_to_say_what_follows() -> None:
    for words in range(380, 500):
        blocks = [{"type": "text", "text": "x" * words}, {"type": "text", "text": "gone"}]
        short = shortened(anthropic(blocks))["content"][0]["content"]
        assert size(short) <= 500
        assert short[-1] in (blocks[-1], {"type": "text", "text": "... [1 more items truncated]"})
        assert short[0] == blocks[0] or short[0]["text"].endswith(f"x... [truncated {words} chars]")


@pytest.mark.parametrize(
    "file",
    [
        {"type": "file", "mediaType": "text/plain", "data": base64.b64encode(b"words " * 900).decode()},
        {"type": "file", "mediaType": "text/plain", "url": f"data:text/plain;base64,{'d29yZHMg' * 900}"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words " * 900}},
        {"type": "resource", "resource": {"uri": "x:1", "mimeType": "text/plain", "blob": "d29yZHMg" * 900}},
    ],
)
def test_a_text_file_is_words_that_count(file: Json) -> None:
    short = shortened(anthropic([file, {"type": "text", "text": "after"}]))["content"][0]["content"]
    assert size(short) <= 500
    assert short[0]["type"] == "text" and short[0]["text"].startswith("words words ")
    assert short[0]["text"].endswith("... [truncated 5400 chars]")


def test_texts_text_files_and_markers_share_one_budget() -> None:
    file = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words " * 30}}
    image = {"type": "image", "source": _source(IMAGE)}
    short = shortened(anthropic([_text("said"), file, image, image, _text("x" * 900)]))["content"][0]["content"]
    marker = _text("[image/png, 2308 bytes]")
    assert short[:4] == [_text("said"), _text("words " * 30), marker, marker]
    assert size(short) == 500 and short[4]["text"].endswith("x... [truncated 900 chars]")


def test_a_result_within_its_limit_stays_with_its_files() -> None:
    small = base64.b64encode(b"icon").decode()
    for make, text, files in SPELLINGS.values():
        message = make([text("seen"), files[0](small)])
        assert truncate_older_messages([message], keep_recent=0)[0] is message


def test_each_result_of_a_message_has_its_own_budget() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": [_text("z" * 9000)]} for id in ("a", "b")]
    short = shortened({"role": "user", "content": blocks})
    assert [450 < size(block["content"]) <= 500 for block in short["content"]] == [True, True]


@pytest.mark.parametrize("wrapped", ["text", "json", "error-text", "error-json", "content"])
def test_a_wrapped_output_keeps_its_wrapping(wrapped: str) -> None:
    value = [_text("x" * 900)] if wrapped == "content" else "x" * 900 if "text" in wrapped else {"a": ["x" * 90] * 9}
    for limit in (0, 20, 100, 500):
        part = shortened(native({"type": wrapped, "value": value}, "tool-result"), limit)["parts"][0]
        assert part["output"]["type"] == wrapped and type(part["output"]["value"]) is type(value)
        assert size(part["output"]) <= max(limit, FLOOR)


@pytest.mark.parametrize("key", ["output", "result", "errorText"])
def test_a_native_result_is_shortened_under_every_name(key: str) -> None:
    assert size(field(shortened(native("x" * 900, key=key)))) == 500


def test_failures_are_shortened_too_and_keep_saying_so() -> None:
    short = shortened(anthropic([_text("x" * 900)], is_error=True))
    assert size(field(short)) <= 500 and short["content"][0]["is_error"] is True
    errors = [{"type": "missing", "loc": ["a"], "msg": "m" * 600, "input": None}]
    retried = shortened(pydantic(errors, "retry-prompt"))
    assert isinstance(field(retried), str) and len(field(retried)) == 500
    assert shortened(pydantic(errors[:0], "retry-prompt")) == pydantic([], "retry-prompt")


def test_what_a_shell_wrote_shares_one_budget_and_keeps_its_chunks() -> None:
    outcome = {"type": "exit", "exit_code": 0}
    chunks = [{"stdout": "o" * 300, "stderr": "e" * 300, "outcome": outcome} for _ in range(3)]
    short = shortened(item(chunks, "shell_call_output"))["output"]
    assert [chunk["outcome"] for chunk in short] == [outcome] * 3
    assert short[0]["stdout"].startswith("ooo")
    assert sum(len(chunk[key]) for chunk in short for key in ("stdout", "stderr")) <= 500


def test_a_screenshot_that_must_be_one_stays_whole() -> None:
    message = item({"type": "computer_screenshot", "image_url": _url(IMAGE)}, "computer_call_output")
    assert truncate_older_messages([message], keep_recent=0)[0] is message


def test_what_a_provider_ran_itself_stays_in_every_format() -> None:
    messages = [
        native("x" * 900, providerExecuted=True),
        {
            "role": "assistant",
            "content": [{"type": "web_search_tool_result", "tool_use_id": "c", "content": ["x" * 900]}],
        },
        {"type": "web_search_call", "id": "c", "status": "completed", "results": ["x" * 900]},
        pydantic("x" * 900, "builtin-tool-return"),
    ]
    assert truncate_older_messages(messages, keep_recent=0) == messages


def test_a_recent_result_stays_whatever_ids_repeat_in_older_ones() -> None:
    same = [native("x" * 900), native("p" * 900, providerExecuted=True), native("y" * 900), native("z" * 900)]
    shown = truncate_older_messages(same, keep_recent=1)
    assert [size(field(dict(message))) for message in shown] == [500, 900, 500, 900]
    assert shown[3] is same[3]


@pytest.mark.parametrize(
    "value",
    [
        {"type": "media", "data": IMAGE, "mediaType": "image/png"},
        {"shot": {"mimeType": "image/png", "data": IMAGE, "page": 3}, "ok": True},
        {"shots": [{"inlineData": {"mimeType": "image/png", "data": IMAGE}}] * 3},
        {"html": f"<img src='{_url(IMAGE)}'>", "status": 200},
        [[{"type": "image", "source": _source(IMAGE)}]],
        f"see {_url(IMAGE)} there",
        _url(IMAGE),
    ],
)
def test_a_file_anywhere_in_an_output_is_replaced_by_words(value: Any) -> None:
    short = truncated(value, 300)
    assert payloads(short) == [] and labelled(short) == []
    assert "[image/png, 2308 bytes]" in jsontext.encode(short)
    assert type(short) is type(value)


def test_what_stands_beside_a_file_stays() -> None:
    value = {"shot": {"mimeType": "image/png", "data": IMAGE, "page": 3}, "ok": True}
    assert truncated(value, 300) == {"shot": {"page": 3, "text": "[image/png, 2308 bytes]"}, "ok": True}


def test_an_address_of_a_file_is_whole_or_gone() -> None:
    url = "https://example.com/" + "a" * 600
    for block in (
        {"type": "image", "source": {"type": "url", "url": url}},
        {"type": "file", "mediaType": "image/png", "url": url},
        {"fileData": {"fileUri": url, "mimeType": "image/png"}},
    ):
        for value in ([block], block, {"in": [block], "more": "m" * 300}):
            assert "https" not in jsontext.encode(truncated(value, 400))
    short = {"type": "image", "source": {"type": "url", "url": url[:90]}}
    assert truncated([short, _text("x" * 900)], 400)[0] == short


def test_a_list_that_is_no_content_is_cut_as_any_list() -> None:
    features = [{"type": "Feature", "id": n} for n in range(100)]
    assert truncated(features, 300)[-1].endswith("more items truncated]")
    assert truncated(["w" * 90] * 20, 300)[-1].endswith("more items truncated]")


def test_a_long_text_of_a_message_is_not_cut_through_a_file() -> None:
    words = "x" * 50 + f" ![]({_url(IMAGE)}) " + "y" * 50
    (short,) = truncate_older_messages([{"role": "user", "content": words}], keep_recent=0, max_text_chars=200)
    assert short["content"] == "x" * 50 + " ![]([image/png, 2308 bytes]) " + "y" * 50


def test_a_row_that_is_made_to_fit_has_no_half_of_a_file() -> None:
    large = base64.b64encode(bytes(range(256)) * 8000).decode()
    short = enforce_row_size(native([{"type": "file", "mediaType": "image/png", "data": large}]))
    assert field(dict(short)) == [{"type": "text", "text": "[image/png, 2048000 bytes]"}]


@st.composite
def results(draw: st.DrawFn) -> tuple[str, Json]:
    name = draw(st.sampled_from(sorted(SPELLINGS)))
    make, text, files = SPELLINGS[name]
    words = st.text(st.sampled_from('ab "\n\\é字\x01'), max_size=draw(st.sampled_from([20, 900]))).map(text)
    data = st.binary(min_size=1, max_size=900).map(lambda raw: base64.b64encode(raw).decode())
    file = st.one_of([data.map(spell) for spell in files])
    return name, make(draw(st.lists(st.one_of(words, file), max_size=12)))


@settings(max_examples=dose(short=150, soak=10_000))
@given(results(), st.integers(0, 1500))
def test_any_result_of_any_format_stays_one(result: tuple[str, Json], limit: int) -> None:
    name, message = result
    short = shortened(message, limit)
    format = formats.recognize(message)
    into = formats.recognize(short)
    assert into in (format, formats.NATIVE)
    (was,) = format.parts(message)
    (part,) = into.parts(short)
    assert (part["toolCallId"], part["state"]) == (was["toolCallId"], was["state"])
    if short == message:
        assert size(was["output"] if name in ("pi", "claude-code") else field(message)) <= max(limit, FLOOR)
        return
    assert size(field(short)) <= max(limit, FLOOR)
    before = set(labelled(message)) | set(payloads(message))
    assert set(labelled(field(short))) <= before and set(payloads(field(short))) <= before
    if into is not formats.NATIVE and format.name in ("openai-chat", "openai"):
        blocks = field(short)
        assert isinstance(blocks, str) or all(isinstance(block.get("type"), str) for block in blocks)
