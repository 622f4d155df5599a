"""plait under a framework beside that framework's own store, through the same interface and at equal durability."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

import plait
from benchmarks.cases import Bench
from benchmarks.ledger import median, now, quiet_memory
from benchmarks.peers import OpenAISQLite
from benchmarks.subjects import Durability, Subject
from benchmarks.workload import conversation

LASTS: Final = 10
"""Reads of the newest items in a round, whose median counts."""


class PlaitOpenAI(OpenAISQLite):
    """plait as a session of the OpenAI Agents SDK."""

    name = "plait under OpenAI Agents"

    async def open(self, path: Path, durability: Durability) -> None:
        from plait.adapters.openai_agents import PlaitSession

        self._opened = plait.open_async(path, durability=durability)
        await self._opened.open()
        self._make = lambda session: PlaitSession(self._opened.session(session))
        self._sessions = {}

    async def close(self) -> None:
        await self._opened.close()


PAIRS: Final[tuple[tuple[type[Subject], type[Subject]], ...]] = ((PlaitOpenAI, OpenAISQLite),)
"""Each adapter, and the framework's own store that it is measured beside."""


class Adapters:
    """Appends of one caller and of many, whole conversations and the newest items, of both in turns."""

    name = "adapters"

    async def prepare(self, bench: Bench) -> None:
        self._items = conversation(bench.dose.warm + bench.dose.lone, seed=8)
        self._crowd = conversation(bench.dose.per_caller_peers, seed=9)
        self._pairs: list[list[Subject]] = []
        for pair in PAIRS:
            if bench.here(pair[1].name):
                self._pairs.append([kind() for kind in pair])
                for n, store in enumerate(self._pairs[-1]):
                    await store.open(bench.folder / f"adapters-{len(self._pairs)}-{n}.db", "strict")
                    await store.seed("chat", self._items[: bench.dose.warm])
                    for caller in range(bench.dose.crowd):
                        await store.append(f"chat {caller}", self._items[0])

    async def round(self, bench: Bench) -> None:
        for stores in self._pairs:
            await self._one_caller(bench, stores)
            for store in bench.dice.sample(stores, len(stores)):
                await self._many_callers(bench, store)
            await self._reads(bench, stores)

    async def _one_caller(self, bench: Bench, stores: list[Subject]) -> None:
        taken: defaultdict[str, list[float]] = defaultdict(list)
        cpu: defaultdict[str, float] = defaultdict(float)
        with quiet_memory():
            for item in self._items[-bench.dose.lone :]:
                for store in bench.dice.sample(stores, len(stores)):
                    busy, start = time.process_time(), now()
                    await store.append("chat", item)
                    taken[store.name].append(now() - start)
                    cpu[store.name] += time.process_time() - busy
        for name, times in taken.items():
            bench.ledger.note("adapter append", name, median(times))
            bench.ledger.note("adapter append, cpu", name, cpu[name] / len(times))

    async def _many_callers(self, bench: Bench, store: Subject) -> None:
        with quiet_memory():
            busy, start = time.process_time(), now()
            await asyncio.gather(*(self._caller(store, n) for n in range(bench.dose.crowd)))
            took, cpu = now() - start, time.process_time() - busy
        appends = bench.dose.crowd * len(self._crowd)
        bench.ledger.note("adapter rate", store.name, appends / took)
        bench.ledger.note("adapter rate, cpu", store.name, cpu / appends)

    async def _caller(self, store: Subject, n: int) -> None:
        for item in self._crowd:
            await store.append(f"chat {n}", item)

    async def _reads(self, bench: Bench, stores: list[Subject]) -> None:
        taken: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for _ in range(LASTS):
            for store in bench.dice.sample(stores, len(stores)):
                with quiet_memory():
                    start = now()
                    found = await store.last("chat", bench.dose.last)
                    middle = now()
                    whole = await store.load("chat")
                    taken["adapter load", store.name].append(now() - middle)
                    taken["adapter last", store.name].append(middle - start)
                assert found == whole[-bench.dose.last :], store.name
        for (measure, name), times in taken.items():
            bench.ledger.note(measure, name, median(times))

    async def finish(self) -> None:
        for stores in self._pairs:
            for store in stores:
                await store.close()
