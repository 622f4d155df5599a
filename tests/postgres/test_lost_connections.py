"""Connections that are lost, and others in the way: a write is done once and answered as if nothing had been."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

import plait
from plait import Session, Sessions
from plait.errors import StoreUnavailableError
from plait.store.postgres._sync.connecting import Line
from plait.store.postgres._sync.executor import Executor
from tests.dose import dose
from tests.postgres.test_many_writers import in_threads
from tests.postgres_server import database

Operation = Callable[[Sessions], Any]


def chat(sessions: Sessions) -> Session:
    return sessions.session("chat")


def text(id: str, words: str = "words") -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": words}]}


def picture(id: str) -> dict[str, Any]:
    return {
        "id": id,
        "role": "user",
        "parts": [{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}],
    }


def turn_of(session: Session) -> Any:
    with session.lease(ttl_s=30) as turn:
        return turn.append(text("new")).inserted


OPERATIONS: dict[str, Operation] = {
    "append": lambda sessions: chat(sessions).append(text("new")).inserted,
    "append with a made id": lambda sessions: chat(sessions).append(plait.user("new")).inserted,
    "append_many": lambda sessions: [item.inserted for item in chat(sessions).append_many([text("x"), picture("y")])],
    "append to a new session": lambda sessions: sessions.session("other").append(text("new")).inserted,
    "branch": lambda sessions: chat(sessions).append(text("new"), parent="b").inserted,
    "update": lambda sessions: chat(sessions).update(text("b", "other words")) is not None,
    "delete": lambda sessions: chat(sessions).delete(["c", "p"]),
    "clear": lambda sessions: chat(sessions).clear(),
    "checkout": lambda sessions: chat(sessions).checkout("b"),
    "fork": lambda sessions: [message.id for message in chat(sessions).fork("copy").transcript()],
    "update_state": lambda sessions: chat(sessions).update_state({"k": 1}),
    "create": lambda sessions: sessions.create("made", name="n").name,
    "records": lambda sessions: chat(sessions).write_records({b"p": b"1"}, keep={b"k": b"2"}).kept,
    "records of a new session": lambda sessions: sessions.session("other").write_records(keep={b"k": b"2"}).kept,
    "break a lease": lambda sessions: [chat(sessions).lease().__enter__().id, chat(sessions).break_lease()],
    "give a lease back": lambda sessions: [turn_of(chat(sessions)), chat(sessions).break_lease()],
    "delete session": lambda sessions: sessions.delete("chat"),
}


def fill(sessions: Sessions) -> None:
    chat(sessions).append_many([text("a"), text("b"), text("c"), picture("p"), text("d")])


def all_of(sessions: Sessions) -> list[Any]:
    """All there is, without what differs from one time to another: made ids."""
    found: list[Any] = []
    for info in sessions.list().sessions:
        session = sessions.session(info.id)
        rows = [
            (row.seq, row.role, row.to_dict()["parts"])
            for row in session.everything()
            if not isinstance(row, plait.Damaged)
        ]
        changes = [(change.kind, change.version, len(change.ids)) for change in session.changes().changes]
        found.append((info.id, info.name, info.version, info.totals, session.state(), rows, changes))
    return sorted(found)


class Trouble:
    """Makes the n-th time something is sent to the server fail, before or after it was done."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, at: int, fail: Callable[[Executor, list[Any]], list[Any]]
    ) -> None:
        self.sent = 0
        self.met = False
        send = Executor._send_all

        def sending(executor: Executor) -> list[Any]:
            self.sent += 1
            if self.sent != at or self.met:
                return send(executor)
            self.met = True
            return fail(executor, [])

        monkeypatch.setattr(Executor, "_send_all", sending)
        self._send = send


def lost_before(executor: Executor, _: list[Any]) -> list[Any]:
    executor.connection.pgconn.finish()
    raise psycopg.OperationalError("the connection is lost")


SEND = Executor._send_all


def lost_after(executor: Executor, _: list[Any]) -> list[Any]:
    SEND(executor)
    executor.connection.pgconn.finish()
    raise psycopg.OperationalError("the connection is lost")


def in_the_way(executor: Executor, _: list[Any]) -> list[Any]:
    raise errors.SerializationFailure("somebody was faster")


def deadlock(executor: Executor, _: list[Any]) -> list[Any]:
    raise errors.DeadlockDetected("two waited for each other")


def demoted(executor: Executor, _: list[Any]) -> list[Any]:
    """The server has become a standby; its successor is found on another connection."""
    raise errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction")


FAILURES = dose(short=[lost_after, in_the_way], soak=[lost_before, lost_after, in_the_way, deadlock, demoted])


CASES = dict.fromkeys([*itertools.product(OPERATIONS, FAILURES), ("append", demoted), ("update", demoted)])


@pytest.mark.parametrize(("name", "fail"), CASES, ids=lambda item: getattr(item, "__name__", item))
def test_trouble_at_any_step_changes_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch, name: str, fail: Callable[[Executor, list[Any]], list[Any]]
) -> None:
    with plait.open(url) as sessions:
        fill(sessions)
        answer, after = OPERATIONS[name](sessions), all_of(sessions)
        for at in itertools.count(1):
            anew = sessions.scoped(str(at))
            fill(anew)
            with monkeypatch.context() as patch:
                trouble = Trouble(patch, at, fail)
                assert OPERATIONS[name](anew) == answer, at
            assert all_of(anew) == after, at
            if not trouble.met:
                break
    assert at > 1, "the operation was never troubled"


def test_a_server_that_ends_all_connections_is_connected_to_again(sessions: Sessions, url: str) -> None:
    """B-038."""
    fill(sessions)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    for n in range(3):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"{others} AND pid <> pg_backend_pid()".encode())
        assert chat(sessions).append(text(f"after {n}")).inserted
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"{others} AND pid <> pg_backend_pid()".encode())
        assert next(chat(sessions).history(newest_first=True)).id == f"after {n}"


def end_all(url: str, allow: Callable[[str], None] | None = None) -> None:
    """End every other connection to a database, and let nobody make another one if that can be told to `allow`."""
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    with psycopg.connect(url, autocommit=True) as connection:
        if allow is not None:
            allow("false")
        connection.execute(f"{others} AND pid <> pg_backend_pid()".encode())


@pytest.mark.parametrize("schema", ["made", "there"])
def test_a_store_opens_though_its_connection_ends_at_any_step(monkeypatch: pytest.MonkeyPatch, schema: str) -> None:
    with database(fresh=True) as url:
        for at in itertools.count(1, dose(short=3, soak=1)):
            asked = itertools.count(1)

            def ending(send: Callable[..., Any], n: int = at, asked: Iterator[int] = asked) -> Callable[..., Any]:
                def sending(line: Line, *args: Any, **kwargs: Any) -> Any:
                    if next(asked) == n:
                        end_all(url)
                    return send(line, *args, **kwargs)

                return sending

            if schema == "made":
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute("DROP SCHEMA plait CASCADE")
            with monkeypatch.context() as patch:
                patch.setattr(Line, "execute", ending(Line.execute))
                patch.setattr(Line, "talk", ending(Line.talk))
                with plait.open(url) as sessions:
                    assert chat(sessions).append(text(f"after {at}")).inserted
            if next(asked) <= at:
                break
    assert at > (20 if schema == "made" else 2)


@pytest.mark.parametrize("kind", ["history", "newest first", "transcript", "batches", "everything", "changes"])
def test_a_reader_whose_connection_ends_in_mid_read_reads_on(sessions: Sessions, url: str, kind: str) -> None:
    """Each window is a transaction of its own: the next one is asked for on another connection."""
    ids = [f"m{n}" for n in range(230)]
    chat(sessions).append_many([text(id, "words " * 20) for id in ids])
    readers: dict[str, Callable[[Session], Any]] = {
        "history": lambda session: (row.id for row in session.history()),
        "newest first": lambda session: (row.id for row in session.history(newest_first=True)),
        "transcript": lambda session: (row.id for row in session.transcript()),
        "batches": lambda session: (row.id for batch in session.batches(count=20) for row in batch),
        "everything": lambda session: (row.id for row in session.everything()),
        "changes": lambda session: (id for change in session.changes(limit=1000).changes for id in change.ids),
    }
    found: list[str] = []
    for n, id in enumerate(readers[kind](chat(sessions))):
        if n % 60 == 30:
            end_all(url)
        found.append(id)
    assert found == (ids[::-1] if kind == "newest first" else ids)


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_task_whose_connection_ends_in_mid_read_reads_on(url: str, newest_first: bool) -> None:
    ids = [f"m{n}" for n in range(230)]
    async with plait.open_async(url) as sessions:
        session, found = sessions.session("chat"), list[str]()
        await session.append_many([text(id, "words " * 20) for id in ids])
        async for row in session.transcript(newest_first=newest_first):
            if len(found) % 60 == 30:
                await asyncio.to_thread(end_all, url)
            found.append(row.id)
    assert found == (ids[::-1] if newest_first else ids)


def test_a_reader_that_cannot_go_on_says_so_and_another_goes_on_after_its_last_message() -> None:
    def allow(may: str) -> None:
        server, _, name = url.rpartition("/")
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {may}".encode())

    with database(fresh=True) as url, plait.open(url, busy_timeout_s=1) as sessions:
        chat(sessions).append_many([text(f"m{n}", "words " * 20) for n in range(230)])
        found = list[int]()
        with pytest.raises(StoreUnavailableError):
            for row in chat(sessions).transcript():
                if not found:
                    end_all(url, allow)
                found.append(row.seq or 0)
        allow("true")
        found += [row.seq or 0 for row in chat(sessions).transcript(after_seq=found[-1])]
        assert found == list(range(1, 231))


def test_connections_that_end_all_the_time_lose_nothing(sessions: Sessions, url: str) -> None:
    """Each fifth time somebody has written, all connections end, wherever the others are."""
    each, turn = dose(short=10, soak=500), threading.Lock()

    def write(n: int) -> None:
        for i in range(each):
            assert sessions.session(f"chat {n % 2}").append(text(f"{n}-{i}")).inserted
            assert sessions.session(f"chat {n % 2}").get(f"{n}-{i}") is not None
            if i % 5 == n:
                with turn:  # or they would end one another
                    end_all(url)

    in_threads(4, write)
    for half in range(2):
        found = list(sessions.session(f"chat {half}").history())
        assert [message.seq for message in found] == list(range(1, 2 * each + 1))
        assert {message.id for message in found} == {f"{n}-{i}" for n in (half, half + 2) for i in range(each)}
