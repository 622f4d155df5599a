"""Earlier conversations as a model reads them: the line of the prompt, and the answer of a search."""

from __future__ import annotations


def count_sentence(count: int) -> str | None:
    """How many sessions can be searched; `None` for none."""
    if not count:
        return None
    return (
        "1 earlier conversation can be searched." if count == 1 else f"{count} earlier conversations can be searched."
    )
