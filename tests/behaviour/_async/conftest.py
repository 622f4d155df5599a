"""A store for each test, in a file, examined when the test is over, and in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import plait
from plait import AsyncSession, AsyncSessions, Change
from plait.testing.faults import invariants
from tests.dose import dose, is_chosen
from tests.postgres_server import database

ONE_OF = dose(short=5, soak=1)
"""In a short run one of so many tests, by the sum of its name, is run on the server too: the conformance suite is whole."""

OF_FILES = {
    "test_reading_and_upkeep_do_not_prolong_a_life_but_a_branch_does": "it makes a backup",
    "test_a_closed_store_says_so": "it asks for a backup",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test on both backends, unless it looks into the file."""
    if "store_at" in metafunc.fixturenames:
        name = metafunc.function.__name__
        served = "file" not in metafunc.fixturenames and name not in OF_FILES and is_chosen(name, ONE_OF)
        metafunc.parametrize("store_at", ["sqlite", "postgres"] if served else ["sqlite"], indirect=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store_at(request: pytest.FixtureRequest) -> Iterator[str]:
    """What the test's store is opened by."""
    if request.param == "postgres":
        with database() as url:
            yield url
            with plait.open(url) as examined:
                assert [finding for finding in examined.doctor() if finding.kind != "stale overlays"] == []
    else:
        file: Path = request.getfixturevalue("file")
        yield str(file)
        assert invariants(file) == []


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[AsyncSessions]:
    async with plait.open_async(store_at, durability="process") as sessions:
        yield sessions


@pytest.fixture
async def chat(sessions: AsyncSessions) -> AsyncSession:
    return sessions.session("chat")


@pytest.fixture
def reopened(store_at: str) -> Callable[[], AsyncSessions]:
    """Opens the test's store once more, as another program would."""
    return lambda: plait.open_async(store_at, durability="process")


@pytest.fixture
def changes(sessions: AsyncSessions) -> list[Change]:
    """What subscribers are told from now on."""
    told: list[Change] = []
    sessions.subscribe(told.append)
    return told
