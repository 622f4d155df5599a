"""From apsw's errors to plait's, in one place."""

from __future__ import annotations

import apsw

from plait.errors import CorruptError, PlaitError, StoreBusyError, StoreError, StoreUnavailableError

_BUSY = "the database stayed locked by other processes past the wait limit; try again, or raise busy_timeout_s"
_UNDONE = "what was being written has been undone"
"""Of a long operation only the transaction at hand: what it committed before stands."""

_CLOSED = (
    "the database file, or one beside it, cannot be opened: check their path and permissions, and how many files this "
    "process may have open"
)
_KINDS: dict[type[apsw.Error], tuple[type[StoreError], str]] = {
    apsw.BusyError: (StoreBusyError, _BUSY),
    apsw.LockedError: (StoreBusyError, _BUSY),
    apsw.ProtocolError: (StoreBusyError, _BUSY),
    apsw.InterruptError: (StoreBusyError, "the statement was interrupted; try again"),
    apsw.FullError: (StoreUnavailableError, f"the disk is full; {_UNDONE}: free some space and try again"),
    apsw.IOError: (StoreUnavailableError, f"the disk could not be read or written; {_UNDONE}"),
    apsw.CantOpenError: (StoreUnavailableError, _CLOSED),
    apsw.ReadOnlyError: (StoreUnavailableError, "the database can only be read here; check its permissions"),
    apsw.PermissionsError: (StoreUnavailableError, "the database file cannot be used; check its permissions"),
    apsw.AuthError: (StoreUnavailableError, "the database file cannot be used; check its permissions"),
    apsw.NoMemError: (StoreUnavailableError, f"memory ran out; {_UNDONE}"),
    apsw.NoLFSError: (StoreUnavailableError, "the file system does not take files this large"),
    apsw.CorruptError: (CorruptError, "the database file is damaged; run `plait doctor`"),
    apsw.NotADBError: (CorruptError, "the file is not a SQLite database"),
    apsw.FormatError: (CorruptError, "the file is not a SQLite database"),
}


def translate(error: Exception) -> Exception:
    """The plait error for what SQLite or the file system raised; any other error stays as it is."""
    if isinstance(error, PlaitError) or not isinstance(error, apsw.Error | MemoryError | OSError):
        return error
    kind, text = _kind(error)
    translated = kind(f"{text} ({type(error).__name__}: {error})")
    translated.__cause__ = error
    return translated


def _kind(error: Exception) -> tuple[type[StoreError], str]:
    if isinstance(error, MemoryError):
        return _KINDS[apsw.NoMemError]
    if isinstance(error, OSError):
        return _KINDS[apsw.IOError]
    return next((_KINDS[cls] for cls in type(error).__mro__ if cls in _KINDS), (StoreError, "the database refused"))
