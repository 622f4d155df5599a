"""The contract of forks, stages and merges: what appears whole or not at all."""

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
from plait.store._async.port import AsyncScoping, AsyncStore
from plait.store.protocol import Scope, SessionRef
from plait.testing._async.contract.case import ALICE, NEIGHBOURS, AsyncStoreCase, data_url, ids, now_us


class AsyncCopyTests(AsyncStoreCase):
    """What every store must do with sessions that are made beside, and published."""

    async def test_fork_copies_a_path_with_ids_seqs_and_times(self, store: AsyncStore) -> None:
        await self.zigzag(store)
        assert await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us()) == 6
        source, copy = await self.read(store), await self.read(store, session=self.ref("copy"))
        assert copy == source
        assert [m.created_at for m in copy] == [m.created_at for m in source]
        info = await store.info(self.ref("copy"))
        assert info is not None and info.parent_id == "s"
        await self.check_tree(store, self.ref("copy"))

    async def test_fork_at_a_message_copies_the_path_to_it(self, store: AsyncStore) -> None:
        await self.zigzag(store)
        assert await store.fork(self.ref(), self.ref("copy"), at="z", created_at_us=now_us()) == 4
        assert await self.history(store, session=self.ref("copy")) == ["a", "c", "y", "z"]
        assert ids(await store.leaves(self.ref("copy"))) == ["z"]

    async def test_a_fork_and_its_source_are_independent(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        await store.update(self.ref("copy"), self.message("a", "of the copy"))
        await store.delete(self.ref(), ["b"])
        await self.add(store, "c")
        [d] = await self.add(store, "d", session=self.ref("copy"))
        assert d.message.parent_id == "b"
        assert await self.history(store) == ["a", "c"]
        assert await self.history(store, session=self.ref("copy")) == ["a", "b", "d"]
        assert (await self.must(store, "a")).text == "text of a"
        await store.delete_session(self.ref())
        assert await self.history(store, session=self.ref("copy")) == ["a", "b", "d"]
        await self.check_tree(store, self.ref("copy"))

    async def test_a_fork_goes_on_after_the_seqs_it_copied(self, store: AsyncStore) -> None:
        [*_, c] = await self.add(store, "a", "b", "c")
        await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        [d] = await self.add(store, "d", session=self.ref("copy"))
        assert d.message.seq > c.message.seq

    async def test_fork_into_a_session_that_exists_is_refused(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await self.add(store, "x", session=self.ref("copy"))
        with pytest.raises(ConflictError):
            await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        with pytest.raises(ConflictError):
            await store.fork(self.ref(), self.ref(), at=None, created_at_us=now_us())
        assert await self.history(store, session=self.ref("copy")) == ["x"]

    async def test_fork_into_a_deleted_sessions_id_starts_a_new_life(self, store: AsyncStore) -> None:
        await self.add(store, "x", "y", "z", session=self.ref("copy"))
        await store.delete_session(self.ref("copy"))
        await self.add(store, "a")
        target = self.ref("copy")
        assert await store.fork(self.ref(), target, at=None, created_at_us=now_us()) == 1
        assert await self.history(store, session=target) == ["a"]
        [b] = await self.add(store, "b", session=target)
        assert b.message.seq > 3

    async def test_fork_of_nothing_copies_nothing(self, store: AsyncStore) -> None:
        assert await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us()) == 0
        info = await store.info(self.ref("copy"))
        assert info is not None and info.parent_id is None, "a fork names a session that never was as its parent"

    async def test_fork_of_many_messages(self, store: AsyncStore) -> None:
        ids = [f"m{n}" for n in range(2500)]
        await self.add(store, *ids)
        assert await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us()) == 2500
        assert await self.history(store, session=self.ref("copy")) == ids
        await self.check_totals(store, self.ref("copy"))

    async def test_a_stage_is_invisible_until_it_is_published(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a"), self.picture("p", b"pixels")], parent=None, kind="import")
        await store.append(stage, [self.message("x")], parent="a", kind="import", activate=False)
        await store.put_session(stage, created_at_us=now_us(), create="ensure", name="n", metadata={"k": 1})
        assert await store.info(self.ref()) is None
        assert await store.get(self.ref(), "a") is None
        assert (await store.sessions(ALICE, cursor=None, limit=10)).sessions == []
        await store.publish(stage, self.ref())
        assert await self.history(store) == ["a", "p"]
        assert await self.history(store, "x") == ["a", "x"]
        assert (await self.must(store, "p")).parts[0]["url"] == data_url(b"pixels")
        [info] = (await store.sessions(ALICE, cursor=None, limit=10)).sessions
        assert (info.id, info.name, info.metadata) == ("s", "n", {"k": 1})
        assert info == await store.info(self.ref())
        await self.check_tree(store)

    async def test_what_is_noted_of_another_session_stands_when_a_stage_is_published(self, store: AsyncStore) -> None:
        other = self.ref("other")
        await store.put_session(other, created_at_us=now_us(), create="new", metadata={"k": 1})
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a")], parent=None, kind="import")
        await store.publish(stage, self.ref(), note=(other, {"n": 2}))
        noted = await store.info(other)
        assert noted is not None and noted.metadata == {"k": 1, "n": 2}
        assert await self.history(store) == ["a"]

    async def test_nothing_is_published_if_the_session_to_be_noted_is_gone(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a")], parent=None, kind="import")
        with pytest.raises(NotFoundError):
            await store.publish(stage, self.ref(), note=(self.ref("gone"), {"n": 2}))
        assert (await store.info(self.ref()), await store.info(self.ref("gone"))) == (None, None)

    async def test_nothing_is_noted_if_the_stage_cannot_be_published(self, store: AsyncStore) -> None:
        other = self.ref("other")
        await store.put_session(other, created_at_us=now_us(), create="new")
        stage = await store.stage(self.ref())
        await self.add(store, "taken")
        with pytest.raises(ConflictError):
            await store.publish(stage, self.ref(), note=(other, {"n": 2}))
        untouched = await store.info(other)
        assert untouched is not None and untouched.metadata == {}

    async def test_a_stage_is_gone_on_with_under_its_token(self, store: AsyncStore) -> None:
        token = "0123456789abcdef" * 2
        stage = await store.stage(self.ref(), created_at_us=5_000_000, token=token)
        await store.append(stage, [self.message("a")], parent=None, kind="import")
        again = await store.stage(self.ref(), token=token)
        assert await self.history(store, session=again) == ["a"]
        await store.append(again, [self.message("b")], parent=LEAF, kind="import")
        other = await store.stage(self.ref(), token="f" * 32)
        assert await store.newest(other) is None
        await store.publish(again, self.ref())
        assert await self.history(store) == ["a", "b"]
        info = await store.info(self.ref())
        assert info is not None and times.to_us(info.created_at) == 5_000_000
        with pytest.raises(ConflictError):
            await store.stage(self.ref(), token=token)
        await store.discard(other)

    async def test_a_message_has_no_lower_seq_than_it_names(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        new = [replace(self.message("b"), seq=7), replace(self.message("c"), seq=3), self.message("d")]
        await store.append(self.ref(), new, parent=LEAF, kind="import")
        [e] = await self.add(store, "e")
        rows = await store.everything(self.ref())
        assert [(row.id, row.seq) for row in rows] == [("a", 1), ("b", 7), ("c", 8), ("d", 9), ("e", 10)]
        assert e.message.parent_id == "d"
        await self.check_tree(store)

    async def test_scopes_are_those_that_have_sessions_or_share_values(self, store: AsyncStore) -> None:
        if not callable(getattr(store, "scopes", None)):
            pytest.skip("this store cannot say whose sessions it holds")
        able = cast("AsyncScoping", store)
        assert await able.scopes() == []
        found = [Scope(*names) for names in sorted((s.tenant, s.owner) for s in (ALICE, *NEIGHBOURS))]
        for scope in found:
            for id in ("one", "two"):
                await store.append(SessionRef(scope, id), [self.message("a")], parent=LEAF)
        await store.append(SessionRef(Scope("gone", ""), "s"), [self.message("a")], parent=LEAF)
        await store.delete_session(SessionRef(Scope("gone", ""), "s"))
        await store.stage(SessionRef(Scope("hidden", ""), "s"))
        assert await able.scopes() == found
        for limit in (1, 2, 100):
            paged: list[Scope] = []
            while page := await able.scopes(after=paged[-1] if paged else None, limit=limit):
                paged += page
            assert paged == found

    async def test_a_published_stage_was_last_active_when_it_says(self, store: AsyncStore) -> None:
        before = now_us()
        for id, at in (("old", 1_000_000), ("older", 1_000), ("future", before + 10**15), ("now", None)):
            stage = await store.stage(self.ref(id))
            await store.append(stage, [self.message("a")], parent=None, kind="import")
            await store.publish(stage, self.ref(id), active_at_us=at)
        found = (await store.sessions(ALICE, cursor=None, limit=10)).sessions
        assert [info.id for info in found] == ["now", "future", "old", "older"]
        active = [times.to_us(info.active_at) for info in found]
        assert active[2:] == [1_000_000, 1_000]
        assert before <= active[1] <= active[0]

    async def test_a_published_stage_is_no_handle_any_more(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a")], parent=None)
        held = SessionRef(stage.scope, stage.id, stage.incarnation)
        await store.publish(stage, self.ref())
        with pytest.raises((SessionDeletedError, NotFoundError)):
            await store.publish(held, self.ref("other"))
        with pytest.raises(SessionDeletedError):
            await store.append(held, [self.message("late")], parent=LEAF)
        assert await self.history(store) == ["a"]

    async def test_a_session_that_exists_is_not_staged_over(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a")], parent=None)
        await self.add(store, "x")
        with pytest.raises(ConflictError):
            await store.publish(stage, self.ref())
        with pytest.raises(ConflictError):
            await store.stage(self.ref())
        assert await self.history(store) == ["x"]
        await store.discard(stage)
        assert await self.history(store) == ["x"]

    async def test_a_discarded_stage_leaves_nothing(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a"), self.picture("p", b"pixels")], parent=None)
        await store.discard(stage)
        await store.discard(stage)
        await self.check_payloads(store, 0)
        assert await store.info(self.ref()) is None
        with pytest.raises((SessionDeletedError, NotFoundError)):
            await store.publish(stage, self.ref())
        published = await store.stage(self.ref())
        await store.append(published, [self.message("a")], parent=None)
        await store.publish(published, self.ref())
        await store.discard(published)
        assert await self.history(store) == ["a"]

    async def test_a_stage_in_the_place_of_a_deleted_session_uses_no_number_again(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.delete_session(self.ref())
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("b")], parent=None)
        [*_, d] = await self.add(store, "c", "d", session=self.ref())  # somebody else is faster, and gone again
        version = await self.version(store)
        await store.delete_session(self.ref())
        await store.publish(stage, self.ref())
        assert await self.history(store) == ["b"]
        assert await self.version(store) > version
        [e] = await self.add(store, "e")
        assert e.message.seq > d.message.seq

    async def test_a_discarded_stage_leaves_nothing_for_the_next_session_to_trip_over(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await self.change_all(store, stage)
        await store.discard(stage)
        for id in ("s", "t"):
            await self.change_all(store, self.ref(id))
            assert await self.history(store, session=self.ref(id)) == ["a"]
