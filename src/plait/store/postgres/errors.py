"""From psycopg's errors to plait's, in one place; and which of them say that a plan is to be run again."""

from __future__ import annotations

import psycopg
from psycopg import errors

from plait.errors import CorruptError, PlaitError, SchemaError, StoreBusyError, StoreError, StoreUnavailableError
from plait.store.postgres.evidence import Overtaken, Unknown, Unsure

_BUSY = "others held the session's row, or a whole table, past the wait limit; try again, or raise busy_timeout_s"
_CONFLICT = "others wrote the same rows again and again; what was being written has been undone: try again"
_SLOW = "a statement took longer than is allowed, or was cancelled; what was being written has been undone"
_GONE = (
    "the connection to the server was lost, or could not be made; nothing is known to have been written. "
    "If it never could, check the URL: host, port, and whether the server runs"
)
_UNSURE = (
    "the server committed this write but did not wait for its standby; it may be lost with the server: "
    "give the same message id again to find out"
)
_UNKNOWN = (
    "the connection was lost while this write was being committed, and whether it was is not known: it may be stored, "
    "or may be yet. Give the same message id again, or read the session, to find out; a message without an id of yours "
    "is stored twice if it is appended again"
)
_FULL = "the server has no room or no memory left; what was being written has been undone"
_DENIED = "the server does not let this user do that; what was being written has been undone: check its privileges"
_DAMAGED = "the server says that its data are damaged"
_OTHER_SCHEMA = "the tables are not those that this version of plait makes"

_CLASSES: dict[str, tuple[type[StoreError], str]] = {
    "08": (StoreUnavailableError, _GONE),
    "23": (StoreBusyError, _CONFLICT),
    "25": (StoreUnavailableError, "the server takes no writes now: it is a standby, or read-only"),
    "28": (StoreUnavailableError, "the server does not let this user in; check the name and the password in the URL"),
    "40": (StoreBusyError, _CONFLICT),
    "53": (StoreUnavailableError, _FULL),
    "55": (StoreBusyError, _BUSY),
    "57": (StoreUnavailableError, _GONE),
    "58": (StoreUnavailableError, "the server could not read or write its disk"),
    "XX": (CorruptError, _DAMAGED),
}
_STATES: dict[str, tuple[type[StoreError], str]] = {
    "3D000": (StoreUnavailableError, "there is no such database; make it, or check the URL"),
    "3F000": (SchemaError, _OTHER_SCHEMA),
    "42501": (StoreUnavailableError, _DENIED),
    "42703": (SchemaError, _OTHER_SCHEMA),
    "42P01": (SchemaError, _OTHER_SCHEMA),
    "53300": (StoreUnavailableError, "the server takes no more connections; raise its max_connections, or pool them"),
    "57014": (StoreBusyError, _SLOW),
    "25P03": (StoreUnavailableError, _GONE),
    "25P04": (StoreUnavailableError, _GONE),
}

AGAIN = frozenset({"40001", "40P01", "23505", "26000", "42P05"})
"""Serialization failure, deadlock, somebody else's row first; a statement that a pooler has lost or doubled."""


ENDED = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""The server ended the connection: it stops, it starts, or it was idle for too long, alone or in a transaction."""


def translate(error: BaseException) -> BaseException:
    """The plait error for what psycopg or the network raised; any other error stays as it is."""
    if isinstance(error, Overtaken):
        return StoreBusyError(f"{_CONFLICT} ({error})")
    if isinstance(error, Unsure):
        return StoreUnavailableError(_UNSURE)
    if isinstance(error, Unknown):
        text = _UNSURE if isinstance(error.error, Unsure) else _UNKNOWN
        return StoreUnavailableError(f"{text} ({error.why})")
    if isinstance(error, PlaitError) or not isinstance(error, psycopg.Error | psycopg.Warning | OSError | MemoryError):
        return error
    kind, text = _kind(error)
    translated = kind(f"{text} ({type(error).__name__}: {str(error).strip()})")
    translated.__cause__ = error
    return translated


def _kind(error: BaseException) -> tuple[type[StoreError], str]:
    state = getattr(error, "sqlstate", None) or ""
    found = _STATES.get(state) or _CLASSES.get(state[:2])
    if found is not None:
        return found
    if isinstance(error, MemoryError):
        return StoreUnavailableError, "memory ran out; what was being written has been undone"
    if isinstance(error, OSError) or (
        isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not state
    ):
        return StoreUnavailableError, _GONE
    return StoreError, "the server refused"


def is_again(error: BaseException) -> bool:
    """Whether the plan is to be run again: what stood in its way has gone by then."""
    if isinstance(error, errors.FeatureNotSupported):
        return "cached plan" in str(error)
    return getattr(error, "sqlstate", None) in AGAIN


def is_gone(error: BaseException) -> bool:
    """Whether the server, or the way to it, has gone, so that another connection may find it, or its successor."""
    return is_lost(error) or getattr(error, "sqlstate", None) == "25006"


def is_lost(error: BaseException) -> bool:
    """Whether the connection has ended, whatever the server may do on another."""
    state = getattr(error, "sqlstate", None) or ""
    if state[:2] == "08" or state in ENDED:
        return True
    return isinstance(error, psycopg.OperationalError) and not state
