"""What a block may be called, how its size is counted, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from plait import BlockSpec, BlockTooLargeError, UsageError
from plait.logic import blocks
from plait.logic.estimate import MESSAGE_TOKENS, estimate_text
from tests.unit.hostile import RULE


class Provider:
    def get(self) -> str:
        return ""


@pytest.mark.parametrize("label", ["memory", "user notes", "Записки", "用户", "a-b_c.d", "naïve", "x" * 512])
def test_a_label_is_one_line_of_words(label: str) -> None:
    assert blocks.check_label(label) == label


@pytest.mark.parametrize(
    "label",
    [
        "",
        " ",
        " a",
        "a\n",
        "a\nb",
        "a\u2028b",
        "a\x00",
        "a\x1b[31m",
        "a [writable]",
        "a (x)",
        "a\u202eb",
        "\ud800",
        "x" * 513,
        RULE,
        "=" * 46,
        "plait:prompt",
        '"a"',
        None,
        5,
    ],
)
def test_a_label_that_could_be_taken_for_something_else_is_refused(label: Any) -> None:
    with pytest.raises(UsageError):
        blocks.declared(BlockSpec(label))


@pytest.mark.parametrize("description", ["Facts", "two\nlines", "in (brackets)", "[ ] to do", "مرحبا", ""])
def test_a_description_is_any_text(description: str) -> None:
    assert blocks.declared({"label": "a", "description": description}).description == description


@pytest.mark.parametrize("description", ["x) [writable]", "［READONLY］", "\u202e", "\x00", "\ud800", RULE, 5])
def test_a_description_that_could_be_taken_for_structure_is_refused(description: Any) -> None:
    with pytest.raises(UsageError):
        blocks.declared({"label": "a", "description": description})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"label": "a", "colour": "red"},
        {"label": "a", "max_tokens": -1},
        {"label": "a", "max_tokens": "many"},
        {"label": "a", "kind": "graph"},
        {"label": "a", "provider": "text"},
        {"label": "a", "provider": Provider},
        {"label": "a", "provider": {"get": "text"}},
        {"label": "a", "provider": Provider(), "shared": True},
        {"label": "a", "provider": Provider(), "kind": "documents"},
        5,
        None,
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(given: Any) -> None:
    with pytest.raises(UsageError):
        blocks.declared(given)


@pytest.mark.parametrize(
    ("one", "other"), [("memory", "memory"), ("memory", "Memory"), ("straße", "STRASSE"), ("ﬁx", "fix")]
)
def test_two_blocks_cannot_have_the_same_header(one: str, other: str) -> None:
    with pytest.raises(UsageError, match="same header"):
        blocks.all_declared([one, other])


@pytest.mark.parametrize("key", ["a", "docs/a b.md", "naïve", "[x]"])
def test_a_key_is_one_line(key: str) -> None:
    assert blocks.check_key(key) == key


@pytest.mark.parametrize("key", ["", " a", "a\n- b", "a\u2028b", "\x00", "\u202e", None, "x" * 513])
def test_a_key_that_could_be_taken_for_a_line_of_its_own_is_refused(key: Any) -> None:
    with pytest.raises(UsageError):
        blocks.check_key(key)


# -- size ------------------------------------------------------------------------


def test_no_text_costs_nothing_and_a_text_what_the_estimate_says() -> None:
    assert blocks.count("", None) == 0
    assert blocks.count("User likes coffee.", None) == estimate_text("User likes coffee.")


def test_a_counter_counts_blocks_as_it_counts_messages() -> None:
    def words(message: Any) -> int:
        return len(message["parts"][0]["text"].split())

    assert blocks.count("three little words", words) == 3
    assert blocks.count("", lambda _: 100) == 0
    assert blocks.count("text", lambda _: 1 / 0) == estimate_text("text") + MESSAGE_TOKENS


def test_a_write_that_does_not_fit_says_size_limit_excess_and_what_is_there() -> None:
    with pytest.raises(BlockTooLargeError) as caught:
        blocks.check_fits("memory", "what is there", 4, 130, 100)
    error = caught.value
    assert (error.label, error.tokens, error.max_tokens, error.excess) == ("memory", 130, 100, 30)
    assert (error.current_tokens, error.content) == (4, "what is there")
    for said in ("'memory'", "130", "100", "30", "holds 4 now", "what is there"):
        assert said in str(error)


@pytest.mark.parametrize(
    ("now", "then", "most"), [(0, 100, 100), (500, 400, 100), (500, 0, 0), (0, 0, 0), (5, 10**9, None), (101, 100, 100)]
)
def test_what_fits_or_shrinks_passes(now: int, then: int, most: int | None) -> None:
    blocks.check_fits("a", "", now, then, most)


@pytest.mark.parametrize(("now", "then", "most"), [(0, 1, 0), (500, 500, 100), (100, 101, 100)])
def test_what_neither_fits_nor_shrinks_is_refused(now: int, then: int, most: int) -> None:
    with pytest.raises(BlockTooLargeError):
        blocks.check_fits("a", "", now, then, most)


@pytest.mark.parametrize(
    ("content", "more", "found"),
    [("", "a", "a"), ("a", "b", "a\nb"), ("a", "\nb", "a\nb"), ("a\n", "b", "a\n\nb"), ("a", "", "a"), ("", "", "")],
)
def test_what_is_added_stands_on_a_line_of_its_own(content: str, more: str, found: str) -> None:
    assert blocks.joined(content, more) == found


@pytest.mark.parametrize(
    "label",
    [
        "soul［readonly］x",
        "a｢b｣",
        "soul⟦readonly⟧",
        "a\u200fb",
        "x\u061c",
        "a\u200e",
        "\U0001f7f0" * 46,
        "a（b）",
        "«a»",
    ],
)
def test_a_label_with_brackets_or_marks_of_any_kind_is_refused(label: str) -> None:
    with pytest.raises(UsageError):
        blocks.check_label(label)


@pytest.mark.parametrize(
    "description",
    [
        "a) [99% — 1/2 tokens]",
        "a) [９９％ — 1/2 tokens]",
        "a) [readonly",
        "[ readonly ]",
        "[re\u0430donly]",
        "【writable】",
        "═─" * 23,
    ],
)
def test_a_description_that_reads_as_a_part_of_a_header_is_refused(description: str) -> None:
    with pytest.raises(UsageError, match="reads as"):
        blocks.checked(BlockSpec("memory", description))


@pytest.mark.parametrize(
    "description",
    ["Facts [about the user]", "100% of it", "Up to 50 tokens", "[Пользователь] и [заметки]", "مرحبا \u200fبالعالم"],
)
def test_other_descriptions_are_taken(description: str) -> None:
    assert blocks.checked(BlockSpec("memory", description)).description == description
