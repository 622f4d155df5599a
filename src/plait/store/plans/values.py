"""Named values of a session: read, written by compare-and-set, each version kept until it is pruned.

A session's values stand on a shelf, whose number is in no other use: a clear leaves them there, a
delete leaves the shelf to the purge.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from plait import jsontext, times
from plait.errors import StaleValueError
from plait.logic import slices
from plait.logic import values as logic
from plait.logic.ids import can_be_stored
from plait.logic.values import NewValue
from plait.model import Json, Value
from plait.store.plan import Ask, Do, Enter, Head, Plan, Put, Row, Take
from plait.store.plans import common
from plait.store.plans.common import Mark
from plait.store.protocol import Scope, SessionRef, ValueStat

ESCAPED, SLICED = 1, 2
LARGE_BYTES = 512 << 10
"""A value larger than this is not fetched on an event loop."""

COPY_ROWS = 200
COPY_BYTES = 4 << 20
"""How much of a copy is made in one transaction."""

PRUNE_VALUES = 200
PRUNE_VERSIONS = 200
"""How many values one step of a pruning looks at, and how many versions it removes, a value's last ones aside."""

PURGE_SLICES = 16
"""How many slices one step of a purge removes, each up to the row budget."""

log = logging.getLogger("plait")

# The columns of a version, as `queries.sql` lists them.
VALUE, LABEL, KEY, VERSION, BYTES, TOKENS, CREATED_AT, FLAGS, OPERATION, ABOUT, BODY = range(11)


def read(ref: SessionRef, label: str, key: str) -> Plan[Value | None]:
    """The newest version of a value; `None` if it is not there."""
    head = yield from common.take(ref)
    row = (yield from _current(head, label, key)) if head is not None else None
    return None if row is None else _there((yield from build(row)))


def _there(value: Value) -> Value | None:
    return value if value.content is not None else None


def _current(head: Head, label: str, key: str) -> Plan[Row | None]:
    if not (can_be_stored(label) and can_be_stored(key)):
        return None
    rows = yield Ask("find_value", (LARGE_BYTES, label, key, head.session))
    return rows[0] if rows else None


def build(row: Row) -> Plan[Value]:
    """The value of a row, put together from its slices; one that is not whole any more says so, and is reported."""
    about = jsontext.decode(row[ABOUT])
    content, whole = yield from _content(row)
    if not whole:
        log.error("value %r, key %r (version %d) is damaged or incomplete", row[LABEL], row[KEY], row[VERSION])
    return Value(
        label=row[LABEL],
        key=row[KEY],
        content=content,
        description=about.get("description"),
        tokens=row[TOKENS],
        version=row[VERSION],
        written_at=times.from_us(row[CREATED_AT]),
        metadata=about.get("metadata", {}),
        damaged=not whole,
    )


def content_of(row: Row) -> Plan[str | None]:
    """What a version says, as far as it can be read; `None` if it says that the value was deleted."""
    return (yield from _content(row))[0]


def _content(row: Row) -> Plan[tuple[str | None, bool]]:
    """What a version says, and whether that is all that was written."""
    body = row[BODY]
    if body is None and row[BYTES] > LARGE_BYTES:
        rows = yield Ask("value_body", (row[VALUE], row[VERSION]), heavy=True)
        body = rows[0][0] if rows else None
    if body is None:
        return None, row[BYTES] == 0
    pieces = [body]
    if row[FLAGS] & SLICED:
        pieces += [piece for (piece,) in (yield Ask("value_slices", (row[VALUE], row[VERSION]), heavy=True))]
    try:
        content = logic.unpacked(logic.joined(pieces), bool(row[FLAGS] & ESCAPED))
    except ValueError:
        text = logic.joined(pieces, damaged="replace")
        return logic.unpacked_in_part(text) if row[FLAGS] & ESCAPED else text, False
    return content, logic.size_of(content) == row[BYTES]


def listing(
    ref: SessionRef, label: str, after: str | None, limit: int, prefix: str, budget_bytes: int
) -> Plan[list[Value]]:
    """The next values of a label after a key, in the order of their keys."""
    head = yield from common.take(ref)
    if head is None or not all(map(can_be_stored, (label, prefix, after or ""))):
        return []
    bounds = _bounds(after, prefix)
    query = "values_from" if len(bounds) == 1 else "values_between"
    args = (LARGE_BYTES, label, *bounds, head.session, limit)
    found: list[Value] = []
    for row in (yield Ask(query, args, budget_bytes=budget_bytes, size_at=BYTES)):
        found.append((yield from build(row)))
    return found


def stats(ref: SessionRef, label: str, after: str | None, limit: int, prefix: str) -> Plan[list[ValueStat]]:
    """The next values of a label after a key as `listing` answers them, their content untouched."""
    head = yield from common.take(ref)
    if head is None or not all(map(can_be_stored, (label, prefix, after or ""))):
        return []
    bounds = _bounds(after, prefix)
    query = "value_stats_from" if len(bounds) == 1 else "value_stats_between"
    rows = yield Ask(query, (label, *bounds, head.session, limit), heavy=True)
    return [
        ValueStat(key, version, size, tokens, at_us, jsontext.decode(about).get("description"))
        for key, version, size, tokens, at_us, about in rows
    ]


def _bounds(after: str | None, prefix: str) -> tuple[str] | tuple[str, str]:
    """The first key after one that begins with a prefix, and the key before which all such are, if there is one."""
    start, end = max(prefix, "" if after is None else after + "\0"), logic.after_prefix(prefix)
    return (start,) if end is None else (start, end)


def history(ref: SessionRef, label: str, key: str, before: int | None, limit: int) -> Plan[list[Value]]:
    """The versions of a value that are kept, newest first."""
    head = yield from common.take(ref)
    if head is None or not (can_be_stored(label) and can_be_stored(key)):
        return []
    args = (LARGE_BYTES, label, key, 1 << 62 if before is None else before, head.session, limit)
    found: list[Value] = []
    for row in (yield Ask("value_versions", args)):
        found.append((yield from build(row)))
    return found


def count(ref: SessionRef, label: str, prefix: str) -> Plan[int]:
    """How many values of a label are there whose keys begin with a prefix."""
    head = yield from common.take(ref)
    if head is None or not (can_be_stored(label) and can_be_stored(prefix)):
        return 0
    end = logic.after_prefix(prefix)
    ask = Ask("count_values_from", (label, prefix, head.session), heavy=True)
    if end is not None:
        ask = Ask("count_values_between", (label, prefix, end, head.session), heavy=True)
    ((found,),) = yield ask
    return int(found)


def names(ref: SessionRef, after: tuple[str, str | None] | None, limit: int) -> Plan[list[tuple[str, str]]]:
    """The labels and keys of the next values, in order, those deleted too."""
    head = yield from common.take(ref)
    if head is None:
        return []
    label, key = after or ("", "")
    if not (can_be_stored(label) and can_be_stored(key or "")):
        return []
    if key is None:  # no key is as long as this one, which comes after all that there can be
        key = logic.MAX_SCALAR * logic.MAX_KEY_CHARACTERS
    rows = yield Ask("value_names", (label, key, head.session, limit))
    return [(label, key) for label, key in rows]


def write(ref: SessionRef, new: NewValue, expect: int | None, mark: Mark, least_version: int = 0) -> Plan[Value]:
    """Write a value's next version, or delete it, if `expect` is what stands there.

    Nothing is written where it says that already. An operation that was done is not done again.
    """
    head = yield from common.take(ref)
    row = (yield from _current(head, new.label, new.key)) if head is not None else None
    if row is not None and row[OPERATION] == mark.operation:
        return (yield from build(row))
    old = (yield from build(row)) if row is not None else _never(new, mark)
    _refuse_stale(ref, old, expect)
    if _says(old, new) and not old.damaged:
        return old
    if head is None:
        head = yield from common.create(ref, mark)
    name = (new.label, new.key)
    number, version = yield from _place(head, row, name, int(new.body is not None), least_version)
    yield from _insert(number, version, new, mark)
    yield from common.record(head, "context", mark, _told(name, version, removed=new.body is None))
    return _written(new, version, mark)


def _never(new: NewValue, mark: Mark) -> Value:
    return Value(new.label, new.key, None, None, 0, 0, times.from_us(mark.at_us), {})


def _written(new: NewValue, version: int, mark: Mark) -> Value:
    at = times.from_us(mark.at_us)
    return Value(new.label, new.key, new.content, new.description, new.tokens, version, at, new.metadata)


def _refuse_stale(ref: SessionRef, old: Value, expect: int | None) -> None:
    if expect is None or expect == old.version or (expect == 0 and old.content is None):
        return
    name = f"{old.label!r}" if old.key == "" else f"{old.key!r} of {old.label!r}"
    stands = f"is at version {old.version}" if old.content is not None else "is not there"
    raise StaleValueError(
        f"value {name} of session {ref.id!r} {stands}, not at version {expect} as expected; nothing was written: "
        "look at `current` and write again",
        current=old,
        session_id=ref.id,
    )


def _says(old: Value, new: NewValue) -> bool:
    """Whether a value says, to the letter, what is to be written."""
    if old.content is None or new.content is None:
        return old.content is new.content
    return (old.content, old.description, old.metadata) == (new.content, new.description, new.metadata)


def _told(name: tuple[str, str], version: int, *, removed: bool) -> Json:
    """What the record of a change says of it."""
    told = {"label": name[0], "name": name[1], "value": version}
    return {**told, "removed": True} if removed else told


def _place(head: Head, row: Row | None, name: tuple[str, str], there: int, least: int) -> Plan[tuple[int, int]]:
    """The number of a value and its next version, which is `least` or above, both written down."""
    if row is not None:
        version = max(row[VERSION] + 1, least)
        yield Do("set_value", (version, there, row[VALUE]))
        yield Do("add_value_pending", (row[VALUE],))
        return row[VALUE], version
    shelf, base, n = yield from _shelf(head)
    number, version = shelf << 32 | n, max(base + 1, least)
    yield Put("add_value", [(number, shelf, *name, version, there)])
    return number, version


def _shelf(head: Head) -> Plan[tuple[int, int, int]]:
    """The session's shelf, where its versions begin, and the next number on it; made if there is none."""
    if not (yield Ask("find_shelf", (head.session,))):
        yield Do("add_shelf", (head.session, (yield from common.next_number("incarnation"))))
    ((shelf, base, n),) = yield Do("next_value", (head.session,))
    return shelf, base, n


def _insert(number: int, version: int, new: NewValue, mark: Mark) -> Plan[None]:
    rest = slices.cut(new.body or "")
    body = next(rest)
    flags = ESCAPED * new.escaped | SLICED * (len(body) < len(new.body or ""))
    stats = (number, version, new.bytes, new.tokens, mark.at_us, flags, mark.operation, new.about)
    yield Put("add_value_text", [(*stats, None if new.body is None else body)])
    for n, text in enumerate(rest, 1):
        yield Do("add_value_slice", (number, version, n, text))


def named(tenant: str, owner: str, id: str) -> SessionRef:
    """A session by the columns of its row."""
    return SessionRef(Scope(tenant, owner), id)


# -- from one session's row to another's ---------------------------------------


def begin_after(head: Head, old: Head) -> Plan[None]:
    """Let the versions of a hidden session's values come after those of the life before."""
    yield Do("inherit_shelf", (head.session, old.session))


def move(head: Head, old: Head) -> Plan[None]:
    """Hand a hidden session's values over to the row of a deleted one, whose versions are in use."""
    rows = yield Ask("find_shelf", (head.session,))
    if not rows:
        yield Do("drop_shelf", (head.session,))
        return
    shelf = rows[0][0]
    ((behind,),) = yield Ask("shelf_behind", (old.session, head.session))
    if behind > 0:  # the target had another life since the hidden session was begun
        lo, hi = shelf << 32, shelf << 32 | 0xFFFFFFFF
        for query in ("raise_value_slices", "raise_value_texts", "raise_values"):
            yield Do(query, (behind, lo, hi))
    yield Do("drop_shelf", (old.session,))
    yield Do("move_shelf", (old.session, max(behind, 0), head.session))


# -- copies --------------------------------------------------------------------


def any_of(ref: SessionRef) -> Plan[bool]:
    """Whether a session has values."""
    head = yield from common.take(ref)
    return head is not None and bool((yield Ask("find_shelf", (head.session,))))


def copy_step(source: SessionRef, stage: SessionRef, after: int, mark: Mark) -> Plan[tuple[int, bool]]:
    """Copy what the next values say, in the order of their numbers; the last number, and whether that was all."""
    head, origin = (yield from common.take(stage)), (yield from common.take(source, fenced=False))
    assert head is not None
    shelves: Sequence[Row] = (yield Ask("find_shelf", (origin.session,))) if origin is not None else []
    if not shelves:
        return after, True
    lo, hi = max(after + 1, shelves[0][0] << 32), shelves[0][0] << 32 | 0xFFFFFFFF
    rows = yield Ask("values_to_copy", (lo, hi, COPY_ROWS), budget_bytes=COPY_BYTES, size_at=4)
    for number, label, key, version, _ in rows:
        yield from _copy(source, (number, version), (label, key), stage, head, mark)
        after = number
    return after, not rows


def copy_changed(
    source: SessionRef, origin: Head, since_version: int, stage: SessionRef, head: Head, mark: Mark
) -> Plan[None]:
    """Copy again what was written while a copy was being made."""
    yield Enter(source)
    told = [jsontext.decode(data) for (data,) in (yield Ask("values_written_since", (origin.session, since_version)))]
    for label, key in dict.fromkeys((data["label"], data["name"]) for data in told):
        yield Enter(source)
        row = yield from _current(origin, label, key)
        if row is not None:
            yield from _copy(source, (row[VALUE], row[VERSION]), (label, key), stage, head, mark)


def _copy(
    source: SessionRef, there: tuple[int, int], name: tuple[str, str], stage: SessionRef, head: Head, mark: Mark
) -> Plan[None]:
    """Copy one version, by number and version, as a hidden session's, under its number: others may have noted that."""
    yield Enter(source)
    ((says,),) = yield Ask("value_is_there", there)
    yield Enter(stage)
    row = yield from _current(head, *name)
    if row is None and not says:
        return
    number, version = yield from _place(head, row, name, int(says), there[1])
    yield Enter(source)
    yield Do("copy_value_text", (number, version, *there), into=stage)
    yield Do("copy_value_slices", (number, version, *there), into=stage)
    yield Enter(stage)
    yield from common.record(head, "context", mark, _told(name, version, removed=not says))


# -- pruning -------------------------------------------------------------------


def prune(ref: SessionRef, after: int, before_us: int | None, keep: int | None) -> Plan[tuple[int, int]]:
    """Forget earlier versions of the next values of a session; the last number looked at (0: all were) and how many."""
    head: Head | None = yield Take(SessionRef(ref.scope, ref.id))
    shelves: Sequence[Row] = (yield Ask("find_shelf", (head.session,))) if head is not None and head.live else []
    if not shelves:
        return 0, 0
    lo, hi = max(after, shelves[0][0] << 32), shelves[0][0] << 32 | 0xFFFFFFFF
    rows = yield Ask("values_with_history", (lo, hi, PRUNE_VALUES))
    gone = 0
    for number, newest in rows:
        more = yield from _prune(number, newest, before_us, keep)
        gone += more
        if gone >= PRUNE_VERSIONS or more == PRUNE_VERSIONS:
            return number - 1, gone  # it may have more of them
    return (rows[-1][0] if len(rows) == PRUNE_VALUES else 0), gone


def _prune(number: int, newest: int, before_us: int | None, keep: int | None) -> Plan[int]:
    """Forget the first versions of a value that are old or more than are to be kept beside the newest."""
    beyond: list[Row] = (yield Ask("version_from_end", (number, newest, keep))) if keep is not None else []
    upto = beyond[0][0] if beyond else 0
    gone: list[int] = []
    for version, at_us in (yield Ask("oldest_versions", (number, newest, PRUNE_VERSIONS))):
        if version > upto and (before_us is None or at_us >= before_us):
            break
        gone.append(version)
    if gone:
        yield Do("prune_value_slices", (number, gone[-1]))
        yield Do("prune_value_texts", (number, gone[-1]))
    return len(gone)


# -- the end of a life ---------------------------------------------------------


def leave(head: Head) -> Plan[list[int]]:
    """Leave the shelf of a session that is deleted to the purge; answers it, if there is one.

    Versions go on after those it gave out.
    """
    rows: Sequence[Row] = yield Ask("find_shelf", (head.session,))
    if rows:
        yield Put("add_purge", [(rows[0][0],)])
        yield Do("leave_shelf", (head.version, head.session))
    return [shelf for shelf, *_ in rows]


def purge_step(shelf: int, limit: int) -> Plan[bool]:
    """Remove some rows of a shelf that nobody has any more; whether there may be more."""
    lo, hi = shelf << 32, shelf << 32 | 0xFFFFFFFF
    if (yield Do("purge_value_slices", (lo, hi, PURGE_SLICES))):
        return True
    if (yield Do("purge_value_texts", (lo, hi, limit))):
        return True
    gone: list[Row] = yield Do("purge_values", (lo, hi, limit))
    if gone:
        yield Do("add_values_pending", (jsontext.encode([number for (number,) in gone]),))
        return True
    yield Do("drop_value_progress", (shelf,))
    return False
