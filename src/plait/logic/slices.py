"""Cutting a long text into slices that a row can hold, and joining them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

ROW_BUDGET_BYTES = 1_572_864
"""UTF-8 bytes a slice may take: 1536 KiB, the row budget of Cloudflare's Sessions."""


def fits(text: str, budget_bytes: int = ROW_BUDGET_BYTES) -> bool:
    """Whether a text is one slice."""
    return len(text) * 4 <= budget_bytes or _first(text[:budget_bytes], budget_bytes) == text


def cut(text: str, budget_bytes: int = ROW_BUDGET_BYTES) -> Iterator[str]:
    """`text` as slices of at most `budget_bytes` UTF-8 bytes, cut between characters.

    Joined they are the text again. A single character over the budget stands alone; an empty
    text is one empty slice. One slice is made at a time, so that a huge text is not copied whole.
    """
    start = 0
    while True:
        piece = _first(text[start : start + budget_bytes], budget_bytes)
        yield piece
        start += len(piece)
        if start >= len(text):
            return


def _first(text: str, budget_bytes: int) -> str:
    """The longest beginning within the budget, at least one character."""
    if len(text) * 4 <= budget_bytes or text.isascii():
        return text
    data = text.encode()
    return text if len(data) <= budget_bytes else data[: _boundary(data, budget_bytes)].decode()


def _boundary(data: bytes, end: int) -> int:
    """The last character boundary up to `end`, or the end of the first character."""
    while end > 0 and data[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    if end > 0:
        return end
    end = 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return end


def join(slices: Iterable[str]) -> str:
    """The text that `cut` cut."""
    return "".join(slices)
