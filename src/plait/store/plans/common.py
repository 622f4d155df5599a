"""What most plans need: the session's head, places in the tree, paths, the change record."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from plait import jsontext, times
from plait.errors import LeaseHeldError, LeaseLostError, LimitError, SessionDeletedError
from plait.logic.ids import SHARED_SESSION, can_be_stored, is_hidden
from plait.logic.strands import MAX_SEQ, MAX_STRAND, key_of, seq_of, strand_of
from plait.model import Json, Leaf, Parent
from plait.store.plan import Ask, Bind, Do, Enter, Forget, Head, Plan, Put, Row, Take, Turn
from plait.store.protocol import Fence, Path, Range, SessionRef

BUCKET_US = 60 * 1_000_000
"""Coarse time of the activity table: a session moves in it at most once a minute."""

NO_PULSE = 1 << 62
"""The pulse of a hidden session: later than any tick, so that no feed is told of it."""

CHAIN_STEP = 256
"""Strands of a path fetched at a time, after the first: nearly every path is one strand."""


class Mark(Struct, frozen=True):
    """When an operation was called and under which id, both fixed before its first query."""

    at_us: int
    operation: str


def take(ref: SessionRef, *, fenced: bool = True) -> Plan[Head | None]:
    """The head of a live session, or `None`; refuses a ref bound to another life of it.

    In a write it also refuses whoever may not write now because of a lease, unless the session is
    only read (not `fenced`).
    """
    bound = ref.incarnation  # another thread's first write may bind the handle while this one looks
    head: Head | None = yield Take(ref)
    if head is not None and head.live and head.incarnation == ref.incarnation:
        if head.lease_until_us is not None or ref.lease is not None:
            yield from _fence(ref, head, fenced)
        return head
    if bound is not None:
        ref.over = True
        raise SessionDeletedError(
            f"session {ref.id!r} was deleted or cleared since this handle was bound to it; take a fresh handle",
            session_id=ref.id,
        )
    if head is None or not head.live:
        return None
    yield from _fence(ref, head, fenced)
    yield Bind(ref, head.incarnation)
    return head


def now_us() -> Plan[int]:
    """The time by the database's clock."""
    ((now,),) = yield Ask("now")
    return int(now)


def _fence(ref: SessionRef, head: Head, fenced: bool) -> Plan[None]:
    """Let only the holder of a session's lease write, and whoever comes once its time is over: that ends it."""
    if not (fenced and head.writing) or (head.lease_until_us is None and ref.lease is None):
        return
    now = yield from now_us()
    lease = ref.lease
    if lease is None:
        assert head.lease_until_us is not None
        if head.lease_until_us > now:
            yield from refuse_held(ref, head)
        yield from end_lease(head)
        return
    if head.epoch != lease.epoch or head.lease_until_us is None:
        lease.lost = True
        raise LeaseLostError(
            f"the lease on session {ref.id!r} is over: it was taken over, broken or given back, or somebody has written after it ran out; "
            "stop this turn, and take a new lease to go on from what is there",
            session_id=ref.id,
        )
    lease.until_us = head.lease_until_us
    if head.lease_until_us - now < lease.ttl_us * 2 // 3:
        yield from extend_lease(head, lease, now)


def extend_lease(head: Head, lease: Fence, now: int) -> Plan[None]:
    """Keep a lease for as long again."""
    head.lease_until_us = lease.until_us = now + lease.ttl_us
    yield Do("renew_lease", (lease.until_us, head.session))


def end_lease(head: Head) -> Plan[None]:
    """End a lease: whoever held it writes no more."""
    yield Do("drop_lease", (head.session,))
    head.lease_until_us = None
    head.epoch += 1
    head.changed = True


def refuse_held(ref: SessionRef, head: Head) -> Plan[None]:
    """Raise `LeaseHeldError` that says who holds the lease, and until when."""
    rows = yield Ask("find_lease", (head.session,))
    until_us, _, holder = rows[0]
    until = times.from_us(until_us)
    raise LeaseHeldError(
        f"session {ref.id!r} is leased to {holder or 'somebody else'} until {until.isoformat()}; try again then, "
        "or break_lease() if that worker is gone for good",
        session_id=ref.id,
        holder=holder,
        until=until,
    )


def take_or_create(ref: SessionRef, mark: Mark) -> Plan[Head]:
    """The head of the session, created if it is absent or deleted."""
    head = yield from take(ref)
    return head if head is not None else (yield from create(ref, mark))


def create(ref: SessionRef, mark: Mark, *, created_at_us: int | None = None) -> Plan[Head]:
    """Begin a new life of an absent or deleted session; its counters go on."""
    yield Enter(ref)
    incarnation = yield from next_number("incarnation")
    created = mark.at_us if created_at_us is None else created_at_us
    row = (incarnation, created, mark.at_us, ref.scope.tenant, ref.scope.owner, ref.id)
    yield Do("create_session", row)
    yield Forget(ref)
    head: Head | None = yield Take(ref)
    assert head is not None
    if ref.id != SHARED_SESSION:
        yield Put("add_activity", [(*_scope(ref), mark.at_us // BUCKET_US, head.session)])
    yield from _turn(head, mark)
    yield Bind(ref, incarnation)
    return head


def next_number(name: str) -> Plan[int]:
    """The next number of a persisted counter."""
    ((value,),) = yield Do("next_number", (name,))
    return int(value)


def next_strand() -> Plan[int]:
    strand = yield from next_number("strand")
    if strand > MAX_STRAND:
        raise LimitError(
            f"this store has used all {MAX_STRAND:,} strands; export its sessions and import them into a new one to go on"
        )
    return strand


def next_key(head: Head, strand: int) -> int:
    """The key of the next message of the session, if it goes into `strand`; uses up a seq."""
    key = key_of(strand, head.next_seq)
    head.next_seq += 1
    head.changed = True
    return key


def touch(ref: SessionRef, head: Head, mark: Mark) -> Plan[None]:
    """Note that something happened in the session now."""
    old, new = head.active_at_us // BUCKET_US, mark.at_us // BUCKET_US
    head.active_at_us = mark.at_us
    head.changed = True
    if old != new and not is_hidden(ref.id):
        yield Do("drop_activity", (*_scope(ref), old, head.session))
        yield Put("add_activity", [(*_scope(ref), new, head.session)])
        yield from _turn(head, mark)
    if head.to_mark:
        yield from mark_behind(ref, head)


def mark_behind(ref: SessionRef, head: Head) -> Plan[None]:
    """Note that the search index has something to catch up with, once until it has."""
    yield Put("add_search_behind", [(*_scope(ref), head.incarnation)])
    head.to_mark = False


def forget_search(incarnation: int) -> Plan[None]:
    """Forget how far the messages of a life that is over were indexed."""
    yield Do("drop_search_progress", (incarnation,))
    yield Do("drop_search_marks", (incarnation,))


def _turn(head: Head, mark: Mark) -> Plan[None]:
    """Let the store's tick go on if its minute is over: it counts up whatever the clock does."""
    rows = yield Do("turn_tick", (mark.at_us // BUCKET_US,))
    if rows:
        head.tick = rows[0][0]
        yield Turn(head.tick)


def pulse(head: Head) -> Plan[None]:
    """Before the first change of a session in a tick: note where it stands, for the feed of its scope."""
    if (head.pulse or 0) < head.tick:
        head.pulse = head.tick
        yield Do("add_pulse", (head.tick, head.incarnation, head.version, head.next_seq - 1, head.session))
        yield Do("set_pulse", (head.session, head.tick))


def silence(head: Head) -> Plan[None]:
    """Let no feed hear of a hidden session."""
    head.pulse = NO_PULSE
    yield Do("set_pulse", (head.session, NO_PULSE))


def pruned_version(head: Head) -> Plan[int]:
    """Up to which version the session's change rows are gone; nobody can tell what they said."""
    rows = yield Ask("pruned_version", (head.session,))
    return int(rows[0][0]) if rows else 0


def changed_keys(head: Head, version: int) -> Plan[list[int] | None]:
    """Keys of what was updated, deleted or overlaid since a version; `None` if that cannot be told any more."""
    if head.version == version:
        return []
    if (yield from pruned_version(head)) > version:
        return None
    keys: list[int] = []
    for kind, text in (yield Ask("changed_keys", (head.session, version))):
        data = jsontext.decode(text)
        keys += data["keys"] if kind == "delete" else [data["key"]]
    return keys


def record(head: Head, kind: str, mark: Mark, data: Json) -> Plan[None]:
    """Write the change row of a change that is not an append."""
    yield from pulse(head)
    head.version += 1
    head.changed = True
    row = (head.session, head.version, head.incarnation, kind, mark.operation, mark.at_us, jsontext.encode(data))
    yield Put("add_change", [row])


def _scope(ref: SessionRef) -> tuple[str, str]:
    return ref.scope.tenant, ref.scope.owner


def find(head: Head, id: str) -> Plan[int]:
    """The key of a message, 0 if absent."""
    rows: list[Row] = (yield Ask("find_message", (head.incarnation, id))) if can_be_stored(id) else []
    return int(rows[0][0]) if rows else 0


def chain(strand: int, seq: int, *, down_to: int = 1) -> Plan[list[Range]]:
    """The ranges of the path that ends at a place, leaf first, down to the one that holds a seq."""
    ranges: list[tuple[int, int]] = []
    ask = Ask("find_strand", (strand,))
    while strand and seq >= down_to:
        rows = yield ask
        for found, parent, fork in rows:
            ranges.append((found, seq))
            strand, seq = parent, min(seq, fork)
        if not rows or len(ranges) > len(set(ranges)):
            break  # the file is damaged: a strand is missing, or one of those it forks off forks off it
        ask = Ask("strand_chain", (strand, CHAIN_STEP))
    # The rows of a strand all come after its fork, where the next range ends.
    ends = [hi for _, hi in ranges[1:]] + [seq]
    return [Range(found, end + 1, hi) for (found, hi), end in zip(ranges, ends, strict=False)]


def path_to(key: int) -> Plan[tuple[Range, ...]]:
    """The ranges of the path that ends at `key`'s place, root first."""
    ranges = (yield from chain(strand_of(key), seq_of(key))) if key else []
    return tuple(reversed(ranges))


def on_ranges(key: int, ranges: Iterable[Range]) -> bool:
    """Whether one of the ranges covers the key."""
    return any(item.strand == strand_of(key) and item.lo <= seq_of(key) <= item.hi for item in ranges)


def between(
    ranges: Sequence[Range], after_seq: int | None, before_seq: int | None, *, newest_first: bool = False
) -> Iterator[Range]:
    """The parts of a path's ranges (root first) between two seqs, both excluded; looks at no others."""
    after = 0 if after_seq is None else after_seq
    before = MAX_SEQ + 1 if before_seq is None else before_seq
    first = bisect_right(ranges, after, key=lambda item: item.hi)
    end = bisect_left(ranges, before, key=lambda item: item.lo)
    for n in range(end - 1, first - 1, -1) if newest_first else range(first, end):
        item = ranges[n]
        lo, hi = max(item.lo, after + 1), min(item.hi, before - 1)
        if lo <= hi:
            yield Range(item.strand, lo, hi)


def last_before(ranges: Sequence[Range], seq: int) -> Plan[Row | None]:
    """The newest surviving (key, id) of a path's ranges (root first) before a seq."""
    for n in range(bisect_left(ranges, seq, key=lambda item: item.lo) - 1, -1, -1):
        item = ranges[n]
        rows = yield Ask("last_in_range", (key_of(item.strand, item.lo), key_of(item.strand, min(item.hi, seq - 1))))
        if rows:
            return rows[0]  # type: ignore[no-any-return]
    return None


def last_before_each(ranges: Sequence[Range], seqs: Sequence[int]) -> Plan[dict[int, str]]:
    """For each of some seqs the id of the newest surviving message of a path before it, if there is one."""
    asked: list[tuple[int, int, int]] = []
    for seq in seqs:
        n = bisect_left(ranges, seq, key=lambda item: item.lo) - 1
        if n >= 0:
            item = ranges[n]
            asked.append((seq, key_of(item.strand, item.lo), key_of(item.strand, min(item.hi, seq - 1))))
    rows: list[Row] = (yield Ask("last_in_each", (jsontext.encode(asked),))) if asked else []
    found: dict[int, str] = {}
    for seq, id in rows:
        row = (0, id) if id is not None else (yield from last_before(ranges, seq))
        if row:
            found[seq] = row[1]
    return found


def last_row(ranges: Iterable[Range]) -> Plan[Row | None]:
    """The newest surviving (key, id) of ranges given leaf first."""
    for item in ranges:
        rows = yield Ask("last_in_range", (key_of(item.strand, item.lo), key_of(item.strand, item.hi)))
        if rows:
            return rows[0]  # type: ignore[no-any-return]
    return None


Known: TypeAlias = dict[tuple[int, int], Row | None]
"""What `last_at` found from places in strands of which nothing is left before them."""


def last_at(key: int, known: Known | None = None) -> Plan[Row | None]:
    """The newest surviving (key, id) of the path that ends at a place; one look in nearly all cases.

    Who asks for many passes what is `known` on: the branches at one place may all hang below a long
    row of strands that deletes have emptied.
    """
    strand, seq = strand_of(key), seq_of(key)
    known = {} if known is None else known
    passed: list[tuple[int, int]] = []
    found: Row | None = None
    while strand and (strand, seq) not in known:
        rows = yield Ask("last_in_range", (key_of(strand, 0), key_of(strand, seq)))
        if rows:
            found = rows[0]
            break
        passed.append((strand, seq))
        known[strand, seq] = None  # twice at one place only in a damaged file
        forks = yield Ask("find_strand", (strand,))
        strand, seq = (forks[0][1], min(seq, forks[0][2])) if forks else (0, 0)
    else:
        found = known.get((strand, seq))
    known.update(dict.fromkeys(passed, found))
    return found


def parent_of(key: int, known: Known | None = None) -> Plan[Row | None]:
    """The (key, id) of the message a message answers, `None` for a root."""
    return last_at(key - 1, known)


def locate(head: Head) -> Plan[None]:
    """Find out which message the active leaf is, and whether its strand can be gone on with."""
    if head.located:
        return
    row = (yield from last_at(head.leaf)) if head.leaf else None
    head.leaf_id = row[1] if row else None
    head.tip = head.leaf != 0 and (yield from is_tip(head, head.leaf))
    head.located = True


def is_tip(head: Head, key: int) -> Plan[bool]:
    """Whether the key's strand can be gone on with after it: no surviving row and no overlay's end comes after."""
    rest = (key + 1, key_of(strand_of(key), MAX_SEQ))
    if (yield Ask("last_in_range", rest)):
        return False
    # What goes on here is not to run through the place of a deleted message where an overlay ends.
    return not head.overlays or not (yield Ask("overlays_ending", (jsontext.encode([rest]),)))


def resolve(head: Head, leaf: Parent) -> Plan[int]:
    """The key of the place `leaf` names, 0 if there is none."""
    if isinstance(leaf, Leaf):
        return head.leaf
    return 0 if leaf is None else (yield from find(head, leaf))


def path_of(head: Head, leaf: Parent) -> Plan[Path]:
    """The path to `leaf` in this committed state, its `leaf_id` still to be found."""
    return Path(head.incarnation, head.version, None, (yield from path_to((yield from resolve(head, leaf)))))


def fixed_path(head: Head, leaf: Parent) -> Plan[Path]:
    """The path to `leaf` in this committed state."""
    path = yield from path_of(head, leaf)
    return Path(path.incarnation, path.version, (yield from last_id(path.ranges)), path.ranges)


def last_id(ranges: Sequence[Range]) -> Plan[str | None]:
    """The id of the newest surviving message of a path's ranges (root first)."""
    row = yield from last_row(reversed(ranges))
    return row[1] if row else None


def range_totals(ranges: Iterable[Range]) -> Plan[tuple[int, int, int]]:
    """Messages, bytes and tokens of the surviving rows in ranges."""
    totals = (0, 0, 0)
    for item in ranges:
        ask = Ask("range_totals", (key_of(item.strand, item.lo), key_of(item.strand, item.hi)), heavy=True)
        rows = yield ask
        count, size, tokens = rows[0]
        totals = (totals[0] + count, totals[1] + size, totals[2] + tokens)
    return totals
