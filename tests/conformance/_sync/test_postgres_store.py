"""Generated from tests/conformance/_async/test_postgres_store.py by tools/unasync.py: edit that file. PostgreSQL keeps the contract of a store."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from plait.store._sync.port import Store
from plait.store._sync.store import PlanStore
from plait.store.postgres.driver import PostgresDriver
from plait.store.postgres.settings import Settings
from plait.testing import StoreTests
from tests.postgres_server import database


class TestPostgresStore(StoreTests):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with database() as url:
            self.url = url
            store = PlanStore(PostgresDriver(Settings(url)))
            store.open()
            yield store
            store.close()

    def payload_count(self, store: Store) -> int | None:
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT count(*) FROM plait.attachment").fetchone()
        return int(row[0]) if row else None
