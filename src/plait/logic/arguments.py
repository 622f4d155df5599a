"""The checks of what callers pass to the faces, made before anything is read or written.

Each answers the value in the form that a store takes, or raises `UsageError` naming the argument,
what it must be and what came. Numbers that only say "at most" may be as large as one likes.
"""

from __future__ import annotations

import datetime as dt
import inspect
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard, TypeVar, cast

from plait import jsontext, times
from plait.errors import UsageError
from plait.logic import door, ids
from plait.logic.shape import is_mapping
from plait.logic.strands import MAX_SEQ
from plait.model import Leaf, Parent
from plait.store.protocol import Scope

T = TypeVar("T")
MOST = 1 << 62
"""What a larger number means too: more than any store holds, but one that SQL can say."""

_SHOWN = 60


def refusal(name: str, rule: str, value: object) -> UsageError:
    """The error for an argument that is not what it must be."""
    return UsageError(f"{name} must be {rule}, not {shown(value)}")


def shown(value: object) -> str:
    """What came, in few words: a short value itself, else its type."""
    if isinstance(value, str):
        return repr(value[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")
    if isinstance(value, bool | float | dt.timedelta | None):
        return str(value)
    if isinstance(value, int) and abs(value) < MOST * 2:
        return str(value)
    return f"a value of type {type(value).__name__}"


# -- words and flags -----------------------------------------------------------


def flag(name: str, value: object) -> bool:
    """A yes or no."""
    if not isinstance(value, bool):
        raise refusal(name, "True or False", value)
    return value


def word(name: str, value: object, words: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in words:
        raise refusal(name, " or ".join(map(repr, words)), value)
    return value


def text(name: str, value: object) -> str:
    """Text that a database can hold."""
    ids.check_text(value, name)
    return cast("str", value)


def string(name: str, value: object) -> str:
    """Any text, whether or not it is one that a database can hold in a column of its own."""
    if not isinstance(value, str):
        raise refusal(name, "text", value)
    return value


def media_type(name: str, value: object) -> str:
    """A media type, perhaps with parameters, that can stand in a data URL and a header."""
    if "/" not in text(name, value) or "," in cast("str", value) or not cast("str", value).isprintable():
        raise refusal(name, "such as 'image/png', without a comma", value)
    return cast("str", value)


def maybe(check: Callable[[str, object], T], name: str, value: object) -> T | None:
    """`None`, or what `check` takes."""
    return None if value is None else check(name, value)


# -- numbers -------------------------------------------------------------------


def number(name: str, value: object, *, least: int = 0, most: int = MOST) -> int:
    """A whole number of at least `least`; a larger one than `most` is as good as that."""
    whole = _whole(value)
    if whole is None or whole < least:
        raise refusal(name, f"a whole number of at least {least}", value)
    return min(whole, most)


def budget(name: str, value: object) -> int:
    """What is left to spend, which may be less than nothing."""
    whole = _whole(value)
    if whole is None:
        raise refusal(name, "a whole number", value)
    return max(0, min(whole, MOST))


def seq(name: str, value: object) -> int:
    """A place in a session's order; past the last one there can be is as good as that."""
    return number(name, value, most=MAX_SEQ)


def between(name: str, value: object, least: int, most: int) -> int:
    """A whole number within two bounds."""
    whole = _whole(value)
    if whole is None or not least <= whole <= most:
        raise refusal(name, f"a whole number between {least} and {most}", value)
    return whole


def _whole(value: object) -> int | None:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return operator.index(cast("Any", value))


def seconds(name: str, value: object) -> float:
    """A time to wait, without an end if it is infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise refusal(name, "a number of seconds, at least 0", value)
    return float(min(value, MOST))


def amount(name: str, value: object) -> float:
    """A finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise refusal(name, "a finite number, at least 0", value)
    return float(value)


def age(name: str, value: object) -> dt.timedelta:
    """A length of time, more than none."""
    if not isinstance(value, dt.timedelta) or value <= dt.timedelta(0):
        raise refusal(name, "a positive timedelta", value)
    return value


def moment(name: str, value: object) -> dt.datetime:
    """A time that says its zone and has an equal in UTC."""
    if not isinstance(value, dt.datetime):
        raise refusal(name, "a datetime", value)
    try:
        times.to_us(value)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    return value


# -- ids and places ------------------------------------------------------------


def id_asked(name: str, value: object) -> str:
    """An id that something is looked for by; one that nothing can have is an answer of its own."""
    if not isinstance(value, str):
        raise refusal(name, "a message's id, a string", value)
    return value


def ids_asked(name: str, value: object) -> list[str]:
    """One id or several."""
    if isinstance(value, str):
        return [value]
    if not _is_several(value):
        raise refusal(name, "a message's id or a list of ids", value)
    return [id_asked(f"{name}[{n}]", item) for n, item in enumerate(value)]


def place(name: str, value: object) -> Parent:
    """The active leaf, a message's id, or `None`."""
    if value is None or isinstance(value, (str, Leaf)):
        return value
    raise refusal(name, "LEAF, a message's id or None", value)


def scope(value: object) -> Scope:
    """A tenant and an owner, each `""` or an id."""
    pair = list(value) if _is_several(value) else []
    if len(pair) != 2:
        raise refusal("scope", "a tenant and an owner, such as ('acme', 'ann')", value)
    tenant, owner = pair
    return Scope(_side("tenant", tenant), _side("owner", owner))


def _side(name: str, value: object) -> str:
    return "" if value == "" else ids.check_id(value, name)


# -- objects -------------------------------------------------------------------


def mapping(name: str, value: object) -> Mapping[str, Any]:
    """A JSON object that reads back the same; `InvalidMessageError` names what in it does not."""
    if not is_mapping(value):
        raise refusal(name, "a dict of JSON values", value)
    try:
        door.check_exact(value, jsontext.encode(value), name=name)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise door.culprit({name: value}) from None
    return value


def metadata(name: str, value: object) -> Mapping[str, Any]:
    """What an application notes of a session; `UsageError` if it has a key of plait's own."""
    given = mapping(name, value)
    own = next((key for key in given if key.startswith(ids.RESERVED_PREFIX)), None)
    if own is not None:
        raise UsageError(f"{name} has the key {own!r}: keys that begin with {ids.RESERVED_PREFIX!r} are plait's own")
    return given


def function(name: str, value: T) -> T:
    """Something to call."""
    if not callable(value):
        raise refusal(name, "a function", value)
    return value


def methods(name: str, value: object, *wanted: str) -> None:
    """An object with some methods."""
    if isinstance(value, type) or not all(callable(getattr(value, method, None)) for method in wanted):
        raise refusal(name, f"an object with the methods {', '.join(wanted)}", value)


def refuse_async(name: str, value: object, method: str) -> None:
    """Raise `UsageError` for something of the asynchronous face where files are read or written."""
    if inspect.iscoroutinefunction(getattr(value, method, None)):
        raise UsageError(
            f"{name} is of plait.open_async, and files are read and written with plait.open: open the store with that "
            "too, in a thread of its own (asyncio.to_thread)"
        )


def several(name: str, value: object) -> None:
    """Something to go through that is not one piece of text."""
    if not _is_several(value):
        raise refusal(name, "a list, or another iterable", value)


def items(name: str, value: object) -> list[object]:
    """The items of a list, or of another iterable that is not one piece of text."""
    if not _is_several(value):
        raise refusal(name, "a list, or another iterable", value)
    return list(value)


def _is_several(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping)


def with_ids(messages: Iterable[T], ids: object) -> Iterable[tuple[T, str | None]]:
    """Messages and the ids that they are to have, which must be as many."""
    if ids is None:
        return ((message, None) for message in messages)
    given, names = list(messages), ids_asked("ids", ids)
    if len(names) != len(given) or isinstance(ids, str):
        raise UsageError(f"ids must be one for each message: there are {len(given)} messages and {len(names)} ids")
    return zip(given, names, strict=True)


def words(name: str, value: object) -> frozenset[str]:
    """A collection of strings."""
    if not _is_several(value):
        raise refusal(name, "a list of strings", value)
    found = list(value)
    for n, item in enumerate(found):
        if not isinstance(item, str):
            raise refusal(f"{name}[{n}]", "a string", item)
    return frozenset(cast("list[str]", found))


def file(name: str, value: object) -> str:
    """The path of a file that the system can name, and SQLite too: in UTF-8."""
    try:
        path = os.fsdecode(os.fspath(cast("str", value)))
        os.fsencode(path).decode("utf-8")
    except (TypeError, UnicodeError):
        raise refusal(name, "the path of a file, in UTF-8", value) from None
    if not path or "\x00" in path:
        raise refusal(name, "the path of a file", value)
    return path


def instance(name: str, value: object, kind: type[Any], rule: str) -> None:
    """A value of one of plait's own types."""
    if not isinstance(value, kind):
        raise refusal(name, rule, value)


# -- how a message is given ----------------------------------------------------


def given(*, format: object = None, source: object = "server", on_conflict: object = "ignore") -> None:
    """The options that all writes of messages share."""
    if format is not None and not isinstance(format, str):
        raise refusal("format", "the name of a format, such as 'openai'", format)
    if source != "server":
        word("source", source, ("server", "client"))
    if on_conflict != "ignore":
        word("on_conflict", on_conflict, ("ignore", "raise"))
