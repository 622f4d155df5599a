"""Connections kept for the next plan: a bounded number in use, the others waited for.

Made by ourselves because a pool with threads or tasks of its own outlives neither a fork nor the event
loop it was opened on, and could not be closed from another thread than that loop's.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from plait.errors import ClosedError, StoreBusyError

if TYPE_CHECKING:
    import asyncio

C = TypeVar("C")


def _too_busy(size: int, timeout_s: float) -> StoreBusyError:
    return StoreBusyError(f"all {size} connections stayed in use for {timeout_s:g} s; try again")


def end(connection: Any) -> None:
    """Close a connection that is not in use, from whatever thread."""
    connection.pgconn.finish()


class Slots(Generic[C]):
    """Idle connections and how many are out."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.idle: list[C] = []
        self.out = 0
        self.closed = False
        self.lock = threading.Lock()

    def take(self) -> C | bool:
        """An idle connection; or whether one may be made, and is then counted as out."""
        if self.closed:
            raise ClosedError
        with suppress(IndexError):  # another thread may let go of them
            found = self.idle.pop()
            self.out += 1
            return found
        if self.out < self.size:
            self.out += 1
            return True
        return False

    def give(self, connection: C | None) -> None:
        """One that was out is back, or is gone (`None`)."""
        self.out -= 1
        if connection is None:
            return
        if self.closed:
            end(connection)
        else:
            self.idle.append(connection)

    def drop_idle(self) -> None:
        """Let go of what nobody uses; without a lock, for a finalizer may do so in the midst of anything."""
        with suppress(IndexError):
            while True:
                end(self.idle.pop())

    def close(self) -> None:
        self.closed = True
        self.drop_idle()


class Pool(Slots[C]):
    """For threads."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._free = threading.Condition(self.lock)

    def acquire(self, timeout_s: float) -> C | None:
        """An idle connection, or `None`: make one."""
        deadline = time.monotonic() + timeout_s
        with self._free:
            while True:
                found = self.take()
                if found is not False:
                    return None if found is True else found
                if not self._free.wait(deadline - time.monotonic()):
                    raise _too_busy(self.size, timeout_s)

    def release(self, connection: C | None) -> None:
        """Give a connection back, or say that it is gone."""
        with self._free:
            self.give(connection)
            self._free.notify()


class AsyncPool(Slots[C]):
    """For the tasks of one event loop."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, timeout_s: float) -> C | None:
        """An idle connection, or `None`: make one."""
        import asyncio

        deadline = time.monotonic() + timeout_s
        while True:
            found = self.take()
            if found is not False:
                return None if found is True else found
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await asyncio.wait_for(waiter, max(deadline - time.monotonic(), 0.001))
            except TimeoutError:
                raise _too_busy(self.size, timeout_s) from None
            except BaseException:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # it was this one's turn: the next one has it
                raise

    def release(self, connection: C | None) -> None:
        """Give a connection back, or say that it is gone."""
        self.give(connection)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
