"""The tree, worked out from strands: who hangs below whom once rows have been deleted.

A message's key is `strand << 32 | seq`. Its parent is the row before it in its strand or, for the
first, the last row of the parent strand at or before the fork, and so on up. Nothing here asks a
database: it is told each strand's fork and its first and last surviving row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from plait.errors import LimitError

SEQ_BITS = 32
SEQ_MASK = (1 << SEQ_BITS) - 1
MAX_SEQ = (1 << 32) - 1
MAX_STRAND = (1 << 31) - 1


def key_of(strand: int, seq: int) -> int:
    """The key of a place in a strand; `LimitError` past 2^31 strands or 2^32 seqs."""
    if seq > MAX_SEQ:
        raise LimitError(
            f"this session has used all {MAX_SEQ:,} sequence numbers; export it and import it as another session to go on"
        )
    if strand > MAX_STRAND:
        raise LimitError(
            f"this store has used all {MAX_STRAND:,} strands; export its sessions and import them into a new one to go on"
        )
    return strand << SEQ_BITS | seq


def strand_of(key: int) -> int:
    return key >> SEQ_BITS


def seq_of(key: int) -> int:
    return key & SEQ_MASK


class Strand(Struct, frozen=True):
    """A strand: where it forks off (`parent` 0: at the root), and its surviving ends (0: no row left)."""

    strand: int
    parent: int
    fork: int
    first: int
    last: int


class Tree:
    """All strands of a session, for questions that must look through strands without rows."""

    def __init__(self, strands: Iterable[Strand]) -> None:
        self.strands = {item.strand: item for item in strands}
        self._below: defaultdict[int, list[Strand]] = defaultdict(list)
        for item in self.strands.values():
            self._below[item.parent].append(item)

    def hanging(self, strand: int, lo: int, hi: int) -> Iterator[int]:
        """First surviving keys of what hangs on `strand` at forks `lo <= fork <= hi`.

        A strand hangs where its fork is; one that forks off before its parent's first surviving
        row hangs where the parent does.
        """
        queue = [item for item in self._below[strand] if lo <= item.fork <= hi]
        seen: set[int] = set()
        while queue:
            item = queue.pop()
            if item.strand in seen:  # only in a damaged file
                continue
            seen.add(item.strand)
            if item.first:
                yield item.first
            before = seq_of(item.first) if item.first else MAX_SEQ + 1
            queue.extend(below for below in self._below[item.strand] if below.fork < before)

    def leaves(self) -> list[int]:
        """Keys of the messages without children, in seq order."""
        ends = [item.last for item in self.strands.values() if item.last]
        return sorted((end for end in ends if not self._continued(end)), key=seq_of)

    def _continued(self, end: int) -> bool:
        return next(self.hanging(strand_of(end), seq_of(end), MAX_SEQ), None) is not None
