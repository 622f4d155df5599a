"""One ranking out of several that know nothing of each other's scores."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, TypeVar

K: Final = 60
"""How much a first place counts over a later one: the constant of Cormack, Clarke and Büttcher (2009)."""

T = TypeVar("T", bound=Hashable)


def fused(*rankings: Iterable[T]) -> list[tuple[T, float]]:
    """Reciprocal rank fusion: each ranking gives an item `1 / (K + its rank)`; the highest sum comes first.

    Of equal ones that comes first which an earlier ranking has first. An item twice in one ranking
    counts where it stands first.
    """
    scores: dict[T, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            scores[item] = scores.get(item, 0.0) + 1 / (K + rank)
    return sorted(scores.items(), key=lambda found: -found[1])
