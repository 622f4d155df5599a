"""Generated from tests/behaviour/_async/test_stages.py by tools/unasync.py: edit that file. Staged work: nobody sees it before it is whole, however long it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import plait
from plait.model import LEAF
from plait.store._sync.store import PlanStore
from plait.store.protocol import NewMessage, Scope, SessionRef
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.driver import SQLiteDriver

MINUTE_US = 60_000_000


class Clock:
    """A clock that moves when told to."""

    now_us = 100 * MINUTE_US

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[PlanStore]:
    store = PlanStore(SQLiteDriver(Settings(str(tmp_path / "a.db"))), clock=clock)
    store.open()
    yield store
    store.close()


def message(id: str) -> NewMessage:
    body = f'{{"id":"{id}","role":"user","parts":[]}}'
    return NewMessage(id, "user", "plait", body, len(body), 4, 0)


def test_a_stage_is_never_listed_and_its_session_once(store: PlanStore, clock: Clock) -> None:
    target = SessionRef(Scope(), "target")
    stage = store.stage(target)
    for n in range(3):  # each in another minute
        clock.now_us += MINUTE_US
        store.append(stage, [message(str(n))], parent=LEAF)
        assert (store.sessions(Scope(), cursor=None, limit=10)).sessions == []
        assert store.info(target) is None
    clock.now_us += MINUTE_US
    store.publish(stage, target)
    page = store.sessions(Scope(), cursor=None, limit=10)
    assert [info.id for info in page.sessions] == ["target"]
    assert store.doctor(False) == []


def test_a_stage_left_behind_is_swept_by_the_next_one(store: PlanStore, clock: Clock) -> None:
    abandoned = store.stage(SessionRef(Scope(), "target"))
    store.append(abandoned, [message("lost")], parent=LEAF)
    clock.now_us += 61 * MINUTE_US
    stage = store.stage(SessionRef(Scope(), "target"))
    assert store.get(SessionRef(Scope(), abandoned.id), "lost") is None
    store.publish(stage, SessionRef(Scope(), "target"))
    assert store.doctor(False) == []


def test_a_stage_at_work_is_not_swept(store: PlanStore, clock: Clock) -> None:
    stage = store.stage(SessionRef(Scope(), "slow"))
    for n in range(4):
        clock.now_us += 40 * MINUTE_US
        store.append(stage, [message(str(n))], parent=LEAF)
        store.discard(store.stage(SessionRef(Scope(), "other")))
    store.publish(stage, SessionRef(Scope(), "slow"))
    assert (store.totals(SessionRef(Scope(), "slow"))).messages == 4


def test_two_stages_of_one_session_cannot_both_be_published(store: PlanStore) -> None:
    target = SessionRef(Scope(), "target")
    first, second = store.stage(target), store.stage(target)
    store.publish(first, SessionRef(Scope(), "target"))
    with pytest.raises(plait.ConflictError, match="exists already"):
        store.publish(second, SessionRef(Scope(), "target"))
    store.discard(second)
    assert store.doctor(False) == []
