"""Putting messages into rows and taking them out: slices, media, damage."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from plait import formats
from plait.errors import NotFoundError
from plait.logic import media, slices
from plait.logic.strands import SEQ_MASK
from plait.model import Damaged, Message
from plait.store.plan import Ask, Do, Plan, Put, Row
from plait.store.plans import common
from plait.store.protocol import Media, NewMessage, SessionRef

IMPORTED, SLICED, WITH_MEDIA = 1, 2, 4
BESIDE = 8
"""It was inserted without taking the active leaf."""

REST = SLICED | WITH_MEDIA
LARGE_BYTES = 512 << 10
"""A message larger than this is not fetched on an event loop."""

CHUNK_BYTES = 1 << 20
"""Size of the pieces a payload is kept in."""

PIECE_CHARACTERS = 1 << 16

_NO_SLICES: Final[Iterator[str]] = iter(())

log = logging.getLogger("plait")

# The columns of a message row, as `queries.sql` lists them.
KEY, ID, ROLE, BYTES, TOKENS, CREATED_AT, FLAGS, FORMAT, BODY = range(9)


def insert(ref: SessionRef, key: int, version: int, message: NewMessage, marks: int = 0) -> Plan[None]:
    """Write a message's rows; `marks` are the flags that say how it came (imported, beside the leaf)."""
    body, rest = message.body, _NO_SLICES
    flags = marks | WITH_MEDIA if message.media else marks
    if not slices.fits(body):
        rest = slices.cut(body)
        body = next(rest)
        flags |= SLICED
    format = "" if message.format == "plait" else message.format
    row = (key, version, message.bytes, message.tokens, message.created_at_us, flags, format, message.role, message.id)
    yield Put("add_message", [(*row, body)])
    if flags & REST:
        yield from insert_rest(ref, key, rest, message.media)


def insert_rest(ref: SessionRef, key: int, rest: Iterable[str], items: Sequence[Media]) -> Plan[None]:
    """Write the slices and the media of a message."""
    for n, body in enumerate(rest, 1):
        yield Do("add_slice", (key, n, body))
    for n, item in enumerate(items):
        attachment = yield from _payload(ref, item)
        yield Do("add_attachment_ref", (key, n, attachment, item.at))


def _payload(ref: SessionRef, item: Media) -> Plan[int]:
    """The attachment that holds a payload: the scope's own if it is known, mended if it lost bytes, else a new one."""
    scope = (ref.scope.tenant, ref.scope.owner)
    rows = yield Ask("find_attachment", (*scope, item.hash))
    if item.upload is not None:
        yield Do("drop_upload", (item.upload,))
    known = rows[0][0] if rows and rows[0][1] == item.size else None
    if known is not None and rows[0][2]:
        return int(known)
    if item.data is None:
        raise NotFoundError("the attachment is not in the store (any more); call put_attachment again")
    if known is not None:
        yield Do("drop_chunks", (known,))
    ((attachment,),) = [(known,)] if known is not None else (yield Do("add_attachment", (*scope, item.hash, item.size)))
    for n in range(0, item.size, CHUNK_BYTES):
        yield Do("add_chunk", (attachment, n // CHUNK_BYTES, item.data[n : n + CHUNK_BYTES]))
    return int(attachment)


def remove_rest(key: int) -> Plan[None]:
    """Remove the slices and media references of a message, and payloads nobody needs any more."""
    yield Do("drop_slices", (key,))
    used = yield Ask("attachments_of", (key,))
    yield Do("drop_attachment_refs", (key,))
    for (attachment,) in used:
        yield from drop_if_unused(attachment)


def drop_if_unused(attachment: int) -> Plan[bool]:
    """Remove a payload that no message uses and no upload claims."""
    yield Do("lock_attachment", (attachment,))
    if (yield Ask("attachment_in_use", (attachment, attachment))):
        return False
    yield Do("drop_chunks", (attachment,))
    yield Do("drop_attachment", (attachment,))
    return True


def build(rows: Sequence[Row], parent_id: str | None) -> Plan[list[Message | Damaged]]:
    """Messages from rows in path order; `parent_id` is the first one's parent."""
    out: list[Message | Damaged] = []
    native = formats.NATIVE
    for row in rows:
        key, id, role, size, tokens, at, flags, format, body = row
        # Nearly every row is all there is of its message: no step and no call is needed for it.
        if flags <= IMPORTED and not format and type(body) is bytes and len(body) == size:
            out.append(Message(id, role, key & SEQ_MASK, parent_id, at, size, tokens, native, body))
        else:
            out.append((yield from build_one(row, parent_id)))
        parent_id = id
    return out


def build_one(row: Row, parent_id: str | None) -> Plan[Message | Damaged]:
    """The message of a row, put together from its slices and media."""
    key, id, role, size, tokens, at, flags, format, body = row
    if flags & REST or body is None:
        body = yield from _whole(key, flags, body)
    if not isinstance(body, str | bytes) or not _sound(body, size):
        return _damaged(row, parent_id, "its text is damaged or incomplete")
    reader = formats.stored(format) if format else formats.NATIVE
    return Message(id, role, key & SEQ_MASK, parent_id, at, size, tokens, reader, body)


def _sound(body: str | bytes, size: int) -> bool:
    """A body of another size than was written is damaged; a damaged one of the same size shows when decoded."""
    return len(body) == size or (isinstance(body, str) and _utf8_size(body) == size)


def _utf8_size(text: str) -> int:
    """The UTF-8 size of a text, found out a piece at a time: a long one is not held twice."""
    starts = range(0, len(text), PIECE_CHARACTERS)
    return sum(len(text[start : start + PIECE_CHARACTERS].encode("utf-8", "replace")) for start in starts)


def _damaged(row: Row, parent_id: str | None, reason: str) -> Damaged:
    log.error("message %r (seq %d) cannot be read: %s", row[ID], row[KEY] & SEQ_MASK, reason)
    return Damaged(row[ID], row[KEY] & SEQ_MASK, row[ROLE], parent_id, reason)


def _whole(key: int, flags: int, body: object) -> Plan[str | None]:
    """The whole text of a message that is more than one plain row; `None` if a piece is missing."""
    pieces = [(0, (yield from _first(key)) if body is None else body)]
    if flags & SLICED:
        rest = yield Ask("slices_of", (key,))
        if [n for n, _ in rest] != list(range(1, len(rest) + 1)):
            return None
        rest[:0] = pieces
        pieces = rest  # the very list that was answered, which the driver holds, too
    whole = joined(_taken_out(pieces))
    if flags & WITH_MEDIA and whole is not None:
        return (yield from with_media(key, whole))
    return whole


def _first(key: int) -> Plan[object]:
    rows = yield Ask("message_body", (key,), heavy=True)
    return rows[0][0] if rows else None


def _taken_out(rows: list[Row]) -> Iterator[object]:
    """The second column of each row, the row let go of: a long text is not held in two forms at once."""
    rows.reverse()
    while rows:
        yield rows.pop()[1]


def joined(pieces: Iterable[object]) -> str | None:
    """The text of a body's pieces; `None` if one is damaged: no UTF-8, or nothing that a text can be."""
    try:
        return slices.join(map(_decoded, pieces))
    except (UnicodeDecodeError, TypeError):
        return None


def _decoded(piece: object) -> str:
    return piece.decode() if isinstance(piece, bytes) else piece  # type: ignore[return-value]


def without_media(row: Row) -> Plan[str | None]:
    """The text of a message as its rows hold it, media cut out; `None` if a piece is missing."""
    return (yield from _whole(row[KEY], row[FLAGS] & ~WITH_MEDIA, row[BODY]))


def same(row: Row, new: NewMessage) -> Plan[bool]:
    """Whether a stored message is, to the letter, what `new` would make of it, media and all."""
    key, flags, body = row[KEY], row[FLAGS], row[BODY]
    if (row[FORMAT] or "plait", row[BYTES]) != (new.format, new.bytes):
        return False
    rest: list[Row] = (yield Ask("slices_of", (key,))) if flags & SLICED else []
    if joined([body, *(piece for _, piece in rest)]) != new.body:
        return False
    refs = yield Ask("attachment_hashes_of", (key,))
    return [(at, hash) for at, hash in refs] == [(item.at, item.hash) for item in new.media]


def with_media(key: int, body: str) -> Plan[str | None]:
    """`body` with its media back in place; `None` if a payload is missing or short."""
    refs = yield Ask("attachment_refs_of", (key,))
    payloads: dict[int, bytes] = {}
    for _, attachment, _, size in refs:
        if attachment not in payloads:
            payloads[attachment] = b"".join([data for (data,) in (yield Ask("chunks_of", (attachment,)))])
        if size is None or len(payloads[attachment]) != size:
            return None
    return media.inline(body, [(at, payloads[attachment]) for _, attachment, at, _ in refs])


def with_parent(row: Row, known: common.Known | None = None) -> Plan[Message | Damaged]:
    """The message of a row that was fetched by its key alone."""
    parent = yield from common.parent_of(row[KEY], known)
    return (yield from build_one(row, parent[1] if parent else None))


def group_by_strand(keys: Sequence[int]) -> dict[int, list[int]]:
    """Keys by strand."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for key in keys:
        groups[key >> 32].append(key)
    return groups
