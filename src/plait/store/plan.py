"""What a plan is: one operation as a generator that yields steps, is sent answers, returns a result.

A plan holds no state outside itself, so a driver may restart it from its first step. Steps name
queries of the driver's `queries.sql`; no plan builds SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from plait.store.protocol import SessionRef

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Ask(Struct, frozen=True):
    """Run a query that reads; the answer is its rows.

    With `budget_bytes` rows are taken until column `size_at` adds up to that, at least one.
    `heavy` says that it may take long: a driver does not run it on an event loop.
    """

    query: str
    args: tuple[Any, ...] = ()
    budget_bytes: int | None = None
    size_at: int = 0
    heavy: bool = False


class Do(Struct, frozen=True):
    """Run a statement that writes; the answer is its returned rows, if any.

    What it reads is of the session that was taken or entered last; what it writes is, too, or else of `into`.
    """

    query: str
    args: tuple[Any, ...] = ()
    into: SessionRef | None = None


class Put(Struct, frozen=True):
    """Insert rows whose answer nobody needs: a driver may hold them back and send many at once.

    What is held back is sent before the next `Ask` or `Do`. A row that breaks a unique key fails
    the plan, or the batch, which is then run again plan by plan.
    """

    query: str
    rows: Sequence[Row]


class Claim(Struct, frozen=True):
    """Ask which key a message id has; the answer is the key, or `None` if the id is free.

    In a batch a driver may answer `None` unasked: were the id taken, the unique key would refuse
    the batch, and the plan would be run again with the question asked. `ahead` are ids that will be
    asked about after this one, before anything else can give them a key: a driver may look for all at once.
    """

    incarnation: int
    id: str
    ahead: Sequence[str] = ()


class Take(Struct, frozen=True):
    """Take the session's row: the answer is its `Head`, or `None` if the session never was.

    In a write plan that is the session's lock; the driver saves the head if it was `changed`.
    """

    ref: SessionRef


class Enter(Struct, frozen=True):
    """Go to another session's rows, or those of a scope, without taking one: to a ref, a scope, or a place a query named.

    A driver that keeps the rows of all sessions in one place has nothing to do.
    """

    where: Any


class Forget(Struct, frozen=True):
    """Take the session's row anew the next time: the plan has written it by itself. `None`: every row."""

    ref: SessionRef | None


class Turn(Struct, frozen=True):
    """The store's tick has gone on: heads kept in memory take it over."""

    tick: int


class Veil(Struct, frozen=True):
    """What big deletes have taken away has changed: from here on rows are seen, or passed over, accordingly."""


class Bind(Struct, frozen=True):
    """Bind the plan's ref to this incarnation, once the plan has committed."""

    ref: SessionRef
    incarnation: int


Step: TypeAlias = Ask | Do | Put | Claim | Take | Enter | Forget | Turn | Veil | Bind
Plan: TypeAlias = Generator[Step, Any, T]
PlanFactory: TypeAlias = Callable[[], Plan[T]]


class Head(Struct):
    """The session row, as one write transaction sees and changes it.

    `leaf` is the key of the active leaf's place, 0 for none; the message there may have been
    deleted since, then the leaf is the nearest surviving one up its path. `path_*` are `None`
    when they are to be counted the next time somebody asks. `leaf_id` and `tip` are found when
    first needed: the surviving leaf's id, and whether its strand can simply be gone on with.
    `hidden_*` is what overlays take off the active path, likewise `None` when it is to be counted.
    In a write `searched` says that there is a search index to follow the data, and `to_mark` that it
    does not know yet that the session was written to. `tick` is the
    store's, `pulse` the one in which the session last noted where it stood. `removals` says that rows
    which big deletes have taken away are still there, in whichever session. `lease_until_us` is set while
    somebody's lease has not been ended, also when its time is over. `writing` says that this is a write.
    """

    session: int
    incarnation: int
    live: int
    next_seq: int
    leaf: int
    version: int
    epoch: int
    messages: int
    bytes: int
    tokens: int
    path_messages: int | None
    path_bytes: int | None
    path_tokens: int | None
    created_at_us: int
    active_at_us: int
    overlays: int = 0
    hidden_messages: int | None = 0
    hidden_bytes: int | None = 0
    hidden_tokens: int | None = 0
    pulse: int | None = None
    tick: int = 0
    removals: int = 0
    lease_until_us: int | None = None
    writing: bool = False
    changed: bool = False
    located: bool = False
    leaf_id: str | None = None
    tip: bool = False
    searched: bool = False
    to_mark: bool = False

    @classmethod
    def of(cls, row: Row) -> Head:
        return cls(*row)

    def saved(self) -> Row:
        """The session row as `save_session` takes it."""
        return (
            self.live,
            self.next_seq,
            self.leaf,
            self.version,
            self.epoch,
            self.messages,
            self.bytes,
            self.tokens,
            self.path_messages,
            self.path_bytes,
            self.path_tokens,
            self.active_at_us,
            self.overlays,
            self.hidden_messages,
            self.hidden_bytes,
            self.hidden_tokens,
            self.session,
        )

    def moved(self) -> None:
        """Forget what was found out about the leaf."""
        self.changed = True
        self.located = False
        self.leaf_id = None
        self.tip = False

    def add(self, messages: int, size: int, tokens: int, *, on_path: bool) -> None:
        """Count rows that came (or, negative, went)."""
        self.changed = True
        self.messages += messages
        self.bytes += size
        self.tokens += tokens
        if on_path and self.path_messages is not None:
            self.path_messages += messages
            self.path_bytes = (self.path_bytes or 0) + size
            self.path_tokens = (self.path_tokens or 0) + tokens

    def set_path(self, totals: tuple[int, int, int] | None) -> None:
        """Set what the active path holds, or that it is to be counted when asked."""
        self.changed = True
        self.path_messages, self.path_bytes, self.path_tokens = totals or (None, None, None)

    def set_hidden(self, totals: tuple[int, int, int] | None) -> None:
        """Set what overlays take off the active path, or that it is to be counted when asked."""
        if totals != (self.hidden_messages, self.hidden_bytes, self.hidden_tokens):
            self.changed = True
            self.hidden_messages, self.hidden_bytes, self.hidden_tokens = totals or (None, None, None)
