"""Stored text on its way to a terminal: nothing acts, nothing is lost."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.cli import escape

ANY = st.text(st.characters())  # surrogates and controls too


@given(ANY)
def test_printed_text_holds_no_control_but_newline_and_tab(text: str) -> None:
    shown = escape.printable(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")


def test_a_terminal_sequence_is_shown_instead_of_obeyed() -> None:
    assert escape.printable("\x1b]0;owned\x07 \x9b31m red") == r"\x1b]0;owned\x07 \x9b31m red"


def test_windows_line_ends_are_line_ends_and_a_lone_return_is_shown() -> None:
    assert escape.printable("a\r\nb\rc") == "a\nb\\rc"


def test_joined_emoji_and_right_to_left_letters_stay_as_they_are() -> None:
    text = "👩‍💻 שלום\u200f مرحبا"
    assert escape.printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("  two \n\n lines\t", "two lines"),
        ("exactly10!", "exactly10!"),
        ("eleven char", "eleven ch…"),
        ("x" * 10_000, "x" * 9 + "…"),
        (" " * 10_000 + "far", "…"),
    ],
)
def test_one_line_is_never_longer_than_asked(text: str, shown: str) -> None:
    assert escape.one_line(text, 10) == shown


@given(ANY.filter(bool))
def test_an_id_is_printed_on_one_line_and_can_be_given_back_as_printed(id: str) -> None:
    shown = escape.name(id)
    assert shown.isprintable()
    assert shown == shown.strip()
    assert escape.plain_name(shown) == id


def test_an_ordinary_id_is_printed_as_it_is() -> None:
    assert escape.name("support-42/naïve 注文 [x]") == "support-42/naïve 注文 [x]"


def test_marks_that_cannot_be_seen_are_shown_in_ids() -> None:
    assert escape.name("a\u202eb\u200fc\n ") == r"a\u202eb\u200fc\n\x20"


@given(st.lists(ANY) | st.dictionaries(ANY, st.lists(ANY)))
def test_escaped_json_says_the_same_and_acts_on_no_terminal(value: object) -> None:
    plain, meant = json.dumps(value, ensure_ascii=False), json.loads(json.dumps(value))  # two halves are a whole there
    for ascii_only in (False, True):
        line = escape.json_line(plain, ascii_only=ascii_only)
        assert json.loads(line) == meant
        assert not [char for char in line if unicodedata.category(char) in ("Cc", "Cs")]
        assert line.isascii() or not ascii_only
