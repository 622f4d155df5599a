"""Times as the store keeps them, microseconds since 1970 UTC, and as users see them."""

from __future__ import annotations

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def from_us(at_us: int) -> dt.datetime:
    """The aware UTC time."""
    return _EPOCH + dt.timedelta(microseconds=at_us)


def to_us(at: dt.datetime) -> int:
    """Microseconds since 1970 UTC of an aware time."""
    return (at - _EPOCH) // dt.timedelta(microseconds=1)
