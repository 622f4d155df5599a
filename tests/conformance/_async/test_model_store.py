"""The model store keeps the contract it is the oracle of."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from plait.store._async.port import AsyncStore
from plait.testing import AsyncModelStore, AsyncStoreTests


class TestModelStore(AsyncStoreTests):
    @pytest.fixture
    async def store(self) -> AsyncIterator[AsyncStore]:
        store = AsyncModelStore()
        await store.open()
        yield store
        await store.close()

    async def payload_count(self, store: AsyncStore) -> int | None:
        assert isinstance(store, AsyncModelStore)
        return store.payload_count()
