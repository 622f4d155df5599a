"""Counting tokens anew: the stamps of messages and summaries change, and the totals with them, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from plait import jsontext
from plait.errors import StaleValueError
from plait.store.plan import Ask, Do, Head, Plan
from plait.store.plans import common, overlays
from plait.store.protocol import SessionRef

Stamps = Sequence[tuple[str, int]]


def restamp(ref: SessionRef, stamps: Stamps, summaries: Stamps, since_version: int) -> Plan[int]:
    """Stamp messages and overlays, by id, as they were counted at a version; answers how many stamps changed.

    Stamps are derived: no change is recorded, and the version stays.
    """
    head = yield from common.take(ref)
    if head is None:
        return 0
    changed = yield from _stamp_messages(head, stamps, since_version)
    changed += yield from _stamp_summaries(head, summaries)
    if changed:
        yield from overlays.recount(head)
        yield Do("spoil_removals", (head.incarnation,))
    return changed


def _stamp_messages(head: Head, stamps: Stamps, since_version: int) -> Plan[int]:
    asked = dict(stamps)
    keys = {key: id for id, key in (yield Ask("find_messages", (jsontext.encode(list(asked)), head.incarnation)))}
    yield from _refuse_changed(head, set(keys), since_version)
    path = yield from common.path_to(head.leaf)
    if head.path_messages is None:
        head.set_path((yield from common.range_totals(path)))
    grown: dict[int, int] = {}
    for key, _, tokens in (yield Ask("message_sizes", (jsontext.encode(list(keys)),))):
        more = asked[keys[key]] - tokens
        if more:
            yield Do("restamp_message", (asked[keys[key]], key))
            head.add(0, 0, more, on_path=common.on_ranges(key, path))
            grown[key] = more
    for key, items in (yield from overlays.over(head, list(grown))).items():
        for item in items:
            yield Do("restamp_below", (grown[key], item.number))
    return len(grown)


def _refuse_changed(head: Head, keys: set[int], version: int) -> Plan[None]:
    changed = yield from common.changed_keys(head, version)
    if changed is None or not keys.isdisjoint(changed):
        raise StaleValueError(f"a message was changed since version {version}, when it was counted; count it again")


def _stamp_summaries(head: Head, summaries: Stamps) -> Plan[int]:
    changed = 0
    for id, tokens in summaries if head.overlays else ():
        changed += len((yield Do("restamp_overlay", (tokens, head.incarnation, id))))
    return changed
