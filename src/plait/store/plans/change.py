"""Changing what is there: update, delete with splice, clear, checkout."""

from __future__ import annotations

from collections.abc import Sequence

from plait import jsontext
from plait.errors import NotFoundError
from plait.logic import media, slices
from plait.logic.ids import can_be_stored
from plait.model import Damaged, Json, Message
from plait.store.plan import Ask, Bind, Do, Enter, Forget, Head, Plan, Put, Row
from plait.store.plans import append, common, messages, overlays, values
from plait.store.plans.common import Mark
from plait.store.protocol import Expect, NewMessage, SessionRef, Updated

PURGE_BYTES = 4 << 20
"""How much is removed in one transaction, at least one message."""


def update(ref: SessionRef, new: NewMessage, mark: Mark) -> Plan[Updated | None]:
    """Replace a message's content; nothing is written if it is that already."""
    head = yield from common.take(ref)
    key = (yield from common.find(head, new.id)) if head else 0
    if head is None or not key:
        return None
    (row,) = yield Ask("message_by_key", (key,))
    old = yield from messages.with_parent(row)
    if not isinstance(old, Damaged) and ((yield from messages.same(row, new)) or _says_the_same(old, new)):
        return Updated(old, changed=False)
    yield from _replace(ref, key, row[messages.FLAGS], new, searched=head.searched)
    on_path = yield from _on_path(head, key)
    grown = (new.bytes - row[messages.BYTES], new.tokens - row[messages.TOKENS])
    head.add(0, *grown, on_path=on_path)
    yield from common.record(head, "update", mark, {"id": new.id, "key": key})
    yield from overlays.note_changed(head, [(key, 0, *grown)], mark)
    yield from common.touch(ref, head, mark)
    (row,) = yield Ask("message_by_key", (key,))
    stored = yield from messages.with_parent(row)
    assert not isinstance(stored, Damaged)
    return Updated(stored, changed=True)


def _says_the_same(old: Message, new: NewMessage) -> bool:
    """Whether a message was stored with this very text, though an earlier version left some media of it inline."""
    return old.format == new.format and old.to_json() == media.whole_text(new)


def _replace(ref: SessionRef, key: int, old_flags: int, new: NewMessage, *, searched: bool) -> Plan[None]:
    rest = slices.cut(new.body)
    body = next(rest)
    flags = old_flags & ~messages.REST
    flags |= messages.SLICED * (len(body) < len(new.body)) | messages.WITH_MEDIA * bool(new.media)
    format = "" if new.format == "plait" else new.format
    yield Do("change_message", (new.bytes, new.tokens, flags, format, new.role, body, key))
    old = [attachment for (attachment,) in (yield Ask("attachments_of", (key,)))]
    yield Do("drop_slices", (key,))
    yield Do("drop_attachment_refs", (key,))
    if searched:
        yield Do("add_search_pending", (jsontext.encode([key]),))
    yield from messages.insert_rest(ref, key, rest, new.media)
    for attachment in old:  # after the new ones are referenced, so that what stays is not written again
        yield from messages.drop_if_unused(attachment)


def _on_path(head: Head, key: int) -> Plan[bool]:
    """Whether a row is on the active path."""
    if not head.leaf or head.path_messages is None:
        return False
    return common.on_ranges(key, (yield from common.path_to(head.leaf)))


def delete(ref: SessionRef, ids: Sequence[str], mark: Mark, at_most_bytes: int | None = None) -> Plan[list[str] | None]:
    """Remove messages; what answered them now answers their nearest surviving ancestor.

    `None`, and nothing is removed, if they are larger than `at_most_bytes`.
    """
    head = yield from common.take(ref)
    if head is None or not ids:
        return []
    asked = list(dict.fromkeys(id for id in ids if can_be_stored(id)))
    found = dict((yield Ask("find_messages", (jsontext.encode(asked), head.incarnation))))
    keys = {id: found[id] for id in asked if id in found}
    if not keys:
        return []
    yield from common.locate(head)
    sizes = yield Ask("message_sizes", (jsontext.encode(list(keys.values())),))
    if at_most_bytes is not None and sum(size for _, size, _ in sizes) > at_most_bytes:
        return None
    gone = yield from _uncount(head, sizes)
    yield from _remove_rows(head, list(keys.values()))
    data: Json = {"ids": list(keys), "keys": list(keys.values())}
    moved = head.leaf_id in keys
    if moved:
        yield from settle_leaf(head)
    head.located = False
    if moved:
        yield from common.locate(head)
        data["leaf"] = head.leaf_id
    yield from common.record(head, "delete", mark, data)
    yield from overlays.note_changed(head, gone, mark)
    yield from common.touch(ref, head, mark)
    return list(keys)


def _uncount(head: Head, sizes: Sequence[Row]) -> Plan[list[tuple[int, int, int, int]]]:
    """Take messages (key, bytes, tokens) off the totals; answers each key and by how much they changed."""
    ranges = (yield from common.path_to(head.leaf)) if head.path_messages is not None else ()
    gone: list[tuple[int, int, int, int]] = []
    for key, size, tokens in sizes:
        head.add(-1, -size, -tokens, on_path=common.on_ranges(key, ranges))
        gone.append((key, -1, -size, -tokens))
    return gone


def _remove_rows(head: Head, keys: list[int]) -> Plan[None]:
    listed = jsontext.encode(keys)
    for (key,) in (yield Ask("messages_with_rest", (listed,))):
        yield from messages.remove_rest(key)
    yield Do("drop_message_ids", (head.incarnation, listed))
    yield Do("drop_messages", (listed,))
    if head.searched:
        yield Do("add_search_pending", (listed,))


def settle_leaf(head: Head) -> Plan[None]:
    """The leaf's place stays as long as an ancestor survives; else the newest message is the leaf."""
    if (yield from common.last_at(head.leaf)):
        return
    rows = yield Ask("newest_message", (head.incarnation,))
    head.leaf = rows[0][0] if rows else 0
    head.set_path((0, 0, 0) if not rows else None)
    yield from overlays.recount(head)


def clear(ref: SessionRef, mark: Mark) -> Plan[int | None]:
    """Begin a new life of the session without its messages; answers the old one, to be purged."""
    head = yield from common.take(ref)
    if head is None or not (head.messages or head.leaf):
        return None
    old = head.incarnation
    head.incarnation = yield from common.next_number("incarnation")
    yield Do("new_life", (head.incarnation, head.session))
    head.leaf = head.messages = head.bytes = head.tokens = head.overlays = 0
    head.set_path((0, 0, 0))
    head.set_hidden((0, 0, 0))
    head.moved()
    yield Bind(ref, head.incarnation)
    yield Put("add_purge", [(old,)])
    yield from common.record(head, "clear", mark, {"old": old})
    yield from common.touch(ref, head, mark)
    yield Forget(ref)  # whether the search index knows of a life is told when its row is taken
    return old


def checkout(ref: SessionRef, id: str | None, mark: Mark, expect: Expect | None = None) -> Plan[bool]:
    """Make another message the active leaf, or none."""
    head = yield from common.take(ref)
    key = (yield from common.find(head, id)) if head and id is not None else 0
    if id is not None and not key:
        raise NotFoundError(
            f"there is no message {id!r} in session {ref.id!r} to check out; leaves() names the ends of its branches"
        )
    if head is None:
        append.refuse_moved(None, 0, expect)
        return False
    yield from common.locate(head)
    append.refuse_moved(head.leaf_id, head.version, expect)
    if head.leaf_id == id:
        return False
    head.set_path((yield from append.path_totals(head, key)))
    head.leaf = key
    head.moved()
    yield from overlays.recount(head)
    yield from common.record(head, "checkout", mark, {"id": id, "key": key})
    yield from common.touch(ref, head, mark)
    return True


def remove_rests(rows: Sequence[Row]) -> Plan[None]:
    """Remove the slices and media of rows (key, flags, …)."""
    for key, flags, *_ in rows:
        if flags & messages.REST:
            yield from messages.remove_rest(key)


def purge_step(where: object, incarnation: int, limit: int) -> Plan[bool]:
    """Remove up to `limit` rows of a life that is over, or 4 MiB; whether there is more to remove."""
    yield Enter(where)
    rows = yield Ask("purge_rows", (incarnation, limit), budget_bytes=PURGE_BYTES, size_at=2)
    yield from remove_rests(rows)
    if rows:
        listed = jsontext.encode([key for key, _, _ in rows])
        yield Do("drop_message_ids", (incarnation, listed))
        yield Do("drop_messages", (listed,))
        yield Do("add_search_pending", (listed,))
        return True
    if (yield from values.purge_step(incarnation, limit)):
        return True
    if (yield Do("purge_records", (incarnation, limit))):
        return True
    yield from overlays.purge(incarnation)
    yield Do("drop_strands", (incarnation,))
    yield from common.forget_search(incarnation)
    yield Do("drop_purge", (incarnation,))
    return False
