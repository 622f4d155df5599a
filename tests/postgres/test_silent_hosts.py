"""Hosts that say nothing any more without having ended a connection, and clients that stop in the middle of a write."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import plait
from plait.errors import StoreUnavailableError
from plait.store.postgres import settings as given
from plait.store.postgres._sync.connecting import connect
from plait.store.postgres._sync.executor import Executor
from plait.store.postgres.lanes import AsyncLane, Lane, Waiting
from plait.store.postgres.settings import Settings
from tests import postgres_server


class Tunnel:
    """Passes bytes on between clients and the server, until told to pass on no more; it closes nothing by itself."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._silent: set[socket.socket] = set()
        self._deaf = False
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self, *, answers_only: bool = False, new_ones: bool = False) -> None:
        """Pass on nothing more of the connections there are; of the `new_ones` neither, or not the server's answers only."""
        self._silent.update(self._sockets[1 if answers_only else 0 :: 2])
        if not answers_only:
            self._silent.update(self._sockets)
        self._deaf = new_ones

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the door was closed
            while True:
                client, _ = self._door.accept()
                self._sockets.append(client)
                if self._deaf:
                    self._sockets.append(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self._to))
                self._sockets.append(server)
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while got := one.recv(1 << 16):
                if one not in self._silent:
                    other.sendall(got)
            if one not in self._silent:
                other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in (self._door, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def tunnel() -> Iterator[Tunnel]:
    postgres_server.programs()
    tunnel = Tunnel(postgres_server.server_port())
    yield tunnel
    tunnel.close()


def through(tunnel: Tunnel, url: str) -> str:
    return f"postgresql://{postgres_server.server_url().partition('://')[2].partition('@')[0]}@127.0.0.1:{tunnel.port}/{url.rpartition('/')[2]}"


def warm(sessions: plait.Sessions, *names: str) -> None:
    """Let the next append of each session be worked out beforehand."""
    for name in names:
        sessions.session(name).append(plait.user("1"))
        sessions.session(name).append(plait.user("2"))


def test_appends_of_threads_go_over_to_other_connections_where_the_first_are_silent(tunnel: Tunnel, url: str) -> None:
    with plait.open(through(tunnel, url), busy_timeout_s=1) as sessions, ThreadPoolExecutor(3) as pool:
        warm(sessions, "a", "b", "c")
        tunnel.silence()
        done = [pool.submit(sessions.session(name).append, plait.user("3", id="third")) for name in "abc"]
        assert [future.result(20).inserted for future in done] == [True] * 3
        assert [m.text for m in sessions.session("a").history()] == ["1", "2", "3"]


def test_reads_go_over_to_another_connection_where_the_first_is_silent(tunnel: Tunnel, url: str) -> None:
    with plait.open(through(tunnel, url), busy_timeout_s=1) as sessions:
        warm(sessions, "a")
        tunnel.silence()
        assert [m.text for m in sessions.session("a").history()] == ["1", "2"]


async def test_tasks_go_over_to_other_connections_where_the_first_are_silent(tunnel: Tunnel, url: str) -> None:
    async with plait.open_async(through(tunnel, url), busy_timeout_s=1) as sessions:
        chats = [sessions.session(name) for name in "abc"]
        for n in range(2):
            await asyncio.gather(*(chat.append(plait.user(f"{n}")) for chat in chats))
        tunnel.silence()
        found = await asyncio.wait_for(asyncio.gather(*(chat.append(plait.user("3", id="x")) for chat in chats)), 20)
        assert [result.inserted for result in found] == [True] * 3
        tunnel.silence()
        assert [m.text async for m in chats[0].history()] == ["0", "1", "3"]


def test_an_append_whose_answer_never_came_is_found_and_not_written_twice(tunnel: Tunnel, url: str) -> None:
    with plait.open(through(tunnel, url), busy_timeout_s=1) as sessions:
        warm(sessions, "a")
        tunnel.silence(answers_only=True)
        assert sessions.session("a").append(plait.user("3", id="third")).inserted
    with plait.open(url) as others:
        assert [m.text for m in others.session("a").history()] == ["1", "2", "3"]


def test_a_server_that_is_silent_altogether_is_said(tunnel: Tunnel, url: str) -> None:
    with plait.open(through(tunnel, url), busy_timeout_s=1) as sessions, ThreadPoolExecutor(2) as pool:
        warm(sessions, "a")
        tunnel.silence(new_ones=True)
        chat = sessions.session("a")
        done: list[Future[Any]] = [pool.submit(chat.append, plait.user("3")), pool.submit(lambda: [*chat.history()])]
        for future in done:
            with pytest.raises(StoreUnavailableError):
                future.result(20)


def test_how_long_a_host_may_be_silent_follows_from_the_wait_limit_or_the_url() -> None:
    def limits(url: str, busy_s: float) -> list[Any]:
        found = given.options(Settings(url, busy_timeout_s=busy_s))
        names = ("connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")
        return [found.get(name) for name in names]

    assert limits("postgresql://host/db", 30) == [10, 10, 5, 3, 30_000]
    assert limits("postgresql://host/db", 0.1) == [2, 1, 1, 3, 2_000]
    assert limits("postgresql://host/db", 1e9) == [10, 20, 10, 3, 60_000]
    own = "postgresql://host/db?connect_timeout=7&keepalives_idle=99&tcp_user_timeout=1234"
    assert limits(own, 30) == [None, None, 5, 3, None]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="a system without TCP_USER_TIMEOUT")
def test_a_connection_has_these_limits(url: str) -> None:
    postgres_server.programs()
    for more, silence, idle in (("", 12_000, 4), ("?tcp_user_timeout=3456&keepalives_idle=9", 3456, 9)):
        line = connect(Settings(url + more, busy_timeout_s=12))
        with socket.socket(fileno=os.dup(line.pgconn.socket)) as wire:
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == silence
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle
            assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        line.close()


def test_a_thread_leaves_the_queue_behind_a_batch_that_is_stuck() -> None:
    lane, stuck, go_on = Lane(0.05), threading.Event(), threading.Event()
    worked: list[Waiting] = []

    def work(batch: list[Waiting]) -> None:
        worked.extend(batch)
        stuck.set()
        assert go_on.wait(20)

    first, second, third = (Waiting(lambda: iter(()), 1) for _ in range(3))  # type: ignore[arg-type,return-value]
    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(lane.run, first, work)
        assert stuck.wait(20)
        lane.run(second, work)
        assert worked == [first] and not leading.done()
        go_on.set()
        leading.result(20)
    lane.run(third, work)
    assert worked == [first, third]


async def test_a_task_leaves_the_queue_behind_a_batch_that_is_stuck() -> None:
    lane, go_on = AsyncLane(0.05), asyncio.Event()
    worked: list[Waiting] = []

    async def work(batch: list[Waiting]) -> None:
        worked.extend(batch)
        await go_on.wait()

    first, second, third = (Waiting(lambda: iter(()), 1) for _ in range(3))  # type: ignore[arg-type,return-value]
    leading = asyncio.ensure_future(lane.run(first, work))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await lane.run(second, work)
    assert worked == [first] and not leading.done()
    go_on.set()
    await leading
    await lane.run(third, work)
    assert worked == [first, third]


@pytest.mark.parametrize("way", ["url", "pooled"])
def test_a_writer_that_stops_before_its_commit_stops_nobody_for_long(
    way: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has turned the tick as well, which all sessions share."""
    url = request.getfixturevalue(way)
    arrived, go_on, committed = threading.Event(), threading.Event(), Executor._committed

    def stopping(executor: Executor) -> Any:
        if threading.current_thread().name.startswith("frozen") and not arrived.is_set():
            arrived.set()
            assert go_on.wait(20)
        return committed(executor)

    with (
        plait.open(url, busy_timeout_s=2) as frozen,
        plait.open(url, busy_timeout_s=10) as others,
        ThreadPoolExecutor(1, thread_name_prefix="frozen") as pool,
    ):
        chat = others.session("chat")
        chat.append(plait.user("first", id="first"))
        now = others.store._clock  # type: ignore[attr-defined]
        for store in (frozen.store, others.store):
            store._clock = lambda: now() + 120_000_000  # type: ignore[attr-defined]
        monkeypatch.setattr(Executor, "_committed", stopping)
        writing = pool.submit(frozen.session("chat").append_many, [plait.user("late", id="late")])
        try:
            assert arrived.wait(20)
            assert chat.append(plait.user("meanwhile", id="meanwhile")).inserted
            assert others.session("new").append(plait.user("new")).inserted
        finally:
            go_on.set()
        assert [result.inserted for result in writing.result(20)] == [True]
        assert [m.id for m in chat.history()] == ["first", "meanwhile", "late"]
    with psycopg.connect(url, autocommit=True) as connection:  # the next user of a pooler's connection
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)
