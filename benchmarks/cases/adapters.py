"""plait under a framework beside that framework's own stores and beside plait itself, each at equal durability."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import plait
from benchmarks.cases import Bench
from benchmarks.dose import Dose
from benchmarks.ledger import median, now, quiet_memory
from benchmarks.peers import (
    ADKDatabase,
    ADKSqlite,
    LangChainSQL,
    LangGraphAsyncSqlite,
    LangGraphSqlite,
    OpenAISQLite,
    append_or_note,
)
from benchmarks.subjects import Durability, PlaitAsync, Subject
from benchmarks.workload import Item, conversation

LASTS: Final = 5
"""Reads in a round, whose median counts."""


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


class PlaitADK(ADKDatabase):
    """plait as ADK's session service."""

    name = "plait under Google ADK"

    async def open(self, path: Path, durability: Durability) -> None:
        from plait.adapters.adk import PlaitSessionService

        self._opened = plait.open_async(path, durability=durability)
        await self._opened.open()
        self._service: Any = PlaitSessionService(self._opened)
        self._sessions = {}
        self._creating = asyncio.Lock()

    async def close(self) -> None:
        await self._opened.close()


class PlaitSaver(LangGraphSqlite):
    """plait as LangGraph's checkpointer, called as it is."""

    name = "plait under LangGraph, sync"

    async def open(self, path: Path, durability: Durability) -> None:
        from plait.adapters import langgraph

        self._opened = plait.open(path, durability=durability)
        self._opened.open()
        self._saver = langgraph.PlaitSaver(self._opened)
        self._begin()

    async def close(self) -> None:
        self._opened.close()


class PlaitAsyncSaver(LangGraphAsyncSqlite):
    """plait as LangGraph's checkpointer, awaited."""

    name = "plait under LangGraph, async"

    async def open(self, path: Path, durability: Durability) -> None:
        from plait.adapters import langgraph

        self._opened = plait.open_async(path, durability=durability)
        await self._opened.open()
        self._saver = langgraph.PlaitSaver(self._opened)
        self._begin()

    async def close(self) -> None:
        await self._opened.close()


class PlaitLangChain(LangChainSQL):
    """plait as a chat history of LangChain's."""

    name = "plait under LangChain"

    async def open(self, path: Path, durability: Durability) -> None:
        from plait.adapters.langchain import PlaitChatMessageHistory

        self._opened = plait.open_async(path, durability=durability)
        await self._opened.open()
        self._histories = {}
        self._make = lambda session: PlaitChatMessageHistory(self._opened.session(session))

    async def close(self) -> None:
        await self._opened.close()


@dataclass(frozen=True, slots=True)
class Group:
    """An adapter and what it is measured beside."""

    ours: type[Subject]
    theirs: tuple[type[Subject], ...]
    share: float = 1.0
    """Of the messages that others have before their appends are timed: less where a store takes its time for each."""
    crowd: bool = True
    """Whether many callers can wait for it at once."""

    def messages(self, dose: Dose) -> int:
        return max(dose.last + 5, int(dose.warm * self.share))

    def appends(self, dose: Dose) -> int:
        return max(4, int(dose.lone * max(self.share, 0.25)))


GROUPS: Final = (
    Group(PlaitOpenAI, (OpenAISQLite,)),
    Group(PlaitADK, (ADKDatabase, ADKSqlite), share=0.125),
    Group(PlaitSaver, (LangGraphSqlite,), share=0.05, crowd=False),
    Group(PlaitAsyncSaver, (LangGraphAsyncSqlite,), share=0.05),
    Group(PlaitLangChain, (LangChainSQL,), share=0.25),
)
MEASURES: Final = {
    "append": "append, one caller: time",
    "append, cpu": "append, one caller: CPU",
    "rate": "append, many callers: each in",
    "rate, cpu": "append, many callers: CPU each",
    "load": "whole conversation: time",
    "load, cpu": "whole conversation: CPU",
    "last": "newest messages: time",
    "last, cpu": "newest messages: CPU",
}
"""What is noted for each store of a group, in seconds."""


def measure_of(group: Group, measure: str) -> str:
    return f"{group.ours.name}, {measure}"


class Adapters:
    """Appends of one caller and of many, whole conversations and the newest messages, of each group in turns."""

    name = "adapters"

    async def prepare(self, bench: Bench) -> None:
        self._crowd = conversation(bench.dose.per_caller_peers, seed=9)
        self._groups: list[tuple[Group, list[Subject]]] = []
        for group in GROUPS:
            theirs = [kind for kind in group.theirs if bench.here(kind.name)]
            if theirs:
                stores = [kind() for kind in (group.ours, PlaitAsync, *theirs)]
                self._groups.append((group, stores))
                await self._fill(bench, group, stores)

    async def _fill(self, bench: Bench, group: Group, stores: list[Subject]) -> None:
        items = conversation(group.messages(bench.dose), seed=8)
        for n, store in enumerate(stores):
            await store.open(bench.folder / f"adapters-{len(self._groups)}-{n}.db", "strict")
            await seed(store, items)
            for caller in range(bench.dose.crowd if group.crowd else 0):
                await store.append(f"chat {caller}", items[0])

    async def round(self, bench: Bench) -> None:
        for group, stores in self._groups:
            await self._one_caller(bench, group, stores)
            for store in bench.dice.sample(stores, len(stores) if group.crowd else 0):
                await self._many_callers(bench, group, store)
            await self._reads(bench, group, stores)

    async def _one_caller(self, bench: Bench, group: Group, stores: list[Subject]) -> None:
        taken: defaultdict[str, list[float]] = defaultdict(list)
        cpu: defaultdict[str, list[float]] = defaultdict(list)
        with quiet_memory():
            for item in conversation(group.appends(bench.dose), seed=10):
                for store in bench.dice.sample(stores, len(stores)):
                    busy, start = time.process_time(), now()
                    await store.append("chat", item)
                    taken[store.name].append(now() - start)
                    cpu[store.name].append(time.process_time() - busy)
        for name, times in taken.items():
            bench.ledger.note(measure_of(group, "append"), name, median(times))
            bench.ledger.note(measure_of(group, "append, cpu"), name, sum(cpu[name]) / len(cpu[name]))

    async def _many_callers(self, bench: Bench, group: Group, store: Subject) -> None:
        with quiet_memory():
            busy, start = time.process_time(), now()
            done = await asyncio.gather(*(self._caller(bench, store, n) for n in range(bench.dose.crowd)))
            took, cpu = now() - start, time.process_time() - busy
        appends = max(1, sum(done))
        bench.ledger.note(measure_of(group, "rate"), store.name, took / appends)
        bench.ledger.note(measure_of(group, "rate, cpu"), store.name, cpu / appends)

    async def _caller(self, bench: Bench, store: Subject, n: int) -> int:
        """How many appends were done."""
        return sum([await append_or_note(bench.ledger, store, f"chat {n}", item) for item in self._crowd])

    async def _reads(self, bench: Bench, group: Group, stores: list[Subject]) -> None:
        taken: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

        async def read(measure: str, store: Subject, reading: Coroutine[Any, Any, list[Any]]) -> list[Any]:
            busy, start = time.process_time(), now()
            found = await reading
            taken[measure, store.name].append(now() - start)
            taken[f"{measure}, cpu", store.name].append(time.process_time() - busy)
            return found

        for _ in range(LASTS):
            with quiet_memory():
                for store in bench.dice.sample(stores, len(stores)):
                    newest = await read("last", store, store.last("chat", bench.dose.last))
                    whole = await read("load", store, store.load("chat"))
                    assert newest == whole[-bench.dose.last :], store.name
        for (measure, name), times in taken.items():
            bench.ledger.note(measure_of(group, measure), name, median(times))

    async def finish(self) -> None:
        for _, stores in self._groups:
            for store in stores:
                await store.close()


async def seed(store: Subject, items: list[Item]) -> None:
    """ADK's events one by one: they are put in order by their time, which a bulk of rows would share."""
    if isinstance(store, ADKDatabase):
        for item in items:
            await store.append("chat", item)
    else:
        await store.seed("chat", items)
