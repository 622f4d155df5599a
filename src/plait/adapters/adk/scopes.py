"""Where an app's users, their sessions and their artifacts are kept: the scopes of plait that ADK's names become.

Tenant and owner of a scope are the app and the user. Sessions that were opened with a scope of their own
have theirs below it: the names are then spelled together as JSON, which no two can share.
"""

from __future__ import annotations

import json
from typing import Final

from google.adk.errors.input_validation_error import InputValidationError

from plait import AsyncSessions

SHELF: Final = "adk:memory"
"""The session in which a user's memories are kept that are in no session of theirs."""


def conversations(sessions: AsyncSessions, app: str, user: str) -> AsyncSessions:
    """The sessions of one user of an app."""
    return sessions.scoped(_tenant(sessions, app), _user(user))


def users(sessions: AsyncSessions, app: str) -> AsyncSessions:
    """The users of an app: a session for each, with the state that is theirs; that of the app is the default session's."""
    return sessions.scoped(_tenant(sessions, app))


def artifacts(sessions: AsyncSessions, app: str, user: str, session: str | None) -> AsyncSessions:
    """The artifacts of one session of a user, or those of the user."""
    names = [_user(user)] if session is None else [_user(user), session]
    return sessions.scoped(_spelled(*sessions.scope, app, "artifacts"), _spelled(*names))


def _tenant(sessions: AsyncSessions, app: str) -> str:
    plain = sessions.scope == ("", "") and not app.startswith("[")
    return app if plain else _spelled(*sessions.scope, app)


def _user(user: str) -> str:
    if not user:
        raise InputValidationError("user_id must not be empty: it says whose sessions these are")
    return user


def _spelled(*names: str) -> str:
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))
