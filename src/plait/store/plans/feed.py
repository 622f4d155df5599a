"""The change feed: what happened in a session, or in the sessions of a scope, after a cursor.

An append is its own change record: its row keeps the version and the kind of its insertion. Change
rows record all else. Every version of a session is one or the other, so a reader knows how many
insertions lie between two versions, and need not look for more once it has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from plait import jsontext, times
from plait.errors import CursorExpiredError, UsageError
from plait.logic import feed
from plait.logic.feed import Position, ScopePosition
from plait.logic.ids import STAGE_PREFIX
from plait.logic.strands import key_of, seq_of, strand_of
from plait.model import Change, Changes, Damaged, Json, Message, Overlay
from plait.store.plan import Ask, Do, Head, Plan, Row, Take
from plait.store.plans import common, messages, overlays
from plait.store.protocol import Scope, SessionRef

NEAR = 512
"""How many insertions are looked for on the active path first, where they usually are."""

NEWEST = 64
"""How many strands, those begun last, are looked at next; all of them only if insertions are still missing."""

WIDEST = 4096
"""Seqs looked at in one query over all strands."""

PULSES = 500
SESSIONS = 100

Laid = dict[str, tuple[overlays.Lying, Overlay] | None]
"""Overlays by id: where each lies, and what it says."""


class Entry(Struct):
    """One change to deliver: an insertion (its row's key and flags), or a change row."""

    version: int
    key: int = 0
    flags: int = 0
    row: Row | None = None
    data: Json = {}


class Part(Struct):
    """Some of a session's changes, where the reader then stands, and whether these were all."""

    changes: list[Change]
    position: Position
    done: bool


def end(ref: SessionRef) -> Plan[str]:
    """The cursor after the last change of a session."""
    head: Head | None = yield Take(ref)
    return feed.session_cursor(ref, _end(head) if head is not None else Position())


def _end(head: Head, kept: int = 0) -> Position:
    return Position(head.incarnation, head.version, head.next_seq - 1, kept)


def page(ref: SessionRef, after: str | None, limit: int, budget_bytes: int) -> Plan[Changes]:
    """The next changes of a session, over all lives of its id."""
    start = feed.session_position(after, ref) if after is not None else None
    head: Head | None = yield Take(ref)
    if head is None:
        _not_ahead(ref, start, 0)
        return Changes([], feed.session_cursor(ref, start or Position()), False)
    _not_ahead(ref, start, head.version)
    pruned = yield from common.pruned_version(head)
    start = start or Position(kept=pruned)
    _not_expired(ref, start, pruned)
    part = yield from _part(ref, head, start, limit, budget_bytes)
    cursor = feed.session_cursor(ref, part.position)
    return Changes(part.changes, cursor, not part.done)


def _not_ahead(ref: SessionRef, start: Position | None, version: int) -> None:
    if start is not None and start.version > version:
        raise _ahead(f"session {ref.id!r}", f"which is at version {version}")


def _ahead(what: str, where: str) -> UsageError:
    return UsageError(
        f"this cursor is ahead of {what}, {where}: it comes from another copy of the store, or from before a backup "
        "was put back; begin anew with cursor() or without one"
    )


def _not_expired(ref: SessionRef, start: Position, pruned: int) -> None:
    if pruned > max(start.version, start.kept):
        raise CursorExpiredError(
            f"the changes of session {ref.id!r} after this cursor (version {start.version}) have been pruned up to "
            f"version {pruned}; read the session anew, and go on from its cursor()"
        )


# -- one session ---------------------------------------------------------------


def _part(ref: SessionRef, head: Head, start: Position, limit: int, budget_bytes: int) -> Plan[Part]:
    """The next changes of a session after a position."""
    if start.version >= head.version:
        return Part([], _end(head, start.kept), True)
    if start.incarnation != head.incarnation:  # seqs of another life say nothing about this one
        start = Position(head.incarnation, start.version, 0, start.kept)
    records, horizon = yield from _records(head, start, limit, budget_bytes)
    inserted, bound = yield from _insertions(head, start, horizon, records, limit)
    entries = sorted([*records, *inserted], key=lambda entry: entry.version)
    entries = [entry for entry in entries if entry.version <= bound]
    taken = entries[:limit]
    found, count = yield from _contents(head, taken, budget_bytes)
    laid, count = yield from _overlays(head, taken[:count], budget_bytes)
    done = count == len(entries) and bound == head.version
    changes, position = yield from _changes(ref, head, start, taken[:count], found, laid)
    return Part(changes, _end(head, start.kept) if done else position, done)


def _records(head: Head, start: Position, limit: int, budget_bytes: int) -> Plan[tuple[list[Entry], int]]:
    """The next change rows, and the version up to which these are all."""
    ask = Ask("changes_after", (head.session, start.version, limit), budget_bytes=budget_bytes, size_at=5)
    rows = yield ask
    entries = [Entry(row[0], row=row, data=jsontext.decode(row[4])) for row in rows]
    cut = len(rows) == limit or sum(row[5] for row in rows) >= budget_bytes
    return entries, entries[-1].version if cut else head.version


def _insertions(
    head: Head, start: Position, horizon: int, records: Sequence[Entry], limit: int
) -> Plan[tuple[list[Entry], int]]:
    """The surviving insertions up to a version, at least the next `limit`, and the version they are complete to."""
    missing = horizon - start.version - len(records)
    if not head.live or missing <= 0:
        return [], horizon
    if missing <= NEAR:
        rows = yield from _on_path(head, start.seq, missing)
        found = _between(start.version, horizon, rows)
        if len(found) == missing:
            return found, horizon
        rows += yield Ask("appends_on_newest", (head.incarnation, NEWEST, start.seq, NEAR + missing))
        found = _between(start.version, horizon, dict.fromkeys(rows))
        if len(found) == missing:
            return found, horizon
    return (yield from _everywhere(head, start, horizon, records, missing, limit))


def _between(after: int, upto: int, rows: Iterable[Row]) -> list[Entry]:
    return [Entry(version, key, flags) for key, version, flags in rows if after < version <= upto]


def _on_path(head: Head, after_seq: int, count: int) -> Plan[list[Row]]:
    """Insertions on the active path after a seq: where they all are, unless somebody wrote elsewhere."""
    rows: list[Row] = []
    if seq_of(head.leaf) <= after_seq:
        return rows
    for item in (yield from common.chain(strand_of(head.leaf), seq_of(head.leaf), down_to=after_seq + 1)):
        lo = max(item.lo, after_seq + 1)
        if lo <= item.hi:
            args = (key_of(item.strand, lo), key_of(item.strand, item.hi), count + 1)
            rows += yield Ask("appends_in_range", args)
    return rows


def _everywhere(
    head: Head, start: Position, horizon: int, records: Sequence[Entry], missing: int, limit: int
) -> Plan[tuple[list[Entry], int]]:
    """Insertions on all strands, those of each merge by themselves.

    Insertions come in the order of their seqs, and so do those of one merge; but a merge has later
    versions than its seqs say. What was seen of each is complete up to the last version of it.
    """
    merges = [_merge(entry) for entry in records if entry.row and entry.row[1] == head.incarnation]
    known = sorted((lo, hi) for lo, hi, _ in merges if lo <= hi)
    found, bound = yield from _scan(head, start, horizon, _outside(known, start.seq, head.next_seq - 1), limit, missing)
    for lo, hi, base in merges:
        rest = missing - len(found)
        first = lo + max(0, start.version - base)
        more, last = yield from _scan(head, start, horizon, [(first, hi)], limit, rest)
        found += more
        bound = min(bound, last)
    return found, bound


def _merge(entry: Entry) -> tuple[int, int, int]:
    """The seqs of the messages that a change row says were merged in, and the version before theirs."""
    lo, hi = entry.data.get("merged", (1, 0))
    return lo, hi, entry.version - 1 - (hi - lo + 1)


def _outside(known: Sequence[tuple[int, int]], after: int, upto: int) -> list[tuple[int, int]]:
    """The seqs after one up to another that no known merge has, as (first, last)."""
    parts: list[tuple[int, int]] = []
    for lo, hi in known:
        parts.append((after + 1, lo - 1))
        after = max(after, hi)
    return [(lo, hi) for lo, hi in [*parts, (after + 1, upto)] if lo <= hi]


def _scan(
    head: Head, start: Position, horizon: int, parts: Sequence[tuple[int, int]], limit: int, most: int
) -> Plan[tuple[list[Entry], int]]:
    """Insertions of seqs on all strands until there are `limit`, and up to which version these are all.

    There are not more than `most`, so that the search ends when it has those.
    """
    found: list[Entry] = []
    for lo, hi in parts:
        after, width = lo - 1, min(limit, WIDEST)
        while after < hi and len(found) < most:
            if len(found) >= limit:
                return found, max(entry.version for entry in found)
            to = min(after + width, hi)
            rows = yield Ask("appends_by_seq", (after, to, head.incarnation), heavy=True)
            found += _between(start.version, horizon, rows)
            after, width = to, min(2 * width, WIDEST)
    return found, horizon


def _contents(head: Head, entries: Sequence[Entry], budget_bytes: int) -> Plan[tuple[dict[int, Row], int]]:
    """The message rows that entries name as they are now, and how many entries the budget allows."""
    keys = [_content_key(head, entry) for entry in entries]
    asked = list(dict.fromkeys(key for key in keys if key))
    if not asked:
        return {}, len(entries)
    args = (messages.LARGE_BYTES, jsontext.encode(asked))
    rows = yield Ask("messages_by_keys", args, budget_bytes=budget_bytes, size_at=messages.BYTES)
    found = {row[messages.KEY]: row for row in rows}
    if sum(row[messages.BYTES] for row in rows) < budget_bytes:
        return found, len(entries)
    unread = set(asked[asked.index(rows[-1][messages.KEY]) + 1 :])
    return found, next((n for n, key in enumerate(keys) if key in unread), len(entries))


def _content_key(head: Head, entry: Entry) -> int:
    """The key of the message whose content goes with a change, 0 if none does."""
    if entry.row is None:
        return entry.key
    return int(entry.data.get("key", 0)) if entry.row[2] == "update" and _is_now(head, entry) else 0


def _is_now(head: Head, entry: Entry) -> bool:
    """Whether a change row is of the life that the session has now."""
    return entry.row is not None and bool(head.live) and entry.row[1] == head.incarnation


def _overlays(head: Head, entries: Sequence[Entry], budget_bytes: int) -> Plan[tuple[Laid, int]]:
    """The overlays that entries name as they are now, and how many entries the budget allows, at least one."""
    found: Laid = {}
    for n, entry in enumerate(entries):
        id = _overlay_id(head, entry)
        if id is None or id in found:
            continue
        if budget_bytes <= 0 and n:
            return found, n
        found[id] = yield from overlays.find(head, id)
        budget_bytes -= len(item[1].summary or "") if (item := found[id]) is not None else 0
    return found, len(entries)


def _overlay_of(head: Head, entry: Entry, laid: Laid) -> Overlay | None:
    """The overlay that goes with a change, as it is now; not one that was added later under the same id."""
    found = laid.get(_overlay_id(head, entry) or "")
    return found[1] if found is not None and found[0].version <= entry.version else None


def _overlay_id(head: Head, entry: Entry) -> str | None:
    """The id of the overlay that goes with a change, if one does."""
    if entry.row is None or entry.row[2] not in ("compact", "overlay") or not _is_now(head, entry):
        return None
    return str(entry.data["id"])


def _changes(
    ref: SessionRef,
    head: Head,
    start: Position,
    entries: Sequence[Entry],
    found: dict[int, Row],
    laid: Laid,
) -> Plan[tuple[list[Change], Position]]:
    changes: list[Change] = []
    position = start
    last: Row | None = None
    for entry in entries:
        seq = max(position.seq, seq_of(entry.key)) if entry.row is None else position.seq
        position = Position(head.incarnation, entry.version, seq, start.kept)
        row = found.get(_content_key(head, entry))
        message = (yield from _message(row, last)) if row is not None else None
        last = row or last
        cursor = feed.session_cursor(ref, position)
        if entry.row is not None:
            overlay = _overlay_of(head, entry, laid)
            changes.append(_recorded(ref, entry, message, overlay, cursor))
        elif message is not None:
            changes.append(_inserted(ref, entry, message, cursor))
    return changes, position


def _message(row: Row, last: Row | None) -> Plan[Message | Damaged]:
    """The message of a row; its parent is the one before it if their keys follow each other."""
    if last is not None and last[messages.KEY] + 1 == row[messages.KEY]:
        return (yield from messages.build_one(row, last[messages.ID]))
    return (yield from messages.with_parent(row))


def _inserted(ref: SessionRef, entry: Entry, message: Message | Damaged, cursor: str) -> Change:
    moved = not entry.flags & messages.BESIDE
    return Change(
        "import" if entry.flags & messages.IMPORTED else "append",
        ref.id,
        message if isinstance(message, Message) else None,
        message.parent_id,
        ids=(message.id,),
        leaf_moved=moved,
        leaf_id=message.id if moved else None,
        damaged=message if isinstance(message, Damaged) else None,
        version=entry.version,
        at=message.created_at if isinstance(message, Message) else None,
        cursor=cursor,
    )


def _recorded(
    ref: SessionRef, entry: Entry, message: Message | Damaged | None, overlay: Overlay | None, cursor: str
) -> Change:
    assert entry.row is not None
    version, _, kind, at_us, _, _ = entry.row
    data = entry.data
    ids = data.get("ids", [data["id"]] if isinstance(data.get("id"), str) else [])
    moved = kind in ("checkout", "clear", "delete session") or "leaf" in data
    return Change(
        kind,
        ref.id,
        message if isinstance(message, Message) else None,
        ids=tuple(ids),
        overlay=overlay,
        removed=bool(data.get("removed")),
        leaf_moved=moved,
        leaf_id=data.get("id") if kind == "checkout" else data.get("leaf"),
        damaged=message if isinstance(message, Damaged) else None,
        version=version,
        at=times.from_us(at_us),
        cursor=cursor,
        label=data.get("label"),
        key=data.get("name"),
        value_version=data.get("value"),
    )


# -- the sessions of a scope ---------------------------------------------------


class Reader:
    """What is delivered of a scope so far, in one snapshot."""

    def __init__(self, scope: Scope, position: ScopePosition, tick: int, limit: int, budget_bytes: int) -> None:
        self.scope = scope
        self.now = tick
        self.tick = position.tick
        self.at = dict(position.at)
        self.walked = position.walked
        self.walking = position.walking
        self.changes: list[Change] = []
        self._limit = limit
        self._budget = budget_bytes

    @property
    def full(self) -> bool:
        return len(self.changes) >= self._limit or self._budget <= 0

    def read(self, id: str, place: Position | None) -> Plan[Head | None]:
        """Deliver the next changes of a session; its head, unless there is more of it or of this page."""
        ref = SessionRef(self.scope, id)
        head: Head | None = yield Take(ref)
        if head is None or self.full:
            return None
        pruned = yield from common.pruned_version(head)
        place = place or Position(kept=pruned)
        _not_ahead(ref, place, head.version)
        _not_expired(ref, place, pruned)
        part = yield from _part(ref, head, place, self._limit - len(self.changes), self._budget)
        self.changes += part.changes
        self._budget -= sum(change.message.bytes for change in part.changes if change.message is not None)
        self._budget -= sum(len(change.overlay.summary or "") for change in part.changes if change.overlay is not None)
        self.at[head.session] = part.position
        return head if part.done else None

    def page(self, start: str, more: bool) -> Changes:
        """What was delivered; only the last change has the cursor after it, those before may come again."""
        position = ScopePosition(self.tick, self.at, self.walked, self.walking)
        cursor = feed.scope_cursor(self.scope, position)
        changes = [replace(change, cursor=start) for change in self.changes]
        if changes:
            changes[-1] = replace(changes[-1], cursor=cursor)
        return Changes(changes, cursor, more)


def scope_end(scope: Scope) -> Plan[str]:
    """The cursor after the last change of a scope."""
    position = yield from _scope_end(scope)
    return feed.scope_cursor(scope, position)


def _scope_end(scope: Scope) -> Plan[ScopePosition]:
    tick, _ = yield from _ticks()
    at: dict[int, Position] = {}
    after = 0
    while True:
        rows = yield Ask("pulses", (scope.tenant, scope.owner, tick, after, PULSES), heavy=after > 0)
        for _, session, _, _, _, id, _, _ in rows:
            head: Head | None = yield Take(SessionRef(scope, id))
            if head is not None:
                at[session] = _end(head)
            after = session
        if len(rows) < PULSES:
            return ScopePosition(tick, at)


def _ticks() -> Plan[tuple[int, int]]:
    """The newest tick before which nothing is written any more, and the newest of all."""
    ((over, newest),) = yield Ask("tick")
    return int(over), int(newest)


def scope_page(scope: Scope, after: str | None, limit: int, budget_bytes: int) -> Plan[Changes]:
    """The next changes of a scope's sessions: at least once each, in order for each session."""
    tick, newest = yield from _ticks()
    if after is None:
        start = ScopePosition(tick, {}, walking=True)
    else:
        start = feed.scope_position(after, scope)
        yield from _check_tick(scope, start.tick, newest)
    # What was over once stays so, whether or not it can still be told: a restored database has other numbers.
    reader = Reader(scope, start, max(tick, start.tick), limit, budget_bytes)
    whole = (yield from _walk(reader)) and (yield from _follow(reader))
    return reader.page(after if after is not None else feed.scope_cursor(scope, start), not whole)


def _check_tick(scope: Scope, tick: int, now: int) -> Plan[None]:
    if tick > now:
        raise _ahead("the store", f"which is at tick {now}")
    rows = yield Ask("pruned_tick", (scope.tenant, scope.owner))
    if rows and rows[0][0] > tick:
        raise CursorExpiredError(
            "which sessions changed after this cursor has been pruned; read them anew, and go on from cursor()"
        )


def _walk(reader: Reader) -> Plan[bool]:
    """Go through the sessions there are, in the order of their ids; whether all have been."""
    scope = reader.scope
    while reader.walking:
        rows = yield Ask("sessions_after", (scope.tenant, scope.owner, reader.walked or "", SESSIONS))
        for (id,) in rows:
            head: Head | None = yield Take(SessionRef(scope, id))
            assert head is not None
            if (yield from reader.read(id, reader.at.get(head.session))) is None:
                return False
            reader.walked = id
            if (head.pulse or 0) < reader.tick:  # its next change makes a pulse, which will say where it stood
                del reader.at[head.session]
        if len(rows) < SESSIONS:
            reader.walking, reader.walked = False, None
    return True


def _follow(reader: Reader) -> Plan[bool]:
    """Go through the sessions with pulses from the reader's tick on; whether all have been.

    Where all pulses before a tick are done, so is every session whose newest pulse came before it:
    the next change of it must make a new one.
    """
    scope = reader.scope
    newest: dict[int, int] = {}
    last = (reader.tick, 0)
    while True:
        rows = yield Ask("pulses", (scope.tenant, scope.owner, *last, PULSES), heavy=last[1] > 0)
        for tick, session, incarnation, version, seq, id, now, pulse in rows:
            reader.tick = min(
                tick, reader.now
            )  # where many write at once, a pulse may have a later tick than is over for all
            newest[session] = pulse or 0
            place = reader.at.get(session) or Position(incarnation, version, seq)
            if place.version > now:
                raise _ahead(f"session {id!r}", f"which is at version {now}")
            if place.version == now:
                reader.at[session] = place
            elif (yield from reader.read(id, place)) is None:
                _forget(reader, newest)
                return False
            last = (tick, session)
        if len(rows) < PULSES:
            reader.tick = reader.now
            reader.at = {session: place for session, place in reader.at.items() if newest.get(session, 0) >= reader.now}
            return True


def _forget(reader: Reader, newest: dict[int, int]) -> None:
    for session, pulse in newest.items():
        if pulse < reader.tick:
            reader.at.pop(session, None)


# -- pruning -------------------------------------------------------------------


def sessions_of(scope: Scope, after: str) -> Plan[tuple[list[str], bool]]:
    """The next ids of a scope's sessions, those that are over too, and whether more may come."""
    rows = yield Ask("sessions_after", (scope.tenant, scope.owner, after, SESSIONS))
    return [id for (id,) in rows], len(rows) == SESSIONS


def prune(ref: SessionRef, before_us: int | None, keep: int | None, limit: int) -> Plan[int]:
    """Forget the first change rows of a session that are older than a time, or more than are to be kept.

    Answers how many of them, at most `limit`. Never one that comes after a newer one, whatever the clocks said.
    """
    head: Head | None = yield Take(ref)
    if head is None or ref.id.startswith(STAGE_PREFIX):
        return 0
    beyond: list[Row] = (yield Ask("change_from_end", (head.session, keep))) if keep is not None else []
    upto = beyond[0][0] if beyond else 0
    gone: list[int] = []
    for version, at_us in (yield Ask("oldest_changes", (head.session, limit))):
        if version > upto and (before_us is None or at_us >= before_us):
            break
        gone.append(version)
    if gone:
        yield Do("prune_changes", (head.session, gone[-1]))
        yield Do("set_pruned_version", (head.session, gone[-1]))
    return len(gone)


def prune_pulses(scope: Scope, before_us: int, limit: int) -> Plan[bool]:
    """Forget up to `limit` pulses of a scope that are older than a time; whether there may be more."""
    over, _ = yield from _ticks()
    tick = min(before_us // common.BUCKET_US, over)
    rows: list[Row] = yield Ask("oldest_pulses", (scope.tenant, scope.owner, tick, limit))
    if rows:
        last: Any = rows[-1]
        yield Do("prune_pulses", (scope.tenant, scope.owner, *last))
        yield Do("set_pruned_tick", (scope.tenant, scope.owner, last[0] + 1))
    return len(rows) == limit
