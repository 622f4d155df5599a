"""Generated from src/plait/testing/_async/contract/copying.py by tools/unasync.py: edit that file. The contract of forks, stages and merges: what appears whole or not at all."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from plait import times
from plait.errors import (
    ConflictError,
    NotFoundError,
    SessionDeletedError,
)
from plait.model import LEAF
from plait.store._sync.port import Scoping, Store
from plait.store.protocol import Scope, SessionRef
from plait.testing._sync.contract.case import ALICE, NEIGHBOURS, StoreCase, data_url, ids, now_us


class CopyTests(StoreCase):
    """What every store must do with sessions that are made beside, and published."""

    def test_fork_copies_a_path_with_ids_seqs_and_times(self, store: Store) -> None:
        self.zigzag(store)
        assert store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us()) == 6
        source, copy = self.read(store), self.read(store, session=self.ref("copy"))
        assert copy == source
        assert [m.created_at for m in copy] == [m.created_at for m in source]
        info = store.info(self.ref("copy"))
        assert info is not None and info.parent_id == "s"
        self.check_tree(store, self.ref("copy"))

    def test_fork_at_a_message_copies_the_path_to_it(self, store: Store) -> None:
        self.zigzag(store)
        assert store.fork(self.ref(), self.ref("copy"), at="z", created_at_us=now_us()) == 4
        assert self.history(store, session=self.ref("copy")) == ["a", "c", "y", "z"]
        assert ids(store.leaves(self.ref("copy"))) == ["z"]

    def test_a_fork_and_its_source_are_independent(self, store: Store) -> None:
        self.add(store, "a", "b")
        store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        store.update(self.ref("copy"), self.message("a", "of the copy"))
        store.delete(self.ref(), ["b"])
        self.add(store, "c")
        [d] = self.add(store, "d", session=self.ref("copy"))
        assert d.message.parent_id == "b"
        assert self.history(store) == ["a", "c"]
        assert self.history(store, session=self.ref("copy")) == ["a", "b", "d"]
        assert (self.must(store, "a")).text == "text of a"
        store.delete_session(self.ref())
        assert self.history(store, session=self.ref("copy")) == ["a", "b", "d"]
        self.check_tree(store, self.ref("copy"))

    def test_a_fork_goes_on_after_the_seqs_it_copied(self, store: Store) -> None:
        [*_, c] = self.add(store, "a", "b", "c")
        store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        [d] = self.add(store, "d", session=self.ref("copy"))
        assert d.message.seq > c.message.seq

    def test_fork_into_a_session_that_exists_is_refused(self, store: Store) -> None:
        self.add(store, "a")
        self.add(store, "x", session=self.ref("copy"))
        with pytest.raises(ConflictError):
            store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        with pytest.raises(ConflictError):
            store.fork(self.ref(), self.ref(), at=None, created_at_us=now_us())
        assert self.history(store, session=self.ref("copy")) == ["x"]

    def test_fork_into_a_deleted_sessions_id_starts_a_new_life(self, store: Store) -> None:
        self.add(store, "x", "y", "z", session=self.ref("copy"))
        store.delete_session(self.ref("copy"))
        self.add(store, "a")
        target = self.ref("copy")
        assert store.fork(self.ref(), target, at=None, created_at_us=now_us()) == 1
        assert self.history(store, session=target) == ["a"]
        [b] = self.add(store, "b", session=target)
        assert b.message.seq > 3

    def test_fork_of_nothing_copies_nothing(self, store: Store) -> None:
        assert store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us()) == 0
        info = store.info(self.ref("copy"))
        assert info is not None and info.parent_id is None, "a fork names a session that never was as its parent"

    def test_fork_of_many_messages(self, store: Store) -> None:
        ids = [f"m{n}" for n in range(2500)]
        self.add(store, *ids)
        assert store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us()) == 2500
        assert self.history(store, session=self.ref("copy")) == ids
        self.check_totals(store, self.ref("copy"))

    def test_a_stage_is_invisible_until_it_is_published(self, store: Store) -> None:
        stage = store.stage(self.ref())
        store.append(stage, [self.message("a"), self.picture("p", b"pixels")], parent=None, kind="import")
        store.append(stage, [self.message("x")], parent="a", kind="import", activate=False)
        store.put_session(stage, created_at_us=now_us(), create="ensure", name="n", metadata={"k": 1})
        assert store.info(self.ref()) is None
        assert store.get(self.ref(), "a") is None
        assert (store.sessions(ALICE, cursor=None, limit=10)).sessions == []
        store.publish(stage, self.ref())
        assert self.history(store) == ["a", "p"]
        assert self.history(store, "x") == ["a", "x"]
        assert (self.must(store, "p")).parts[0]["url"] == data_url(b"pixels")
        [info] = (store.sessions(ALICE, cursor=None, limit=10)).sessions
        assert (info.id, info.name, info.metadata) == ("s", "n", {"k": 1})
        assert info == store.info(self.ref())
        self.check_tree(store)

    def test_what_is_noted_of_another_session_stands_when_a_stage_is_published(self, store: Store) -> None:
        other = self.ref("other")
        store.put_session(other, created_at_us=now_us(), create="new", metadata={"k": 1})
        stage = store.stage(self.ref())
        store.append(stage, [self.message("a")], parent=None, kind="import")
        store.publish(stage, self.ref(), note=(other, {"n": 2}))
        noted = store.info(other)
        assert noted is not None and noted.metadata == {"k": 1, "n": 2}
        assert self.history(store) == ["a"]

    def test_nothing_is_published_if_the_session_to_be_noted_is_gone(self, store: Store) -> None:
        stage = store.stage(self.ref())
        store.append(stage, [self.message("a")], parent=None, kind="import")
        with pytest.raises(NotFoundError):
            store.publish(stage, self.ref(), note=(self.ref("gone"), {"n": 2}))
        assert (store.info(self.ref()), store.info(self.ref("gone"))) == (None, None)

    def test_nothing_is_noted_if_the_stage_cannot_be_published(self, store: Store) -> None:
        other = self.ref("other")
        store.put_session(other, created_at_us=now_us(), create="new")
        stage = store.stage(self.ref())
        self.add(store, "taken")
        with pytest.raises(ConflictError):
            store.publish(stage, self.ref(), note=(other, {"n": 2}))
        untouched = store.info(other)
        assert untouched is not None and untouched.metadata == {}

    def test_a_stage_is_gone_on_with_under_its_token(self, store: Store) -> None:
        token = "0123456789abcdef" * 2
        stage = store.stage(self.ref(), created_at_us=5_000_000, token=token)
        store.append(stage, [self.message("a")], parent=None, kind="import")
        again = store.stage(self.ref(), token=token)
        assert self.history(store, session=again) == ["a"]
        store.append(again, [self.message("b")], parent=LEAF, kind="import")
        other = store.stage(self.ref(), token="f" * 32)
        assert store.newest(other) is None
        store.publish(again, self.ref())
        assert self.history(store) == ["a", "b"]
        info = store.info(self.ref())
        assert info is not None and times.to_us(info.created_at) == 5_000_000
        with pytest.raises(ConflictError):
            store.stage(self.ref(), token=token)
        store.discard(other)

    def test_a_message_has_no_lower_seq_than_it_names(self, store: Store) -> None:
        self.add(store, "a")
        new = [replace(self.message("b"), seq=7), replace(self.message("c"), seq=3), self.message("d")]
        store.append(self.ref(), new, parent=LEAF, kind="import")
        [e] = self.add(store, "e")
        rows = store.everything(self.ref())
        assert [(row.id, row.seq) for row in rows] == [("a", 1), ("b", 7), ("c", 8), ("d", 9), ("e", 10)]
        assert e.message.parent_id == "d"
        self.check_tree(store)

    def test_scopes_are_those_that_have_sessions_or_share_values(self, store: Store) -> None:
        if not callable(getattr(store, "scopes", None)):
            pytest.skip("this store cannot say whose sessions it holds")
        able = cast("Scoping", store)
        assert able.scopes() == []
        found = [Scope(*names) for names in sorted((s.tenant, s.owner) for s in (ALICE, *NEIGHBOURS))]
        for scope in found:
            for id in ("one", "two"):
                store.append(SessionRef(scope, id), [self.message("a")], parent=LEAF)
        store.append(SessionRef(Scope("gone", ""), "s"), [self.message("a")], parent=LEAF)
        store.delete_session(SessionRef(Scope("gone", ""), "s"))
        store.stage(SessionRef(Scope("hidden", ""), "s"))
        assert able.scopes() == found
        for limit in (1, 2, 100):
            paged: list[Scope] = []
            while page := able.scopes(after=paged[-1] if paged else None, limit=limit):
                paged += page
            assert paged == found

    def test_a_published_stage_was_last_active_when_it_says(self, store: Store) -> None:
        before = now_us()
        for id, at in (("old", 1_000_000), ("older", 1_000), ("future", before + 10**15), ("now", None)):
            stage = store.stage(self.ref(id))
            store.append(stage, [self.message("a")], parent=None, kind="import")
            store.publish(stage, self.ref(id), active_at_us=at)
        found = (store.sessions(ALICE, cursor=None, limit=10)).sessions
        assert [info.id for info in found] == ["now", "future", "old", "older"]
        active = [times.to_us(info.active_at) for info in found]
        assert active[2:] == [1_000_000, 1_000]
        assert before <= active[1] <= active[0]

    def test_a_published_stage_is_no_handle_any_more(self, store: Store) -> None:
        stage = store.stage(self.ref())
        store.append(stage, [self.message("a")], parent=None)
        held = SessionRef(stage.scope, stage.id, stage.incarnation)
        store.publish(stage, self.ref())
        with pytest.raises((SessionDeletedError, NotFoundError)):
            store.publish(held, self.ref("other"))
        with pytest.raises(SessionDeletedError):
            store.append(held, [self.message("late")], parent=LEAF)
        assert self.history(store) == ["a"]

    def test_a_session_that_exists_is_not_staged_over(self, store: Store) -> None:
        stage = store.stage(self.ref())
        store.append(stage, [self.message("a")], parent=None)
        self.add(store, "x")
        with pytest.raises(ConflictError):
            store.publish(stage, self.ref())
        with pytest.raises(ConflictError):
            store.stage(self.ref())
        assert self.history(store) == ["x"]
        store.discard(stage)
        assert self.history(store) == ["x"]

    def test_a_discarded_stage_leaves_nothing(self, store: Store) -> None:
        stage = store.stage(self.ref())
        store.append(stage, [self.message("a"), self.picture("p", b"pixels")], parent=None)
        store.discard(stage)
        store.discard(stage)
        self.check_payloads(store, 0)
        assert store.info(self.ref()) is None
        with pytest.raises((SessionDeletedError, NotFoundError)):
            store.publish(stage, self.ref())
        published = store.stage(self.ref())
        store.append(published, [self.message("a")], parent=None)
        store.publish(published, self.ref())
        store.discard(published)
        assert self.history(store) == ["a"]

    def test_a_stage_in_the_place_of_a_deleted_session_uses_no_number_again(self, store: Store) -> None:
        self.add(store, "a")
        store.delete_session(self.ref())
        stage = store.stage(self.ref())
        store.append(stage, [self.message("b")], parent=None)
        [*_, d] = self.add(store, "c", "d", session=self.ref())  # somebody else is faster, and gone again
        version = self.version(store)
        store.delete_session(self.ref())
        store.publish(stage, self.ref())
        assert self.history(store) == ["b"]
        assert self.version(store) > version
        [e] = self.add(store, "e")
        assert e.message.seq > d.message.seq

    def test_a_discarded_stage_leaves_nothing_for_the_next_session_to_trip_over(self, store: Store) -> None:
        stage = store.stage(self.ref())
        self.change_all(store, stage)
        store.discard(stage)
        for id in ("s", "t"):
            self.change_all(store, self.ref(id))
            assert self.history(store, session=self.ref(id)) == ["a"]
