"""The writer: one thread per store that commits waiting plans together and acknowledges them after."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import apsw
from msgspec import Struct

from plait.errors import ClosedError, PlaitError
from plait.store.plan import Bind, PlanFactory
from plait.store.sqlite.errors import translate
from plait.store.sqlite.executor import TooHeavy, Writing

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("plait")

BATCH_PLANS = 256
BATCH_BYTES = 4 << 20
BATCH_S = 0.020
QUEUE_PLANS = 8192
GAP_S = 0.001
"""How long the writer stands back after a batch when another process is writing too."""

CHECKPOINT_IDLE_PAGES = 1000
CHECKPOINT_PAGES = 8000
IDLE_S = 0.05
"""How long nothing must have come for the writer to be idle: right after a batch its callers are about to come again."""
RESTART_BYTES = 64 << 20
RESTART_WAIT_MS = 100
SYNCED = "PRAGMA synchronous = NORMAL"
"""Moving the log into the file is synced at any durability: what has left the log could not be flushed any more."""

_END = object()
"""Queued last: everything before it is committed, then the thread ends."""


class Entry(Struct, eq=False):
    """One plan waiting to be committed, and whoever waits for it: a task by its future, or a thread."""

    plan: PlanFactory[Any]
    weight: int
    result: Any = None
    error: Exception | None = None
    binds: list[Bind] = []  # a list of its own for each, as Struct has it
    started: bool = False
    withdrawn: bool = False
    future: asyncio.Future[None] | None = None
    lock: threading.Lock | None = None

    def wait(self) -> Any:
        """Wait in a thread; an interrupt while queued withdraws the plan, later it waits for its end."""
        assert self.lock is not None
        try:
            self.lock.acquire()
        except BaseException:
            self.withdrawn = True
            if self.started:
                self.lock.acquire()
            raise
        return self.outcome()

    async def wait_async(self, future: asyncio.Future[None]) -> Any:
        """Wait on the loop; cancelling withdraws a queued plan, a started one runs to its end."""
        try:
            await future
        except BaseException:  # it is cancelled
            self.withdrawn = True
            raise
        return self.outcome()

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class Writer:
    """Commits plans in the order they came, many to a transaction."""

    def __init__(self, connect: Callable[[], Writing], busy_timeout_ms: int) -> None:
        self.connect = connect
        self._busy_timeout_ms = busy_timeout_ms
        self._closed = False
        self.reset()

    def reset(self) -> None:
        """Begin anew, as in a forked child, where no thread and no waiter came along."""
        self.gate = threading.RLock()
        self.writing: Writing | None = None
        self.wal_pages = 0
        self._checked_pages = 0
        self._checkpointer: apsw.Connection | None = None
        self._checkpointing = threading.Lock()
        self._checkpoint_thread: threading.Thread | None = None
        self._others = False
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._left: deque[Entry] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def full(self) -> bool:
        """Whether callers should wait before they queue more."""
        return self._queue.qsize() > QUEUE_PLANS

    def submit(self, entry: Entry) -> None:
        """Queue a plan."""
        with self._lock:
            if self._closed:
                raise ClosedError
            self._queue.put(entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="plait-writer", daemon=True)
                self._thread.start()

    def run_here(self, entry: Entry, *, on_loop: bool = False) -> bool:
        """Commit one plan in the calling thread if nobody else is writing or waiting; else do nothing.

        It spares a lone caller two changes of thread. Plans that come meanwhile queue as ever. On an
        event loop it does nothing either where it would have to wait, for a lock or for the disk.
        """
        if not self._queue.empty() or self._left or (on_loop and self._may_wait()):
            return False
        done = taken = True  # for an interrupt may come between taking the gate and noting that
        try:
            taken = self.gate.acquire(blocking=False)
            if not taken:
                return False
            if self._closed:
                raise ClosedError
            done = self._commit_lightly(entry) if on_loop else self._commit_one(entry)
        except BaseException:  # an interrupt may come at any point of the caller's thread
            if taken and self.writing is not None:
                _rollback(self.writing)
            raise
        finally:
            if taken:
                try:
                    self.gate.release()
                except RuntimeError:  # it was interrupted just before the gate was taken
                    pass
        self._checkpoint_past(CHECKPOINT_IDLE_PAGES)
        if self._others and not on_loop:
            time.sleep(GAP_S)
        return done

    def _may_wait(self) -> bool:
        """Whether the next commit may take long: the first, one in competition, one that begins the log anew."""
        return self.writing is None or self._others or self.wal_pages == self._checked_pages

    def _commit_one(self, entry: Entry) -> bool:
        self._others = self._commit([entry])
        _bind(entry)
        return True

    def _commit_lightly(self, entry: Entry) -> bool:
        """Commit a plan unless it proves heavy or the file is locked."""
        writing = self.ready()
        writing.refuse_heavy = True
        writing.connection.set_busy_timeout(0)
        try:
            self._others = self._together(writing, [entry])
        except (_Apart, apsw.Error):
            _rollback(writing)
            return False
        finally:
            writing.refuse_heavy = False
            writing.connection.set_busy_timeout(self._busy_timeout_ms)
        _bind(entry)
        return True

    def close(self) -> None:
        """Commit what is queued, then end; harmless when called again."""
        self.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._checkpoint_thread is not None:
            self._checkpoint_thread.join()
        self.let_go()

    def end(self) -> None:
        """Take no more plans, and end once those queued are committed."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(_END)

    def ready(self) -> Writing:
        """The connection that writes, opened if it is not."""
        if self.writing is None:
            self.writing = self.connect()
            self.wal_pages = self._checked_pages = 0
            self.writing.connection.set_wal_hook(self._note_pages)
        return self.writing

    def _note_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self.wal_pages:  # the log has begun anew
            self._checked_pages = 0
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def let_go(self) -> None:
        """Close the connections; they are opened again when needed."""
        with self.gate, self._checkpointing:
            if self._checkpointer is not None:
                self._checkpointer.close()
                self._checkpointer = None
            if self.writing is not None:  # the last to close: it merges the log into the file
                if not self.writing.connection.in_transaction:
                    self.writing.connection.execute(SYNCED)
                self.writing.connection.close()
                self.writing = None

    def _loop(self) -> None:
        ending = False
        while not ending or self._left:
            batch, end = self._next_batch()
            ending = ending or end
            if batch:
                with self.gate:
                    self._others = self._commit(batch)
            _wake(batch)
            self._checkpoint_past(CHECKPOINT_PAGES if len(batch) > 1 else CHECKPOINT_IDLE_PAGES)
            if batch and self._others and not ending:
                time.sleep(GAP_S)

    def _next_batch(self) -> tuple[list[Entry], bool]:
        """The next plans that are still wanted, waiting for the first; and whether to end after them."""
        batch: list[Entry] = []
        weight = 0
        while len(batch) < BATCH_PLANS and weight < BATCH_BYTES:
            entry = self._next(wait=not batch)
            if entry is None or entry is _END:
                return batch, entry is _END
            entry.started = True
            if entry.withdrawn:
                if entry.lock is not None:
                    entry.lock.release()
                if not batch:
                    return batch, False
            else:
                batch.append(entry)
                weight += entry.weight
        return batch, False

    def _next(self, *, wait: bool) -> Any:
        """The next entry or the end mark; `None` if there is none and it is not to wait."""
        if self._left:
            return self._left.popleft()
        try:
            return self._queue.get(wait, IDLE_S)
        except queue.Empty:
            if not wait:
                return None
        self._checkpoint_past(CHECKPOINT_IDLE_PAGES)
        return self._queue.get()

    def _commit(self, batch: list[Entry]) -> bool:
        """Commit a batch, together if that goes, else one by one; whether other processes write too."""
        try:
            writing = self.ready()
        except Exception as error:
            _fail(batch, error)
            return False
        try:
            return self._together(writing, batch)
        except _Apart as apart:
            return self._apart(writing, apart.batch)
        except Exception as error:  # BEGIN itself failed: nobody's plan was run
            writing.rollback()
            _fail(batch, error)
            return False

    def _together(self, writing: Writing, batch: list[Entry]) -> bool:
        """All plans in one transaction, their ids taken on trust."""
        others = writing.begin()
        deadline = time.monotonic() + BATCH_S
        writing.careful = False
        try:
            for n, entry in enumerate(batch):
                self._run_trusting(writing, entry)
                if time.monotonic() > deadline:
                    self._left.extendleft(reversed(batch[n + 1 :]))
                    del batch[n + 1 :]
                    break
            writing.commit()
        except Exception as error:
            log.debug("a batch of %d plans is run again one by one: %s", len(batch), error)
            _rollback(writing)
            raise _Apart(batch) from error
        return others

    def _run_trusting(self, writing: Writing, entry: Entry) -> None:
        """Run one plan of a batch; its own refusal stands if it had written nothing."""
        writing.wrote = writing.assumed = False
        writing.binds = entry.binds = []
        entry.error = None
        try:
            entry.result = writing.run(entry.plan)
        except Exception as error:
            if writing.wrote or writing.assumed or isinstance(error, (apsw.Error, TooHeavy)):
                raise
            entry.error = translate(error)

    def _apart(self, writing: Writing, batch: list[Entry]) -> bool:
        """Each plan in a savepoint of one transaction; if that breaks, each in its own."""
        writing.careful = True
        if len(batch) == 1:
            self._alone(writing, batch[0])
            return False
        try:
            others = writing.begin()
            for entry in batch:
                self._run_saved(writing, entry)
            writing.commit()
            return others
        except Exception as error:
            log.warning("a transaction of %d plans was lost, each is run again by itself: %s", len(batch), error)
            _rollback(writing)
            for entry in batch:
                self._alone(writing, entry)
            return False

    def _run_saved(self, writing: Writing, entry: Entry) -> None:
        """Run one plan in a savepoint; raises only if the whole transaction is gone."""
        writing.binds = entry.binds = []
        entry.error = None
        try:
            with writing.savepoint():
                entry.result = writing.run(entry.plan)
        except Exception as error:
            if not writing.connection.in_transaction:
                raise
            entry.error = translate(error)

    def _alone(self, writing: Writing, entry: Entry) -> None:
        """Run one plan in a transaction of its own."""
        writing.careful = True
        writing.binds = entry.binds = []
        entry.error = None
        try:
            writing.begin()
            entry.result = writing.run(entry.plan)
            writing.commit()
        except Exception as error:
            _rollback(writing)
            entry.error = translate(error)

    def _checkpoint_past(self, pages: int) -> None:
        """Move the log into the file if it is longer than that, in a thread beside those who commit; never truncate it."""
        if self.wal_pages <= pages or self.wal_pages < self._checked_pages + CHECKPOINT_IDLE_PAGES:
            return
        with self._lock:
            running = self._checkpoint_thread
            if self._closed or (running is not None and running.is_alive()):
                return
            self._checked_pages = self.wal_pages  # also if it fails: readers or another process are in the way
            thread = threading.Thread(target=self._checkpoint, name="plait-checkpoint", daemon=True)
            try:
                thread.start()
                self._checkpoint_thread = thread
            except RuntimeError as error:  # no thread can be made any more; the writes before stand
                log.debug("checkpoint put off: %s", error)

    def _checkpoint(self) -> None:
        try:
            self._checkpoint_aside()
            with self.gate:
                self._checkpoint_rest()
        except (apsw.Error, PlaitError) as error:  # readers are in the way, or the disk: the log just stays longer
            log.debug("checkpoint put off: %s", error)

    def _checkpoint_aside(self) -> None:
        """A checkpoint on a connection of its own, so that who commits meanwhile need not wait for it."""
        with self.gate:
            if self.writing is None:
                return
            if self._checkpointer is None:
                connection = self.connect().connection
                connection.execute(SYNCED)
                self._checkpointer = connection
            self._checkpointing.acquire()  # while the gate is held, or a fork might come in between
        try:
            self._checkpointer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        finally:
            self._checkpointing.release()

    def _checkpoint_rest(self) -> None:
        """The little that was committed meanwhile; then the next commit begins the log anew if no reader needs it."""
        self._checked_pages = self.wal_pages
        connection = self._checkpointer
        if connection is None:
            return
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if self.wal_pages * 8192 > RESTART_BYTES:
                connection.set_busy_timeout(RESTART_WAIT_MS)
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        finally:
            connection.set_busy_timeout(self._busy_timeout_ms)


class _Apart(Exception):
    """The batch is to be run again plan by plan."""

    def __init__(self, batch: list[Entry]) -> None:
        self.batch = batch


def _rollback(writing: Writing) -> None:
    try:
        writing.rollback()
    except apsw.Error as error:
        log.error("rolling back failed: %s", error)


def _fail(batch: list[Entry], error: Exception) -> None:
    for entry in batch:
        entry.error = translate(error)


def _bind(entry: Entry) -> None:
    """What was committed binds the refs it met."""
    if entry.error is None:
        for bind in entry.binds:
            bind.ref.incarnation = bind.incarnation


def _wake(batch: list[Entry]) -> None:
    """Acknowledge: bind the refs, then wake each waiter, each loop once."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = defaultdict(list)
    for entry in batch:
        _bind(entry)
        if entry.future is not None:
            by_loop[entry.future.get_loop()].append(entry.future)
        elif entry.lock is not None:
            entry.lock.release()
    for loop, futures in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, futures)
        except RuntimeError:  # the loop is closed: nobody waits any more, the writes stand
            log.debug("%d writes were committed after their event loop was closed", len(futures))


def _settle(futures: list[asyncio.Future[None]]) -> None:
    """Wake tasks that wait; runs on their loop."""
    for future in futures:
        if not future.done():
            future.set_result(None)
