"""Payloads put ahead of their message, read as a stream, and swept when nobody came for them."""

from __future__ import annotations

from plait.errors import NotFoundError
from plait.store.plan import Ask, Do, Enter, Plan, Row
from plait.store.plans import common, messages
from plait.store.protocol import Scope, SessionRef

GRACE_US = 24 * 3600 * 1_000_000
"""How long a payload put ahead of its message is kept without one: a day."""


def begin(scope: Scope, upload: str, now_us: int) -> Plan[int]:
    """A place for a payload whose hash is not known yet."""
    yield Enter(scope)
    ((attachment,),) = yield Do("add_attachment", (scope.tenant, scope.owner, None, 0))
    yield Do("add_upload", (upload, attachment, now_us))
    return int(attachment)


def write(scope: Scope, attachment: int, n: int, data: bytes, upload: str, now_us: int) -> Plan[None]:
    """Keep the n-th piece of a payload."""
    yield Enter(scope)
    yield Do("add_chunk", (attachment, n, data))
    yield Do("touch_upload", (now_us, upload))


def finish(scope: Scope, attachment: int, hash: bytes, size: int, upload: str, now_us: int) -> Plan[None]:
    """Give a payload its hash; if the scope has it already, keep that one instead, mended if it lost bytes."""
    yield Enter(scope)
    rows = yield Ask("find_attachment", (scope.tenant, scope.owner, hash))
    if rows and rows[0][0] != attachment:  # it is its own if this has been done before
        known, _, whole = rows[0]
        if not whole:
            yield Do("drop_chunks", (known,))
            yield Do("move_chunks", (known, attachment))
        yield Do("move_upload", (known, now_us, upload))
        yield Do("drop_chunks", (attachment,))
        yield Do("drop_attachment", (attachment,))
    else:
        yield Do("finish_attachment", (hash, size, attachment))
        yield Do("touch_upload", (now_us, upload))


def sweep(now_us: int) -> Plan[int]:
    """Let go of claims older than the grace time, and of what only they kept; answers how many."""
    rows = yield Ask("lapsed_uploads", (now_us - GRACE_US,))
    for upload, attachment, where in rows:
        yield Enter(where)
        yield Do("drop_upload", (upload,))
        yield from messages.drop_if_unused(attachment)
    return len(rows)


def locate(ref: SessionRef, id: str, n: int) -> Plan[tuple[int, int]]:
    """Which payload is the n-th of a message, and how many pieces it has."""
    head = yield from common.take(ref)
    key = (yield from common.find(head, id)) if head else 0
    refs: list[Row] = (yield Ask("attachment_refs_of", (key,))) if key else []
    if not 0 <= n < len(refs):
        raise NotFoundError(f"message {id!r} has no attachment number {n}; it has {len(refs)}")
    _, attachment, _, size = refs[n]
    return attachment, -(-(size or 0) // messages.CHUNK_BYTES)


def piece(ref: SessionRef, id: str, attachment: int, n: int) -> Plan[bytes]:
    """The n-th piece of a payload, as long as the message is there."""
    head = yield from common.take(ref)
    key = (yield from common.find(head, id)) if head else 0
    rows: list[Row] = (yield Ask("chunk", (key, attachment, n), heavy=True)) if key else []
    if not rows:
        raise NotFoundError(
            f"the attachment of message {id!r} was deleted while it was being read; get() tells whether the message is still there"
        )
    return rows[0][0]  # type: ignore[no-any-return]
