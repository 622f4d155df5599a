"""PostgreSQL keeps the contract of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from plait.store._async.port import AsyncStore
from plait.store._async.store import AsyncPlanStore
from plait.store.postgres.driver import PostgresDriver
from plait.store.postgres.settings import Settings
from plait.testing import AsyncStoreTests
from tests.postgres_server import database


class TestPostgresStore(AsyncStoreTests):
    @pytest.fixture
    async def store(self) -> AsyncIterator[AsyncStore]:
        with database() as url:
            self.url = url
            store = AsyncPlanStore(PostgresDriver(Settings(url)))
            await store.open()
            yield store
            await store.close()

    async def payload_count(self, store: AsyncStore) -> int | None:
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT count(*) FROM plait.attachment").fetchone()
        return int(row[0]) if row else None
