"""Where an app's users, their sessions and their artifacts are kept: the scopes of plait that ADK's names become.

Tenant and owner of a scope are the app and the user. Sessions that were opened with a scope of their own
have theirs below it: the names are then spelled together as JSON, which no two can share.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from google.adk.errors.input_validation_error import InputValidationError

from plait import AsyncSessions, SessionDeletedError, UsageError
from plait.logic import ids

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
SHELF: Final = "adk:memory"
"""The session in which a user's memories are kept that are in no session of theirs."""


def conversations(sessions: AsyncSessions, app: str, user: str) -> AsyncSessions:
    """The sessions of one user of an app; ADK's `InputValidationError` for names that nobody can have."""
    return _scoped(sessions, _tenant(sessions, app), _user(user))


def users(sessions: AsyncSessions, app: str) -> AsyncSessions:
    """The users of an app: a session for each, with the state that is theirs; that of the app is the default session's."""
    return _scoped(sessions, _tenant(sessions, app))


def artifacts(sessions: AsyncSessions, app: str, user: str, session: str | None) -> AsyncSessions:
    """The artifacts of one session of a user, or those of the user."""
    names = [_user(user)] if session is None else [_user(user), session]
    return _scoped(sessions, _spelled(*sessions.scope, app, "artifacts"), _spelled(*names))


def can_exist(sessions: AsyncSessions, app: str, user: str | None = None, session: str | None = None) -> bool:
    """Whether there can be an app, a user and a session of theirs of these names: who reads others finds nothing."""
    try:
        users(sessions, app) if user is None else conversations(sessions, app, user)
        return session is None or ids.check_session_id(session) != SHELF
    except ValueError:
        return False


def afresh(do: F) -> F:
    """Do something with sessions anew as long as others delete or clear one under it.

    The handle that was bound to it is over then, and the next one is of what is there now.
    """

    @functools.wraps(do)
    async def done(*args: Any, **named: Any) -> Any:
        while True:
            try:
                return await do(*args, **named)
            except SessionDeletedError:
                continue

    return cast("F", done)


def _tenant(sessions: AsyncSessions, app: str) -> str:
    plain = sessions.scope == ("", "") and app != "" and not app.startswith("[")
    return app if plain else _spelled(*sessions.scope, app)


def _user(user: str) -> str:
    """A user's id, which is also that of the session with their state: what plait keeps for itself is nobody's."""
    if not user:
        raise InputValidationError("user_id must not be empty: it says whose sessions these are")
    try:
        ids.check_id(user, "user_id")
    except UsageError as error:
        raise InputValidationError(str(error)) from None
    if user.startswith(ids.RESERVED_PREFIX):
        raise InputValidationError(f"user_id {user!r} is reserved: choose one that does not begin with 'plait:'")
    return user


def _scoped(sessions: AsyncSessions, tenant: str, owner: str = "") -> AsyncSessions:
    try:
        return sessions.scoped(tenant, owner)
    except UsageError as error:
        raise InputValidationError(f"an app, a user or a session has a name that cannot be kept: {error}") from None


def _spelled(*names: str) -> str:
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))
