"""Appending: after the leaf, as a root, as a branch, under a precondition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from plait import formats
from plait.errors import ConflictError, CorruptError, LeafMovedError, NotFoundError
from plait.logic import media
from plait.logic.prepare import differs
from plait.logic.strands import SEQ_MASK, seq_of, strand_of
from plait.model import Damaged, Leaf, Message, Parent
from plait.store.plan import Ask, Claim, Head, Plan, Put
from plait.store.plans import catalogue, common, messages, overlays
from plait.store.plans.common import Mark
from plait.store.protocol import Expect, Kind, NewMessage, Range, SessionRef, Written

NEAR_SEQS = 1000
"""How far behind the leaf a branch may begin for its path to be counted at once, and not when asked."""


class Place(Struct):
    """Where the next message goes: after which row (key 0: nothing), and in its strand if that is a tip."""

    key: int
    id: str | None
    tip: bool


class Appending(Struct):
    """What stays the same while the messages of one append go in."""

    ref: SessionRef
    head: Head
    kind: Kind
    activate: bool
    branched: bool = False


def append(
    ref: SessionRef,
    new: Sequence[NewMessage],
    mark: Mark,
    *,
    parent: Parent,
    expect: Expect | None,
    kind: Kind,
    activate: bool,
    refuse_other: bool,
) -> Plan[list[Written]]:
    """Add a chain of messages, once per id, each becoming the active leaf.

    `parent` is looked for only if the first message is to go in: one that is there stays where it is.
    """
    head = (yield from common.take(ref)) or (yield from common.create(ref, mark))
    to = Appending(ref, head, kind, activate)
    if expect is not None and (yield from _moved(head, expect, new)):
        parent, to.activate, to.branched = expect.leaf_id, False, True
    place: Place | None = None
    written: list[Written] = []
    inserted = False
    ahead = [message.id for message in new if not message.made_id] if len(new) > 1 else ()
    for message in new:
        found = None if message.made_id else (yield Claim(head.incarnation, message.id, ahead))
        if found is None:
            if place is None:
                place = yield from _place(head, parent)
            written.append((yield from _insert(to, place, message)))
            inserted = True
        else:
            written.append((yield from _existing(found, message, refuse_other=refuse_other)))
            place = Place(found, message.id, (yield from common.is_tip(head, found)))
    if inserted:
        yield from common.touch(ref, head, mark)
    return written


def append_with_state(
    ref: SessionRef,
    new: Sequence[NewMessage],
    mark: Mark,
    patch: Mapping[str, Any],
    *,
    parent: Parent,
    expect: Expect | None,
    refuse_other: bool,
) -> Plan[tuple[list[Written], bool]]:
    """Add messages and merge `patch` into the state, unless they were there or became a branch beside the leaf.

    Answers also whether the state changed.
    """
    written = yield from append(
        ref, new, mark, parent=parent, expect=expect, kind="append", activate=True, refuse_other=refuse_other
    )
    if not any(item.inserted and not item.branched for item in written):
        return written, False
    stated = yield from catalogue.update_state(ref, patch, mark)
    return written, stated.changed


def _moved(head: Head, expect: Expect, new: Sequence[NewMessage]) -> Plan[bool]:
    """Whether the leaf moved and the messages are to become a branch; raises if they are not to."""
    yield from common.locate(head)
    if _stands(head.leaf_id, head.version, expect):
        return False
    if (yield from _all_there(head, new)):
        return False  # a repeat of a write that landed: it moved the leaf itself
    if expect.branch and expect.check_leaf:
        return True
    raise _moved_on(head.leaf_id, head.version, ", or pass on_moved='branch'")


def refuse_moved(leaf_id: str | None, version: int, expect: Expect | None) -> None:
    """Raise `LeafMovedError` unless the session stands where it is expected to."""
    if expect is not None and not _stands(leaf_id, version, expect):
        raise _moved_on(leaf_id, version)


def _stands(leaf_id: str | None, version: int, expect: Expect) -> bool:
    return (not expect.check_leaf or expect.leaf_id == leaf_id) and expect.version in (None, version)


def _moved_on(leaf_id: str | None, version: int, remedy: str = "") -> LeafMovedError:
    return LeafMovedError(
        f"the session has moved on: its leaf is {leaf_id!r} at version {version}; read it again{remedy}",
        leaf_id=leaf_id,
        version=version,
    )


def _all_there(head: Head, new: Sequence[NewMessage]) -> Plan[bool]:
    for message in new:
        if message.made_id or (yield Claim(head.incarnation, message.id)) is None:
            return False
    return True


def _place(head: Head, parent: Parent) -> Plan[Place]:
    if isinstance(parent, Leaf):
        if not head.located:
            yield from common.locate(head)
        return Place(head.leaf, head.leaf_id, head.tip)
    if parent is None:
        return Place(0, None, False)
    key = yield from common.find(head, parent)
    if not key:
        raise NotFoundError(f"there is no message {parent!r} in this session to append to; pass parent=None for a root")
    return Place(key, parent, (yield from common.is_tip(head, key)))


def _existing(key: int, new: NewMessage, *, refuse_other: bool) -> Plan[Written]:
    """The stored form of a message that is there already."""
    rows = yield Ask("message_by_key", (key,))
    if not rows:
        raise CorruptError(f"the index names a message (key {key}) that is not there; run `plait doctor`")
    message = yield from messages.with_parent(rows[0])
    if isinstance(message, Damaged):
        raise CorruptError(f"message {message.id!r} is stored already, but {message.reason}; update it to repair it")
    other = not (yield from messages.same(rows[0], new)) and differs(message, new)
    if other and refuse_other:
        raise ConflictError(f"message {new.id!r} is stored already, with other content", message_id=new.id)
    return Written(message, inserted=False, differs=other)


def _insert(to: Appending, place: Place, message: NewMessage) -> Plan[Written]:
    head = to.head
    if (head.pulse or 0) < head.tick:  # seldom; looked at here because a generator costs more than the look
        yield from common.pulse(head)
    moved = to.activate and place.key != head.leaf
    if moved:
        head.set_path((yield from path_totals(head, place.key)))
    parent_id = place.id
    strand = strand_of(place.key) if place.tip else (yield from _new_strand(head, place.key))
    if message.seq > head.next_seq:
        head.next_seq = message.seq
    place.key, place.id, place.tip = common.next_key(head, strand), message.id, True
    if moved and head.overlays:
        head.set_hidden((yield from overlays.hidden_on(head, (yield from common.path_to(place.key)))))
    head.version += 1
    yield Put("add_message_id", [(head.incarnation, message.id, place.key)])
    marks = messages.IMPORTED * (to.kind == "import") | messages.BESIDE * (not to.activate)
    yield from messages.insert(to.ref, place.key, head.version, message, marks)
    head.add(1, message.bytes, message.tokens, on_path=to.activate)
    if to.activate:
        head.leaf, head.leaf_id, head.tip, head.located = place.key, message.id, True, True
    else:
        head.located = False  # the active leaf's strand may just have got a row after it
    text = (yield from _whole_text(place.key, message)) if message.media else message.body
    return Written(_stored(place.key, message, parent_id, text), inserted=True, branched=to.branched)


def _new_strand(head: Head, key: int) -> Plan[int]:
    """A strand that forks off after `key`, or begins at the root."""
    strand = yield from common.next_strand()
    yield Put("add_strand", [(strand, head.incarnation, strand_of(key), seq_of(key))])
    return strand


def _whole_text(key: int, message: NewMessage) -> Plan[str]:
    text = media.whole_text(message)
    return text if text is not None else (yield from messages.with_media(key, message.body)) or message.body


def _stored(key: int, message: NewMessage, parent_id: str | None, text: str) -> Message:
    reader = formats.NATIVE if message.format == formats.NATIVE.name else formats.stored(message.format)
    return Message(
        message.id,
        message.role,
        key & SEQ_MASK,
        parent_id,
        message.created_at_us,
        message.bytes,
        message.tokens,
        reader,
        text,
    )


def path_totals(head: Head, key: int) -> Plan[tuple[int, int, int] | None]:
    """What the path to `key` holds, if that can be told without reading far from the active leaf."""
    if not key:
        return 0, 0, 0
    if head.path_messages is None or not head.leaf:
        return None
    beyond = yield from _beyond(head.leaf, key)
    if beyond is None:
        return None
    messages_, size, tokens = yield from common.range_totals(beyond)
    return head.path_messages - messages_, (head.path_bytes or 0) - size, (head.path_tokens or 0) - tokens


def _beyond(leaf: int, key: int) -> Plan[list[Range] | None]:
    """The ranges of the path to `leaf` that come after `key`, if `key` is on it and near its end."""
    ranges: list[Range] = []
    for item in (yield from common.chain(strand_of(leaf), seq_of(leaf), down_to=seq_of(leaf) - NEAR_SEQS)):
        if seq_of(leaf) - item.hi > NEAR_SEQS:
            return None
        if item.strand == strand_of(key):
            near = item.lo <= seq_of(key) <= item.hi and seq_of(leaf) - seq_of(key) <= NEAR_SEQS
            return [*ranges, Range(item.strand, seq_of(key) + 1, item.hi)] if near else None
        ranges.append(item)
    return None
