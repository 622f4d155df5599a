"""A store for each test: a file, and a database of a server for what says so with `BOTH`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import plait
from plait import AsyncSessions
from tests.postgres_server import database

BOTH = pytest.mark.parametrize("store_at", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def store_at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if getattr(request, "param", "sqlite") == "postgres":
        with database() as url:
            yield url
    else:
        yield str(tmp_path / "store.db")


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[AsyncSessions]:
    async with plait.open_async(store_at, durability="process") as sessions:
        yield sessions
