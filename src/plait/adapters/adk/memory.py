"""ADK's memory service on plait's search: what was said in a user's earlier sessions, found by its words.

Nothing is copied. Adding a session to memory notes in its state how far it is remembered; its messages
are found where they are. What is in no session of plait's is put on a shelf, a session of its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Final, NamedTuple

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from plait import AsyncSession, AsyncSessions, Damaged, Hit, Message, UsageError
from plait.adapters.adk import scopes
from plait.adapters.adk.events import events_of, packed
from plait.adapters.adk.exact import noted, restored
from plait.model import Json

UPTO: Final = "adk.memory"
"""Under this key of a session's state is the seq of the last message that is remembered with all before it."""

ONE: Final = "adk.memory:"
"""What a key begins with that says of one message whether it is remembered."""

CUSTOM: Final = "plaitMemory"
PAGE: Final = 50
WORDS: Final = 12
"""How many words of a long query are looked for one by one: the longest, which say most."""


class _Remembered(NamedTuple):
    """What is remembered of a session: what its state says, and the ids of the path to the last of it, if there are others."""

    state: Json
    path: set[str] | None

    def has(self, hit: Hit) -> bool:
        noted = self.state.get(ONE + hit.id)
        if isinstance(noted, bool):
            return noted
        upto = hit.seq <= self.state.get(UPTO, 0) and (self.path is None or hit.id in self.path)
        return hit.session_id == scopes.SHELF or upto


class PlaitMemoryService(BaseMemoryService):
    """Remembers what was said in the sessions of `sessions`, which the caller has opened and closes.

    It belongs beside a `PlaitSessionService` on the same sessions; events of sessions kept elsewhere are
    copied. A search finds the events that hold all words of the query, best first, or, if none does,
    those that hold most of them; at most `max_results`. All scripts are found.
    """

    def __init__(self, sessions: AsyncSessions, *, max_results: int = 10) -> None:
        if max_results < 1:
            raise UsageError(f"max_results must be at least 1, not {max_results}")
        self.sessions = sessions
        self._max_results = max_results

    @scopes.afresh
    async def add_session_to_memory(self, session: Session) -> None:
        """Remember a session up to the last of its events, on their branch; later ones when it is added again."""
        scope = scopes.conversations(self.sessions, session.app_name, session.user_id)
        known = scopes.can_exist(self.sessions, session.app_name, session.user_id, session.id)
        handle = scope.session(session.id) if known and session.events else None
        last = await handle.get(session.events[-1].id) if handle is not None else None
        if handle is not None and isinstance(last, Message):
            await handle.update_state({UPTO: last.seq})
        else:
            await self._shelve(scope, session.events, None)

    @scopes.afresh
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember these events of a session, unless they were forgotten. `custom_metadata` is kept with those copied."""
        scope = scopes.conversations(self.sessions, app_name, user_id)
        if session_id is not None and scopes.can_exist(self.sessions, app_name, user_id, session_id):
            events = await self._note(scope.session(session_id), events)
        await self._shelve(scope, events, custom_metadata)

    async def _note(self, handle: AsyncSession, events: Sequence[Event]) -> list[Event]:
        """Remember those that the session holds; answers the others."""
        state = await handle.state()
        upto, ids = state.get(UPTO, 0), [event.id for event in events]
        following = [message async for message in handle.transcript(after_seq=upto, limit=len(ids))]
        if following and [message.id for message in following] == ids and await _goes_on(handle, following[0], upto):
            await handle.update_state({UPTO: following[-1].seq})
            return []
        there = {event.id for event in events if isinstance(await handle.get(event.id), Message)}
        new = {ONE + id: True for id in there if ONE + id not in state}
        if new:
            await handle.update_state(new)
        return [event for event in events if event.id not in there]

    async def _shelve(
        self, scope: AsyncSessions, events: Iterable[Event], custom_metadata: Mapping[str, object] | None
    ) -> None:
        """Keep copies of events that say something and were not forgotten."""
        shelf = scope.session(scopes.SHELF)
        forgotten = await shelf.state()
        about = noted(custom_metadata or {})
        for event in events:
            if event.content and event.content.parts and ONE + event.id not in forgotten:
                await shelf.append({**packed(event), CUSTOM: about}, format="adk")

    @scopes.afresh
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember these texts; one with an id that is there already is not added again, one that was forgotten is."""
        shelf = scopes.conversations(self.sessions, app_name, user_id).session(scopes.SHELF)
        forgotten = await shelf.state()
        for memory in memories:
            event = Event(
                id=memory.id or str(uuid.uuid4()),
                author=memory.author or "",
                timestamp=datetime.now(timezone.utc).timestamp(),
                content=memory.content,
            )
            about = {"at": memory.timestamp, **noted({**(custom_metadata or {}), **memory.custom_metadata})}
            if ONE + event.id in forgotten:
                await shelf.delete(event.id)  # it was, unless whoever forgot it was killed before
            state = {ONE + event.id: None} if ONE + event.id in forgotten else None
            await shelf.append({**packed(event), CUSTOM: about}, format="adk", state=state)

    @scopes.afresh
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """What is remembered that has to do with the words of `query`."""
        if not scopes.can_exist(self.sessions, app_name, user_id):
            return SearchMemoryResponse()
        scope = scopes.conversations(self.sessions, app_name, user_id)
        known: dict[str, _Remembered] = {}
        hits = await self._hits(scope, query, known)
        words = sorted(dict.fromkeys(query.split()), key=len, reverse=True)[:WORDS]
        if not hits and len(words) > 1:
            hits = _most([await self._hits(scope, word, known) for word in words])[: self._max_results]
        found = [await self._entry(scope, hit) for hit in hits]
        return SearchMemoryResponse(memories=[entry for entry in found if entry is not None])

    async def _hits(self, scope: AsyncSessions, query: str, known: dict[str, _Remembered]) -> list[Hit]:
        """The best hits in what is remembered; `known` says what is of the sessions looked at."""
        kept: list[Hit] = []
        offset = 0
        while len(kept) < self._max_results:
            page = await scope.search(query, limit=PAGE, offset=offset)
            for hit in page:
                if hit.session_id not in known:
                    known[hit.session_id] = await _remembered(scope.session(hit.session_id))
                if known[hit.session_id].has(hit):
                    kept.append(hit)
            if len(page) < PAGE:
                break
            offset += PAGE
        return kept[: self._max_results]

    async def _entry(self, scope: AsyncSessions, hit: Hit) -> MemoryEntry | None:
        message = await scope.session(hit.session_id).get(hit.id)
        if not isinstance(message, Message):
            return None
        event = (events_of(message) or [Event()])[0]
        own: Json = message.to_dict().get(CUSTOM, {}) if hit.session_id == scopes.SHELF else {}
        return MemoryEntry(
            id=json.dumps([hit.session_id, hit.id]),
            content=event.content or types.Content(parts=[]),
            author=event.author or None,
            timestamp=own.get("at") or _written(event.timestamp, message.created_at),
            custom_metadata={
                "session_id": hit.session_id,
                "event_id": hit.id,
                **restored(own.get("custom", {}), own.get("notes")),
            },
        )

    @scopes.afresh
    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a memory, by the id it was found with, for good: an event of a session stays in that, but is not remembered."""
        named = _named(memory_id)
        if named is None:
            return
        session_id, id = named
        if not scopes.can_exist(self.sessions, app_name, user_id, None if session_id == scopes.SHELF else session_id):
            return
        handle = scopes.conversations(self.sessions, app_name, user_id).session(session_id)
        if await handle.get(id) is None:
            return
        await handle.update_state({ONE + id: False})
        if session_id == scopes.SHELF:
            await handle.delete(id)


async def _remembered(handle: AsyncSession) -> _Remembered:
    state = await handle.state()
    totals, upto = await handle.totals(), state.get(UPTO, 0)
    if not upto or totals.messages == totals.path_messages:
        return _Remembered(state, None)  # there is one path only
    last = [message.id async for message in handle.everything(after_seq=upto - 1, limit=1) if message.seq == upto]
    path = handle.path_stats(*last, raw=True)  # the active one, if the message is gone
    return _Remembered(state, {row.id async for row in path})


async def _goes_on(handle: AsyncSession, first: Message | Damaged, upto: int) -> bool:
    """Whether a message comes right after what is remembered, so that one seq says that of both."""
    before = await handle.get(first.parent_id) if first.parent_id is not None else None
    return upto == (0 if before is None else before.seq)


def _written(at: float, stored: datetime) -> str:
    """A time in words; that of storing, for what is none of a calendar's."""
    try:
        return datetime.fromtimestamp(at, timezone.utc).isoformat()
    except (OverflowError, ValueError, OSError):
        return stored.isoformat()


def _most(found: list[list[Hit]]) -> list[Hit]:
    """The hits of several words, those of most words first."""
    hits: dict[tuple[str, str], list[Hit]] = {}
    for hit in (hit for of_word in found for hit in of_word):
        hits.setdefault((hit.session_id, hit.id), []).append(hit)
    ranked = sorted(hits.values(), key=lambda same: (-len(same), -sum(hit.score for hit in same)))
    return [same[0] for same in ranked]


def _named(memory_id: str | None) -> tuple[str, str] | None:
    """The session and the message that a memory's id names; `None` for what is no such id."""
    try:
        found = json.loads(memory_id or "null")
    except ValueError:
        return None
    match found:
        case [str(session_id), str(id)]:
            return session_id, id
        case _:
            return None
