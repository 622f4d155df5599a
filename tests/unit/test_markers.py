"""Media as markers: what is media, and that nothing else ever becomes one."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait import jsontext
from plait.logic.compaction import rendered
from plait.logic.markers import marked
from tests.dose import dose
from tests.unit.conversations import said, stored

PIXELS = base64.b64encode(bytes(range(256)) * 12).decode()
URL = f"data:image/png;base64,{PIXELS}"
MARK = "[image/png, 3072 bytes]"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (URL, MARK),
        ([URL, "words"], [MARK, "words"]),
        ({"url": URL, "error": "DISK FULL"}, {"url": MARK, "error": "DISK FULL"}),
        (f"see ![plot]({URL}) and go on", f"see ![plot]({MARK}) and go on"),
        (f"data:image/png;name=a.png;base64,{PIXELS}", MARK),
        (URL.replace("data:", "DATA:").replace("base64", "BASE64"), MARK),
        (f"data:image/png;base64,{base64.encodebytes(bytes(3072)).decode()}", MARK),
        ({"type": "media", "mediaType": "image/png", "data": PIXELS}, {"data": MARK}),
        ({"source": {"type": "base64", "media_type": "image/png", "data": PIXELS}}, {"source": {"data": MARK}}),
        ({"inlineData": {"mimeType": "image/png", "data": PIXELS}}, {"inlineData": {"data": MARK}}),
        ({"type": "input_audio", "input_audio": {"data": PIXELS, "format": "wav"}}, {"input_audio": {"data": "[media, 3072 bytes]"}}),
        ({"data": [{"b64_json": PIXELS, "revised_prompt": "a cat"}]}, {"data": [{"b64_json": "[media, 3072 bytes]", "revised_prompt": "a cat"}]}),
        ("data:text/plain;base64," + base64.b64encode(b"IMPORTANT").decode(), "IMPORTANT"),
    ],
)  # fmt: skip
def test_media_is_a_marker_in_the_place_of_its_string_only(value: Any, shown: Any) -> None:
    found = marked(value)
    assert PIXELS not in jsontext.encode(found)
    assert includes(found, shown)


def includes(found: Any, shown: Any) -> bool:
    """Whether an object has at least these members, at any depth."""
    if isinstance(shown, dict):
        return all(includes(found[key], value) for key, value in shown.items())
    return bool(found == shown)


@pytest.mark.parametrize(
    "value",
    [
        {"status": 500, "body": "data: hi\n\n", "error": "DISK FULL"},
        {"command": "data:migrate", "target": "prod-db-7"},
        {"type": "file", "path": "/etc/x", "content": "IMPORTANT"},
        [{"type": "file", "name": "a.py", "text": "IMPORTANT " * 100}],
        {"mimeType": "text/plain", "data": "IMPORTANT" * 100},
        {"mimeType": "application/json", "data": "not base64: " * 100},
        {"type": "file", "mediaType": "text/plain", "url": "data:text/plain,IMPORTANT"},
        "data:image/png;base64,",
        "data:;base64,AAAA",
        "a data URL begins with data:image/png;base64,iVBORw0KGgo",
        {"data": PIXELS},
        0, False, None, "", [], {},
    ],
)  # fmt: skip
def test_what_only_looks_like_media_stays_as_it_is(value: Any) -> None:
    assert marked(value) == value or value == "data:image/png;base64,"


words = st.integers(0, 10**6).map("word{}".format)
pieces = st.sampled_from(
    [
        "",
        "data:",
        "data: ",
        "data:image/png;base64,",
        "data:a/b;base64,AAAA ",
        f"{URL} ",
        f"({URL})",
        ";base64,",
        PIXELS + " ",
    ]
)
texts = st.tuples(pieces, words, pieces).map(lambda said: f"{said[0]} {said[1]} {said[2]}")
names = st.sampled_from(["type", "mediaType", "data", "url", "format", "file_data", "b64_json", "body", "content"])
holders = st.recursive(
    texts | st.sampled_from(["file", "image", "image/png", "text/plain", URL, PIXELS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=12,
)


@given(holders)
@settings(max_examples=dose(short=60, soak=3_000), deadline=None)
def test_no_word_beside_media_is_ever_lost(value: Any) -> None:
    """B-078, and its opposite: all that is not a payload reaches the summarizer, no long payload does."""
    (message,) = stored(
        said(
            {"type": "text", "text": f"see {URL}"},
            {"type": "dynamic-tool", "toolName": "f", "toolCallId": "1", "input": {"x": value}, "output": [value], "errorText": "E8"},
            {"type": "custom", "held": value},
        )
    )  # fmt: skip
    told = rendered(message, 10**9)
    given_words = [piece for piece in jsontext.encode(value).replace('"', " ").split() if piece.startswith("word")]
    assert all(told.count(f" {word} ") >= 3 for word in given_words)
    assert "base64," + PIXELS not in told and "E8" in told


def test_a_denied_call_says_why_and_one_that_failed_what_it_was_given() -> None:
    denied = {"approved": False, "reason": "too dear"}
    (message,) = stored(
        said(
            {"type": "tool-pay", "toolCallId": "1", "state": "output-denied", "input": {}, "approval": denied},
            {
                "type": "tool-f",
                "toolCallId": "2",
                "state": "output-error",
                "rawInput": "{broken",
                "errorText": "not JSON",
            },
        )
    )
    told = rendered(message, 2_000)
    assert "too dear" in told and "{broken" in told and "not JSON" in told


@pytest.mark.parametrize("piece", ["data:a/b;q=", "data:a/b;base64,", "data:", "data:" + "a" * 50, ";base64,", "A"])
def test_text_made_to_be_slow_is_not(piece: str) -> None:
    text = piece * 60_000
    assert marked({"type": "file", "data": text, "mediaType": "x/y"})["mediaType"] == "x/y"


@pytest.mark.parametrize("head", ["A" * 300, "data:image/png;base64,AAAA"])
@pytest.mark.parametrize("run", ["\n", "\r\n", "A\n", " \n"])
def test_base64_in_lines_is_read_in_one_way(head: str, run: str) -> None:
    """A pattern with two ways to read a line's end would take the square of their number: hours here."""
    for end in ("!", "=!", "\n\n", "=="):
        marked({"type": "file", "data": head + run * 100_000 + end})
