"""A session's handle: one conversation, written and read as a tree of messages."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from msgspec import structs
from msgspec.structs import replace

from plait import chance, times
from plait._async import keeping, recording, searching, stamping
from plait._async.compacting import AsyncCompactor, Compaction, ErrorHandler
from plait._async.feeding import FEED_BYTES, FEED_ROWS, Listener, follow, read_page
from plait._async.leasing import AsyncLease
from plait._async.overlaying import echoes, real_parent, with_echoes
from plait.errors import ConflictError, InvalidMessageError, NotFoundError, StaleValueError, UsageError
from plait.logic import arguments, ids, overlays, view
from plait.logic.blocks import BlockKind, BlockSpec
from plait.logic.compaction import CompactFunction
from plait.logic.legal import legal
from plait.logic.pacing import policy
from plait.logic.prepare import Given, Rules, is_large, prepare
from plait.logic.providers import ContextProvider, WritableProvider
from plait.logic.turns import Unit, Units, UnitsBackward
from plait.model import (
    LEAF,
    Appended,
    Change,
    Changes,
    Compacted,
    CompactionState,
    Damaged,
    Hit,
    Json,
    Leaf,
    LeaseInfo,
    Message,
    Overlay,
    OverlayAdded,
    OverlayKind,
    Parent,
    PrefixReport,
    Recorded,
    RowStat,
    SessionInfo,
    Source,
    Totals,
    Value,
    Window,
)
from plait.pauses import aside_if_async, pause_async
from plait.store._async.abilities import feeding, leasable, overlaying, stating
from plait.store.forks import LOCK
from plait.store.protocol import Expect, NewMessage, Path, SessionRef, Suffix

if TYPE_CHECKING:
    from plait._async.context import AsyncContext
    from plait._async.conversing import AsyncConversing
    from plait._async.hybrid import AsyncSearchProvider
    from plait._async.sessions import AsyncSessions
    from plait._async.tools import AsyncTool
    from plait.formats.crossing import As, Crossing

MessageLike = Mapping[str, Any] | Message
FIRST_ROWS = 50
WINDOW_ROWS = 256
WINDOW_BYTES = 512 << 10
"""How much is read at a time: one snapshot, and one hold of the event loop. Few rows at first: many readers stop there."""

STATS_ROWS = 1000
EVERYTHING_ROWS = 1000
"""All branches are read in larger windows (of 4 MiB, in a thread): each asks every strand for its next rows."""

RECENT_TRIES = 10
"""How often `recent` begins anew when its messages are changed under it."""


class _Anything:
    """The type of the default of `expect_leaf`: no expectation."""

    def __repr__(self) -> str:
        return "…"


ANYTHING: Final = _Anything()


def now_us() -> int:
    """The time in microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def new_id() -> str:
    """A fresh id: a UUIDv7, so that ids made later sort later."""
    return ids.uuid7(time.time_ns() // 1_000_000, chance.bits(80))


class AsyncSession:
    """One session of a store. Made by `AsyncSessions.session`; making it reads and writes nothing.

    Messages form a tree. The *active leaf* is where `append` goes on; a *path* runs from a root
    to a leaf. All writes are atomic and done when the call returns.
    """

    def __init__(self, sessions: AsyncSessions, ref: SessionRef) -> None:
        self._sessions = sessions
        self._store = sessions.store
        self._ref = ref
        self._rules = sessions.rules
        self._operation = sessions.telemetry.operation
        self._listeners = sessions._shared.listeners  # pyright: ignore[reportPrivateUsage]
        self._compactor: AsyncCompactor | None = None
        self._conversing: AsyncConversing | None = None

    @property
    def is_over(self) -> bool:
        """Whether the session was found deleted or cleared by somebody else: take a fresh handle then."""
        return self._ref.over

    @property
    def id(self) -> str:
        """The session's id."""
        return self._ref.id

    @property
    def sessions(self) -> AsyncSessions:
        """The sessions of the scope that this one belongs to."""
        return self._sessions

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}>"

    # -- writing ---------------------------------------------------------------

    async def append(
        self,
        message: MessageLike,
        *,
        parent: Parent = LEAF,
        id: str | None = None,
        format: str | None = None,
        source: Source = "server",
        expect_leaf: str | _Anything | None = ANYTHING,
        expect_version: int | None = None,
        on_moved: Literal["raise", "branch"] = "raise",
        on_conflict: Literal["ignore", "raise"] = "ignore",
        state: Mapping[str, Any] | None = None,
    ) -> Appended:
        """Add a message after `parent` and make it the active leaf.

        `parent` is the active leaf by default, `None` for a new root, or a message's id for a
        branch. An id that the session has already writes nothing, whatever `parent` is, which may be
        gone by then: the stored message comes back with `inserted=False` (`on_conflict="raise"`:
        `ConflictError` if it differs).

        With `expect_leaf` (an id, or `None` for an empty session) or `expect_version` the write
        happens only if nobody else has written meanwhile; otherwise it raises `LeafMovedError`
        or, with `on_moved="branch"`, becomes a branch at the expected leaf that does not take
        the active leaf. `source="client"` strips the reserved metadata keys.

        `state` is merged into the session's state as `update_state` does it, in the same transaction;
        not if nothing was inserted, or if it became a branch beside the active leaf.

        Raises `InvalidMessageError` for what cannot be kept exactly and `NotFoundError` for an
        unknown parent; nothing is written then.
        """
        arguments.given(format=format, source=source, on_conflict=on_conflict)
        given = Given(new_id(), now_us(), id, format, source)
        (result,) = await self._append(
            [await self._prepared(message, given)],
            parent=arguments.place("parent", parent),
            expect=_expect(expect_leaf, expect_version, on_moved),
            on_conflict=on_conflict,
            source=source,
            state=arguments.maybe(arguments.mapping, "state", state),
        )
        return result

    async def append_many(
        self,
        messages: Iterable[MessageLike],
        *,
        parent: Parent = LEAF,
        ids: Iterable[str] | None = None,
        format: str | None = None,
        source: Source = "server",
        own_ids: bool = True,
        expect_leaf: str | _Anything | None = ANYTHING,
        expect_version: int | None = None,
        on_moved: Literal["raise", "branch"] = "raise",
        on_conflict: Literal["ignore", "raise"] = "ignore",
        state: Mapping[str, Any] | None = None,
    ) -> list[Appended]:
        """Add messages one after another, all or none; see `append`. `ids` are one for each, in their order.

        With `own_ids=False` the id that a foreign message carries is content like the rest of it, and a new
        one is made: for frameworks whose ids repeat, where the same id is not yet the same message.
        """
        arguments.given(format=format, source=source, on_conflict=on_conflict)
        arguments.several("messages", messages)
        items = list(arguments.with_ids(messages, ids))
        own_ids = arguments.flag("own_ids", own_ids)
        work = partial(self._prepare_all, items, format, source, own_ids=own_ids)
        new = await aside_if_async(partial(is_large, items), work)
        expect = _expect(expect_leaf, expect_version, on_moved)
        return await self._append(
            new,
            parent=arguments.place("parent", parent),
            expect=expect,
            on_conflict=on_conflict,
            source=source,
            state=arguments.maybe(arguments.mapping, "state", state),
        )

    async def _prepared(self, message: MessageLike, given: Given) -> NewMessage:
        return await aside_if_async(partial(is_large, message), partial(prepare, message, given, self._rules))

    def _prepare_all(
        self,
        items: list[tuple[MessageLike, str | None]],
        format: str | None,
        source: Source,
        *,
        own_ids: bool,
    ) -> list[NewMessage]:
        new: list[NewMessage] = []
        for n, (message, id) in enumerate(items):
            try:
                given = Given(new_id(), now_us(), id, format, source, own_id=own_ids)
                new.append(prepare(message, given, self._rules))
            except InvalidMessageError as error:
                path = f"messages[{n}].{error.path}" if error.path else f"messages[{n}]"
                raise type(error)(f"messages[{n}]: {error}", path=path) from None
        return new

    async def _append(
        self,
        new: list[NewMessage],
        *,
        parent: Parent,
        expect: Expect | None,
        on_conflict: Literal["ignore", "raise"],
        source: Source,
        state: Mapping[str, Any] | None = None,
    ) -> list[Appended]:
        refuse_other = on_conflict == "raise"
        options: dict[str, Any]
        if overlays.may_echo(new):
            echoed = await echoes(self._store, self._ref, new, source)
            if echoed:
                real = [message for n, message in enumerate(new) if n not in echoed]
                options = {"expect": expect, "on_conflict": on_conflict, "source": source, "state": state}
                return with_echoes(await self._append(real, parent=parent, **options) if real else [], echoed)
        if isinstance(parent, str) and overlays.overlay_id(parent) is not None:
            parent = await real_parent(self._store, self._ref, parent)
        with self._operation("append", self._ref.id, len(new)):
            options = {"parent": parent, "expect": expect, "refuse_other": refuse_other}
            if state is None:
                written, stated = await self._store.append(self._ref, new, **options), False
            else:
                written, stated = await stating(self._store).append_with_state(self._ref, new, state, **options)
        await self._appended(written, stated)
        return written

    async def _appended(self, written: list[Appended], stated: bool = False) -> None:
        """Tell of what was appended, and let the context and the compaction do what follows from it."""
        if self._listeners:
            for result in written:
                if result.inserted:
                    await self._tell(_inserted("append", self.id, result, moved=not result.branched))
            if stated:
                await self._tell(Change("session", self.id))
        if self._conversing is not None:
            await self._conversing.appended(written)
        if self._compactor is not None:
            await self._compactor.appended(written)

    async def update(
        self, message: MessageLike, *, id: str | None = None, format: str | None = None, source: Source = "server"
    ) -> Message | None:
        """Replace the content of the message that has this id; its place and time stay.

        Answers the stored form, or `None` if the session has no such message. Content that is
        stored so already writes nothing. A foreign message without an id needs `id`.
        """
        arguments.given(format=format, source=source)
        new = await self._prepared(message, Given(new_id(), now_us(), id, format, source))
        if new.made_id:
            raise UsageError("the message has no id; pass id= to say which message it replaces")
        if overlays.may_echo([new]) and await echoes(self._store, self._ref, [new], source):
            return None
        with self._operation("update", self.id):
            result = await self._store.update(self._ref, new)
        if result is not None and result.changed:
            await self._tell(Change("update", self.id, result.message, ids=(result.message.id,)))
        return None if result is None else result.message

    async def upsert(
        self,
        message: MessageLike,
        *,
        parent: Parent = LEAF,
        id: str | None = None,
        format: str | None = None,
        source: Source = "server",
    ) -> Appended:
        """Append the message, or update it if the session has its id already (`parent` is ignored then)."""
        result = await self.append(message, parent=parent, id=id, format=format, source=source)
        if not result.differs:
            return result
        updated = await self.update(message, id=result.id, format=format, source=source)
        if updated is None:  # deleted between the two
            return await self.append(message, parent=parent, id=id, format=format, source=source)
        return Appended(updated, inserted=False)

    async def delete(self, ids: str | Iterable[str]) -> list[str]:
        """Remove messages; what answered them now answers their nearest surviving ancestor.

        Answers the ids that were there. Unknown ids are harmless.
        """
        wanted = arguments.ids_asked("ids", ids)
        with self._operation("delete", self.id, len(wanted)):
            gone = await self._store.delete(self._ref, wanted)
        if gone:
            await self._tell(Change("delete", self.id, ids=tuple(gone)))
        return gone

    async def clear(self) -> bool:
        """Remove all messages; name, metadata and state stay. `False` if there were none.

        Handles to this session elsewhere raise `SessionDeletedError` from then on.
        """
        with self._operation("clear", self.id):
            cleared = await self._store.clear(self._ref)
        if self._conversing is not None:
            self._conversing.cleared()
        if cleared:
            await self._tell(Change("clear", self.id, leaf_moved=True))
        return cleared

    async def checkout(self, id: str | None, *, expect_leaf: str | _Anything | None = ANYTHING) -> bool:
        """Make another message the active leaf; `False` if it is so already, `NotFoundError` if absent.

        `None` goes back before the first message: the active path is empty then, and the next append begins
        a new root beside those that are there. With `expect_leaf` (an id, or `None` for no active
        leaf) it is done only if nobody has moved the leaf meanwhile, else it raises `LeafMovedError`.
        """
        id = arguments.maybe(arguments.id_asked, "id", id)
        moved = await self._store.checkout(self._ref, id, expect=_expect(expect_leaf, None, "raise"))
        if moved:
            named = () if id is None else (id,)
            await self._tell(Change("checkout", self.id, ids=named, leaf_moved=True, leaf_id=id))
        return moved

    async def import_message(
        self,
        message: MessageLike,
        *,
        parent: str | None,
        created_at: dt.datetime | None = None,
        id: str | None = None,
        format: str | None = None,
        activate: bool = True,
    ) -> Appended:
        """Add a message from elsewhere verbatim: nothing is sanitized, parent and time are as given.

        Raises `NotFoundError` for a missing parent, unless the message is there already, and `UsageError`
        for a message that would be its own. `activate=False` leaves the active leaf where it is.
        """
        arguments.given(format=format)
        activate, parent = arguments.flag("activate", activate), arguments.maybe(arguments.id_asked, "parent", parent)
        created_at = arguments.maybe(arguments.moment, "created_at", created_at)
        given = Given(new_id(), now_us() if created_at is None else times.to_us(created_at), id, format, verbatim=True)
        new = await self._prepared(message, given)
        if parent == new.id:
            raise UsageError(f"message {parent!r} cannot be its own parent")
        if overlays.may_echo([new]):
            echoed = await echoes(self._store, self._ref, [new], "import")
            if echoed:
                return Appended(echoed[0], inserted=False)
        (result,) = await self._store.append(self._ref, [new], parent=parent, kind="import", activate=activate)
        if result.inserted:
            await self._tell(_inserted("import", self.id, result, moved=activate))
        return result

    async def fork(self, id: str | None = None, *, at: str | None = None, name: str | None = None) -> AsyncSession:
        """Copy the path to `at` (the active leaf by default) into a new, independent session.

        Ids, order and times are kept. A session that does not exist gives an empty one without a parent.
        `ConflictError` if the id is taken, `NotFoundError` if `at` is absent, `StaleValueError` if the path was
        changed while it was copied.
        """
        if id == self.id:
            raise ConflictError(
                f"session {id!r} exists already: it is the one being forked; choose another id", session_id=id
            )
        at, name = arguments.maybe(arguments.id_asked, "at", at), arguments.maybe(arguments.text, "name", name)
        if at is not None and await self._store.get(self._ref, at) is None:
            raise NotFoundError(
                f"there is no message {at!r} in session {self.id!r} to fork at; leaves() names the ends of its branches"
            )
        target = self._sessions.session(new_id() if id is None else id)
        await self._store.fork(self._ref, target._ref, at=at, created_at_us=now_us(), name=name)
        return target

    # -- overlays ---------------------------------------------------------------

    async def add_overlay(
        self,
        from_id: str,
        to_id: str,
        *,
        summary: str | None = None,
        kind: OverlayKind | None = None,
        leaf: Parent = LEAF,
        expect_version: int | None = None,
    ) -> OverlayAdded:
        """Show `summary`, or nothing, in place of the messages of a path from one id to another; they stay as they are.

        The range is on the path to `leaf`, and the overlay lies on every path that runs through its
        last place. `kind` is `compaction` if there is a summary and `archive` if there is none;
        `omit`, `replace` and `unload` cover one message.

        On any path overlays are disjoint or one inside the other: a range that crosses another
        raises `ConflictError`, and so does a compaction inside one. Any other kind inside a covered
        range adds nothing and says `covered=True`. With `expect_version` the range must not have
        been changed since (`StaleValueError`); appends do not matter. `NotFoundError` for an unknown
        id, `UsageError` for one off the path.
        """
        new = overlays.new(new_id(), (from_id, to_id), summary, kind, now_us(), self._rules.counter)
        store, leaf = overlaying(self._store), arguments.place("leaf", leaf)
        expect_version = arguments.maybe(arguments.number, "expect_version", expect_version)
        with self._operation("add_overlay", self.id):
            added = await store.add_overlay(self._ref, new, leaf=leaf, expect_version=expect_version)
        if added.inserted:
            await self._tell(Change("overlay", self.id, ids=(added.overlay.id,), overlay=added.overlay))
        return added

    async def archive(self, from_id: str, to_id: str, *, leaf: Parent = LEAF) -> OverlayAdded:
        """Hide a range of a path without a summary; see `add_overlay`."""
        return await self.add_overlay(from_id, to_id, kind="archive", leaf=leaf)

    async def omit(self, id: str, *, leaf: Parent = LEAF) -> OverlayAdded:
        """Hide one message of a path; see `add_overlay`."""
        return await self.add_overlay(id, id, kind="omit", leaf=leaf)

    async def replace(self, id: str, text: str, *, leaf: Parent = LEAF) -> OverlayAdded:
        """Show a text in place of one message of a path; see `add_overlay`."""
        return await self.add_overlay(id, id, summary=text, kind="replace", leaf=leaf)

    async def remove_overlay(self, id: str) -> bool:
        """Take an overlay away: what it covered is shown again, older overlays below it too. `False` if absent.

        `ConflictError` for one that is no summary and lies inside a newer summary, which was made
        without what it hides: remove that one first.
        """
        with self._operation("remove_overlay", self.id):
            removed = await overlaying(self._store).remove_overlay(self._ref, arguments.id_asked("id", id))
        if removed is not None:
            await self._tell(Change("overlay", self.id, ids=(removed.id,), overlay=removed, removed=True))
        return removed is not None

    async def overlays(self, leaf: Parent = LEAF, *, all: bool = False) -> list[Overlay]:
        """The overlays that lie on the path to `leaf`, also those below others, or all; in the order they were added."""
        leaf, all = arguments.place("leaf", leaf), arguments.flag("all", all)
        return await overlaying(self._store).overlays(self._ref, leaf=leaf, everywhere=all)

    # -- compaction --------------------------------------------------------------

    def on_compaction(self, function: Compaction | None) -> AsyncSession:
        """How this session is compacted: what `plait.compact_function` made, or a function of your own.

        Such a function, also a coroutine function, is given the history as a list and answers a
        `plait.Summary` of a range of it, or `None`. It is kept by this handle, which is answered, not in the store.
        """
        if function is not None and not isinstance(function, CompactFunction) and not callable(function):
            raise UsageError("on_compaction takes what compact_function made, a function, or None")
        self._compaction().function = function
        return self

    def compact_after(
        self,
        tokens: int | None = None,
        *,
        counter: Callable[[Mapping[str, Any]], float] | None = None,
        window_tokens: int | None = None,
        trigger_ratio: float = 0.85,
        reserved_tokens: int = 0,
        prompt_tokens: int = 0,
        background: bool = False,
    ) -> AsyncSession:
        """Compact by itself after an append that leaves the view with more than `tokens`; without a number, never.

        Or give a model's `window_tokens`: then as soon as the view and `reserved_tokens` reach
        `trigger_ratio` of it, going by the usage that a model reported last where messages carry it.
        `UsageError` where `reserved_tokens` alone do.
        The frozen prompt counts with the view, and so do `prompt_tokens`: what else goes to the model before
        the view each time, such as tools. A reported usage has both in it already.
        Only stored totals are looked at, never the transcript. `counter` counts the messages that
        this handle writes from now on; `restamp_tokens` counts the earlier ones with it.
        The append is done before, and stands whatever happens; with `background` it does not wait, and
        `close` does. A compaction that fails or wins too little is tried again only when the view has
        grown: see `compaction_state`.
        """
        found = policy(tokens, window_tokens, trigger_ratio, reserved_tokens, prompt_tokens, background)
        if counter is not None:
            keys = self._sessions.rules.reserved_metadata_keys
            self._rules = Rules(keys, arguments.function("counter", counter))
        self._compaction().policy = found
        return self

    async def restamp_tokens(self) -> int:
        """Count the tokens of all messages and summaries anew, with this handle's counter or the estimate.

        For when the counter was changed: messages keep the stamp they were written with, and totals,
        budgets and compaction go by it. Answers how many stamps changed. A stamp is derived: no version
        moves and no feed tells of it. Done in bounded steps beside other writes; interrupted, it goes on
        when it is called again.
        """
        return await stamping.restamp(self._store, self._ref, self._rules.counter)

    def on_compaction_error(self, handler: ErrorHandler | None) -> AsyncSession:
        """Call `handler` with the error when an automatic compaction failed; if it fails itself, that is logged."""
        self._compaction().on_error = handler
        return self

    async def compact(self, leaf: Parent = LEAF, *, dry_run: bool = False) -> Compacted:
        """Summarize the middle of a path now; nothing is lost, the summary is laid over the messages.

        Appends go on meanwhile; if what is covered was updated, deleted or overlaid, nothing is
        changed. `dry_run` says what would be covered and asks nobody. `UsageError` without
        `on_compaction`, `CompactionError` if the summarizer fails or answers nothing of use.
        """
        with self._operation("compact", self.id):
            return await self._compaction().compact(arguments.place("leaf", leaf), dry_run=dry_run)

    async def compact_if_needed(
        self, *, instructions: object = None, tools: object = None, reserved_tokens: int = 0
    ) -> Compacted:
        """Compact before a call of a model if its input would be too large, as `compact_after` says, also in mid-turn.

        `instructions` and `tools` (text, or anything JSON can say) go to the model beside the
        view; instructions given here are counted in the place of the frozen prompt and `prompt_tokens`. Calls that are still open stay. A failure is reported as after an append, and in the
        answer's `reason`.
        """
        reserved = arguments.number("reserved_tokens", reserved_tokens)
        return await self._compaction().if_needed(instructions, tools, reserved)

    def compaction_state(self) -> CompactionState:
        """Whether automatic compaction is waiting, why, and what lifts it."""
        return self._compaction().state

    async def compaction_done(self) -> None:
        """Return when no compaction begun with `background=True` is going on."""
        if self._compactor is not None:
            await self._compactor.tasks.join()

    async def _release_compaction(self) -> None:
        """Let others compact this session, though a compaction of this handle may still be going on."""
        if self._compactor is not None:
            await self._compactor.release()

    def _compaction(self) -> AsyncCompactor:
        with LOCK:
            if self._compactor is None:
                self._compactor = AsyncCompactor(
                    self._store,
                    self._ref,
                    read=self._shown,
                    tell=self._tell,
                    counter=lambda: self._rules.counter,
                    prompt=self._prompt_tokens,
                )
            return self._compactor

    async def _prompt_tokens(self) -> int:
        return 0 if self._conversing is None else await self._conversing.prompt.tokens()

    # -- leases -----------------------------------------------------------------

    def lease(self, *, ttl_s: float = 30.0, wait_s: float = 0, holder: str | None = None) -> AsyncLease:
        """The right to write this session's turn alone, for the time of a block.

            async with session.lease(ttl_s=30) as turn:
                await turn.append(...)

        `turn` is a handle to the same session whose every write is refused with `LeaseLostError` once
        somebody else has taken over, which can happen when nothing was heard of this process for
        `ttl_s` seconds (0.1 to 86,400). While the lease is in force writes by anybody else, other handles of this
        process included, raise `LeaseHeldError`; reads, forks and the catalogue's entry are free. Entering raises
        `LeaseHeldError` while another worker holds it, at once or after `wait_s` seconds. `holder` is
        what others are told of this worker, its process number by default. The session is created if it is absent.
        """
        if self._ref.lease is not None:
            raise UsageError("this handle is under a lease already; its writes are fenced")
        return AsyncLease(self, ttl_s=ttl_s, wait_s=wait_s, holder=holder)

    async def lease_info(self) -> LeaseInfo | None:
        """Who alone may write to this session now; `None` if anybody may."""
        return await leasable(self._store).lease(self._ref)

    async def break_lease(self) -> bool:
        """End whoever's lease at once: its holder writes no more. `False` if there is none.

        For a worker that is gone for good, or hangs while its heartbeat goes on.
        """
        return await leasable(self._store).end_lease(self._ref)

    def _under(self, ref: SessionRef) -> AsyncSession:
        """A handle to this session by another ref, set up as this one is."""
        turn = type(self)(self._sessions, ref)
        turn._rules = self._rules
        if self._compactor is not None:
            turn._compaction().set_up_as(self._compactor)
        if self._conversing is not None:
            turn._context().set_up_as(self._conversing)
        return turn

    def _follow(self, turn: AsyncSession) -> None:
        """Go on in the life of the session that a turn made of it, if this handle has met no other."""
        if turn._ref.incarnation is not None and not self._ref.over and not turn._ref.over:
            self._ref.incarnation = turn._ref.incarnation

    async def _tell(self, change: Change) -> None:
        await self._sessions.publish(change)

    # -- context -----------------------------------------------------------------

    @property
    def context(self) -> AsyncContext:
        """The blocks of this session's context, to read, write, add and remove."""
        return self._context().context

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: ContextProvider | None = None,
        kind: BlockKind = "text",
        shared: bool = False,
        remind: bool = False,
    ) -> AsyncSession:
        """Have a block of this label in the prompt, in the place of one declared before; answers this handle.

        Blocks are rendered in the order in which they were declared. What this one holds comes from
        `provider`, whose methods say what a model may do with it (`ContextProvider`). Without one the
        store keeps it: a text, a `collection` that is searched, or `documents` that are loaded one by
        one; in this session, or `shared` by all sessions of the scope. More than `max_tokens` are
        refused by a write, never cut. `description` says to the model what the block is for. With
        `remind`, `reminder` shows it when it changed. Nothing is read yet.
        """
        self._context().blocks.declare(BlockSpec(label, description, max_tokens, provider, kind, shared, remind))
        return self

    def with_cached_prompt(self, store: WritableProvider | None = None) -> AsyncSession:
        """Keep the frozen prompt in the session, or in a `store` with `get` and `set`; answers this handle.

        Other handles and processes then have the same prompt, until one of them refreshes it. In the
        session the first that is stored is everybody's. A `store` cannot tell who was first: handles
        that are given the same object take turns (on one event loop, or in all threads), but
        processes that freeze for the first time at once may each answer what they rendered, and
        have the one set last from then on. It keeps no versions of the blocks either: what another
        handle froze there, a model may overwrite without having been shown it.
        """
        self._context().prompt.keep_in(store)
        return self

    async def freeze_system_prompt(self) -> str:
        """The system prompt: rendered from all blocks the first time, and the same bytes until it is refreshed.

        With `with_cached_prompt` a prompt that is stored is the answer, whatever the blocks hold; an
        empty one too. Of several that freeze at once the first one's is everybody's (with a `store`
        of your own, of those in this program that were given that object). Without it the prompt
        lives as long as this handle.
        """
        return await self._context().prompt.freeze()

    async def refresh_system_prompt(self) -> str:
        """Read every provider anew, render, and have that as the frozen prompt from now on.

        Who reads it meanwhile gets the one before or this one, whole.
        """
        return await self._context().prompt.refresh()

    async def reminder(self) -> str | None:
        """What blocks declared with `remind` hold now, if that is not what the frozen prompt says; `None` if it is.

        For the end of the model's input, where it leaves the prefix as it is. It says so each time
        until the prompt is refreshed; nothing before one is frozen.
        """
        return await self._context().prompt.reminder()

    async def tools(self) -> list[AsyncTool]:
        """The tools with which a model uses the blocks as they are declared now; none if it can do nothing with them.

        `set_context` for writable blocks, `search_context` for searchable ones, `load_context` and
        `unload_context` for those with documents, `activate_skill` and `read_skill_resource` for skills.
        `set_context` refuses once to replace what somebody else wrote since the frozen prompt, a
        reminder or a refusal showed the model the block; before a prompt is frozen the last writer wins.
        """
        return await self._context().toolbox.tools()

    async def prefix_report(
        self, *, tools: object = None, leaf: Parent = LEAF, for_model: bool = False, since: str | None = None
    ) -> PrefixReport:
        """How much of the model's input stands as it did at the call before, and what changed first.

        Call it before each call of a model. The input is `tools` (as they go to the model), the
        frozen prompt, and `history(leaf)`, or with `for_model` `history(leaf, for_model=True)`: give
        what you send, for the two change at different moments (a result that comes later takes the
        place of one that was made for the model). It is compared with that of this handle's last
        report, or of the one whose `mark` is `since`, which may be another process's. Bytes are those of the texts
        as they are stored; a changed message counts for none of its own.
        """
        return await self._context().prefix_report(tools, arguments.place("leaf", leaf), for_model, since)

    def _context(self) -> AsyncConversing:
        if self._conversing is None:
            from plait._async.conversing import AsyncConversing  # what few use is loaded by the first who does

            with LOCK:
                if self._conversing is None:  # another thread was here first
                    self._conversing = AsyncConversing(self)
        return self._conversing

    # -- following -------------------------------------------------------------

    async def cursor(self) -> str:
        """The cursor after the last change of the session: where `changes` or `watch` goes on from now."""
        return await feeding(self._store).changes_end(self._ref)

    async def changes(self, *, after: str | None = None, limit: int = FEED_ROWS, wait_s: float = 0) -> Changes:
        """The next changes after a cursor, by whatever process they were made; from the start without one.

        Each comes once, in the order they were made. The feed is of the session's id: deleting,
        clearing and making it anew are changes like others. A message comes as it is now; an append
        whose message is gone does not come, its delete does. If there are none yet, `wait_s` waits
        for some. `CursorExpiredError` if changes after the cursor have been pruned, `UsageError` for
        a cursor of another session. Without a cursor the feed begins with what is kept.
        """
        store = feeding(self._store)
        return await read_page(store, self._ref, self._read_changes, after, limit, wait_s)

    async def watch(self, *, after: str | None = None) -> AsyncIterator[Change]:
        """All changes after a cursor and, without end, those that come; see `changes`.

        Store `change.cursor` with what you made of the change, and go on after it another time.
        Nothing is held while it waits. It ends when the store is closed.
        """
        async for change in follow(feeding(self._store), self._ref, self._read_changes, after):
            yield change

    async def _read_changes(self, after: str | None, limit: int) -> Changes:
        return await feeding(self._store).changes(self._ref, after=after, limit=limit, budget_bytes=FEED_BYTES)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each change of this session made through this store object; see `AsyncSessions`."""
        return self._sessions.subscribe_to(listener, self.id)

    # -- reading ---------------------------------------------------------------

    @overload
    def history(
        self,
        leaf: Parent = LEAF,
        *,
        newest_first: bool = False,
        consistent: bool = False,
        for_model: bool = False,
        as_: None = None,
    ) -> AsyncIterator[Message | Damaged]: ...

    @overload
    def history(
        self, leaf: Parent = LEAF, *, consistent: bool = False, for_model: bool = False, as_: As
    ) -> AsyncIterator[Json]: ...

    async def history(
        self,
        leaf: Parent = LEAF,
        *,
        newest_first: bool = False,
        consistent: bool = False,
        for_model: bool = False,
        as_: As | None = None,
    ) -> AsyncIterator[Message | Damaged | Json]:
        """The path to `leaf` with its overlays laid on, root first or newest first.

        With `for_model` it is a conversation that providers take, as `plait.legal_view` says. With
        `as_` it comes as messages of another framework, in plain JSON values, root first; see
        `plait.messages_as`.

        Lazy: breaking out leaves the rest unread. Messages appended later are not seen, deleted
        ones are left out; with `consistent=True` any change of the path raises `StaleValueError`.
        An absent leaf gives nothing.
        """
        if as_ is not None:
            crossing = crossing_to(as_, self.id, newest_first=newest_first)
            async for message in self.history(leaf, consistent=consistent, for_model=for_model):
                for item in crossing.feed(message):
                    yield item
            for item in crossing.end():
                yield item
            return
        if arguments.flag("for_model", for_model):
            async for message in self._legal(leaf, newest_first, consistent):
                yield message
            return
        async for window in self._windows(leaf, newest_first=newest_first, consistent=consistent):
            while window:  # what was yielded is let go of: nothing is held when the next window is read
                yield window.pop()

    async def _legal(self, leaf: Parent, newest_first: bool, consistent: bool) -> AsyncIterator[Message]:
        reader = UnitsBackward() if newest_first else Units()
        async for message in self.history(leaf, newest_first=newest_first, consistent=consistent):
            for unit in reader.feed(message):
                for shown in reversed(legal(unit)) if newest_first else legal(unit):
                    yield shown
        for unit in reader.end():
            for shown in reversed(legal(unit)) if newest_first else legal(unit):
                yield shown

    async def _shown(
        self,
        path: Path | None,
        *,
        newest_first: bool = False,
        after_seq: int | None = None,
        before_seq: int | None = None,
    ) -> AsyncIterator[Message | Damaged]:
        """What a fixed path shows between two seqs, both excluded."""
        if path is not None:
            async for window in self._planned(path, after_seq, before_seq, newest_first):
                for message in window:
                    yield message

    async def transcript(
        self,
        leaf: Parent = LEAF,
        *,
        newest_first: bool = False,
        after_seq: int | None = None,
        before_seq: int | None = None,
        limit: int | None = None,
        consistent: bool = False,
    ) -> AsyncIterator[Message | Damaged]:
        """The same path with nothing hidden, between two seqs (both excluded), at most `limit` messages."""
        left = limit = arguments.maybe(arguments.number, "limit", limit)
        bounds = {"after_seq": after_seq, "before_seq": before_seq, "limit": limit}
        async for window in self._windows(leaf, newest_first=newest_first, consistent=consistent, raw=True, **bounds):
            while window:
                yield window.pop()
                left = None if left is None else left - 1
                if left == 0:
                    return

    async def batches(
        self, leaf: Parent = LEAF, *, count: int = 50, bytes: int = 4 << 20, newest_first: bool = False
    ) -> AsyncIterator[list[Message | Damaged]]:
        """The path in lists of at most `count` messages and `bytes` UTF-8 bytes, each at least one message."""
        count, bytes = arguments.number("count", count, least=1), arguments.number("bytes", bytes)
        batch: list[Message | Damaged] = []
        size = 0
        async for message in self.history(leaf, newest_first=newest_first):
            more = message.bytes if isinstance(message, Message) else 0
            if batch and (len(batch) >= count or size + more > bytes):
                yield batch
                batch, size = [], 0
            batch.append(message)
            size += more
        if batch:
            yield batch

    async def _windows(
        self,
        leaf: Parent,
        *,
        newest_first: bool,
        consistent: bool,
        raw: bool = False,
        after_seq: int | None = None,
        before_seq: int | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[list[Message | Damaged]]:
        """The path in lists whose last message is the next one, to be popped."""
        newest_first = arguments.flag("newest_first", newest_first)
        consistent = arguments.flag("consistent", consistent)
        after_seq = arguments.maybe(arguments.seq, "after_seq", after_seq)
        before_seq = arguments.maybe(arguments.seq, "before_seq", before_seq)
        path = await self._store.path(self._ref, arguments.place("leaf", leaf), raw=raw)
        if path is None or limit == 0:
            return
        async for window in self._planned(path, after_seq, before_seq, newest_first, limit):
            if consistent:
                await self._check_unchanged(path)
            window.reverse()
            yield window

    async def _planned(
        self,
        path: Path,
        after_seq: int | None = None,
        before_seq: int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[Message | Damaged]]:
        """The windows of what a fixed path shows between two seqs."""
        bounds: dict[str, Any] = {"after_seq": after_seq, "before_seq": before_seq}
        for stretch in view.stretches(path, newest_first=newest_first, **bounds):
            if stretch.run is not None:
                async for window in self._run(path, stretch.run, newest_first, limit):
                    yield stretch.take(window)
            if rest := stretch.rest():
                yield rest

    async def _run(
        self, path: Path, run: view.Run, newest_first: bool, limit: int | None = None
    ) -> AsyncIterator[list[Message | Damaged]]:
        """The windows of a run; none need hold more than `limit` messages."""
        after, before = run.lo - 1, run.hi + 1
        most = WINDOW_ROWS if limit is None else min(limit, WINDOW_ROWS)
        rows = min(most, FIRST_ROWS)
        while after + 1 < before:
            window = await self._store.load(
                self._ref,
                path,
                after_seq=after,
                before_seq=before,
                newest_first=newest_first,
                limit=rows,
                budget_bytes=WINDOW_BYTES,
                shown=True,
            )
            if not window:
                return
            after, before = (after, window[-1].seq) if newest_first else (window[-1].seq, before)
            rows = most
            yield window
            await pause_async()

    async def _check_unchanged(self, path: Path) -> None:
        if await self._store.changed_since(self._ref, path):
            raise StaleValueError(f"session {self.id!r} changed while it was being read; read it again")

    async def recent(
        self,
        *,
        count: int | None = None,
        budget_bytes: int | None = None,
        leaf: Parent = LEAF,
        for_model: bool = False,
    ) -> Window:
        """The newest messages of a path within both bounds, oldest first; no bound means all.

        The newest message is always there, even over budget, unless `count` is 0. `budget_bytes`
        counts what the messages take in memory, media included. With `for_model` the window is one
        that providers take (`plait.legal_view`): a call and its results are in it together or not at all.
        """
        count = arguments.maybe(arguments.number, "count", count)
        budget_bytes = arguments.maybe(arguments.budget, "budget_bytes", budget_bytes)
        leaf = arguments.place("leaf", leaf)
        if arguments.flag("for_model", for_model):
            whole = await self._store.path(self._ref, leaf)
            return Window([], False, 0, 0, 0) if whole is None else await self._recent_legal(whole, count, budget_bytes)
        for _ in range(RECENT_TRIES):
            found = await self._store.recent(self._ref, leaf, count=count, budget_bytes=budget_bytes)
            if found is None:
                return Window([], False, 0, 0, 0)
            path, suffix = found
            if suffix.loaded is not None:
                return _window(suffix, suffix.loaded)
            window = _window(suffix, await self._load_suffix(path, suffix.start_seq))
            if not await self._store.changed_since(self._ref, path):
                return window
        raise StaleValueError(f"session {self.id!r} kept changing while it was read; read it again")

    async def _recent_legal(self, path: Path, count: int | None, budget_bytes: int | None) -> Window:
        totals = _window(await self._store.suffix(self._ref, path, count=0, budget_bytes=None), [])
        kept: list[Message | Damaged] = []
        size, reader = 0, UnitsBackward()
        async for unit in self._units(path, reader):
            shown = legal(unit)
            more = sum(message.bytes for message in shown)
            fits = (count is None or len(kept) + len(shown) <= count) and (
                budget_bytes is None or size + more <= budget_bytes
            )
            if shown and (count == 0 or (kept and not fits)):
                return replace(totals, messages=kept, truncated=True)
            kept[:0] = shown
            size += more
        return replace(totals, messages=kept, truncated=False)

    async def _units(self, path: Path, reader: UnitsBackward) -> AsyncIterator[Unit]:
        async for message in self._shown(path, newest_first=True):
            for unit in reader.feed(message):
                yield unit
        for unit in reader.end():
            yield unit

    async def _load_suffix(self, path: Path, start_seq: int) -> list[Message | Damaged]:
        messages: list[Message | Damaged] = []
        async for window in self._planned(path, start_seq - 1):
            messages += window
        return messages

    async def everything(
        self, *, after_seq: int | None = None, limit: int | None = None
    ) -> AsyncIterator[Message | Damaged]:
        """All messages of all branches in the order they arrived, after a seq; a copy goes on from there."""
        left = arguments.maybe(arguments.number, "limit", limit)
        after = arguments.maybe(arguments.seq, "after_seq", after_seq) or 0
        while left is None or left > 0:
            rows = EVERYTHING_ROWS if left is None else min(left, EVERYTHING_ROWS)
            window = await self._store.everything(self._ref, after_seq=after, limit=rows)
            for message in window:
                yield message
            if not window:
                return
            left = None if left is None else left - len(window)
            after = window[-1].seq
            await pause_async()

    async def value_versions(self) -> AsyncIterator[Value]:
        """Every version that is kept of every named value, by label and key, each value's oldest first.

        What blocks of context say is such a value; a copy of a session takes these along.
        """
        async for value in keeping.versions(self._store, self._ref):
            yield value

    async def get(self, id: str) -> Message | Damaged | None:
        """The message with this id, on whichever branch, or `None`."""
        return await self._store.get(self._ref, arguments.id_asked("id", id))

    async def leaf(self) -> Message | Damaged | None:
        """The active leaf, or `None` for an empty session."""
        return await self._store.leaf(self._ref)

    async def newest(self) -> Message | Damaged | None:
        """The message that arrived last, on whichever branch, or `None`."""
        return await self._store.newest(self._ref)

    async def leaves(self) -> list[Message | Damaged]:
        """The messages that nothing answers: one for each branch, in order of arrival."""
        return await self._store.leaves(self._ref)

    async def roots(self) -> list[Message | Damaged]:
        """The messages without a parent, in order of arrival."""
        return await self._store.children(self._ref, None)

    async def children(self, id: str) -> list[Message | Damaged]:
        """The messages that answer `id`, in order of arrival; none for an unknown id."""
        return await self._store.children(self._ref, arguments.id_asked("id", id))

    async def path_stats(self, leaf: Parent = LEAF, *, raw: bool = False) -> AsyncIterator[RowStat]:
        """Size, tokens, role and time of what `history` shows of a path, without reading any content.

        With `raw=True` those of every message of the path, as `transcript` shows it.
        """
        raw = arguments.flag("raw", raw)
        path = await self._store.path(self._ref, arguments.place("leaf", leaf), raw=raw)
        for item in view.plan(path, raw=raw) if path is not None else ():
            if path is not None and isinstance(item, view.Run):
                async for stat in self._stats(path, item):
                    yield stat
            elif isinstance(item, Message):
                yield RowStat(item.id, item.seq, item.role, item.bytes, item.tokens, item.created_at)

    async def _stats(self, path: Path, run: view.Run) -> AsyncIterator[RowStat]:
        after = run.lo - 1
        while True:
            stats = await self._store.stats(self._ref, path, after_seq=after, before_seq=run.hi + 1, limit=STATS_ROWS)
            for stat in stats:
                at = times.from_us(stat.created_at_us)
                yield RowStat(stat.id, stat.seq, stat.role, stat.bytes, stat.tokens, at)
            if len(stats) < STATS_ROWS:
                return
            after = stats[-1].seq
            await pause_async()

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        offset: int = 0,
        newest_first: bool = False,
        role: str | Iterable[str] | None = None,
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        leaf: str | Leaf | searching.Everywhere = searching.EVERYWHERE,
        provider: AsyncSearchProvider | None = None,
    ) -> list[Hit]:
        """The messages whose text holds all the words of `query`, best match first or newest first.

        `"quoted words"` must stand together. Nothing in a query is an operator or refused. All
        branches and what overlays hide are searched, unless `leaf` names the path to look at;
        `role`, `since` (in) and `until` (out) narrow it further. Sees all that was committed when
        it was called. The first search of a session indexes it. What a `provider` finds is ranked
        together with the words'; see `AsyncSearchProvider`.
        """
        asked = searching.question(
            query,
            limit=limit,
            offset=offset,
            newest_first=newest_first,
            role=role,
            since=since,
            until=until,
            leaf=leaf,
        )
        with self._operation("search", self.id):
            return await searching.search(self._store, self._ref, asked, provider)

    async def around(self, id: str, *, before: int = 3, after: int = 3) -> list[Message | Damaged]:
        """A message with up to `before` that it answers and `after` that go on from it; none for an unknown id.

        It goes on along the active path if the message is on it, else along the branch begun last.
        """
        return await searching.around(self._store, self._ref, id, before=before, after=after)

    async def totals(self) -> Totals:
        """How much the session and its active path hold; no content is read."""
        return await self._store.totals(self._ref)

    async def info(self) -> SessionInfo | None:
        """The session as the catalogue knows it, or `None` if it does not exist."""
        return await self._store.info(self._ref)

    # -- state and attachments ---------------------------------------------------

    async def state(self) -> Json:
        """The session's small JSON state, `{}` for an unknown session."""
        return await self._store.state(self._ref)

    async def update_state(self, patch: Mapping[str, Any], *, expect_version: int | None = None) -> Json:
        """Merge `patch` into the state, key by key, and answer the result; a `None` removes its key.

        Atomic: patches of other keys by other processes are kept. Creates the session if absent. With
        `expect_version` (that of `info`) it is done only if the session has not changed since, else it
        raises `LeafMovedError`; read `info` before the state that the patch is made from.
        """
        arguments.mapping("patch", patch)
        version = arguments.maybe(arguments.number, "expect_version", expect_version)
        given: dict[str, Any] = {} if version is None else {"version": version}
        stated = await self._store.update_state(self._ref, patch, created_at_us=now_us(), **given)
        if stated.changed:
            await self._tell(Change("session", self.id))
        return stated.state

    async def records(
        self, first: bytes = b"", end: bytes | None = None, *, limit: int = 1000, last_first: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """The next records with `first` <= key < `end`, each with its key, by key rising or (`last_first`) falling.

        At most `limit`, and none more once they reach 4 MiB; go on after the last key that came.
        """
        return await recording.listing(self._records, first, end, limit=limit, last_first=last_first)

    async def read_records(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Those of the records under these keys that are there."""
        return await recording.read(self._records, keys)

    async def write_records(
        self,
        put: Mapping[bytes, bytes] | None = None,
        *,
        keep: Mapping[bytes, bytes] | None = None,
        delete: Iterable[bytes] = (),
        append: recording.Chains = (),
        leaf: str | None = None,
        state: Mapping[str, Any] | None = None,
        expect_version: int | None = None,
        expect: Mapping[bytes, bytes | None] | None = None,
        remove: Iterable[str] = (),
        format: str | None = None,
    ) -> Recorded:
        """Write records, and new messages with them, in one transaction: all or nothing.

        A record is bytes of your own under a key of 1 to 2,048 bytes: what an adapter must keep beside
        the messages. `put` replaces what is there; `keep` leaves it. `append`
        are chains of messages, each a pair of the parent's id (`None`: a root) and of pairs of id and
        message; `leaf` is the id to be the active leaf then, else that stays. `state` is merged into the
        session's state, as `update_state` does it, and `remove` are ids of messages that go, as with `delete`.
        Nothing is written, and an error raised, if a message is there already (`ConflictError`), if the session
        has left `expect_version` (`LeafMovedError`), or if a record of `expect` is not what it is expected to be,
        `None`: not there (`StaleValueError`): what was read stands still when it is written.
        A `clear` or `delete` of the session removes its records; the feed, search, forks and exports know nothing of them.
        """

        def given(id: str) -> Given:
            return Given(id, now_us(), id, format)

        more = (state, expect_version, expect, remove)
        new = recording.checked(put, keep, delete, append, leaf, *more, format, self._rules, given)
        with self._operation("append", self._ref.id, sum(len(chain.messages) for chain in new.chains)):
            there, written, removed = await recording.write(self._records, new, now_us())
        await self._appended(written, new.state is not None)
        if removed:
            await self._tell(Change("delete", self.id, ids=tuple(removed)))
        return Recorded(there, written, removed)

    @property
    def _records(self) -> recording.Place:
        return recording.Place(self._store, self._ref)

    async def read_attachment(self, message_id: str, n: int = 0) -> AsyncIterator[bytes]:
        """The bytes of a message's n-th piece of media, streamed; `NotFoundError` if it has none."""
        id, n = arguments.id_asked("message_id", message_id), arguments.number("n", n)
        async for piece in self._store.read_attachment(self._ref, id, n):
            yield piece
            await pause_async()


def composed(
    session: AsyncSession,
    context: Iterable[BlockSpec],
    cached_prompt: bool | WritableProvider,
    on_compaction: Compaction | None,
    compact_after: int | None,
) -> None:
    """Give a handle what was passed with it."""
    if cached_prompt is not False:
        session.with_cached_prompt(None if cached_prompt is True else cached_prompt)
    if compact_after is not None:
        session.compact_after(compact_after)
    if on_compaction is not None:
        session.on_compaction(on_compaction)
    for spec in context:
        session.with_context(**structs.asdict(spec))


def crossing_to(as_: str, session_id: str, *, newest_first: bool) -> Crossing:
    """What writes a session's messages as another framework's."""
    from plait.formats.crossing import Crossing  # what few use is loaded by the first who does

    if arguments.flag("newest_first", newest_first):
        raise UsageError("as_ goes with the order of the path: a call comes before its result; leave newest_first out")
    return Crossing(as_, session_id=session_id)


def _expect(leaf: str | _Anything | None, version: int | None, on_moved: Literal["raise", "branch"]) -> Expect | None:
    if leaf is ANYTHING and version is None and on_moved == "raise":
        return None
    branch = arguments.word("on_moved", on_moved, ("raise", "branch")) == "branch"
    version = arguments.maybe(arguments.number, "expect_version", version)
    if isinstance(leaf, _Anything):
        if branch:
            raise UsageError("on_moved='branch' needs expect_leaf: the message that the branch is to answer")
        return Expect(version=version)
    return Expect(True, arguments.maybe(arguments.id_asked, "expect_leaf", leaf), version, branch)


def _window(suffix: Suffix, messages: list[Message | Damaged]) -> Window:
    whole = (suffix.messages, suffix.bytes, suffix.tokens)
    seen = [raw - less for raw, less in zip(whole, suffix.hidden, strict=True)]
    return Window(messages, len(messages) < seen[0], *whole, *seen)


def _inserted(kind: str, session_id: str, result: Appended, *, moved: bool) -> Change:
    """What is told of a message that was inserted."""
    leaf = result.id if moved else None
    return Change(kind, session_id, result.message, result.parent_id, ids=(result.id,), leaf_moved=moved, leaf_id=leaf)
