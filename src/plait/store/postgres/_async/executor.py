"""Running plans on a connection: reads in one snapshot, a write in one transaction, few round trips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from psycopg.errors import UniqueViolation
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from plait import jsontext
from plait.errors import UnsupportedError
from plait.logic.ids import STAGE_PREFIX
from plait.store.plan import Ask, Bind, Claim, Do, Enter, Forget, Head, Plan, PlanFactory, Put, Row, Step, Take, Turn
from plait.store.postgres import adapt, homes
from plait.store.postgres._async.connecting import AsyncLine
from plait.store.postgres.evidence import Evidence, Look, Overtaken, Unsure, Wait
from plait.store.postgres.guess import Guessed, items_of
from plait.store.postgres.heads import HeadKey, Known, key_of
from plait.store.postgres.homes import Where
from plait.store.postgres.settings import Settings
from plait.store.postgres.statements import BATCH_SIZES, Statement
from plait.store.protocol import Scope, SessionRef

T = TypeVar("T")
FETCH_ROWS = 200
BEGINNING = 2
"""How many statements begin a write."""

GUESS_WAIT_S = 0.2
"""How long a batch waits for a session's row: who has it will have made the belief about it wrong."""

NOT_COMMITTED = "the server did not commit"


class Taken(Struct):
    """A session's row that a write holds, and where it is."""

    id: str
    head: Head
    where: Where
    stood: Row
    alone: bool
    """Whether nobody else was seen to write to it since the last time."""


class Work(Struct):
    """What is to be done on a connection: a plan, or appends worked out before, by session."""

    plan: PlanFactory[Any] | None = None
    writes: bool = False
    groups: Sequence[list[Guessed]] = ()


class AsyncExecutor:
    """Carries out the steps of one plan on one connection."""

    def __init__(
        self,
        connection: AsyncLine,
        statements: dict[str, Statement],
        own: dict[str, Statement],
        settings: Settings,
        known: Known,
    ) -> None:
        self.connection = connection
        self.binds: list[Bind] = []
        self.evidence = Evidence()
        self.committing = False
        self.result: Any = None
        self.changed: set[Where] = set()
        """Where sessions are that this changes."""
        self._statements = statements
        self._own = own
        self._settings = settings
        self._known = known
        self._writes = False
        self._ahead: Sequence[str] = ()
        self._keys: dict[str, int | None] = {}
        """Those of the ids ahead that have not been asked about yet."""
        self._patience_s = settings.short_answer_s
        self._lasting = False
        """Whether what is held back has statements that may rightly take long."""
        self._where = Where()
        self._taken: dict[HeadKey, Taken] = {}
        self._held: list[tuple[bytes, Sequence[Any]]] = []
        self._puts: dict[tuple[str, Where], list[Row]] = {}

    # -- whole plans -----------------------------------------------------------

    async def perform(self, work: Work) -> Any:
        """Do one piece of work."""
        if work.plan is None:
            return await self.together(work.groups)
        return await (self.write(work.plan) if work.writes else self.read(work.plan))

    async def read(self, factory: PlanFactory[T]) -> T:
        """Run a plan that only reads, in one snapshot."""
        self._hold("begin_read")
        self._hold("read_limits", self._settings.read_limits())
        self._patience_s = self._settings.read_answer_s
        result = await self._run(factory)
        await self.abandon()
        return result

    async def abandon(self) -> None:
        """End the transaction, if one was begun, without anything of it."""
        self._held.clear()
        self._lasting = False
        if self.connection.pgconn.transaction_status != TransactionStatus.IDLE:
            await self._send("rollback")

    async def write(self, factory: PlanFactory[T]) -> T:
        """Run a plan and commit what it wrote."""
        self._writes = True
        self._begin()
        self.result = result = await self._run(factory)
        self._flush()
        if self.connection.pgconn.transaction_status == TransactionStatus.IDLE and len(self._held) == BEGINNING:
            return result  # nothing was asked at all
        self._hold("commit")
        for item in self._taken.values():
            self.evidence.of_head(item.where, item.head)
            if item.id.startswith(STAGE_PREFIX) and _stand(item.head) != item.stood:
                self.evidence.of_stage(item.where, item.head.session, _stand(item.head))
        self.committing = True
        await self._committed()
        for key, item in self._taken.items():
            self._known.note(key, item.head, item.where, alone=item.alone)
        return result

    async def together(self, groups: Sequence[list[Guessed]]) -> None:
        """Commit appends that were worked out before, those of each session after one another."""
        self._begin(GUESS_WAIT_S)
        self._held += items_of(groups)
        self._hold("commit")
        self.committing = True
        await self._committed()

    def _begin(self, wait_s: float | None = None) -> None:
        given = self._settings
        wait = given.busy_timeout_s if wait_s is None else min(wait_s, given.busy_timeout_s)
        self._hold("begin_write")
        self._hold("limits", given.write_limits(wait))
        self._patience_s = given.answer_s(wait)

    async def _committed(self) -> list[PGresult]:
        """Send what was held back, a commit last."""
        results = await self._send_all()
        if results[-1].command_status != b"COMMIT":
            raise Overtaken(NOT_COMMITTED)  # PostgreSQL answers ROLLBACK where an error came before
        if self.connection.unsure:
            raise Unsure
        return results

    async def _run(self, factory: PlanFactory[T]) -> T:
        plan: Plan[T] = factory()
        answer: Any = None
        try:
            while True:
                answer = await self._answer(plan.send(answer))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            plan.close()

    async def _answer(self, step: Step) -> Any:
        if isinstance(step, Ask):
            return await self._ask(step)
        if isinstance(step, Take):
            return await self._take(step.ref)
        if isinstance(step, Bind):
            return self.binds.append(step)
        if isinstance(step, Enter):
            return self._enter(step.where)
        if not self._writes:
            raise UnsupportedError(f"a plan that only reads yielded {step!r}")
        if isinstance(step, Do):
            return await self._do(step)
        if isinstance(step, Put):
            return self._put(step)
        if isinstance(step, Claim):
            return await self._claim(step)
        if isinstance(step, Turn):
            return self._turn(step)
        return self._forget(step) if isinstance(step, Forget) else None

    # -- steps -----------------------------------------------------------------

    async def look(self, look: Look | Wait, at_most_s: float) -> bool | None:
        """Look for what became of a write, or wait until that can be seen."""
        if isinstance(look, Look):
            return await self._told(look, at_most_s)
        await self._outwait(look, at_most_s)
        return None

    async def _outwait(self, wait: Wait, at_most_s: float) -> None:
        """Wait until nobody makes a row any more that cannot be seen before."""
        name, args = wait.question
        self._where = wait.where
        self._begin(at_most_s)
        statement = self._own.get(name) or self._statements[name]
        self._held.append((statement.query, statement.values(args, self._where)))
        try:
            await self._send_all()
        except UniqueViolation:
            pass  # it was made meanwhile
        finally:
            await self.abandon()

    async def _told(self, look: Look, at_most_s: float) -> bool | None:
        """What that which a write leaves behind tells of it; nobody who has its session's row is still at it."""
        self._where = look.where
        self._begin(at_most_s)
        for name, args in (("lock_home", ()), ("take_number", ()), *look.questions, ("commit", ())):
            self._hold(name, args)
        results = (await self._committed())[-1 - len(look.questions) : -1]
        return look.says([self.connection.rows(result) for result in results])

    async def _ask(self, step: Ask) -> list[Row]:
        self._flush_for(step.query)
        self._lasting = True
        statement = self._statements[step.query]
        if step.budget_bytes is None or "budget" in statement.given:
            where = replace(self._where, budget=step.budget_bytes) if step.budget_bytes is not None else self._where
            return await self._rows(step.query, step.args, where)
        return await self._within(statement, step)

    async def _within(self, statement: Statement, step: Ask) -> list[Row]:
        """Rows until their sizes reach the budget, at least one; few more than those are fetched."""
        assert step.budget_bytes is not None
        self._held.append(
            (b"DECLARE plait_rows NO SCROLL CURSOR FOR " + statement.query, statement.values(step.args, self._where))
        )
        rows: list[Row] = []
        left = step.budget_bytes
        while left > 0:
            self._held.append((b"FETCH %d FROM plait_rows" % FETCH_ROWS, ()))
            self._lasting = True
            found = await self._send_rows(statement)
            for row in found:
                rows.append(row)
                left -= row[step.size_at]
                if left <= 0:
                    break
            if len(found) < FETCH_ROWS:
                break
        self._held.append((b"CLOSE plait_rows", ()))
        return rows

    async def _do(self, step: Do) -> list[Row]:
        self._flush_for(step.query)
        self._lasting = True
        where = self._where if step.into is None else replace(self._where, other_home=homes.of_session(step.into).home)
        statement = self._statements[step.query]
        self.evidence.of_step(step.query, where, [step.args])
        if step.query == "create_session":
            self.changed.add(where)
        if step.query == "drop_search_marks":
            for item in self._taken.values():
                item.head.to_mark = True
        if not statement.answers:
            self._held.append((statement.query, statement.values(step.args, where)))
            return []
        turning = step.query == "turn_tick"  # the tick's row is to have a number that is given now, not when this began
        if turning:
            self._hold("begin_turn")
        rows = await self._rows(step.query, step.args, where)
        if turning:
            self._hold("end_turn")
        self.evidence.of_answer(step.query, where, step.args, rows)
        if statement.must_answer and not rows:
            raise Overtaken(step.query)
        return rows

    async def _claim(self, step: Claim) -> int | None:
        self.evidence.given.add(step.id)
        if step.ahead and step.ahead is not self._ahead:
            self._ahead = step.ahead
            rows = await self._rows("find_messages", (jsontext.encode(step.ahead), step.incarnation))
            self._keys = dict.fromkeys(step.ahead) | dict(rows)
        if step.id in self._keys:
            return self._keys.pop(step.id)
        self._flush_rows()
        rows = await self._rows("find_message", (step.incarnation, step.id))
        return rows[0][0] if rows else None

    def _put(self, step: Put) -> None:
        if step.rows:
            self._puts.setdefault((step.query, self._where), []).extend(step.rows)

    async def _take(self, ref: SessionRef) -> Head | None:
        self._where = where = homes.of_session(ref)
        key = key_of(ref)
        held = self._taken.get(key)
        if held is not None:
            return held.head
        name = (ref.scope.tenant, ref.scope.owner, ref.id)
        if not self._writes:
            rows = await self._rows("find_session", name)
            return Head.of(rows[0]) if rows else None
        self._flush()
        found, marked = await self._lock(name)
        if found is None:
            return None
        head = Head.of(found)
        head.writing, head.searched, head.to_mark = True, True, not marked
        alone = self._known.recall(key, head)
        self._taken[key] = Taken(ref.id, head, where, _stand(head), alone)
        return head

    async def _lock(self, name: tuple[str, str, str]) -> tuple[Row | None, bool]:
        """A session's row once nobody else can write it, and whether the search index knows that it was written to."""
        lock, find, mark = self._own["lock_session"], self._statements["find_session"], self._own["is_marked"]
        while True:
            for statement in (lock, find, mark):
                self._held.append((statement.query, statement.values(name, self._where)))
            locked, rows, marked = [self.connection.rows(result) for result in (await self._send_all())[-3:]]
            if locked or not rows:  # else it was made, or took another's place, after we looked for it
                return (self._shown(find, rows)[0] if rows else None), bool(marked[0][0])

    def _enter(self, where: Any) -> None:
        if isinstance(where, SessionRef):
            self._where = homes.of_session(where)
        elif isinstance(where, Scope):
            self._where = replace(self._where, scope=homes.of_scope(where))
        elif where is not None:
            self._where = homes.of_label(where)

    def _turn(self, step: Turn) -> None:
        for item in self._taken.values():
            item.head.tick = step.tick

    def _forget(self, step: Forget) -> None:
        self._flush()
        if step.ref is None:
            self._taken.clear()
        else:
            self._taken.pop(key_of(step.ref), None)

    # -- what is held back -----------------------------------------------------

    def _flush_for(self, query: str) -> None:
        """Send along what a statement may look at: rows, but session rows only where it names their table."""
        if self._statements[query].on_sessions:
            self._flush()
        else:
            self._flush_rows()

    def _flush(self) -> None:
        self._flush_rows()
        for item in self._taken.values():
            if item.head.changed:
                item.head.changed = False
                self.changed.add(item.where)
                statement = self._statements["save_session"]
                self._held.append((statement.query, statement.values(item.head.saved(), item.where)))

    def _flush_rows(self) -> None:
        if not self._puts:
            return
        puts, self._puts = self._puts, {}
        self._lasting = True
        for (name, where), rows in puts.items():
            statement = self._statements[name]
            self.evidence.of_step(name, where, rows)
            if len(rows) == 1:
                self._held.append((statement.query, statement.values(rows[0], where)))
            else:
                self._hold_many(statement, rows, where)

    def _hold_many(self, statement: Statement, rows: Sequence[Row], where: Where) -> None:
        start = 0
        for size in BATCH_SIZES:
            while len(rows) - start >= size:
                self._held.append((statement.many[size], statement.many_values(rows[start : start + size], where)))
                start += size

    # -- the wire --------------------------------------------------------------

    def _hold(self, name: str, args: Sequence[Any] = ()) -> None:
        statement = self._own[name]
        self._held.append((statement.query, statement.values(args, self._where)))

    async def _send(self, name: str) -> None:
        self._hold(name)
        await self._send_all()

    async def _rows(self, name: str, args: Sequence[Any], where: Where | None = None) -> list[Row]:
        statement = self._statements[name]
        self._held.append((statement.query, statement.values(args, where or self._where)))
        return await self._send_rows(statement)

    async def _send_rows(self, statement: Statement) -> list[Row]:
        """Send all that was held back; the rows of the last of it."""
        return self._shown(statement, self.connection.rows((await self._send_all())[-1]))

    async def _send_all(self) -> list[PGresult]:
        """Send what was held back in one round trip."""
        held, self._held = self._held, []
        lasting, self._lasting = self._lasting, False
        patience_s = self._patience_s + lasting * self._settings.statement_timeout_s
        return await self.connection.talk(held, patience_s, commits=self.committing)

    def _shown(self, statement: Statement, rows: list[Row]) -> list[Row]:
        """Rows as plans know them."""
        texts = statement.text_columns
        escape = adapt.ESCAPE
        for n, row in enumerate(rows):
            if texts or any(type(value) is str and escape in value for value in row):
                rows[n] = tuple(
                    _text(value) if at in texts and type(value) is bytes else value
                    for at, value in enumerate(adapt.shown(v) if type(v) is str else v for v in row)
                )
        return rows


def _text(body: bytes) -> str | bytes:
    """A body as text; as it is if it was damaged, which is the plan's to report."""
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body


def _stand(head: Head) -> Row:
    """Where a session stands, as `find_stand` answers it."""
    return head.incarnation, head.version, head.next_seq, head.leaf
