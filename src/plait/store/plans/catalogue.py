"""The catalogue: sessions made, named, listed, changed, deleted; and their small state."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from plait import jsontext, times
from plait.errors import ConflictError, LeafMovedError
from plait.logic import usage
from plait.logic.cursors import ListCursor
from plait.model import Json, SessionInfo, SessionPage, Usage
from plait.store.plan import Ask, Do, Enter, Head, Plan, Put, Row
from plait.store.plans import common, read, values
from plait.store.plans.common import Mark
from plait.store.protocol import Creating, Described, Scope, SessionRef, Stated

log = logging.getLogger("plait")
_NO_INFO = (None, None, None, 0, "{}", "{}")


def info(ref: SessionRef) -> Plan[SessionInfo | None]:
    """The session as the catalogue knows it."""
    head = yield from common.take(ref)
    return None if head is None else (yield from _info(ref.id, head))


def _info(id: str, head: Head) -> Plan[SessionInfo]:
    name, owner, parent, pinned, metadata, _ = yield from _info_row(head)
    return SessionInfo(
        id=id,
        name=name,
        owner=owner,
        parent_id=parent,
        pinned=bool(pinned),
        metadata=_object(head, metadata),
        created_at=times.from_us(head.created_at_us),
        active_at=times.from_us(head.active_at_us),
        version=head.version,
        totals=(yield from read.totals_of(head, read.Counted())),
    )


def _object(head: Head, text: str) -> Json:
    """A stored JSON object; a damaged one is reported and reads as empty, so that it hides no other session."""
    try:
        found: Json = jsontext.decode(text)
    except ValueError as error:
        log.error("the catalogue entry of session row %d is damaged: %s", head.session, error)
        return {}
    return found


def _info_row(head: Head) -> Plan[Row]:
    rows = yield Ask("find_info", (head.session,))
    return rows[0] if rows else _NO_INFO


def put_session(
    ref: SessionRef,
    mark: Mark,
    *,
    create: Creating,
    name: str | None = None,
    owner: str | None = None,
    parent_id: str | None = None,
    pinned: bool | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Plan[Described | None]:
    """Create a session or change its catalogue entry, which is no part of a turn: no lease is in the way."""
    head = yield from common.take(ref, fenced=False)
    if head is not None and create == "new":
        raise ConflictError(f"session {ref.id!r} exists already; use get_or_create, or another id", session_id=ref.id)
    if head is None and create == "never":
        return None
    created = head is None
    if head is None:
        head = yield from common.create(ref, mark)
    elif create == "once":
        name = parent_id = pinned = metadata = None
    old = yield from _info_row(head)
    new = _changed(ref, old, name, owner, parent_id, pinned, metadata)
    if new != old:
        yield from _write_info(head, new)
    if created or new != old:
        yield from common.record(head, "session", mark, {"created": created})
    return Described((yield from _info(ref.id, head)), created or new != old)


def _changed(
    ref: SessionRef,
    old: Row,
    name: str | None,
    owner: str | None,
    parent_id: str | None,
    pinned: bool | None,
    metadata: Mapping[str, Any] | None,
) -> Row:
    if owner is not None and old[1] not in (None, owner):
        raise ConflictError(f"session {ref.id!r} belongs to another owner", session_id=ref.id)
    return (
        old[0] if name is None else name,
        old[1] if owner is None else owner,
        old[2] if parent_id is None else parent_id,
        old[3] if pinned is None else int(pinned),
        _merged(old[4], metadata),
        old[5],
    )


def _merged(text: str, patch: Mapping[str, Any] | None) -> str:
    """A JSON object's text with `patch` merged per key; a `None` value removes its key."""
    if not patch:
        return text
    merged = {**jsontext.decode(text), **patch}
    return jsontext.encode({key: value for key, value in merged.items() if value is not None})


def _write_info(head: Head, row: Row) -> Plan[None]:
    yield Do("drop_info", (head.session,))
    yield Put("add_info", [(head.session, *row)])


def add_usage(ref: SessionRef, more: Usage, mark: Mark) -> Plan[SessionInfo | None]:
    """Add to what a session has used, whoever has a lease on it."""
    head = yield from common.take(ref, fenced=False)
    if head is None:
        return None
    old = yield from _info_row(head)
    new = (*old[:4], usage.added(old[4], more), old[5])
    if new != tuple(old):
        yield from _write_info(head, new)
        yield from common.record(head, "session", mark, {"created": False})
    return (yield from _info(ref.id, head))


def state(ref: SessionRef) -> Plan[Json]:
    """The session's small state."""
    head = yield from common.take(ref)
    return {} if head is None else _object(head, (yield from _info_row(head))[5])


def update_state(ref: SessionRef, patch: Mapping[str, Any], mark: Mark, version: int | None = None) -> Plan[Stated]:
    """Merge into the session's state, creating the session if it is absent; not if it has left `version`."""
    head = yield from common.take(ref)
    if version is not None:
        yield from refuse_moved(head, version)
    head = head if head is not None else (yield from common.create(ref, mark))
    old = yield from _info_row(head)
    text = _merged(old[5], patch)
    if text != old[5]:
        yield from _write_info(head, (*old[:5], text))
        yield from common.record(head, "session", mark, {"state": list(patch)})
    return Stated(jsontext.decode(text), text != old[5])


def scopes(after: Scope | None, limit: int) -> Plan[list[Scope]]:
    """The next scopes that have sessions: one look into the index for each."""
    tenant, owner = ("", "") if after is None else (after.tenant, after.owner + "\0")
    found: list[Scope] = []
    while len(found) < limit and (rows := (yield Ask("next_scope", (tenant, owner)))):
        tenant, owner = rows[0]
        found.append(Scope(tenant, owner))
        owner += "\0"  # the next text there can be
    return found


def refuse_moved(head: Head | None, version: int) -> Plan[None]:
    """Raise unless the session stands at this version; one that is not there stands at none."""
    if head is not None and head.version == version:
        return
    if head is not None:
        yield from common.locate(head)
    leaf_id, stands = (None, 0) if head is None else (head.leaf_id, head.version)
    raise LeafMovedError(
        f"the session has moved on: its leaf is {leaf_id!r} at version {stands}; read it again",
        leaf_id=leaf_id,
        version=stands,
    )


def sessions(scope: Scope, cursor: str | None, limit: int) -> Plan[SessionPage]:
    """One page of a scope's sessions, most recently active first, whole buckets at a time."""
    after = ListCursor.parse(cursor, scope) if cursor is not None else None
    found: list[tuple[str, Head]] = []
    bucket = after.at_us // common.BUCKET_US if after else 1 << 60
    while len(found) <= limit:
        rows = yield Ask("next_bucket", (scope.tenant, scope.owner, bucket))
        if not rows or rows[0][0] is None:
            break
        bucket = rows[0][0] - 1
        found += yield from _bucket(scope, rows[0][0], after)
    page: list[SessionInfo] = []
    for id, head in found[:limit]:
        yield Enter(SessionRef(scope, id))
        page.append((yield from _info(id, head)))
    return SessionPage(page, _place(found[limit - 1]).text(scope) if len(found) > limit else None)


def _bucket(scope: Scope, bucket: int, after: ListCursor | None) -> Plan[list[tuple[str, Head]]]:
    """The live sessions of a bucket that come after the cursor, newest first."""
    rows = yield Ask("sessions_in_bucket", (scope.tenant, scope.owner, bucket))
    found = [(row[-1], Head.of(row[:-1])) for row in rows]
    found.sort(key=lambda item: _order(_place(item)), reverse=True)
    return [item for item in found if after is None or _order(_place(item)) < _order(after)]


def _place(item: tuple[str, Head]) -> ListCursor:
    return ListCursor(item[1].active_at_us, item[0])


def _order(place: ListCursor) -> tuple[int, str]:
    """Newest first, and of one instant the highest id first: the same in every store."""
    return place.at_us, place.id


def delete_session(ref: SessionRef, mark: Mark, version: int | None = None) -> Plan[list[int] | None]:
    """Hide a session with all it holds, unless it has left `version`; answers its last life and its shelf, to be purged."""
    head = yield from common.take(ref)
    if head is None or version not in (None, head.version):
        return None
    yield Do("drop_activity", (ref.scope.tenant, ref.scope.owner, head.active_at_us // common.BUCKET_US, head.session))
    yield Do("drop_info", (head.session,))
    yield Put("add_purge", [(head.incarnation,)])
    shelf = yield from values.leave(head)
    if head.lease_until_us is not None:
        yield from common.end_lease(head)
    yield from common.record(head, "delete session", mark, {})
    head.live = head.leaf = head.messages = head.bytes = head.tokens = head.overlays = 0
    head.set_path((0, 0, 0))
    head.set_hidden((0, 0, 0))
    head.moved()
    return [head.incarnation, *shelf]
