"""Full-text search: how soon it answers, what it costs the writer, how fast and how large its index gets."""

from __future__ import annotations

import time
from collections import defaultdict
from itertools import islice
from pathlib import Path

import apsw

from benchmarks.cases import Bench
from benchmarks.cases.lengths import SIZE
from benchmarks.ledger import median, now, quiet_memory
from benchmarks.subjects import PlaitSync
from benchmarks.workload import Item, chinese, conversation

QUERIES = {
    "rare": ["parenthesized", "metaclass", "traceback", '"attribute references"', "coroutine awaitable"],
    "common": ["the", "object", "expression", '"of the"', "function name"],
}
"""Words of a few messages in a hundred, and of every second one."""


class Searching:
    """One long session that is searched; two short ones that are appended to, one of them indexed; two indexes weighed."""

    name = "search"

    async def prepare(self, bench: Bench) -> None:
        self._long, self._off, self._on = PlaitSync(), PlaitSync(), PlaitSync()
        for store, name in ((self._long, "long"), (self._off, "off"), (self._on, "on")):
            await store.open(bench.folder / f"search-{name}.db", "process")
        self._items = conversation(5_000, seed=5, size=SIZE)
        for at in range(0, bench.dose.searched, len(self._items)):
            await self._long.seed("chat", self._items[: min(len(self._items), bench.dose.searched - at)])
        self._long.sessions.build_search_index()
        for store in (self._off, self._on):
            await store.seed("chat", self._items[: bench.dose.warm])
        self._on.session("chat").search("the")

    async def round(self, bench: Bench) -> None:
        with quiet_memory():
            self._answers(bench)
            await self._appends(bench)
        for label, items in (("Latin", conversation(bench.dose.sizes, seed=8)), ("Chinese", chinese(bench.dose.sizes))):
            await self._index(bench, label, items)

    def _answers(self, bench: Bench) -> None:
        """Queries of both kinds in turns, both orders; the middle and the slowest hundredth."""
        chat, taken = self._long.session("chat"), defaultdict[str, list[float]](list)
        for n in range(bench.dose.searches):
            for kind, queries in QUERIES.items():
                for order in bench.dice.sample(("best first", "newest first"), 2):
                    query = queries[n % len(queries)]
                    start, cpu = now(), time.process_time()
                    hits = chat.search(query, newest_first=order == "newest first")
                    taken[f"{kind}, {order}"].append(now() - start)
                    taken[f"{kind}, {order}, cpu"].append(time.process_time() - cpu)
                    assert len(hits) <= 20
        for what, times in taken.items():
            bench.ledger.note(f"search {what}", PlaitSync.name, median(times))
            slowest = sorted(times)[int(len(times) * 0.99)] if len(times) > 1 else times[0]
            bench.ledger.note(f"search p99 {what}", PlaitSync.name, slowest)

    async def _appends(self, bench: Bench) -> None:
        """An append where an index follows, one right after a search, and one where nobody ever searched."""
        taken = defaultdict[str, list[float]](list)
        for item in islice(self._items, bench.dose.length_samples):
            for what in bench.dice.sample(("off", "on", "after a search"), 3):
                store = self._off if what == "off" else self._on
                if what == "after a search":
                    store.session("chat").search("parenthesized", newest_first=True)
                start = time.process_time()
                await store.append("chat", item)
                taken[what].append(time.process_time() - start)
        for what, times in taken.items():
            bench.ledger.note(f"append, search {what}", PlaitSync.name, median(times))

    async def _index(self, bench: Bench, label: str, items: list[Item]) -> None:
        """A store of its own, indexed anew in every round."""
        path = bench.folder / f"search-index-{label}.db"
        new, store = not path.exists(), PlaitSync()
        await store.open(path, "process")
        if new:
            await store.seed("chat", items)
        start, cpu = now(), time.process_time()
        done = store.sessions.build_search_index(rebuild=True)
        bench.ledger.note(f"backfill {label}", PlaitSync.name, done / (now() - start))
        bench.ledger.note(f"backfill cpu {label}", PlaitSync.name, done / (time.process_time() - cpu))
        await store.close()
        given = sum(len(item.text.encode()) for item in items)
        bench.ledger.note(f"index {label}", PlaitSync.name, index_bytes(path) / given)

    async def finish(self) -> None:
        for store in (self._long, self._off, self._on):
            await store.close()


def index_bytes(path: Path) -> int:
    """What the pages of the index's own tables take."""
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = ("message_words_data", "message_words_idx", "message_words_docsize")
        pages = database.execute(f"SELECT sum(pgsize) FROM dbstat WHERE name IN {tables}").fetchall()
        return int(pages[0][0])
    finally:
        database.close()
