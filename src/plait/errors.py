"""The error tree: every error plait raises on purpose, with its facts as attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from plait.model import Value


class PlaitError(Exception):
    """Something went wrong in plait; the base of every error it raises on purpose.

    The docstring of a class is its default message. Facts about the failure are attributes,
    so that no caller has to parse text.
    """

    retryable: bool = False
    """Whether the same call may succeed later without any change."""

    def __init__(self, message: str | None = None, /, **facts: object) -> None:
        text = message if message is not None else (type(self).__doc__ or "").split("\n")[0]
        super().__init__(text)
        for name, value in facts.items():
            setattr(self, name, value)


class UsageError(PlaitError, ValueError):
    """The call is not one that plait takes."""


class InvalidMessageError(UsageError):
    """The message is not one that plait can keep exactly.

    `path` names the place inside the message, such as `parts[2].output.score`.
    """

    path: str = ""


class InvalidMessageTypeError(InvalidMessageError, TypeError):
    """A value in the message is of a type that JSON cannot say."""


class ClosedError(UsageError):
    """The store is closed; make another with plait.open to go on."""


class UnsupportedError(UsageError):
    """This store does not have that ability."""


class NotFoundError(PlaitError, LookupError):
    """What the call names does not exist.

    Raised only where absence cannot be a normal answer; reads answer `None` or an empty list.
    """


class ConflictError(PlaitError):
    """Somebody else's write stands in the way of this one."""


class LeafMovedError(ConflictError):
    """The session moved on since the leaf or version that the caller expected.

    `leaf_id` and `version` say where it stands now.
    """

    leaf_id: str | None = None
    version: int = 0


class StaleValueError(ConflictError):
    """What was read has been changed since.

    Where it is a named value that was to be written, `current` is the `Value` that stands there now.
    """

    current: Value | None = None


class SessionDeletedError(ConflictError):
    """The session this handle was bound to was deleted or cleared by somebody else.

    Take a fresh handle to work with the session that now has this id.
    """


class CursorExpiredError(ConflictError):
    """The changes after this cursor have been pruned; read the session anew."""


class LeaseHeldError(ConflictError):
    """Another worker holds this session's turn.

    `until` says when it may be taken over, if it is not renewed until then, and `holder` what that
    worker calls itself.
    """

    retryable = True
    until: datetime | None = None
    holder: str = ""


class LeaseLostError(ConflictError):
    """The turn was taken over; this holder's writes are refused.

    Stop what the turn was doing. `session_id` says which session it was.
    """

    session_id: str | None = None


class CompactionError(PlaitError):
    """The conversation could not be compacted; nothing was changed.

    `session_id` says which. What failed below, such as the summarizer's own error, is its `__cause__`.
    """

    session_id: str | None = None


class LimitError(PlaitError):
    """A stated limit would be passed."""


class BlockTooLargeError(LimitError):
    """The block would hold more than its limit.

    Of block `label` the write would have made `tokens`, `excess` more than its `max_tokens`; it holds
    `current_tokens` now, and `content` is what.
    """

    label: str = ""
    tokens: int = 0
    max_tokens: int = 0
    excess: int = 0
    current_tokens: int = 0
    content: str = ""


class RequestTooLargeError(LimitError):
    """The request is larger than the server takes."""


class StoreError(PlaitError):
    """The database below could not do what was asked."""


class StoreBusyError(StoreError):
    """The database stayed locked by others past the wait limit; try again."""

    retryable = True


class StoreUnavailableError(StoreError):
    """The database cannot be reached, read or written."""


class CorruptError(StoreError):
    """The database, or a row of it, is damaged."""


class SchemaError(StoreError):
    """The database is not one that this version of plait can use."""


def no_session(id: str, purpose: str = "") -> NotFoundError:
    """What a call raises that needs a session to be there, and for what."""
    return NotFoundError(f"there is no session {id!r}{purpose}; sessions.list() names those there are", session_id=id)
