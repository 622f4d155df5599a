"""Writes that stop just before their commit, until a test lets them go on, and those that wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from plait.store.postgres._sync.executor import Executor

LONG_S = 30.0


class Held:
    """A write in a thread of its own, all of it sent but the commit."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self._failed: BaseException | None = None
        self._arrived, self._gate = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
        except BaseException as error:
            self._failed = error
        finally:
            self._arrived.set()

    def start(self) -> Held:
        """Go on up to the commit."""
        self._thread.start()
        assert self._arrived.wait(LONG_S)
        if self._failed is not None:
            raise self._failed
        return self

    def arrive(self) -> None:
        """Called by the thread before its first commit."""
        if not self._arrived.is_set():
            self._arrived.set()
            assert self._gate.wait(LONG_S)

    def is_run_by(self, thread: threading.Thread) -> bool:
        return self._thread is thread

    def commit(self) -> Any:
        """Let it commit; what it answers."""
        self._gate.set()
        self._thread.join(LONG_S)
        if self._failed is not None:
            raise self._failed
        return self.result


class Holding:
    """Makes writes that are held before their commit; whatever else is written is not."""

    def __init__(self) -> None:
        self._held: list[Held] = []

    def __call__(self, work: Callable[[], Any]) -> Held:
        held = Held(work)
        self._held.append(held)
        return held.start()

    def pause(self) -> None:
        """Stop if this thread is one of those."""
        for held in self._held:
            if held.is_run_by(threading.current_thread()):
                held.arrive()

    def end(self) -> None:
        for held in self._held:
            held.commit()


def waiting(url: str) -> bool:
    """Whether somebody waits for another's transaction to end."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return connection.execute(query).fetchone() is not None


@contextmanager
def holding() -> Iterator[Holding]:
    """Hold writes while this lasts; those still held at the end are let go."""
    committed, all = Executor._committed, Holding()

    def pausing(executor: Executor) -> Any:
        if executor._held[-1][0].startswith(b"COMMIT"):
            executor._held, last = executor._held[:-1], executor._held[-1]
            if executor._held:
                executor._send_all()
            all.pause()
            executor._held.append(last)
        return committed(executor)

    Executor._committed = pausing  # type: ignore[method-assign]
    try:
        yield all
    finally:
        try:
            all.end()
        finally:
            Executor._committed = committed  # type: ignore[method-assign]
