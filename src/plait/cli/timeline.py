"""The tokens of a conversation over its messages: all of them, and those a model was shown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from plait import Overlay, RowStat


@dataclass(frozen=True, slots=True)
class Timeline:
    """After each message of a path: `whole`, all its tokens, and `shown`, less what overlays hid by then.

    `compactions` are the places, counted in messages, at which a compaction came in.
    """

    whole: list[int] = field(default_factory=list[int])
    shown: list[int] = field(default_factory=list[int])
    compactions: list[int] = field(default_factory=list[int])


def timeline(rows: Sequence[RowStat], overlays: Iterable[Overlay]) -> Timeline:
    """The timeline of a path, with the overlays on it in the order they were added."""
    whole = list(accumulate(row.tokens for row in rows))
    seqs = [row.seq for row in rows]
    times = list(accumulate((row.created_at for row in rows), max))  # an import may bring times out of order
    steps = [0] * len(rows)
    compactions: list[int] = []
    laid: list[tuple[Overlay, int]] = []
    for overlay in overlays if rows else ():
        saved = _saving(overlay, laid)
        laid.append((overlay, saved))
        at = max(bisect_right(seqs, overlay.to_seq), bisect_right(times, overlay.created_at))
        steps[at - 1] += saved
        if overlay.kind == "compaction":
            compactions.append(at)
    hidden = accumulate(steps)
    return Timeline(whole, [all - less for all, less in zip(whole, hidden, strict=False)], compactions)


def _saving(overlay: Overlay, earlier: Iterable[tuple[Overlay, int]]) -> int:
    """What an overlay hides beyond what the earlier ones inside it hid."""
    inside = (saved for other, saved in earlier if _contains(overlay, other))
    return overlay.covers.tokens - overlay.tokens - sum(inside)


def _contains(outer: Overlay, inner: Overlay) -> bool:
    return outer.from_seq <= inner.from_seq and inner.to_seq <= outer.to_seq
