"""Cutting a long text into slices that a row can hold, and joining them again."""

from __future__ import annotations

from collections.abc import Iterable

ROW_BUDGET_BYTES = 1_572_864
"""UTF-8 bytes a slice may take: 1536 KiB, the row budget of Cloudflare's Sessions."""


def cut(text: str, budget_bytes: int = ROW_BUDGET_BYTES) -> list[str]:
    """`text` as slices of at most `budget_bytes` UTF-8 bytes, cut between characters.

    Joined they are the text again. A single character over the budget stands alone; an empty
    text is one empty slice.
    """
    if len(text) * 4 <= budget_bytes or (text.isascii() and len(text) <= budget_bytes):
        return [text]
    data = text.encode()
    slices: list[str] = []
    start = 0
    while start < len(data):
        end = _boundary(data, start, budget_bytes)
        slices.append(data[start:end].decode())
        start = end
    return slices


def _boundary(data: bytes, start: int, budget_bytes: int) -> int:
    """The largest character boundary within the budget, or the end of the first character."""
    end = start + budget_bytes
    if end >= len(data):
        return len(data)
    while end > start and data[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    if end > start:
        return end
    end = start + 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return end


def join(slices: Iterable[str]) -> str:
    """The text that `cut` cut."""
    return "".join(slices)
