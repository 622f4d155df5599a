"""Staged work: nobody sees it before it is whole, however long it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import plait
from plait.model import LEAF
from plait.store._async.store import AsyncPlanStore
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
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[AsyncPlanStore]:
    store = AsyncPlanStore(SQLiteDriver(Settings(str(tmp_path / "a.db"))), clock=clock)
    await store.open()
    yield store
    await store.close()


def message(id: str) -> NewMessage:
    body = f'{{"id":"{id}","role":"user","parts":[]}}'
    return NewMessage(id, "user", "plait", body, len(body), 4, 0)


async def test_a_stage_is_never_listed_and_its_session_once(store: AsyncPlanStore, clock: Clock) -> None:
    target = SessionRef(Scope(), "target")
    stage = await store.stage(target)
    for n in range(3):  # each in another minute
        clock.now_us += MINUTE_US
        await store.append(stage, [message(str(n))], parent=LEAF)
        assert (await store.sessions(Scope(), cursor=None, limit=10)).sessions == []
        assert await store.info(target) is None
    clock.now_us += MINUTE_US
    await store.publish(stage, target)
    page = await store.sessions(Scope(), cursor=None, limit=10)
    assert [info.id for info in page.sessions] == ["target"]
    assert await store.doctor(False) == []


async def test_a_stage_left_behind_is_swept_by_the_next_one(store: AsyncPlanStore, clock: Clock) -> None:
    abandoned = await store.stage(SessionRef(Scope(), "target"))
    await store.append(abandoned, [message("lost")], parent=LEAF)
    clock.now_us += 61 * MINUTE_US
    stage = await store.stage(SessionRef(Scope(), "target"))
    assert await store.get(SessionRef(Scope(), abandoned.id), "lost") is None
    await store.publish(stage, SessionRef(Scope(), "target"))
    assert await store.doctor(False) == []


async def test_a_stage_at_work_is_not_swept(store: AsyncPlanStore, clock: Clock) -> None:
    stage = await store.stage(SessionRef(Scope(), "slow"))
    for n in range(4):
        clock.now_us += 40 * MINUTE_US
        await store.append(stage, [message(str(n))], parent=LEAF)
        await store.discard(await store.stage(SessionRef(Scope(), "other")))
    await store.publish(stage, SessionRef(Scope(), "slow"))
    assert (await store.totals(SessionRef(Scope(), "slow"))).messages == 4


async def test_two_stages_of_one_session_cannot_both_be_published(store: AsyncPlanStore) -> None:
    target = SessionRef(Scope(), "target")
    first, second = await store.stage(target), await store.stage(target)
    await store.publish(first, SessionRef(Scope(), "target"))
    with pytest.raises(plait.ConflictError, match="exists already"):
        await store.publish(second, SessionRef(Scope(), "target"))
    await store.discard(second)
    assert await store.doctor(False) == []
