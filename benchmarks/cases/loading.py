"""Reading a whole history, and what that does to an event loop meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import Final

import plait
from benchmarks.cases import Bench
from benchmarks.ledger import median, now, quiet_memory
from benchmarks.peers import PEERS, RawInsertOrjson
from benchmarks.subjects import PlaitAsync, PlaitSync, RawInsert, Subject
from benchmarks.workload import conversation

KINDS: Final[tuple[type[Subject], ...]] = (RawInsert, RawInsertOrjson, PlaitSync, PlaitAsync, *PEERS)
LOADS: Final = 5
"""Loads of each store in a round, whose median counts: one alone says more about the minute than about the store."""

LARGE: Final = ((300, 64 << 10), (40, 480 << 10), (12, 2 << 20))
"""A session of large messages: how many of which size."""


class Loading:
    """The history to Python values, each store from a file of its own, already in the system's cache."""

    name = "whole history"

    async def prepare(self, bench: Bench) -> None:
        items = conversation(bench.dose.load, seed=4)
        self._stores = [kind() for kind in KINDS if bench.here(kind.name)]
        for n, store in enumerate(self._stores):
            await store.open(bench.folder / f"load-{n}.db", "process")
            await store.seed("chat", items)
            assert len(await store.load("chat")) == bench.dose.load, store.name

    async def round(self, bench: Bench) -> None:
        taken: defaultdict[str, list[float]] = defaultdict(list)
        for _ in range(LOADS):
            for store in bench.dice.sample(self._stores, len(self._stores)):
                with quiet_memory():
                    start = now()
                    found = await store.load("chat")
                    taken[store.name].append(now() - start)
                del found
        for name, times in taken.items():
            bench.ledger.note("load", name, median(times))

    async def finish(self) -> None:
        for store in self._stores:
            await store.close()


class Holding:
    """The longest time that a task which streams keeps another from its turn."""

    name = "event loop"

    async def prepare(self, bench: Bench) -> None:
        self._store = PlaitAsync()
        await self._store.open(bench.folder / "hold.db", "process")
        await self._store.seed("usual", conversation(bench.dose.load, seed=5))
        for count, size in LARGE:
            count, size = (count, size) if bench.dose.load >= 1000 else (2, size >> 4)
            for item in conversation(count, seed=6, size=size):
                await self._store.append("large", item)

    async def round(self, bench: Bench) -> None:
        for session in bench.dice.sample(["usual", "large"], 2):
            with quiet_memory():
                wall, cpu = await self._longest(session)
            bench.ledger.note(f"hold, {session}", "wall", wall)
            bench.ledger.note(f"hold, {session}", "cpu", cpu)

    async def _longest(self, session: str) -> tuple[float, float]:
        """The longest gap between two turns of a task that always wants one: on the clock, and of CPU time."""
        gaps: list[tuple[float, float]] = []
        reading = asyncio.create_task(self._read(session))
        while not reading.done():
            start, busy = now(), time.thread_time()
            await asyncio.sleep(0)
            gaps.append((now() - start, time.thread_time() - busy))
        await reading
        return max(wall for wall, _ in gaps), max(cpu for _, cpu in gaps)

    async def _read(self, session: str) -> int:
        size = 0
        async for message in self._store.session(session).history():
            size += message.bytes if isinstance(message, plait.Message) else 0
        return size

    async def finish(self) -> None:
        await self._store.close()
