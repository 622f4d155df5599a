"""Group commit: writes that came while another batch was under way go together in the next one.

A caller puts its write into the lane and waits. One batch is under way at a time; what its worker
leaves undone is its caller's to do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from plait.errors import StoreBusyError
from plait.store.plan import PlanFactory
from plait.store.postgres.heads import HeadKey

if TYPE_CHECKING:
    import asyncio

MAX_PLANS = 256
MAX_BYTES = 4 << 20


class Waiting:
    """One write in a lane, and what became of it."""

    __slots__ = ("done", "doubted", "error", "key", "plan", "result", "turn", "weight")

    def __init__(self, plan: PlanFactory[Any], weight: int) -> None:
        self.plan = plan
        self.weight = weight
        self.key: HeadKey | None = None
        """The session it writes to, if that was found out."""
        self.done = False
        self.doubted = False
        """A try of it that is not there may come about yet."""
        self.result: Any = None
        self.error: BaseException | None = None
        self.turn: Any = None

    def answer(self) -> Any:
        """What the write answers, or raises."""
        if self.error is not None:
            raise self.error
        return self.result


def _batch(queue: deque[Waiting]) -> list[Waiting]:
    """The next writes that go together."""
    batch = [queue.popleft()]
    size = batch[0].weight
    while queue and len(batch) < MAX_PLANS and size + queue[0].weight <= MAX_BYTES:
        size += queue[0].weight
        batch.append(queue.popleft())
    return batch


class Lane:
    """For threads: one of those that wait does the work for all, and hands it over once its own is done.

    Who has queued for `patience_s`, because a batch got stuck, leaves as it came.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._queue: deque[Waiting] = deque()
        self._busy = False

    def run(self, item: Waiting, work: Callable[[list[Waiting]], None]) -> None:
        """Wait until a batch with `item` in it has been worked on, or it has left the queue."""
        item.turn = threading.Event()
        with self._lock:
            self._queue.append(item)
            mine = not self._busy
            self._busy = True
        if not mine:
            self._wait(item)
            if item not in self._queue:  # only a leader takes from it, and there is none if it is my turn
                return
        try:
            batch: list[Waiting] = []
            while item not in batch:
                with self._lock:
                    batch = _batch(self._queue)
                try:
                    work(batch)
                finally:
                    for other in batch:
                        other.turn.set()
        finally:
            self._hand_over()

    def _wait(self, item: Waiting) -> None:
        try:
            if not item.turn.wait(self._patience_s) and not self._left(item):
                item.turn.wait()  # a batch under way is not waited for without end by its leader
        except BaseException:
            with self._lock:
                queued = item in self._queue
                if queued:
                    self._queue.remove(item)
            if queued and item.turn.is_set():
                self._hand_over()  # it was this one's turn to lead
            raise

    def _left(self, item: Waiting) -> bool:
        """Take a write out of the queue, unless it is in a batch already or its turn to lead has come."""
        with self._lock:
            leaves = item in self._queue and not item.turn.is_set()
            if leaves:
                self._queue.remove(item)
            return leaves

    def _hand_over(self) -> None:
        with self._lock:
            if self._queue:
                self._queue[0].turn.set()
            else:
                self._busy = False


class AsyncLane:
    """For the tasks of one event loop: a task of its own does the work, and ends when there is none."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._queue: deque[Waiting] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def run(self, item: Waiting, work: Callable[[list[Waiting]], Awaitable[None]]) -> None:
        """Wait until a batch with `item` in it has been worked on, or it has left the queue; cancelled, it is taken out."""
        import asyncio

        item.turn = asyncio.get_running_loop().create_future()
        self._queue.append(item)
        queued = self._worker is not None
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._drain(work))
        try:
            if queued and not (await asyncio.wait((item.turn,), timeout=self._patience_s))[0] and item in self._queue:
                return self._queue.remove(item)
            await item.turn
        except asyncio.CancelledError:
            if item in self._queue:
                self._queue.remove(item)
            raise

    async def _drain(self, work: Callable[[list[Waiting]], Awaitable[None]]) -> None:
        try:
            while self._queue:
                batch = _batch(self._queue)
                try:
                    await work(batch)
                finally:
                    for item in batch:
                        if not item.turn.done():
                            item.turn.set_result(None)
        finally:
            self._worker = None


def _too_long(timeout_s: float) -> StoreBusyError:
    return StoreBusyError(f"others were writing to the session for {timeout_s:g} s; try again, or raise busy_timeout_s")


class Turns:
    """For threads: one of them at a time has a session to itself, as far as this process goes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[HeadKey, tuple[threading.Lock, list[None]]] = {}

    @contextmanager
    def of(self, key: HeadKey | None, timeout_s: float) -> Generator[None]:
        """A session's turn; `StoreBusyError` if it does not come in time."""
        if key is None:
            yield
            return
        with self._lock:
            turn, users = self._held.setdefault(key, (threading.Lock(), []))
            users.append(None)
        try:
            if not turn.acquire(timeout=timeout_s):
                raise _too_long(timeout_s)
            try:
                yield
            finally:
                turn.release()
        finally:
            with self._lock:
                users.pop()
                if not users:
                    del self._held[key]


class AsyncTurns:
    """For the tasks of one event loop."""

    def __init__(self) -> None:
        self._held: dict[HeadKey, tuple[asyncio.Lock, list[None]]] = {}

    @asynccontextmanager
    async def of(self, key: HeadKey | None, timeout_s: float) -> AsyncGenerator[None]:
        """A session's turn; `StoreBusyError` if it does not come in time."""
        import asyncio

        if key is None:
            yield
            return
        turn, users = self._held.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            try:
                await asyncio.wait_for(turn.acquire(), timeout_s)
            except TimeoutError:
                raise _too_long(timeout_s) from None
            try:
                yield
            finally:
                turn.release()
        finally:
            users.pop()
            if not users:
                del self._held[key]
