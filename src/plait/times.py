"""Times as the store keeps them, microseconds since 1970 UTC, and as users see them."""

from __future__ import annotations

import datetime as dt

from plait.errors import UsageError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def from_us(at_us: int) -> dt.datetime:
    """The aware UTC time."""
    return _EPOCH + dt.timedelta(microseconds=at_us)


def to_us(at: dt.datetime) -> int:
    """Microseconds since 1970 UTC of an aware time; `UsageError` for what is none, or has no UTC equal."""
    if not isinstance(at, dt.datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise UsageError(f"a time must be a datetime, not {type(at).__name__}")
    if at.tzinfo is None:
        raise UsageError("a time must say its zone; use datetime.now(timezone.utc) or .astimezone()")
    try:
        return (at.astimezone(dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)
    except OverflowError:
        raise UsageError(f"{at.isoformat()} is before the year 1 or after the year 9999 in UTC") from None
