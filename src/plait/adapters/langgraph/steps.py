"""Work on sessions written once for both faces: a generator that yields calls and is sent their answers."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import plait

T = TypeVar("T")


class Call(NamedTuple):
    """A method of a session, or with no `session` of the sessions; with `all` its answer is gone through to its end."""

    session: str | None
    method: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it
    all: bool = False


class Out(NamedTuple):
    """One item of what is asked for, for work that answers many."""

    item: Any


Work: TypeAlias = Generator[Call, Any, T]
Stream: TypeAlias = Generator[Call | Out, Any, None]


def on(session: str | None, method: str, *args: Any, **options: Any) -> Call:
    """A call of a method."""
    return Call(session, method, args, options)


def all_of(session: str | None, method: str, *args: Any, **options: Any) -> Call:
    """A call of a method that answers an iterator, as the list of its items."""
    return Call(session, method, args, options, all=True)


def _target(sessions: Any, call: Call) -> Any:
    holder = sessions if call.session is None else sessions.session(call.session)
    return getattr(holder, call.method)(*call.args, **call.options)


def run(sessions: plait.Sessions, work: Work[T]) -> T:
    """Do the work in the calling thread."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = work.throw(error) if error is not None else work.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        error = None
        try:
            answer = _target(sessions, call)
            if call.all:
                answer = list(answer)
        except Exception as raised:
            error = raised


async def run_async(sessions: plait.AsyncSessions, work: Work[T]) -> T:
    """Do the work on the event loop."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = work.throw(error) if error is not None else work.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        error = None
        try:
            answer = await _answer(sessions, call)
        except Exception as raised:
            error = raised


async def _answer(sessions: plait.AsyncSessions, call: Call) -> Any:
    found = _target(sessions, call)
    if call.all:
        return [item async for item in found]
    return await found if inspect.isawaitable(found) else found


def stream(sessions: plait.Sessions, work: Stream) -> Iterator[Any]:
    """The items that the work gives out, as they come."""
    answer: Any = None
    while (step := _next(work, answer)) is not None:
        if isinstance(step, Out):
            answer = None
            yield step.item
            continue
        answer = _target(sessions, step)
        if step.all:
            answer = list(answer)


async def stream_async(sessions: plait.AsyncSessions, work: Stream) -> AsyncIterator[Any]:
    """The same on the event loop."""
    answer: Any = None
    while (step := _next(work, answer)) is not None:
        if isinstance(step, Out):
            answer = None
            yield step.item
            continue
        answer = await _answer(sessions, step)


def _next(work: Stream, answer: Any) -> Call | Out | None:
    try:
        return work.send(answer)
    except StopIteration:
        return None
