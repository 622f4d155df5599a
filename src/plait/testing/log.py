"""What the model store remembers of changes, and cursors into that."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from plait import jsontext
from plait.errors import CursorExpiredError, UsageError
from plait.store.protocol import Scope

Key = tuple[Scope, str]
INSERTIONS = ("append", "import")


@dataclass
class Event:
    """A change: what it was of, and the row or overlay itself, to tell whether that is still there."""

    version: int
    kind: str
    at_us: int
    ids: tuple[str, ...] = ()
    subject: object = None
    moved: bool = False
    leaf: str | None = None
    removed: bool = False


@dataclass
class Place:
    """Up to where a session was read; up to `kept` nothing is missed, for it was gone when the reader began."""

    version: int = 0
    kept: int = 0


@dataclass
class Log:
    """The changes of all sessions, in order, over all lives of their ids."""

    events: dict[Key, list[Event]] = field(default_factory=dict[Key, list[Event]])
    pruned: dict[Key, int] = field(default_factory=dict[Key, int])
    written: int = 0

    def add(self, key: Key, event: Event) -> Event:
        self.events.setdefault(key, []).append(event)
        self.written += 1
        return event

    def after(self, key: Key, place: Place, version: int) -> list[Event]:
        """The changes after a place in a session that is at `version`."""
        if place.version > version:
            raise UsageError(f"this cursor is ahead of session {key[1]!r}; begin anew without one")
        gone = self.pruned.get(key, 0)
        if gone > max(place.version, place.kept):
            raise CursorExpiredError(f"the changes of session {key[1]!r} have been pruned up to version {gone}")
        return [event for event in self.events.get(key, ()) if event.version > place.version]

    def start(self, key: Key) -> Place:
        """Where a reader begins who has no cursor."""
        return Place(0, self.pruned.get(key, 0))

    def move(self, source: Key, target: Key, shift: int) -> None:
        """Make the changes of a hidden session those of another one."""
        for event in self.events.pop(source, []):
            event.version += shift
            self.add(target, event)

    def prune(self, key: Key, before_us: int | None, keep: int | None) -> int:
        """Forget the first records that are old or too many; insertions stay with their messages."""
        records = [event for event in self.events.get(key, ()) if event.kind not in INSERTIONS]
        upto = records[-keep - 1].version if keep is not None and len(records) > keep else 0
        gone: list[Event] = []
        for event in records:
            if event.version > upto and (before_us is None or event.at_us >= before_us):
                break
            gone.append(event)
        if gone:
            self.pruned[key] = gone[-1].version
            self.events[key] = [event for event in self.events[key] if event not in gone]
        return len(gone)


def session_cursor(key: Key, place: Place) -> str:
    return _text(["session", key[0].tenant, key[0].owner, key[1], place.version, place.kept])


def read_session_cursor(key: Key, text: str) -> Place:
    version, kept = _fields(text, ["session", key[0].tenant, key[0].owner, key[1]], 2)
    return Place(version, kept)


def scope_cursor(scope: Scope, places: dict[str, Place]) -> str:
    at = {id: [place.version, place.kept] for id, place in places.items()}
    return _text(["scope", scope.tenant, scope.owner, at])


def read_scope_cursor(scope: Scope, text: str) -> dict[str, Place]:
    (at,) = _fields(text, ["scope", scope.tenant, scope.owner], 1)
    return {id: Place(*place) for id, place in at.items()}


def _text(fields: list[Any]) -> str:
    return base64.urlsafe_b64encode(jsontext.encode(fields).encode("utf-8", "surrogatepass")).decode()


def _fields(text: str, expected: list[Any], count: int) -> list[Any]:
    try:
        found = jsontext.decode(base64.urlsafe_b64decode(text.encode()).decode("utf-8", "surrogatepass"))
    except ValueError:
        found = None
    if not isinstance(found, list) or found[: len(expected)] != expected or len(found) != len(expected) + count:  # pyright: ignore[reportUnknownArgumentType]
        raise UsageError("this is not a cursor of these changes; pass one that they gave")
    return found[len(expected) :]  # pyright: ignore[reportUnknownVariableType]
