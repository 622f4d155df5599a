"""A primary that dies in mid-load: nothing acknowledged is lost, nothing is there twice, every doubt is settled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import plait
from plait import AsyncSessions
from plait.errors import StoreError, StoreUnavailableError
from plait.store.postgres._async.running import AsyncRunner
from tests.dose import dose
from tests.postgres_pair import Pair, pair, wait_until

pytestmark = pytest.mark.xdist_group("failover")
WRITERS = 16
SESSIONS = 6
BEFORE = 400
AFTER = 200
"""How many acknowledgements there are before the primary dies, and after that, at the least."""


def text(id: str) -> dict[str, Any]:
    return {"id": id, **unnamed(id)}


def unnamed(words: str) -> dict[str, Any]:
    """A message without an id: no unique key keeps it from being there twice."""
    return {"role": "user", "parts": [{"type": "text", "text": words * 20}]}


class Ledger:
    """What was acknowledged: which words have which seq in which session.

    Every other writer gives its messages no ids; whether one is there twice is then told by its words alone.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, int]] = []
        self.unknown: set[str] = set()
        """Words whose writer was told that nobody knows."""
        self.refused: set[str] = set()
        """Words whose writer was told that they were not written."""
        self.stop = False

    async def write(self, sessions: AsyncSessions, n: int) -> None:
        """Append one message after another, those with ids until they are acknowledged."""
        i = 0
        while not self.stop:
            session = f"chat {(n // 2 + i) % SESSIONS}"
            await (self._append if n % 2 else self._append_unnamed)(sessions, session, f"{n}-{i};")
            i += 1

    async def _append(self, sessions: AsyncSessions, session: str, words: str) -> None:
        while not (self.stop and words in self.unknown):
            try:
                found = await sessions.session(session).append(text(words))
            except StoreUnavailableError:
                self.unknown.add(words)
                continue
            self.rows.append((session, words, found.seq))
            return

    async def _append_unnamed(self, sessions: AsyncSessions, session: str, words: str) -> None:
        try:
            found = await sessions.session(session).append(unnamed(words))
        except StoreError as error:
            (self.unknown if "is not known" in str(error) else self.refused).add(words)
            return
        self.rows.append((session, words, found.seq))

    async def reach(self, count: int) -> None:
        while len(self.rows) < count:
            await asyncio.sleep(0.01)

    def lost(self, url: str) -> list[tuple[str, str, int]]:
        """What was acknowledged and is not there; fails for what is there twice, or not in one chain, or was not to be."""
        there: set[tuple[str, str, int]] = set()
        with plait.open(url) as sessions:
            for n in range(SESSIONS):
                chat = sessions.session(f"chat {n}")
                found = list(chat.history())
                assert [message.seq for message in found] == list(range(1, len(found) + 1))
                assert [message.parent_id for message in found[1:]] == [message.id for message in found[:-1]]
                assert len({message.id for message in found}) == len(found)
                info = chat.info()
                assert info is not None and info.totals.messages == info.version == len(found)
                there |= {(f"chat {n}", message.text[: len(message.text) // 20], message.seq) for message in found}
        words = [text for _, text, _ in there]
        assert len(set(words)) == len(words), "it is there twice"
        assert self.refused.isdisjoint(words), "it was said not to be"
        assert set(words) <= {row[1] for row in self.rows} | self.unknown, "nobody was told of it"
        return [row for row in self.rows if row not in there]


async def load(url: str, ledger: Ledger, trouble: Callable[[], None], after: int) -> None:
    """Writers at work while trouble comes, and until there were as many acknowledgements after it."""
    async with plait.open_async(url, busy_timeout_s=60) as sessions:
        writers = [asyncio.ensure_future(ledger.write(sessions, n)) for n in range(WRITERS)]
        await ledger.reach(BEFORE)
        await asyncio.to_thread(trouble)
        await ledger.reach(len(ledger.rows) + after)
        ledger.stop = True
        await asyncio.gather(*writers)


def fail_over(servers: Pair, *, stalled: bool) -> None:
    """The primary dies, perhaps after its sender had stalled for a while, and the standby takes its place."""
    if stalled:
        servers.stall("a", "walsender")
        time.sleep(0.3)
    servers.kill("a")
    servers.promote("b")


@pytest.fixture
def doubts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What was found out of commits whose answer was lost: whether they had been done."""
    found: list[bool] = []
    settled = AsyncRunner._settled

    async def settling(runner: AsyncRunner, *args: Any) -> bool:
        found.append(await settled(runner, *args))
        return found[-1]

    monkeypatch.setattr(AsyncRunner, "_settled", settling)
    return found


@pytest.mark.parametrize("round", range(dose(short=1, soak=20)))
def test_a_dead_primary_takes_nothing_with_it(round: int, doubts: list[bool]) -> None:
    ledger = Ledger()
    with pair(synchronous=True) as servers:
        asyncio.run(load(servers.url, ledger, lambda: fail_over(servers, stalled=round % 2 == 0), AFTER))
        assert ledger.lost(servers.one("b")) == []
        assert len(ledger.rows) >= BEFORE + AFTER
    assert doubts, "no commit was under way when the primary died"


def test_the_ledger_sees_a_loss() -> None:
    """The control: a standby that is not waited for, behind a sender that has stalled, lacks what was acknowledged."""
    ledger = Ledger()
    with pair(synchronous=False) as servers:

        def trouble() -> None:
            servers.stall("a", "walsender")
            count = len(ledger.rows)
            wait_until(lambda: len(ledger.rows) > count + 50, "writes go on")
            ledger.stop = True
            servers.kill("a")
            servers.promote("b")

        asyncio.run(load(servers.url, ledger, trouble, 0))
        assert len(ledger.lost(servers.one("b"))) >= 40


def test_a_commit_that_was_cancelled_while_it_waited_for_the_standby_is_settled_later() -> None:
    """The server reports success then; it is acknowledged only once the standby has it."""
    with pair(synchronous=True) as servers, plait.open(servers.url) as sessions:
        chat = sessions.session("chat")
        for id in ("a", "b"):
            chat.append(text(id))
        stalled = servers.stall("b", "walreceiver")
        found: list[Any] = []
        writer = threading.Thread(target=lambda: found.append(chat.append(text("c"))))
        writer.start()
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        for _ in range(2):
            wait_until(lambda: bool(servers.ask("a", waiting)), "the commit waits for the standby")
            servers.ask("a", f"SELECT pg_cancel_backend(pid) FROM ({waiting}) AS waiting")
        wait_until(lambda: bool(servers.ask("a", waiting)), "it is looked for in a transaction that waits as well")
        assert not found and writer.is_alive(), "what the standby lacks was acknowledged"
        assert [message.id for message in chat.history()] == ["a", "b", "c"], "reads do not wait"
        servers.resume(stalled)
        writer.join()
        assert found[0].inserted and found[0].seq == 3
        with plait.open(servers.one("b"), read_only=True) as standby:
            assert [message.id for message in standby.session("chat").history()] == ["a", "b", "c"]


def test_a_standby_that_is_gone_is_waited_for_and_then_written_to_no_more() -> None:
    """Writes wait for it, reads go on; what was never acknowledged may be found by its id later."""
    with pair(synchronous=True) as servers, plait.open(servers.url) as sessions:
        chat = sessions.session("chat")
        chat.append(text("a"))
        servers.kill("b")
        writer = threading.Thread(target=lambda: _quietly(chat.append, text("b")))
        writer.start()
        wait_until(
            lambda: bool(servers.ask("a", "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")),
            "the commit waits for the standby",
        )
        assert [message.id for message in chat.history()][:1] == ["a"]
        assert writer.is_alive()
        servers.ask("a", "ALTER SYSTEM RESET synchronous_standby_names")
        servers.ask("a", "SELECT pg_reload_conf()")
        writer.join()
        assert [message.id for message in chat.history()] == ["a", "b"]


def _quietly(append: Callable[[Any], Any], message: Any) -> None:
    try:
        append(message)
    except StoreError:
        return
