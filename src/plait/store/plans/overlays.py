"""Overlays: added, listed and removed by position, and laid on paths.

An overlay ends at a place, and lies on every path that runs through it: all that it covers is
then on the path, too, since one path leads to a place. Places count, not the rows there, so no
delete changes which paths an overlay lies on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from plait import jsontext, times
from plait.errors import ConflictError, NotFoundError, StaleValueError, UsageError, no_session
from plait.logic import view
from plait.logic.ids import can_be_stored
from plait.logic.strands import key_of, seq_of, strand_of
from plait.model import Covered, Json, Overlay, OverlayAdded, Parent
from plait.store.plan import Ask, Do, Enter, Head, Plan, Put, Row
from plait.store.plans import common
from plait.store.plans.common import Mark
from plait.store.protocol import Laid, NewOverlay, Range, Scope, SessionRef, Span

AS_THEY_WERE = ("user", "system")
"""Roles of messages that a text in their place keeps; whatever else is replaced speaks as the assistant."""


class Lying(Struct, frozen=True):
    """An overlay's row without what it says. `place` is the key it ends at, `first` the seq it begins at."""

    number: int
    place: int
    first: int
    version: int
    kind: str
    role: str
    tokens: int
    bytes: int
    created_at_us: int
    covers: Covered
    hides: Covered
    stale: bool
    id: str

    @classmethod
    def of(cls, row: Row) -> Lying:
        number, place, first, version, kind, role, tokens, size, at, *rest = row
        covers, hides = Covered(*rest[:3]), Covered(*rest[3:6])
        return cls(number, place, first, version, kind, role, tokens, size, at, covers, hides, bool(rest[6]), rest[7])

    @property
    def last(self) -> int:
        """The seq it ends at."""
        return seq_of(self.place)

    @property
    def shows(self) -> bool:
        """Whether it shows a text, which then has bytes, in place of what it covers."""
        return self.bytes > 0

    def taken_off(self) -> tuple[int, int, int]:
        """Messages, bytes and tokens that a path shows less because of it."""
        hides = self.hides
        return hides.messages - self.shows, hides.bytes - self.bytes, hides.tokens - (self.tokens if self.shows else 0)

    def overlay(self, from_id: str, to_id: str, summary: str | None) -> Overlay:
        return Overlay(
            self.id,
            self.kind,  # type: ignore[arg-type]
            summary,
            from_id,
            to_id,
            self.first,
            self.last,
            times.from_us(self.created_at_us),
            self.covers,
            self.hides.messages,
            self.tokens,
            self.stale,
        )


_PLACE, _FIRST, _VERSION, _LEFT = 1, 2, 3, 12
LYING = 17
"""How many columns of an overlay's row come before what it says."""


# -- laying them on ------------------------------------------------------------

NEAR = 16
"""How many overlays are looked at from the end of a path at first, and in how many of its ranges."""


def laid_on(head: Head, ranges: Sequence[Range]) -> Plan[tuple[Laid, ...]]:
    """The overlays that lie on a path with nothing over them, root first."""
    return (yield from laid((yield from outermost_on(head, ranges)), ranges))


def outermost_on(head: Head, ranges: Sequence[Range]) -> Plan[list[Lying]]:
    """The overlays of a path that hide something and have nothing over them, root first."""
    if not head.overlays or not ranges:
        return []
    return _outermost((yield _ending(ranges)))


def outermost_near_end(head: Head, ranges: Sequence[Range]) -> Plan[tuple[list[Lying], int]]:
    """Those at the end of a path, without looking at all; and the seq up to which more may lie."""
    if not head.overlays:
        return [], 0
    found: list[Row] = []
    unseen_upto = 0
    for item in reversed(ranges[-NEAR:]):
        rows = yield Ask("overlays_down", (key_of(item.strand, item.lo), key_of(item.strand, item.hi), NEAR))
        found += rows
        unseen_upto = seq_of(rows[-1][_PLACE]) if len(rows) == NEAR else item.lo - 1
        if len(found) >= NEAR:
            break
    return _outermost(found), unseen_upto if len(found) < head.overlays else 0


def _outermost(rows: Iterable[Row]) -> list[Lying]:
    """Of overlays' rows those that hide something and have nothing over them; looked at as they are, for they may be many."""
    spans = [(row[_FIRST], seq_of(row[_PLACE]), row[_VERSION], row) for row in rows if row[_LEFT]]
    return list(map(Lying.of, view.outermost(spans)))


def laid(found: Sequence[Lying], ranges: Sequence[Range]) -> Plan[tuple[Laid, ...]]:
    """Overlays of a path with what they show and after which message."""
    texts = yield from _texts(found)
    above = yield from common.last_before_each(ranges, [item.first for item in found if item.shows])
    return tuple(
        Laid(item.overlay(*texts[item.number]), item.role, above.get(item.first), item.bytes, item.hides)
        for item in found
    )


def hidden_on(head: Head, ranges: Sequence[Range]) -> Plan[tuple[int, int, int]]:
    """What overlays take off a path."""
    taken = [item.taken_off() for item in (yield from outermost_on(head, ranges))]
    return sum(item[0] for item in taken), sum(item[1] for item in taken), sum(item[2] for item in taken)


def _ending_in(ranges: Iterable[Range]) -> Plan[list[Lying]]:
    """The overlays that end in ranges."""
    return [Lying.of(row) for row in (yield _ending(ranges))]


def _ending(ranges: Iterable[Range]) -> Ask:
    keys = [[key_of(item.strand, item.lo), key_of(item.strand, item.hi)] for item in ranges]
    return Ask("overlays_ending", (jsontext.encode(keys),))


def _texts(found: Sequence[Lying]) -> Plan[dict[int, Any]]:
    """From, to and summary of overlays, by number."""
    if not found:
        return {}
    rows = yield Ask("overlay_texts", (jsontext.encode([item.number for item in found]),))
    return {number: says for number, *says in rows}


def recount(head: Head) -> Plan[None]:
    """Find out anew what overlays take off the active path."""
    if not head.overlays:
        head.set_hidden((0, 0, 0))
    else:
        head.set_hidden((yield from hidden_on(head, (yield from common.path_to(head.leaf)))))


# -- asking ----------------------------------------------------------------------


def listing(ref: SessionRef, leaf: Parent, *, everywhere: bool) -> Plan[list[Overlay]]:
    """The overlays that lie on the path to a leaf, also those below others, or all; in the order they were added."""
    head = yield from common.take(ref)
    if head is None or not head.overlays:
        return []
    rows = yield Ask("overlays_of", (head.incarnation,))
    found = [(Lying.of(row[:LYING]), row[LYING:]) for row in rows]
    if not everywhere:
        ranges = yield from common.path_to((yield from common.resolve(head, leaf)))
        found = [item for item in found if common.on_ranges(item[0].place, ranges)]
    found.sort(key=lambda item: item[0].version)
    return [item.overlay(*says) for item, says in found]


def get(ref: SessionRef, id: str) -> Plan[Overlay | None]:
    """One overlay."""
    head = yield from common.take(ref)
    found = (yield from find(head, id)) if head else None
    return None if found is None else found[1]


def find(head: Head, id: str) -> Plan[tuple[Lying, Overlay] | None]:
    """One overlay of a session whose head is taken: where it lies, and what it says."""
    if not head.overlays or not can_be_stored(id):
        return None
    rows = yield Ask("find_overlay", (head.incarnation, id))
    if not rows:
        return None
    item = Lying.of(rows[0][:LYING])
    return item, item.overlay(*rows[0][LYING:])


def covering(ref: SessionRef, ids: Sequence[str]) -> Plan[dict[str, list[str]]]:
    """For each of these messages that some overlay covers, on whichever branch, the ids of such overlays."""
    head = yield from common.take(ref)
    if head is None or not head.overlays:
        return {}
    asked = [id for id in dict.fromkeys(ids) if can_be_stored(id)]
    keys = {key: id for id, key in (yield Ask("find_messages", (jsontext.encode(asked), head.incarnation)))}
    found: dict[str, list[str]] = {}
    for key, items in (yield from over(head, list(keys))).items():
        found[keys[key]] = [item.id for item in sorted(items, key=lambda item: item.version)]
    return {id: found[id] for id in asked if id in found}


def over(head: Head, keys: Sequence[int]) -> Plan[dict[int, list[Lying]]]:
    """The overlays that cover places, by key."""
    if not head.overlays or not keys:
        return {}
    pairs = yield Ask("overlays_over", (jsontext.encode(list(keys)),))
    numbers = sorted({number for _, number in pairs})
    rows: list[Row] = (yield Ask("overlays_by_number", (jsontext.encode(numbers),))) if numbers else []
    items = {row[0]: Lying.of(row) for row in rows}
    found: dict[int, list[Lying]] = {}
    for key, number in pairs:
        if number in items:
            found.setdefault(key, []).append(items[number])
    return found


# -- adding and removing -----------------------------------------------------------


def add(
    ref: SessionRef,
    new: NewOverlay,
    mark: Mark,
    *,
    leaf: Parent,
    expect_version: int | None,
    span: Span | None = None,
    change: Literal["overlay", "compact"],
) -> Plan[OverlayAdded]:
    """Lay an overlay on a range of the path to `leaf`, or on a span of a path of before."""
    head = yield from common.take(ref)
    if head is None:
        raise no_session(ref.id, " to lay an overlay on")
    known = yield from find(head, new.id)
    if known is not None:
        return OverlayAdded(known[1], inserted=False)
    if span is None:
        path, ranges = yield from _named(head, new, leaf, expect_version)
    else:
        path, ranges, expect_version = span.path.ranges, _of(span), span.path.version
        if span.path.incarnation != head.incarnation:
            raise StaleValueError(f"session {ref.id!r} has been cleared; read it again", session_id=ref.id)
    if not ranges:
        raise UsageError(f"message {new.to_id!r} comes before {new.from_id!r}; give the older one first")
    if expect_version is not None:
        yield from _refuse_changed(head, ranges, expect_version)
    covered = yield from _refuse_crossing(head, new, path, ranges)
    if covered is not None:
        return OverlayAdded(covered, inserted=False, covered=True)
    stored = yield from _insert(head, new, mark, ranges, change)
    yield from recount(head)
    yield from common.touch(ref, head, mark)
    return OverlayAdded(stored)


def _end(head: Head, id: str, path: Sequence[Range], moved: bool) -> Plan[int]:
    """The key of an end of a range, which is on the path; if the session `moved` on, it may have been once."""
    key = yield from common.find(head, id)
    if moved and not common.on_ranges(key, path):
        raise StaleValueError(f"message {id!r} is not on that path any more; read the range again")
    if not key:
        raise NotFoundError(
            f"there is no message {id!r} in this session to lay an overlay on; take both ids from history()"
        )
    if not common.on_ranges(key, path):
        raise UsageError(f"message {id!r} is on another branch; name a leaf of its path with leaf=")
    return key


def _named(
    head: Head, new: NewOverlay, leaf: Parent, expect_version: int | None
) -> Plan[tuple[tuple[Range, ...], list[Range]]]:
    """The path to a leaf, and its ranges from one message to another."""
    path = yield from common.path_to((yield from common.resolve(head, leaf)))
    moved = expect_version is not None and expect_version < head.version
    last = yield from _end(head, new.to_id, path, moved)
    first = yield from _end(head, new.from_id, path, moved)
    return path, _between(path, seq_of(first), seq_of(last))


def _of(span: Span) -> list[Range]:
    return _between(span.path.ranges, span.from_seq, span.to_seq)


def _between(path: Iterable[Range], first: int, last: int) -> list[Range]:
    cut = [Range(item.strand, max(item.lo, first), min(item.hi, last)) for item in path]
    return [item for item in cut if item.lo <= item.hi]


def _refuse_changed(head: Head, ranges: Sequence[Range], version: int) -> Plan[None]:
    if version > head.version:
        raise UsageError(f"expect_version is {version}, but the session is at version {head.version}")
    changed = yield from common.changed_keys(head, version)
    if changed is None or any(common.on_ranges(key, ranges) for key in changed):
        raise StaleValueError(
            f"a message or an overlay in the range was changed since version {version}; read the range again"
        )


def _refuse_crossing(
    head: Head, new: NewOverlay, path: Sequence[Range], ranges: Sequence[Range]
) -> Plan[Overlay | None]:
    """The overlay on this path that covers the range already, if the new one may be left out then.

    Raises `ConflictError` for a range that crosses an overlay on any path that both would lie on,
    and for a summary inside another overlay of this path.
    """
    first, place = ranges[0].lo, key_of(ranges[-1].strand, ranges[-1].hi)
    around = [item for item in (yield from over(head, [place])).get(place, []) if item.first <= first]
    around = [item for item in around if common.on_ranges(item.place, path)]
    if around and new.kind != "compaction":
        outer = max(around, key=lambda item: (-item.first, item.last, item.version))
        return outer.overlay(*(yield from _texts([outer]))[outer.number])
    in_the_way = yield from _first_crossing(head, ranges)
    if in_the_way is not None:
        raise _crossing(new, in_the_way)
    inside = [item for item in around if (item.first, item.place) != (first, place)]
    if inside:
        raise ConflictError(
            f"the range from {new.from_id!r} to {new.to_id!r} lies inside overlay {inside[0].id!r}; "
            "remove that one first, or cover all of it",
            overlay_id=inside[0].id,
        )
    return None


def _first_crossing(head: Head, ranges: Sequence[Range]) -> Plan[Lying | None]:
    """An overlay that crosses ranges on some path that both would lie on."""
    first, place = ranges[0].lo, key_of(ranges[-1].strand, ranges[-1].hi)
    for item in (yield from _meeting(head, ranges, place)):
        ends_inside = common.on_ranges(item.place, ranges)
        if (item.first < first and item.place != place) if ends_inside else item.first > first:
            return item
    return None


def crossing(ref: SessionRef, span: Span) -> Plan[Overlay | None]:
    """An overlay that a summary of a span would cross."""
    head = yield from common.take(ref)
    ranges = _of(span)
    if head is None or head.incarnation != span.path.incarnation or not ranges:
        return None
    item = yield from _first_crossing(head, ranges)
    return None if item is None else item.overlay(*(yield from _texts([item]))[item.number])


def _meeting(head: Head, ranges: Sequence[Range], place: int) -> Plan[list[Lying]]:
    """The overlays that have a place in common with ranges on some path that both lie on."""
    if not head.overlays:
        return []
    found = {item.number: item for item in (yield from _ending_in(ranges))}
    found |= {item.number: item for item in (yield from over(head, [place])).get(place, [])}
    return list(found.values())


def _crossing(new: NewOverlay, other: Lying) -> ConflictError:
    return ConflictError(
        f"the range from {new.from_id!r} to {new.to_id!r} crosses overlay {other.id!r}, which covers "
        f"seq {other.first} to {other.last}; cover all of it or nothing of it, or remove it first",
        overlay_id=other.id,
    )


def _insert(
    head: Head, new: NewOverlay, mark: Mark, ranges: Sequence[Range], change: Literal["overlay", "compact"]
) -> Plan[Overlay]:
    covers = Covered(*(yield from common.range_totals(ranges)))
    place = key_of(ranges[-1].strand, ranges[-1].hi)
    role = yield from _role(new, place)
    size = (
        0
        if new.summary is None
        else len(view.body(new.id, new.kind, role, new.summary).encode("utf-8", "surrogatepass"))
    )
    stale = new.stale or (new.summary is not None and (yield from _shows_stale(head, ranges)))
    yield from common.record(head, change, mark, _told(new.id, place, added=True))
    item = Lying(
        0, place, ranges[0].lo, head.version, new.kind, role, new.tokens, size, new.created_at_us,
        covers, covers, stale, new.id,
    )  # fmt: skip
    yield from put(head, item, (new.from_id, new.to_id, new.summary), ranges)
    return item.overlay(new.from_id, new.to_id, new.summary)


def _shows_stale(head: Head, ranges: Sequence[Range]) -> Plan[bool]:
    """Whether a stale text lies in ranges: a text in its place was made of it, and may repeat what was deleted."""
    if not head.overlays:
        return False
    return any(item.stale and item.shows for item in (yield from _ending_in(ranges)))


def _role(new: NewOverlay, last: int) -> Plan[str]:
    """Who speaks where the overlay shows its text."""
    if new.kind in ("replace", "unload"):
        rows = yield Ask("message_stats", (last, last, 1))
        if rows and rows[0][2] in AS_THEY_WERE:
            return str(rows[0][2])
    return "assistant"


def put(head: Head, item: Lying, says: tuple[str, str, str | None], ranges: Iterable[Range]) -> Plan[None]:
    """Write an overlay's rows."""
    row = (head.incarnation, item.place, item.first, item.version, item.kind, item.role, item.tokens, item.bytes)
    covers, hides = item.covers, item.hides
    counts = (covers.messages, covers.bytes, covers.tokens, hides.messages, hides.bytes, hides.tokens)
    ((number,),) = yield Do("add_overlay", (*row, item.created_at_us, *counts, int(item.stale), item.id, *says))
    yield Put("add_overlay_range", [(part.strand, part.lo, number, part.hi) for part in ranges])
    head.overlays += 1
    head.changed = True


def _told(id: str, place: int, **what: bool) -> Json:
    """What the change record says of an overlay."""
    return {"id": id, "key": place, **what}


def remove(ref: SessionRef, id: str, mark: Mark) -> Plan[Overlay | None]:
    """Take an overlay away; what it covered, and older overlays below it, are seen again.

    `ConflictError` if a newer summary over it was made without what it hides: that would hide what no
    summary covers. A summary below another is in that one, and may go.
    """
    head = yield from common.take(ref)
    found = (yield from find(head, id)) if head else None
    if head is None or found is None:
        return None
    item, overlay = found
    yield from _refuse_uncovering(head, item)
    yield from _drop(head, item, mark)
    yield from recount(head)
    yield from common.touch(ref, head, mark)
    return overlay


def _drop(head: Head, item: Lying, mark: Mark) -> Plan[None]:
    yield Do("drop_overlay_ranges", (item.number,))
    yield Do("drop_overlay", (item.number,))
    head.overlays -= 1
    yield from common.record(head, "overlay", mark, _told(item.id, item.place, removed=True))


def _refuse_uncovering(head: Head, item: Lying) -> Plan[None]:
    if item.kind == "compaction":
        return
    around = (yield from over(head, [item.place])).get(item.place, [])
    newer = [
        other
        for other in around
        if other.kind == "compaction" and other.version > item.version and other.first <= item.first
    ]
    if newer:
        outer = max(newer, key=lambda other: other.version)
        raise ConflictError(
            f"overlay {item.id!r} lies inside summary {outer.id!r}, which was made without what it hides; "
            "remove that one first",
            overlay_id=outer.id,
        )


def with_stale_texts() -> Plan[list[SessionRef]]:
    """The sessions that have overlays whose text may say what was deleted or changed below them."""
    rows = yield Ask("sessions_with_stale_texts", heavy=True)
    return [SessionRef(Scope(tenant, owner), session) for tenant, owner, session in rows]


def erase_stale_texts(ref: SessionRef, mark: Mark) -> Plan[None]:
    """Take away the overlays of a session whose text may say what was deleted or changed below them.

    A summary that was made of such a text is stale, too, so none is left to hide what it does not cover.
    """
    head = yield from common.take(ref)
    if head is None or not head.overlays:
        return
    found = [Lying.of(row[:LYING]) for row in (yield Ask("overlays_of", (head.incarnation,)))]
    for item in sorted((item for item in found if item.stale and item.shows), key=lambda item: -item.version):
        yield from _drop(head, item, mark)
    yield from recount(head)
    yield from common.touch(ref, head, mark)


def note_changed(head: Head, changed: Sequence[tuple[int, int, int, int]], mark: Mark) -> Plan[None]:
    """Messages at these keys have changed by (messages, bytes, tokens): mark stale the overlays that cover them.

    To be called when the session's own record of the change is written.
    """
    found = yield from over(head, [key for key, *_ in changed])
    if not found:
        return
    sums: dict[int, list[int]] = {}
    items: dict[int, Lying] = {}
    for key, *by in changed:
        for item in found.get(key, []):
            items[item.number] = item
            sums[item.number] = [a + b for a, b in zip(sums.get(item.number, [0, 0, 0]), by, strict=True)]
    yield from _go_stale(head, items, sums, mark)


def _go_stale(head: Head, items: Mapping[int, Lying], sums: Mapping[int, Sequence[int]], mark: Mark) -> Plan[None]:
    for number in sorted(items):
        yield Do("change_overlay", (*sums[number], number))
        if not items[number].stale:
            yield from common.record(head, "overlay", mark, _told(items[number].id, items[number].place, stale=True))
    yield from recount(head)


def note_removed(head: Head, within: Callable[[int, int], tuple[int, int, int]], mark: Mark) -> Plan[None]:
    """The same for very many messages that are removed; `within` counts those between two keys."""
    sums: dict[int, list[int]] = {}
    for number, strand, lo, hi in (yield Ask("overlay_ranges_of", (head.incarnation,))) if head.overlays else ():
        gone = within(key_of(strand, lo), key_of(strand, hi))
        sums[number] = [a - b for a, b in zip(sums.get(number, [0, 0, 0]), gone, strict=True)]
    sums = {number: by for number, by in sums.items() if by[0]}
    if sums:
        rows = yield Ask("overlays_by_number", (jsontext.encode(sorted(sums)),))
        yield from _go_stale(head, {row[0]: Lying.of(row) for row in rows}, sums, mark)


# -- copying, one compaction at a time ----------------------------------------------


def copy(source: Head, path: Sequence[Range], stage: SessionRef, target: Head, mark: Mark) -> Plan[None]:
    """Lay on the copy of a path, which is one strand, the overlays that lie on the path and show something."""
    if not source.overlays:
        return
    strand, last_seq = strand_of(target.leaf), seq_of(target.leaf)
    found = [item for item in (yield from _ending_in(path)) if item.hides.messages]
    texts = yield from _texts(found)
    yield Enter(stage)
    for item in sorted(found, key=lambda item: item.version):
        last = min(item.last, last_seq)
        place = key_of(strand, last)
        yield from common.record(target, "overlay", mark, _told(item.id, place, added=True))
        copied = Lying(
            0, place, item.first, target.version, item.kind, item.role, item.tokens, item.bytes,
            item.created_at_us, item.covers, item.hides, item.stale, item.id,
        )  # fmt: skip
        from_id, to_id, summary = texts[item.number]
        yield from put(target, copied, (from_id, to_id, summary), [Range(strand, item.first, last)])
    yield from recount(target)


def graft(source: Head, target: Head) -> Plan[None]:
    """Make the overlays of staged messages a session's own, with their change records.

    These come after the record of the merge, which says where its messages are: a reader of the feed
    that stops between them knows it.
    """
    if source.overlays:
        shift = target.version + source.version + 1
        yield Do("graft_overlays", (target.incarnation, shift, source.incarnation))
        yield Do("graft_changes", (target.session, shift, target.incarnation, source.session))
        target.overlays += source.overlays


def claim(ref: SessionRef, token: str, now_us: int, until_us: int) -> Plan[bool]:
    """Take the right to compact the session until a time, unless somebody else has it."""
    head = yield from common.take(ref)
    if head is None:
        return False
    rows = yield Ask("find_claim", (head.incarnation,))
    if rows and rows[0][0] != token and rows[0][1] > now_us:
        return False
    yield Do("put_claim", (head.incarnation, token, until_us))
    return True


def release(ref: SessionRef, token: str) -> Plan[None]:
    """Give the right to compact the session back, if it is still held."""
    head = yield from common.take(ref, fenced=False)
    rows: list[Row] = (yield Ask("find_claim", (head.incarnation,))) if head else []
    if head is not None and rows and rows[0][0] == token:
        yield Do("drop_claim", (head.incarnation,))


def purge(incarnation: int) -> Plan[None]:
    """Remove the overlays of a life that is over."""
    yield Do("purge_overlay_ranges", (incarnation,))
    yield Do("purge_overlays", (incarnation,))
    yield Do("drop_claim", (incarnation,))
