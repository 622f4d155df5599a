"""Appends worked out before the server is asked: from what the last write left, in the belief that nobody wrote since.

The statements that carry one out fail where the belief is wrong; then nothing is written, and the plan is
run in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from msgspec import Struct

from plait.store.plan import Bind, Claim, Head, Plan, Put, Row, Take
from plait.store.postgres import adapt
from plait.store.postgres.evidence import Evidence, Line
from plait.store.postgres.heads import HeadKey, Last, key_of
from plait.store.postgres.homes import Where
from plait.store.postgres.lanes import Waiting
from plait.store.postgres.statements import Statement, load, own
from plait.store.postgres.wire import Bodies, Item
from plait.store.protocol import SessionRef

Believed = Callable[[HeadKey], Last | None]
STATEMENTS, OWN = load(), own()
FEW = 3
"""Up to how many messages have statements of their own."""


class Guessed(Struct):
    """An append as it will be if nobody else has written: what the session's row was and becomes, and the new rows."""

    key: HeadKey
    where: Where
    was: Head
    head: Head
    ids: list[Row]
    messages: list[Row]
    binds: list[Bind]
    given: set[str]
    """Ids that came with their messages."""
    result: Any
    done: bool = False
    error: Exception | None = None
    doubted: bool = False
    """Its commit was not answered, and it is not there: it may come about yet, unless another write comes before."""

    def lines(self) -> list[Line]:
        """What shows afterwards that it was committed: its messages."""
        was = self.was
        return [
            Line(self.where, row, was.session, was.incarnation, made=id not in self.given)
            for row, (_, id, _) in zip(self.messages, self.ids, strict=True)
        ]


def evidence_of(groups: Sequence[list[Guessed]]) -> Evidence:
    """What shows that a batch was committed: a message of each session, then all others."""
    found, firsts = Evidence(), [group[0] for group in groups]
    for item in [*firsts, *(item for group in groups for item in group[1:])]:
        for line in item.lines():
            found.of_line(line)
    return found


def guess(item: Waiting, believed: Believed) -> Guessed | None:
    """Work a plan out; `None` if it is more than a plain append, or nothing is believed of its session."""
    plan: Plan[Any] = item.plan()
    guessing = _Guessing(item, believed)
    answer: Any = None
    try:
        while True:
            step = plan.send(answer)
            if not guessing.takes(step):
                return None
            answer = guessing.answer
    except StopIteration as end:
        return guessing.end(end.value)
    except Exception:
        return None  # it may be that the session is another by now: the ordinary way will tell
    finally:
        plan.close()


class _Guessing:
    """One plan on its way."""

    def __init__(self, item: Waiting, believed: Believed) -> None:
        self.answer: Any = None
        self._item = item
        self._believed = believed
        self._guessed: Guessed | None = None

    def takes(self, step: Any) -> bool:
        """Whether a step can be answered without the server; the answer is then there."""
        self.answer = None
        if isinstance(step, Put):
            return self._put(step)
        if isinstance(step, Take):
            return self._take(step.ref)
        if isinstance(step, Claim):
            if self._guessed is not None:
                self._guessed.given.add(step.id)
            return True  # as if the id were free: the unique key refuses it otherwise
        if isinstance(step, Bind) and self._guessed is not None:
            self._guessed.binds.append(step)
            return True
        return False

    def end(self, result: Any) -> Guessed | None:
        """The append, if it has changed no more of the session's row than an append along the leaf does."""
        found = self._guessed
        if found is None or not found.ids or len(found.ids) != len(found.messages):
            return None
        if not _moved_on(found.was, found.head):
            return None
        found.result = result
        return found

    def _take(self, ref: SessionRef) -> bool:
        self._item.key = key = key_of(ref)
        last = self._believed(key)
        if last is None or self._guessed is not None or ref.lease is not None:
            return False
        was = last.head
        if (
            not was.live
            or was.lease_until_us is not None
            or was.to_mark
            or ref.incarnation not in (None, was.incarnation)
        ):
            return False
        head = copy(was)
        head.changed = False
        self.answer = head
        self._guessed = Guessed(key, last.where, was, head, [], [], [], set(), None)
        return True

    def _put(self, step: Put) -> bool:
        if self._guessed is None or step.query not in ("add_message_id", "add_message"):
            return False
        (self._guessed.ids if step.query == "add_message_id" else self._guessed.messages).extend(step.rows)
        return True


def _moved_on(was: Head, head: Head) -> bool:
    """Whether a head differs from what it was as an append along its leaf makes it."""
    path: tuple[int | None, ...] = (None, None, None)
    if was.path_messages is not None:
        before = was.path_messages, was.path_bytes or 0, was.path_tokens or 0
        path = tuple(number + more for number, more in zip(before, _added(was, head), strict=True))
    same = (head.epoch, head.overlays, head.hidden_messages) == (was.epoch, was.overlays, was.hidden_messages)
    return same and head.located and head.tip and (head.path_messages, head.path_bytes, head.path_tokens) == path


def _added(was: Head, head: Head) -> tuple[int, int, int]:
    return head.messages - was.messages, head.bytes - was.bytes, head.tokens - was.tokens


class Batch:
    """Appends that share a transaction, each worked out after those before it, all in one tick."""

    def __init__(self, believed: Believed, tick: int) -> None:
        self._guessed: list[Guessed] = []
        self._tick = tick
        self._believed = believed
        self._last: dict[HeadKey, Last] = {}
        self._claimed: set[tuple[Any, ...]] = set()

    def add(self, item: Waiting) -> Guessed | None:
        """Work a plan out and take it in; `None` if it cannot be in this batch."""
        found = guess(item, self._of)
        if found is None or found.head.tick != self._tick:
            return None
        claimed = {(found.where.home, *row[:2]) for row in found.ids}
        if len(claimed) < len(found.ids) or not claimed.isdisjoint(self._claimed):
            return None
        self._claimed |= claimed
        self._last[found.key] = Last(found.head, found.where, alone=True)
        self._guessed.append(found)
        return found

    def _of(self, key: HeadKey) -> Last | None:
        return self._last.get(key) or self._believed(key)

    def by_session(self) -> list[list[Guessed]]:
        """The appends of each session, the sessions in the order of their keys."""
        found: dict[Any, list[Guessed]] = {}
        for item in self._guessed:
            found.setdefault((item.where.home, item.was.session), []).append(item)
        return [found[place] for place in sorted(found)]


def items_of(groups: Sequence[list[Guessed]]) -> list[Item]:
    """What carries appends out: the rows of their sessions in the order of their keys, then ids and messages."""
    items = [_advance(OWN["advance_session"], group) for group in groups]
    all = [item for group in groups for item in group]
    if sum(len(item.ids) for item in all) > FEW:
        return [*items, *_many(all)]
    claim, add = OWN["claim_id"], STATEMENTS["add_message"]
    for item in all:
        items += [
            (claim.query, claim.values((incarnation, item.head.tick, id, key), item.where))
            for incarnation, id, key in item.ids
        ]
        items += [(add.query, add.values(row, item.where)) for row in item.messages]
    return items


def _advance(statement: Statement, group: list[Guessed]) -> Item:
    first, last = group[0], group[-1]
    was, head = first.was, last.head
    stood = was.version, was.next_seq, was.leaf, was.active_at_us, was.epoch, was.incarnation
    moved = head.version, head.next_seq, head.leaf, head.active_at_us
    return statement.query, statement.values((*stood, *moved, *_added(was, head), was.session), first.where)


def _many(all: Sequence[Guessed]) -> list[Item]:
    homes = [item.where.home for item in all for _ in item.ids]
    incarnations, ids, keys = _columns([row for item in all for row in item.ids])
    claim, add = OWN["claim_ids"], OWN["add_messages"]
    columns: list[list[Any]] = _columns([row for item in all for row in item.messages])
    bodies = Bodies(adapt.body(body, all[0].where) for body in columns.pop())
    columns[-3:] = [[adapt.stored(text) for text in column] for column in columns[-3:]]
    claimed = (all[0].head.tick, homes, incarnations, [adapt.stored(id) for id in ids], keys)
    return [(claim.query, claimed), (add.query, (homes, *columns, bodies))]


def _columns(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
