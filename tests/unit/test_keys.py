"""Keys of entries: the rule of the source system, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.logic.keys import entry_key, fnv1a, slug


@pytest.mark.parametrize(
    ("content", "title", "key"),
    [
        ("Hello World, this is content", None, "hello-world-this-is-content-j8xwas"),
        ("anything", "My Title!!", "my-title"),
        ("anything", "用户", "entry-1in002o"),
        ("用户喜欢咖啡", None, "entry-2mzjev"),
        ("", None, "entry-ztntfp"),
    ],
)
def test_the_golden_keys_of_the_source_system(content: str, title: str | None, key: str) -> None:
    assert entry_key(content, title) == key


def test_a_blank_title_is_none() -> None:
    assert entry_key("text", "  \n") == entry_key("text") == entry_key("text", "")


def test_the_same_title_is_the_same_key_whatever_the_content() -> None:
    assert entry_key("one", "Pirate Style") == entry_key("two", "Pirate Style") == "pirate-style"


def test_contents_that_begin_alike_have_keys_of_their_own() -> None:
    head = "x" * 100
    assert entry_key(head + "a") != entry_key(head + "b")
    assert entry_key("用户") != entry_key("咖啡")


def test_a_slug_is_of_60_utf16_units() -> None:
    assert slug("a" * 100) == "a" * 60
    assert slug("😀" * 29 + "a" * 10) == "aa"
    assert slug("😀" * 30 + "a") == ""
    assert slug("a" * 59 + "😀") == "a" * 59


def test_a_slug_begins_and_ends_with_a_letter_or_digit() -> None:
    assert slug("--a!!b--") == "a-b"
    assert slug("\u212a") == "k"  # the sign for kelvin, whose lower case is a letter


def test_the_hash_is_fnv_1a_in_base_36() -> None:
    assert fnv1a("") == "ztntfp"
    assert int(fnv1a("a"), 36) == ((0x811C9DC5 ^ 0x61) * 0x01000193) & 0xFFFFFFFF


@given(st.text(alphabet=st.characters(), max_size=80), st.none() | st.text(alphabet=st.characters(), max_size=80))
def test_every_text_has_a_key_that_is_one_plain_word(content: str, title: str | None) -> None:
    key = entry_key(content, title)
    assert key and set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
