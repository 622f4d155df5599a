"""Reading: paths, windows of rows, relatives in the tree, sizes without content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        self._counts: dict[int, Count] = {}

    def last(self, head: Head) -> Count | None:
        return self._counts.get(head.incarnation)

    def note(self, head: Head, count: Count) -> None:
        if len(self._counts) >= MAX_COUNTS:
            self._counts.clear()
        self._counts[head.incarnation] = count


def path(ref: SessionRef, leaf: Parent) -> Plan[Path | None]:
    """The path to a leaf, fixed in one committed state."""
    head = yield from common.take(ref)
    if head is None:
        return None
    fixed = yield from common.fixed_path(head, leaf)
    return replace(fixed, laid=(yield from overlays.laid_on(head, fixed.ranges))) if head.overlays else fixed


def recent(
    ref: SessionRef, leaf: Parent, *, count: int | None, budget_bytes: int | None, counted: Counted
) -> Plan[tuple[Path, Suffix] | None]:
    """The path to a leaf with its longest suffix within both bounds."""
    fixed = yield from path(ref, leaf)
    if fixed is None:
        return None
    return fixed, (yield from suffix(ref, fixed, count=count, budget_bytes=budget_bytes, counted=counted))


def load(
    ref: SessionRef,
    path: Path,
    *,
    after_seq: int | None,
    before_seq: int | None,
    newest_first: bool,
    limit: int,
    budget_bytes: int,
) -> Plan[Found]:
    """The next rows of a path between two seqs, in the order asked for."""
    yield from _same_life(ref, path)
    return (yield from _window(path, after_seq, before_seq, newest_first, limit, budget_bytes))


def _window(
    path: Path, after_seq: int | None, before_seq: int | None, newest_first: bool, limit: int, budget_bytes: int
) -> Plan[Found]:
    ranges = common.between(path.ranges, after_seq, before_seq, newest_first=newest_first)
    rows = yield from _rows(ranges, newest_first, limit, budget_bytes)
    found = yield from _built(path, rows[::-1] if newest_first else rows)
    return found[::-1] if newest_first else found


def _built(path: Path, rows: list[Row]) -> Plan[Found]:
    """The messages of rows that follow one another on a path."""
    if not rows:
        return []
    before = yield from common.last_before(path.ranges, rows[0][messages.KEY] & SEQ_MASK)
    return (yield from messages.build(rows, before[1] if before else None))


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
        budget_bytes -= sum(row[messages.BYTES] for row in found)
        if len(rows) >= limit or budget_bytes <= 0:
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
    for row in (yield from _of_keys(keys)):
        found.append((yield from messages.build_one(row, parent_id)))
    return found


def _of_keys(keys: list[int]) -> Plan[list[Row]]:
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
        for row in (yield from _of_keys(tree.leaves())):
            found.append((yield from messages.with_parent(row)))
    return found


def everything(ref: SessionRef, *, after_seq: int, limit: int, budget_bytes: int) -> Plan[Found]:
    """The next messages of all branches in seq order."""
    head = yield from common.take(ref)
    if head is None:
        return []
    keys = yield from _next_keys(head, after_seq, limit, budget_bytes)
    found: Found = []
    last_ids: dict[int, str] = {}
    for row in (yield from _of_keys(keys)):
        strand = strand_of(row[messages.KEY])
        if strand not in last_ids:
            parent = yield from common.parent_of(row[messages.KEY])
            parent_id = parent[1] if parent else None
        else:
            parent_id = last_ids[strand]
        last_ids[strand] = row[messages.ID]
        found.append((yield from messages.build_one(row, parent_id)))
    return found


def _next_keys(head: Head, after_seq: int, limit: int, budget_bytes: int) -> Plan[list[int]]:
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
    loaded: Found | None = None
    start = 0
    if count is not None and count <= SUFFIX_ROWS and budget_bytes is None and not path.laid:
        loaded = yield from _newest(path, count)
        start = loaded[0].seq if loaded else 0
    if loaded is None:
        start, rows, size = yield from _suffix_start(path, count, budget_bytes)
        if rows <= SUFFIX_ROWS and size <= messages.LARGE_BYTES:
            loaded = (yield from _shown(path, start, rows, size)) if rows else []
    hidden = view.hidden(path.laid)
    return Suffix(start, *(yield from _holds(head, path.ranges, counted)), loaded, hidden)


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
    return last.version == head.version or not (yield Ask("changed_keys", (head.session, last.version)))


def _newest(path: Path, count: int) -> Plan[Found | None]:
    """The newest messages of a path that hides nothing, oldest first; `None` if they are not little."""
    ranges = common.between(path.ranges, None, None, newest_first=True)
    rows = (yield from _rows(ranges, True, count, messages.LARGE_BYTES + 1)) if count else []
    if sum(row[messages.BYTES] for row in rows) > messages.LARGE_BYTES:
        return None
    return (yield from _built(path, rows[::-1]))


def _shown(path: Path, start: int, rows: int, size: int) -> Plan[Found]:
    """All that a path shows from a seq on."""
    found: Found = []
    for item in view.plan(path, after_seq=start - 1):
        if isinstance(item, view.Run):
            found += yield from _window(path, item.lo - 1, item.hi + 1, False, rows, size + 1)
        else:
            found.append(item)
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


def _suffix_start(path: Path, count: int | None, budget_bytes: int | None) -> Plan[tuple[int, int, int]]:
    """The seq that the suffix begins at, its messages and its bytes."""
    found = _Suffix(count, budget_bytes)
    heavy = count is None and budget_bytes is None
    for item in reversed(view.plan(path)):
        if isinstance(item, view.Run):
            fits = yield from _take_rows(path, item, found, heavy=heavy)
        else:
            fits = found.take(item.overlay.from_seq, item.bytes)
        if not fits:
            break
    return found.start, found.taken, found.total


def _take_rows(path: Path, run: view.Run, found: _Suffix, *, heavy: bool) -> Plan[bool]:
    """Take the rows of a run, newest first, as long as they fit; whether all of them did."""
    for item in common.between(path.ranges, run.lo - 1, run.hi + 1, newest_first=True):
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
    head = yield from common.take(ref)
    if head is None or head.incarnation != path.incarnation:
        return True
    if head.version == path.version:
        return False
    if (yield from common.pruned_version(head)) > path.version:
        return True
    rows = yield Ask("changed_keys", (head.session, path.version))
    return any(common.on_ranges(key, path.ranges) for (key,) in rows)


def leaf(ref: SessionRef) -> Plan[Message | Damaged | None]:
    """The active leaf, wherever its place is."""
    head = yield from common.take(ref)
    if head is None or not head.leaf:
        return None
    row = yield from common.last_at(head.leaf)
    return (yield from _one(row[0])) if row else None
