"""The door: what a message must be to be kept exactly, checked before anything is written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from plait import jsontext
from plait.errors import InvalidMessageError, InvalidMessageTypeError
from plait.logic.shape import is_list, is_mapping, is_object
from plait.model import Attachment

MAX_DEPTH = 200
_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def check_exact(message: Mapping[str, Any], text: str, *, name: str = "") -> None:
    """Raise `InvalidMessageError` naming the culprit unless `text` says exactly what `message` does.

    `name` is what it is, if it is no message. The cheap complete check is to decode and compare; only a mismatch is looked for by walking.
    """
    deep = text.count("{") + text.count("[") > MAX_DEPTH
    if jsontext.decode(text) != message or (deep and _too_deep(message)):
        raise culprit({name: message} if name else message)


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
    for path, value, depth in _walk(message):
        error = _refusal(path or "message", value, depth)
        if error is not None:
            return error
    return _misplaced(message) or InvalidMessageError(
        "message does not read back as it was given; pass plain JSON values", path=""
    )


def _misplaced(message: Any) -> InvalidMessageError | None:
    """The error for the first attachment in `message`, whose media have been taken out, or `None`."""
    for path, value, _ in _walk(message):
        if isinstance(value, Attachment):
            return InvalidMessageTypeError(
                f"{path} is an attachment where none is looked for; it goes into an object inside `parts`, "
                "at most 8 deep and one in each object, in the place of inline data",
                path=path,
            )
    return None


def _walk(message: Any) -> Iterator[tuple[str, Any, int]]:
    """Each value in `message`, with its path and depth; no deeper than what is taken."""
    stack: list[tuple[str, Any, int]] = [("", message, 0)]
    while stack:
        path, value, depth = stack.pop()
        yield path, value, depth
        if depth >= MAX_DEPTH:
            continue
        if is_mapping(value):
            stack.extend((f"{path}.{key}" if path else str(key), item, depth + 1) for key, item in value.items())
        elif is_list(value):
            stack.extend((f"{path}[{n}]", item, depth + 1) for n, item in enumerate(value))


def _refusal(path: str, value: Any, depth: int) -> InvalidMessageError | None:
    """Why this very value (not what is in it) cannot be kept, or `None`."""
    if depth >= MAX_DEPTH and isinstance(value, Mapping | list):
        return InvalidMessageError(f"{path[:200]} is nested more than {MAX_DEPTH} deep; flatten it", path=path)
    if isinstance(value, float) and not math.isfinite(value):
        return InvalidMessageError(f"{path} is {value}, which JSON cannot say; use null or a string", path=path)
    if is_mapping(value):
        return _key_refusal(path, value)
    if isinstance(value, str) and _SPLIT_PAIR.search(value):
        return InvalidMessageError(f"{path} has a character split into two surrogate halves; join them", path=path)
    if isinstance(value, int) and not _can_be_written(value):
        return InvalidMessageError(f"{path} is an integer too long to write out; use a string", path=path)
    if value is None or isinstance(value, list | Enum | Attachment) or type(value) in (str, bool, int, float):
        return None
    kind = type(value).__name__
    for plain in (str, int, float):
        if isinstance(value, plain):
            return InvalidMessageTypeError(f"{path} is a {kind}; pass a plain {plain.__name__}", path=path)
    return InvalidMessageTypeError(f"{path} is a {kind}, which JSON cannot say; {_remedy(value)}", path=path)


def _key_refusal(path: str, value: Mapping[Any, Any]) -> InvalidMessageError | None:
    for key in value:
        if isinstance(key, str) and _SPLIT_PAIR.search(key):
            return InvalidMessageError(f"{path} has a key split into surrogate halves; join them", path=path)
        if not isinstance(key, str):
            kind = type(key).__name__
            return InvalidMessageTypeError(
                f"{path} has the key {key!r}, a {kind}; JSON keys are strings: use {str(key)!r}", path=path
            )
    if isinstance(value, dict):
        return None
    return InvalidMessageTypeError(f"{path} is a {type(value).__name__}; pass a plain dict", path=path)


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
