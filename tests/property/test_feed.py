"""A mirror built from a feed alone comes to equal the session, whatever was done and whenever it was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.store._sync.store import PlanStore
from plait.store.plans import common
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.driver import SQLiteDriver
from tests.behaviour.values import note
from tests.dose import dose
from tests.mirror import Mirror

OPERATIONS = [
    *["append"] * 6,
    *["branch", "root", "beside", "delete", "delete", "update", "checkout", "merge", "overlay", "overlay", "uncover"],
    *["clear", "delete session", "rename", "import new", "minute", "back", "read", "read", "read"],
]
moves = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 10**6)), max_size=50)


@dataclass
class Item:
    """A message of a transcript."""

    message: dict[str, Any]
    parent: str | None
    format: str | None = None
    created_at: None = None

    @property
    def id(self) -> str:
        return str(self.message["id"])


@dataclass
class Brought:
    """A transcript, while the last message of which is read something else is written."""

    id: str
    items: list[Item]
    meanwhile: Callable[[], None]
    name: str | None = None
    owner: str | None = None
    pinned: bool = False
    created_at: None = None
    parent_id: None = None
    active_at: None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    state: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def leaf(self) -> str:
        return self.items[-1].id

    @property
    def count(self) -> int:
        return len(self.items)

    @property
    def entries(self) -> Iterator[Item]:
        yield from self.items
        self.meanwhile()


class World:
    """Two sessions under random operations, on a clock that goes both ways."""

    def __init__(self) -> None:
        self.now_us = 1_700_000_000_000_000
        self.sessions = plait.Sessions(PlanStore(SQLiteDriver(Settings(":memory:")), clock=lambda: self.now_us))
        self.n = 0

    def alive(self, name: str) -> list[str]:
        return [message.id for message in self.sessions.session(name).everything()]

    def note(self) -> dict[str, Any]:
        self.n += 1
        return note(f"m{self.n}")

    def act(self, move: str, pick: int) -> None:
        name = ("a", "b")[pick % 2]
        chat, alive = self.sessions.session(name), self.alive(name)
        some = alive[pick % len(alive)] if alive else None
        if move == "minute":
            self.now_us += common.BUCKET_US
        elif move == "back":
            self.now_us -= (pick % 30) * common.BUCKET_US
        elif move == "append":
            chat.append(self.note())
        elif move == "root":
            chat.append(self.note(), parent=None)
        elif move == "clear":
            chat.clear()
        elif move == "delete session":
            self.sessions.delete(name)
        elif move == "rename":
            self.sessions.get_or_create(name)
            self.sessions.rename(name, f"name {self.n}")
        elif move == "import new":
            self._bring_in(name, None)
        elif some is not None:
            self._act_on(name, chat, move, some, alive, pick)

    def _act_on(self, name: str, chat: plait.Session, move: str, some: str, alive: list[str], pick: int) -> None:
        if move == "branch":
            chat.append(self.note(), parent=some)
        elif move == "beside":
            chat.import_message(self.note(), parent=some, activate=False)
        elif move == "delete":
            chat.delete([some, *alive[: pick % 3]])
        elif move == "update":
            self.n += 1
            chat.update(note(some, f"new {self.n}"))
        elif move == "checkout":
            chat.checkout(some)
        elif move == "overlay":
            self._lay(chat, some, pick)
        elif move == "uncover":
            for overlay in chat.overlays(all=True)[pick % 2 :][:1]:
                chat.remove_overlay(overlay.id)
        elif move == "merge":
            self._bring_in(name, some)

    def _lay(self, chat: plait.Session, some: str, pick: int) -> None:
        path = [message.id for message in chat.transcript(some)]
        try:
            chat.add_overlay(path[pick % len(path)], some, summary=("short", None)[pick % 2], leaf=some)
        except plait.ConflictError:
            pass

    def _bring_in(self, name: str, parent: str | None) -> None:
        """Messages staged out of sight; others are written before they are published."""
        new = [self.note() for _ in range(3)]
        above = [parent, new[0]["id"], new[1]["id"]]
        brought = Brought(name, [Item(*pair) for pair in zip(new, above, strict=True)], self._meanwhile(name))
        try:
            self.sessions.import_transcript(brought)
        except (plait.ConflictError, plait.NotFoundError):
            pass

    def _meanwhile(self, name: str) -> Callable[[], None]:
        note = self.note()

        def write() -> None:
            if self.n % 2 and self.sessions.get(name) is not None:
                self.sessions.session(name).append(note)
            elif self.n % 3 == 0:
                self.sessions.session(name).append(note)
                self.sessions.delete(name)

        return write


def pages(read: Any, after: str | None, limit: int) -> tuple[list[plait.Change], str]:
    found: list[plait.Change] = []
    while True:
        page = read(after=after, limit=limit)
        assert len(page.changes) <= limit
        found += page.changes
        after = page.cursor
        if not page.more:
            return found, page.cursor


@given(moves=moves, limits=st.lists(st.integers(1, 7), min_size=1, max_size=4))
@settings(deadline=None, max_examples=dose(short=120, soak=1_000))
def test_a_mirror_built_from_a_sessions_feed_equals_the_session(moves: Any, limits: list[int]) -> None:
    world, mirror = World(), Mirror()
    cursor: str | None = None
    for n, (move, pick) in enumerate([*moves, ("read", 0), ("read", 0)]):
        if move != "read":
            world.act(move, pick)
            continue
        changes, cursor = pages(world.sessions.session("a").changes, cursor, limits[n % len(limits)])
        for change in changes:
            mirror.apply(change)
        mirror.check(world.sessions.session("a"))
    assert world.sessions.session("a").cursor() == cursor or cursor is None


@given(moves=moves, limits=st.lists(st.integers(1, 7), min_size=1, max_size=4))
@settings(deadline=None, max_examples=dose(short=120, soak=1_000))
def test_mirrors_built_from_a_scopes_feed_equal_its_sessions(moves: Any, limits: list[int]) -> None:
    """No committed change is skipped, whatever the clocks say and wherever the reader stopped."""
    world, mirrors = World(), {"a": Mirror(), "b": Mirror()}
    cursor: str | None = None
    for n, (move, pick) in enumerate([*moves, ("read", 0), ("read", 0)]):
        if move != "read":
            world.act(move, pick)
            continue
        changes, cursor = pages(world.sessions.changes, cursor, limits[n % len(limits)])
        for change in changes:
            assert change.version is not None
            mirror = mirrors[change.session_id]
            if not mirror.versions or change.version > mirror.versions[-1]:
                mirror.apply(change)
        for name, mirror in mirrors.items():
            mirror.check(world.sessions.session(name))
