"""Parts of messages as lines to read."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.cli.render import Look, part_lines
from plait.cli.screen import Screen, cells, fit, flowed, wrap


def lines(part: dict[str, Any], **look: Any) -> list[str]:
    return ["".join(text for text, _ in line) for line in part_lines(part, Look(**look))]


def test_text_is_text_and_no_markup() -> None:
    assert lines({"type": "text", "text": "[bold]no[/bold] :smile: \x1b[31m"}) == [r"[bold]no[/bold] :smile: \x1b[31m"]


def test_reasoning_is_dimmed_and_named() -> None:
    assert list(part_lines({"type": "reasoning", "text": "two things"}, Look())) == [[("(thinking) two things", "dim")]]


def test_hidden_reasoning_is_said_to_be_hidden() -> None:
    assert lines({"type": "reasoning", "text": "", "providerMetadata": {}}) == ["(thinking, not shown by the provider)"]


def test_a_call_and_its_result_are_two_lines() -> None:
    part: dict[str, Any] = {"type": "tool-getWeather", "toolCallId": "c", "state": "output-available"}
    part |= {"input": {"city": "Lyon", "days": 2}, "output": {"temp": 17.5}}
    assert lines(part) == ['→ getWeather(city="Lyon", days=2)', '← {"temp":17.5}']
    assert lines(part, unicode=False) == ['-> getWeather(city="Lyon", days=2)', '<- {"temp":17.5}']


def test_a_result_that_stands_alone_names_its_tool() -> None:
    assert lines({"type": "tool-read", "output": "one\ntwo"}) == ["← read: one", "        two"]


def test_text_parts_of_an_output_are_shown_as_text() -> None:
    content = [{"type": "text", "text": "words"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    expected = ["← words", "  [image/png 3 bytes]"]
    assert lines({"type": "tool-x", "input": {}, "output": {"content": content}})[1:] == expected
    assert lines({"type": "tool-x", "input": {}, "output": content})[1:] == expected


def test_long_output_is_cut_and_says_how_much_is_left() -> None:
    part = {"type": "tool-x", "input": None, "output": "\n".join(map(str, range(100)))}
    assert lines(part)[-2:] == ["  5", "  … 94 more lines"]
    assert lines(part, full=True)[-1] == "  99"


def test_a_long_line_of_output_is_cut_by_characters() -> None:
    assert lines({"type": "tool-x", "input": None, "output": "x" * 5000})[-1] == "  … 4,000 more characters"


def test_errors_and_open_approvals_stand_out() -> None:
    failed = {"type": "tool-x", "state": "output-error", "input": {}, "errorText": "upstream timed out"}
    assert list(part_lines(failed, Look()))[1] == [("✗ ", "error"), ("upstream timed out", "error")]
    waiting = {"type": "dynamic-tool", "toolName": "search", "state": "approval-requested", "input": {"q": "Lyon"}}
    assert lines(waiting) == ['→ search(q="Lyon")', "? waits for approval"]


def test_media_are_markers_with_their_size() -> None:
    part = {"type": "file", "mediaType": "image/png", "filename": "dot.png", "url": "data:image/png;base64,QUJDRA=="}
    assert lines(part) == ["[image/png dot.png 4 bytes]"]
    assert lines({"type": "file", "mediaType": "text/csv", "url": "https://x.test/a.csv"}) == [
        "[text/csv https://x.test/a.csv]"
    ]


def test_an_unknown_part_is_shown_by_type_and_content() -> None:
    assert lines({"type": "brand-new", "v": [1, None]}) == ['[brand-new] {"v":[1,null]}']


def test_a_step_mark_is_not_worth_a_line() -> None:
    assert lines({"type": "step-start"}) == []


ODD: list[Any] = [
    None,
    True,
    0,
    -1.5,
    2**70,
    "",
    "\x1b[2J\n\r\n",
    "a" * 3000,
    "\ud800",
    "data:,",
    "data:x;base64,QUI=",
    "://",
]
ODD += [[], [None], [{}], [{"type": "text"}], [{"type": None, "text": 1}], [{"type": "image", "source": {"data": 3}}]]
ODD += [
    {},
    {"content": None},
    {"content": [{"type": "text", "text": "\x9b"}]},
    {"\x1b": {"\n": ["\x07"]}},
    {"data": "QQ=="},
]
JSON = st.sampled_from(ODD)
KEYS = st.sampled_from(
    ["text", "input", "output", "errorText", "state", "url", "data", "mediaType", "toolName", "content"]
)
KINDS = st.sampled_from(
    ["text", "reasoning", "tool-x", "dynamic-tool", "file", "image", "source-url", "data-x", "?", ""]
)


@given(KINDS, st.dictionaries(KEYS, JSON), st.booleans(), st.none() | st.integers(1, 200))
def test_no_part_however_odd_breaks_the_picture(kind: str, rest: dict[str, Any], full: bool, width: int | None) -> None:
    for line in part_lines({**rest, "type": kind}, Look(full=full, width=width)):
        assert "\n" not in "".join(text for text, _ in line)
        assert "\x1b" not in "".join(text for text, _ in line)


@given(st.text(st.sampled_from("ab 漢😀\t\n"), max_size=200), st.integers(10, 40))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, width: int) -> None:
    broken = list(wrap(text, width))
    assert all(cells([(line, "")]) <= width for line in broken)
    assert "".join(broken).replace(" ", "") == "".join(text.split())


@given(
    st.lists(st.tuples(st.text(st.sampled_from("ab 漢😀"), max_size=30), st.sampled_from(["", "dim"])), max_size=6),
    st.integers(10, 40),
)
def test_a_line_in_styles_is_broken_to_fit_and_keeps_them(spans: list[tuple[str, str]], width: int) -> None:
    lines = list(flowed(spans, width, "  "))
    assert all(cells(line) <= width for line in lines)
    styled = [(char, style) for line in lines for text, style in line for char in text if char != " "]
    assert styled == [(char, style) for text, style in spans for char in text if char != " "]
    assert list(flowed(spans, None, "  ")) == [spans]


def test_wrapped_code_keeps_its_indent() -> None:
    assert list(wrap("    one two three", 12)) == ["    one two", "    three"]


@pytest.mark.parametrize("text", ["plain words", "漢字かな交じり文", "😀😀😀😀😀😀"])
def test_fitted_text_fits_in_cells(text: str) -> None:
    assert [cells([(fit(text, width), "")]) <= width for width in range(30)] == [True] * 30
    assert fit(text, None) == text


def test_a_file_gets_no_colour_and_a_stream_in_ascii_no_drawing() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    screen = Screen(file)
    screen.line(("é", "error"), " plain ")
    screen.flush()
    assert (screen.color, screen.unicode, screen.width) == (False, False, None)
    assert file.buffer.getvalue() == rb"\xe9 plain" + b"\n"
