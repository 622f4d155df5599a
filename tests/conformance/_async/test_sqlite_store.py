"""SQLite keeps the contract of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from plait.store._async import removing
from plait.store._async.port import AsyncStore
from plait.store._async.store import AsyncPlanStore
from plait.store.driver import Driver
from plait.store.plans import removal
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.driver import SQLiteDriver
from plait.testing import AsyncStoreTests
from plait.testing.faults import invariants


class TestSQLiteStore(AsyncStoreTests):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[AsyncStore]:
        self.path = tmp_path / "conformance.db"
        store = AsyncPlanStore(SQLiteDriver(Settings(str(self.path), durability="process")))
        await store.open()
        yield store
        await store.close()
        assert invariants(self.path) == []

    async def payload_count(self, store: AsyncStore) -> int | None:
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        with connection:
            count = connection.execute("SELECT count(*) FROM attachment").fetchall()[0][0]
        connection.close()
        return int(count)


class TestSQLiteStoreWhileRowsAreLeft(AsyncStoreTests):
    """Every delete is done as a big one, and what it took away stays in the file, to be passed over by all."""

    @pytest.fixture
    async def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncStore]:
        async def not_yet(_driver: Driver, _number: int) -> None:
            pass

        monkeypatch.setattr(removal, "ROWS", 0)
        monkeypatch.setattr(removal, "PART", 7)
        monkeypatch.setattr(removing, "purge", not_yet)
        path = tmp_path / "conformance.db"
        store = AsyncPlanStore(SQLiteDriver(Settings(str(path), durability="process")))
        await store.open()
        yield store
        assert invariants(path) == []
        await store.close()


class TestSQLiteStoreInMemory(AsyncStoreTests):
    @pytest.fixture
    async def store(self) -> AsyncIterator[AsyncStore]:
        store = AsyncPlanStore(SQLiteDriver(Settings(":memory:")))
        await store.open()
        yield store
        await store.close()
