"""PostgreSQL: `python -m benchmarks.postgres` measures plait on a server beside psycopg itself and LangGraph's saver.

Needs a server: `--url`, or the tests' own, started for the run. Figures are ratios of one run, medians of its rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

import plait
from benchmarks.ledger import Ledger, median, now, quiet_memory
from benchmarks.run import say
from benchmarks.workload import Item, conversation
from plait._async.sessions import AsyncSessions
from plait.store._async.store import AsyncPlanStore
from plait.store.postgres.driver import PostgresDriver
from plait.store.postgres.settings import Settings

CALLERS = (1, 16, 64)
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
    """LangGraph's AsyncPostgresSaver: a checkpoint that holds the whole list, after each message."""

    name = "LangGraph AsyncPostgresSaver"

    def __init__(self, url: str) -> None:
        self._url = url
        self._messages: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self._configs: dict[int, Any] = {}

    async def open(self) -> None:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        self._ends = AsyncPostgresSaver.from_conn_string(self._url)
        self._saver = await self._ends.__aenter__()
        await self._saver.setup()
        for n in range(max(CALLERS)):
            self._configs[n] = {"configurable": {"thread_id": str(uuid4()), "checkpoint_ns": ""}}

    async def append(self, n: int, item: Item) -> None:
        from langgraph.checkpoint.base import empty_checkpoint

        self._messages[n].append(item.chat())
        count = str(len(self._messages[n]))
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(self._messages[n])}
        checkpoint["channel_versions"] = {"messages": count}
        about: Any = {"source": "loop", "step": len(self._messages[n]), "parents": {}}
        self._configs[n] = await self._saver.aput(self._configs[n], checkpoint, about, {"messages": count})

    async def load(self, n: int) -> int:
        found = await self._saver.aget_tuple(self._configs[n])
        return len(found.checkpoint["channel_values"]["messages"]) if found else 0

    async def last(self, n: int) -> int:
        return min(20, await self.load(n))

    async def close(self) -> None:
        await self._ends.__aexit__(None, None, None)


async def measure(url: str, rounds: int, each: int, length: int) -> Ledger:
    """Every store in turn, in each round."""
    ledger = Ledger()
    stores: list[Any] = []
    for kind in (Raw, Plait, Pooled, LangGraphSaver):
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
                await _appends(ledger, store, callers, max(4, each // callers), items)
        for store in stores:
            for measure in ("load", "last"):
                await _reads(ledger, store, measure, max(1, each // 20))
        say(f"round {round + 1} of {rounds}")
    if length:
        await _long(ledger, stores[1], length, each)
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
    label = "load, a message" if measure == "load" else "last 20"
    ledger.note(label, store.name, (now() - start) / (rows if measure == "load" else count))
    ledger.note(
        f"CPU of the client, {label}", store.name, (time.process_time() - busy) / (rows if measure == "load" else count)
    )


async def _long(ledger: Ledger, store: Plait, length: int, each: int) -> None:
    """Appends and the end of a session as it grows to many messages."""
    items, reached = conversation(500, seed=4, size=300), 0
    for mark in [mark for mark in (1_000, 10_000, 100_000, 1_000_000, 5_000_000) if mark <= length]:
        while reached < mark:
            await store.seed(1, items[: min(500, mark - reached)])
            reached += min(500, mark - reached)
        for measure in ("append", "last"):
            taken: list[float] = []
            for n in range(each):
                start = now()
                await (store.append(1, items[n % 500]) if measure == "append" else store.last(1))
                taken.append(now() - start)
            ledger.note(f"{measure} at {mark:,} messages", store.name, median(taken))
        say(f"{mark:,} messages")


def report(ledger: Ledger) -> Iterator[str]:
    """A line for each measure: plait over each other store."""
    for measure, subjects in ledger.figures.items():
        mine = ledger.spread(measure, Plait.name)
        if mine is None:
            continue
        yield f"{measure}: {mine.median * 1e6:,.0f} µs"
        for name in subjects:
            ratios = ledger.ratios(measure, Plait.name, name)
            if name != Plait.name and ratios:
                yield f"    {median(ratios):.2f} × of {name} ({min(ratios):.2f} – {max(ratios):.2f})"
    for name, reason in ledger.absent.items():
        yield f"{name}: {reason}"


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
    parser.add_argument("--length", type=int, default=0, help="how long one session is to grow, up to 5000000")
    parser.add_argument("--out", type=Path, help="where the figures go as JSON")
    chosen = parser.parse_args(arguments)
    with database(chosen.url) as url:
        with plait.open(url) as sessions:
            sessions.list(limit=1)  # the schema is there from here on
        ledger = asyncio.run(measure(url, chosen.rounds, chosen.each, chosen.length))
    print(*report(ledger), sep="\n")
    if chosen.out:
        chosen.out.write_text(json.dumps({**ledger.to_json(), "absent": ledger.absent}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
