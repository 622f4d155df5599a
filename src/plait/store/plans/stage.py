"""Long work made invisible until it is whole: hidden sessions, published by one short transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plait.errors import ConflictError, NotFoundError, StaleValueError
from plait.logic.strands import key_of, seq_of
from plait.store.plan import Ask, Bind, Do, Enter, Forget, Head, Plan, Put, Take
from plait.store.plans import catalogue, common, overlays, read, values
from plait.store.plans.common import Mark
from plait.store.protocol import Path, Range, SessionRef

BATCH_ROWS = 1000
BATCH_BYTES = 4 << 20
"""How much a staged operation writes in one transaction."""


def begin(stage: SessionRef, target: SessionRef, mark: Mark, created_at_us: int | None) -> Plan[None]:
    """Make the hidden session that is to become `target`, if it is not there; `ConflictError` if that exists."""
    yield from _free(target)
    if (yield from common.take(SessionRef(stage.scope, stage.id))) is not None:
        return  # it was begun before, and is gone on with
    head: Head | None = yield Take(target)
    made = yield from common.create(stage, mark, created_at_us=created_at_us)
    if head is not None:  # the tombstone of an earlier life: its numbers go on
        made.next_seq, made.version = head.next_seq, head.version
        yield from values.begin_after(made, head)
    made.changed = True
    yield from common.silence(made)
    yield Do("drop_activity", (stage.scope.tenant, stage.scope.owner, mark.at_us // common.BUCKET_US, made.session))


def _free(target: SessionRef) -> Plan[None]:
    if (yield from common.take(SessionRef(target.scope, target.id))) is not None:
        raise ConflictError(f"session {target.id!r} exists already; choose another id", session_id=target.id)


def discard(stage: SessionRef) -> Plan[list[int] | None]:
    """Give a hidden session up, leaving no tombstone; answers its life and its shelf, to be purged."""
    head: Head | None = yield Take(stage)
    if head is None:
        return None
    yield Put("add_purge", [(head.incarnation,)])
    shelf = yield from forget(stage, head)
    return [head.incarnation, *shelf]


def forget(stage: SessionRef, head: Head) -> Plan[list[int]]:
    """Remove all rows that say a hidden session ever was; its messages are somebody else's care, its shelf is answered."""
    shelf = yield from values.leave(head)
    yield Do("drop_shelf", (head.session,))
    yield Do("drop_info", (head.session,))
    yield Do("drop_changes", (head.session,))
    yield Do("drop_pulse", (head.session,))
    yield Do("drop_session", (head.session,))
    yield Forget(stage)
    return shelf


def publish(
    stage: SessionRef,
    target: SessionRef,
    mark: Mark,
    active_at_us: int | None = None,
    note: tuple[SessionRef, Mapping[str, Any]] | None = None,
) -> Plan[int]:
    """Make the hidden session the session `target`, last active then or now; answers its incarnation.

    A note is merged into the metadata of another session.
    """
    if note is not None:
        yield from _note(*note, mark)
    yield from _free(target)
    head = yield from common.take(stage)
    assert head is not None
    old: Head | None = yield Take(target)
    if old is not None:  # the tombstone of an earlier life, which may have had another since the stage was begun
        head.next_seq, head.epoch = max(head.next_seq, old.next_seq), max(head.epoch, old.epoch)
        yield from _renumber(head, old)
    yield from common.record(head, "session", mark, {"created": True})
    if head.to_mark:
        yield from common.mark_behind(stage, head)
    head.active_at_us = mark.at_us if active_at_us is None else min(active_at_us, mark.at_us)
    session = head.session
    if old is not None:
        session = old.session
        yield Do("move_changes", (session, 0, head.session))
        yield Do("move_info", (session, head.session))
        yield from values.move(head, old)
        yield Do("drop_session", (session,))
    yield Do("rename_session", (session, target.id, head.session))
    bucket = head.active_at_us // common.BUCKET_US
    yield Put("add_activity", [(target.scope.tenant, target.scope.owner, bucket, session)])
    yield Do("drop_pulse", (head.session,))
    yield Do("set_pulse", (session, head.tick))
    yield Do("add_pulse", (head.tick, head.incarnation, old.version if old is not None else 0, 0, session))
    yield Forget(stage)
    yield Forget(target)
    yield Bind(target, head.incarnation)
    return head.incarnation


def _note(ref: SessionRef, metadata: Mapping[str, Any], mark: Mark) -> Plan[None]:
    if (yield from catalogue.put_session(ref, mark, create="never", metadata=metadata)) is None:
        raise NotFoundError(
            f"session {ref.id!r} was deleted meanwhile, and nothing goes on from it; create() makes a new one",
            session_id=ref.id,
        )


def _renumber(head: Head, old: Head) -> Plan[None]:
    """Number a hidden session's changes after those of a life that the target had while it was written."""
    if not (yield Ask("numbered_before", (head.incarnation, old.version, head.session))):
        head.version = max(head.version, old.version)
        return
    yield Do("graft_versions", (old.version, 0, head.incarnation))
    yield Do("move_changes", (old.session, old.version, head.session))
    head.version += old.version


def publish_copy(
    source: SessionRef, path: Path | None, stage: SessionRef, target: SessionRef, name: str | None, mark: Mark
) -> Plan[int]:
    """Publish a copy if what it was made of is still so; the target remembers where it comes from, if that ever was."""
    if path is not None:
        yield from unchanged(source, path)
    head = yield from common.take(stage)
    assert head is not None
    origin = yield from common.take(source, fenced=False)
    if origin is not None and path is not None and head.leaf:
        yield from overlays.copy(origin, path.ranges, stage, head, mark)
    if origin is not None and path is not None:
        yield from values.copy_changed(source, origin, path.version, stage, head, mark)
    yield Enter(stage)
    parent = None if origin is None else source.id
    yield Put("add_info", [(head.session, name, None, parent, 0, "{}", "{}")])
    return (yield from publish(stage, target, mark))


def copy_begin(stage: SessionRef) -> Plan[int]:
    """The strand of the hidden session that a path is copied into."""
    head = yield from common.take(stage)
    assert head is not None
    strand = yield from common.next_strand()
    yield Put("add_strand", [(strand, head.incarnation, 0, 0)])
    head.changed = True
    return strand


def copy_step(source: SessionRef, path: Path, stage: SessionRef, strand: int, after_seq: int) -> Plan[tuple[int, int]]:
    """Copy the next rows of `path` after a seq into the strand; answers the last seq and how many, 0 at the end."""
    head = yield from common.take(stage)
    assert head is not None
    yield from unchanged(source, path)
    copied, room = 0, BATCH_BYTES
    while copied < BATCH_ROWS and room > 0:
        item = yield from _next_rows(path, after_seq, BATCH_ROWS - copied, room)
        if item is None:
            break
        count, size = yield from _copy_rows(stage, head, item, strand)
        after_seq, copied, room = item.hi, copied + count, room - size
    return after_seq, copied


def _next_rows(path: Path, after_seq: int, limit: int, budget_bytes: int) -> Plan[Range | None]:
    """The next surviving rows of a path that lie in one strand, within both bounds."""
    for item in common.between(path.ranges, after_seq, None):
        args = (key_of(item.strand, item.lo), key_of(item.strand, item.hi), limit)
        rows = yield Ask("sizes_up", args, budget_bytes=budget_bytes, size_at=1)
        if rows:
            return Range(item.strand, item.lo, seq_of(rows[-1][0]))
    return None


def _copy_rows(stage: SessionRef, head: Head, item: Range, strand: int) -> Plan[tuple[int, int]]:
    """Copy a range of rows into a strand of the hidden session; answers how many rows and bytes."""
    lo, hi, shift = key_of(item.strand, item.lo), key_of(item.strand, item.hi), strand - item.strand
    count, size, tokens = yield from common.range_totals([item])
    yield Do("copy_messages", (shift, head.version, lo, hi), into=stage)
    yield Do("copy_message_ids", (head.incarnation, shift, lo, hi), into=stage)
    yield Do("copy_slices", (shift, lo, hi), into=stage)
    yield Do("copy_attachment_refs", (shift, lo, hi), into=stage)
    head.version += count
    head.next_seq = max(head.next_seq, item.hi + 1)
    head.leaf = key_of(strand, item.hi)
    head.moved()
    head.add(count, size, tokens, on_path=True)
    return count, size


def unchanged(source: SessionRef, path: Path) -> Plan[None]:
    """Raise `StaleValueError` if a message of the path was updated or deleted since it was fixed."""
    if (yield from read.changed_since(source, path)):
        raise StaleValueError(f"session {source.id!r} changed while it was being copied; copy it again")


def abandoned(before_us: int) -> Plan[list[tuple[str, str, str]]]:
    """Hidden sessions that nobody finished: (tenant, owner, id) of those begun before a time."""
    rows = yield Ask("stages", (before_us,))
    return [(tenant, owner, id) for tenant, owner, id in rows]


def purges() -> Plan[list[tuple[int, object]]]:
    """Lives that are over and not yet purged, each with where it was."""
    return [(incarnation, where) for incarnation, where in (yield Ask("purges"))]
