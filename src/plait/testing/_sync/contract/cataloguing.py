"""Generated from src/plait/testing/_async/contract/cataloguing.py by tools/unasync.py: edit that file. The contract of the catalogue and of scopes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import pytest

from plait.errors import (
    ConflictError,
    LeafMovedError,
    NotFoundError,
    SessionDeletedError,
    UsageError,
)
from plait.model import LEAF, Totals
from plait.store._sync.port import Stating, Store
from plait.store.protocol import Expect
from plait.testing._sync.contract.case import ALICE, BOB, NEIGHBOURS, StoreCase, drain, now_us


class CatalogueTests(StoreCase):
    """What every store must keep of sessions, each scope by itself."""

    def test_no_scope_reads_another(self, store: Store) -> None:
        self.add(store, "a", "b")
        store.append(self.ref(), [self.picture("p", b"pixels")], parent=LEAF)
        store.update_state(self.ref(), {"secret": 1}, created_at_us=now_us())
        path = self.the_path(store)
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            assert store.get(session, "a") is None
            assert store.path(session, LEAF) is None
            assert store.path(session, "b") is None
            assert store.newest(session) is None
            assert store.children(session, None) == []
            assert store.children(session, "a") == []
            assert store.leaves(session) == []
            assert store.leaf(session) is None
            assert store.everything(session) == []
            assert store.totals(session) == Totals()
            assert store.info(session) is None
            assert store.state(session) == {}
            assert (store.sessions(scope, cursor=None, limit=10)).sessions == []
            with pytest.raises(SessionDeletedError):
                store.load(session, path)
            with pytest.raises(SessionDeletedError):
                store.stats(session, path)
            with pytest.raises(SessionDeletedError):
                store.suffix(session, path, count=1, budget_bytes=None)
            with pytest.raises(NotFoundError):
                drain(store.read_attachment(session, "p", 0))

    def test_no_scope_reads_another_through_a_path_of_its_neighbour(self, store: Store) -> None:
        self.add(store, "a", "b")
        path = self.the_path(store)
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            self.add(store, "mine", session=session)
            try:
                rows: Sequence[Any] = store.load(session, path)
                rows = [*rows, *store.stats(session, path)]
            except SessionDeletedError:
                rows = []
            assert {row.id for row in rows} <= {"mine"}

    def test_no_scope_writes_another(self, store: Store) -> None:
        self.add(store, "a", "b")
        store.put_session(self.ref(), created_at_us=now_us(), create="ensure", name="n", owner="o")
        before = store.info(self.ref())
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            assert store.update(session, self.message("a", "changed")) is None
            assert store.delete(session, ["a", "b"]) == []
            assert not store.clear(session)
            assert not store.delete_session(session)
            with pytest.raises(NotFoundError):
                store.checkout(session, "a")
            with pytest.raises(NotFoundError):
                self.add(store, "c", parent="a", session=session)
            assert store.fork(session, self.ref("copy", scope), at="b", created_at_us=now_us()) == 0
            absent = store.put_session(session, created_at_us=now_us(), create="never", name="m")
            assert absent is None
            store.put_session(session, created_at_us=now_us(), create="new", name="theirs", owner="them")
            store.update_state(session, {"k": "theirs"}, created_at_us=now_us())
            self.add(store, "x", session=session)
            assert self.history(store, session=session) == ["x"]
            store.delete_session(session)
        assert store.info(self.ref()) == before
        assert self.history(store) == ["a", "b"]
        assert store.state(self.ref()) == {}

    def test_a_session_is_created_by_its_first_write(self, store: Store) -> None:
        self.add(store, "a")
        info = store.info(self.ref())
        assert info is not None
        assert (info.id, info.name, info.owner, info.parent_id, info.pinned) == ("s", None, None, None, False)
        assert (info.metadata, info.version) == ({}, 1)
        assert info.totals == store.totals(self.ref())
        assert info.created_at.tzinfo is not None and info.active_at.tzinfo is not None

    def test_create_new_refuses_one_that_exists(self, store: Store) -> None:
        at_us = now_us()
        described = store.put_session(
            self.ref(),
            created_at_us=at_us,
            create="new",
            name="n",
            owner="o",
            parent_id="p",
            pinned=True,
            metadata={"k": [1]},
        )
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.parent_id, info.pinned, info.metadata) == ("n", "o", "p", True, {"k": [1]})
        assert info.created_at.timestamp() == at_us / 1e6
        assert store.info(self.ref()) == info
        with pytest.raises(ConflictError):
            store.put_session(self.ref(), created_at_us=now_us(), create="new", name="other")
        assert store.info(self.ref()) == info
        assert self.history(store) == []

    def test_create_new_refuses_one_made_by_an_append(self, store: Store) -> None:
        self.add(store, "a")
        with pytest.raises(ConflictError):
            store.put_session(self.ref(), created_at_us=now_us(), create="new")

    def test_create_never_answers_none_for_an_absent_one(self, store: Store) -> None:
        assert store.put_session(self.ref(), created_at_us=now_us(), create="never", name="n") is None
        assert store.info(self.ref()) is None
        self.add(store, "a")
        described = store.put_session(self.ref(), created_at_us=now_us(), create="never", name="n")
        info = described.info if described else None
        assert info is not None and info.name == "n"

    def test_what_is_not_given_stays(self, store: Store) -> None:
        store.put_session(
            self.ref(), created_at_us=now_us(), create="new", name="n", owner="o", pinned=True, metadata={"k": 1}
        )
        described = store.put_session(self.ref(), created_at_us=now_us(), create="ensure")
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata) == ("n", "o", True, {"k": 1})
        described = store.put_session(self.ref(), created_at_us=now_us(), create="never", name="m", pinned=False)
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata) == ("m", "o", False, {"k": 1})

    def test_put_once_sets_nothing_of_a_session_that_is_there_but_a_missing_owner(
        self, store: Store
    ) -> None:
        given: dict[str, Any] = {"name": "n", "pinned": True, "metadata": {"k": 1}}
        store.put_session(self.ref(), created_at_us=now_us(), create="once", **given)
        for owner, changed in ((None, False), ("o", True), ("o", False)):
            put = store.put_session(
                self.ref(), created_at_us=now_us(), create="once", owner=owner, name="m", metadata={"late": 1}
            )
            assert put is not None and put.changed == changed
            info = put.info
            assert (info.name, info.owner, info.pinned, info.metadata) == ("n", owner, True, {"k": 1})
        with pytest.raises(ConflictError):
            store.put_session(self.ref(), created_at_us=now_us(), create="once", owner="p")

    def test_putting_says_whether_it_changed_anything(self, store: Store) -> None:
        for name, pinned, changed in (
            (None, None, True),
            (None, None, False),
            ("n", None, True),
            ("n", None, False),
            (None, True, True),
        ):
            put = store.put_session(self.ref(), created_at_us=now_us(), create="ensure", name=name, pinned=pinned)
            assert put is not None and put.changed == changed
            assert put.info == store.info(self.ref())

    def test_putting_what_is_there_changes_nothing(self, store: Store) -> None:
        given: dict[str, Any] = {"name": "n", "owner": "o", "pinned": True, "metadata": {"k": 1}}
        store.put_session(self.ref(), created_at_us=now_us(), create="ensure", **given)
        before = self.version(store)
        store.put_session(self.ref(), created_at_us=now_us(), create="ensure", **given)
        store.put_session(self.ref(), created_at_us=now_us(), create="never", metadata={"absent": None})
        assert self.version(store) == before
        store.put_session(self.ref(), created_at_us=now_us(), create="never", name="m")
        assert self.version(store) == before + 1

    def test_metadata_is_merged_per_key(self, store: Store) -> None:
        self.merge(store, {"a": 1, "b": {"x": 1}})
        self.merge(store, {"b": {"y": 2}, "c": "é\x00\ud800"})
        info = self.merge(store, {"a": None, "nobody": None})
        assert info == {"b": {"y": 2}, "c": "é\x00\ud800"}
        assert self.merge(store, {"n": 2**70, "f": 1.5, "z": False}) == {**info, "n": 2**70, "f": 1.5, "z": False}

    def merge(self, store: Store, patch: dict[str, Any]) -> dict[str, Any]:
        """Merge metadata and answer what it is then."""
        described = store.put_session(self.ref(), created_at_us=now_us(), create="ensure", metadata=patch)
        info = described.info if described else None
        assert info is not None and info == store.info(self.ref())
        return info.metadata

    def test_an_owner_is_set_once(self, store: Store) -> None:
        self.add(store, "a")
        store.put_session(self.ref(), created_at_us=now_us(), create="ensure", owner="o")
        store.put_session(self.ref(), created_at_us=now_us(), create="ensure", owner="o")
        before = store.info(self.ref())
        with pytest.raises(ConflictError):
            store.put_session(self.ref(), created_at_us=now_us(), create="ensure", owner="p", name="n")
        assert store.info(self.ref()) == before

    def test_state_is_merged_per_key_and_creates_the_session(self, store: Store) -> None:
        stated = store.update_state(self.ref(), {"a": 1, "b": {"x": 1}}, created_at_us=now_us())
        assert stated.state == {"a": 1, "b": {"x": 1}}
        assert store.info(self.ref()) is not None
        merged = store.update_state(self.ref(), {"b": [2], "a": None, "c": 3}, created_at_us=now_us())
        assert merged.state == {"b": [2], "c": 3} == store.state(self.ref())
        assert store.state(self.ref("other")) == {}
        assert self.history(store) == []

    def test_a_patch_of_the_state_can_expect_a_version(self, store: Store) -> None:
        with pytest.raises(LeafMovedError):
            store.update_state(self.ref(), {"k": 0}, created_at_us=now_us(), version=0)
        assert store.info(self.ref()) is None
        self.add(store, "a")
        info = store.info(self.ref())
        assert info is not None
        store.update_state(self.ref(), {"k": 1}, created_at_us=now_us(), version=info.version)
        with pytest.raises(LeafMovedError) as caught:
            store.update_state(self.ref(), {"k": 2}, created_at_us=now_us(), version=info.version)
        assert (caught.value.leaf_id, caught.value.version) == ("a", info.version + 1)
        assert store.state(self.ref()) == {"k": 1}

    def test_a_patch_of_the_state_says_whether_it_changed_anything(self, store: Store) -> None:
        patches: list[tuple[dict[str, Any], bool]] = [
            ({"k": 1}, True),
            ({"k": 1}, False),
            ({"k": True}, True),
            ({"k": 1.0}, True),
            ({"nobody": None}, False),
            ({"k": None}, True),
            ({}, False),
        ]
        for patch, changed in patches:
            stated = store.update_state(self.ref(), patch, created_at_us=now_us())
            assert (stated.changed, stated.state) == (changed, store.state(self.ref()))

    def test_state_and_metadata_are_apart(self, store: Store) -> None:
        store.update_state(self.ref(), {"k": "state"}, created_at_us=now_us())
        self.merge(store, {"k": "metadata"})
        assert store.state(self.ref()) == {"k": "state"}

    def test_sessions_are_listed_by_last_activity(self, store: Store) -> None:
        for id in "abc":
            self.add(store, "m", session=self.ref(id))
        self.add(store, "n", session=self.ref("a"))
        page = store.sessions(ALICE, cursor=None, limit=10)
        assert [info.id for info in page.sessions] == ["a", "c", "b"]
        assert page.cursor is None
        assert page.sessions[0] == store.info(self.ref("a"))
        store.update(self.ref("b"), self.message("m", "updated"))
        store.delete_session(self.ref("c"))
        assert [i.id for i in (store.sessions(ALICE, cursor=None, limit=10)).sessions] == ["b", "a"]

    def test_pages_list_every_session_once(self, store: Store) -> None:
        ids = [f"s{n}" for n in range(23)]
        for id in ids:
            self.add(store, "m", session=self.ref(id))
        for limit in (1, 2, 7, 22, 23, 24):
            assert [id for page in self.pages(store, limit) for id in page] == ids[::-1]

    def test_sessions_of_one_instant_are_listed_once(self, store: Store) -> None:
        at_us = now_us()
        for n in range(17):
            store.append(self.ref(f"s{n}"), [self.message("m", at_us=at_us)], parent=LEAF)
        for limit in (1, 4, 17):
            pages = self.pages(store, limit)
            assert sorted(id for page in pages for id in page) == sorted(f"s{n}" for n in range(17))

    def pages(self, store: Store, limit: int) -> list[list[str]]:
        """The ids of every page of a listing."""
        pages: list[list[str]] = []
        cursor: str | None = None
        while cursor is not None or not pages:
            page = store.sessions(ALICE, cursor=cursor, limit=limit)
            assert 0 < len(page.sessions) <= limit
            pages.append([info.id for info in page.sessions])
            cursor = page.cursor
        return pages

    def test_a_session_untouched_meanwhile_is_listed_exactly_once(self, store: Store) -> None:
        ids = [f"s{n:02}" for n in range(20)]
        for id in ids:
            self.add(store, "m", session=self.ref(id))
        touched, listed = {"s02", "s11", "s19", "new0", "new1", "new2"}, list[str]()
        page = store.sessions(ALICE, cursor=None, limit=4)
        for n in itertools.count():
            listed += [info.id for info in page.sessions]
            if page.cursor is None:
                break
            if n < 3:
                self.add(store, f"m{n}", session=self.ref(["s19", "s11", "s02"][n]))
                self.add(store, "m", session=self.ref(f"new{n}"))
            page = store.sessions(ALICE, cursor=page.cursor, limit=4)
        untouched = [id for id in listed if id not in touched]
        assert untouched == [id for id in reversed(ids) if id not in touched]

    def test_a_cursor_survives_the_session_it_ended_on(self, store: Store) -> None:
        for id in "abcdef":
            self.add(store, "m", session=self.ref(id))
        page = store.sessions(ALICE, cursor=None, limit=3)
        store.delete_session(self.ref("d"))
        rest = store.sessions(ALICE, cursor=page.cursor, limit=10)
        assert [info.id for info in rest.sessions] == ["c", "b", "a"]

    def test_a_foreign_cursor_is_refused(self, store: Store) -> None:
        for id, scope in itertools.product("abc", (ALICE, BOB)):
            self.add(store, "m", session=self.ref(id, scope))
        page = store.sessions(BOB, cursor=None, limit=1)
        assert page.cursor is not None
        for cursor in ("", "nonsense", "!!!", "é", "AAAA", page.cursor[:-3], page.cursor):
            with pytest.raises(UsageError):
                store.sessions(ALICE, cursor=cursor, limit=10)

    # -- the state with a message: an ability a store may lack

    def stating(self, store: Store) -> Stating:
        """The store as one that changes the state with its messages; skips the test if it does not."""
        if not callable(getattr(store, "append_with_state", None)):
            pytest.skip("this store cannot change the state together with an append")
        return cast("Stating", store)

    def test_a_state_changes_with_the_message_that_changes_it(self, store: Store) -> None:
        stating = self.stating(store)
        store.update_state(self.ref(), {"kept": 1, "gone": 1, "k": 1}, created_at_us=now_us())
        new = [self.message("a"), self.message("b")]
        written, changed = stating.append_with_state(self.ref(), new, {"k": 2, "gone": None}, parent=LEAF)
        assert [(item.message.id, item.inserted) for item in written] == [("a", True), ("b", True)] and changed
        assert self.history(store) == ["a", "b"]
        assert store.state(self.ref()) == {"kept": 1, "k": 2}
        _, changed = stating.append_with_state(self.ref(), [self.message("c")], {"k": 2}, parent=LEAF)
        assert not changed, "it was so already"
        assert stating.append_with_state(self.ref(), [], {"k": 3}, parent=LEAF) == ([], False)
        assert store.state(self.ref()) == {"kept": 1, "k": 2}

    def test_a_state_begins_a_session(self, store: Store) -> None:
        self.stating(store).append_with_state(self.ref(), [self.message("a")], {"k": [None]}, parent=None)
        assert store.state(self.ref()) == {"k": [None]}
        assert self.history(store) == ["a"]

    def test_a_state_stays_when_its_message_is_there_already(self, store: Store) -> None:
        stating = self.stating(store)
        stating.append_with_state(self.ref(), [self.message("a")], {"k": 1}, parent=LEAF)
        store.update_state(self.ref(), {"k": 2}, created_at_us=now_us())
        version = self.version(store)
        written, changed = stating.append_with_state(self.ref(), [self.message("a")], {"k": 1}, parent=LEAF)
        assert (written[0].inserted, changed, self.version(store)) == (False, False, version)
        assert store.state(self.ref()) == {"k": 2}

    def test_a_state_is_of_the_active_path(self, store: Store) -> None:
        stating = self.stating(store)
        self.add(store, "a", "b")
        moved = Expect(True, "a", None, False)
        with pytest.raises(LeafMovedError):
            stating.append_with_state(self.ref(), [self.message("x")], {"k": 1}, parent=LEAF, expect=moved)
        beside = Expect(True, "a", None, True)
        written, changed = stating.append_with_state(
            self.ref(), [self.message("x")], {"k": 1}, parent=LEAF, expect=beside
        )
        assert written[0].branched and not changed
        with pytest.raises(NotFoundError):
            stating.append_with_state(self.ref(), [self.message("y")], {"k": 1}, parent="nobody")
        assert store.state(self.ref()) == {}
        stating.append_with_state(self.ref(), [self.message("y")], {"k": 1}, parent="a")
        assert store.state(self.ref()) == {"k": 1}, "a branch that takes the leaf"
