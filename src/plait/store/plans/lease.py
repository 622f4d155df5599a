"""Leases: the right of one worker to write to a session, fenced by the session's epoch.

The epoch goes on whenever a lease begins or ends, and `common.take` compares it in each write: so
however wrong clocks are, and however late a holder wakes up, two never write in the same turn.
Clocks only say when a lease may be taken over.
"""

from __future__ import annotations

from plait import times
from plait.model import LeaseInfo
from plait.store.plan import Ask, Do, Head, Plan, Row
from plait.store.plans import common
from plait.store.plans.common import Mark
from plait.store.protocol import Fence, SessionRef


def acquire(ref: SessionRef, token: str, mark: Mark, *, ttl_us: int, holder: str) -> Plan[Fence]:
    """Begin a lease, creating the session if it is absent; the same token again answers the same lease."""
    head = yield from common.take(ref, fenced=False)
    if head is None:
        head = yield from common.create(ref, mark)
        yield from common.record(head, "session", mark, {"created": True})
    now = yield from common.now_us()
    rows: list[Row] = yield Ask("find_lease", (head.session,))
    if rows and rows[0][1] != token:
        if rows[0][0] > now:
            yield from common.refuse_held(ref, head)
        rows = []
    if not rows:
        head.epoch += 1
        head.changed = True
    head.lease_until_us = now + ttl_us
    yield Do("set_lease", (head.session, head.lease_until_us, token, holder))
    return Fence(head.epoch, ttl_us, head.lease_until_us)


def renew(ref: SessionRef) -> Plan[int]:
    """Keep the ref's lease for as long again; answers until when. `LeaseLostError` if it is over."""
    head = yield from _head(ref)
    assert ref.lease is not None
    if head is not None:
        yield from common.extend_lease(head, ref.lease, (yield from common.now_us()))
    return ref.lease.until_us


def _head(ref: SessionRef) -> Plan[Head | None]:
    """The head under the ref's lease, whichever life of the session it is."""
    return (yield from common.take(SessionRef(ref.scope, ref.id, lease=ref.lease)))


def release(ref: SessionRef) -> Plan[bool]:
    """End the ref's lease; `False` if it was over already."""
    lease = ref.lease
    head = yield from common.take(SessionRef(ref.scope, ref.id), fenced=False)
    if lease is None or head is None or head.lease_until_us is None or head.epoch != lease.epoch:
        return False
    yield from common.end_lease(head)
    return True


def end(ref: SessionRef) -> Plan[bool]:
    """End whoever's lease; `False` if there is none."""
    head = yield from common.take(ref, fenced=False)
    if head is None or head.lease_until_us is None:
        return False
    yield from common.end_lease(head)
    return True


def info(ref: SessionRef) -> Plan[LeaseInfo | None]:
    """Who holds the lease; `None` for nobody, also once its time is over."""
    head = yield from common.take(ref)
    rows: list[Row] = (yield Ask("find_lease", (head.session,))) if head is not None else []
    if head is None or not rows or rows[0][0] <= (yield from common.now_us()):
        return None
    until_us, _, holder = rows[0]
    return LeaseInfo(holder, times.from_us(until_us), head.epoch)
