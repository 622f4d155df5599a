"""The read planner: what a path shows, as runs of rows. Overlays are laid on here.

Every read goes through it, forward and newest first, so that all of them show the same.
"""

from __future__ import annotations

from msgspec import Struct

from plait.store.protocol import Path


class Run(Struct, frozen=True):
    """Rows of the path with `lo <= seq <= hi`, shown as they are."""

    lo: int
    hi: int


def plan(path: Path, *, after_seq: int | None = None, before_seq: int | None = None) -> list[Run]:
    """What to show of `path` between two seqs (both excluded), root first."""
    if not path.ranges:
        return []
    lo = path.ranges[0].lo if after_seq is None else after_seq + 1
    hi = path.ranges[-1].hi if before_seq is None else before_seq - 1
    return [Run(lo, hi)] if lo <= hi else []
