"""How much of a repeated thing a test does: little in every run, much in a soak."""

from __future__ import annotations

import os
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

NAME = os.environ.get("PLAIT_DOSE", "short")
if NAME not in ("short", "soak"):
    raise RuntimeError(f"PLAIT_DOSE is {NAME!r}; it is `short` (the default) or `soak`")
SOAK = NAME == "soak"


def dose(*, short: T, soak: T) -> T:
    """The amount for this run, as in `for _ in range(dose(short=40, soak=1000))`.

    Both amounts stand in the test: a soak is the same test with larger numbers, never another one.
    """
    return soak if SOAK else short


def is_chosen(name: str, one_of: int) -> bool:
    """Whether a test is one of those that stand for so many each, by the sum of its name: the same ones in every run."""
    return crc32(name.encode()) % one_of == 0
