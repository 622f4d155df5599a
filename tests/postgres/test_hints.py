"""Hints: who waits for changes is woken by another process's commit, and misses nothing where no hint comes."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import plait
from plait import AsyncSessions, Sessions
from plait._async import feeding as async_feeding
from plait._sync import feeding
from plait.errors import ClosedError
from plait.store.postgres import hints
from plait.store.postgres.hints import EVERYWHERE, MOST_PLACES, Hints, place_of
from plait.store.protocol import Scope, SessionRef
from tests.behaviour.programs import run, run_together, start
from tests.dose import dose
from tests.postgres_pair import wait_until

AN_HOUR = 3600.0
LISTENERS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN plait'"
FACES = ["threads", "asyncio"]


class Reader:
    """Follows a session, or a scope, in a thread; what came is in `found`."""

    def __init__(self, url: str, face: str, id: str | None = "chat") -> None:
        self.url, self.id = url, id
        self.found: queue.Queue[str] = queue.Queue()
        self.sessions: Sessions | AsyncSessions | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.failed: BaseException | None = None
        work = self.in_thread if face == "threads" else lambda: asyncio.run(self.on_loop())
        self.thread = threading.Thread(target=work)
        self.thread.start()

    def in_thread(self) -> None:
        self.sessions = sessions = plait.open(self.url)
        for change in (sessions if self.id is None else sessions.session(self.id)).watch():
            self.found.put(change.ids[0])

    async def on_loop(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.sessions = sessions = plait.open_async(self.url)
        async for change in (sessions if self.id is None else sessions.session(self.id)).watch():
            self.found.put(change.ids[0])

    def next(self) -> str:
        return self.found.get(timeout=60)

    def close(self) -> None:
        """Close its store, while it waits; it ends by that."""
        if isinstance(self.sessions, AsyncSessions):
            assert self.loop is not None
            with suppress(RuntimeError):  # its loop has ended
                asyncio.run_coroutine_threadsafe(self.sessions.close(), self.loop)
        elif self.sessions is not None:
            self.sessions.close()
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture
def readers(url: str) -> Iterator[list[Reader]]:
    """Readers that are closed at the end."""
    begun: list[Reader] = []
    yield begun
    for reader in begun:
        reader.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits looks unasked only every hour: what comes earlier was hinted at."""
    for module in (feeding, async_feeding):
        monkeypatch.setattr(module, "LOOK_S", AN_HOUR)
        monkeypatch.setattr(module, "LONGEST_REST_S", AN_HOUR)


def listeners(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [pid for (pid,) in connection.execute(LISTENERS).fetchall()]


def wait_for_listeners(url: str, count: int = 1) -> None:
    wait_until(lambda: len(listeners(url)) == count, f"{count} are listening")


def add(sessions: Sessions, id: str, session: str = "chat") -> None:
    assert sessions.session(session).append(plait.user("words", id=id)).inserted


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("id", ["chat", None])
def test_a_reader_is_woken_by_the_commit_of_another_store(
    sessions: Sessions, url: str, readers: list[Reader], face: str, id: str | None
) -> None:
    add(sessions, "first")
    readers.append(reader := Reader(url, face, id))
    assert reader.next() == "first"
    wait_for_listeners(url)
    for n in range(5):
        add(sessions, f"m{n}")
        while (found := reader.next()) != f"m{n}":  # a scope's reader may be told twice
            assert found in ("first", f"m{n - 1}")
    sessions.session("chat").append_many([plait.user("many", id="a"), plait.user("many", id="b")])
    sessions.session("chat").delete("a")
    while reader.next() != "a":
        pass


def first_unheard(sessions: Sessions, reader: Reader) -> str:
    """Append until the reader rests; it looks once more when its listener has begun, whenever that is."""
    for n in range(20):
        add(sessions, f"silent {n}")
        try:
            assert reader.found.get(timeout=0.5) == f"silent {n}"
        except queue.Empty:
            return f"silent {n}"
    pytest.fail("it is woken by something else")


@pytest.mark.usefixtures("patient")
def test_without_a_hint_a_patient_reader_hears_nothing(
    sessions: Sessions, url: str, readers: list[Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the tests here: were there another way for it to be woken, they would show nothing."""
    add(sessions, "first")
    readers.append(reader := Reader(url, "threads"))
    assert reader.next() == "first"
    wait_for_listeners(url)
    with monkeypatch.context() as silent:
        silent.setattr(Hints, "committed", lambda self, wheres: None)
        unheard = first_unheard(sessions, reader)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("NOTIFY plait, 'zz: not one of ours'")
    assert reader.next() == unheard


@pytest.mark.parametrize("face", FACES)
def test_a_lost_hint_costs_time_and_nothing_else(
    sessions: Sessions, url: str, readers: list[Reader], monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    for module in (feeding, async_feeding):
        monkeypatch.setattr(module, "LOOK_S", 0.2)
    readers.append(reader := Reader(url, face))
    wait_for_listeners(url)
    monkeypatch.setattr(Hints, "committed", lambda self, wheres: None)
    for n in range(3):
        add(sessions, f"m{n}")
        assert reader.next() == f"m{n}"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("face", FACES)
def test_a_listener_whose_connection_ends_misses_nothing_and_listens_again(
    sessions: Sessions, url: str, readers: list[Reader], monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    monkeypatch.setattr(hints, "RETRY_S", 0.05)
    readers.append(reader := Reader(url, face))
    for n in range(3):
        wait_for_listeners(url)
        (pid,) = listeners(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        add(sessions, f"killed {n}")
        assert reader.next() == f"killed {n}"
        wait_until(lambda pid=pid: len(listeners(url)) == 1 and listeners(url) != [pid], "it listens again")
        add(sessions, f"back {n}")
        assert reader.next() == f"back {n}"


@pytest.mark.parametrize("face", FACES)
def test_a_store_that_is_closed_ends_its_readers_at_once(url: str, face: str, patient: None) -> None:
    reader = Reader(url, face)
    wait_for_listeners(url)
    reader.close()
    wait_for_listeners(url, 0)
    assert isinstance(reader.sessions, Sessions | AsyncSessions)
    with pytest.raises(ClosedError):
        reader.sessions.store.driver.commits()  # type: ignore[attr-defined]


def test_an_append_waits_for_no_hint_and_fails_with_none(
    sessions: Sessions, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def unreachable(settings: object) -> Any:
        asked.set()
        raise psycopg.OperationalError("too many clients already")

    monkeypatch.setattr(hints, "connect", unreachable)
    for n in range(20):
        add(sessions, f"m{n}")
    assert asked.wait(20)
    add(sessions, "last")
    assert len(list(sessions.session("chat").history())) == 21


def test_who_waits_no_more_is_told_no_more(sessions: Sessions, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "FORGOTTEN_S", 0.2)
    with plait.open(url) as other:
        wait_until(lambda: not other.changes(wait_s=0.05).changes and bool(listeners(url)), "it listens")
        wait_until(lambda: (_nudge(url), not listeners(url))[1], "it listens no more")
        add(sessions, "m0")
        assert [change.ids for change in other.changes(wait_s=20).changes] == [("m0",)]


def _nudge(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("NOTIFY plait")


def test_a_hint_of_very_many_places_is_one_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL takes 8,000 bytes."""
    sent: list[str] = []

    class Line:
        def talk(self, items: list[tuple[bytes, tuple[str]]], patience_s: float) -> None:
            sent.append(items[0][1][0])

    told = Hints(None)  # type: ignore[arg-type]
    for count in (1, MOST_PLACES, MOST_PLACES + 1):
        told._fresh = set(range(count))
        told._send(Line())  # type: ignore[arg-type]
    assert [len(text) for text in sent] == [4, 4 * MOST_PLACES, 0]
    assert max(map(len, sent)) < 8000


def test_a_session_and_its_scope_have_places_of_their_own() -> None:
    places = {place_of(Scope("", "")), place_of(Scope("a", "")), place_of(SessionRef(Scope("", ""), "chat"))}
    assert len(places) == 3 and all(0 <= place < EVERYWHERE for place in places) and place_of(None) == EVERYWHERE


def test_through_a_pooler_hints_are_sent_but_not_listened_to(
    pooled: str,
    url: str,
    readers: list[Reader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with plait.open(pooled) as behind:
        readers += [straight := Reader(url, "threads"), polling := Reader(pooled, "asyncio")]
        for reader in (straight, polling):
            add(behind, f"m{readers.index(reader)}")
        assert [polling.next(), polling.next()] == [straight.next(), straight.next()] == ["m0", "m1"]
        wait_for_listeners(url)  # one of the two
        for module in (feeding, async_feeding):
            monkeypatch.setattr(module, "LOOK_S", AN_HOUR)
        driver = behind.store.driver  # type: ignore[attr-defined]
        assert driver.commits() is None and not driver.rest(Scope("", ""), None, AN_HOUR)
        for n in range(2, 5):
            add(behind, f"m{n}")
            assert straight.next() == f"m{n}" == polling.next()


WATCHER = """
from plait._sync import feeding
from plait._async import feeding as async_feeding
for module in (feeding, async_feeding):
    module.LOOK_S = module.LONGEST_REST_S = 3600.0
n, url, all = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def in_thread(at):
    time.sleep(at / 20)
    with plait.open(url) as sessions:
        follow((change.ids[0] for change in (sessions.watch() if at % 2 else sessions.session("chat").watch())))
def follow(ids):
    left = {f"{n}-{i}" for n in range(2) for i in range(all)}
    for id in ids:
        left.discard(id)
        if not left:
            return
def on_loop(at):
    time.sleep(at / 20)
    async def main():
        left = {f"{n}-{i}" for n in range(2) for i in range(all)}
        async with plait.open_async(url) as sessions:
            async for change in sessions.session("chat").watch():
                left.discard(change.ids[0])
                if not left:
                    return
    asyncio.run(main())
def write(_):
    with plait.open(url) as sessions:
        for i in range(all):
            assert sessions.session("chat").append(note(f"{n}-{i}")).inserted
ready()
work = [write] if n < 2 else [in_thread, on_loop] * 3
threads = [threading.Thread(target=one, args=(at,)) for at, one in enumerate(work)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
"""


def test_readers_that_begin_while_processes_write_miss_nothing(url: str) -> None:
    """Two processes write, one has six readers that begin one after another; none looks unasked."""
    assert run_together(WATCHER, 3, url, dose(short=40, soak=2000)) == ["done\n"] * 3


FORKS = """
from plait._sync import feeding
url = sys.argv[1]
sessions = plait.open(url)
sessions.session("chat").append(note("before"))
came = []
def follow():
    feeding.LOOK_S = 3600.0
    for change in sessions.session("chat").watch():
        came.append(change.ids[0])
        if came[-1] == "end":
            return
reader = threading.Thread(target=follow)
reader.start()
while not came:
    time.sleep(0.01)
for n in range(5):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            sessions.session("chat").append(note(f"child {n}"))
            page = sessions.session("chat").changes(after=None, wait_s=1)
            assert [change.ids[0] for change in page.changes][-1] == f"child {n}"
            sessions.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
sessions.session("chat").append(note("end"))
reader.join(60)
assert came == ["before", *(f"child {n}" for n in range(5)), "end"], came
sessions.close()
assert [t.name for t in threading.enumerate()] == ["MainThread"], threading.enumerate()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_forks_while_it_listens_goes_on_and_so_does_its_child(url: str) -> None:
    run(FORKS, url)


def test_the_command_that_watches_is_woken_too(sessions: Sessions, url: str) -> None:
    program = """
from plait._sync import feeding
from plait.cli.run import run
feeding.LOOK_S = feeding.LONGEST_REST_S = 3600.0
sys.exit(run(["watch", "chat", "--db", sys.argv[1], "--from-start", "--json"]))
"""
    add(sessions, "first")
    process = start(program, url)
    try:
        assert process.stdout is not None
        assert '"ids":["first"]' in process.stdout.readline()
        wait_for_listeners(url)
        add(sessions, "second")
        assert '"ids":["second"]' in process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def test_one_append_of_a_process_that_ends_at_once_is_told(url: str, patient: None, readers: list[Reader]) -> None:
    readers.append(reader := Reader(url, "threads"))
    wait_for_listeners(url)
    run("with plait.open(sys.argv[1]) as sessions: sessions.session('chat').append(note('brief'))", url)
    assert reader.next() == "brief"
