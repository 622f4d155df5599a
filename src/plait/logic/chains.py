"""Grouping the entries of a transcript into chains that can be appended at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct, field

from plait import times
from plait.errors import UsageError
from plait.logic import arguments
from plait.logic.prepare import Given, Rules, prepare
from plait.model import Json
from plait.store.protocol import NewMessage

CHAIN_MESSAGES = 1000
CHAIN_BYTES = 4 << 20


class Entry(Protocol):
    """One message of a transcript: its id, the id of its parent (an earlier entry, or `None`), itself."""

    @property
    def id(self) -> str: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def message(self) -> Json: ...
    @property
    def format(self) -> str | None: ...
    @property
    def created_at(self) -> dt.datetime | None: ...


class Brought(Protocol):
    """An overlay of a transcript; see `plait.interchange.ImportOverlay`."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def from_id(self) -> str: ...
    @property
    def to_id(self) -> str: ...
    @property
    def summary(self) -> str | None: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def created_at(self) -> dt.datetime | None: ...
    @property
    def stale(self) -> bool: ...


class Transcript(Protocol):
    """One session of a file: what the catalogue says of it, and its entries, parents before children."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def owner(self) -> str | None: ...
    @property
    def pinned(self) -> bool: ...
    @property
    def metadata(self) -> Json: ...
    @property
    def state(self) -> Json: ...
    @property
    def parent_id(self) -> str | None: ...
    @property
    def created_at(self) -> dt.datetime | None: ...
    @property
    def active_at(self) -> dt.datetime | None: ...
    @property
    def leaf(self) -> str | None: ...
    @property
    def count(self) -> int: ...
    @property
    def entries(self) -> Iterator[Entry]: ...


class Overlaid(Protocol):
    """A transcript that brings overlays, and is told of those that could not be laid on."""

    @property
    def overlays(self) -> Sequence[Brought]: ...
    def unplaced(self, overlay: Any, reason: str) -> None: ...


class KeptValue(Protocol):
    """A version of a named value that a transcript brings; see `interchange.ImportValue`."""

    @property
    def label(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def content(self) -> str | None: ...
    @property
    def description(self) -> str | None: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def written_at(self) -> dt.datetime | None: ...
    @property
    def version(self) -> int: ...


class Valued(Protocol):
    """A transcript that brings values, and is told of those that could not be kept."""

    @property
    def values(self) -> Iterable[KeptValue]: ...
    def unkept(self, value: Any, reason: str) -> None: ...


class Recorded(Protocol):
    """A transcript that brings records, and is told of those that could not be kept."""

    @property
    def records(self) -> Iterable[tuple[bytes, bytes]]: ...
    def unrecorded(self, key: bytes, reason: str) -> None: ...


ENTRY: Final = ("id", "parent", "message", "format", "created_at")
OVERLAY: Final = ("id", "kind", "from_id", "to_id", "summary", "tokens", "created_at", "stale")
VALUE: Final = ("label", "key", "content", "description", "metadata", "tokens", "written_at", "version")
"""What each thing says that a transcript brings."""


def each(transcript: object, field: str, says: Sequence[str]) -> Iterator[Any]:
    """What a transcript brings under `field`, nothing if it has none; `UsageError` for what is none of these."""
    for n, item in enumerate(getattr(transcript, field, ())):
        if not all(hasattr(item, name) for name in says):
            raise arguments.refusal(f"transcript.{field}[{n}]", f"an object with {', '.join(says)}", item)
        yield item


def pairs(transcript: object, field: str) -> Iterator[tuple[bytes, bytes]]:
    """What a transcript brings under `field`, which is pairs of bytes."""
    found: Iterable[Any] = getattr(transcript, field, ())
    for n, item in enumerate(found):
        match item:
            case (bytes() as key, bytes() as body):
                yield key, body
            case _:
                raise arguments.refusal(f"transcript.{field}[{n}]", "a pair of bytes, key and body", item)


class Chain(Struct):
    """Messages each of which answers the one before; the first answers `parent`."""

    parent: str | None
    messages: list[NewMessage] = field(default_factory=list[NewMessage])
    bytes: int = 0

    def takes(self, parent: str | None, message: NewMessage) -> bool:
        """Whether a message that answers `parent` goes on from the last one, and has room."""
        fits = len(self.messages) < CHAIN_MESSAGES and self.bytes + message.bytes <= CHAIN_BYTES
        return parent == self.messages[-1].id and fits

    def add(self, message: NewMessage) -> None:
        """Put a message at the end."""
        self.messages.append(message)
        self.bytes += message.bytes

    def without(self, known: Container[str]) -> Iterator[Chain]:
        """What is left of the chain without some messages: pieces, each after the message it answers."""
        part = Chain(self.parent)
        for message in self.messages:
            if message.id not in known:
                part.messages.append(message)
                continue
            if part.messages:
                yield part
            part = Chain(message.id)
        if part.messages:
            yield part


def chains(entries: Iterable[Entry], rules: Rules, now_us: int) -> Iterator[Chain]:
    """The entries as chains, in order, each bounded; they are kept verbatim."""
    chain: Chain | None = None
    for entry in entries:
        message = _prepared(entry, rules, now_us)
        if chain is None or not chain.takes(entry.parent, message):
            if chain is not None:
                yield chain
            chain = Chain(entry.parent)
        chain.add(message)
    if chain is not None:
        yield chain


def _prepared(entry: Entry, rules: Rules, now_us: int) -> NewMessage:
    """The entry as it is stored; what is wrong with it is told with the line it stands on."""
    try:
        at = now_us if entry.created_at is None else times.to_us(entry.created_at)
        return prepare(entry.message, Given(entry.id, at, entry.id, entry.format, verbatim=True), rules)
    except UsageError as error:
        line = getattr(entry, "line", 0)
        where = f"line {line}" if line else f"entry {arguments.shown(entry.id)}"
        raise type(error)(f"{where}: {error}", line=line, path=getattr(error, "path", "")) from None


class Dated:
    """Entries as they are gone through, and the latest time that one of them has."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = entries
        self.latest_us: int | None = None

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            if entry.created_at is not None:
                self.latest_us = max(self.latest_us or 0, times.to_us(entry.created_at))
            yield entry
