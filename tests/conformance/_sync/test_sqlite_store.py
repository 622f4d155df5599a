"""Generated from tests/conformance/_async/test_sqlite_store.py by tools/unasync.py: edit that file. SQLite keeps the contract of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from plait.store._sync import removing
from plait.store._sync.port import Store
from plait.store._sync.store import PlanStore
from plait.store.driver import Driver
from plait.store.plans import removal
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.driver import SQLiteDriver
from plait.testing import StoreTests
from plait.testing.faults import invariants


class TestSQLiteStore(StoreTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        self.path = tmp_path / "conformance.db"
        store = PlanStore(SQLiteDriver(Settings(str(self.path), durability="process")))
        store.open()
        yield store
        store.close()
        assert invariants(self.path) == []

    def payload_count(self, store: Store) -> int | None:
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        with connection:
            count = connection.execute("SELECT count(*) FROM attachment").fetchall()[0][0]
        connection.close()
        return int(count)


class TestSQLiteStoreWhileRowsAreLeft(StoreTests):
    """Every delete is done as a big one, and what it took away stays in the file, to be passed over by all."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        def not_yet(_driver: Driver, _number: int) -> None:
            pass

        monkeypatch.setattr(removal, "ROWS", 0)
        monkeypatch.setattr(removal, "PART", 7)
        monkeypatch.setattr(removing, "purge", not_yet)
        path = tmp_path / "conformance.db"
        store = PlanStore(SQLiteDriver(Settings(str(path), durability="process")))
        store.open()
        yield store
        assert invariants(path) == []
        store.close()


class TestSQLiteStoreInMemory(StoreTests):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = PlanStore(SQLiteDriver(Settings(":memory:")))
        store.open()
        yield store
        store.close()
