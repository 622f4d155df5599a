"""The messages that are measured with: the same in every run, made without network."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any, Final

ROLES: Final = ("user", "assistant", "assistant", "tool")
_SIZES: Final = {"user": (5.5, 0.7, 60, 2000), "assistant": (7.0, 0.7, 80, 5000), "tool": (7.9, 0.5, 200, 6000)}
"""Logarithm of the median length, its spread, the least and the most."""

_TEXT: Final = "\n".join(str(topics[name]) for name in sorted(topics))
"""Prose with code in it: what Python's own manual says about the language."""


@dataclass(frozen=True, slots=True)
class Item:
    """One message, to be given to each store in the form it takes."""

    role: str
    text: str

    def native(self) -> dict[str, Any]:
        return {"role": self.role, "parts": [{"type": "text", "text": self.text}]}

    def chat(self) -> dict[str, Any]:
        return {"role": "user" if self.role == "user" else "assistant", "content": self.text}


def conversation(count: int, *, seed: int = 7, size: int | None = None) -> list[Item]:
    """Messages of 0.1 to 6 KB, 1.6 KB in the mean, or all of `size` characters."""
    dice = random.Random(seed)
    return [_item(dice, ROLES[n % len(ROLES)], size) for n in range(count)]


def _item(dice: random.Random, role: str, size: int | None) -> Item:
    mu, sigma, least, most = _SIZES[role]
    length = size if size is not None else int(min(most, max(least, dice.lognormvariate(mu, sigma))))
    text = _TEXT if length < len(_TEXT) else _TEXT * (length // len(_TEXT) + 1)
    start = dice.randrange(len(text) - length)
    return Item(role, text[start : start + length])
