"""Running plans on a connection: readers in one snapshot, writers in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import apsw

from plait.errors import UnsupportedError
from plait.store.plan import (
    Ask,
    Bind,
    Claim,
    Do,
    Enter,
    Forget,
    Head,
    Plan,
    PlanFactory,
    Put,
    Row,
    Step,
    Take,
    Turn,
    Veil,
)
from plait.store.sqlite import veil
from plait.store.sqlite.statements import Statement

T = TypeVar("T")
HeadKey = tuple[str, str, str]
Answers = Mapping[type[Step], Callable[[Any, Any], Any]]
MAX_HEADS = 4096
"""Session rows kept in memory between transactions."""


class TooHeavy(Exception):
    """The plan asks for more than may be done on an event loop; run it again in a thread."""


class LookAgain(Exception):
    """A big delete has come or is done with since the connection looked; look again, and run the plan again."""


class Executor:
    """Runs the reading steps of plans on one connection."""

    def __init__(self, connection: apsw.Connection, statements: dict[str, Statement]) -> None:
        self.connection = connection
        self._texts = {name: statement.text for name, statement in statements.items()}
        self._statements = statements
        self._run: Callable[..., Any] = connection.execute
        self.binds: list[Bind] = []
        self.refuse_heavy = False
        self.veiled = False
        self._looked = True

    def run(self, factory: PlanFactory[T]) -> T:
        """Run a plan to its end."""
        plan: Plan[T] = factory()
        answer: Any = None
        answers = self.answers
        try:
            while True:
                step = plan.send(answer)
                answer = answers.get(type(step), _refuse)(self, step)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            plan.close()

    def ask(self, step: Ask) -> list[Row]:
        if step.heavy and self.refuse_heavy:
            raise TooHeavy
        if not self._looked:  # a plan that takes no session's row first, which says it by the way
            self._check(bool(self._run(self._texts["any_removal"]).fetchall()))
        cursor = self._run(self._texts[step.query], step.args)
        if step.budget_bytes is None:
            return cursor.fetchall()  # type: ignore[no-any-return]
        return _within(cursor, step.budget_bytes, step.size_at)

    def bind(self, step: Bind) -> None:
        self.binds.append(step)

    def take(self, step: Take) -> Head | None:
        head = self._find(step)
        if head is not None and not self._looked:
            self._check(bool(head.removals))
        return head

    def _find(self, step: Take) -> Head | None:
        ref = step.ref
        rows = self._run(self._texts["find_session"], (ref.scope.tenant, ref.scope.owner, ref.id)).fetchall()
        return Head.of(rows[0]) if rows else None

    def _check(self, wanted: bool) -> None:
        self._looked = True
        if wanted != self.veiled:
            raise LookAgain

    def look(self) -> None:
        """Pass over what big deletes have taken away, or no longer, as the database says now."""
        self.veiled = veil.look(self.connection)

    def claim(self, step: Claim) -> int | None:
        rows = self._run(self._texts["find_message"], (step.incarnation, step.id)).fetchall()
        return rows[0][0] if rows else None

    def enter(self, step: Enter) -> None:
        """Every session's rows are in this file."""

    answers: ClassVar[Answers] = {Ask: ask, Take: take, Claim: claim, Bind: bind, Enter: enter}
    """What carries out each kind of step: functions, not bound methods, which would keep the connection alive."""

    def read(self, factory: PlanFactory[T], *, on_loop: bool) -> T:
        """Run a plan in one committed state, and bind what it binds; no transaction stays open after it."""
        self.refuse_heavy = on_loop
        if on_loop and self.veiled:  # what has been taken away may have to be passed over row by row
            raise TooHeavy
        try:
            result = self._in_snapshot(factory)
        except LookAgain:
            if on_loop:
                raise TooHeavy from None
            result = self._look_and_run(factory)
        for bind in self.binds:
            bind.ref.incarnation = bind.incarnation
        return result

    def _in_snapshot(self, factory: PlanFactory[T]) -> T:
        self.binds.clear()
        self._looked = False
        try:
            self._run("BEGIN")
            return self.run(factory)
        finally:
            if self.connection.in_transaction:
                self._run("ROLLBACK")

    def _look_and_run(self, factory: PlanFactory[T]) -> T:
        """Run a plan after a big delete has come or is done with; another may come meanwhile."""
        while True:
            self.look()
            try:
                return self._in_snapshot(factory)
            except LookAgain:
                continue


def _refuse(_executor: Any, step: Any) -> Any:
    raise UnsupportedError(f"a plan that only reads yielded {step!r}")


def _within(cursor: apsw.Cursor, budget_bytes: int, size_at: int) -> list[Row]:
    """Rows until their sizes reach the budget, at least one."""
    rows: list[Row] = []
    for row in cursor:
        rows.append(row)
        budget_bytes -= row[size_at]
        if budget_bytes <= 0:
            cursor.close()
            break
    return rows


class Writing(Executor):
    """Runs plans inside a write transaction, holding back inserts and session rows to send them together."""

    def __init__(self, connection: apsw.Connection, statements: dict[str, Statement]) -> None:
        super().__init__(connection, statements)
        self._heads: dict[HeadKey, Head] = {}
        self._taken: dict[HeadKey, Head] = {}
        self._puts: dict[str, list[Row]] = {}
        self._data_version: int | None = None
        self._veiled_before = False
        self.careful = True
        self.wrote = False
        self.assumed = False

    def begin(self) -> bool:
        """Begin a write transaction; whether another process has committed since the last one."""
        if self.connection.in_transaction:  # an interrupt kept the last one from being undone
            self.rollback()
        self._veiled_before = self.veiled
        self._run("BEGIN IMMEDIATE")
        moved = self.connection.data_version() != self._data_version
        if moved or len(self._heads) > MAX_HEADS:
            self._heads.clear()
        if moved:
            self.look()
        return moved and self._data_version is not None

    def commit(self) -> None:
        self.flush()
        self._run("COMMIT")
        self._data_version = self.connection.data_version()  # other than the pragma's it counts our commits, too
        self._taken.clear()

    def rollback(self) -> None:
        """Undo the transaction if it is still open, and forget all that it had found out."""
        self.forget()
        if self.connection.in_transaction:
            self._run("ROLLBACK")
        self.veiled = self._veiled_before  # views that were put on or taken off are as they were, too

    def forget(self) -> None:
        self._heads.clear()
        self._taken.clear()
        self._puts.clear()

    @contextmanager
    def savepoint(self) -> Generator[None]:
        """Undo what is done inside if it fails, keeping the rest of the transaction."""
        veiled = self.veiled
        self._run("SAVEPOINT plan")
        try:
            yield
            self.flush()
            self._run("RELEASE plan")
        except BaseException:
            self.forget()
            if self.connection.in_transaction:
                self._run("ROLLBACK TO plan")
                self._run("RELEASE plan")
                self.veiled = veiled
            raise

    def put(self, step: Put) -> None:
        self.wrote = True
        held = self._puts.get(step.query)
        if held is None:
            self._puts[step.query] = list(step.rows)
        else:
            held.extend(step.rows)

    def do(self, step: Do) -> list[Row]:
        self._flush_for(step.query)
        self.wrote = True
        return self._run(self._texts[step.query], step.args).fetchall()  # type: ignore[no-any-return]

    def turn(self, step: Turn) -> None:
        for head in self._heads.values():
            head.tick = step.tick

    def put_veil(self, _step: Veil) -> None:
        self.flush()
        self.look()

    def drop(self, step: Forget) -> None:
        self.flush()
        ref = step.ref
        if ref is None:
            self._heads.clear()
            self._taken.clear()
            return
        key = (ref.scope.tenant, ref.scope.owner, ref.id)
        self._heads.pop(key, None)
        self._taken.pop(key, None)

    def ask(self, step: Ask) -> list[Row]:
        self._flush_for(step.query)
        return super().ask(step)

    def take(self, step: Take) -> Head | None:
        ref = step.ref
        key = (ref.scope.tenant, ref.scope.owner, ref.id)
        head = self._heads.get(key)
        if head is None:
            head = self._find(step)
            if head is None:
                return None
            mark = self._run(self._texts["search_mark"], (*key[:2], head.incarnation)).fetchall()
            head.writing = True
            head.searched, head.to_mark = bool(mark), mark == [(0,)]
            self._heads[key] = head
        self._taken[key] = head
        return head

    def claim(self, step: Claim) -> int | None:
        if not self.careful and not self.veiled:
            self.assumed = True
            return None
        self._flush_rows()
        if self.veiled:
            self._run(self._texts["free_hidden_id"], (step.incarnation, step.id))
        return super().claim(step)

    answers: ClassVar[Answers] = {
        Ask: ask, Take: take, Claim: claim, Bind: Executor.bind, Put: put, Do: do, Forget: drop, Turn: turn,
        Veil: put_veil, Enter: Executor.enter,
    }  # fmt: skip

    def _flush_for(self, query: str) -> None:
        """Send what a statement may look at: rows, but session rows only where it names their table."""
        if self._statements[query].on_sessions:
            self.flush()
        else:
            self._flush_rows()

    def _flush_rows(self) -> None:
        if self._puts:
            puts, self._puts = self._puts, {}
            for name, rows in puts.items():
                if len(rows) == 1:
                    self._run(self._statements[name].many[1], rows[0])
                else:
                    self._put(name, rows)

    def flush(self) -> None:
        """Send what was held back: rows, and the row of each session that has changed, once."""
        self._flush_rows()
        changed = [head for head in self._taken.values() if head.changed]
        if len(changed) == 1:
            self._run(self._texts["save_session"], changed[0].saved())
        elif changed:
            self._put("save_sessions", [head.saved() for head in changed])
        for head in changed:
            head.changed = False

    def _put(self, name: str, rows: list[Row]) -> None:
        statement = self._statements[name]
        texts = statement.many
        start = 0
        for size in statement.batches:
            while len(rows) - start >= size:
                batch = rows[start : start + size]
                self._run(texts[size], batch[0] if size == 1 else [value for row in batch for value in row])
                start += size
