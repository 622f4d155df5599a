"""Other stores, each behind the same few calls. One that is not installed says so and is left out.
`docs/benchmarks.md` says what to install.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.ledger import Ledger
from benchmarks.subjects import SYNCHRONOUS, Durability, RawInsertOrjson, Subject
from benchmarks.workload import Item


class OpenAISQLite:
    """OpenAI Agents' SQLiteSession; WAL and synchronous=FULL as shipped."""

    name = "OpenAI SQLiteSession"

    async def open(self, path: Path, durability: Durability) -> None:
        from agents import SQLiteSession

        class Tuned(SQLiteSession):
            @staticmethod
            def _configure_connection(connection: sqlite3.Connection) -> None:
                SQLiteSession._configure_connection(connection)
                connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")

        self._make: Callable[[str], Any] = lambda session: Tuned(session, path)
        self._sessions: dict[str, Any] = {}

    def _session(self, session: str) -> Any:
        if session not in self._sessions:
            self._sessions[session] = self._make(session)
        return self._sessions[session]

    async def append(self, session: str, item: Item) -> None:
        await self._session(session).add_items([item.chat()])

    async def seed(self, session: str, items: list[Item]) -> None:
        await self._session(session).add_items([item.chat() for item in items])

    async def load(self, session: str) -> list[Any]:
        return list(await self._session(session).get_items())

    async def last(self, session: str, count: int) -> list[Any]:
        return list(await self._session(session).get_items(limit=count))

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()


class OpenAISQLAlchemy(OpenAISQLite):
    """OpenAI Agents' SQLAlchemySession over aiosqlite."""

    name = "OpenAI SQLAlchemySession"

    async def open(self, path: Path, durability: Durability) -> None:
        from agents.extensions.memory import SQLAlchemySession

        self._engine = _engine(path, durability)
        self._make = lambda session: SQLAlchemySession(session, engine=self._engine, create_tables=True)
        self._sessions = {}

    async def close(self) -> None:
        await self._engine.dispose()


class LangChainSQL:
    """LangChain's SQLChatMessageHistory over aiosqlite. It reads the newest messages by reading all."""

    name = "LangChain SQLChatMessageHistory"

    async def open(self, path: Path, durability: Durability) -> None:
        from langchain_community.chat_message_histories import SQLChatMessageHistory

        self._engine = _engine(path, durability)
        self._histories: dict[str, Any] = {}
        self._make: Callable[[str], Any] = lambda session: SQLChatMessageHistory(session, connection=self._engine)

    def _history(self, session: str) -> Any:
        if session not in self._histories:
            self._histories[session] = self._make(session)
        return self._histories[session]

    async def append(self, session: str, item: Item) -> None:
        await self._history(session).aadd_messages([_langchain(item)])

    async def seed(self, session: str, items: list[Item]) -> None:
        await self._history(session).aadd_messages([_langchain(item) for item in items])

    async def load(self, session: str) -> list[Any]:
        return list(await self._history(session).aget_messages())

    async def last(self, session: str, count: int) -> list[Any]:
        return (await self.load(session))[-count:]

    async def close(self) -> None:
        await self._engine.dispose()


def _langchain(item: Item) -> Any:
    from langchain_core.messages import AIMessage, HumanMessage

    return (HumanMessage if item.role == "user" else AIMessage)(content=item.text)


class ADKDatabase:
    """Google ADK's DatabaseSessionService (SQLAlchemy over aiosqlite)."""

    name = "ADK DatabaseSessionService"

    async def open(self, path: Path, durability: Durability) -> None:
        from google.adk.sessions import DatabaseSessionService

        self._path = path
        self._service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
        _tune(self._service.db_engine, durability)
        self._sessions: dict[str, Any] = {}
        self._creating = asyncio.Lock()

    async def _session(self, session: str) -> Any:
        async with self._creating:
            if session not in self._sessions:
                self._sessions[session] = await self._service.create_session(
                    app_name="bench", user_id="user", session_id=session
                )
            return self._sessions[session]

    async def append(self, session: str, item: Item) -> None:
        await self._service.append_event(await self._session(session), _event(item))

    async def seed(self, session: str, items: list[Item]) -> None:
        """It has no bulk append: rows like the one it writes, at a millisecond each."""
        await self.append(session, items[0])
        database = sqlite3.connect(self._path)
        database.row_factory = sqlite3.Row
        one = dict(database.execute("SELECT * FROM events WHERE session_id = ?", (session,)).fetchone())
        rows = [
            {**one, "id": f"{session}-{n}", "event_data": _event(item).model_dump_json(exclude_none=True)}
            for n, item in enumerate(items[1:])
        ]
        with database:
            marks = ", ".join(f":{name}" for name in one)
            database.executemany(f"INSERT INTO events ({', '.join(one)}) VALUES ({marks})", rows)
        database.close()

    async def load(self, session: str) -> list[Any]:
        found = await self._service.get_session(app_name="bench", user_id="user", session_id=session)
        return list(found.events) if found is not None else []

    async def last(self, session: str, count: int) -> list[Any]:
        from google.adk.sessions.base_session_service import GetSessionConfig

        config = GetSessionConfig(num_recent_events=count)
        found = await self._service.get_session(app_name="bench", user_id="user", session_id=session, config=config)
        return list(found.events) if found is not None else []

    async def close(self) -> None:
        await self._service.db_engine.dispose()


class ADKSqlite(ADKDatabase):
    """Google ADK's SqliteSessionService, which opens the file anew for every call; given a file in WAL mode."""

    name = "ADK SqliteSessionService"

    async def open(self, path: Path, durability: Durability) -> None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        assert durability == "strict", "its connections cannot be told to write otherwise"
        database = sqlite3.connect(path)
        database.execute("PRAGMA journal_mode = WAL")
        database.close()
        self._path = path
        self._service: Any = SqliteSessionService(str(path))
        self._sessions = {}
        self._creating = asyncio.Lock()

    async def close(self) -> None:
        pass


def _event(item: Item) -> Any:
    from google.adk.events import Event
    from google.genai import types

    role = "user" if item.role == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=item.text)])
    return Event(author=role, invocation_id="bench", content=content)


class LangGraphSqlite:
    """LangGraph's SqliteSaver: after each message a checkpoint whose state is the whole list, as a graph's step puts it."""

    name = "LangGraph SqliteSaver"

    async def open(self, path: Path, durability: Durability) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._saver: Any = SqliteSaver(self._connection)
        self._saver.setup()
        self._connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        self._begin()

    def _begin(self) -> None:
        self._lists: dict[str, list[Any]] = {}
        self._configs: dict[str, Any] = {}

    def _config(self, session: str) -> Any:
        return {"configurable": {"thread_id": session, "checkpoint_ns": ""}}

    def _add(self, session: str, items: list[Item]) -> tuple[Any, Any, Any, Any]:
        """What a step that adds these messages gives the saver."""
        from langgraph.checkpoint.base import empty_checkpoint

        messages = self._lists.setdefault(session, [])
        for item in items:
            message = _langchain(item)
            message.id = f"{session} {len(messages)}"
            messages.append(message)
        version = f"{len(messages):032}.0"
        checkpoint: Any = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(messages)}
        checkpoint["channel_versions"] = {"messages": version}
        about = {"source": "loop", "step": len(messages), "parents": {}}
        return self._configs.get(session) or self._config(session), checkpoint, about, {"messages": version}

    async def append(self, session: str, item: Item) -> None:
        await self.seed(session, [item])

    async def seed(self, session: str, items: list[Item]) -> None:
        self._configs[session] = self._saver.put(*self._add(session, items))

    async def load(self, session: str) -> list[Any]:
        return list(self._saver.get_tuple(self._config(session)).checkpoint["channel_values"]["messages"])

    async def last(self, session: str, count: int) -> list[Any]:
        return (await self.load(session))[-count:]

    async def close(self) -> None:
        self._connection.close()


class LangGraphAsyncSqlite(LangGraphSqlite):
    """LangGraph's AsyncSqliteSaver, likewise."""

    name = "LangGraph AsyncSqliteSaver"

    async def open(self, path: Path, durability: Durability) -> None:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self._ends = AsyncSqliteSaver.from_conn_string(str(path))
        self._saver = await self._ends.__aenter__()
        await self._saver.setup()
        await self._saver.conn.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        self._begin()

    async def seed(self, session: str, items: list[Item]) -> None:
        self._configs[session] = await self._saver.aput(*self._add(session, items))

    async def load(self, session: str) -> list[Any]:
        found = await self._saver.aget_tuple(self._config(session))
        return list(found.checkpoint["channel_values"]["messages"])

    async def close(self) -> None:
        await self._ends.__aexit__(None, None, None)


def _engine(path: Path, durability: Durability) -> Any:
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    _tune(engine, durability)
    return engine


def _tune(engine: Any, durability: Durability) -> None:
    """Let every connection of an engine write as durably as the others, in WAL mode, which is in its favour."""
    from sqlalchemy import event

    @event.listens_for(engine.sync_engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        cursor.close()


SQLALCHEMY_BASED: tuple[type[Subject], ...] = (OpenAISQLAlchemy, LangChainSQL, ADKDatabase)
PEERS: tuple[type[Subject], ...] = (OpenAISQLite, *SQLALCHEMY_BASED)


async def append_or_note(ledger: Ledger, store: Subject, session: str, item: Item) -> bool:
    """Append, and answer whether it was done: a peer that gives up, as on a locked file, is noted; plait may not."""
    try:
        await store.append(session, item)
    except Exception as error:
        if type(store).__module__ != __name__:
            raise
        ledger.failed[store.name, type(error).__name__] += 1
        return False
    return True


async def missing(folder: Path, kinds: Iterable[type[Subject]] = (*PEERS, RawInsertOrjson)) -> dict[str, str]:
    """Why each of these that cannot be used cannot be, by its name."""
    found: dict[str, str] = {}
    for kind in kinds:
        peer = kind()
        try:
            await peer.open(folder / "probe.db", "strict")
            await peer.append("probe", Item("user", "hello"))
            await peer.close()
        except ImportError as error:
            found[kind.name] = f"not installed ({error.name or 'a dependency'})"
        except Exception as error:  # a release that works otherwise than this adapter knows
            found[kind.name] = f"does not run: {error!r:.80}"
        for suffix in ("", "-wal", "-shm"):
            (folder / f"probe.db{suffix}").unlink(missing_ok=True)
    return found
