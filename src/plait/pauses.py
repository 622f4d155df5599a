"""Giving way between slices of work: to the event loop in one face, to nobody in the other.

asyncio is imported where it is used, here and in the driver: the other face does without it, and
it takes longer to import than plait.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar

from plait.errors import UsageError

if TYPE_CHECKING:
    import asyncio
    import threading

T = TypeVar("T")

log = logging.getLogger("plait")

PIECE_BYTES = 1 << 20

Payload = bytes | bytearray | memoryview | Iterable[bytes] | IO[bytes]


class _Readable(Protocol):
    def read(self, size: int, /) -> object: ...


async def pause_async() -> None:
    """Give the event loop a turn."""
    import asyncio

    await asyncio.sleep(0)


def pause() -> None:
    """Threads give way by themselves."""


async def rest_async(seconds: float) -> None:
    """Wait a while."""
    import asyncio

    await asyncio.sleep(seconds)


def rest(seconds: float) -> None:
    """Wait a while."""
    time.sleep(seconds)


async def aside_async(work: Callable[[], T]) -> T:
    """Do blocking work in a thread, so that the event loop goes on."""
    import asyncio

    return await asyncio.to_thread(work)


def aside(work: Callable[[], T]) -> T:
    """Do blocking work here."""
    return work()


async def aside_if_async(is_heavy: Callable[[], bool], work: Callable[[], T]) -> T:
    """Do work in a thread if it would hold the event loop, otherwise at once, which costs less."""
    return await aside_async(work) if is_heavy() else work()


def aside_if(_is_heavy: Callable[[], bool], work: Callable[[], T]) -> T:
    """Do work here."""
    return work()


def may_listen_async(listener: T) -> T:
    """A callback of asyncio's face may be of either kind; `UsageError` for one that would never run."""
    return _runs(listener, awaited=True)


def may_listen(listener: T) -> T:
    """A callback of the face of threads, which has no event loop to run a coroutine on."""
    return _runs(listener, awaited=False)


def _runs(listener: T, *, awaited: bool) -> T:
    """`listener`, unless calling it would only make something that nobody runs."""
    import inspect

    unfit: list[Callable[[object], bool]] = [inspect.isgeneratorfunction, inspect.isasyncgenfunction]
    if not awaited:
        unfit.append(inspect.iscoroutinefunction)
    called = getattr(listener, "__call__", None)  # noqa: B004 - an object's own, which may be of an unfit kind
    if any(is_so(one) for one in (listener, called) for is_so in unfit):
        raise UsageError(
            "listener must be a function that does its work when called; only open_async awaits async ones"
        )
    return listener


async def settle_async(answer: Awaitable[None] | None) -> None:
    """Wait for what a callback answered, if it is to be waited for."""
    if isinstance(answer, Awaitable):
        await answer


def settle(answer: object) -> None:
    """A callback has done its work when it returns, unless what it returns is still to be done."""
    if isinstance(answer, Awaitable):
        if isinstance(answer, Coroutine):
            answer.close()
        raise UsageError("the listener returned something to be awaited, which nothing does here; use open_async")


def pieces(data: Payload) -> Iterator[bytes]:
    """The bytes of a payload in pieces of at most 1 MiB, wherever they come from."""
    if isinstance(data, bytes | bytearray | memoryview):
        yield from _cut(data)
    elif _is_readable(data):
        while piece := _read(data):
            yield from _cut(piece)
    elif _is_iterable(data):
        for item in data:
            yield from pieces(item)
    else:
        raise UsageError(f"media is bytes, a binary file or an iterable of bytes, not {type(data).__name__}")


def _cut(data: bytes | bytearray | memoryview[Any]) -> Iterator[bytes]:
    for start in range(0, len(data), PIECE_BYTES):
        yield bytes(data[start : start + PIECE_BYTES])


_BYTES: Any = (bytes, bytearray, memoryview)


def _read(file: _Readable) -> Any:
    """What a file gives next, empty at its end; only bytes can say that, so anything else is refused."""
    piece: Any = file.read(PIECE_BYTES)
    if isinstance(piece, _BYTES):
        return piece
    if isinstance(piece, str):
        raise UsageError("media is bytes, and this file gives text; open it in binary mode, as open(path, 'rb') does")
    if piece is None:
        raise UsageError("media is bytes, and this file has none yet; give one whose read() waits, or its pieces")
    kind = type(piece).__name__
    if isinstance(piece, Coroutine):
        piece.close()
    raise UsageError(f"media is bytes, and read() of this file gave {kind}; give bytes or their pieces")


def _is_iterable(data: object) -> TypeGuard[Iterable[bytes]]:
    return isinstance(data, Iterable) and not isinstance(data, str)


def _is_readable(data: object) -> TypeGuard[_Readable]:
    # Not by `isinstance`, which does not see a method that a wrapper (such as tempfile's) passes on.
    return hasattr(data, "read")


async def pieces_async(data: Payload | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The same, also from an asynchronous source."""
    if isinstance(data, AsyncIterable):
        async for item in data:
            for piece in pieces(item):
                yield piece
    else:
        for piece in pieces(data):
            yield piece
            await pause_async()


async def call_async(function: Callable[..., Any], *given: Any) -> Any:
    """Call a user's function, a coroutine function or not; one that is not runs in a thread and holds no loop."""
    import asyncio
    import inspect

    if _is_coroutine_function(function):
        return await function(*given)
    answer: Any = await asyncio.to_thread(function, *given)
    return (await answer) if inspect.isawaitable(answer) else answer


def call(function: Callable[..., Any], *given: Any) -> Any:
    """Call a user's function; what it has to be awaited for is awaited in a loop and thread of its own."""
    import inspect

    answer: Any = function(*given)
    if not inspect.isawaitable(answer):
        return answer

    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def settled() -> Any:
        return await answer

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, settled()).result()


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


_ENTERED = (
    "a provider asked for what is being done with its help, which would never end; ask when its method has returned"
)


class AsyncMutex:
    """One at a time, on each event loop: `async with` it. `UsageError` for who is in it already."""

    def __init__(self) -> None:
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._holders: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

    async def __aenter__(self) -> None:
        import asyncio

        task = asyncio.current_task()
        if task in self._holders:
            raise UsageError(_ENTERED)
        await self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()).acquire()
        if task is not None:
            self._holders.add(task)

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        task = asyncio.current_task()
        if task is not None:
            self._holders.discard(task)
        self._locks[asyncio.get_running_loop()].release()


class Mutex:
    """The same for threads."""

    def __init__(self) -> None:
        import threading

        self._lock = threading.Lock()
        self._holder: int | None = None

    def __enter__(self) -> None:
        import threading

        if self._holder == threading.get_ident():
            raise UsageError(_ENTERED)
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._lock.release()


class AsyncBackground:
    """Work that goes on beside the caller, one piece at a time; of pieces asked for meanwhile the last is done after it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._next: Callable[[], Coroutine[Any, Any, None]] | None = None

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin `work`, or do it when what is going on is done."""
        import asyncio

        self._next = work
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._next is not None:
            work, self._next = self._next, None
            await work()

    async def join(self) -> None:
        """Return when nothing is going on."""
        import asyncio

        task = self._task
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([task])


class Background:
    """The same with threads."""

    def __init__(self) -> None:
        import threading

        self._thread: threading.Thread | None = None
        self._next: Callable[[], None] | None = None
        self._lock = threading.Lock()  # or work asked for while a thread ends would be lost

    def start(self, work: Callable[[], None]) -> None:
        """Begin `work`, or do it when what is going on is done."""
        import threading

        with self._lock:
            self._next = work
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="plait-compaction", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                work, self._next = self._next, None
                if work is None:
                    self._thread = None
                    return
            work()

    def join(self) -> None:
        """Return when nothing is going on."""
        import threading

        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


class AsyncRepeated:
    """Something done every so often while other work goes on; what it raises ends it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
        """Begin, first after so many seconds; one at a time."""
        import asyncio

        self._task = asyncio.get_running_loop().create_task(self._run(work, seconds))

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
        import asyncio

        try:
            while True:
                await asyncio.sleep(seconds)
                await work()
        except Exception as error:
            log.info("what was to be done every %s seconds ended: %s", seconds, error)

    async def stop(self) -> None:
        """Return when it is not done any more; harmless when it was not begun."""
        import asyncio

        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])


class Repeated:
    """The same with a thread."""

    def __init__(self) -> None:
        self._running: tuple[threading.Thread, threading.Event] | None = None

    def start(self, work: Callable[[], None], seconds: float) -> None:
        """Begin, first after so many seconds; one at a time."""
        import threading

        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(work, seconds, ended), name="plait-repeated", daemon=True)
        self._running = thread, ended
        thread.start()

    def _run(self, work: Callable[[], None], seconds: float, ended: threading.Event) -> None:
        try:
            while not ended.wait(seconds):
                work()
        except Exception as error:
            log.info("what was to be done every %s seconds ended: %s", seconds, error)

    def stop(self) -> None:
        """Return when it is not done any more; harmless when it was not begun."""
        running, self._running = self._running, None
        if running is not None:
            running[1].set()
            running[0].join()
