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

SESSION: Final = "langgraph-memory"
_ITEMS: Final = layout.PREFIX + b"s"
_WORDS: Final = layout.PREFIX + b"t"
_SERDE: Final = JsonPlusSerializer()
FOUND: Final = 100
MOST_WORDS: Final = 12


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
            yield from self._refresh({key: kept})
        return Item(**kept.item(key))

    def _put(self, puts: dict[bytes, PutOp]) -> Work[None]:
        old = {key: _Kept.of(body) for key, body in (yield on(self._session, "read_records", list(puts))).items()}
        put: dict[bytes, bytes] = {}
        delete: list[bytes] = []
        append: list[Any] = []
        now = _now()
        for key, op in puts.items():
            before = old.get(key)
            if before is not None and before.message:
                delete.append(_WORDS + before.message.encode())
            if op.value is None:
                delete.append(key)
                continue
            alive = before if before is not None and not before.is_over(now) else None
            text = self._text(op)
            message = str(uuid.uuid4()) if text else ""
            ttl = op.ttl
            until = now + int(ttl * 60_000_000) if ttl is not None else None
            created = alive.created if alive is not None else now
            put[key] = _Kept(created, now, ttl, until, message, values.dump(_SERDE, dict(op.value))).body()
            if text:
                about = {"namespace": list(op.namespace), "key": op.key}
                part = {"type": "text", "text": text}
                append.append((None, [(message, {"role": "memory", "parts": [part], "metadata": about})]))
                put[_WORDS + message.encode()] = key
        yield on(self._session, "write_records", put, delete=delete, append=append)
        gone = [kept.message for kept in old.values() if kept.message]
        if gone:
            yield on(self._session, "delete", gone)

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
        prefix = _ITEMS + b"".join(map(layout.text, op.namespace_prefix))
        now, kept, scores = _now(), dict[bytes, _Kept](), dict[bytes, float]()
        if op.query:
            scores = yield from self._found(op.query, prefix)
            for key, body in (yield on(self._session, "read_records", list(scores))).items():
                kept[key] = _Kept.of(body)
        else:
            for key, body in (yield from all_records(self._session, prefix, layout.after(prefix))):
                kept[key] = _Kept.of(body)
        alive = {key: one for key, one in kept.items() if not one.is_over(now)}
        if op.filter:
            alive = {key: one for key, one in alive.items() if _matches(one.value(), op.filter)}
        order = sorted(alive, key=lambda key: (-scores.get(key, 0.0), -alive[key].updated, key))
        shown = order[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            yield from self._refresh({key: alive[key] for key in shown})
        return [SearchItem(**alive[key].item(key), score=scores.get(key)) for key in shown]

    def _found(self, query: str, prefix: bytes) -> Work[dict[bytes, float]]:
        """The items that hold the words of a query: all of them first, then by how many of them."""
        whole = yield from self._hits(query, prefix)
        scores = {key: 2.0 - n / (len(whole) + 1) for n, key in enumerate(whole)}
        words = list(dict.fromkeys(word for word in query.split() if len(word) > 1))[:MOST_WORDS]
        if len(words) > 1:
            counts: dict[bytes, int] = {}
            for word in words:
                for key in (yield from self._hits(word, prefix)):
                    counts[key] = counts.get(key, 0) + 1
            for key, count in counts.items():
                scores.setdefault(key, count / len(words))
        return scores

    def _hits(self, query: str, prefix: bytes) -> Work[list[bytes]]:
        """The items of a prefix that hold all words, best first."""
        found: list[bytes] = []
        for offset in range(0, 10 * FOUND, FOUND):
            hits = yield on(self._session, "search", query, limit=FOUND, offset=offset, role="memory")
            keys = [_WORDS + hit.id.encode() for hit in hits]
            items = yield on(self._session, "read_records", keys)
            found += [items[key] for key in keys if key in items and items[key].startswith(prefix)]
            if len(hits) < FOUND or len(found) >= FOUND:
                break
        return found

    def _namespaces(self, op: ListNamespacesOp) -> Work[list[tuple[str, ...]]]:
        found: set[tuple[str, ...]] = set()
        now = _now()
        for key, body in (yield from all_records(self._session, _ITEMS, layout.after(_ITEMS))):
            if not _Kept.of(body).is_over(now):
                found.add(_parse(key)[0])
        matching = [ns for ns in found if all(_does_match(condition, ns) for condition in op.match_conditions or ())]
        cut = sorted({ns if op.max_depth is None else ns[: op.max_depth] for ns in matching})
        return cut[op.offset : op.offset + op.limit]

    def _refresh(self, kept: dict[bytes, _Kept]) -> Work[None]:
        now = _now()
        put = {
            key: one._replace(until=now + int(one.ttl * 60_000_000)).body()
            for key, one in kept.items()
            if one.ttl is not None
        }
        if put:
            yield on(self._session, "write_records", put)

    def _sweep(self) -> Work[int]:
        now, count = _now(), 0
        for key, body in (yield from all_records(self._session, _ITEMS, layout.after(_ITEMS))):
            one = _Kept.of(body)
            if one.is_over(now):
                words = [_WORDS + one.message.encode()] if one.message else []
                yield on(self._session, "write_records", delete=[key, *words])
                if one.message:
                    yield on(self._session, "delete", one.message)
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

    def value(self) -> dict[str, Any]:
        return values.load(_SERDE, self.typed)  # type: ignore[no-any-return]

    def item(self, key: bytes) -> dict[str, Any]:
        """What an `Item` is made of."""
        namespace, name = _parse(key)
        at = {"created_at": _time(self.created), "updated_at": _time(self.updated)}
        return {"namespace": namespace, "key": name, "value": self.value(), **at}


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
