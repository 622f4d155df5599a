"""Reading: paths, windows of rows, relatives in the tree, sizes without content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from plait import jsontext
from plait.errors import SessionDeletedError
from plait.logic import view
from plait.logic.strands import MAX_SEQ, SEQ_MASK, Strand, Tree, key_of, seq_of, strand_of
from plait.model import Damaged, Message, Parent, Totals
from plait.store.plan import Ask, Head, Plan, Row
from plait.store.plans import common, messages, overlays
from plait.store.protocol import Path, Range, SessionRef, Stat, Suffix

Found = list[Message | Damaged]
Sums: TypeAlias = tuple[int, int, int]

MANY = 50
"""More than this many rows, wherever they lie, are not fetched on an event loop."""

SUFFIX_ROWS = 50
"""The longest suffix that is read together with the place it begins at."""


MAX_COUNTS = 1024


class Count(Struct, frozen=True):
    """What the path to a place held at a version of its session."""

    version: int
    strand: int
    hi: int
    sums: Sums


class Counted:
    """What was counted last in each life of a session, so that it need not be counted again.

    Only paths that no write has settled are counted: those a branch or a checkout far away led to.
    A count is named by its version, so it holds whoever reads it.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], Count] = {}

    def last(self, head: Head) -> Count | None:
        return self._counts.get((head.session, head.incarnation))

    def forget(self) -> None:
        """Forget all: stamps were changed, which moves no version. What other processes remember of
        paths that are not active stays as it was counted until something is changed there."""
        self._counts.clear()

    def note(self, head: Head, count: Count) -> None:
        if len(self._counts) >= MAX_COUNTS:
            self._counts.clear()
        self._counts[head.session, head.incarnation] = count


def path(ref: SessionRef, leaf: Parent, *, raw: bool = False) -> Plan[Path | None]:
    """The path to a leaf, fixed in one committed state; `raw`: without the overlays that lie on it."""
    head = yield from common.take(ref)
    if head is None:
        return None
    fixed = yield from common.fixed_path(head, leaf)
    if raw or not head.overlays:
        return fixed
    return replace(fixed, laid=(yield from overlays.laid_on(head, fixed.ranges)))


def recent(
    ref: SessionRef, leaf: Parent, *, count: int | None, budget_bytes: int | None, counted: Counted
) -> Plan[tuple[Path, Suffix] | None]:
    """The path to a leaf with its longest suffix within both bounds, and of its overlays those in the suffix."""
    head = yield from common.take(ref)
    if head is None:
        return None
    fixed = yield from common.path_of(head, leaf)
    end: End | None = None
    lying: list[overlays.Lying] = []
    if count is not None or budget_bytes is not None:
        lying, unseen_upto = yield from overlays.outermost_near_end(head, fixed.ranges)
        end = yield from _suffix_end(fixed, _spans(lying), count, budget_bytes)
        end = None if end.rows and end.start <= unseen_upto else end
    if end is None:
        lying = yield from overlays.outermost_on(head, fixed.ranges)
        end = yield from _suffix_end(fixed, _spans(lying), count, budget_bytes)
    shown = [item for item in lying if item.last >= end.start] if end.rows else []
    laid = (yield from overlays.laid(shown, fixed.ranges)) if shown else ()
    leaf_id = end.loaded[-1].id if end.loaded else (yield from common.last_id(fixed.ranges))
    fixed = Path(fixed.incarnation, fixed.version, leaf_id, fixed.ranges, laid)
    return fixed, (yield from _suffix(head, fixed, end, counted))


def load(
    ref: SessionRef,
    path: Path,
    *,
    after_seq: int | None,
    before_seq: int | None,
    newest_first: bool,
    limit: int,
    budget_bytes: int,
    shown: bool = False,
) -> Plan[Found]:
    """The next rows of a path between two seqs, in the order asked for; `shown`: that no overlay on it hides."""
    yield from _same_life(ref, path)
    path = path if shown or not path.laid else replace(path, laid=())
    return (yield from _window(path, after_seq, before_seq, newest_first, limit, budget_bytes))


def _window(
    path: Path, after_seq: int | None, before_seq: int | None, newest_first: bool, limit: int, budget_bytes: int
) -> Plan[Found]:
    ranges: Iterable[Range] = common.between(path.ranges, after_seq, before_seq, newest_first=newest_first)
    ranges = view.uncovered(ranges, path.laid, newest_first=newest_first) if path.laid else ranges
    rows = yield from _rows(ranges, newest_first, limit, budget_bytes)
    found = yield from _built(path, rows[::-1] if newest_first else rows)
    return found[::-1] if newest_first else found


def _built(path: Path, rows: list[Row]) -> Plan[Found]:
    """The messages of rows that follow one another on a path, but for what its overlays hide."""
    if not rows:
        return []
    seqs = [row[messages.KEY] & SEQ_MASK for row in rows] if path.laid else []
    starts = view.gaps(seqs, path.laid)
    if not starts:
        before = yield from common.last_before(path.ranges, rows[0][messages.KEY] & SEQ_MASK)
        return (yield from messages.build(rows, before[1] if before else None))
    above = yield from common.last_before_each(path.ranges, [seqs[n] for n in (0, *starts)])
    found: Found = []
    for first, end in pairwise((0, *starts, len(rows))):
        found += yield from messages.build(rows[first:end], above.get(seqs[first]))
    return found


def _same_life(ref: SessionRef, path: Path) -> Plan[Head]:
    head = yield from common.take(ref)
    if head is None or head.incarnation != path.incarnation:
        raise SessionDeletedError(
            f"session {ref.id!r} was deleted or cleared while it was being read", session_id=ref.id
        )
    return head


def _rows(ranges: Iterable[Range], newest_first: bool, limit: int, budget_bytes: int) -> Plan[list[Row]]:
    """Up to `limit` rows of ranges in the order they are read, no further one once their sizes reach the budget."""
    rows: list[Row] = []
    query = "messages_down" if newest_first else "messages_up"
    for item in ranges:
        keys = (key_of(item.strand, item.lo), key_of(item.strand, item.hi))
        args = (messages.LARGE_BYTES, *keys, limit - len(rows))
        found = yield Ask(query, args, budget_bytes=budget_bytes, size_at=messages.BYTES)
        rows += found
        if len(rows) >= limit:
            break
        budget_bytes -= sum([row[messages.BYTES] for row in found])
        if budget_bytes <= 0:
            break
    return rows


def get(ref: SessionRef, id: str) -> Plan[Message | Damaged | None]:
    """One message."""
    head = yield from common.take(ref)
    key = (yield from common.find(head, id)) if head else 0
    return (yield from _one(key)) if key else None


def _one(key: int) -> Plan[Message | Damaged | None]:
    rows = yield Ask("messages_up", (messages.LARGE_BYTES, key, key, 1))
    return (yield from messages.with_parent(rows[0])) if rows else None


def newest(ref: SessionRef) -> Plan[Message | Damaged | None]:
    """The message of highest seq."""
    head = yield from common.take(ref)
    rows: list[Row] = (yield Ask("newest_message", (head.incarnation,))) if head else []
    return (yield from _one(rows[0][0])) if rows else None


def children(ref: SessionRef, id: str | None) -> Plan[Found]:
    """The messages that answer `id`, or the roots."""
    head = yield from common.take(ref)
    if head is None:
        return []
    if id is None:
        strands = yield Ask("root_strands", (head.incarnation,), heavy=True)
        return (yield from _answering((yield from _hanging(head, strands)), None))
    key = yield from common.find(head, id)
    if not key:
        return []
    rows = yield Ask("first_in_range", (key + 1, key_of(strand_of(key), MAX_SEQ)))
    last = seq_of(rows[0][0]) - 1 if rows else MAX_SEQ
    strands = yield Ask("strands_at", (strand_of(key), seq_of(key), last, head.incarnation))
    return (yield from _answering([row[0] for row in rows] + (yield from _hanging(head, strands)), id))


def _hanging(head: Head, strands: list[Row]) -> Plan[list[int]]:
    """The first surviving keys of (strand, first key or 0) that fork off at one message.

    A strand that forks off before its parent's first surviving row hangs where the parent does.
    """
    found: list[int] = []
    queue, seen = list(strands), set[int]()
    heavy = len(queue) > MANY
    while queue:
        strand, first = queue.pop()
        if strand in seen:  # only in a damaged file
            continue
        seen.add(strand)
        found += [first] if first else []
        before = seq_of(first) - 1 if first else MAX_SEQ
        queue += yield Ask("strands_at", (strand, 0, before, head.incarnation), heavy=heavy)
    return found


def _answering(keys: list[int], parent_id: str | None) -> Plan[Found]:
    """The messages of keys that all answer one message."""
    found: Found = []
    for row in (yield from rows_of(keys)):
        found.append((yield from messages.build_one(row, parent_id)))
    return found


def rows_of(keys: list[int]) -> Plan[list[Row]]:
    """The message rows of keys, in seq order."""
    if not keys:
        return []
    ask = Ask("messages_by_keys", (messages.LARGE_BYTES, jsontext.encode(keys)), heavy=len(keys) > MANY)
    rows: list[Row] = yield ask
    return sorted(rows, key=lambda row: seq_of(row[messages.KEY]))


def leaves(ref: SessionRef) -> Plan[Found]:
    """The messages that nothing answers."""
    head = yield from common.take(ref)
    found: Found = []
    if head is not None:
        tree = Tree(Strand(*row) for row in (yield Ask("strands", (head.incarnation,), heavy=True)))
        known: common.Known = {}
        for row in (yield from rows_of(tree.leaves())):
            found.append((yield from messages.with_parent(row, known)))
    return found


def everything(ref: SessionRef, *, after_seq: int, limit: int, budget_bytes: int) -> Plan[Found]:
    """The next messages of all branches in seq order."""
    head = yield from common.take(ref)
    if head is None:
        return []
    keys = yield from next_keys(head, after_seq, limit, budget_bytes)
    found: Found = []
    last_ids: dict[int, str] = {}
    known: common.Known = {}
    for row in (yield from rows_of(keys)):
        strand = strand_of(row[messages.KEY])
        if strand not in last_ids:
            parent = yield from common.parent_of(row[messages.KEY], known)
            parent_id = parent[1] if parent else None
        else:
            parent_id = last_ids[strand]
        last_ids[strand] = row[messages.ID]
        found.append((yield from messages.build_one(row, parent_id)))
    return found


def next_keys(head: Head, after_seq: int, limit: int, budget_bytes: int) -> Plan[list[int]]:
    """Keys of the next messages of all branches, no further one once their sizes reach the budget.

    Looks at a stretch of seqs at a time, longer ones where few survive, and sorts keys only: what
    a window costs depends on the number of strands, not on how many messages come after it.
    """
    keys: list[int] = []
    width, after_seq = limit, max(after_seq, 0)  # below 0 a key would lie in the strand before, perhaps another scope's
    while len(keys) < limit and after_seq + 1 < head.next_seq:
        upto = min(after_seq + width, MAX_SEQ)
        for key, size in (yield Ask("keys_by_seq", (after_seq, upto, head.incarnation), heavy=True)):
            keys.append(key)
            budget_bytes -= size
            if budget_bytes <= 0 or len(keys) == limit:
                return keys
        after_seq, width = upto, 2 * width
    return keys


def stats(ref: SessionRef, path: Path, *, after_seq: int, before_seq: int | None, limit: int) -> Plan[list[Stat]]:
    """Rows of a path without their content."""
    yield from _same_life(ref, path)
    found: list[Stat] = []
    for item in common.between(path.ranges, after_seq, before_seq):
        args = (key_of(item.strand, item.lo), key_of(item.strand, item.hi), limit - len(found))
        for key, id, role, size, tokens, at in (yield Ask("message_stats", args)):
            found.append(Stat(id, seq_of(key), role, size, tokens, at))
        if len(found) >= limit:
            break
    return found


def suffix(
    ref: SessionRef, path: Path, *, count: int | None, budget_bytes: int | None, counted: Counted
) -> Plan[Suffix]:
    """Where the longest suffix of what the path shows begins, within both bounds, and what the whole path holds."""
    head = yield from _same_life(ref, path)
    spans = [Span(item.overlay.from_seq, item.overlay.to_seq, item.bytes) for item in path.laid]
    end = yield from _suffix_end(path, spans, count, budget_bytes)
    return (yield from _suffix(head, path, end, counted))


def _suffix(head: Head, path: Path, end: End, counted: Counted) -> Plan[Suffix]:
    """A suffix with what the whole path holds, and itself if it is little."""
    loaded = end.loaded
    if loaded is None and end.rows <= SUFFIX_ROWS and end.size <= messages.LARGE_BYTES:
        loaded = (yield from _shown(path, end)) if end.rows else []
    hidden = yield from _hides(head, path.ranges)
    return Suffix(end.start, *(yield from _holds(head, path.ranges, counted)), loaded, hidden)


def _hides(head: Head, ranges: Sequence[Range]) -> Plan[Sums]:
    """What overlays take off a path: known if it is the active one."""
    end = key_of(ranges[-1].strand, ranges[-1].hi) if ranges else 0
    if head.leaf == end and head.hidden_messages is not None:
        return head.hidden_messages, head.hidden_bytes or 0, head.hidden_tokens or 0
    return (yield from overlays.hidden_on(head, ranges))


def _holds(head: Head, ranges: Sequence[Range], counted: Counted) -> Plan[Sums]:
    """What a path holds: known if it is the active one and was settled, else counted."""
    end = key_of(ranges[-1].strand, ranges[-1].hi) if ranges else 0
    if head.leaf == end and head.path_messages is not None:
        return head.path_messages, head.path_bytes or 0, head.path_tokens or 0
    return (yield from _count(head, ranges, counted))


def _count(head: Head, ranges: Sequence[Range], counted: Counted) -> Plan[Sums]:
    """What a path holds, counted from where it was counted last, if only appends have come since."""
    if not ranges:
        return 0, 0, 0
    end, last = ranges[-1], counted.last(head)
    known: Sums = (0, 0, 0)
    rest = list(ranges)
    if last is not None and (yield from _goes_on(head, last, end)):
        known, rest = last.sums, [Range(end.strand, last.hi + 1, end.hi)] if last.hi < end.hi else []
    messages_, size, tokens = yield from common.range_totals(rest)
    sums = known[0] + messages_, known[1] + size, known[2] + tokens
    counted.note(head, Count(head.version, end.strand, end.hi, sums))
    return sums


def _goes_on(head: Head, last: Count, end: Range) -> Plan[bool]:
    if last.strand != end.strand or last.hi > end.hi or last.version > head.version:
        return False
    return (yield from common.changed_keys(head, last.version)) == []


def _newest(path: Path, count: int) -> Plan[Found | None]:
    """The newest rows of a path, oldest first, whatever lies on it; `None` if they are not little."""
    if not count:
        return []
    # One more than asked for: the message that the oldest answers.
    rows = yield from _rows(reversed(path.ranges), True, count + 1, messages.LARGE_BYTES + 1)
    above = rows.pop()[messages.ID] if len(rows) > count else None
    if sum([row[messages.BYTES] for row in rows]) > messages.LARGE_BYTES:
        return None
    rows.reverse()
    return (yield from messages.build(rows, above))


def _shown(path: Path, end: End) -> Plan[Found]:
    """All that a path shows from where a suffix begins."""
    found: Found = []
    for stretch in view.stretches(path, after_seq=end.start - 1):
        run = stretch.run
        rows = (yield from _window(path, run.lo - 1, run.hi + 1, False, end.rows, end.size + 1)) if run else []
        found += [*stretch.take(rows), *stretch.rest()]
    return found


class _Suffix:
    """The suffix found so far: the seq that it begins at, its messages and its bytes."""

    def __init__(self, count: int | None, budget_bytes: int | None) -> None:
        self.start = self.taken = self.total = 0
        self._count, self._budget_bytes = count, budget_bytes

    @property
    def left(self) -> int:
        return MAX_SEQ if self._count is None else self._count - self.taken

    @property
    def room(self) -> int | None:
        """Up to the first row that no longer fits."""
        return None if self._budget_bytes is None else max(self._budget_bytes - self.total, 0) + 1

    def take(self, seq: int, size: int) -> bool:
        """Take one more, whose first seq is given, if it fits."""
        if self.left <= 0 or (self._budget_bytes is not None and self.taken and self.total + size > self._budget_bytes):
            return False
        self.start, self.taken, self.total = seq, self.taken + 1, self.total + size
        return True


class Span(Struct, frozen=True):
    """A stretch of seqs that is shown as one message of so many bytes, or not at all (0)."""

    first: int
    last: int
    bytes: int


class End(Struct, frozen=True):
    """The end of what a path shows: the seq it begins at, its messages and bytes; itself where that was little."""

    start: int
    rows: int
    size: int
    loaded: Found | None = None


def _spans(lying: Iterable[overlays.Lying]) -> list[Span]:
    return [Span(item.first, item.last, item.bytes) for item in lying]


def _suffix_end(path: Path, spans: Sequence[Span], count: int | None, budget_bytes: int | None) -> Plan[End]:
    """The longest suffix within both bounds of a path on which these spans lie, root first."""
    covered = spans[-1].last if spans else 0
    enough = count is not None and (not spans or covered + count <= path.ranges[-1].hi)
    if count is not None and enough and count <= SUFFIX_ROWS and budget_bytes is None:
        loaded = yield from _newest(path, count)
        if loaded is not None and (not loaded or loaded[0].seq > covered):
            return End(loaded[0].seq if loaded else 0, len(loaded), 0, loaded)
    found = _Suffix(count, budget_bytes)
    heavy = count is None and budget_bytes is None
    before: int | None = None
    for span in reversed(spans):
        fits = yield from _take_rows(path, found, span.last, before, heavy=heavy)
        if not fits or (span.bytes and not found.take(span.first, span.bytes)):
            return End(found.start, found.taken, found.total)
        before = span.first
    yield from _take_rows(path, found, None, before, heavy=heavy)
    return End(found.start, found.taken, found.total)


def _take_rows(path: Path, found: _Suffix, after: int | None, before: int | None, *, heavy: bool) -> Plan[bool]:
    """Take the rows between two seqs, newest first, as long as they fit; whether all of them did."""
    for item in common.between(path.ranges, after, before, newest_first=True):
        if found.left <= 0:
            return False
        args = (key_of(item.strand, item.lo), key_of(item.strand, item.hi), found.left)
        for key, size in (yield Ask("sizes_down", args, budget_bytes=found.room, size_at=1, heavy=heavy)):
            if not found.take(seq_of(key), size):
                return False
    return True


def totals(ref: SessionRef, counted: Counted) -> Plan[Totals]:
    """What the session and its active path hold."""
    head = yield from common.take(ref)
    return Totals() if head is None else (yield from totals_of(head, counted))


def totals_of(head: Head, counted: Counted) -> Plan[Totals]:
    """The totals of a head, the path's counted now if they are not known."""
    known: Any = (head.path_messages, head.path_bytes, head.path_tokens)
    if head.path_messages is None:
        known = yield from _count(head, (yield from common.path_to(head.leaf)), counted)
    hidden: Any = (head.hidden_messages, head.hidden_bytes, head.hidden_tokens)
    if head.hidden_messages is None:
        hidden = yield from overlays.hidden_on(head, (yield from common.path_to(head.leaf)))
    seen = (whole - less for whole, less in zip(known, hidden, strict=True))
    return Totals(head.messages, head.bytes, head.tokens, *known, *seen)


def changed_since(ref: SessionRef, path: Path) -> Plan[bool]:
    """Whether the path was changed since it was fixed: a message updated or deleted, an overlay added or removed."""
    head = yield from common.take(ref, fenced=False)
    if head is None or head.incarnation != path.incarnation:
        return True
    changed = yield from common.changed_keys(head, path.version)
    return changed is None or any(common.on_ranges(key, path.ranges) for key in changed)


def leaf(ref: SessionRef) -> Plan[Message | Damaged | None]:
    """The active leaf, wherever its place is."""
    head = yield from common.take(ref)
    if head is None or not head.leaf:
        return None
    row = yield from common.last_at(head.leaf)
    return (yield from _one(row[0])) if row else None
