"""Adding many messages to a session at once: staged out of sight, then grafted on in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from plait import jsontext
from plait.errors import ConflictError, LimitError, NotFoundError, no_session
from plait.logic.strands import MAX_SEQ, seq_of, strand_of
from plait.store.plan import Ask, Do, Head, Plan
from plait.store.plans import common, messages, overlays, read
from plait.store.plans import stage as staging
from plait.store.plans.common import Mark
from plait.store.protocol import Graft, SessionRef


def begin(stage: SessionRef, target: SessionRef, count: int, mark: Mark) -> Plan[None]:
    """Make a hidden session whose seqs are set aside in `target`'s own, for up to `count` messages."""
    head = yield from common.take(target)
    if head is None:
        raise no_session(target.id, " to add to")
    if head.next_seq + count > MAX_SEQ:
        raise LimitError(
            f"session {target.id!r} has no room for {count:,} more messages; import them as another session"
        )
    made = yield from common.create(stage, mark)
    made.next_seq = head.next_seq
    head.next_seq += count
    made.changed = head.changed = True
    yield from common.silence(made)
    yield Do("drop_activity", (stage.scope.tenant, stage.scope.owner, mark.at_us // common.BUCKET_US, made.session))


def existing(ref: SessionRef, ids: Sequence[str]) -> Plan[set[str]]:
    """Which of these ids the session has."""
    head = yield from common.take(ref)
    if head is None:
        return set()
    return {id for id, _ in (yield Ask("find_messages", (jsontext.encode(list(ids)), head.incarnation)))}


def publish(stage: SessionRef, target: SessionRef, grafts: Sequence[Graft], leaf: str | None, mark: Mark) -> Plan[int]:
    """Make the messages of the hidden session `target`'s own; answers how many.

    Each graft hangs a root of the stage below a message of the target. With `leaf` the active leaf
    moves there if the one before is on its path.
    """
    source = yield from common.take(stage)
    head = yield from common.take(target)
    if head is None or source is None:
        raise NotFoundError(
            f"session {target.id!r} was deleted while it was added to; import again to make it anew",
            session_id=target.id,
        )
    yield from _refuse_doubles(target, head.incarnation, source.incarnation)
    for graft in grafts:
        root = yield from common.find(source, graft.root)
        parent = yield from common.find(head, graft.parent)
        if not parent:
            raise NotFoundError(
                f"message {graft.parent!r} was deleted while messages were added after it; import again"
            )
        if seq_of(parent) >= seq_of(root):  # its seq was given after those set aside for the stage
            raise ConflictError(f"message {graft.parent!r} was added while these were staged; try again")
        yield Do("graft_strand", (strand_of(parent), seq_of(parent), strand_of(root)))
    yield from common.pulse(head)
    yield Do("graft_versions", (head.version, messages.BESIDE, source.incarnation))
    yield from overlays.graft(source, head)
    yield Do("free_hidden_ids", (head.incarnation, source.incarnation))
    yield Do("graft_message_ids", (head.incarnation, source.incarnation))
    yield from _search_again(head, source)
    merged = yield from _merged(source)
    yield Do("graft_strands", (head.incarnation, source.incarnation))
    head.version += source.version
    head.add(source.messages, source.bytes, source.tokens, on_path=False)
    head.located = False
    moved = yield from _follow(head, leaf)
    data = {"id": leaf, "merged": merged} if moved else {"merged": merged}
    yield from common.record(head, "checkout" if moved else "session", mark, data)
    if source.overlays:
        head.version += source.version  # what the record says of overlays comes after what it says of the merge
    yield from common.touch(target, head, mark)
    yield from staging.forget(stage, source)
    return source.messages


def _merged(source: Head) -> Plan[list[int]]:
    """The first and the last seq of the staged messages, which nobody else's lie between."""
    first = source.next_seq - source.version
    if source.version > source.messages:  # more was done than messages written: overlays laid, messages deleted
        keys = yield from read.next_keys(source, first - 1, 1, 1)
        first = seq_of(keys[0]) if keys else source.next_seq
    return [first, source.next_seq - 1]


def _refuse_doubles(target: SessionRef, into: int, source: int) -> Plan[None]:
    rows = yield Ask("shared_ids", (into, source))
    if rows:
        raise ConflictError(f"message {rows[0][0]!r} was added to session {target.id!r} meanwhile; try again")
    if (yield Ask("shared_overlays", (into, source))):
        raise ConflictError(f"an overlay was added to session {target.id!r} meanwhile; try again")


def _search_again(head: Head, source: Head) -> Plan[None]:
    """Let the search index begin anew before the seqs of the staged messages, which it may have gone past."""
    if head.searched:
        yield Do("lower_search_progress", (source.incarnation, head.incarnation))
        yield from common.forget_search(source.incarnation)


def _follow(head: Head, leaf: str | None) -> Plan[bool]:
    """Move the active leaf to a message that goes on from it; whether it moved."""
    key = (yield from common.find(head, leaf)) if leaf is not None else 0
    if not key or key == head.leaf:
        return False
    ranges = yield from common.path_to(key)
    if head.leaf and not common.on_ranges(head.leaf, ranges):
        return False
    head.set_path(None)
    head.leaf = key
    head.moved()
    yield from overlays.recount(head)
    return True
