"""Generated from src/plait/testing/_async/contract/lives.py by tools/unasync.py: edit that file. The contract of sessions that end and begin again, and of a store that is closed."""

from __future__ import annotations

import pytest

from plait.errors import (
    LeafMovedError,
    NotFoundError,
    SessionDeletedError,
    UsageError,
)
from plait.model import LEAF, Totals
from plait.store._sync.port import Store
from plait.store.protocol import (
    SessionRef,
)
from plait.testing._sync.contract.case import ALICE, StoreCase, now_us


class LifeTests(StoreCase):
    """What every store must do with handles of a session that is gone, or of a store that is."""

    def test_clear_empties_and_counts_on(self, store: Store) -> None:
        [*_, b] = self.add(store, "a", "b")
        store.put_session(self.ref(), created_at_us=now_us(), create="ensure", name="n", metadata={"k": 1})
        before, session = self.version(store), self.ref()
        assert store.clear(session)
        info = store.info(session)
        assert info is not None and info.version > before
        assert (info.name, info.metadata, info.totals) == ("n", {"k": 1}, Totals())
        assert store.children(session, None) == []
        assert self.leaf(store, session) is None
        [a] = self.add(store, "a", session=session)
        assert (a.inserted, a.message.parent_id) == (True, None)
        assert a.message.seq > b.message.seq

    def test_clear_of_an_absent_session_does_nothing(self, store: Store) -> None:
        assert not store.clear(self.ref())
        assert store.info(self.ref()) is None

    def test_a_handle_from_before_clear_is_refused(self, store: Store) -> None:
        late = self.ref()
        self.add(store, "a", session=late)
        store.clear(self.ref())
        self.check_refused(store, late)

    def test_a_late_writer_of_a_deleted_session_is_refused(self, store: Store) -> None:
        late = self.ref()
        self.add(store, "a", session=late)
        assert store.delete_session(self.ref())
        self.check_refused(store, late)
        assert late.over
        assert store.info(self.ref()) is None

    def test_a_late_writer_does_not_reach_the_new_session_with_its_id(self, store: Store) -> None:
        late = self.ref()
        [_, b] = self.add(store, "a", "b", session=late)
        version = self.version(store)
        store.delete_session(self.ref())
        fresh = self.ref()
        [a] = self.add(store, "a", session=fresh)
        assert fresh.incarnation != late.incarnation
        assert (a.inserted, a.message.parent_id) == (True, None)
        assert a.message.seq > b.message.seq
        assert self.version(store) > version
        self.check_refused(store, late)
        assert self.history(store) == ["a"]

    def test_a_call_that_is_refused_binds_no_handle(self, store: Store) -> None:
        """Or a handle that has written nothing would end with a life that it had no part in."""
        self.add(store, "a", "b", "c")
        refused = self.ref()
        with pytest.raises(NotFoundError):
            self.add(store, "x", session=refused, parent="absent")
        with pytest.raises(NotFoundError):
            store.checkout(refused, "absent")
        with pytest.raises(LeafMovedError):
            store.update_state(refused, {"k": 1}, created_at_us=now_us(), version=10**9)
        assert refused.incarnation is None

    def check_refused(self, store: Store, late: SessionRef) -> None:
        """Hold that a ref bound to a life that is over can do nothing."""
        with pytest.raises(SessionDeletedError):
            self.add(store, "late", session=late)
        with pytest.raises(SessionDeletedError):
            store.update(late, self.message("a", "late"))
        with pytest.raises(SessionDeletedError):
            store.delete(late, ["a"])
        with pytest.raises(SessionDeletedError):
            store.checkout(late, "a")
        with pytest.raises(SessionDeletedError):
            store.clear(late)
        with pytest.raises(SessionDeletedError):
            store.update_state(late, {"late": True}, created_at_us=now_us())
        with pytest.raises(SessionDeletedError):
            store.fork(late, self.ref("copy"), at=None, created_at_us=now_us())
        with pytest.raises(SessionDeletedError):
            store.get(late, "a")
        with pytest.raises(SessionDeletedError):
            store.path(late, LEAF)
        with pytest.raises(SessionDeletedError):
            store.leaves(late)

    def test_a_new_session_with_a_deleted_ones_id_starts_empty(self, store: Store) -> None:
        self.add(store, "a")
        store.put_session(self.ref(), created_at_us=now_us(), create="ensure", name="old", owner="x", pinned=True)
        store.update_state(self.ref(), {"k": 1}, created_at_us=now_us())
        version = self.version(store)
        store.delete_session(self.ref())
        created = now_us()
        described = store.put_session(self.ref(), created_at_us=created, create="new")
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata, info.totals) == (None, None, False, {}, Totals())
        assert info.created_at.timestamp() == created / 1e6
        assert info.version > version
        assert store.state(self.ref()) == {}
        assert store.get(self.ref(), "a") is None
        assert store.children(self.ref(), None) == []

    def test_a_session_that_has_left_a_version_is_not_deleted(self, store: Store) -> None:
        self.add(store, "a")
        version = self.version(store)
        self.add(store, "b")
        for other in (version, version + 2, 0):
            assert not store.delete_session(self.ref(), version=other)
        assert self.history(store) == ["a", "b"]
        assert store.delete_session(self.ref(), version=version + 1)
        assert store.info(self.ref()) is None
        assert not store.delete_session(self.ref(), version=version + 1)

    def test_deleting_a_session_leaves_its_neighbours(self, store: Store) -> None:
        self.add(store, "a")
        self.add(store, "a", "b", session=self.ref("other"))
        assert store.delete_session(self.ref())
        assert not store.delete_session(self.ref())
        assert not store.delete_session(self.ref("nobody"))
        assert self.history(store, session=self.ref("other")) == ["a", "b"]
        assert [i.id for i in (store.sessions(ALICE, cursor=None, limit=10)).sessions] == ["other"]

    def test_open_and_flush_may_be_repeated(self, store: Store) -> None:
        store.open()
        self.add(store, "a")
        store.flush()
        store.flush()
        store.open()
        assert self.history(store) == ["a"]

    def test_use_after_close_is_refused(self, store: Store) -> None:
        self.add(store, "a")
        store.close()
        store.close()
        with pytest.raises(UsageError):
            self.add(store, "b")
        with pytest.raises(UsageError):
            store.get(self.ref(), "a")
