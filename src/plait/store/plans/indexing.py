"""Keeping the search index: switched on by the first search, then brought up to date behind the writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from plait import formats, jsontext
from plait.logic import words
from plait.logic.strands import seq_of
from plait.store.plan import Ask, Do, Enter, Forget, Head, Plan, Put, Row, Take
from plait.store.plans import common, messages
from plait.store.protocol import Scope, SessionRef

STEP_ROWS = 1000
STEP_BYTES = 2 << 20
"""How much is indexed in one transaction; others write in between."""

DRAIN_ROWS = 100
"""How many messages of deleted sessions are taken out along with a step."""

Behind = list[SessionRef] | None


class Ready(Struct, frozen=True):
    """Words of messages by key, taken out of their texts before the write began, as these were at a version."""

    version: int
    words: dict[int, str]


def state(within: SessionRef | Scope, head: Head | None) -> Plan[tuple[bool, bool]]:
    """Whether the index is switched on, and whether it is up to date about a session, whose head is given, or a scope."""
    if isinstance(within, SessionRef):
        life = 0 if head is None else head.incarnation
        mark: list[Row] = yield Ask("search_mark", (within.scope.tenant, within.scope.owner, life))
        return bool(mark), mark == [(0,)]
    on = bool((yield Ask("search_is_on")))
    return on, on and not (yield Ask("search_behind", (within.tenant, within.owner), heavy=True))


def behind(within: SessionRef | Scope | None) -> Plan[Behind]:
    """The sessions that the index is to be brought up to date about; `None` if it is not switched on.

    Within one session, one scope, or (`None`) everywhere.
    """
    if not (yield Ask("search_is_on")):
        return None
    if isinstance(within, SessionRef):
        head: Head | None = yield Take(within)
        scope = (within.scope.tenant, within.scope.owner)
        mark: list[Row] = []
        if head is not None and head.live:
            mark = yield Ask("search_mark", (*scope, head.incarnation))
        return [within] if mark == [(1,)] else []
    if within is None:
        rows = yield Ask("search_all_behind", heavy=True)
    else:
        rows = yield Ask("search_behind", (within.tenant, within.owner), heavy=True)
    return [SessionRef(Scope(tenant, owner), id) for tenant, owner, id in rows]


def switch_on(at_us: int) -> Plan[None]:
    """Let the index follow the data from now on; every session is to be indexed."""
    if (yield Ask("search_is_on")):
        return
    yield Do("switch_search_on", (at_us,))
    yield Do("mark_all_behind")
    yield Forget(None)


def start_anew(at_us: int) -> Plan[None]:
    """Empty the index; every session is to be indexed again."""
    is_on = yield Ask("search_is_on")
    yield Do("switch_search_anew" if is_on else "switch_search_on", (at_us,))  # first: it waits for who is at it
    for query in ("clear_words", "clear_search_progress", "clear_search_behind", "clear_search_pending"):
        yield Do(query)
    yield Do("mark_all_behind")
    yield Forget(None)


def upcoming(ref: SessionRef) -> Plan[tuple[int, list[tuple[int, str]]]]:
    """The folded texts that `catch_up` is to index next, by key, and the version that they are of."""
    head: Head | None = yield Take(SessionRef(ref.scope, ref.id))
    if head is None or not head.live:
        return 0, []
    keys, last = yield from _next(head)
    if last + 1 >= head.next_seq:
        keys += [key for (key,) in (yield Ask("search_pending_of", (head.incarnation, STEP_ROWS)))]
    return head.version, (yield from _texts(keys))


def catch_up(ref: SessionRef, ready: Ready | None = None) -> Plan[tuple[int, bool]]:
    """Index the next messages of a session; how many, and whether it has more.

    What is `ready` is taken as it is, but for what has changed since.
    """
    head: Head | None = yield Take(SessionRef(ref.scope, ref.id))
    done, more = 0, False
    yield Ask("keep_search_on")
    if head is not None and head.live:
        known = (yield from _unchanged(head, ready)) if ready is not None else {}
        keys, last = yield from _next(head)
        yield from _index(keys, known)
        yield Do("save_search_progress", (head.incarnation, last))
        done = len(keys)
        more = last + 1 < head.next_seq or not (yield from _settle_pending(head, known))
        if not more:
            yield Do("drop_search_marks", (head.incarnation,))
            head.to_mark = head.searched = True
    yield from drain(DRAIN_ROWS)
    return done, more


def _unchanged(head: Head, ready: Ready) -> Plan[dict[int, str]]:
    changed = yield from common.changed_keys(head, ready.version)
    return {} if changed is None else {key: text for key, text in ready.words.items() if key not in changed}


def left() -> Plan[int]:
    """How many messages may be waiting to be indexed, everywhere."""
    ((count,),) = yield Ask("search_left", heavy=True)
    return int(count)


def _next(head: Head) -> Plan[tuple[list[int], int]]:
    """The keys of a session that are to be indexed next, and up to which seq the index is complete then."""
    rows = yield Ask("search_progress", (head.incarnation,))
    last = rows[0][0] if rows else 0
    keys: list[int] = []
    size = 0
    while last + 1 < head.next_seq and len(keys) < STEP_ROWS and size < STEP_BYTES:
        some, last, more = yield from _next_keys(head, last, STEP_ROWS - len(keys), STEP_BYTES - size)
        keys += some
        size += more
    return keys, last


def _next_keys(head: Head, after: int, rows: int, room: int) -> Plan[tuple[list[int], int, int]]:
    """The keys that follow a seq, up to which seq they are complete, and their size."""
    upto = min(after + rows, head.next_seq - 1)
    keys: list[int] = []
    size = 0
    for key, more in (yield Ask("keys_by_seq", (after, upto, head.incarnation))):
        keys.append(key)
        size += more
        if size >= room:
            return keys, seq_of(key), size
    return keys, upto, size


def _index(keys: Sequence[int], known: Mapping[int, str]) -> Plan[None]:
    found = [(key, known[key]) for key in keys if key in known]
    found += yield from _texts([key for key in keys if key not in known])
    if found:
        yield Put("add_words", sorted(found))  # FTS5 begins a new segment whenever a rowid goes down


def _texts(keys: Sequence[int]) -> Plan[list[tuple[int, str]]]:
    """The folded texts of messages, by key."""
    texts: list[tuple[int, str]] = []
    if keys:
        for row in (yield Ask("messages_by_keys", (messages.LARGE_BYTES, jsontext.encode(sorted(keys))))):
            texts.append((row[messages.KEY], words.fold((yield from text_of(row)))))
    return texts


def text_of(row: Row) -> Plan[str]:
    """The words of a stored message, nothing if it is damaged."""
    flags, format, body = row[messages.FLAGS], row[messages.FORMAT], row[messages.BODY]
    if body is None:
        found = yield Ask("message_body", (row[messages.KEY],))
        body = found[0][0] if found else None
    if flags & messages.SLICED:
        rest = yield Ask("slices_of", (row[messages.KEY],))
        body = messages.joined([body, *(piece for _, piece in rest)])
    if not isinstance(body, str | bytes):
        return ""
    try:
        content = jsontext.decode(body)
        reader = formats.stored(format) if format else formats.NATIVE
        return words.texts(reader.parts(content))
    except (ValueError, RecursionError, AttributeError):
        return ""


def _settle_pending(head: Head, known: Mapping[int, str]) -> Plan[bool]:
    """Index anew what was changed and take out what was deleted; whether that was all."""
    rows = yield Ask("search_pending_of", (head.incarnation, STEP_ROWS))
    yield from _renew([key for (key,) in rows], known)
    return len(rows) < STEP_ROWS


def _renew(keys: Sequence[int], known: Mapping[int, str]) -> Plan[None]:
    if keys:
        listed = jsontext.encode(keys)
        yield Do("drop_words", (listed,))
        yield from _index(keys, known)
        yield Do("drop_search_pending", (listed,))


def drain(limit: int) -> Plan[bool]:
    """Renew some of what is out of date, of whatever session; whether that was all.

    A driver that lets others write meanwhile names only messages that are gone for good.
    """
    rows = yield Ask("search_pending", (limit,))
    for where, group in groupby(rows, itemgetter(1)):
        yield Enter(where)
        yield from _renew([key for key, _ in group], {})
    return len(rows) < limit


def merge() -> Plan[None]:
    """Write the index anew, so that no page of it holds what was taken out."""
    yield Do("merge_words")
