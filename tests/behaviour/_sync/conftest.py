"""Generated from tests/behaviour/_async/conftest.py by tools/unasync.py: edit that file. A store in a file for each test, examined when the test is over."""

from __future__ import annotations

from collections.abc import Iterator, Callable
from pathlib import Path

import pytest

import plait
from plait import Session, Sessions, Change
from plait.testing.faults import invariants


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def sessions(file: Path) -> Iterator[Sessions]:
    with plait.open(file, durability="process") as sessions:
        yield sessions
    assert invariants(file) == []


@pytest.fixture
def chat(sessions: Sessions) -> Session:
    return sessions.session("chat")


@pytest.fixture
def reopened(file: Path) -> Callable[[], Sessions]:
    """Opens the test's file once more, as another program would."""
    return lambda: plait.open(file, durability="process")


@pytest.fixture
def changes(sessions: Sessions) -> list[Change]:
    """What subscribers are told from now on."""
    told: list[Change] = []
    sessions.subscribe(told.append)
    return told
