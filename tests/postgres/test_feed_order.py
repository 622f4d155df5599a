"""The feed of a scope beside transactions left open: every order of their steps, on connections that are each their own.

What is held to is the proof in docs/explanation/postgresql.md: the tick that a reader takes for over is no later than any
that a writer has read who has not ended. And what is held to besides is what that is for: nothing is missed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import psycopg
import pytest

import plait
from plait import Sessions
from plait.store.plan import Head, Plan, Take
from plait.store.plans import common, feed
from plait.store.plans.common import BUCKET_US, Mark
from plait.store.postgres._sync.connecting import connect
from plait.store.postgres._sync.executor import Executor
from plait.store.postgres.heads import Known
from plait.store.postgres.settings import Settings
from plait.store.postgres.statements import load, own
from plait.store.protocol import Scope, SessionRef
from tests.dose import dose

SCOPE = Scope("", "")
FIRST, SECOND, LATE = "first", "second", "late"
MINUTES = {FIRST: 4, SECOND: 7, LATE: 0}
"""The tick is turned by one writer, then by another; a third has a clock that is behind, and turns none."""


class Writer:
    """One write on a connection of its own, in three steps: a number, a look at the tick with a change, the commit."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.name = name
        self.read: int | None = None
        """The tick that it has read, while it is under way."""
        self._line = connect(settings)
        self._settings = settings

    def close(self) -> None:
        self._line.close()

    def begin(self) -> None:
        self._executor = Executor(self._line, load(), own(), self._settings, Known())
        self._executor._writes = True
        self._executor._begin()
        self._run(take(f"before {self.name}"))

    def change(self, mark: Mark) -> None:
        self.read = self._run(changing(self.name, mark))
        self._executor._flush()
        self._executor._send_all()  # what it wrote is there for others to see once it commits

    def commit(self) -> None:
        self._executor._hold("commit")
        self._executor._committed()
        self.read = None

    def _run(self, plan: Plan[Any]) -> Any:
        answer: Any = None
        try:
            while True:
                answer = self._executor._answer(plan.send(answer))
        except StopIteration as end:
            return end.value


def take(id: str) -> Plan[None]:
    yield Take(SessionRef(SCOPE, id))


def changing(id: str, mark: Mark) -> Plan[int]:
    """A change of a session as any plan makes one; the tick that it read first."""
    ref = SessionRef(SCOPE, id)
    head: Head | None = yield Take(ref)
    assert head is not None
    read = head.tick
    yield from common.touch(ref, head, mark)
    yield from common.record(head, "session", mark, {"state": True})
    return read


class Reader:
    """Who follows the feed of the scope, and all that it was told."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._cursor = sessions.cursor()
        self.told: set[tuple[str, int]] = set()

    def look(self) -> int:
        """Read to the end; the tick that is taken for over."""
        more = True
        while more:
            page = self._sessions.changes(after=self._cursor)
            self.told |= {(change.session_id, change.version) for change in page.changes}
            self._cursor, more = page.cursor, page.more
        over, _ = self._sessions.store.driver.read(feed._ticks)  # type: ignore[attr-defined]
        return int(over)


class Stage:
    """Writers whose steps can be put in any order, again and again, each time some minutes later."""

    def __init__(self, sessions: Sessions, url: str, names: Sequence[str]) -> None:
        settings = Settings(url)
        self.writers = {name: Writer(settings, name) for name in names}
        self.reader = Reader(sessions)
        self._sessions = sessions
        self._minute = 40_000_000
        for name in names:
            for id in (name, f"before {name}"):
                sessions.session(id).update_state({"made": True})
        self._versions = dict.fromkeys(names, 1)

    def play(self, order: Sequence[str]) -> None:
        """Let each name stand for the next step of its writer."""
        self._minute += 20
        self._quiet()
        steps = {
            name: iter((w.begin, partial(w.change, self._mark(name)), w.commit)) for name, w in self.writers.items()
        }
        for name in order:
            next(steps[name])()
            over = self.reader.look()
            for writer in self.writers.values():
                assert writer.read is None or over <= writer.read, f"{writer.name} is still at it, in {order}"
        self._versions = {name: version + 1 for name, version in self._versions.items()}
        assert self.reader.told >= set(self._versions.items()), order

    def _quiet(self) -> None:
        """Two ticks that nobody is in, so that what comes before is over, and each session's next change makes a pulse."""
        for minutes in (-18, -9):
            writer = next(iter(self.writers.values()))
            writer.begin()
            writer._run(turning(Mark((self._minute + minutes) * BUCKET_US, "-")))
            writer.commit()
            self.reader.look()

    def _mark(self, name: str) -> Mark:
        return Mark((self._minute - 9 + MINUTES[name]) * BUCKET_US, f"{name} {self._minute}")

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


def turning(mark: Mark) -> Plan[None]:
    head: Head | None = yield Take(SessionRef(SCOPE, f"before {FIRST}"))
    assert head is not None
    yield from common._turn(head, mark)


@pytest.fixture
def stage(sessions: Sessions, url: str) -> Iterator[Stage]:
    found = Stage(sessions, url, (FIRST, SECOND, LATE))
    try:
        yield found
    finally:
        found.close()


def orders(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every order in which the three steps of each can come."""
    found: list[tuple[str, ...]] = [()]
    for name in names:
        found = [
            tuple(name if n in places else next(rest) for n in range(len(order) + 3))
            for order in found
            for places in combinations(range(len(order) + 3), 3)
            for rest in [iter(order)]
        ]
    return found


A, B, C = FIRST, SECOND, LATE
HARD = [
    (A, A, C, C, A, B, B, B, C),  # no transaction after the late one has ended when the second turns the tick
    (A, A, B, C, C, A, B, B, C),  # the second has its number from before, and looks afterwards
    (B, A, A, C, C, A, B, B, C),  # and from before the first
    (A, A, C, C, B, B, A, B, C),  # both turn the tick that they saw
    (C, A, A, C, A, B, B, B, C),  # the late one has its number from before
]


def test_a_feed_misses_nothing_whatever_order_the_steps_of_its_writers_come_in(stage: Stage) -> None:
    every = orders((A, B, C))
    assert len(set(every)) == len(every) == 1680 and set(HARD) <= set(every)
    chosen = random.Random(0).sample(every, dose(short=20, soak=len(every)))
    for order in [*HARD, *chosen]:
        stage.play(order)


@pytest.mark.parametrize("upto", ["0", "99999999999"])
def test_a_cursor_is_good_in_a_database_that_was_restored(sessions: Sessions, url: str, upto: str) -> None:
    """What a dump brings along are another server's transaction numbers; all the rows then have one of the new server's."""
    clock = sessions.store._clock  # type: ignore[attr-defined]
    cursor = sessions.cursor()
    for minute in range(4):
        sessions.store._clock = lambda minute=minute: clock() + minute * 2 * BUCKET_US  # type: ignore[attr-defined]
        sessions.session(f"{minute}").append(plait.user("words", id="a"))
        cursor = sessions.changes(after=cursor).cursor
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"UPDATE plait.tick SET upto = '{upto}'".encode())
    assert sessions.changes(after=cursor).changes == []
    sessions.session("0").append(plait.user("words", id="b"))
    for after in (cursor, sessions.cursor()):
        page = sessions.changes(after=after)
        assert [change.ids for change in page.changes] == ([("b",)] if after == cursor else [])
    sessions.store._clock = lambda: clock() + 10 * BUCKET_US  # type: ignore[attr-defined]
    sessions.session("1").append(plait.user("words", id="c"))
    assert ("c",) in [change.ids for change in sessions.changes(after=cursor).changes]
