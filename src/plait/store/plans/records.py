"""Records: small opaque rows under keys of bytes, written in one transaction with messages they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from plait.errors import ConflictError, StaleValueError
from plait.store.plan import Ask, Do, Head, Plan, Row
from plait.store.plans import append, catalogue, change, common
from plait.store.plans.common import Mark
from plait.store.protocol import NewRecords, SessionRef, Written

BUDGET_BYTES = 4 << 20
"""How much a page of records holds at most, at least one record."""


def read(ref: SessionRef, keys: Sequence[bytes]) -> Plan[dict[bytes, bytes]]:
    """The records under these keys that are there."""
    head = yield from common.take(ref)
    found: dict[bytes, bytes] = {}
    if head is None:
        return found
    for key in keys:
        for (body,) in (yield Ask("find_record", (head.incarnation, key))):
            found[key] = bytes(body)
    return found


def listing(
    ref: SessionRef, first: bytes, end: bytes, limit: int, *, last_first: bool
) -> Plan[list[tuple[bytes, bytes]]]:
    """The next records with `first` <= key < `end`, in the order of their keys or the other way round."""
    head = yield from common.take(ref)
    if head is None:
        return []
    query = "records_down" if last_first else "records_up"
    args = (head.incarnation, first, end, limit)
    rows: list[Row] = yield Ask(query, args, budget_bytes=BUDGET_BYTES, size_at=2)
    return [(bytes(key), bytes(body)) for key, body, _ in rows]


def write(ref: SessionRef, new: NewRecords, mark: Mark) -> Plan[tuple[list[bytes], list[Written], list[str]]]:
    """Write records, and messages with them: all or nothing; answers the keys of `keep` that were there, the messages, and the ids removed.

    `ConflictError` if one of the messages is there already, in whatever place and with whatever content;
    `StaleValueError` if a record is not the one expected.
    """
    head = yield from common.take(ref)
    if new.expect_version is not None:
        yield from catalogue.refuse_moved(head, new.expect_version)
    yield from _refuse_stale(head, new)
    if head is None and not (new.put or new.keep or new.chains or new.state):
        return [], [], []
    if head is None:
        head = yield from common.create(ref, mark)
    written = yield from _append(ref, new, mark)
    if new.leaf is not None:
        yield from change.checkout(ref, new.leaf, mark)
    removed = yield from change.delete(ref, new.remove, mark)
    there = yield from _keep(head, new)
    for key, body in new.put:
        yield Do("put_record", (head.incarnation, key, body))
    for key in new.drop:
        yield Do("drop_record", (head.incarnation, key))
    if new.state is not None:
        yield from catalogue.update_state(ref, new.state, mark)
    return there, written, removed or []


def _refuse_stale(head: Head | None, new: NewRecords) -> Plan[None]:
    for key, body in new.expect:
        rows: list[Row] = (yield Ask("find_record", (head.incarnation, key))) if head is not None else []
        if (bytes(rows[0][0]) if rows else None) != body:
            raise StaleValueError(f"record {key!r} is not what was expected: read it again; nothing was written")


def _append(ref: SessionRef, new: NewRecords, mark: Mark) -> Plan[list[Written]]:
    written: list[Written] = []
    for chain in new.chains:
        activate = chain.messages[-1].id == new.leaf
        options: dict[str, Any] = {"expect": None, "kind": "append", "activate": activate, "refuse_other": True}
        added = yield from append.append(ref, chain.messages, mark, parent=chain.parent, **options)
        _refuse_known(added)
        written += added if activate else [replace(result, branched=True) for result in added]
    return written


def _refuse_known(added: list[Written]) -> None:
    for result in added:
        if not result.inserted:
            raise ConflictError(
                f"message {result.id!r} is there already, and records say where messages are that come with them; "
                "nothing was written: look where it is and write records that say so",
                message_id=result.id,
            )


def _keep(head: Head, new: NewRecords) -> Plan[list[bytes]]:
    there: list[bytes] = []
    for key, body in new.keep:
        if not (yield Do("keep_record", (head.incarnation, key, body))):
            there.append(key)
    return there
