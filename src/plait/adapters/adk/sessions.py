"""ADK's session service on plait: each session a tree of its events, each user's sessions a scope."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, Literal

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from plait import (
    Appended,
    AsyncSession,
    AsyncSessions,
    ConflictError,
    Damaged,
    LeafMovedError,
    Message,
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
from plait.model import Json

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
        try:
            info = await scope.create(id, metadata=states.initial_of(delta.session))
        except ConflictError:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from None
        self._handles.pop((app_name, user_id, id), None)
        await self._states.change(app_name, user_id, delta)
        session = await self._described(app_name, user_id, info, None)
        _mark(session, "")
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
        leaf = await self._leaf(app_name, user_id, session_id)
        return await self.get_session_at(
            app_name=app_name, user_id=user_id, session_id=session_id, leaf=leaf, config=config
        )

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
        info = await self._info(app_name, user_id, session_id)
        if info is None:
            return None
        handle = self._handle(app_name, user_id, session_id)
        session = await self._described(app_name, user_id, info, leaf)
        session.events = await self._events(handle, leaf, config)
        _mark(session, leaf or "")
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of a user, or of all, without their events; the one that was last written to is the last."""
        users = [user_id] if user_id is not None else await self._users(app_name)
        found: list[Session] = []
        for user in users:
            async for info in scopes.conversations(self.sessions, app_name, user).all():
                if info.id != scopes.SHELF:
                    found.append(await self._described(app_name, user, info, await self._leaf(app_name, user, info.id)))
        found.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events; the states of its user and app stay."""
        self._handles.pop((app_name, user_id, session_id), None)
        if session_id.strip() and session_id != scopes.SHELF:
            await scopes.conversations(self.sessions, app_name, user_id).delete(session_id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user, keys without `user:`."""
        return await self._states.user(app_name, user_id)

    async def flush(self) -> None:
        """Return when every event acknowledged so far is on disk, at any durability."""
        await self.sessions.flush()

    # -- appending -------------------------------------------------------------

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event, with what it does to the session's state, and add it to the session object.

        Partial events are not stored. `StaleSessionError` as `on_stale` says, `SessionNotFoundError` for a
        session that is not there (any more), `AlreadyExistsError` for another event with an id that is there.
        """
        if event.partial:
            return event
        async with self._lock(session):
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            handle, delta = self.handle(session), states.parted(event.actions.state_delta)
            stored = await self._append(session, handle, event, delta)
            if not (delta.app or delta.user):
                pass
            elif stored.inserted:
                await self._states.change(session.app_name, session.user_id, delta)
                if not stored.branched:
                    await handle.update_state({states.PENDING + event.id: None})
            _mark(session, event.id)
            session.last_update_time = event.timestamp
            if not any(known.id == event.id for known in reversed(session.events)):
                self._commit_event_to_session(session, event)
            if self.compactor.changed(handle):
                session.events[:] = await self._events(handle, event.id, None)
        return event

    async def _append(self, session: Session, handle: AsyncSession, event: Event, delta: states.Delta) -> Appended:
        expected = _end(session)
        if not expected and await handle.info() is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        patch = await self._patch(session, handle, event, delta, expected)
        given: dict[str, Any] = {"format": "adk", "on_conflict": "raise", "state": patch}
        self.compactor.prepare(handle)
        try:
            if self._on_stale == "merge":
                stored = await handle.append(packed(event), **given)
                await self._catch_up(session, handle, stored, expected)
                return stored
            moved: Literal["raise", "branch"] = "branch" if self._on_stale == "branch" else "raise"
            return await handle.append(packed(event), expect_leaf=expected or None, on_moved=moved, **given)
        except LeafMovedError as error:
            if await handle.info() is None:
                raise SessionNotFoundError(f"Session {session.id} not found.") from error
            raise StaleSessionError(
                f"session {session.id!r} has gone on since this object of it was read (its leaf is {error.leaf_id!r} now): "
                "read it again, or give the session service on_stale='merge' or 'branch'"
            ) from error
        except SessionDeletedError as error:
            self._handles.pop((session.app_name, session.user_id, session.id), None)
            raise SessionNotFoundError(f"Session {session.id} not found: it was deleted.") from error
        except ConflictError as error:
            raise AlreadyExistsError(f"event {event.id!r} is stored already, with other content") from error

    async def _patch(
        self, session: Session, handle: AsyncSession, event: Event, delta: states.Delta, expected: str
    ) -> Json | None:
        """What is written to the session's state together with an event; mostly nothing."""
        if not (any(delta) or not expected):
            return None
        patch = {states.MARK: event.id, **states.patch_of(delta.session)}
        if delta.app or delta.user:
            patch |= states.note_of(event.id, delta)
        if not expected:
            return patch
        kept, info = await handle.state(), await handle.info()
        leaf: str | None = expected
        if self._on_stale == "merge":  # read after the state, so that whoever changed that is on its path
            newest = await handle.leaf()
            leaf = newest.id if newest is not None else None
        state, is_kept = await states.state_at(handle, info.metadata if info else {}, kept, leaf)
        if not is_kept:  # the path is not the one whose state is kept: begin that anew
            gone = {key: None for key in kept if key.startswith(states.KEY)}
            patch = {**gone, **states.patch_of(state), **patch}
        return patch

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

    async def _described(self, app: str, user: str, info: SessionInfo, leaf: str | None) -> Session:
        """A session object without events, with its states as they are on the path to `leaf`."""
        handle = self._handle(app, user, info.id)
        kept = await handle.state()
        await self._states.settle(app, user, handle, kept)
        state, _ = await states.state_at(handle, info.metadata, kept, leaf)
        state = states.joined(await self._states.app(app), await self._states.user(app, user), state)
        last = await handle.get(leaf) if leaf is not None else None
        at = said_at(last) if isinstance(last, Message) else info.created_at.timestamp()
        return Session(id=info.id, app_name=app, user_id=user, state=state, last_update_time=at)

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

    async def _info(self, app: str, user: str, id: str) -> SessionInfo | None:
        if not id.strip() or id == scopes.SHELF:
            return None
        return await scopes.conversations(self.sessions, app, user).get(id)

    async def _leaf(self, app: str, user: str, id: str) -> str | None:
        if not id.strip():
            return None
        leaf = await self._handle(app, user, id).leaf()
        return None if leaf is None else leaf.id

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
