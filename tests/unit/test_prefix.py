"""What broke the front of a model's input."""

from __future__ import annotations

import pytest

from plait import UsageError
from plait.logic import prefix, prompt
from plait.logic.prefix import COMPACTION, MESSAGE, OVERLAY, Piece, Seen
from plait.model import Block


def messages(*given: str, kind: str = MESSAGE) -> list[Piece]:
    """Messages named by letters; a digit after one says which text of it, `@` a seq."""
    return [Piece(kind, text[0], ord(text[0]), 10, text.encode()) for text in given]


def seen(pieces: list[Piece], tools: str | None = "tools", text: str | None = "prompt") -> Seen:
    return prefix.seen(tools, text, pieces)


def broken(
    before: list[Piece], now: list[Piece], hidden: list[tuple[int, int]] | None = None
) -> tuple[str | None, str | None, int]:
    report = prefix.compare(seen(before), seen(now), hidden or [])
    assert report.intact == (report.broken_by is None)
    return report.broken_by, report.message_id, report.identical_bytes - len("toolsprompt")


def test_the_first_report_has_nothing_to_compare() -> None:
    report = prefix.compare(None, seen(messages("a")), [])
    assert (report.intact, report.identical_bytes, report.previous_bytes, report.total_bytes) == (True, 0, 0, 21)


def test_messages_that_come_after_leave_the_prefix_as_it_was() -> None:
    assert broken(messages("a", "b"), messages("a", "b", "c")) == (None, None, 20)
    assert broken(messages("a"), messages("a")) == (None, None, 10)


@pytest.mark.parametrize(
    ("before", "now", "cause"),
    [
        (messages("a", "b1", "c"), messages("a", "b2", "c"), ("update", "b", 10)),
        (messages("a", "c"), messages("a", "b", "c"), ("insert", "b", 10)),
        (messages("a", "b", "c"), messages("a", "c"), ("delete", "b", 10)),
        (messages("a", "b"), messages("a"), ("delete", "b", 10)),
        (messages("a", "b", "c"), messages("a", "d", "e"), ("branch", "d", 10)),
        (messages("a", "b"), messages("x"), ("branch", "x", 0)),
    ],
)
def test_the_first_change_is_named(before: list[Piece], now: list[Piece], cause: tuple[str, str, int]) -> None:
    assert broken(before, now) == cause


def test_summaries_and_overlays_are_told_from_messages() -> None:
    before = messages("a", "b", "c")
    assert broken(before, [*messages("a"), *messages("s", kind=COMPACTION)]) == ("compaction", "s", 10)
    assert broken(before, [*messages("a"), *messages("o", kind=OVERLAY), *messages("c")]) == ("overlay", "o", 10)
    assert broken([*messages("a"), *messages("o", kind=OVERLAY)], messages("a", "b")) == ("overlay", "o", 10)
    assert broken(before, messages("a", "c"), [(ord("b"), ord("b"))]) == ("overlay", "b", 10)


def test_a_refreshed_prompt_names_the_blocks_that_changed_and_counts_its_bytes() -> None:
    def rendered(memory: str) -> str:
        soul = Block("soul", "Be kind.", 3)
        return prompt.render([soul, Block("memory", memory, 9, max_tokens=100, writable=True)])

    old, new = rendered("tea"), rendered("coffee")
    report = prefix.compare(seen(messages("a"), text=old), seen(messages("a"), text=new), [])
    assert (report.broken_by, report.detail) == ("prompt", "the prompt was refreshed: MEMORY")
    same = old.index("tea")
    assert report.identical_bytes == len("tools") + len(old[:same].encode())


def test_tools_come_first() -> None:
    report = prefix.compare(seen([], tools="one"), seen([], tools="on the"), [])
    assert (report.broken_by, report.identical_bytes) == ("tools", 2)
    report = prefix.compare(seen([], tools=None), seen([], tools="one"), [])
    assert (report.broken_by, report.identical_bytes) == ("tools", 0)


def test_a_prompt_that_appears_or_goes_is_named() -> None:
    assert prefix.compare(seen([], text=None), seen(messages("a")), []).broken_by is None
    assert prefix.compare(seen(messages("a"), text=None), seen(messages("a")), []).broken_by == "prompt"
    assert prefix.compare(seen(messages("a")), seen(messages("a"), text=None), []).broken_by == "prompt"
    assert prefix.compare(seen([]), seen([], text=None), []).broken_by == "prompt"


def test_a_mark_stands_for_the_input_it_was_made_of() -> None:
    one = seen(messages("a", "b"), text="日本 \ud83d")
    assert prefix.read_mark(prefix.mark(one)) == one


@pytest.mark.parametrize("mark", ["", "x", "eJw", "日本", None, 5])
def test_another_text_is_no_mark(mark: object) -> None:
    with pytest.raises(UsageError):
        prefix.read_mark(mark)  # type: ignore[arg-type]
