"""A store in a file for each test, examined when the test is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import plait
from plait import AsyncSession, AsyncSessions, Change
from plait.testing.faults import invariants


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def sessions(file: Path) -> AsyncIterator[AsyncSessions]:
    async with plait.open_async(file, durability="process") as sessions:
        yield sessions
    assert invariants(file) == []


@pytest.fixture
async def chat(sessions: AsyncSessions) -> AsyncSession:
    return sessions.session("chat")


@pytest.fixture
def reopened(file: Path) -> Callable[[], AsyncSessions]:
    """Opens the test's file once more, as another program would."""
    return lambda: plait.open_async(file, durability="process")


@pytest.fixture
def changes(sessions: AsyncSessions) -> list[Change]:
    """What subscribers are told from now on."""
    told: list[Change] = []
    sessions.subscribe(told.append)
    return told
