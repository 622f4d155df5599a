"""Generated from src/plait/_async/recording.py by tools/unasync.py: edit that file. Records as a session's handle offers them: checked here, written with the messages they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

from plait.errors import LimitError, UsageError
from plait.logic import arguments
from plait.logic.chains import Recorded, pairs
from plait.logic.ids import MAX_RECORD_KEY_BYTES
from plait.logic.prepare import Given, Rules, prepare
from plait.model import Appended
from plait.store._sync.abilities import recording
from plait.store._sync.port import Store
from plait.store.protocol import Chain, NewRecords, SessionRef

T = TypeVar("T")
MAX_BODY_BYTES: Final = 256 << 20
PAGE_BYTES: Final = 4 << 20
PAGE: Final = 1000
_END: Final = b"\xff" * (MAX_RECORD_KEY_BYTES + 1)

Chains = Iterable[tuple[str | None, Sequence[tuple[str, Mapping[str, Any]]]]]
"""Chains of new messages: below which one each begins (`None`: at the root), and each message with its id."""


class Place(NamedTuple):
    """Where a handle keeps its records."""

    store: Store
    ref: SessionRef


def read(place: Place, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """The records under some keys."""
    wanted = [_key("keys", key) for key in arguments.items("keys", keys)]
    return recording(place.store).read_records(place.ref, list(dict.fromkeys(wanted)))


def listing(
    place: Place, first: bytes, end: bytes | None, *, limit: int, last_first: bool
) -> list[tuple[bytes, bytes]]:
    """The next records between two keys."""
    if not isinstance(first, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise arguments.refusal("first", "bytes", first)
    if not isinstance(end, bytes | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise arguments.refusal("end", "bytes, or None for no end", end)
    limit = arguments.number("limit", limit, least=1)
    last_first = arguments.flag("last_first", last_first)
    store = recording(place.store)
    return store.records(place.ref, first, _END if end is None else end, limit=limit, last_first=last_first)


def write(place: Place, new: NewRecords, at_us: int) -> tuple[list[bytes], list[Appended], list[str]]:
    """Write what `checked` made."""
    return recording(place.store).write_records(place.ref, new, created_at_us=at_us)


def bring_in(store: Store, ref: SessionRef, transcript: object, at_us: int) -> None:
    """Write the records that a transcript brings, a page in a transaction; what is there stays as it is."""
    brought = pairs(transcript, "records")
    if callable(getattr(store, "write_records", None)):
        for page in _pages(brought):
            recording(store).write_records(ref, NewRecords(keep=page), created_at_us=at_us)
        return
    for key, _ in brought:
        cast("Recorded", transcript).unrecorded(key, "this store keeps no records")


def _pages(records: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[tuple[bytes, bytes], ...]]:
    page: list[tuple[bytes, bytes]] = []
    size = 0
    for record in records:
        page.append(record)
        size += len(record[1])
        if size >= PAGE_BYTES or len(page) >= PAGE:
            yield tuple(page)
            page, size = [], 0
    if page:
        yield tuple(page)


def checked(
    put: Mapping[bytes, bytes] | None,
    keep: Mapping[bytes, bytes] | None,
    delete: Iterable[bytes],
    append: Chains,
    leaf: str | None,
    state: Mapping[str, Any] | None,
    expect_version: int | None,
    expect: Mapping[bytes, bytes | None] | None,
    remove: Iterable[str],
    format: str | None,
    rules: Rules,
    given: Callable[[str], Given],
) -> NewRecords:
    """What is to be written, once it is known that it can be."""
    arguments.given(format=format)
    return NewRecords(
        put=_records("put", put),
        keep=_records("keep", keep),
        drop=tuple(_key("delete", key) for key in arguments.items("delete", delete)),
        chains=tuple(_chain(n, chain, rules, given) for n, chain in enumerate(arguments.items("append", append))),
        leaf=arguments.maybe(arguments.id_asked, "leaf", leaf),
        state=arguments.maybe(arguments.mapping, "state", state),
        expect_version=arguments.maybe(arguments.number, "expect_version", expect_version),
        expect=_expected(expect),
        remove=tuple(arguments.ids_asked("remove", remove)),
    )


def _records(name: str, value: Mapping[bytes, bytes] | None) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((_key(name, key), _body(name, body)) for key, body in _mapped(name, value).items())


def _expected(value: Mapping[bytes, bytes | None] | None) -> tuple[tuple[bytes, bytes | None], ...]:
    """What records are expected to be, `None`: not there."""
    bodies = _mapped("expect", value).items()
    return tuple((_key("expect", key), arguments.maybe(_body, "expect", body)) for key, body in bodies)


def _mapped(name: str, value: Mapping[bytes, T] | None) -> Mapping[bytes, T]:
    if not isinstance(value, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise arguments.refusal(name, "an object of bytes under keys of bytes", value)
    return value or {}


def _key(name: str, key: object) -> bytes:
    if not isinstance(key, bytes) or not 0 < len(key) <= MAX_RECORD_KEY_BYTES:
        raise arguments.refusal(name, f"keys of 1 to {MAX_RECORD_KEY_BYTES:,} bytes", key)
    return key


def _body(name: str, body: object) -> bytes:
    if not isinstance(body, bytes):
        raise arguments.refusal(name, "records that are bytes", body)
    if len(body) > MAX_BODY_BYTES:
        raise LimitError(
            f"a record of {len(body):,} bytes is more than {MAX_BODY_BYTES:,}; cut it into several under keys of their own"
        )
    return body


def _chain(n: int, chain: object, rules: Rules, given: Callable[[str], Given]) -> Chain:
    """A chain of messages, each under the id that comes with it."""
    if not isinstance(chain, tuple) or len(chain) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise arguments.refusal(f"append[{n}]", "a pair: the parent's id or None, and pairs of id and message", chain)  # pyright: ignore[reportUnknownArgumentType]
    parent, pairs = chain  # pyright: ignore[reportUnknownVariableType]
    messages: list[Any] = []
    for pair in arguments.items(f"append[{n}]", pairs):  # pyright: ignore[reportUnknownArgumentType]
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):  # pyright: ignore[reportUnknownArgumentType]
            raise arguments.refusal(f"append[{n}]", "pairs of id and message", pair)  # pyright: ignore[reportUnknownArgumentType]
        messages.append(prepare(pair[1], given(pair[0]), rules))  # pyright: ignore[reportUnknownArgumentType]
    if not messages:
        raise UsageError(f"append[{n}] has no message; leave the chain out")
    return Chain(arguments.maybe(arguments.id_asked, "parent", parent), tuple(messages))  # pyright: ignore[reportUnknownArgumentType]
