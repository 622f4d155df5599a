"""Generated from src/plait/store/postgres/_async/running.py by tools/unasync.py: edit that file. Running plans until they are done: on a connection that works, again where others were faster, once where a commit's
outcome was not known."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import psycopg

from plait.errors import StoreBusyError, StoreUnavailableError
from plait.pauses import rest
from plait.store.plan import Bind, PlanFactory
from plait.store.postgres._sync.connecting import Line, connect
from plait.store.postgres._sync.executor import Executor, Work
from plait.store.postgres.errors import is_again, is_gone, translate
from plait.store.postgres.evidence import UNTOLD, Evidence, Look, Overtaken, Unknown, Unsure, Wait
from plait.store.postgres.guess import Batch, Guessed, evidence_of
from plait.store.postgres.heads import Known
from plait.store.postgres.hints import Hints
from plait.store.postgres.lanes import Lane, Turns, Waiting
from plait.store.postgres.pool import Pool, end
from plait.store.postgres.settings import Settings
from plait.store.postgres.statements import load, own
from plait.store.postgres.wire import SPOILED, Overdue

T = TypeVar("T")
MAX_TRIES = 12
"""How often a plan is run that others keep getting in the way of."""

INTERRUPTIONS = (KeyboardInterrupt, SystemExit)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.5
LOOK_S = 2.0
"""How long a look takes at the least for what became of a write, if `busy_timeout_s` has not passed by then: nearly all
of that may have gone before the connection was found to be lost."""

STATEMENTS, OWN = load(), own()


class Runner:
    """Runs plans on the connections of one pool."""

    def __init__(self, settings: Settings, known: Known, hints: Hints) -> None:
        self.settings = settings
        self.pool: Pool[Line] = Pool(settings.max_connections)
        self._lane = Lane(settings.busy_timeout_s)
        self._turns = Turns()
        self._known = known
        self._hints = hints
        self._spread = False

    def read(self, plan: PlanFactory[T]) -> T:
        """Run a plan in one snapshot."""
        return self._patiently(plan, writes=False)

    def write(self, plan: PlanFactory[T]) -> T:
        """Commit a plan."""
        return self._patiently(plan, writes=True)

    def join(self, plan: PlanFactory[Any], weight: int) -> Waiting:
        """Let a plan that may be a plain append share a transaction with others; `done` if that has come about."""
        item = Waiting(plan, weight)
        self._lane.run(item, self._together)
        return item

    def alone(self, item: Waiting) -> Any:
        """Do what a batch left undone, one caller of a session after the other.

        The first finds out how the session stands; what the others will do may then be known.
        """
        with self._turns.of(item.key, self.settings.busy_timeout_s):
            if item.key is not None and self._known.last(item.key) is not None:
                self._lane.run(item, self._together)
            return item.answer() if item.done else self._patiently(item.plan, writes=True, doubted=item.doubted)

    def _together(self, batch: list[Waiting]) -> None:
        """Commit what of a batch can be worked out beforehand in one transaction; the rest its callers run by themselves."""
        guesses = Batch(self._known.last, self._known.tick)
        taken = [(item, guessed) for item in batch if (guessed := guesses.add(item)) is not None]
        by_session = guesses.by_session()
        try:
            for groups in [[group] for group in by_session] if self._spread else [by_session]:
                self._bundle(groups)
        finally:
            for item, guessed in taken:
                item.done = guessed.done or guessed.error is not None
                item.result, item.error = guessed.result, guessed.error
                item.doubted = item.doubted or guessed.doubted

    def _bundle(self, groups: list[list[Guessed]]) -> None:
        """Commit appends in one transaction, and note in each whether that was done."""
        if not groups:
            return
        executor: Executor | None = None
        deadline = time.monotonic() + self.settings.busy_timeout_s
        try:
            executor = self._executor(self._connection())
            self._once(executor, Work(groups=groups))
        except (Exception, *INTERRUPTIONS) as error:
            for group in groups:
                self._known.doubt(group[0].key)
            if is_gone(error):
                self.pool.drop_idle()  # they are as old as the one that was lost
            if executor is not None and executor.committing and is_unknown(error):
                self._find_out(groups, error, deadline)
            if not isinstance(error, Exception):
                raise
            return
        self._done(groups)

    def _find_out(self, groups: list[list[Guessed]], error: BaseException, deadline: float) -> None:
        """Find out what became of appends whose commit was not answered; if nobody can tell, each is told so.

        Where they are not there, they may come yet: what was sent may lie before the server unread. It will fail
        once they have been written in the ordinary way.
        """
        try:
            if self._settled(evidence_of(groups), error, deadline):
                self._done(groups)
        except Exception as unknown:
            for item in itertools.chain(*groups):
                item.error = unknown
        for item in itertools.chain(*groups):
            item.doubted = True

    def _done(self, groups: list[list[Guessed]]) -> None:
        for group in groups:
            self._known.note(group[-1].key, group[-1].head, group[-1].where, alone=True)
            for item in group:
                item.done = True
                bound(item.binds)
        self._hints.committed([group[-1].where for group in groups])

    def _patiently(self, plan: PlanFactory[T], *, writes: bool, doubted: bool = False) -> T:
        """Run a plan until it is done; `doubted`: an earlier try of it that is not there may come about yet."""
        deadline = time.monotonic() + self.settings.busy_timeout_s
        tries = 0
        while True:
            tries += 1
            executor: Executor | None = None
            try:
                executor = self._executor(self._connection())
                result: T = self._once(executor, Work(plan, writes))
                self._hints.committed(executor.changed)
                return result
            except Exception as error:
                if executor is not None and executor.committing and is_unknown(error):
                    if self._settled(executor.evidence, error, deadline):
                        bound(executor.binds)
                        self._hints.committed(executor.changed)
                        return executor.result  # type: ignore[no-any-return]
                    doubted = doubted or not executor.evidence.is_any()
                    if time.monotonic() > deadline:
                        raise _told(error, doubted=doubted) from error.__cause__
                elif not self._may_retry(error, tries, deadline):
                    raise _told(error, doubted=doubted) from error.__cause__
                rest(_pause_s(tries))

    def _once(self, executor: Executor, work: Work) -> Any:
        """Do it once; the connection goes back, if it is still good for another."""
        connection = executor.connection
        sound = False
        try:
            result = executor.perform(work)
            sound = True
            bound(executor.binds)
            return result
        except Exception as error:
            sound = _undone(executor) and getattr(error, "sqlstate", None) not in SPOILED
            raise
        finally:
            if sound and not connection.closed:
                self.pool.release(connection)
            else:  # whoever interrupted it, what it was doing may still be going on
                end(connection)
                self.pool.release(None)

    def _may_retry(self, error: Exception, tries: int, deadline: float) -> bool:
        if isinstance(error, Overtaken) or is_again(error):
            return tries < MAX_TRIES
        if is_gone(error):
            self.pool.drop_idle()  # they are as old as the one that was lost
            return time.monotonic() < deadline or (isinstance(error, Overdue) and tries == 1)
        return False

    def _settled(self, evidence: Evidence, error: BaseException, deadline: float) -> bool:
        """Whether a write whose commit ended in `error` has been committed; `Unknown` if that cannot be told in time."""
        deadline = max(deadline, time.monotonic() + min(LOOK_S, self.settings.busy_timeout_s))
        try:
            if evidence.wait is not None:
                self._look(evidence.wait, deadline)
            for look in evidence.looks():
                told = self._look(look, deadline)
                if told is not None:
                    return told
        except Exception as reason:
            raise translate(Unknown(error, reason)) from reason
        if evidence.is_any():
            raise translate(Unknown(error, UNTOLD)) from error
        return False

    def _look(self, look: Look | Wait, deadline: float) -> bool | None:
        """Look, or wait, on one connection after another until that can be done."""
        tries = 0
        while True:
            tries += 1
            try:
                connection = self._connection()
                try:
                    return self._executor(connection).look(look, max(deadline - time.monotonic(), 0.001))
                finally:
                    end(connection)
                    self.pool.release(None)
            except Exception as error:
                if not (is_unknown(error) or is_again(error)) or time.monotonic() > deadline:
                    raise
                self.pool.drop_idle()
            rest(_pause_s(tries))

    def _connection(self) -> Line:
        found = self.pool.acquire(self.settings.busy_timeout_s)
        if found is not None:
            return found
        try:
            made = connect(self.settings)
        except BaseException:
            self.pool.release(None)
            raise
        self._spread = made.server is not None and made.server.distributed
        return made

    def _executor(self, connection: Line) -> Executor:
        return Executor(connection, STATEMENTS, OWN, self.settings, self._known)


def bound(binds: Sequence[Bind]) -> None:
    """Bind refs to the life of a session that their plans met."""
    for bind in binds:
        bind.ref.incarnation = bind.incarnation


def is_unknown(error: BaseException) -> bool:
    """Whether a commit that ended so may have been done."""
    return is_gone(error) or isinstance(error, Unsure | KeyboardInterrupt | SystemExit)


def _told(error: Exception, *, doubted: bool) -> BaseException:
    """What a caller is told of an error; that nothing was written only if no try of it is left in doubt."""
    told = translate(error)
    return (
        translate(Unknown(error, error))
        if doubted and isinstance(told, StoreBusyError | StoreUnavailableError)
        else told
    )


def _undone(executor: Executor) -> bool:
    """Undo what a plan has begun; whether the connection is still good for another."""
    if executor.connection.closed:
        return False
    try:
        executor.abandon()
    except psycopg.Error:
        return False  # what was wrong before is what is to be told
    return True


def _pause_s(tries: int) -> float:
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**tries)) * (0.5 + random.random())
