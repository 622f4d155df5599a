"""Many callers at once, each with a session of its own, in one file."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from benchmarks.cases import Bench
from benchmarks.ledger import now, percentile, quiet_memory
from benchmarks.peers import SQLALCHEMY_BASED, OpenAISQLite, append_or_note
from benchmarks.slowdisk import SlowDisk
from benchmarks.subjects import PlaitAsync, RawInsert, RawTransaction, Subject
from benchmarks.workload import Item, conversation

RAW: Final[tuple[type[Subject], ...]] = (RawInsert, RawTransaction)
SEED: Final = 200


class Crowd:
    """Appends per second of a crowd in strict durability; SQLite alone has one writer."""

    name = "many callers"

    async def prepare(self, bench: Bench) -> None:
        self._items = conversation(max(bench.dose.warm, bench.dose.crowd * bench.dose.per_caller), seed=2)
        self._stores: list[Subject] = []
        for kind in (PlaitAsync, *RAW, OpenAISQLite, *SQLALCHEMY_BASED):
            if bench.here(kind.name):
                await self._prepare(bench, kind())

    async def _prepare(self, bench: Bench, store: Subject) -> None:
        await store.open(bench.folder / f"crowd-{len(self._stores)}.db", "strict")
        quick = isinstance(store, (PlaitAsync, *RAW))
        await store.seed("warm", self._items if quick else self._items[:SEED])
        for n in range(1 if isinstance(store, RAW) else max(bench.dose.callers)):
            if quick or n < bench.dose.crowd:
                await store.append(f"chat {n}", self._items[0])  # so that no session is made while time is taken
        self._stores.append(store)

    async def round(self, bench: Bench) -> None:
        for store in bench.dice.sample(self._stores, len(self._stores)):
            if isinstance(store, RAW):
                await self._measure(bench, store, 1, bench.dose.crowd * bench.dose.per_caller)
                continue
            quick = isinstance(store, PlaitAsync)
            for callers in bench.dice.sample(bench.dose.callers, len(bench.dose.callers)):
                if quick or callers <= bench.dose.crowd:
                    each = bench.dose.per_caller if quick else bench.dose.per_caller_peers
                    await self._measure(bench, store, callers, max(each, 20 * each // callers))
        await self._slow_disk(bench)

    async def _measure(self, bench: Bench, store: Subject, callers: int, each: int) -> None:
        taken: list[float] = []
        with quiet_memory():
            busy, start = time.process_time(), now()
            await asyncio.gather(*(self._caller(bench, store, n, each, taken) for n in range(callers)))
            took, cpu = now() - start, time.process_time() - busy
        note = bench.ledger.note
        note(f"rate {callers}", store.name, len(taken) / took)
        note(f"rate cpu {callers}", store.name, cpu / max(1, len(taken)))
        note(f"rate p99 {callers}", store.name, percentile(taken or [took], 0.99))

    async def _caller(self, bench: Bench, store: Subject, n: int, each: int, taken: list[float]) -> None:
        for item in self._share(n, each):
            start = now()
            if await append_or_note(bench.ledger, store, f"chat {n}", item):
                taken.append(now() - start)

    def _share(self, n: int, each: int) -> list[Item]:
        return [self._items[(n * each + k) % len(self._items)] for k in range(each)]

    async def _slow_disk(self, bench: Bench) -> None:
        """The crowd and one caller on a disk with a slow fsync."""
        path = bench.folder / f"slow-{bench.dice.getrandbits(60)}.db"
        with SlowDisk(bench.dose.slow_fsync_s):
            store = PlaitAsync()
            await store.open(path, "strict")
            for callers, each in bench.dice.sample([(1, 30), (bench.dose.crowd, bench.dose.per_caller)], 2):
                taken: list[float] = []
                for n in range(callers):
                    await store.append(f"chat {n}", self._items[0])
                start = now()
                await asyncio.gather(*(self._caller(bench, store, n, each, taken) for n in range(callers)))
                name = "one at a time" if callers == 1 else "crowd"
                bench.ledger.note("rate, slow disk", name, len(taken) / (now() - start))
            await store.close()

    async def finish(self) -> None:
        for store in self._stores:
            await store.close()
