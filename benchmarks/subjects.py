"""What is measured against each other: plait in both faces, and SQLite with nothing around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, Protocol

import apsw
import msgspec

import plait
from benchmarks.workload import Item

Durability = Literal["strict", "process"]
SYNCHRONOUS: Final = {"strict": "FULL", "process": "NORMAL"}
SEED_BATCH = 500


class Subject(Protocol):
    """A store under measurement. An append is done, as durably as asked for, when it returns."""

    name: str

    async def open(self, path: Path, durability: Durability) -> None: ...
    async def append(self, session: str, item: Item) -> None: ...
    async def seed(self, session: str, items: list[Item]) -> None: ...
    async def load(self, session: str) -> list[Any]: ...
    async def last(self, session: str, count: int) -> list[Any]: ...
    async def close(self) -> None: ...


def _database(path: Path, durability: Durability) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    return connection


class RawInsert:
    """One autocommitted one-row INSERT of the JSON text: the least that SQLite can do."""

    name = "raw insert"

    async def open(self, path: Path, durability: Durability) -> None:
        self._database = _database(path, durability)
        self._run = self._database.execute
        self._run("CREATE TABLE IF NOT EXISTS message (key INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        self._numbers: dict[str, int] = {}
        self._seqs: dict[str, int] = {}
        self._encode, self._decode = msgspec.json.encode, msgspec.json.decode

    def _first(self, session: str) -> int:
        return self._numbers.setdefault(session, len(self._numbers) + 1) << 32

    async def append(self, session: str, item: Item) -> None:
        self.insert(session, item)

    def insert(self, session: str, item: Item) -> None:
        self._seqs[session] = seq = self._seqs.get(session, 0) + 1
        row = (self._first(session) | seq, self._encode(item.native()).decode())
        self._run("INSERT INTO message VALUES (?, ?)", row)

    async def seed(self, session: str, items: list[Item]) -> None:
        self._run("BEGIN")
        for item in items:
            self.insert(session, item)
        self._run("COMMIT")

    async def load(self, session: str) -> list[Any]:
        first, decode = self._first(session), self._decode
        rows = self._run("SELECT body FROM message WHERE key BETWEEN ? AND ? ORDER BY key", (first, first | 0xFFFFFFFF))
        return [decode(body) for (body,) in rows]

    async def last(self, session: str, count: int) -> list[Any]:
        first = self._first(session)
        sql = "SELECT body FROM message WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT ?"
        rows = self._run(sql, (first, first | 0xFFFFFFFF, count)).fetchall()
        return [self._decode(body) for (body,) in reversed(rows)]

    async def close(self) -> None:
        self._database.close()


class RawInsertOrjson(RawInsert):
    """The same, read with orjson."""

    name = "raw insert, orjson"

    async def open(self, path: Path, durability: Durability) -> None:
        import orjson

        await super().open(path, durability)
        self._decode = orjson.loads


_SCHEMA = """
CREATE TABLE IF NOT EXISTS session (
  session INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL, live INTEGER NOT NULL, next_seq INTEGER NOT NULL,
  leaf INTEGER NOT NULL, version INTEGER NOT NULL, epoch INTEGER NOT NULL, messages INTEGER NOT NULL,
  bytes INTEGER NOT NULL, tokens INTEGER NOT NULL, path_messages INTEGER, path_bytes INTEGER, path_tokens INTEGER,
  created_at INTEGER NOT NULL, active_at INTEGER NOT NULL, id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS message_id (
  session INTEGER NOT NULL, id TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (session, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS message (
  key INTEGER PRIMARY KEY, version INTEGER NOT NULL, bytes INTEGER NOT NULL, tokens INTEGER NOT NULL,
  created_at INTEGER NOT NULL, flags INTEGER NOT NULL, format TEXT NOT NULL, role TEXT NOT NULL, id TEXT NOT NULL,
  body TEXT NOT NULL);
"""
_SAVE = """
UPDATE session SET next_seq = ?, leaf = ?, version = ?, epoch = 0, messages = ?, bytes = bytes + ?,
  tokens = tokens + ?, path_messages = ?, path_bytes = path_bytes + ?, path_tokens = path_tokens + ?, active_at = ?
 WHERE session = ?
"""


class RawTransaction(RawInsert):
    """A transaction of the statements that plait's append needs: the session's row, the id, the message."""

    name = "raw transaction"

    async def open(self, path: Path, durability: Durability) -> None:
        self._database = _database(path, durability)
        self._run = self._database.execute
        self._run(_SCHEMA)
        self._numbers = {}
        self._seqs = {}
        self._encode, self._decode = msgspec.json.encode, msgspec.json.decode

    def _first(self, session: str) -> int:
        number = self._numbers.get(session)
        if number is None:
            number = self._numbers[session] = len(self._numbers) + 1
            self._run("INSERT INTO session VALUES (?, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, ?)", (number, session))
        return number << 32

    async def append(self, session: str, item: Item) -> None:
        self._run("BEGIN IMMEDIATE")
        self.insert(session, item)
        self._run("COMMIT")

    def insert(self, session: str, item: Item) -> None:
        first = self._first(session)
        self._seqs[session] = seq = self._seqs.get(session, 0) + 1
        id = f"{first | seq:036x}"
        body = self._encode({"id": id, **item.native()}).decode()
        size, key = len(body), first | seq
        self._run("INSERT INTO message_id VALUES (?, ?, ?)", (first >> 32, id, key))
        row = (key, seq, size, size // 4, seq, 0, "", item.role, id, body)
        self._run("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._run(_SAVE, (seq + 1, key, seq, seq, size, size // 4, seq, size, size // 4, seq, first >> 32))


class PlaitSync:
    """plait, called as it is from threads."""

    name = "plait"

    async def open(self, path: Path, durability: Durability) -> None:
        self.sessions = plait.open(path, durability=durability)
        self.sessions.open()
        self._handles: dict[str, plait.Session] = {}

    def session(self, session: str) -> plait.Session:
        handle = self._handles.get(session)
        if handle is None:
            handle = self._handles[session] = self.sessions.session(session)
        return handle

    async def append(self, session: str, item: Item) -> None:
        self.session(session).append(item.native())

    async def seed(self, session: str, items: list[Item]) -> None:
        for at in range(0, len(items), SEED_BATCH):
            self.session(session).append_many([item.native() for item in items[at : at + SEED_BATCH]])

    async def load(self, session: str) -> list[Any]:
        return [message.to_dict() for message in self.session(session).history() if isinstance(message, plait.Message)]

    async def last(self, session: str, count: int) -> list[Any]:
        window = self.session(session).recent(count=count)
        return [message.to_dict() for message in window.messages if isinstance(message, plait.Message)]

    async def close(self) -> None:
        self.sessions.close()


class PlaitAsync:
    """plait, awaited."""

    name = "plait, async"

    async def open(self, path: Path, durability: Durability) -> None:
        self.sessions = plait.open_async(path, durability=durability)
        await self.sessions.open()
        self._handles: dict[str, plait.AsyncSession] = {}

    def session(self, session: str) -> plait.AsyncSession:
        handle = self._handles.get(session)
        if handle is None:
            handle = self._handles[session] = self.sessions.session(session)
        return handle

    async def append(self, session: str, item: Item) -> None:
        await self.session(session).append(item.native())

    async def seed(self, session: str, items: list[Item]) -> None:
        for at in range(0, len(items), SEED_BATCH):
            await self.session(session).append_many([item.native() for item in items[at : at + SEED_BATCH]])

    async def load(self, session: str) -> list[Any]:
        history = self.session(session).history()
        return [message.to_dict() async for message in history if isinstance(message, plait.Message)]

    async def last(self, session: str, count: int) -> list[Any]:
        window = await self.session(session).recent(count=count)
        return [message.to_dict() for message in window.messages if isinstance(message, plait.Message)]

    async def close(self) -> None:
        await self.sessions.close()
