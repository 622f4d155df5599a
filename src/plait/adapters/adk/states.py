"""What an event does to the states of its session, its user and its app, and where these are kept.

A session's state is kept in its state of plait's, under a key for each key of ADK's, together with
the id of the event that changed it last: both are written in the transaction that adds the event.
It is thus the state of the path to that event. Where the session goes on from another one (a branch
that was checked out, a fork, an import) the state is what the events of the path make of it.

What an event, or the making of a session, does to the state of its user or app cannot be in that transaction. It
is noted in it, done right after, and the note taken away; a note that is found later is done then. Each value of these
states has a stamp beside it, a time and an id, and a note replaces those with an earlier stamp than its own only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from plait import (
    AsyncSession,
    AsyncSessions,
    ConflictError,
    Damaged,
    LeafMovedError,
    NotFoundError,
    SessionDeletedError,
)
from plait.adapters.adk import scopes
from plait.adapters.adk.events import delta_of
from plait.adapters.adk.exact import Note, restored, written
from plait.logic.shape import is_object
from plait.model import Json

MARK: Final = "adk"
"""Under this key of a session's state is the id of the event that changed it last."""

KEY: Final = "adk:"
PENDING: Final = "adk.pending:"
AT: Final = "adk.at:"
"""What the key begins with under which the stamp of an app's or a user's value is."""

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

    async def note(self, app: str, user: str, id: str, delta: Delta) -> Json:
        """What is to be noted of changes of an app's and a user's state, in the write of `id`; `{}` if there are none.

        Its stamp is later than those of the values that it replaces, whatever the clocks say.
        """
        patches = {"app": patch_of(delta.app), "user": patch_of(delta.user)}
        if not any(patches.values()):
            return {}
        at = time.time_ns() // 1000
        users = scopes.users(self._sessions, app)
        for home, patch in ((users.session(), patches["app"]), (users.session(user), patches["user"])):
            kept = await home.state() if patch else {}
            at = max([at, *(stamp[0] + 1 for stamp in (_stamp(kept, key) for key in patch) if stamp)])
        return {PENDING + id: {**patches, "at": [at, id]}}

    async def settle(self, app: str, user: str, handle: AsyncSession, state: Json, metadata: Json) -> None:
        """Do what is noted in a session's state or metadata, perhaps by somebody who was killed, and take the notes away."""
        entry = partial(handle.sessions.merge_metadata, handle.id)
        for kept, change in ((state, handle.update_state), (metadata, entry)):
            notes = {key: note for key, note in kept.items() if key.startswith(PENDING) and is_object(note)}
            for note in notes.values():
                await self._do(app, user, note)
            if notes:
                # Where somebody has deleted the session, or has a lease on it, the notes stay: done twice is done once.
                with contextlib.suppress(ConflictError, NotFoundError):
                    await change(dict.fromkeys(notes))

    async def _do(self, app: str, user: str, note: Json) -> None:
        users, at = scopes.users(self._sessions, app), note.get("at", [0, ""])
        for home, patch in ((users.session().id, note.get("app")), (user, note.get("user"))):
            if is_object(patch) and patch:
                await _replace(users, home, patch, at)


async def _replace(users: AsyncSessions, id: str, patch: Json, at: list[Any]) -> None:
    """Replace the values in a state that have an earlier stamp, whoever else writes there meanwhile."""
    while True:
        home = users.session(id)
        info = await home.info() or await users.get_or_create(id)
        kept = await home.state()
        earlier = {key: value for key, value in patch.items() if _stamp(kept, key) < at}
        stamps = {AT + key.removeprefix(KEY): at for key in earlier}
        try:
            if earlier:
                await home.update_state({**earlier, **stamps}, expect_version=info.version)
        except (LeafMovedError, SessionDeletedError):
            continue
        return


def _stamp(kept: Json, key: str) -> list[Any]:
    """The stamp of a value: `[]`, which is earlier than any, if it has none."""
    match kept.get(AT + key.removeprefix(KEY)):
        case [int() as at, str() as id]:
            return [at, id]
        case _:
            return []


async def state_at(handle: AsyncSession, metadata: Json, state: Json, leaf: str | None) -> tuple[dict[str, Any], bool]:
    """The state of a session on the path to `leaf`, and whether that is the one that is kept."""
    initial, mark = _initial(metadata), state.get(MARK)
    if leaf is None:
        return initial, not kept_in(state)
    if isinstance(mark, str) and await _is_on(handle, mark, leaf):
        return {**initial, **kept_in(state)}, True
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
