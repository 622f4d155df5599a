"""The door: what a message must be to be kept exactly, checked before anything is written."""

from __future__ import annotations

import marshal
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from plait import jsontext
from plait.errors import InvalidMessageError, InvalidMessageTypeError
from plait.logic.shape import is_list, is_mapping, is_object
from plait.model import Attachment

MAX_DEPTH = 200
MAX_PATH = 500
"""How much of a place is named, which may be as long as the message."""
_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def check_exact(message: Mapping[str, Any], text: str, *, name: str = "") -> None:
    """Raise `InvalidMessageError` naming the culprit unless `text` says exactly what `message` does.

    `name` is what it is, if it is no message. The cheap complete check is to decode and compare; only a mismatch is looked for by walking.
    """
    deep = text.count("{") + text.count("[") > MAX_DEPTH
    named = {name: message} if name else message
    if jsontext.decode(text) != message or (deep and _too_deep(message)):
        raise culprit(named)
    refused = None if _is_plain(message) else _refused(named)
    if refused is not None:
        raise refused


def _is_plain(message: Any) -> bool:
    """Whether all of it is of Python's own types, as far as can be told quickly.

    A member of an `Enum` is equal to what is read back in its place. `marshal` refuses it, like all
    that is of a type of somebody's own, and is quicker than any walk.
    """
    try:
        marshal.dumps(message)
    except ValueError:
        return False
    return True


def _too_deep(message: Mapping[str, Any]) -> bool:
    level: list[Any] = [message]
    for _ in range(MAX_DEPTH):
        level = [child for box in level for child in _boxes(box)]
        if not level:
            return False
    return True


def _boxes(box: Any) -> list[Any]:
    values: Iterable[Any] = box.values() if is_object(box) else box
    return [value for value in values if isinstance(value, dict | list)]


def culprit(message: Any) -> InvalidMessageError:
    """The error for the first value in `message` that cannot be kept, found by walking it."""
    return (
        _refused(message)
        or _misplaced(message)
        or InvalidMessageError("message does not read back as it was given; pass plain JSON values", path="")
    )


def _refused(message: Any) -> InvalidMessageError | None:
    """The error for the first value that cannot be kept by itself, wherever it stood."""
    for place, value in _walk(message):
        refusal = _refusal(value, place.depth)
        if refusal is not None:
            error, why = refusal
            path = str(place) or "message"
            return error(f"{path} {why}", path=path)
    return None


def _misplaced(message: Any) -> InvalidMessageError | None:
    """The error for the first attachment in `message`, whose media have been taken out, or `None`."""
    for place, value in _walk(message):
        if isinstance(value, Attachment):
            path = str(place)
            return InvalidMessageTypeError(
                f"{path} is an attachment where none is looked for; it goes into an object inside `parts`, "
                "at most 8 deep, in the place of inline data",
                path=path,
            )
    return None


class _Place(NamedTuple):
    """Where a value stands: under a key, or at a place of a list, of what stands above it."""

    above: _Place | None = None
    at: object = None
    depth: int = 0

    def __str__(self) -> str:
        steps: list[str] = []
        place = self
        while place.above is not None:
            steps.append(f"[{place.at}]" if type(place.at) is int else f".{_short(str(place.at))}")
            place = place.above
        return _short("".join(reversed(steps)).removeprefix("."))


def _short(text: str) -> str:
    """A path as it can be shown: keys may be as long as messages."""
    return text if len(text) <= MAX_PATH else f"{text[: MAX_PATH - 1]}…"


def _walk(message: Any) -> Iterator[tuple[_Place, Any]]:
    """Each value in `message`, with its place; no deeper than what is taken."""
    stack: list[tuple[_Place, Any]] = [(_Place(), message)]
    while stack:
        place, value = stack.pop()
        yield place, value
        if place.depth >= MAX_DEPTH:
            continue
        if is_mapping(value):
            stack.extend((_Place(place, str(key), place.depth + 1), item) for key, item in value.items())
        elif is_list(value):
            stack.extend((_Place(place, n, place.depth + 1), item) for n, item in enumerate(value))


Refusal: TypeAlias = tuple[type[InvalidMessageError], str]


def _refusal(value: Any, depth: int) -> Refusal | None:
    """Why this very value (not what is in it) cannot be kept, or `None`."""
    if depth >= MAX_DEPTH and isinstance(value, Mapping | list):
        return InvalidMessageError, f"is nested more than {MAX_DEPTH} deep; flatten it"
    if isinstance(value, float) and not math.isfinite(value):
        return InvalidMessageError, f"is {value}, which JSON cannot say; use null or a string"
    if is_mapping(value):
        return _key_refusal(value)
    if isinstance(value, str) and _SPLIT_PAIR.search(value):
        return InvalidMessageError, "has a character split into two surrogate halves; join them"
    if isinstance(value, Enum):
        return InvalidMessageTypeError, f"is a {type(value).__name__}, a member of an Enum; use its value"
    if isinstance(value, int) and not _can_be_written(value):
        return InvalidMessageError, "is an integer too long to write out; use a string"
    if value is None or isinstance(value, list | Attachment) or type(value) in (str, bool, int, float):
        return None
    kind = type(value).__name__
    for plain in (str, int, float):
        if isinstance(value, plain):
            return InvalidMessageTypeError, f"is a {kind}; pass a plain {plain.__name__}"
    return InvalidMessageTypeError, f"is a {kind}, which JSON cannot say; {_remedy(value)}"


def _key_refusal(value: Mapping[Any, Any]) -> Refusal | None:
    for key in value:
        if isinstance(key, str) and _SPLIT_PAIR.search(key):
            return InvalidMessageError, "has a key split into surrogate halves; join them"
        if type(key) is not str:
            said, kind = (_short(shown) for shown in (repr(key), type(key).__name__))
            plain = _short(str(key.value if isinstance(key, Enum) else key))
            return (
                InvalidMessageTypeError,
                f"has the key {said}, a {kind}; JSON keys are strings: use {plain!r}",
            )
    if isinstance(value, dict):
        return None
    return InvalidMessageTypeError, f"is a {type(value).__name__}; pass a plain dict"


def _can_be_written(value: int) -> bool:
    try:
        str(value)
    except ValueError:
        return False
    return True


def _remedy(value: Any) -> str:
    if isinstance(value, tuple | set | frozenset):
        return "use a list"
    if isinstance(value, bytes | bytearray | memoryview):
        return "use base64 text, or put_attachment for media"
    if hasattr(value, "isoformat"):
        return "use its isoformat() text"
    return "convert it to a string, number, list or dict first"
