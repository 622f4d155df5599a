"""Writing values of any kind as JSON, with notes of what JSON cannot say, and making them of it again.

Bytes become base64 and what is no finite number null; where they stand is noted, so that they come back
as they were. What pydantic knows how to write (times, models) becomes what it writes, anything else its
`repr`, with a warning: so do ADK's own services.
"""

from __future__ import annotations

import base64
import binascii
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from pydantic_core import PydanticSerializationError, to_jsonable_python

from plait.logic.shape import is_list, is_object, list_of

log = logging.getLogger("plait")
Note = list[Any]
"""The keys and indexes that lead to a value, and what it was: `bytes`, `nan`, `inf` or `-inf`."""


def written(value: Any, path: tuple[str | int, ...], notes: list[Note]) -> Any:
    """`value` as JSON; what that cannot say is noted under `path`."""
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        notes.append([list(path), repr(float(value))])
        return None
    if isinstance(value, bytes | bytearray):
        notes.append([list(path), "bytes"])
        return base64.b64encode(value).decode()
    if is_object(value):
        named = [(_key(key), item) for key, item in value.items()]
        return {key: written(item, (*path, key), notes) for key, item in named}
    if _is_several(value):
        return [written(item, (*path, n), notes) for n, item in enumerate(value)]
    return written(_jsonable(value), path, notes)


def noted(custom: Mapping[str, object]) -> dict[str, Any]:
    """A mapping as the member `custom`, with the notes of it, if there are any: what `restored` is to be given."""
    notes: list[Note] = []
    kept = written(dict(custom), (), notes)
    return {"custom": kept, "notes": notes} if notes else {"custom": kept}


def _is_several(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, list | tuple | set | frozenset)


def restored(value: Any, notes: object) -> Any:
    """What was written, with what is noted put back; `value` is changed. Notes that fit nothing in it are passed over."""
    for note in list_of(notes):
        if is_list(note) and len(note) == 2 and is_list(note[0]) and isinstance(note[1], str):
            value = _put_back(value, note[0], note[1])
    return value


def _put_back(value: Any, path: list[Any], kind: str) -> Any:
    if not path:
        return _original(value, kind)
    try:
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = _original(holder[path[-1]], kind)
    except (LookupError, TypeError):
        pass  # damaged, or written by somebody else: the rest is as good without it
    return value


def _original(value: Any, kind: str) -> Any:
    if kind == "bytes" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            return value
    return float(kind) if value is None and kind in ("nan", "inf", "-inf") else value


def _key(key: Any) -> str:
    return key if type(key) is str else str(next(iter(to_jsonable_python({key: None}, serialize_unknown=True))))


def _jsonable(value: Any) -> Any:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        log.warning("a %s is no JSON; its repr is stored in its place", type(value).__name__)
        return to_jsonable_python(value, serialize_unknown=True)
