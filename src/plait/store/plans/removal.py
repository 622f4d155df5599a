"""Deleting very many messages: prepared out of sight, taken away by one short transaction, then removed.

What takes long is done before and after. Before: the messages are looked up and counted, and their
keys noted in runs. After: the rows go, a bounded transaction at a time, while nobody sees them any
more. Between lies one transaction that says they are gone, if they are still as they were counted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

from msgspec import Struct

from plait import jsontext
from plait.logic.ids import can_be_stored
from plait.logic.strands import key_of, strand_of
from plait.model import Json
from plait.store.plan import Ask, Do, Head, Plan, Put, Row, Veil
from plait.store.plans import change, common, overlays
from plait.store.plans.common import Mark
from plait.store.protocol import SessionRef

T = TypeVar("T")
ROWS = 1000
"""More messages than these are deleted this way."""

PART = 1000
"""Messages looked up, noted or removed at a time."""

PREPARED, DONE = 0, 1


class Doomed(Struct, frozen=True):
    """Messages that are to be deleted, as they were at a version of their session.

    `keys` holds the key of each id in the order asked. `runs` covers those keys, in order, and no
    other surviving message's.
    """

    version: int
    keys: dict[str, int]
    runs: list[tuple[int, int]]
    ordered: list[int]
    bytes_upto: list[int]
    tokens_upto: list[int]

    def within(self, lo: int, hi: int) -> tuple[int, int, int]:
        """Messages, bytes and tokens between two keys, both included."""
        first, end = bisect_left(self.ordered, lo), bisect_right(self.ordered, hi)
        return (
            end - first,
            self.bytes_upto[end] - self.bytes_upto[first],
            self.tokens_upto[end] - self.tokens_upto[first],
        )

    def has(self, key: int) -> bool:
        at = bisect_left(self.ordered, key)
        return at < len(self.ordered) and self.ordered[at] == key

    def run_of(self, key: int) -> tuple[int, int]:
        return self.runs[bisect_right(self.runs, key, key=lambda run: run[0]) - 1]


def find(ref: SessionRef, ids: Sequence[str]) -> Plan[Doomed | None]:
    """Look up and count the messages of ids; `None` if there is no session."""
    head = yield from common.take(ref)
    if head is None:
        return None
    asked = list(dict.fromkeys(id for id in ids if can_be_stored(id)))
    keys: dict[str, int] = {}
    for some in _parts(asked):
        found = dict((yield Ask("find_messages", (jsontext.encode(some), head.incarnation), heavy=True)))
        keys.update((id, found[id]) for id in some if id in found)
    sizes: list[Row] = []
    for part in _parts(sorted(keys.values())):
        sizes += yield Ask("message_sizes", (jsontext.encode(part),), heavy=True)
    sizes.sort()
    ordered = [key for key, _, _ in sizes]
    bytes_upto = list(accumulate((size for _, size, _ in sizes), initial=0))
    tokens_upto = list(accumulate((tokens for _, _, tokens in sizes), initial=0))
    return Doomed(head.version, keys, (yield from _runs(ordered)), ordered, bytes_upto, tokens_upto)


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + PART] for start in range(0, len(items), PART))


def _runs(ordered: Sequence[int]) -> Plan[list[tuple[int, int]]]:
    """Keys in runs: those that follow one another, whatever is deleted between them already."""
    runs: list[tuple[int, int]] = []
    for some in _parts(ordered):
        together = strand_of(some[0]) == strand_of(some[-1]) and (yield from _only(some))
        for lo, hi in [(some[0], some[-1])] if together else ((key, key) for key in some):
            if runs and runs[-1][1] + 1 == lo:
                runs[-1] = (runs[-1][0], hi)
            else:
                runs.append((lo, hi))
    return runs


def _only(keys: Sequence[int]) -> Plan[bool]:
    """Whether no message lies between the first and the last of these keys that is not one of them."""
    rows = yield Ask("range_totals", (keys[0], keys[-1]), heavy=True)
    return bool(rows[0][0] == len(keys))


def begin(ref: SessionRef, mark: Mark) -> Plan[int | None]:
    """Make room to note what is to be deleted; answers its number, `None` if there is no session."""
    head = yield from common.take(ref)
    if head is None:
        return None
    number = yield from common.next_number("removal")
    yield Put("add_removal", [(number, head.incarnation, mark.at_us)])
    return number


def note(number: int, runs: Sequence[tuple[int, int]]) -> Plan[bool]:
    """Note some of what is to be deleted; `False` if it has been given up meanwhile."""
    rows = yield Ask("find_removal", (number,))
    if not rows or rows[0][1] != PREPARED:
        return False
    yield Put("add_removal_range", [(number, lo, hi) for lo, hi in runs])
    return True


def take_away(ref: SessionRef, number: int, doomed: Doomed, mark: Mark) -> Plan[bool]:
    """Take away what was noted, all at once; `False` if it is not any more what it was."""
    head = yield from common.take(ref)
    rows = yield Ask("find_removal", (number,))
    if head is None or not rows or rows[0] != (head.incarnation, PREPARED):
        return False
    changed = yield from common.changed_keys(head, doomed.version)
    if changed is None or any(doomed.has(key) for key in changed):
        return False
    yield from common.locate(head)
    yield from _uncount(head, doomed)
    data: Json = {"ids": list(doomed.keys), "keys": list(doomed.keys.values())}
    moved = head.leaf_id in doomed.keys
    left = (yield from _survivor(head.leaf, doomed)) if moved else None
    yield Do("show_removal", (number,))
    yield Veil()
    if moved:
        yield from _settle_leaf(head, left)
        data["leaf"] = head.leaf_id
    yield from common.record(head, "delete", mark, data)
    yield from overlays.note_removed(head, doomed.within, mark)
    yield from common.touch(ref, head, mark)
    return True


def _uncount(head: Head, doomed: Doomed) -> Plan[None]:
    """Take the messages off the totals."""
    on_path = (0, 0, 0)
    for item in (yield from common.path_to(head.leaf)) if head.path_messages is not None else ():
        gone = doomed.within(key_of(item.strand, item.lo), key_of(item.strand, item.hi))
        on_path = _added(on_path, gone)
    total = doomed.within(doomed.ordered[0], doomed.ordered[-1])
    head.add(*(-count for count in on_path), on_path=True)
    head.add(*(there - all for there, all in zip(on_path, total, strict=True)), on_path=False)


def _added(a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _survivor(leaf: int, doomed: Doomed) -> Plan[str | None]:
    """The id of the leaf's nearest ancestor that is not to be deleted."""
    row = yield from common.last_at(leaf)
    while row is not None and doomed.has(row[0]):
        row = yield from common.last_at(doomed.run_of(row[0])[0] - 1)
    return None if row is None else str(row[1])


def _settle_leaf(head: Head, left: str | None) -> Plan[None]:
    """The leaf's place stays as long as an ancestor survives, whose id is known; else the newest message is the leaf."""
    if left is None:
        yield from change.settle_leaf(head)
        head.located = False
        yield from common.locate(head)
    else:
        head.leaf_id, head.tip, head.located = left, False, True


def purge_step(number: int, limit: int) -> Plan[bool]:
    """Remove up to `limit` rows of a big delete, or 4 MiB; whether there is more to do."""
    found = yield Ask("find_removal", (number,))
    if not found:
        return False
    incarnation, state = found[0]
    if state == DONE and (yield from _remove(number, incarnation, limit)):
        return True
    if (yield Do("drop_removal_ranges", (number, limit))):
        return True
    yield Do("drop_removal", (number,))
    if state == DONE:
        yield Veil()
    return False


def _remove(number: int, incarnation: int, limit: int) -> Plan[bool]:
    rows = yield Ask("removed_rows", (number, limit), budget_bytes=change.PURGE_BYTES, size_at=2)
    if not rows:
        return False
    yield from change.remove_rests(rows)
    listed = jsontext.encode([key for key, _, _ in rows])
    yield Do("drop_removed_ids", (incarnation, listed))
    yield Do("drop_messages", (listed,))
    yield Do("add_search_pending", (listed,))
    yield Do("drop_removed_ranges", (number, rows[-1][0]))
    return True


def leftovers(before_us: int) -> Plan[list[int]]:
    """Big deletes whose rows are to be removed, and those that nobody went on preparing since a time."""
    return [number for (number,) in (yield Ask("removals", (before_us,)))]
