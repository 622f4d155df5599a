"""The measurements: each prepares its stores once, then notes one figure per measure in every round."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.dose import Dose
from benchmarks.ledger import Ledger


@dataclass
class Bench:
    """What a run has: where it may write, how much it is to do, where figures go."""

    folder: Path
    dose: Dose
    ledger: Ledger
    dice: random.Random = field(default_factory=lambda: random.Random(11))

    def here(self, subject: str) -> bool:
        """Whether a subject takes part."""
        return subject not in self.ledger.absent


class Case(Protocol):
    """One measurement."""

    name: str

    async def prepare(self, bench: Bench) -> None: ...
    async def round(self, bench: Bench) -> None: ...
    async def finish(self) -> None: ...
