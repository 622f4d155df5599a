"""One caller appending, in strict and in process durability."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Final

from benchmarks.cases import Bench
from benchmarks.ledger import median, now, quiet_memory
from benchmarks.peers import OpenAISQLite
from benchmarks.subjects import Durability, PlaitAsync, PlaitSync, RawInsert, RawTransaction, Subject
from benchmarks.workload import conversation

DURABILITIES: Final[tuple[Durability, ...]] = ("strict", "process")
KINDS: Final[tuple[type[Subject], ...]] = (RawInsert, RawTransaction, PlaitSync, PlaitAsync, OpenAISQLite)


class Lone:
    """Every store in turn appends the same message to a file of its own."""

    name = "one caller"

    async def prepare(self, bench: Bench) -> None:
        self._items = conversation(bench.dose.warm + bench.dose.lone, seed=1)
        self._stores: dict[Durability, list[Subject]] = {}
        for durability in DURABILITIES:
            self._stores[durability] = [kind() for kind in KINDS if bench.here(kind.name)]
            for n, store in enumerate(self._stores[durability]):
                await store.open(bench.folder / f"lone-{durability}-{n}.db", durability)
                await store.seed("chat", self._items[: bench.dose.warm])

    async def round(self, bench: Bench) -> None:
        for durability in DURABILITIES:
            await self._one_round(bench, durability)

    async def _one_round(self, bench: Bench, durability: Durability) -> None:
        taken: defaultdict[str, list[float]] = defaultdict(list)
        cpu: defaultdict[str, float] = defaultdict(float)
        with quiet_memory():
            for item in self._items[-bench.dose.lone :]:
                for store in bench.dice.sample(self._stores[durability], len(self._stores[durability])):
                    busy, start = time.process_time(), now()
                    await store.append("chat", item)
                    taken[store.name].append(now() - start)
                    cpu[store.name] += time.process_time() - busy
        for name, times in taken.items():
            bench.ledger.note(f"append {durability}", name, median(times))
            bench.ledger.note(f"append cpu {durability}", name, cpu[name] / len(times))

    async def finish(self) -> None:
        for stores in self._stores.values():
            for store in stores:
                await store.close()
