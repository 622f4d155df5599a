"""The texts of named values: any is written in a form that every database keeps, and read back as it was."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.logic import values

ANY_TEXT = st.text(st.characters(exclude_categories=[]) | st.sampled_from("\x00\ud83d\ude00\\x\n"))


@given(ANY_TEXT)
def test_what_is_packed_is_unpacked_again(text: str) -> None:
    body, escaped = values.packed(text)
    assert "\x00" not in body
    assert not any("\ud800" <= char <= "\udfff" for char in body)
    assert values.unpacked(body, escaped) == text


def test_plain_text_is_not_touched() -> None:
    text = "Likes tea.\n\\x00 ═ 你好 \U0001f600"
    assert values.packed(text) == (text, False)


@given(ANY_TEXT, ANY_TEXT)
def test_the_text_after_a_prefix_comes_after_all_that_begin_with_it(prefix: str, rest: str) -> None:
    end = values.after_prefix(prefix)
    if end is None:
        assert set(prefix) <= {chr(sys.maxunicode)}
    else:
        assert prefix + rest < end
        assert not end.startswith(prefix)


@pytest.mark.parametrize(("prefix", "end"), [("a", "b"), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000"), ("", None)])
def test_the_text_after_a_prefix_can_be_stored(prefix: str, end: str | None) -> None:
    assert values.after_prefix(prefix) == end
