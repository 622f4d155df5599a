"""A store in PostgreSQL for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import plait
from plait import Sessions
from tests import postgres_pooler, postgres_server
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


@pytest.fixture
def pooled(url: str) -> Iterator[str]:
    """The URL of the test's database through a pooler of four connections."""
    if postgres_pooler.program() is None:
        pytest.skip("pgbouncer is not installed (Debian: apt-get install pgbouncer)")
    folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=postgres_server.programs().parent))
    base, pid = postgres_pooler.start(folder, postgres_server.server_port())
    try:
        yield f"{base}/{url.rpartition('/')[2]}"
    finally:
        postgres_pooler.stop(pid)
        shutil.rmtree(folder, ignore_errors=True)
