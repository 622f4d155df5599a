"""The contract of sessions that end and begin again, and of a store that is closed."""

from __future__ import annotations

import pytest

from plait.errors import (
    LeafMovedError,
    NotFoundError,
    SessionDeletedError,
    UsageError,
)
from plait.model import LEAF, Totals
from plait.store._async.port import AsyncStore
from plait.store.protocol import (
    SessionRef,
)
from plait.testing._async.contract.case import ALICE, AsyncStoreCase, now_us


class AsyncLifeTests(AsyncStoreCase):
    """What every store must do with handles of a session that is gone, or of a store that is."""

    async def test_clear_empties_and_counts_on(self, store: AsyncStore) -> None:
        [*_, b] = await self.add(store, "a", "b")
        await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", name="n", metadata={"k": 1})
        before, session = await self.version(store), self.ref()
        assert await store.clear(session)
        info = await store.info(session)
        assert info is not None and info.version > before
        assert (info.name, info.metadata, info.totals) == ("n", {"k": 1}, Totals())
        assert await store.children(session, None) == []
        assert await self.leaf(store, session) is None
        [a] = await self.add(store, "a", session=session)
        assert (a.inserted, a.message.parent_id) == (True, None)
        assert a.message.seq > b.message.seq

    async def test_clear_of_an_absent_session_does_nothing(self, store: AsyncStore) -> None:
        assert not await store.clear(self.ref())
        assert await store.info(self.ref()) is None

    async def test_a_handle_from_before_clear_is_refused(self, store: AsyncStore) -> None:
        late = self.ref()
        await self.add(store, "a", session=late)
        await store.clear(self.ref())
        await self.check_refused(store, late)

    async def test_a_late_writer_of_a_deleted_session_is_refused(self, store: AsyncStore) -> None:
        late = self.ref()
        await self.add(store, "a", session=late)
        assert await store.delete_session(self.ref())
        await self.check_refused(store, late)
        assert late.over
        assert await store.info(self.ref()) is None

    async def test_a_late_writer_does_not_reach_the_new_session_with_its_id(self, store: AsyncStore) -> None:
        late = self.ref()
        [_, b] = await self.add(store, "a", "b", session=late)
        version = await self.version(store)
        await store.delete_session(self.ref())
        fresh = self.ref()
        [a] = await self.add(store, "a", session=fresh)
        assert fresh.incarnation != late.incarnation
        assert (a.inserted, a.message.parent_id) == (True, None)
        assert a.message.seq > b.message.seq
        assert await self.version(store) > version
        await self.check_refused(store, late)
        assert await self.history(store) == ["a"]

    async def test_a_call_that_is_refused_binds_no_handle(self, store: AsyncStore) -> None:
        """Or a handle that has written nothing would end with a life that it had no part in."""
        await self.add(store, "a", "b", "c")
        refused = self.ref()
        with pytest.raises(NotFoundError):
            await self.add(store, "x", session=refused, parent="absent")
        with pytest.raises(NotFoundError):
            await store.checkout(refused, "absent")
        with pytest.raises(LeafMovedError):
            await store.update_state(refused, {"k": 1}, created_at_us=now_us(), version=10**9)
        assert refused.incarnation is None

    async def check_refused(self, store: AsyncStore, late: SessionRef) -> None:
        """Hold that a ref bound to a life that is over can do nothing."""
        with pytest.raises(SessionDeletedError):
            await self.add(store, "late", session=late)
        with pytest.raises(SessionDeletedError):
            await store.update(late, self.message("a", "late"))
        with pytest.raises(SessionDeletedError):
            await store.delete(late, ["a"])
        with pytest.raises(SessionDeletedError):
            await store.checkout(late, "a")
        with pytest.raises(SessionDeletedError):
            await store.clear(late)
        with pytest.raises(SessionDeletedError):
            await store.update_state(late, {"late": True}, created_at_us=now_us())
        with pytest.raises(SessionDeletedError):
            await store.fork(late, self.ref("copy"), at=None, created_at_us=now_us())
        with pytest.raises(SessionDeletedError):
            await store.get(late, "a")
        with pytest.raises(SessionDeletedError):
            await store.path(late, LEAF)
        with pytest.raises(SessionDeletedError):
            await store.leaves(late)

    async def test_a_new_session_with_a_deleted_ones_id_starts_empty(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", name="old", owner="x", pinned=True)
        await store.update_state(self.ref(), {"k": 1}, created_at_us=now_us())
        version = await self.version(store)
        await store.delete_session(self.ref())
        created = now_us()
        described = await store.put_session(self.ref(), created_at_us=created, create="new")
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata, info.totals) == (None, None, False, {}, Totals())
        assert info.created_at.timestamp() == created / 1e6
        assert info.version > version
        assert await store.state(self.ref()) == {}
        assert await store.get(self.ref(), "a") is None
        assert await store.children(self.ref(), None) == []

    async def test_a_session_that_has_left_a_version_is_not_deleted(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        version = await self.version(store)
        await self.add(store, "b")
        for other in (version, version + 2, 0):
            assert not await store.delete_session(self.ref(), version=other)
        assert await self.history(store) == ["a", "b"]
        assert await store.delete_session(self.ref(), version=version + 1)
        assert await store.info(self.ref()) is None
        assert not await store.delete_session(self.ref(), version=version + 1)

    async def test_deleting_a_session_leaves_its_neighbours(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await self.add(store, "a", "b", session=self.ref("other"))
        assert await store.delete_session(self.ref())
        assert not await store.delete_session(self.ref())
        assert not await store.delete_session(self.ref("nobody"))
        assert await self.history(store, session=self.ref("other")) == ["a", "b"]
        assert [i.id for i in (await store.sessions(ALICE, cursor=None, limit=10)).sessions] == ["other"]

    async def test_open_and_flush_may_be_repeated(self, store: AsyncStore) -> None:
        await store.open()
        await self.add(store, "a")
        await store.flush()
        await store.flush()
        await store.open()
        assert await self.history(store) == ["a"]

    async def test_use_after_close_is_refused(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.close()
        await store.close()
        with pytest.raises(UsageError):
            await self.add(store, "b")
        with pytest.raises(UsageError):
            await store.get(self.ref(), "a")
