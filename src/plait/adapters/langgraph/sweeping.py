"""Removing from time to time what is over in a store: in a thread, or in a task of an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from langgraph.store.base import TTLConfig

from plait.errors import ClosedError

_log: Final = logging.getLogger(__name__)
MINUTES: Final = 5.0
"""Between two sweeps, where nobody says otherwise; as in LangGraph's own stores."""


class Sweeping(ABC):
    """What a store with a `ttl` has to sweep itself, as LangGraph's own stores have it; on the async face with an `a` before.

    A sweeper begins when it is started and ends when it is stopped, when what it answered is cancelled, when the sessions
    are closed, or with the store itself. A sweep that fails is logged, and the next one comes in its time.
    """

    ttl_config: TTLConfig | None
    _thread: threading.Thread | None = None
    _over: threading.Event | None = None
    _task: asyncio.Task[None] | None = None
    _over_async: asyncio.Event | None = None

    @abstractmethod
    def sweep_ttl(self) -> int:
        """Remove the items whose time is over; answers how many."""

    @abstractmethod
    async def asweep_ttl(self) -> int:
        """See `sweep_ttl`."""

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> concurrent.futures.Future[None]:
        """Have a thread call `sweep_ttl` from time to time, the first time after one interval.

        The interval is the argument, or `sweep_interval_minutes` of the store's `ttl`, or 5 minutes. Answers a future
        that ends with the thread; cancelling it stops the thread. Done at once if the store has no `ttl`; if a sweeper
        runs already it goes on, and the future can only stop it.
        """
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        if not self.ttl_config:
            future.set_result(None)
            return future
        if self._thread is None or self._over is None or self._over.is_set() or not self._thread.is_alive():
            over = self._over = threading.Event()
            given = (weakref.ref(self, lambda _: over.set()), self._interval(sweep_interval_minutes), over, future)
            self._thread = threading.Thread(target=_sweep, args=given, daemon=True, name="plait-ttl-sweeper")
            self._thread.start()
        over = self._over
        future.add_done_callback(lambda done: over.set() if done.cancelled() else None)
        return future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the thread, waiting for it `timeout` seconds at most; whether there is none any more."""
        if self._thread is None or self._over is None:
            return True
        self._over.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._thread = None
        return True

    async def astart_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> asyncio.Task[None]:
        """The same as a task of the running loop, which can be awaited or cancelled; the one that runs, if one does."""
        if not self.ttl_config:
            return asyncio.create_task(asyncio.sleep(0))
        if self._task is None or self._over_async is None or self._over_async.is_set() or self._task.done():
            over = self._over_async = asyncio.Event()
            seconds = self._interval(sweep_interval_minutes)
            self._task = asyncio.create_task(_sweep_async(weakref.ref(self, lambda _: over.set()), seconds, over))
            self._task.set_name("plait-ttl-sweeper")
        return self._task

    async def astop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the task, waiting for it `timeout` seconds at most; whether there is none any more."""
        if self._task is None or self._over_async is None:
            return True
        self._over_async.set()
        await asyncio.wait([self._task], timeout=timeout)
        if not self._task.done():
            return False
        self._task = None
        return True

    def _interval(self, minutes: float | None) -> float:
        """Seconds between two sweeps."""
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        return float(minutes or configured or MINUTES) * 60


Held = Callable[[], Sweeping | None]


def _sweep(store: Held, seconds: float, over: threading.Event, future: concurrent.futures.Future[None]) -> None:
    while not over.wait(seconds):
        try:
            if (held := store()) is None:
                break
            _say(held.sweep_ttl())
        except ClosedError:
            break
        except Exception:
            _log.exception("a sweep of the store failed; the next one comes in its time")
        held = None
    if future.set_running_or_notify_cancel():
        future.set_result(None)


async def _sweep_async(store: Held, seconds: float, over: asyncio.Event) -> None:
    while True:
        try:
            await asyncio.wait_for(over.wait(), seconds)
            return
        except TimeoutError:
            pass
        try:
            if (held := store()) is None:
                return
            _say(await held.asweep_ttl())
        except ClosedError:
            return
        except Exception:
            _log.exception("a sweep of the store failed; the next one comes in its time")
        held = None


def _say(count: int) -> None:
    if count:
        _log.info("removed %d items whose time was over", count)
