"""Generated from tests/providers/_async/conftest.py by tools/unasync.py: edit that file. A store for each test: a file, and a database of a server for what says so with `BOTH`."""

from __future__ import annotations

from collections.abc import Iterator, Iterator
from pathlib import Path

import pytest

import plait
from plait import Sessions
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
def sessions(store_at: str) -> Iterator[Sessions]:
    with plait.open(store_at, durability="process") as sessions:
        yield sessions
