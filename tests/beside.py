"""Two stores that are asked the same and must answer the same, to be used like one."""

from __future__ import annotations

import contextlib
import io
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast
from unittest import mock

from msgspec import Struct
from msgspec.structs import fields, replace

import plait
from plait import Context, Message, Session, Sessions, chance, jsontext
from plait.errors import PlaitError
from plait.interchange import import_file, write_jsonl

OF_ITS_OWN = {
    plait.Hit: {"score"},
    plait.ValueHit: {"score"},
    plait.Attachment: {"upload"},
    plait.Changes: {"cursor"},
    plait.Change: {"cursor"},
    plait.SessionPage: {"cursor"},
    plait.LeaseInfo: {"until"},
}
"""What may differ: how hits are weighed, what a store alone can read, and times by the clock of a server."""


def told(value: Any) -> Any:
    """An answer as values that two stores must agree on to the letter."""
    if isinstance(value, Message):
        facts = (value.id, value.seq, value.parent_id, value.role, value.bytes, value.tokens, value.created_at)
        return (type(value), *facts, value.to_json(), value.text, told(value.overlay))
    if isinstance(value, Struct):
        own = OF_ITS_OWN.get(type(value), set[str]())
        names = [field.name for field in fields(value) if field.name not in own]
        return (type(value), *[(name, told(getattr(value, name))) for name in names])
    if isinstance(value, Mapping):
        return [(told(key), told(item)) for key, item in cast("Mapping[Any, Any]", value).items()]
    if isinstance(value, (list, tuple)):
        return [told(item) for item in cast("list[Any]", value)]
    if isinstance(value, PlaitError):
        return type(value), str(value)
    if isinstance(value, (Sessions, Session, Context)):
        return type(value)
    if isinstance(value, (bool, int, float)):
        return type(value), value, jsontext.encode(value)  # -0.0 is no 0.0
    return value


def by_place(value: Any) -> Any:
    """Hits as they stand in their sessions."""
    return sorted(map(repr, map(told, value))) if isinstance(value, list) else told(value)


class Moment:
    """The one time at which both are asked, later by a second each time; what is random is the same for both too."""

    def __init__(self, start_us: int = 1_700_000_000_000_000) -> None:
        self.now_us = start_us
        self._ends = contextlib.ExitStack()
        self._dice = random.Random(0)
        for target, name, value in (
            (time, "time_ns", lambda: self.now_us * 1000),
            (time, "time", lambda: self.now_us / 1_000_000),
            (chance, "bits", lambda count: self._dice.getrandbits(count)),
            (secrets, "token_hex", lambda size: self._dice.randbytes(size).hex()),
        ):
            self._ends.enter_context(mock.patch.object(target, name, value))

    def pass_on(self) -> None:
        self.now_us += 1_000_000

    def begin(self) -> None:
        """From here on all that is random is as it was from the last `begin` of this moment on."""
        self._dice.seed(self.now_us)

    def end(self) -> None:
        self._ends.close()


class Both(str):
    """A text of one store's own, such as a cursor, with the other's beside it."""

    other: str

    @classmethod
    def of(cls, one: str | None, other: str | None) -> Both | None:
        assert (one is None) == (other is None)
        if one is None or other is None:
            return None
        both = cls(one)
        both.other = other
        return both


class Beside:
    """A handle on each of two stores: whatever is done with it is done with both, and what they answer is compared.

    Iterators are read to their end at once. An error that both raise is raised.
    """

    def __init__(self, one: Any, other: Any, moment: Moment) -> None:
        self.one, self.other, self._moment = one, other, moment

    def __getattr__(self, name: str, /) -> Any:
        one, other = getattr(self.one, name), getattr(self.other, name)
        if callable(one):
            return partial(self.both, name)
        return self._joined(one, other)

    def both(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Do the same to both; the best hits first are ranked by each in its own way."""
        ranked = name == "search" and isinstance(self.one, (Sessions, Session)) and not kwargs.get("newest_first")

        def call(handle: Any, own: Callable[[Any], Any]) -> Any:
            return getattr(handle, name)(*map(own, args), **{key: own(value) for key, value in kwargs.items()})

        return self.ask(call, told=by_place if ranked else told)

    def ask(self, call: Callable[[Any, Callable[[Any], Any]], Any], *, told: Callable[[Any], Any] = told) -> Any:
        """Hold that a call of a handle answers the same on both; `own` turns an argument into that store's."""
        self._moment.pass_on()
        one = self._outcome(partial(call, self.one, _ours))
        other = self._outcome(partial(call, self.other, _theirs))
        assert told(one) == told(other), f"a server answers as a file does: {one!r:.2000} and {other!r:.2000}"
        if isinstance(one, PlaitError):
            raise one
        return self._joined(one, other)

    def _outcome(self, call: Callable[[], Any]) -> Any:
        self._moment.begin()
        try:
            answer = call()
            return list(cast("Iterator[Any]", answer)) if isinstance(answer, Iterator) else answer
        except PlaitError as error:
            return error

    def _joined(self, one: Any, other: Any) -> Any:
        if isinstance(one, (Sessions, Session, Context)):
            return Beside(one, other, self._moment)
        if isinstance(one, (plait.Changes, plait.SessionPage)):
            return replace(one, cursor=Both.of(one.cursor, other.cursor))
        return one


def _ours(value: Any) -> Any:
    return value.one if isinstance(value, Beside) else value


def _theirs(value: Any) -> Any:
    return value.other if isinstance(value, (Beside, Both)) else value


def exported(chat: Beside) -> bytes:
    """A session as a file of lines, which is the same bytes from both."""
    files = [io.BytesIO(), io.BytesIO()]
    for session, file in zip((chat.one, chat.other), files, strict=True):
        write_jsonl(session, file)
    assert files[0].getvalue() == files[1].getvalue()
    return files[0].getvalue()


def imported(sessions: Beside, path: Any, **options: Any) -> Any:
    """A file of lines, read into both."""
    return sessions.ask(lambda handle, own: import_file(handle, path, **options))
