"""Generated from src/plait/store/postgres/_async/running.py by tools/unasync.py: edit that file. Running plans until they are done: on a connection that works, again where others were faster, once where a commit's
outcome was not known."""

from __future__ import annotations

import random
import time
from typing import TypeVar

import psycopg

from plait.pauses import rest
from plait.store.plan import PlanFactory
from plait.store.postgres._sync.connecting import Line, connect
from plait.store.postgres._sync.executor import Executor
from plait.store.postgres.errors import is_again, is_gone, translate
from plait.store.postgres.evidence import Evidence, Overtaken
from plait.store.postgres.heads import Known
from plait.store.postgres.pool import Pool, end
from plait.store.postgres.settings import Settings
from plait.store.postgres.statements import load, own
from plait.store.postgres.wire import SPOILED

T = TypeVar("T")
MAX_TRIES = 12
"""How often a plan is run that others keep getting in the way of."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.5
STATEMENTS, OWN = load(), own()


class Runner:
    """Runs plans on the connections of one pool."""

    def __init__(self, settings: Settings, known: Known) -> None:
        self.settings = settings
        self.pool: Pool[Line] = Pool(settings.max_connections)
        self._known = known

    def read(self, plan: PlanFactory[T]) -> T:
        """Run a plan in one snapshot."""
        return self._patiently(plan, writes=False)

    def write(self, plan: PlanFactory[T]) -> T:
        """Commit a plan."""
        return self._patiently(plan, writes=True)

    def _patiently(self, plan: PlanFactory[T], *, writes: bool) -> T:
        deadline = time.monotonic() + self.settings.busy_timeout_s
        tries = 0
        while True:
            tries += 1
            executor: Executor | None = None
            try:
                connection = self._connection()
                executor = Executor(connection, STATEMENTS, OWN, self.settings, self._known)
                result: T = self._once(executor, plan, writes)
                return result
            except Exception as error:
                if executor is not None and executor.committing and is_gone(error):
                    if self._settled(executor.evidence, deadline):
                        return self._bound(executor, executor.result)  # type: ignore[no-any-return]
                elif not self._may_retry(error, tries, deadline):
                    raise translate(error) from error.__cause__
                rest(_pause_s(tries))

    def _once(self, executor: Executor, plan: PlanFactory[T], writes: bool) -> T:
        """Run a plan once; the connection goes back, if it is still good for another."""
        connection = executor.connection
        sound = False
        try:
            result = (executor.write(plan) if writes else executor.read(plan))
            sound = True
            return self._bound(executor, result)
        except Exception as error:
            sound = _undone(executor) and getattr(error, "sqlstate", None) not in SPOILED
            raise
        finally:
            if sound and not connection.closed:
                self.pool.release(connection)
            else:  # whoever interrupted it, what it was doing may still be going on
                end(connection)
                self.pool.release(None)

    def _bound(self, executor: Executor, result: T) -> T:
        for bind in executor.binds:
            bind.ref.incarnation = bind.incarnation
        return result

    def _may_retry(self, error: Exception, tries: int, deadline: float) -> bool:
        if isinstance(error, Overtaken) or is_again(error):
            return tries < MAX_TRIES
        if is_gone(error):
            self.pool.drop_idle()  # they are as old as the one that was lost
            return time.monotonic() < deadline
        return False

    def _settled(self, evidence: Evidence, deadline: float) -> bool:
        """Whether a write whose commit was not answered has been committed."""
        tries = 0
        while True:
            tries += 1
            try:
                connection = self._connection()
                executor = Executor(connection, STATEMENTS, OWN, self.settings, self._known)
                try:
                    return executor.settled(evidence)
                finally:
                    end(connection)
                    self.pool.release(None)
            except Exception as error:
                if not is_gone(error) or time.monotonic() > deadline:
                    raise translate(error) from error
                self.pool.drop_idle()
            rest(_pause_s(tries))

    def _connection(self) -> Line:
        found = self.pool.acquire(self.settings.busy_timeout_s)
        if found is not None:
            return found
        try:
            return connect(self.settings)
        except BaseException:
            self.pool.release(None)
            raise


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
