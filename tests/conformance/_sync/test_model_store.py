"""Generated from tests/conformance/_async/test_model_store.py by tools/unasync.py: edit that file. The model store keeps the contract it is the oracle of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plait.store._sync.port import Store
from plait.testing import ModelStore, StoreTests


class TestModelStore(StoreTests):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = ModelStore()
        store.open()
        yield store
        store.close()

    def payload_count(self, store: Store) -> int | None:
        assert isinstance(store, ModelStore)
        return store.payload_count()
