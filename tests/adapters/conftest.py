"""A store for each test of an adapter, in a file or in PostgreSQL."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import plait
from tests.dose import dose, is_chosen
from tests.postgres_server import database

ONE_OF = dose(short=6, soak=1)
"""In a short run one of so many tests, by the sum of its name, is run on the server too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test on both stores, unless it looks into the folder of the file."""
    if "store_at" in metafunc.fixturenames:
        own = inspect.signature(metafunc.function).parameters
        served = "tmp_path" not in own and is_chosen(metafunc.function.__name__, ONE_OF)
        metafunc.parametrize("store_at", ["sqlite", "postgres"] if served else ["sqlite"], indirect=True)


@pytest.fixture
def store_at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """What the test's store is opened by."""
    if request.param == "sqlite":
        yield str(tmp_path / "store.db")
        return
    with database() as url:
        yield url
        with plait.open(url) as examined:
            assert [finding for finding in examined.doctor() if finding.kind != "stale overlays"] == []


@pytest.fixture
def sessions(store_at: str) -> Iterator[plait.Sessions]:
    """That store, opened for threads."""
    with plait.open(store_at, durability="relaxed") as opened:
        yield opened
