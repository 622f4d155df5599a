"""Opening, appending, deleting, branching and reading the newest messages, in sessions of many lengths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import plait
from benchmarks.cases import Bench
from benchmarks.ledger import median, now, quiet_memory
from benchmarks.subjects import PlaitSync, RawInsert
from benchmarks.workload import Item, conversation

SIZE = 300
"""Characters of a message here, so that a million of them fit a small disk."""

CHANGES: Final[dict[str, Callable[[plait.Session, dict[str, Any], str], object]]] = {
    "append then": lambda session, message, _id: session.append(message),
    "branch": lambda session, message, id: session.append(message, parent=id),
    "delete": lambda session, _message, id: session.delete(id),
}
"""What is compared with each other: what it does to a session, with a message and some other message's id."""


class Length:
    """One session of a length, and SQLite's bare table of the same."""

    def __init__(self, messages: int) -> None:
        self.messages = messages
        self.plait, self.raw = PlaitSync(), RawInsert()

    async def prepare(self, bench: Bench, items: list[Item]) -> None:
        self.path = bench.folder / f"length-{self.messages}.db"
        await self.plait.open(self.path, "process")
        await self.raw.open(bench.folder / f"length-{self.messages}-raw.db", "process")
        for store in (self.plait, self.raw):
            for at in range(0, self.messages, len(items)):
                await store.seed("chat", items[: min(len(items), self.messages - at)])
        self.session: plait.Session = self.plait.session("chat")

    def some_id(self, bench: Bench) -> str:
        """The id of a message anywhere in the session."""
        seq = bench.dice.randint(1, self.messages - 1)
        (message,) = self.session.transcript(after_seq=seq - 1, limit=1)
        return message.id


class Lengths:
    """Each length in turn does each thing once, many times over; process durability, where nothing hides it."""

    name = "session length"

    async def prepare(self, bench: Bench) -> None:
        self._items = conversation(5_000, seed=3, size=SIZE)
        self._lengths = [Length(messages) for messages in bench.dose.lengths]
        for length in self._lengths:
            await length.prepare(bench, self._items)

    async def round(self, bench: Bench) -> None:
        taken: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
        with quiet_memory():
            for n in range(bench.dose.length_samples):
                for length in bench.dice.sample(self._lengths, len(self._lengths)):
                    await self._appends(length, self._items[n % len(self._items)], taken)
                    await self._reads(bench, length, "last", taken)
            for n in range(bench.dose.length_samples):
                for length in bench.dice.sample(self._lengths, len(self._lengths)):
                    self._changes(bench, length, self._items[n % len(self._items)], taken)
                    await self._reads(bench, length, "last, branched", taken)
                    self._opens(length, taken)
        for (measure, subject, messages), times in taken.items():
            bench.ledger.note(f"{measure} at {messages}", subject, median(times))

    async def _appends(self, length: Length, item: Item, taken: dict[tuple[str, str, int], list[float]]) -> None:
        for store in (length.plait, length.raw):
            start = now()
            await store.append("chat", item)
            taken["append", store.name, length.messages].append(now() - start)

    def _changes(
        self, bench: Bench, length: Length, item: Item, taken: dict[tuple[str, str, int], list[float]]
    ) -> None:
        """One of each in any order, each after the same: whatever comes first finds the caches cold."""
        session, message = length.session, item.native()
        for name in bench.dice.sample(tuple(CHANGES), len(CHANGES)):
            id, leaf = length.some_id(bench), session.leaf()
            assert leaf is not None
            start = now()
            CHANGES[name](session, message, id)
            taken[name, "plait", length.messages].append(now() - start)
            if name == "branch":
                session.checkout(leaf.id)
            session.append(message)  # the first after a delete or a checkout looks the leaf up again

    def _opens(self, length: Length, taken: dict[tuple[str, str, int], list[float]]) -> None:
        """The file is open here already, as it is for a second process."""
        start = now()
        sessions = plait.open(length.path, durability="process")
        leaf = sessions.session("chat").leaf()
        taken["open", "plait", length.messages].append(now() - start)
        sessions.close()
        assert leaf is not None

    async def _reads(
        self, bench: Bench, length: Length, measure: str, taken: dict[tuple[str, str, int], list[float]]
    ) -> None:
        for store in (length.plait, length.raw):
            start = now()
            found = await store.last("chat", bench.dose.last)
            taken[measure, store.name, length.messages].append(now() - start)
            assert len(found) == bench.dose.last

    async def finish(self) -> None:
        for length in self._lengths:
            await length.plait.close()
            await length.raw.close()
