"""What an event does to the states of its session, its user and its app, and where these are kept.

A session's state is kept in its state of plait's, under a key for each key of ADK's, together with
the id of the event that changed it last: both are written in the transaction that adds the event.
It is thus the state of the path to that event. Where the session goes on from another one (a branch
that was checked out, a fork, an import) the state is what the events of the path make of it.

What an event does to the state of its user or app cannot be in that transaction. It is noted in it, done
right after, and the note taken away; a note that is found later is done then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from plait import AsyncSession, AsyncSessions, Damaged
from plait.adapters.adk import scopes
from plait.adapters.adk.events import delta_of
from plait.adapters.adk.exact import Note, restored, written
from plait.logic.shape import is_object
from plait.model import Json

MARK: Final = "adk"
"""Under this key of a session's state is the id of the event that changed it last."""

KEY: Final = "adk:"
PENDING: Final = "adk.pending:"
INITIAL: Final = "adk"
"""Under this key of a session's metadata is the state that it was made with."""


class Delta(NamedTuple):
    """What to change, by whose state it is."""

    app: dict[str, Any]
    user: dict[str, Any]
    session: dict[str, Any]


def parted(state: Mapping[str, Any] | None) -> Delta:
    """The keys of a state by their prefixes, without these; those of `temp:` belong to nobody."""
    found = Delta({}, {}, {})
    for key, value in (state or {}).items():
        if key.startswith("app:"):
            found.app[key.removeprefix("app:")] = value
        elif key.startswith("user:"):
            found.user[key.removeprefix("user:")] = value
        elif not key.startswith("temp:"):
            found.session[key] = value
    return found


def joined(app: Mapping[str, Any], user: Mapping[str, Any], session: Mapping[str, Any]) -> dict[str, Any]:
    """One state of three, with the prefixes."""
    shared = {
        f"{whose}:{key}": value for whose, state in (("app", app), ("user", user)) for key, value in state.items()
    }
    return {**session, **shared}


def patch_of(state: Mapping[str, Any]) -> Json:
    """Keys and values as they are kept. Each value is in a list: `None` is one too, and not that there is none."""
    return {KEY + key: _kept(value) for key, value in state.items()}


def _kept(value: Any) -> list[Any]:
    notes: list[Note] = []
    kept = written(value, (), notes)
    return [kept, notes] if notes else [kept]


def kept_in(state: Json) -> dict[str, Any]:
    """The keys and values that a state of plait's keeps."""
    return {key.removeprefix(KEY): _read(value) for key, value in state.items() if key.startswith(KEY)}


def _read(value: Any) -> Any:
    match value:
        case [kept]:
            return kept
        case [kept, notes]:
            return restored(kept, notes)
        case _:
            return value


def initial_of(state: Mapping[str, Any]) -> Json:
    """The metadata of a session that is made with this state."""
    return {INITIAL: patch_of(state)}


def _initial(metadata: Json) -> dict[str, Any]:
    found = metadata.get(INITIAL)
    return kept_in(found) if is_object(found) else {}


class States:
    """The states of the apps, users and sessions of one store."""

    def __init__(self, sessions: AsyncSessions) -> None:
        self._sessions = sessions

    async def app(self, app: str) -> dict[str, Any]:
        """The state of an app, without the prefix."""
        return kept_in(await scopes.users(self._sessions, app).session().state())

    async def user(self, app: str, user: str) -> dict[str, Any]:
        """The state of a user, without the prefix."""
        return kept_in(await scopes.users(self._sessions, app).session(user).state())

    async def change(self, app: str, user: str, delta: Delta) -> None:
        """Change the states of an app and a user."""
        users = scopes.users(self._sessions, app)
        if delta.app:
            await users.session().update_state(patch_of(delta.app))
        if delta.user:
            await users.session(user).update_state(patch_of(delta.user))

    async def settle(self, app: str, user: str, handle: AsyncSession, state: Json) -> None:
        """Do what a session's state says is still to be done, because whoever noted it was killed before."""
        for key, value in state.items():
            if key.startswith(PENDING):
                await self.change(app, user, Delta(kept_in(value.get("app", {})), kept_in(value.get("user", {})), {}))
                await handle.update_state({key: None})


def note_of(event_id: str, delta: Delta) -> Json:
    """What is noted of an event whose changes of other states are still to be done."""
    return {PENDING + event_id: {"app": patch_of(delta.app), "user": patch_of(delta.user)}}


async def state_at(handle: AsyncSession, metadata: Json, state: Json, leaf: str | None) -> tuple[dict[str, Any], bool]:
    """The state of a session on the path to `leaf`, and whether that is the one that is kept."""
    initial, mark = _initial(metadata), state.get(MARK)
    if leaf is None or (isinstance(mark, str) and await _is_on(handle, mark, leaf)):
        return {**initial, **(kept_in(state) if leaf is not None else {})}, True
    async for message in handle.transcript(leaf):
        if not isinstance(message, Damaged):
            initial.update(delta_of(message))
    return initial, False


async def _is_on(handle: AsyncSession, id: str, leaf: str) -> bool:
    """Whether a message is on the path to another one."""
    if id == leaf:
        return True
    if await handle.get(id) is None:
        return False
    totals, active = await handle.totals(), await handle.leaf()
    if totals.messages == totals.path_messages and active is not None and active.id == leaf:
        return True  # there is one path only
    async for row in handle.path_stats(leaf, raw=True):
        if row.id == id:
            return True
    return False
