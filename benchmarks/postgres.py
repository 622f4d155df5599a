"""PostgreSQL: plait on a server beside psycopg itself and LangGraph's saver.

    python -m benchmarks.postgres                         # --rounds 7, --each 200
    python -m benchmarks.postgres --docs                  # write the table into docs/benchmarks.md

Needs a server: `--url`, or the tests' own, started for the run with its fsync on. Figures are medians of the rounds of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg

import plait
from benchmarks import report
from benchmarks.goals import Row
from benchmarks.ledger import Ledger, median, now, quiet_memory
from benchmarks.run import say
from benchmarks.workload import Item, conversation
from plait._async.sessions import AsyncSessions
from plait.store._async.store import AsyncPlanStore
from plait.store.postgres.driver import PostgresDriver
from plait.store.postgres.settings import Settings

ROOT = Path(__file__).parents[1]
CALLERS = (1, 16, 64)
HEADINGS: Final = (
    "what", "plait", "over raw psycopg", "over the same plans on 16 connections", "over LangGraph AsyncPostgresSaver",
    "plait under LangGraph over that",
)  # fmt: skip
PACKAGES: Final = ("psycopg", "langgraph", "langgraph-checkpoint-postgres", "msgspec")
Append = Callable[[int, Item], Awaitable[None]]

_UPDATE = """UPDATE plait.session SET next_seq = %s, leaf = %s, version = %s, messages = messages + 1, bytes = bytes + %s,
 tokens = tokens + %s, path_messages = path_messages + 1, path_bytes = path_bytes + %s, path_tokens = path_tokens + %s,
 active_at = %s WHERE home = %s AND session = %s"""
_ID = "INSERT INTO plait.message_id (home, incarnation, id, key) VALUES (%s, %s, %s, %s)"
_MESSAGE = """INSERT INTO plait.message (home, key, version, bytes, tokens, created_at, flags, format, role, id, body)
 VALUES (%s, %s, %s, %s, %s, %s, 0, '', %s, %s, %s)"""
_LOAD = "SELECT body FROM plait.message WHERE home = %s ORDER BY key"
_LAST = "SELECT body FROM plait.message WHERE home = %s ORDER BY key DESC LIMIT 20"


class Raw:
    """psycopg, one connection a caller: the same UPDATE and INSERTs as plait's append, in one pipeline."""

    name = "raw psycopg"
    share = 1.0

    def __init__(self, url: str) -> None:
        self._url = url
        self._connections: dict[int, psycopg.AsyncConnection[Any]] = {}
        self._homes = [uuid4() for _ in range(max(CALLERS))]
        self._seqs: defaultdict[int, int] = defaultdict(int)

    async def open(self) -> None:
        for n, home in enumerate(self._homes):
            connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True, prepare_threshold=1)
            self._connections[n] = connection
            row = (home, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "", f"raw {home}")
            columns = """home, session, incarnation, live, next_seq, leaf, version, epoch, messages, bytes, tokens,
                path_messages, path_bytes, path_tokens, created_at, active_at, tenant, owner, id"""
            marks = ", ".join(["%s"] * len(row))
            await connection.execute(f"INSERT INTO plait.session ({columns}) VALUES ({marks})".encode(), row)

    async def append(self, n: int, item: Item) -> None:
        self._seqs[n] = seq = self._seqs[n] + 1
        connection, home, key, id = self._connections[n], self._homes[n], 1 << 32 | seq, str(uuid4())
        body = json.dumps({"id": id, **item.native()}).encode()
        size, at = len(body), time.time_ns() // 1000
        moved = (seq + 1, key, seq, size, size // 4, size, size // 4, at, home, 1)
        async with connection.pipeline():
            await connection.execute("BEGIN")
            await connection.execute(_UPDATE, moved)
            await connection.execute(_ID, (home, 1, id, key))
            await connection.execute(_MESSAGE, (home, key, seq, size, size // 4, at, item.role, id, body))
            await connection.execute("COMMIT")

    async def load(self, n: int) -> int:
        rows = await (await self._connections[n].execute(_LOAD, (self._homes[n],))).fetchall()
        return len([json.loads(body) for (body,) in rows])

    async def last(self, n: int) -> int:
        rows = await (await self._connections[n].execute(_LAST, (self._homes[n],))).fetchall()
        return len([json.loads(body) for (body,) in reversed(rows)])

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()


class Plait:
    """plait as it is: appends of many callers share transactions."""

    name = "plait"
    share = 1.0
    driver: type[PostgresDriver] = PostgresDriver

    def __init__(self, url: str) -> None:
        self._sessions = AsyncSessions(AsyncPlanStore(self.driver(Settings(url))))
        self._chats: list[plait.AsyncSession] = []

    async def open(self) -> None:
        await self._sessions.open()
        self._chats = [self._sessions.session(f"{self.name} {uuid4()}") for _ in range(max(CALLERS))]
        await asyncio.gather(*(chat.append(plait.user("hello")) for chat in self._chats))

    async def append(self, n: int, item: Item) -> None:
        await self._chats[n].append(item.native())

    async def load(self, n: int) -> int:
        return len([row.to_dict() async for row in self._chats[n].history() if isinstance(row, plait.Message)])

    async def last(self, n: int) -> int:
        window = await self._chats[n].recent(count=20)
        return len([row.to_dict() for row in window.messages if isinstance(row, plait.Message)])

    async def seed(self, n: int, items: list[Item]) -> None:
        for start in range(0, len(items), 500):
            await self._chats[n].append_many([item.native() for item in items[start : start + 500]])

    async def close(self) -> None:
        await self._sessions.close()


class _Alone(PostgresDriver):
    async def write_async(self, plan: Any, weight: int = 0, *, light: bool = False) -> Any:
        return await super().write_async(plan, weight)


class Pooled(Plait):
    """The control: the same plans, each by itself on one of 16 connections."""

    name = "plait, each by itself"
    driver = _Alone


class LangGraphSaver:
    """LangGraph's AsyncPostgresSaver: a checkpoint that holds the whole list, after each message, as a graph's step puts it."""

    name = "LangGraph AsyncPostgresSaver"
    share = 0.1
    """Of the appends of others: what it writes grows with the square of them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._messages: defaultdict[int, list[Any]] = defaultdict(list)
        self._configs: dict[int, Any] = {}
        self._saver: Any = None

    async def open(self) -> None:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        self._ends: Any = AsyncPostgresSaver.from_conn_string(self._url)
        self._saver = await self._ends.__aenter__()
        await self._saver.setup()
        self._begin()

    def _begin(self) -> None:
        for n in range(max(CALLERS)):
            self._configs[n] = {"configurable": {"thread_id": f"{self.name} {uuid4()}", "checkpoint_ns": ""}}

    async def append(self, n: int, item: Item) -> None:
        from langchain_core.messages import AIMessage
        from langgraph.checkpoint.base import empty_checkpoint

        messages = self._messages[n]
        messages.append(AIMessage(item.text, id=f"{n} {len(messages)}"))
        version = f"{len(messages):032}.0"
        checkpoint: Any = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(messages)}
        checkpoint["channel_versions"] = {"messages": version}
        about: Any = {"source": "loop", "step": len(messages), "parents": {}}
        self._configs[n] = await self._saver.aput(self._configs[n], checkpoint, about, {"messages": version})

    async def load(self, n: int) -> int:
        found = await self._saver.aget_tuple(self._configs[n])
        return len(found.checkpoint["channel_values"]["messages"]) if found else 0

    async def last(self, n: int) -> int:
        return min(20, await self.load(n))

    async def close(self) -> None:
        await self._ends.__aexit__(None, None, None)


class UnderLangGraph(LangGraphSaver):
    """plait as LangGraph's checkpointer, given the same."""

    name = "plait under LangGraph"

    async def open(self) -> None:
        from plait.adapters.langgraph import PlaitSaver

        self._opened = plait.open_async(self._url)
        await self._opened.open()
        self._saver = PlaitSaver(self._opened)
        self._begin()

    async def close(self) -> None:
        await self._opened.close()


STORES: Final[tuple[Any, ...]] = (Raw, Plait, Pooled, UnderLangGraph, LangGraphSaver)


async def measure(url: str, rounds: int, each: int) -> Ledger:
    """Every store in turn, in each round."""
    ledger = Ledger()
    stores: list[Any] = []
    for kind in STORES:
        store = kind(url)
        try:
            await store.open()
        except ImportError as error:
            ledger.absent[kind.name] = f"not installed ({error.name})"
            continue
        stores.append(store)
    items = conversation(max(each * 4, 200), seed=3)
    for round in range(rounds):
        for callers in CALLERS:
            for store in stores if round % 2 else reversed(stores):
                await _appends(ledger, store, callers, max(2, int(each * store.share) // min(callers, 8)), items)
        for store in stores:
            for measure in ("load", "last"):
                await _reads(ledger, store, measure, max(1, each // 20))
        say(f"round {round + 1} of {rounds}")
    for store in stores:
        await store.close()
    return ledger


async def _appends(ledger: Ledger, store: Any, callers: int, each: int, items: list[Item]) -> None:
    async def caller(n: int) -> None:
        for i in range(each):
            await store.append(n, items[(n * each + i) % len(items)])

    with quiet_memory():
        busy, start = time.process_time(), now()
        await asyncio.gather(*(caller(n) for n in range(callers)))
        took, cpu = now() - start, time.process_time() - busy
    ledger.note(f"time an append, {callers} callers", store.name, took / (callers * each))
    ledger.note(f"CPU of the client an append, {callers} callers", store.name, cpu / (callers * each))


async def _reads(ledger: Ledger, store: Any, measure: str, count: int) -> None:
    read = getattr(store, measure)
    busy, start, rows = time.process_time(), now(), 0
    for _ in range(count):
        rows += await read(0)
    label, count = ("load, a message", max(1, rows)) if measure == "load" else ("last 20", count)
    ledger.note(label, store.name, (now() - start) / count)
    ledger.note(f"CPU of the client, {label}", store.name, (time.process_time() - busy) / count)


def lines(ledger: Ledger) -> Iterator[tuple[str, ...]]:
    """A line for each measure: plait's figure, and what it is of each other store's."""
    for measure in ledger.figures:
        mine = ledger.spread(measure, Plait.name)
        if mine is not None:
            over = (_over(ledger, measure, Plait.name, name) for name in (Raw.name, Pooled.name, LangGraphSaver.name))
            adapter = _over(ledger, measure, UnderLangGraph.name, LangGraphSaver.name)
            yield measure, f"{mine.median * 1e6:,.0f} µs", *over, adapter


def _over(ledger: Ledger, measure: str, mine: str, name: str) -> str:
    ratios = ledger.ratios(measure, mine, name)
    return f"{median(ratios):.2g} × ({min(ratios):.2g} – {max(ratios):.2g})" if ratios else "–"


def goals(ledger: Ledger) -> Iterator[Row]:
    alone = ledger.ratios("time an append, 1 callers", Plait.name, Raw.name)
    yield Row("append, one caller, over raw psycopg doing the same in one pipeline", "≤", 1.3, "×", alone)
    many = ledger.ratios("time an append, 64 callers", Pooled.name, Plait.name)
    what = "append, 64 callers: rate over the same plans one by one on a pool of 16 connections"
    yield Row(what, "≥", 3, "×", many)


def report_of(ledger: Ledger, about: dict[str, Any]) -> str:
    absent = "".join(f"\n\n{name}: {reason}." for name, reason in ledger.absent.items())
    parts = (report.heading(about), report.table(list(goals(ledger))), report.aligned([HEADINGS, *lines(ledger)]))
    return "\n\n".join(parts) + absent


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """The URL given, or a database of a server started for the run, which writes to the disk as one in use does."""
    if url is not None:
        yield url
        return
    from tests import postgres_server as server

    server.SETTINGS.update({"fsync": "on", "full_page_writes": "on", "autovacuum": "on", "shared_buffers": "256MB"})
    server.begin()
    try:
        with server.database() as found:
            yield found
    finally:
        server.end()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres", description=__doc__)
    parser.add_argument("--url", help="a database that may be written to")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--each", type=int, default=200, help="appends of one caller, in a round")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md too")
    parser.add_argument("--out", type=Path, help="where the figures go as JSON")
    chosen = parser.parse_args(arguments)
    about = report.machine(Path(tempfile.gettempdir()), chosen.rounds, PACKAGES)
    with warnings.catch_warnings(), database(chosen.url) as url:
        warnings.simplefilter("ignore")
        about["packages"]["PostgreSQL"] = version(url)
        ledger = asyncio.run(measure(url, chosen.rounds, chosen.each))
    told = report_of(ledger, about)
    print(told)
    if chosen.docs:
        report.put(ROOT, "postgres", told)
    if chosen.out:
        chosen.out.write_text(json.dumps({**ledger.to_json(), "absent": ledger.absent}, indent=1), encoding="utf-8")


def version(url: str) -> str:
    """The server's, once the schema is there."""
    with plait.open(url) as sessions:
        sessions.list(limit=1)
    with psycopg.connect(url) as connection:
        return str(connection.execute("SHOW server_version").fetchall()[0][0]).split()[0]


if __name__ == "__main__":
    main()
