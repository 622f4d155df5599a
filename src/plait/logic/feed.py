"""Cursors of the change feed: where a reader stands, as text that says nothing to anybody else.

A session's cursor is `(incarnation, version, seq)`. A scope's is a tick of the store, up to which every
session has been delivered, and where those sessions stand that have changed since.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

from msgspec import Struct

from plait import jsontext
from plait.errors import UsageError
from plait.store.protocol import Scope, SessionRef

_FORM = 1
_LARGEST = (1 << 63) - 1


class Position(Struct, frozen=True):
    """How far a session's changes have been delivered.

    Every message whose insertion comes later has a higher seq than `seq`, unless it was merged in;
    the change row of the merge, which comes later too, says which seqs those are. `kept` is how far
    the record had been pruned when the reader began at the start: up to there nothing is missed.
    """

    incarnation: int = 0
    version: int = 0
    seq: int = 0
    kept: int = 0


class ScopePosition(Struct, frozen=True):
    """How far the changes of a scope's sessions have been delivered.

    Everything of a session without a pulse at or after `tick` has been; of one that has, what comes
    before its place in `at`, or else before its first such pulse. While the sessions there are
    already are walked through, `walked` is the id of the last one done.
    """

    tick: int
    at: dict[int, Position]
    walked: str | None = None
    walking: bool = False


def session_cursor(ref: SessionRef, position: Position) -> str:
    """A session's cursor as it is given to callers."""
    return _text([_FORM, _seal(ref.scope, ref.id), *_fields(position)])


def session_position(text: str, ref: SessionRef) -> Position:
    """A session's cursor given back; `UsageError` if it is not one of this session."""
    fields = _fields_of(text, "of a session's changes; pass one that changes(), watch() or cursor() gave")
    if len(fields) != 6 or not _are_numbers(fields[2:]):
        raise UsageError("this is a cursor of something else; pass one that this session's changes() gave")
    if fields[1] != _seal(ref.scope, ref.id):
        raise UsageError(f"this cursor belongs to another session than {ref.id!r}; pass one of its own")
    return Position(*fields[2:])


def scope_cursor(scope: Scope, position: ScopePosition) -> str:
    """A scope's cursor as it is given to callers."""
    at = [[session, *_fields(place)] for session, place in position.at.items()]
    return _text([_FORM, _seal(scope), position.tick, int(position.walking), position.walked, at])


def scope_position(text: str, scope: Scope) -> ScopePosition:
    """A scope's cursor given back; `UsageError` if it is not one of this scope."""
    fields = _fields_of(text, "of a scope's changes; pass one that changes(), watch() or cursor() gave")
    if len(fields) != 6 or not isinstance(fields[5], list) or not _are_numbers(fields[2:4]):
        raise UsageError("this is a cursor of something else; pass one that these sessions' changes() gave")
    _, seal, tick, walking, walked, at = fields
    places: list[Any] = at
    if seal != _seal(scope):
        raise UsageError("this cursor belongs to another scope; pass one that this scope's changes() gave")
    if not all(_is_place(item) for item in places):
        raise UsageError("this cursor is damaged; pass it as changes(), watch() or cursor() gave it")
    standing = {session: Position(*place) for session, *place in places}
    return ScopePosition(tick, standing, walked if isinstance(walked, str) else None, bool(walking))


def _fields(position: Position) -> list[int]:
    return [position.incarnation, position.version, position.seq, position.kept]


def _text(fields: list[Any]) -> str:
    return base64.urlsafe_b64encode(jsontext.encode(fields).encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _fields_of(text: str, what: str) -> list[Any]:
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        fields = jsontext.decode(plain.decode("utf-8", "surrogatepass"))
    except (ValueError, TypeError, RecursionError, binascii.Error):
        fields = None
    if not isinstance(fields, list) or not fields or fields[0] != _FORM:
        raise UsageError(f"this is not a cursor {what}")
    return fields  # pyright: ignore[reportUnknownVariableType]


def _is_place(item: Any) -> bool:
    return isinstance(item, list) and _are_numbers(item) and len(item) == 5  # pyright: ignore[reportUnknownArgumentType]


def _are_numbers(values: list[Any]) -> bool:
    return all(type(value) is int and 0 <= value <= _LARGEST for value in values)


def _seal(scope: Scope, *ids: str) -> str:
    sealed = "".join(f"{len(name)}:{name}" for name in (scope.tenant, scope.owner, *ids))
    return hashlib.sha256(sealed.encode("utf-8", "surrogatepass")).hexdigest()[:12]
