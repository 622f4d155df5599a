"""ADK's session service on plait: each session a tree of its events, each user's sessions a scope."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, Literal

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from plait import (
    LEAF,
    Appended,
    AsyncSession,
    AsyncSessions,
    ConflictError,
    Damaged,
    LeafMovedError,
    LeaseHeldError,
    LeaseLostError,
    Message,
    NotFoundError,
    SessionDeletedError,
    SessionInfo,
    UsageError,
)
from plait.adapters.adk import scopes, states
from plait.adapters.adk.compaction import Compaction, Compactor
from plait.adapters.adk.events import Along, packed, said_at
from plait.adapters.adk.states import States
from plait.formats.writers.adk import AGENT
from plait.logic.blocks import BlockLike
from plait.model import Json, Leaf

OnStale = Literal["raise", "merge", "branch"]
HANDLES: Final = 256
"""How many sessions of plait are kept at hand, with what they know of their life and of compaction."""


class PlaitSessionService(BaseSessionService):
    """Keeps ADK's sessions in `sessions`, which the caller has opened and closes.

    `on_stale` says what becomes of an event for a session object that others have gone on from: `raise`
    raises ADK's `StaleSessionError`, as its own services on a database do; `merge` appends it after
    what is there and brings the object up to date; `branch` keeps it on a branch of its own, on which
    that object goes on, beside the one that `get_session` reads. Writes of plait's own (blocks of context,
    metadata, compaction) make no session stale.

    An event that was stored already, with the same id and content, is not stored again. `compaction`
    summarizes long sessions: see `Compaction`. `agent` names the agent whose words those are to be that a
    model said under another framework, before any agent of ADK's spoke: to every other agent they are a stranger's.
    """

    def __init__(
        self,
        sessions: AsyncSessions,
        *,
        on_stale: OnStale = "raise",
        compaction: Compaction | None = None,
        agent: str = AGENT,
    ) -> None:
        if on_stale not in ("raise", "merge", "branch"):
            raise UsageError(f"on_stale is 'raise', 'merge' or 'branch', not {on_stale!r}")
        self.sessions = sessions
        self.compactor = Compactor(compaction, agent)
        self._agent = agent
        self._on_stale = on_stale
        self._states = States(sessions)
        self._handles: OrderedDict[tuple[str, str, str], AsyncSession] = OrderedDict()
        self._locks: weakref.WeakValueDictionary[tuple[int, str, str, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )

    def handle(self, session: Session) -> AsyncSession:
        """plait's session below one of ADK's: its branches, search, blocks, usage and everything else."""
        return self._handle(session.app_name, session.user_id, session.id)

    def scope_of(self, session: Session) -> AsyncSessions:
        """All sessions of the user whose session this is."""
        return scopes.conversations(self.sessions, session.app_name, session.user_id)

    def composed(self, session: Session, context: Iterable[BlockLike]) -> AsyncSession:
        """plait's session below one of ADK's, with these blocks declared and its frozen prompt kept in it."""
        self.handle(session)  # kept for a while, and with it what the model was shown
        return self.scope_of(session).session(session.id, context=context, cached_prompt=True)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Make a session. Without an id, or with a blank one, it gets one; a taken one raises `AlreadyExistsError`."""
        id = session_id if session_id and session_id.strip() else str(uuid.uuid4())
        if id == scopes.SHELF:
            raise AlreadyExistsError(f"Session with id {id} already exists: it is where memories are kept.")
        delta = states.parted(state)
        scope = scopes.conversations(self.sessions, app_name, user_id)
        await scopes.users(self.sessions, app_name).get_or_create(user_id)
        note = await self._states.note(app_name, user_id, id, delta)
        try:
            await scope.create(id, metadata={**states.initial_of(delta.session), **note})
        except ConflictError:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from None
        session = await self._read(app_name, user_id, id, LEAF, None)
        if session is None:
            raise SessionNotFoundError(f"Session {id} not found: it was deleted as soon as it was made.")
        return session

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """The session on its active branch, or `None`; a compaction stands in it as one event."""
        return await self._read(app_name, user_id, session_id, LEAF, config)

    async def get_session_at(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        leaf: str | None,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """The session as it is on the branch that ends in the event `leaf`, to read, or to go on there."""
        return await self._read(app_name, user_id, session_id, leaf, config)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of a user, or of all, without their events; the one that was last written to is the last."""
        if not scopes.can_exist(self.sessions, app_name):
            return ListSessionsResponse()
        users = [user_id] if user_id is not None else await self._users(app_name)
        found: list[Session] = []
        for user in users:
            if scopes.can_exist(self.sessions, app_name, user):
                found += [session async for session in self._without_events(app_name, user)]
        found.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events; the states of its user and app stay."""
        if scopes.can_exist(self.sessions, app_name, user_id, session_id):
            await self._settle(app_name, user_id, session_id)
            self._handles.pop((app_name, user_id, session_id), None)
            await scopes.conversations(self.sessions, app_name, user_id).delete(session_id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user, keys without `user:`."""
        known = scopes.can_exist(self.sessions, app_name, user_id)
        return await self._states.user(app_name, user_id) if known else {}

    async def flush(self) -> None:
        """Return when every event acknowledged so far is on disk, at any durability."""
        await self.sessions.flush()

    # -- appending -------------------------------------------------------------

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, with what it does to the session's state, and add it to the session object.

        Partial events are not stored. `StaleSessionError` as `on_stale` says, `SessionNotFoundError` for a
        session that is not there (any more), `AlreadyExistsError` for another event with an id that is there,
        and plait's `LeaseHeldError` while somebody else has a lease on the session.
        """
        if event.partial:
            return event
        if not scopes.can_exist(self.sessions, session.app_name, session.user_id, session.id):
            raise SessionNotFoundError(f"Session {session.id} not found.")
        async with self._lock(session):
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            await self._append(session, self.handle(session), event)
        return event

    async def _append(self, session: Session, handle: AsyncSession, event: Event) -> None:
        """Store an event with all that follows from it; ADK's errors where it cannot be."""
        try:
            await self._follow(session, handle, event)
        except SessionDeletedError as error:
            raise SessionNotFoundError(f"Session {session.id} not found: it was deleted.") from error
        except (LeafMovedError, NotFoundError) as error:
            if await handle.sessions.get(handle.id) is None:
                raise SessionNotFoundError(f"Session {session.id} not found.") from error
            raise StaleSessionError(
                f"session {session.id!r} has gone on since this object of it was read, or lost the event that it ends in: "
                "read it again, or give the session service on_stale='merge' or 'branch'"
            ) from error
        except (LeaseHeldError, LeaseLostError):
            raise
        except ConflictError as error:
            raise AlreadyExistsError(f"event {event.id!r} is stored already, with other content") from error

    async def _follow(self, session: Session, handle: AsyncSession, event: Event) -> None:
        """Store an event, do what it does to the states of app and user, and bring the session object to it."""
        app, user, end = session.app_name, session.user_id, _end(session)
        delta = states.parted(event.actions.state_delta)
        note = await self._states.note(app, user, event.id, delta)
        stored = await self._stored(handle, event, end, delta, note)
        if note:
            await self._states.settle(app, user, handle, note if stored.inserted else await handle.state(), {})
        if await self._goes_on(handle, stored, end):
            await self._go_on(session, handle, event, stored, end)
        if self.compactor.changed(handle):
            session.events[:] = await self._events(handle, _end(session) or None, None)

    async def _stored(self, handle: AsyncSession, event: Event, end: str, delta: states.Delta, note: Json) -> Appended:
        merges = self._on_stale == "merge"
        if (merges or not end) and await handle.info() is None:  # without an expectation an append would make it anew
            raise SessionNotFoundError(f"Session {handle.id} not found.")
        patch = {**await self._patch(handle, event, delta, end), **note}
        self.compactor.prepare(handle)
        given: dict[str, Any] = {"format": "adk", "on_conflict": "raise", "state": patch or None}
        message = packed(event)
        if merges:
            return await handle.append(message, **given)
        try:
            return await handle.append(message, expect_leaf=end or None, **given)
        except LeafMovedError:
            if self._on_stale == "raise":
                raise
        return await self._beside(handle, message, event.id, end, delta, note)

    async def _beside(
        self, handle: AsyncSession, message: Json, id: str, end: str, delta: states.Delta, note: Json
    ) -> Appended:
        """Store an event on a branch beside the active one, with what is noted of it.

        The kept state says nothing of it. If it changes that, what is kept is no longer that of every path
        through the event which changed it last: until the next one does, states are read from the events.
        """
        patch = {**note, states.MARK: None} if delta.session else note
        written = await handle.write_records(append=[(end or None, [(id, message)])], state=patch or None, format="adk")
        return written.appended[0]

    async def _patch(self, handle: AsyncSession, event: Event, delta: states.Delta, end: str) -> Json:
        """What is written to the session's own state together with an event; mostly nothing."""
        if end and not delta.session:
            return {}
        patch = {states.MARK: event.id, **states.patch_of(delta.session)}
        kept, info = await handle.state(), await handle.info()
        leaf = end or None
        if self._on_stale == "merge":  # read after the state, so that whoever changed that is on its path
            newest = await handle.leaf()
            leaf = newest.id if newest is not None else None
        state, is_kept = await states.state_at(handle, info.metadata if info else {}, kept, leaf)
        if not is_kept:  # the path is not the one whose state is kept: begin that anew
            gone = {key: None for key in kept if key.startswith(states.KEY)}
            patch = {**gone, **states.patch_of(state), **patch}
        return patch

    async def _goes_on(self, handle: AsyncSession, stored: Appended, end: str) -> bool:
        """Whether an object that ended in `end` goes on to what was stored: not to a repeat of what it has, or from elsewhere."""
        if stored.inserted or stored.parent_id == (end or None):
            return True
        last = await handle.get(end) if end else None
        return self._on_stale == "merge" and (last is None or last.seq < stored.seq)

    async def _go_on(self, session: Session, handle: AsyncSession, event: Event, stored: Appended, end: str) -> None:
        """Bring a session object to an event that was stored."""
        if self._on_stale == "merge":
            await self._catch_up(session, handle, stored, end)
        _mark(session, event.id)
        session.last_update_time = event.timestamp
        if not any(known.id == event.id for known in reversed(session.events)):
            self._commit_event_to_session(session, event)

    async def _catch_up(self, session: Session, handle: AsyncSession, stored: Appended, expected: str) -> None:
        """Bring a session object up to what others wrote before this event."""
        if stored.parent_id is None or stored.parent_id == expected:
            return
        known = {event.id for event in session.events}
        last = await handle.get(expected) if expected else None
        after = last.seq if isinstance(last, Message) else None
        rows = [row async for row in handle.transcript(stored.parent_id, after_seq=after)]
        for event in await self._along(handle, rows, stored.parent_id):
            if event.id not in known:
                self._commit_event_to_session(session, event)
        user, app = session.user_id, session.app_name
        session.state.update(states.joined(await self._states.app(app), await self._states.user(app, user), {}))

    # -- reading ---------------------------------------------------------------

    @scopes.afresh
    async def _read(
        self, app: str, user: str, id: str, leaf: str | Leaf | None, config: GetSessionConfig | None
    ) -> Session | None:
        """A session object of a session, `None` if there is none."""
        if not scopes.can_exist(self.sessions, app, user, id):
            return None
        handle = self._handle(app, user, id)
        info = await handle.info()
        if info is None:
            return None
        if isinstance(leaf, Leaf):
            newest = await handle.leaf()
            leaf = None if newest is None else newest.id
        session = await self._described(handle, app, user, info, leaf)
        session.events = await self._events(handle, leaf, config)
        return session

    async def _without_events(self, app: str, user: str) -> AsyncIterator[Session]:
        """The sessions of a user that are still there when they are read."""
        bare = GetSessionConfig(num_recent_events=0)
        async for info in scopes.conversations(self.sessions, app, user).all():
            session = await self._read(app, user, info.id, LEAF, bare)
            if session is not None:
                yield session

    async def _described(
        self, handle: AsyncSession, app: str, user: str, info: SessionInfo, leaf: str | None
    ) -> Session:
        """A session object without events, with its states as they are on the path to `leaf`."""
        kept = await handle.state()
        await self._states.settle(app, user, handle, kept, info.metadata)
        state, _ = await states.state_at(handle, info.metadata, kept, leaf)
        state = states.joined(await self._states.app(app), await self._states.user(app, user), state)
        last = await handle.get(leaf) if leaf is not None else None
        at = said_at(last) if isinstance(last, Message) else info.created_at.timestamp()
        session = Session(id=info.id, app_name=app, user_id=user, state=state, last_update_time=at)
        _mark(session, leaf or "")
        return session

    @scopes.afresh
    async def _settle(self, app: str, user: str, id: str) -> None:
        """Do what a session's notes say of the states of its app and user."""
        handle = self._handle(app, user, id)
        info = await handle.info()
        if info is not None:
            await self._states.settle(app, user, handle, await handle.state(), info.metadata)

    async def _events(self, handle: AsyncSession, leaf: str | None, config: GetSessionConfig | None) -> list[Event]:
        """The events of a path, as far back as `config` says."""
        most = config.num_recent_events if config is not None else None
        since = config.after_timestamp if config is not None else None
        if leaf is None or most == 0:
            return []
        events = await self._along(handle, await _rows(handle, leaf, most, since), leaf)
        old = [n for n, event in enumerate(events, 1) if since is not None and event.timestamp < since]
        return events[max(old[-1] if old else 0, 0 if most is None else len(events) - most) :]

    async def _along(self, handle: AsyncSession, rows: list[Message | Damaged], leaf: str) -> list[Event]:
        """The events that rows of a path are, oldest first; what is damaged says so, a summary is one event."""
        along = Along(self._agent, mixed=not all(map(_is_alone, rows)))
        events: list[Event] = []
        for row in rows:
            if isinstance(row, Message) and row.overlay is None:
                events += along.take(row)
                continue
            events += along.end()
            if isinstance(row, Damaged):
                failed = Event(id=row.id, author=self._agent, invocation_id=row.id, error_message=row.reason)
                events.append(failed)
            else:
                events.append(await self.compactor.summary_event(handle, row, leaf))
        return events + along.end()

    async def _users(self, app: str) -> list[str]:
        """The users that began a session here, and those that have one which began elsewhere."""
        scope = scopes.users(self.sessions, app)
        begun = [info.id async for info in scope.all() if info.id != scope.session().id]
        tenant = scope.scope[0]
        there = [owner async for of, owner in self.sessions.scopes() if of == tenant and owner]
        return list(dict.fromkeys([*begun, *there]))

    def _handle(self, app: str, user: str, id: str) -> AsyncSession:
        """plait's session, which is kept for a while: it knows whether it was deleted, and when to compact."""
        key = (app, user, id)
        handle = self._handles.pop(key, None)
        if handle is None or handle.is_over:
            handle = scopes.conversations(self.sessions, app, user).session(id)
        self._handles[key] = handle
        while len(self._handles) > HANDLES:
            self._handles.popitem(last=False)
        return handle

    def _lock(self, session: Session) -> asyncio.Lock:
        """One event of a session at a time here: those of parallel agents share one session object."""
        key = (id(asyncio.get_running_loop()), session.app_name, session.user_id, session.id)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


async def _rows(handle: AsyncSession, leaf: str, most: int | None, since: float | None) -> list[Message | Damaged]:
    """A path's rows, oldest first, with all that the newest `most` events are made of, or those since a time."""
    rows: list[Message | Damaged] = []
    begun = 0
    async for row in handle.history(leaf, newest_first=True):
        rows.append(row)
        if not (_is_alone(row) or row.role == "user"):
            continue  # of another framework: what makes one event with it, or names its tool, may stand before
        begun += 1
        if begun == most or (since is not None and _said_at(row) < since):
            break
    return rows[::-1]


def _is_alone(row: Message | Damaged) -> bool:
    """Whether it is one event, whatever stands before it."""
    return isinstance(row, Damaged) or row.overlay is not None or row.format == "adk"


def _said_at(row: Message | Damaged) -> float:
    return said_at(row) if isinstance(row, Message) else float("inf")


def _end(session: Session) -> str:
    """The event that a session object ends in, `""` for none: by ADK's private mark, or its last event where that is lost."""
    marker = session._storage_update_marker  # pyright: ignore[reportPrivateUsage]
    if marker is not None:
        return marker
    return session.events[-1].id if session.events else ""


def _mark(session: Session, end: str) -> None:
    session._storage_update_marker = end  # pyright: ignore[reportPrivateUsage]
