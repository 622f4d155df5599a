"""The SQLite driver: where plans meet a file, from threads and from event loops, and across forks."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
from msgspec.structs import replace

from plait.errors import ClosedError, StoreUnavailableError
from plait.model import Finding
from plait.pauses import aside_async
from plait.store import forks
from plait.store.plan import PlanFactory
from plait.store.sqlite import connection as files
from plait.store.sqlite import upkeep
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.errors import translate
from plait.store.sqlite.executor import Executor, TooHeavy, Writing
from plait.store.sqlite.statements import load
from plait.store.sqlite.writer import Entry, Writer

if TYPE_CHECKING:
    from plait.logic.phrases import Token

T = TypeVar("T")
FULL_POLL_S = 0.002
LIGHT_BYTES = 64 << 10
"""A plan that writes more is not committed on an event loop."""

FORK_WAIT_S = 5.0
"""How long a fork waits for reads in other threads to end."""


class SQLiteDriver:
    """Runs plans on one database file; both faces share it."""

    hides = True
    """Rows can be taken away before they are removed: see `veil.py`."""

    def __init__(self, settings: Settings) -> None:
        if not settings.in_memory:  # connections are made when needed, by then the current folder may be another
            # A link is followed here: SQLite keeps the log beside the file, and its file layer opens no link.
            settings = replace(settings, path=os.path.realpath(settings.path))
        self.settings = settings
        self.journal_mode = ""
        self._statements = load()
        self._opened = False
        self._closed = False
        self._commits_lightly = self._given_way = False
        self._lock = threading.RLock()
        self._idle: list[Executor] = []
        self._watch: apsw.Connection | None = None
        self._busy_readers = 0
        self._quiet = threading.Condition(self._lock)
        self._forking = False
        self._writer = Writer(_Connector(settings, self._statements), settings.busy_timeout_ms)
        self._writer_end = weakref.finalize(self, self._writer.end)
        forks.tell(self)

    @property
    def read_only(self) -> bool:
        """Whether no plan can write."""
        return self.settings.read_only

    def tokenize(self, folded: str) -> list[Token]:
        """The words of a folded text, as the search index holds them."""
        from plait.store.tokens import tokenize

        return tokenize(folded)

    # -- life ------------------------------------------------------------------

    def open(self) -> None:
        """Check or make the file; harmless when called again."""
        with self._lock:
            if self._closed:
                raise ClosedError
            if self._opened:
                return
            try:
                self.settings, self.journal_mode = files.prepare(self.settings)
            except apsw.Error as error:
                raise translate(error) from error
            self._commits_lightly = self.settings.durability != "strict" and self.journal_mode == "wal"
            self._opened = True

    async def _open_async(self) -> None:
        """Open in a thread: it may have to wait for other processes."""
        if not self._opened or self._closed:
            await aside_async(self.open)

    def close(self) -> None:
        """Commit what was accepted, then let go of the file; harmless when called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._close_readers()  # first, so that the writer is the last to close and merges the log
        self._writer.close()

    def flush(self) -> None:
        """Put what is committed on disk, at any durability."""
        self.open()
        if self.settings.in_memory or self.settings.read_only:
            return
        try:
            files.sync(self.settings)
        except apsw.Error as error:
            raise translate(error) from error

    # -- writing ---------------------------------------------------------------

    def write(self, plan: PlanFactory[T], weight: int = 0, *, light: bool = False) -> T:
        """Commit a plan, waiting in this thread."""
        self._ready_to_write()
        entry = Entry(plan, weight)
        if self._writer.run_here(entry):
            return entry.outcome()  # type: ignore[no-any-return]
        entry.lock = threading.Lock()
        entry.lock.acquire()
        self._writer.submit(entry)
        return entry.wait()  # type: ignore[no-any-return]

    async def write_async(self, plan: PlanFactory[T], weight: int = 0, *, light: bool = False) -> T:
        """Commit a plan, waiting on the running event loop."""
        import asyncio

        if not self._opened or self._closed:
            await self._open_async()
        self._ready_to_write()
        entry = Entry(plan, weight)
        if light and self._commits_lightly and weight <= LIGHT_BYTES and self._commit_on_loop(entry):
            try:
                await asyncio.sleep(0)  # the other tasks have their turn
            finally:
                self._given_way = False
            return entry.outcome()  # type: ignore[no-any-return]
        while self._writer.full:  # noqa: ASYNC110 - an event would have to reach across threads and loops for it
            await asyncio.sleep(FULL_POLL_S)
        entry.future = future = asyncio.get_running_loop().create_future()
        self._writer.submit(entry)
        return await entry.wait_async(future)  # type: ignore[no-any-return]

    def _commit_on_loop(self, entry: Entry) -> bool:
        """Commit a lone caller's plan here and now, if no fsync is needed; else do nothing.

        Only one in a turn of the loop: the others of that turn queue, and are committed together.
        """
        if self._given_way:
            return False
        self._given_way = self._writer.run_here(entry, on_loop=True)
        return self._given_way

    def _ready_to_write(self) -> None:
        if not self._opened or self._closed:
            self.open()
        if self.settings.read_only:
            raise StoreUnavailableError("the store was opened read-only; open it without read_only=True to write")

    # -- reading ---------------------------------------------------------------

    def read(self, plan: PlanFactory[T]) -> T:
        """Run a plan in one snapshot, in this thread."""
        if not self._opened or self._closed:
            self.open()
        try:
            return self._read(plan, on_loop=False)
        except (apsw.Error, MemoryError) as error:
            raise translate(error) from error

    async def read_async(self, plan: PlanFactory[T]) -> T:
        """Run a plan in one snapshot: on the loop if it is light, in a thread if it is not."""
        if not self._opened or self._closed:
            await self._open_async()
        try:
            return self._read(plan, on_loop=True)
        except (TooHeavy, apsw.BusyError):
            return await aside_async(partial(self.read, plan))
        except (apsw.Error, MemoryError) as error:
            raise translate(error) from error

    def _read(self, plan: PlanFactory[T], *, on_loop: bool) -> T:
        if self.settings.in_memory:
            with self._memory(on_loop=on_loop) as executor:
                return executor.read(plan, on_loop=on_loop)
        executor = self._check_out()
        try:
            if on_loop:
                return executor.read(plan, on_loop=True)
            executor.connection.set_busy_timeout(self.settings.busy_timeout_ms)
            try:
                return executor.read(plan, on_loop=False)
            finally:
                executor.connection.set_busy_timeout(0)
        finally:
            self._check_in(executor)

    def commits(self, place: object = None) -> int | None:
        """A number that is another one once anybody has committed, wherever; `None` where that cannot be told.

        From a connection of its own, because the numbers of two connections say nothing about each other.
        """
        self.open()
        if self.settings.in_memory:
            return None
        with self._lock:
            if self._forking or self._closed:
                return None
            try:
                if self._watch is None:
                    self._watch = files.open_reader(self.settings, wait=False)
                return int(self._watch.pragma("data_version"))
            except apsw.BusyError:
                return None
            except apsw.Error as error:
                raise translate(error) from error

    def _check_out(self) -> Executor:
        """A reading connection for the time of one plan."""
        with self._lock:
            while self._forking:  # or readers that take turns would keep the fork waiting for ever
                self._quiet.wait()
            if self._closed:
                raise ClosedError
            self._busy_readers += 1
            if self._idle:
                return self._idle.pop()
        try:
            return Executor(files.open_reader(self.settings, wait=False), self._statements)
        except BaseException:
            self._check_in(None)
            raise

    def _check_in(self, executor: Executor | None) -> None:
        with self._lock:
            self._busy_readers -= 1
            if executor is not None:
                # An interrupt may have come between the steps of a read: such a connection is not used again.
                if self._closed or executor.connection.in_transaction:
                    executor.connection.close()
                else:
                    self._idle.append(executor)
            if self._forking:
                self._quiet.notify_all()

    @contextmanager
    def _memory(self, *, on_loop: bool) -> Generator[Executor]:
        """The one connection of a store in memory, between the writer's batches."""
        gate = self._writer.gate
        if not gate.acquire(blocking=not on_loop):
            raise TooHeavy
        try:
            writing = self._writer.ready()
            executor = Executor(writing.connection, self._statements)
            executor.veiled = writing.veiled
            yield executor
        finally:
            gate.release()

    def _close_readers(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        while self._idle:
            self._idle.pop().connection.close()

    # -- upkeep ----------------------------------------------------------------

    def backup(self, path: str) -> None:
        """Copy the database to a new file, in steps between which others write."""
        self.open()
        with self._upkeep() as connection:
            upkeep.backup(connection, path)

    def doctor(self, fix: bool) -> list[Finding]:
        """Check the file; mend what can be mended."""
        self.open()
        with self._upkeep() as connection:
            return upkeep.examine(connection, self.settings, fix=fix and not self.settings.read_only)

    def vacuum(self, purge: bool) -> None:
        """Write the file anew without its gaps."""
        self._ready_to_write()
        with self._upkeep() as connection:
            upkeep.vacuum(connection, self.settings, purge=purge)

    @contextmanager
    def _upkeep(self) -> Generator[apsw.Connection]:
        """A connection of its own for work that takes long (in memory: the only one)."""
        try:
            if self.settings.in_memory:
                with self._writer.gate:
                    writing = self._writer.ready()
                    writing.forget()
                    yield writing.connection
                return
            connect = files.open_reader if self.settings.read_only else files.open_writer
            with closing(connect(self.settings)) as connection:
                yield connection
        except (apsw.Error, OSError) as error:
            raise translate(error) from error

    # -- forks -----------------------------------------------------------------
    # SQLite keeps its file locks per process in tables that a child would inherit without the
    # locks themselves. So nothing may be open while the process forks; it is opened again after.

    def before_fork(self) -> None:
        self._lock.acquire()
        self._forking = True
        # Bounded: an interrupt in the middle of a read may have left the count too high.
        self._quiet.wait_for(lambda: not self._busy_readers, timeout=FORK_WAIT_S)
        self._writer.gate.acquire()
        if not self.settings.in_memory:
            self._close_readers()
            self._writer.let_go()

    def after_fork_in_parent(self) -> None:
        self._writer.gate.release()
        self._forking = False
        self._quiet.notify_all()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._forking = False
        self._busy_readers = 0
        memory = self._writer.writing
        self._lock = threading.RLock()
        self._quiet = threading.Condition(self._lock)
        self._writer.reset()
        self._writer.writing = memory


class _Connector:
    """Makes the writer's connection; apart from the driver, so that the thread does not keep it alive."""

    def __init__(self, settings: Settings, statements: dict[str, Any]) -> None:
        self._settings = settings
        self._statements = statements

    def __call__(self) -> Writing:
        connection = files.open_writer(self._settings)
        connection.execute(files.JOURNAL_IN_MEMORY)
        return Writing(connection, self._statements)
