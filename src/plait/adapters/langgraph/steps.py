"""Work on sessions written once for both faces: a generator that yields calls and is sent their answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import plait
from plait.errors import UsageError

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


class BothFaces:
    """What does work for the methods of both faces, on sessions of either.

    Over `plait.open`'s the async methods work in threads. Over `plait.open_async`'s the sync methods work on the loop that the
    object was made or used in, called from threads beside it; elsewhere they raise `UsageError`.
    """

    _sessions: plait.Sessions | plait.AsyncSessions
    _loop: asyncio.AbstractEventLoop | None

    def _work_on(self, sessions: plait.Sessions | plait.AsyncSessions) -> None:
        if not isinstance(sessions, plait.Sessions | plait.AsyncSessions):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise UsageError(
                f"{type(self).__name__} takes what plait.open or plait.open_async answered, not a {type(sessions).__name__}"
            )
        self._sessions = sessions
        self._loop = _running()

    def _run(self, work: Work[T]) -> T:
        if not isinstance(self._sessions, plait.AsyncSessions):
            return run(self._sessions, work)
        loop = self._loop_beside(work)
        return asyncio.run_coroutine_threadsafe(run_async(self._sessions, work), loop).result()

    async def _arun(self, work: Work[T]) -> T:
        if isinstance(self._sessions, plait.AsyncSessions):
            self._loop = asyncio.get_running_loop()
            return await run_async(self._sessions, work)
        return await asyncio.to_thread(run, self._sessions, work)

    def _stream(self, work: Stream) -> Iterator[Any]:
        if not isinstance(self._sessions, plait.AsyncSessions):
            return stream(self._sessions, work)
        return _each_on(self._loop_beside(work), stream_async(self._sessions, work))

    async def _astream(self, work: Stream) -> AsyncIterator[Any]:
        if isinstance(self._sessions, plait.AsyncSessions):
            self._loop = asyncio.get_running_loop()
            async for found in stream_async(self._sessions, work):
                yield found
            return
        items = stream(self._sessions, work)
        while (found := await asyncio.to_thread(next, items, None)) is not None:
            yield found

    def _loop_beside(self, work: Work[Any] | Stream) -> asyncio.AbstractEventLoop:
        """The loop that a sync call is to work on: not its own thread's, which would wait for itself."""
        if self._loop is None or not self._loop.is_running() or self._loop is _running():
            work.close()
            raise _NotHereError(
                "these sessions are open_async's: use the async methods, such as ainvoke (a thread beside their running "
                "loop may call the others), or give sessions of plait.open"
            )
        return self._loop


class _NotHereError(UsageError, asyncio.InvalidStateError):
    """What LangGraph's async savers and stores raise for a sync call on their loop, too."""


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _each_on(loop: asyncio.AbstractEventLoop, items: AsyncIterator[Any]) -> Iterator[Any]:
    """The items, each fetched on a loop by a thread beside it."""

    async def following() -> Any:
        return await anext(items, None)

    while (found := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
        yield found
