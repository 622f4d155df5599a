"""A store in PostgreSQL for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import plait
from plait import Sessions
from tests.postgres_server import database


@pytest.fixture
def url() -> Iterator[str]:
    """A database with plait's tables and nothing in them."""
    with database() as url:
        yield url


@pytest.fixture
def sessions(url: str) -> Iterator[Sessions]:
    with plait.open(url) as sessions:
        yield sessions
