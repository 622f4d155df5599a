"""The PostgreSQL driver: where plans meet a server, from threads and from event loops, and across forks."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from plait.errors import ClosedError, StoreUnavailableError, UnsupportedError
from plait.model import Finding
from plait.pauses import aside_async
from plait.store import forks
from plait.store.plan import PlanFactory
from plait.store.postgres._async.running import AsyncRunner
from plait.store.postgres._sync import connecting
from plait.store.postgres._sync.running import Runner
from plait.store.postgres.errors import translate
from plait.store.postgres.heads import Known
from plait.store.postgres.hints import Hints, place_of
from plait.store.postgres.settings import Settings
from plait.store.protocol import Scope, SessionRef

if TYPE_CHECKING:
    import asyncio

    from plait.logic.phrases import Token

T = TypeVar("T")


class PostgresDriver:
    """Runs plans on one database; both faces share it, each event loop with connections of its own."""

    works_on_loop = True
    """What a plan computes between its round trips is computed on the event loop that asks for it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._opened = self._closed = False
        self._writable = True
        self._pools: list[Any] = []
        self._start()
        self._end = weakref.finalize(self, _close, self._pools)
        forks.tell(self)

    def _start(self) -> None:
        self._known = Known()
        self._hints = Hints(self.settings)
        self._runner = Runner(self.settings, self._known, self._hints)
        self._pools[:] = [self._runner.pool, self._hints]
        self._runners: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncRunner] = weakref.WeakKeyDictionary()
        self._running: set[asyncio.Future[Any]] = set()

    @property
    def read_only(self) -> bool:
        """Whether no plan can write: it was opened so, or the server is a standby."""
        return self.settings.read_only or not self._writable

    def tokenize(self, folded: str) -> list[Token]:
        """The words of a folded text, as the search index holds them."""
        from plait.store.tokens import tokenize

        return tokenize(folded)

    def lexemes(self, folded: str) -> str:
        """The words of a folded text as the index takes them: taking a long one apart is not for a transaction."""
        from plait.store.postgres.adapt import lexemes

        return lexemes(folded)

    # -- life ------------------------------------------------------------------

    def open(self) -> None:
        """Reach the server, make or bring up to date the schema; harmless when called again."""
        with self._lock:
            if self._closed:
                raise ClosedError
            if self._opened:
                return
            try:
                self._writable = connecting.prepare(self.settings)
            except Exception as error:
                raise translate(error) from error.__cause__
            self._opened = True

    def close(self) -> None:
        """Let go of the server; harmless when called again. What is being written is finished first by its callers."""
        with self._lock:
            self._closed = True
            _close(self._pools)

    def flush(self) -> None:
        """Nothing is to be done: what is acknowledged is committed, and so on disk."""
        self.open()

    # -- plans -----------------------------------------------------------------

    def read(self, plan: PlanFactory[T]) -> T:
        """Run a plan in one snapshot, in this thread."""
        self._ready()
        return self._runner.read(plan)

    def write(self, plan: PlanFactory[T], weight: int = 0, *, light: bool = False) -> T:
        """Commit a plan, waiting in this thread; a `light` one with those of others, where that can be."""
        self._ready_to_write()
        if not light:
            return self._runner.write(plan)
        item = self._runner.join(plan, weight)
        return item.answer() if item.done else self._runner.alone(item)  # type: ignore[no-any-return]

    async def read_async(self, plan: PlanFactory[T]) -> T:
        """Run a plan in one snapshot, on the running event loop."""
        await self._ready_async()
        return await self._on_loop().read(plan)

    async def write_async(self, plan: PlanFactory[T], weight: int = 0, *, light: bool = False) -> T:
        """Commit a plan, waiting on the running event loop; a `light` one with those of others, where that can be.

        Cancelled, it is carried through once it is begun, and only not waited for.
        """
        import asyncio

        await self._ready_async()
        if self.read_only:
            await aside_async(self._ready_to_write)
        runner = self._on_loop()
        item = (await runner.join(plan, weight)) if light else None
        if item is not None and item.done:
            return item.answer()  # type: ignore[no-any-return]
        task: asyncio.Future[T] = asyncio.ensure_future(runner.write(plan) if item is None else runner.alone(item))
        self._running.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # it was told to the waiter, or there is none any more

    def _ready(self) -> None:
        if not self._opened or self._closed:
            self.open()

    async def _ready_async(self) -> None:
        if not self._opened or self._closed:
            await aside_async(self.open)

    def _ready_to_write(self) -> None:
        self._ready()
        if self.read_only and not self.settings.read_only:
            self._look_again()
        if self.read_only:
            why = "was opened read-only; open it without read_only=True" if self.settings.read_only else "is a standby"
            raise StoreUnavailableError(f"the store {why}: nothing can be written to it here")

    def _look_again(self) -> None:
        """A standby may have been promoted since."""
        with self._lock:
            try:
                self._writable = connecting.prepare(self.settings)
            except Exception as error:
                raise translate(error) from error.__cause__

    def _on_loop(self) -> AsyncRunner:
        """The runner of the running event loop: connections cannot be shared by two."""
        import asyncio

        loop = asyncio.get_running_loop()
        runner = self._runners.get(loop)
        if runner is None:
            with self._lock:
                self._reap()
                runner = self._runners[loop] = AsyncRunner(self.settings, self._known, self._hints)
                self._pools.append(runner.pool)
                weakref.finalize(loop, _let_go, self._pools, runner.pool, os.getpid()).atexit = False
        return runner

    def _reap(self) -> None:
        """Let go of the connections of loops that are closed; those of one that is gone have gone with it."""
        for loop, runner in list(self._runners.items()):
            if loop.is_closed():
                del self._runners[loop]
                _let_go(self._pools, runner.pool, os.getpid())

    # -- waiting for others ----------------------------------------------------

    def commits(self, place: SessionRef | Scope | None = None) -> int | None:
        """A number that is another one once anybody has written there; `None` while the server cannot tell us."""
        if self._closed:
            raise ClosedError
        return self._hints.number(place_of(place)) if self._opened else None

    def rest(self, place: SessionRef | Scope, seen: int | None, at_most_s: float) -> bool:
        """Return when the number of commits is not `seen` any more, or after so long; `False` at once without one."""
        if seen is None or self.commits(place) is None:
            return False
        rung, at = threading.Event(), place_of(place)
        with self._hints.ringing(at, rung.set):
            if self._hints.number(at) == seen:
                rung.wait(at_most_s)
        return True

    async def rest_async(self, place: SessionRef | Scope, seen: int | None, at_most_s: float) -> bool:
        """The same on the running event loop."""
        import asyncio

        if seen is None or self.commits(place) is None:
            return False
        loop, rung, at = asyncio.get_running_loop(), asyncio.Event(), place_of(place)

        def ring() -> None:
            with suppress(RuntimeError):  # its loop was closed
                loop.call_soon_threadsafe(rung.set)

        with self._hints.ringing(at, ring):
            if self._hints.number(at) == seen:
                with suppress(TimeoutError):
                    await asyncio.wait_for(rung.wait(), at_most_s)
        return True

    # -- upkeep ----------------------------------------------------------------

    def backup(self, path: str) -> None:
        """Refuse: a server's backups are its own."""
        raise UnsupportedError(
            "a server is backed up by its own tools: pg_dump, or base backups; "
            "`plait copy URL FILE` writes the sessions into a SQLite file"
        )

    def doctor(self, fix: bool) -> list[Finding]:
        """Check what is stored; mend what can be mended."""
        from plait.store.postgres import upkeep

        self._ready()
        wait_ms = str(int(self.settings.busy_timeout_s * 1000) or 1)
        with self._upkeep() as connection:
            return upkeep.examine(connection, self, fix=fix and not self.read_only, wait_ms=wait_ms)

    def vacuum(self, purge: bool) -> None:
        """Give the room of what was deleted back to the tables; with `purge` write them anew."""
        from plait.store.postgres import upkeep

        self._ready_to_write()
        with self._upkeep() as connection:
            upkeep.vacuum(connection, purge=purge)

    @contextmanager
    def _upkeep(self) -> Generator[psycopg.Connection[Any]]:
        """A connection of its own for work that takes long."""
        try:
            connection = connecting.connect(self.settings)
            try:
                yield connection
            finally:
                connection.close()
        except Exception as error:
            raise translate(error) from error.__cause__

    # -- forks -----------------------------------------------------------------

    def before_fork(self) -> None:
        """Have no thread meanwhile: a fork copies none."""
        self._hints.hold()

    def after_fork_in_parent(self) -> None:
        """Go on as before."""
        self._hints.go_on()

    def after_fork_in_child(self) -> None:
        """Leave the parent its connections: a child makes its own."""
        self._inherited = self._pools[:]  # kept, so that nothing of them is sent from here
        self._lock = threading.Lock()
        self._start()


def _close(pools: list[Any]) -> None:
    for pool in pools[:]:
        pool.close()


def _let_go(pools: list[Any], pool: Any, pid: int) -> None:
    """Close the connections of a loop that is over, in the process that made them."""
    if pid == os.getpid():
        with suppress(ValueError):  # that was done before
            pools.remove(pool)
        pool.close()
