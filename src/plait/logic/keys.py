"""Under which key an entry is kept that a model writes: the rule of the source system."""

from __future__ import annotations

import re
import struct
from typing import Final

SLUG_UNITS: Final = 60
_OTHER: Final = re.compile("[^a-z0-9]+")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def entry_key(content: str, title: str | None = None) -> str:
    """The key of an entry: its title as a slug, so that the same title updates it, else made from its content.

    >>> entry_key("Hello World, this is content")
    'hello-world-this-is-content-j8xwas'
    >>> entry_key("anything", "My Title!!")
    'my-title'
    """
    if title is not None and title.strip():
        return slug(title) or f"entry-{fnv1a(title)}"
    return f"{slug(content) or 'entry'}-{fnv1a(content)}"


def slug(text: str) -> str:
    """The first 60 UTF-16 units in lower case, all but letters a-z and digits as single hyphens."""
    units = text[:SLUG_UNITS].encode("utf-16-le", "surrogatepass")[: 2 * SLUG_UNITS]
    return _OTHER.sub("-", units.decode("utf-16-le", "surrogatepass").lower()).strip("-")


def fnv1a(text: str) -> str:
    """The 32-bit FNV-1a hash of the UTF-16 units of `text`, in base 36."""
    value = 0x811C9DC5
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (value ^ unit) * 0x01000193 & 0xFFFFFFFF
    return _base36(value)


def _base36(value: int) -> str:
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
