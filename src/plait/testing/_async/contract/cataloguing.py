"""The contract of the catalogue and of scopes."""

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
from plait.store._async.port import AsyncStating, AsyncStore
from plait.store.protocol import Expect
from plait.testing._async.contract.case import ALICE, BOB, NEIGHBOURS, AsyncStoreCase, drain, now_us


class AsyncCatalogueTests(AsyncStoreCase):
    """What every store must keep of sessions, each scope by itself."""

    async def test_no_scope_reads_another(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await store.append(self.ref(), [self.picture("p", b"pixels")], parent=LEAF)
        await store.update_state(self.ref(), {"secret": 1}, created_at_us=now_us())
        path = await self.the_path(store)
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            assert await store.get(session, "a") is None
            assert await store.path(session, LEAF) is None
            assert await store.path(session, "b") is None
            assert await store.newest(session) is None
            assert await store.children(session, None) == []
            assert await store.children(session, "a") == []
            assert await store.leaves(session) == []
            assert await store.leaf(session) is None
            assert await store.everything(session) == []
            assert await store.totals(session) == Totals()
            assert await store.info(session) is None
            assert await store.state(session) == {}
            assert (await store.sessions(scope, cursor=None, limit=10)).sessions == []
            with pytest.raises(SessionDeletedError):
                await store.load(session, path)
            with pytest.raises(SessionDeletedError):
                await store.stats(session, path)
            with pytest.raises(SessionDeletedError):
                await store.suffix(session, path, count=1, budget_bytes=None)
            with pytest.raises(NotFoundError):
                await drain(store.read_attachment(session, "p", 0))

    async def test_no_scope_reads_another_through_a_path_of_its_neighbour(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        path = await self.the_path(store)
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            await self.add(store, "mine", session=session)
            try:
                rows: Sequence[Any] = await store.load(session, path)
                rows = [*rows, *await store.stats(session, path)]
            except SessionDeletedError:
                rows = []
            assert {row.id for row in rows} <= {"mine"}

    async def test_no_scope_writes_another(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", name="n", owner="o")
        before = await store.info(self.ref())
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            assert await store.update(session, self.message("a", "changed")) is None
            assert await store.delete(session, ["a", "b"]) == []
            assert not await store.clear(session)
            assert not await store.delete_session(session)
            with pytest.raises(NotFoundError):
                await store.checkout(session, "a")
            with pytest.raises(NotFoundError):
                await self.add(store, "c", parent="a", session=session)
            assert await store.fork(session, self.ref("copy", scope), at="b", created_at_us=now_us()) == 0
            absent = await store.put_session(session, created_at_us=now_us(), create="never", name="m")
            assert absent is None
            await store.put_session(session, created_at_us=now_us(), create="new", name="theirs", owner="them")
            await store.update_state(session, {"k": "theirs"}, created_at_us=now_us())
            await self.add(store, "x", session=session)
            assert await self.history(store, session=session) == ["x"]
            await store.delete_session(session)
        assert await store.info(self.ref()) == before
        assert await self.history(store) == ["a", "b"]
        assert await store.state(self.ref()) == {}

    async def test_a_session_is_created_by_its_first_write(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        info = await store.info(self.ref())
        assert info is not None
        assert (info.id, info.name, info.owner, info.parent_id, info.pinned) == ("s", None, None, None, False)
        assert (info.metadata, info.version) == ({}, 1)
        assert info.totals == await store.totals(self.ref())
        assert info.created_at.tzinfo is not None and info.active_at.tzinfo is not None

    async def test_create_new_refuses_one_that_exists(self, store: AsyncStore) -> None:
        at_us = now_us()
        described = await store.put_session(
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
        assert await store.info(self.ref()) == info
        with pytest.raises(ConflictError):
            await store.put_session(self.ref(), created_at_us=now_us(), create="new", name="other")
        assert await store.info(self.ref()) == info
        assert await self.history(store) == []

    async def test_create_new_refuses_one_made_by_an_append(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        with pytest.raises(ConflictError):
            await store.put_session(self.ref(), created_at_us=now_us(), create="new")

    async def test_create_never_answers_none_for_an_absent_one(self, store: AsyncStore) -> None:
        assert await store.put_session(self.ref(), created_at_us=now_us(), create="never", name="n") is None
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        described = await store.put_session(self.ref(), created_at_us=now_us(), create="never", name="n")
        info = described.info if described else None
        assert info is not None and info.name == "n"

    async def test_what_is_not_given_stays(self, store: AsyncStore) -> None:
        await store.put_session(
            self.ref(), created_at_us=now_us(), create="new", name="n", owner="o", pinned=True, metadata={"k": 1}
        )
        described = await store.put_session(self.ref(), created_at_us=now_us(), create="ensure")
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata) == ("n", "o", True, {"k": 1})
        described = await store.put_session(self.ref(), created_at_us=now_us(), create="never", name="m", pinned=False)
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata) == ("m", "o", False, {"k": 1})

    async def test_put_once_sets_nothing_of_a_session_that_is_there_but_a_missing_owner(
        self, store: AsyncStore
    ) -> None:
        given: dict[str, Any] = {"name": "n", "pinned": True, "metadata": {"k": 1}}
        await store.put_session(self.ref(), created_at_us=now_us(), create="once", **given)
        for owner, changed in ((None, False), ("o", True), ("o", False)):
            put = await store.put_session(
                self.ref(), created_at_us=now_us(), create="once", owner=owner, name="m", metadata={"late": 1}
            )
            assert put is not None and put.changed == changed
            info = put.info
            assert (info.name, info.owner, info.pinned, info.metadata) == ("n", owner, True, {"k": 1})
        with pytest.raises(ConflictError):
            await store.put_session(self.ref(), created_at_us=now_us(), create="once", owner="p")

    async def test_putting_says_whether_it_changed_anything(self, store: AsyncStore) -> None:
        for name, pinned, changed in (
            (None, None, True),
            (None, None, False),
            ("n", None, True),
            ("n", None, False),
            (None, True, True),
        ):
            put = await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", name=name, pinned=pinned)
            assert put is not None and put.changed == changed
            assert put.info == await store.info(self.ref())

    async def test_putting_what_is_there_changes_nothing(self, store: AsyncStore) -> None:
        given: dict[str, Any] = {"name": "n", "owner": "o", "pinned": True, "metadata": {"k": 1}}
        await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", **given)
        before = await self.version(store)
        await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", **given)
        await store.put_session(self.ref(), created_at_us=now_us(), create="never", metadata={"absent": None})
        assert await self.version(store) == before
        await store.put_session(self.ref(), created_at_us=now_us(), create="never", name="m")
        assert await self.version(store) == before + 1

    async def test_metadata_is_merged_per_key(self, store: AsyncStore) -> None:
        await self.merge(store, {"a": 1, "b": {"x": 1}})
        await self.merge(store, {"b": {"y": 2}, "c": "é\x00\ud800"})
        info = await self.merge(store, {"a": None, "nobody": None})
        assert info == {"b": {"y": 2}, "c": "é\x00\ud800"}
        assert await self.merge(store, {"n": 2**70, "f": 1.5, "z": False}) == {**info, "n": 2**70, "f": 1.5, "z": False}

    async def merge(self, store: AsyncStore, patch: dict[str, Any]) -> dict[str, Any]:
        """Merge metadata and answer what it is then."""
        described = await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", metadata=patch)
        info = described.info if described else None
        assert info is not None and info == await store.info(self.ref())
        return info.metadata

    async def test_an_owner_is_set_once(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", owner="o")
        await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", owner="o")
        before = await store.info(self.ref())
        with pytest.raises(ConflictError):
            await store.put_session(self.ref(), created_at_us=now_us(), create="ensure", owner="p", name="n")
        assert await store.info(self.ref()) == before

    async def test_state_is_merged_per_key_and_creates_the_session(self, store: AsyncStore) -> None:
        stated = await store.update_state(self.ref(), {"a": 1, "b": {"x": 1}}, created_at_us=now_us())
        assert stated.state == {"a": 1, "b": {"x": 1}}
        assert await store.info(self.ref()) is not None
        merged = await store.update_state(self.ref(), {"b": [2], "a": None, "c": 3}, created_at_us=now_us())
        assert merged.state == {"b": [2], "c": 3} == await store.state(self.ref())
        assert await store.state(self.ref("other")) == {}
        assert await self.history(store) == []

    async def test_a_patch_of_the_state_can_expect_a_version(self, store: AsyncStore) -> None:
        with pytest.raises(LeafMovedError):
            await store.update_state(self.ref(), {"k": 0}, created_at_us=now_us(), version=0)
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        info = await store.info(self.ref())
        assert info is not None
        await store.update_state(self.ref(), {"k": 1}, created_at_us=now_us(), version=info.version)
        with pytest.raises(LeafMovedError) as caught:
            await store.update_state(self.ref(), {"k": 2}, created_at_us=now_us(), version=info.version)
        assert (caught.value.leaf_id, caught.value.version) == ("a", info.version + 1)
        assert await store.state(self.ref()) == {"k": 1}

    async def test_a_patch_of_the_state_says_whether_it_changed_anything(self, store: AsyncStore) -> None:
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
            stated = await store.update_state(self.ref(), patch, created_at_us=now_us())
            assert (stated.changed, stated.state) == (changed, await store.state(self.ref()))

    async def test_state_and_metadata_are_apart(self, store: AsyncStore) -> None:
        await store.update_state(self.ref(), {"k": "state"}, created_at_us=now_us())
        await self.merge(store, {"k": "metadata"})
        assert await store.state(self.ref()) == {"k": "state"}

    async def test_sessions_are_listed_by_last_activity(self, store: AsyncStore) -> None:
        for id in "abc":
            await self.add(store, "m", session=self.ref(id))
        await self.add(store, "n", session=self.ref("a"))
        page = await store.sessions(ALICE, cursor=None, limit=10)
        assert [info.id for info in page.sessions] == ["a", "c", "b"]
        assert page.cursor is None
        assert page.sessions[0] == await store.info(self.ref("a"))
        await store.update(self.ref("b"), self.message("m", "updated"))
        await store.delete_session(self.ref("c"))
        assert [i.id for i in (await store.sessions(ALICE, cursor=None, limit=10)).sessions] == ["b", "a"]

    async def test_pages_list_every_session_once(self, store: AsyncStore) -> None:
        ids = [f"s{n}" for n in range(23)]
        for id in ids:
            await self.add(store, "m", session=self.ref(id))
        for limit in (1, 2, 7, 22, 23, 24):
            assert [id for page in await self.pages(store, limit) for id in page] == ids[::-1]

    async def test_sessions_of_one_instant_are_listed_once(self, store: AsyncStore) -> None:
        at_us = now_us()
        for n in range(17):
            await store.append(self.ref(f"s{n}"), [self.message("m", at_us=at_us)], parent=LEAF)
        for limit in (1, 4, 17):
            pages = await self.pages(store, limit)
            assert sorted(id for page in pages for id in page) == sorted(f"s{n}" for n in range(17))

    async def pages(self, store: AsyncStore, limit: int) -> list[list[str]]:
        """The ids of every page of a listing."""
        pages: list[list[str]] = []
        cursor: str | None = None
        while cursor is not None or not pages:
            page = await store.sessions(ALICE, cursor=cursor, limit=limit)
            assert 0 < len(page.sessions) <= limit
            pages.append([info.id for info in page.sessions])
            cursor = page.cursor
        return pages

    async def test_a_session_untouched_meanwhile_is_listed_exactly_once(self, store: AsyncStore) -> None:
        ids = [f"s{n:02}" for n in range(20)]
        for id in ids:
            await self.add(store, "m", session=self.ref(id))
        touched, listed = {"s02", "s11", "s19", "new0", "new1", "new2"}, list[str]()
        page = await store.sessions(ALICE, cursor=None, limit=4)
        for n in itertools.count():
            listed += [info.id for info in page.sessions]
            if page.cursor is None:
                break
            if n < 3:
                await self.add(store, f"m{n}", session=self.ref(["s19", "s11", "s02"][n]))
                await self.add(store, "m", session=self.ref(f"new{n}"))
            page = await store.sessions(ALICE, cursor=page.cursor, limit=4)
        untouched = [id for id in listed if id not in touched]
        assert untouched == [id for id in reversed(ids) if id not in touched]

    async def test_a_cursor_survives_the_session_it_ended_on(self, store: AsyncStore) -> None:
        for id in "abcdef":
            await self.add(store, "m", session=self.ref(id))
        page = await store.sessions(ALICE, cursor=None, limit=3)
        await store.delete_session(self.ref("d"))
        rest = await store.sessions(ALICE, cursor=page.cursor, limit=10)
        assert [info.id for info in rest.sessions] == ["c", "b", "a"]

    async def test_a_foreign_cursor_is_refused(self, store: AsyncStore) -> None:
        for id, scope in itertools.product("abc", (ALICE, BOB)):
            await self.add(store, "m", session=self.ref(id, scope))
        page = await store.sessions(BOB, cursor=None, limit=1)
        assert page.cursor is not None
        for cursor in ("", "nonsense", "!!!", "é", "AAAA", page.cursor[:-3], page.cursor):
            with pytest.raises(UsageError):
                await store.sessions(ALICE, cursor=cursor, limit=10)

    # -- the state with a message: an ability a store may lack

    def stating(self, store: AsyncStore) -> AsyncStating:
        """The store as one that changes the state with its messages; skips the test if it does not."""
        if not callable(getattr(store, "append_with_state", None)):
            pytest.skip("this store cannot change the state together with an append")
        return cast("AsyncStating", store)

    async def test_a_state_changes_with_the_message_that_changes_it(self, store: AsyncStore) -> None:
        stating = self.stating(store)
        await store.update_state(self.ref(), {"kept": 1, "gone": 1, "k": 1}, created_at_us=now_us())
        new = [self.message("a"), self.message("b")]
        written, changed = await stating.append_with_state(self.ref(), new, {"k": 2, "gone": None}, parent=LEAF)
        assert [(item.message.id, item.inserted) for item in written] == [("a", True), ("b", True)] and changed
        assert await self.history(store) == ["a", "b"]
        assert await store.state(self.ref()) == {"kept": 1, "k": 2}
        _, changed = await stating.append_with_state(self.ref(), [self.message("c")], {"k": 2}, parent=LEAF)
        assert not changed, "it was so already"
        assert await stating.append_with_state(self.ref(), [], {"k": 3}, parent=LEAF) == ([], False)
        assert await store.state(self.ref()) == {"kept": 1, "k": 2}

    async def test_a_state_begins_a_session(self, store: AsyncStore) -> None:
        await self.stating(store).append_with_state(self.ref(), [self.message("a")], {"k": [None]}, parent=None)
        assert await store.state(self.ref()) == {"k": [None]}
        assert await self.history(store) == ["a"]

    async def test_a_state_stays_when_its_message_is_there_already(self, store: AsyncStore) -> None:
        stating = self.stating(store)
        await stating.append_with_state(self.ref(), [self.message("a")], {"k": 1}, parent=LEAF)
        await store.update_state(self.ref(), {"k": 2}, created_at_us=now_us())
        version = await self.version(store)
        written, changed = await stating.append_with_state(self.ref(), [self.message("a")], {"k": 1}, parent=LEAF)
        assert (written[0].inserted, changed, await self.version(store)) == (False, False, version)
        assert await store.state(self.ref()) == {"k": 2}

    async def test_a_state_is_of_the_active_path(self, store: AsyncStore) -> None:
        stating = self.stating(store)
        await self.add(store, "a", "b")
        moved = Expect(True, "a", None, False)
        with pytest.raises(LeafMovedError):
            await stating.append_with_state(self.ref(), [self.message("x")], {"k": 1}, parent=LEAF, expect=moved)
        beside = Expect(True, "a", None, True)
        written, changed = await stating.append_with_state(
            self.ref(), [self.message("x")], {"k": 1}, parent=LEAF, expect=beside
        )
        assert written[0].branched and not changed
        with pytest.raises(NotFoundError):
            await stating.append_with_state(self.ref(), [self.message("y")], {"k": 1}, parent="nobody")
        assert await store.state(self.ref()) == {}
        await stating.append_with_state(self.ref(), [self.message("y")], {"k": 1}, parent="a")
        assert await store.state(self.ref()) == {"k": 1}, "a branch that takes the leaf"
