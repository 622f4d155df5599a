"""The rules for ids: what a caller may choose, and what plait makes when none is given."""

from __future__ import annotations

from plait.errors import InvalidMessageError, UsageError

MAX_ID_BYTES = 512
MAX_RECORD_KEY_BYTES = 2048
RESERVED_PREFIX = "plait:"
"""Session ids that begin so are plait's own: the default session, stages, a scope's shared context."""

DEFAULT_SESSION = RESERVED_PREFIX + "default"
STAGE_PREFIX = RESERVED_PREFIX + "stage:"
SHARED_SESSION = RESERVED_PREFIX + "shared"
"""The hidden session of a scope that keeps the values which all its sessions share."""


def check_id(value: object, what: str, error: type[UsageError] = UsageError) -> str:
    """`value` as an id, or `error` naming `what` it was meant to be.

    An id is any Unicode string of 1 to 512 UTF-8 bytes with at least one visible character.
    """
    if not isinstance(value, str):
        raise error(f"{what} must be a string, not {type(value).__name__}")
    if not value.isascii():
        _check_encodable(value, what, error)
    elif len(value) > MAX_ID_BYTES:
        raise error(f"{what} is {len(value)} bytes long; at most {MAX_ID_BYTES} are allowed")
    if not value.isprintable() or value.isspace() or not value:
        _check_visible(value, what, error)
    return value


def _check_encodable(value: str, what: str, error: type[UsageError]) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise error(f"{what} holds half a surrogate pair, which is not a character; leave it out") from None
    if size > MAX_ID_BYTES:
        raise error(f"{what} is {size} UTF-8 bytes long; at most {MAX_ID_BYTES} are allowed")


def _check_visible(value: str, what: str, error: type[UsageError]) -> None:
    if not any(char.isprintable() and not char.isspace() for char in value):
        raise error(f"{what} is empty, blank or only control characters; give it one that can be seen, or leave it out")


def can_be_stored(value: object) -> bool:
    """Whether `value` is text that a database can hold; what is not names nothing that is there."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(value: object, what: str) -> None:
    """Raise `UsageError` unless `value` is text that a database can hold."""
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a string, not {type(value).__name__}")
    if not can_be_stored(value):
        raise UsageError(f"{what} holds half a surrogate pair, which is not a character; leave it out")


def is_hidden(session_id: str) -> bool:
    """Whether no listing shows the session: a stage, or the one with the shared values of its scope."""
    return session_id == SHARED_SESSION or session_id.startswith(STAGE_PREFIX)


def check_message_id(value: object) -> str:
    """`value` as a message's id."""
    try:
        return check_id(value, "id", InvalidMessageError)
    except InvalidMessageError as error:
        error.path = "id"
        raise


def check_session_id(value: object) -> str:
    """`value` as a session's id that a caller may choose."""
    text = check_id(value, "session id")
    if text.startswith(RESERVED_PREFIX):
        raise UsageError(f"session ids that begin with {RESERVED_PREFIX!r} are reserved; choose another")
    return text


def check_own_id(value: object) -> str:
    """`value` as a session's id that a caller may write to: one of their choice, or the default session's."""
    return DEFAULT_SESSION if value == DEFAULT_SESSION else check_session_id(value)


def refuse_hidden(value: object) -> None:
    """Raise `UsageError` for the id of a session that is plait's own affair."""
    if isinstance(value, str) and is_hidden(value):
        raise UsageError(
            f"session {value!r} is plait's own; blocks that all sessions share are changed with context of any of them"
        )


def uuid7(time_ms: int, random: int) -> str:
    """The UUIDv7 (RFC 9562) of a Unix time in milliseconds and 74 random bits."""
    return "%08x-%04x-7%03x-%04x-%012x" % (  # noqa: UP031 - of all ways to say this the quickest
        time_ms >> 16 & 0xFFFFFFFF,
        time_ms & 0xFFFF,
        random >> 62 & 0xFFF,
        0x8000 | random >> 48 & 0x3FFF,
        random & 0xFFFFFFFFFFFF,
    )
