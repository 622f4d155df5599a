"""Where waiting and trying again end, in which order a batch locks, and what is never cancelled."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import plait
from plait import Sessions
from plait.errors import StoreBusyError
from plait.store.plan import Row
from plait.store.postgres._async import running as awaited
from plait.store.postgres._async.executor import AsyncExecutor
from plait.store.postgres._sync import running
from plait.store.postgres._sync.executor import Executor
from plait.store.postgres.statements import Statement, load, own
from tests.dose import dose
from tests.postgres.test_lost_connections import OPERATIONS, fill
from tests.postgres_pair import wait_until
from tests.postgres_server import database
from tests.sql import rules


def text(id: str, words: str = "words") -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": words}]}


# -- trying again

REFUSING = """
CREATE SEQUENCE tries;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $refuse$ BEGIN
  IF nextval('tries') <= (SELECT times FROM refused) THEN
    RAISE EXCEPTION 'somebody was faster' USING ERRCODE = (SELECT state FROM refused);
  END IF;
  RETURN new;
END $refuse$;
CREATE TABLE refused AS SELECT 0 AS times, '40001' AS state;
CREATE TRIGGER refuse BEFORE INSERT ON plait.change FOR EACH ROW EXECUTE FUNCTION refuse();
"""
"""A server that fails the first so many writes of a change; a sequence counts those too that are undone."""


class Refusing:
    """A database that says of writes that others were faster."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.server = psycopg.connect(url, autocommit=True)
        self.server.execute(REFUSING.encode())

    def refuse(self, times: int, state: str) -> None:
        self.server.execute("SELECT setval('tries', 1, false)")
        self.server.execute("UPDATE refused SET times = %s, state = %s", (times, state))

    def tries(self) -> int:
        ((last,),) = self.server.execute("SELECT last_value FROM tries").fetchall()
        return int(last)


@pytest.fixture(scope="module")
def refusing() -> Iterator[Refusing]:
    with database(fresh=True) as url:
        found = Refusing(url)
        yield found
        found.server.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After which tries there was a pause; there is none here."""
    found: list[int] = []

    def pause(tries: int) -> float:
        found.append(tries)
        return 0.0

    monkeypatch.setattr(running, "_pause_s", pause)
    monkeypatch.setattr(awaited, "_pause_s", pause)
    return found


def update(face: str, url: str, words: str) -> str:
    """Write something that leaves a change, and look at what is there then, on one face."""
    if face == "sync":
        with plait.open(url) as sessions:
            sessions.session("chat").update(text("a", words))
            return sessions.session("chat").get("a").text  # type: ignore[union-attr]

    async def work() -> str:
        async with plait.open_async(url) as sessions:
            await sessions.session("chat").update(text("a", words))
            return (await sessions.session("chat").get("a")).text  # type: ignore[union-attr]

    return asyncio.run(work())


@pytest.mark.parametrize("state", ["40001", "40P01"])
@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_write_that_others_keep_getting_in_the_way_of_is_tried_up_to_the_bound(
    refusing: Refusing, pauses: list[int], face: str, state: str
) -> None:
    refusing.refuse(0, state)
    with plait.open(refusing.url) as sessions:
        sessions.session("chat").append(text("a"))
    refusing.refuse(running.MAX_TRIES - 1, state)
    assert update(face, refusing.url, f"{face} {state}") == f"{face} {state}"
    assert refusing.tries() == running.MAX_TRIES
    assert pauses == [*range(1, running.MAX_TRIES)]
    refusing.refuse(running.MAX_TRIES, state)
    with pytest.raises(
        StoreBusyError, match="others wrote the same rows again and again; what was being written has been undone"
    ) as told:
        update(face, refusing.url, "never")
    assert told.value.retryable and refusing.tries() == running.MAX_TRIES
    with plait.open(refusing.url) as sessions:
        assert sessions.session("chat").get("a").text == f"{face} {state}"  # type: ignore[union-attr]
        assert sessions.doctor() == []


@pytest.mark.parametrize("tries", range(1, running.MAX_TRIES + 1))
def test_pauses_grow_to_a_bound_and_differ(tries: int) -> None:
    whole = min(running.LONGEST_PAUSE_S, running.FIRST_PAUSE_S * 2**tries)
    found = [running._pause_s(tries) for _ in range(50)]
    assert all(0.5 * whole <= pause <= 1.5 * whole for pause in found)
    assert len(set(found)) > 1, "who was in each other's way would meet again"


# -- limits of waiting


@pytest.mark.parametrize("writes", [False, True], ids=["a read", "a write"])
def test_a_statement_that_takes_longer_than_is_allowed_ends_in_an_error_and_changes_nothing(
    sessions: Sessions, url: str, writes: bool
) -> None:
    sessions.session("chat").append(text("a"))
    limited = plait.open(url, busy_timeout_s=60, statement_timeout_s=0.2)
    with limited, psycopg.connect(url) as other:
        chat = limited.session("chat")
        other.execute("LOCK TABLE plait.message IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreBusyError, match="a statement took longer than is allowed") as told:
            chat.update(text("a", "other words")) if writes else list(chat.history())
        assert told.value.retryable
        other.rollback()
        assert [message.to_dict() for message in chat.history()] == [text("a")]  # type: ignore[union-attr]
        assert chat.append(text("b")).inserted
    assert sessions.doctor() == []


# -- the order of locks


def test_a_batch_locks_its_sessions_in_the_order_of_their_keys(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches over the same sessions wait for one another, and never each for the other."""
    advance = own()["advance_session"]
    session_at = len(advance.given) + advance.parameters.index("session")
    batches: list[list[tuple[Any, int]]] = []
    send = AsyncExecutor._send_all

    async def sending(executor: AsyncExecutor) -> Any:
        items = [values for query, values in executor._held if query == advance.query]
        batches.append([(values[0], values[session_at]) for values in items])
        return await send(executor)

    async def work() -> None:
        async with plait.open_async(url) as sessions:
            chats = [sessions.session(f"chat {n}") for n in range(20)]
            for id in ("first", "second"):
                for chat in chats:
                    await chat.append(text(id))
            monkeypatch.setattr(AsyncExecutor, "_send_all", sending)
            for n in range(dose(short=3, soak=30)):
                random.Random(n).shuffle(chats)
                await asyncio.gather(*(chat.append(text(f"third {n}")) for chat in chats))

    asyncio.run(work())
    assert len(max(batches, key=len)) > 10, "nothing was done together"
    assert all(batch == sorted(set(batch)) for batch in batches)


# -- what holds a session's rows

UNLOCKED = {"next_number": "a counter's row is its own lock"}
"""Statements that write to a home whose session this transaction has not locked, and why they may."""

PURGING = {"clear", "delete session"}
"""Operations after which the rows of a life that is over are taken away, without a lock: no session has them, and it may
be done twice."""


class Watched:
    """The statements of each write, as they are sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: dict[Executor, list[tuple[Statement, Row]]] = {}
        names = {query: statement for statement in {**load(), **own()}.values() for query in _queries(statement)}
        send = Executor._send_all

        def sending(executor: Executor) -> Any:
            told = self.sent.setdefault(executor, [])
            told += [(names[query], tuple(values)) for query, values in executor._held if query in names]
            return send(executor)

        monkeypatch.setattr(Executor, "_send_all", sending)

    def unlocked(self, *, purges: bool) -> set[str]:
        """Statements that wrote to a home before its session was locked."""
        writes = [sent for sent in self.sent.values() if not purges or any(found.name in LOCKS for found, _ in sent)]
        return {name for sent in writes for name in _unlocked(sent)}


def _queries(statement: Statement) -> list[bytes]:
    with suppress(ValueError):  # most take one row
        return [statement.query, *statement.many.values()]
    return [statement.query]


LOCKS = {"lock_session", "advance_session", "create_session", "lock_home"}


def _unlocked(sent: list[tuple[Statement, Row]]) -> Iterator[str]:
    locked: set[Any] = set()
    for statement, values in sent:
        told = {name: values[n - 1] for name, n in statement._numbers.items() if name in ("home", "other_home")}
        if statement.name in LOCKS:
            locked.add(told["home"])
        elif statement.text.startswith(("INSERT", "UPDATE", "DELETE", "WITH")) and _of_a_home(statement):
            home = told.get("other_home", told.get("home"))
            if home is not None and home not in locked:
                yield statement.name


def _of_a_home(statement: Statement) -> bool:
    (stmt,) = rules.parse(statement.query.decode())
    return not isinstance(stmt, rules.ast.SelectStmt) and stmt.relation.relname not in {*rules.BY_SCOPE, *rules.WHOLE}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_write_begins_with_the_lock_of_its_session(url: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with plait.open(url) as sessions:
        fill(sessions)
        watched = Watched(monkeypatch)
        OPERATIONS[name](sessions)
        assert watched.sent
        assert sorted(watched.unlocked(purges=name in PURGING) - set(UNLOCKED)) == []


# -- what is never cancelled

SLOW_COMMIT = """
CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS $wait$ BEGIN
  PERFORM pg_advisory_xact_lock(1);
  RETURN NULL;
END $wait$;
CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON plait.message DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION wait_at_commit();
"""
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = %s::oid"


class Slow:
    """A database whose commits wait as long as we like."""

    def __init__(self, url: str) -> None:
        self.holder, self.watch = psycopg.connect(url), psycopg.connect(url, autocommit=True)
        self.watch.execute(SLOW_COMMIT.encode())
        self.holder.execute("SELECT pg_advisory_xact_lock(1)")

    def waiting(self) -> bool:
        mine = "SELECT oid FROM pg_database WHERE datname = current_database()"
        ((oid,),) = self.watch.execute(mine).fetchall()
        ((count,),) = self.watch.execute(WAITING, (oid,)).fetchall()
        return bool(count)

    def go_on(self) -> None:
        self.holder.close()
        wait_until(lambda: not self.waiting(), "the commit has gone on")


@pytest.fixture
def slow() -> Iterator[tuple[str, Slow]]:
    with database(fresh=True) as url:
        found = Slow(url)
        try:
            yield url, found
        finally:
            found.go_on()
            found.watch.close()


def test_a_commit_is_not_cancelled_by_who_is_interrupted_while_it_waits(slow: tuple[str, Slow]) -> None:
    """A server that is told to cancel while it waits for its standby says that it has committed, and waits no longer."""
    url, server = slow
    interrupt = threading.Thread(
        target=lambda: (wait_until(server.waiting, "it commits"), os.kill(os.getpid(), signal.SIGINT))
    )
    sessions = plait.open(url)
    sessions.open()
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        sessions.session("chat").append(text("a"))
        interrupt.join()  # the interruption comes a moment later
    interrupt.join()
    assert server.waiting(), "it was cancelled"
    server.go_on()
    wait_until(lambda: sessions.session("chat").get("a") is not None, "it is committed")
    sessions.close()


def test_a_commit_is_not_cancelled_with_its_task(slow: tuple[str, Slow]) -> None:
    url, server = slow

    async def work() -> None:
        sessions = plait.open_async(url)
        await sessions.open()
        task = asyncio.ensure_future(sessions.session("chat").append(text("a")))
        await asyncio.to_thread(wait_until, server.waiting, "it commits")
        assert not task.done()

    asyncio.run(work())  # what is still running when its loop ends is cancelled
    assert server.waiting(), "it was cancelled"
    server.go_on()
    with plait.open(url) as sessions:
        wait_until(lambda: sessions.session("chat").get("a") is not None, "it is committed")


# -- tables that others lock


@pytest.mark.parametrize("table", ["message", "session", "strand"])
def test_a_read_waits_for_a_locked_table_only_so_long(url: str, table: str) -> None:
    """As `VACUUM FULL`, or a change of the schema, locks it."""
    with plait.open(url, busy_timeout_s=2) as sessions:
        chat = sessions.session("chat")
        chat.append(text("m"))
        with psycopg.connect(url) as locking:
            locking.execute(f"LOCK TABLE plait.{table}".encode())
            began = time.monotonic()
            with pytest.raises(StoreBusyError, match="busy_timeout_s"):
                list(chat.history())
            assert time.monotonic() - began < 20
        assert [message.id for message in chat.history()] == ["m"]
