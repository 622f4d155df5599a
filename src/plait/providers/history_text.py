"""Earlier conversations as a model reads them: the line of the prompt, and the answer of a search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plait.model import Hit
from plait.providers.paths import one_line

BETWEEN: Final = "\n---\n"


def count_sentence(count: int) -> str | None:
    """How many sessions can be searched; `None` for none."""
    if not count:
        return None
    return (
        "1 earlier conversation can be searched." if count == 1 else f"{count} earlier conversations can be searched."
    )


def hits_text(hits: Iterable[Hit]) -> str | None:
    """Each hit as `[role] snippet` on one line, so that no message can look like two; `None` for none."""
    return BETWEEN.join(f"[{one_line(hit.role)}] {one_line(hit.snippet)}" for hit in hits) or None
