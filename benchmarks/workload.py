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


def chinese(count: int, *, seed: int = 9) -> list[Item]:
    """Messages of some 0.5 to 3 KB in made-up Chinese: words of one to four characters, as often as Zipf says."""
    dice = random.Random(seed)
    common = [chr(0x4E00 + dice.randrange(3_000)) for _ in range(2_000)]
    made = ["".join(dice.choices(common, k=dice.choice((1, 2, 2, 2, 3, 4)))) for _ in range(20_000)]
    weights = [1 / (rank + 2) for rank in range(len(made))]
    drawn = dice.choices(made, weights, k=200_000)
    starts = [dice.randrange(len(drawn) - 400) for _ in range(count)]
    return [
        Item(ROLES[n % len(ROLES)], "，".join(drawn[at : at + dice.randrange(60, 400)])) for n, at in enumerate(starts)
    ]
