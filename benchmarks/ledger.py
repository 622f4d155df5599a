"""What was measured: a figure per measure, subject and round, and what the rounds say together."""

from __future__ import annotations

import gc
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

now = time.perf_counter


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the rounds of a run."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        return cls(min(values), statistics.median(values), max(values))


class Ledger:
    """Figures by measure and subject, one for each round."""

    def __init__(self) -> None:
        self.figures: defaultdict[str, dict[str, list[float]]] = defaultdict(dict)
        self.absent: dict[str, str] = {}
        """Subjects that could not take part, and why."""
        self.failed: Counter[tuple[str, str]] = Counter()
        """How many appends of a peer raised an error of a kind, which plait's may not."""

    def note(self, measure: str, subject: str, value: float) -> None:
        self.figures[measure].setdefault(subject, []).append(value)

    def values(self, measure: str, subject: str) -> list[float]:
        """A figure in each round; empty if the subject took no part."""
        return self.figures.get(measure, {}).get(subject, [])

    def ratios(self, measure: str, subject: str, over: str, over_measure: str | None = None) -> list[float]:
        """A subject's figure over another's, round by round, so that a slow minute counts for both."""
        mine, other = self.values(measure, subject), self.values(over_measure or measure, over)
        return [a / b for a, b in zip(mine, other, strict=False) if b]

    def spread(self, measure: str, subject: str) -> Spread | None:
        values = self.values(measure, subject)
        return Spread.of(values) if values else None

    def to_json(self) -> dict[str, Any]:
        return {"figures": {measure: dict(subjects) for measure, subjects in self.figures.items()}}


@contextmanager
def quiet_memory() -> Iterator[None]:
    """Collect what earlier measurements left behind, so that it is not collected during the next."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def median(values: list[float]) -> float:
    return statistics.median(values)


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` took."""
    start = now()
    work()
    return now() - start
