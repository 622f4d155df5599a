"""LangGraph's store for long-term memory on a session: items are records, their words are found by full text."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from langgraph.store.base.embed import get_text_at_path, tokenize_path

import plait
from plait.adapters.langgraph import layout, values
from plait.adapters.langgraph.saver import all_records
from plait.adapters.langgraph.steps import BothFaces, Work, on
from plait.adapters.langgraph.sweeping import Sweeping
from plait.errors import StaleValueError

SESSION: Final = "langgraph-memory"
_ITEMS: Final = layout.PREFIX + b"s"
_WORDS: Final = layout.PREFIX + b"t"
_SERDE: Final = JsonPlusSerializer()
FOUND: Final = 100
"""How many hits are asked for at first."""


class PlaitStore(BothFaces, Sweeping, BaseStore):
    """Keeps what agents remember across threads in one session of sessions that you have opened.

    `query=` is answered by full text, in all scripts, best match first: items with all of its words,
    then those with some. `ttl` is LangGraph's: `default_ttl` in minutes, `refresh_on_read`; an item that is
    over is not there any more, and `sweep_ttl` removes it from the file; `start_ttl_sweeper` has a thread do so every
    `sweep_interval_minutes` (`astart_ttl_sweeper`: a task), nothing does before it is called. `index` says which fields are searched
    (`{"fields": ["text", "notes[*]"]}`), by default all text. No embeddings, no extensions of the database.

    `sessions` is a `plait.Sessions` for the sync methods (and the async ones, in a thread), or a
    `plait.AsyncSessions` for the async methods. With the latter the sync methods work in threads beside the
    loop that the store was made or used in, such as those of a graph's sync nodes under `ainvoke`; elsewhere
    they raise `UsageError`. The sessions stay yours to close.
    """

    supports_ttl = True

    def __init__(
        self,
        sessions: plait.Sessions | plait.AsyncSessions,
        *,
        session_id: str = SESSION,
        ttl: TTLConfig | None = None,
        index: Mapping[str, Any] | None = None,
    ) -> None:
        self._work_on(sessions)
        self._session = session_id
        self.ttl_config = ttl
        self._fields = [str(field) for field in (index or {}).get("fields") or ["$"]]

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do these operations; what is read is what was there before what is written."""
        return self._run(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`."""
        return await self._arun(self._batch(list(ops)))

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over; answers how many."""
        return self._run(self._sweep())

    async def asweep_ttl(self) -> int:
        """See `sweep_ttl`."""
        return await self._arun(self._sweep())

    def _batch(self, ops: Sequence[Op]) -> Work[list[Result]]:
        for op in ops:
            validate_op_namespace(op)
        results: list[Result] = []
        puts: dict[bytes, PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                puts[_key(op.namespace, op.key)] = op
                results.append(None)
            elif isinstance(op, GetOp):
                results.append((yield from self._get(op)))
            elif isinstance(op, SearchOp):
                results.append((yield from self._search(op)))
            elif isinstance(op, ListNamespacesOp):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
                results.append((yield from self._namespaces(op)))
            else:
                raise ValueError(f"Unknown operation type: {type(op)}")
        if puts:
            yield from self._put(puts)
        return results

    def _get(self, op: GetOp) -> Work[Item | None]:
        key = _key(op.namespace, op.key)
        found = yield on(self._session, "read_records", [key])
        kept = _Kept.of(found[key]) if key in found else None
        if kept is None or kept.is_over(_now()):
            return None
        if op.refresh_ttl:
            yield from self._refresh(found)
        return Item(**kept.item(key))

    def _put(self, puts: dict[bytes, PutOp]) -> Work[None]:
        while True:
            old = yield on(self._session, "read_records", list(puts))
            new = self._changes(puts, {key: _Kept.of(body) for key, body in old.items()})
            try:
                yield on(self._session, "write_records", **new, expect={key: old.get(key) for key in puts})
            except StaleValueError:  # another put was first: this one goes over it
                continue
            return

    def _changes(self, puts: dict[bytes, PutOp], old: dict[bytes, _Kept]) -> dict[str, Any]:
        """What puts write where items are as they are now: each item has one message, that with its words."""
        put: dict[bytes, bytes] = {}
        append: list[Any] = []
        now = _now()
        for key, op in puts.items():
            if op.value is None:
                continue
            before = old.get(key)
            created = before.created if before is not None and not before.is_over(now) else now
            text = self._text(op)
            message = str(uuid.uuid4()) if text else ""
            until = now + int(op.ttl * 60_000_000) if op.ttl is not None else None
            put[key] = _Kept(created, now, op.ttl, until, message, values.dump(_SERDE, dict(op.value))).body()
            if text:
                about = {"namespace": list(op.namespace), "key": op.key}
                part = {"type": "text", "text": text}
                append.append((None, [(message, {"role": "memory", "parts": [part], "metadata": about})]))
                put[_WORDS + message.encode()] = key
        gone = [kept.message for kept in old.values() if kept.message]
        delete = [key for key, op in puts.items() if op.value is None]
        return {"put": put, "delete": delete + [_WORDS + id.encode() for id in gone], "append": append, "remove": gone}

    def _text(self, op: PutOp) -> str:
        """The words of an item that are to be found."""
        if op.index is False or op.value is None:
            return ""
        found: list[str] = []
        for field in self._fields if op.index is None else op.index:
            if field == "$":
                found += _strings(op.value)
            else:
                found += [text for text in get_text_at_path(op.value, tokenize_path(field)) if text]
        return "\n".join(dict.fromkeys(found))

    def _search(self, op: SearchOp) -> Work[list[SearchItem]]:
        wanted = _Wanted(_ITEMS + b"".join(map(layout.text, op.namespace_prefix)), op.filter, _now())
        scores: dict[bytes, float] = {}
        if op.query:
            scores, found = yield from self._found(op.query, wanted, op.offset + op.limit)
        else:
            found = dict((yield from all_records(self._session, wanted.prefix, layout.after(wanted.prefix))))
        kept = {key: one for key, body in found.items() if wanted.takes(key, one := _Kept.of(body))}
        order = sorted(kept, key=lambda key: (-scores.get(key, 0.0), -kept[key].updated, key))
        shown = order[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            yield from self._refresh({key: found[key] for key in shown})
        return [SearchItem(**kept[key].item(key), score=scores.get(key)) for key in shown]

    def _found(self, query: str, wanted: _Wanted, count: int) -> Work[tuple[dict[bytes, float], dict[bytes, bytes]]]:
        """The wanted items that hold the words of a query, and their scores: all words first, then by how many of them.

        Those with some of the words are looked for where fewer than `count` have all of them.
        """
        found = yield from self._hits(query, wanted, count)
        scores = {key: 1 + 1 / (n + 1) for n, key in enumerate(found)}
        words = list(dict.fromkeys(word for word in query.split() if len(word) > 1 or not word.isascii()))
        if len(found) >= count or words == [query.strip()]:
            return scores, found
        counts: dict[bytes, int] = {}
        for word in words:
            hits = yield from self._hits(word, wanted)
            found = hits | found
            for key in hits:
                counts[key] = counts.get(key, 0) + 1
        for key, number in counts.items():
            scores.setdefault(key, number / len(words))
        return scores, found

    def _hits(self, query: str, wanted: _Wanted, count: int | None = None) -> Work[dict[bytes, bytes]]:
        """The wanted items that hold all words, best first: all of them, or at least so many if there are."""
        limit = FOUND
        while True:
            # From the first hit each time, so that none is missed because others before it go meanwhile.
            hits = yield on(self._session, "search", query, limit=limit, role="memory")
            items = yield on(self._session, "read_records", [_WORDS + hit.id.encode() for hit in hits])
            keys = [items[key] for hit in hits if (key := _WORDS + hit.id.encode()) in items]
            bodies = yield on(self._session, "read_records", [key for key in keys if key.startswith(wanted.prefix)])
            found = {key: bodies[key] for key in keys if key in bodies and wanted.takes(key, _Kept.of(bodies[key]))}
            if len(hits) < limit or (count is not None and len(found) >= count):
                return found
            limit *= 4

    def _namespaces(self, op: ListNamespacesOp) -> Work[list[tuple[str, ...]]]:
        found: set[tuple[str, ...]] = set()
        now = _now()
        for key, body in (yield from all_records(self._session, _ITEMS, layout.after(_ITEMS))):
            if not _Kept.of(body).is_over(now):
                found.add(_parse(key)[0])
        matching = [ns for ns in found if all(_does_match(condition, ns) for condition in op.match_conditions or ())]
        cut = sorted({ns if op.max_depth is None else ns[: op.max_depth] for ns in matching})
        return cut[op.offset : op.offset + op.limit]

    def _refresh(self, read: dict[bytes, bytes]) -> Work[None]:
        """Let the time of items begin anew, unless they are not any more what was read."""
        now = _now()
        while put := {key: fresh for key, body in read.items() if (fresh := _Kept.of(body).refreshed(now)) is not None}:
            try:
                yield on(self._session, "write_records", put, expect={key: read[key] for key in put})
            except StaleValueError:
                there = yield on(self._session, "read_records", list(put))
                read = {key: read[key] for key in put if there.get(key) == read[key]}
                continue
            return

    def _sweep(self) -> Work[int]:
        now, count = _now(), 0
        for key, body in (yield from all_records(self._session, _ITEMS, layout.after(_ITEMS))):
            one = _Kept.of(body)
            if not one.is_over(now):
                continue
            messages = [one.message] if one.message else []
            gone = [key, *(_WORDS + id.encode() for id in messages)]
            try:
                yield on(self._session, "write_records", delete=gone, remove=messages, expect={key: body})
            except StaleValueError:  # it was read or put meanwhile, or another sweep was first
                continue
            count += 1
        return count


class _Kept(NamedTuple):
    """An item as it is kept; times in microseconds, `ttl` in minutes, `message` the one with its words."""

    created: int
    updated: int
    ttl: float | None
    until: int | None
    message: str
    typed: values.Typed

    @classmethod
    def of(cls, body: bytes) -> _Kept:
        created, updated, ttl, until, message, typed = layout.unpack(body)
        return cls(created, updated, ttl, until, message, (typed[0], typed[1]))

    def body(self) -> bytes:
        return layout.pack(list(self))

    def is_over(self, now: int) -> bool:
        return self.until is not None and self.until <= now

    def refreshed(self, now: int) -> bytes | None:
        """The item with its time begun anew; `None` if it has none."""
        return None if self.ttl is None else self._replace(until=now + int(self.ttl * 60_000_000)).body()

    def value(self) -> dict[str, Any]:
        return values.load(_SERDE, self.typed)  # type: ignore[no-any-return]

    def item(self, key: bytes) -> dict[str, Any]:
        """What an `Item` is made of."""
        namespace, name = _parse(key)
        at = {"created_at": _time(self.created), "updated_at": _time(self.updated)}
        return {"namespace": namespace, "key": name, "value": self.value(), **at}


class _Wanted(NamedTuple):
    """Which items are searched for: those whose key begins so, that a filter takes, and whose time is not over."""

    prefix: bytes
    filter: dict[str, Any] | None
    now: int

    def takes(self, key: bytes, one: _Kept) -> bool:
        if not key.startswith(self.prefix) or one.is_over(self.now):
            return False
        return not self.filter or _matches(one.value(), self.filter)


def _key(namespace: Sequence[str], key: str) -> bytes:
    return _ITEMS + b"".join(map(layout.text, namespace)) + b"\x00\x00" + key.encode("utf-8", "surrogatepass")


def _parse(key: bytes) -> tuple[tuple[str, ...], str]:
    labels: list[str] = []
    at = len(_ITEMS)
    while key[at : at + 2] != b"\x00\x00":
        label, at = layout.untext(key, at)
        labels.append(label)
    return tuple(labels), key[at + 2 :].decode("utf-8", "surrogatepass")


def _now() -> int:
    return time.time_ns() // 1000


def _time(us: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=us)


def _strings(value: Any) -> list[str]:
    """Every text in a value, in its order."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _strings(item)]
    return []


def _matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_equals(_field(value, str(key)), item) for key, item in wanted.items())


def _field(value: Any, key: str) -> Any:
    """A field by its name, or, where there is none of that name, the one that dots lead to, as in LangGraph's SqliteStore."""
    if isinstance(value, Mapping):
        if key in value:
            return value[key]
        for dot in (n for n, letter in enumerate(key) if letter == "."):
            if key[:dot] in value:
                return _field(value[key[:dot]], key[dot + 1 :])
    return None


def _equals(value: Any, wanted: Any) -> bool:
    """Whether a field is what a filter asks for: equal, or as its operators say."""
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_operated(value, str(key), item) for key, item in wanted.items())
        return isinstance(value, Mapping) and all(_equals(value.get(key), item) for key, item in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(value, list | tuple) and len(value) == len(wanted) and all(map(_equals, value, wanted))
    return bool(value == wanted)


def _operated(value: Any, operator: str, wanted: Any) -> bool:
    match operator:
        case "$eq":
            return bool(value == wanted)
        case "$ne":
            return bool(value != wanted)
        case "$gt" | "$gte" | "$lt" | "$lte":
            try:
                one, other = float(value), float(wanted)
            except (TypeError, ValueError):
                return False
            return {"$gt": one > other, "$gte": one >= other, "$lt": one < other, "$lte": one <= other}[operator]
        case _:
            raise ValueError(f"Unsupported operator: {operator}")


def _does_match(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
