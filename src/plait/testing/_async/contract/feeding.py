"""The contract of the feed of changes."""

from __future__ import annotations

from typing import cast

import pytest

from plait.errors import (
    CursorExpiredError,
    UsageError,
)
from plait.model import LEAF, Change
from plait.store._async.port import AsyncFeeding, AsyncStore
from plait.store.protocol import (
    Graft,
    Scope,
    SessionRef,
)
from plait.testing._async.contract.case import ALICE, BOB, AsyncStoreCase, now_us


class AsyncFeedTests(AsyncStoreCase):
    """What every store that records its changes must do."""

    def feeding(self, store: AsyncStore) -> AsyncFeeding:
        """The store as one that keeps a feed; skips the test if it does not."""
        if not callable(getattr(store, "changes", None)):
            pytest.skip("this store keeps no feed")
        return cast("AsyncFeeding", store)

    async def changes(
        self, store: AsyncStore, after: str | None = None, *, within: SessionRef | Scope | None = None, limit: int = 256
    ) -> list[Change]:
        """All changes after a cursor, page by page."""
        feeding, found, within = self.feeding(store), list[Change](), within or self.ref()
        while True:
            bounds = {"after": after, "limit": limit, "budget_bytes": 1 << 20}
            if isinstance(within, Scope):
                page = await feeding.scope_changes(within, **bounds)  # type: ignore[arg-type]
            else:
                page = await feeding.changes(within, **bounds)  # type: ignore[arg-type]
            assert len(page.changes) <= limit
            found, after = found + page.changes, page.cursor
            if not page.more:
                return found

    async def check_feed(self, store: AsyncStore, session: SessionRef) -> None:
        """Hold that a tree built from the feed alone is the session's."""
        parents: dict[str, str | None] = {}
        leaf: str | None = None
        version = 0
        for change in await self.changes(store, within=session, limit=2):
            assert change.version is not None and change.version > version
            version = change.version
            if change.kind in ("append", "import"):
                parents[change.ids[0]] = change.parent_id
            elif change.kind in ("clear", "delete session"):
                parents = {}
            for id in change.ids if change.kind == "delete" else ():
                above = parents.pop(id, None)
                parents = {child: above if up == id else up for child, up in parents.items()}
            leaf = change.leaf_id if change.leaf_moved else leaf
        rows = await store.everything(session, limit=1000)
        assert parents == {row.id: row.parent_id for row in rows}
        found = await store.leaf(session)
        assert leaf == (found.id if found else None)

    async def test_each_change_comes_once_in_order_with_what_there_is_now(self, store: AsyncStore) -> None:
        self.feeding(store)
        await self.add(store, "a", "b", "c")
        await store.update(self.ref(), self.message("a", "new"))
        await store.delete(self.ref(), ["b", "absent"])
        await store.checkout(self.ref(), "a")
        changes = await self.changes(store)
        assert [(change.version, change.kind, tuple(change.ids)) for change in changes] == [
            (1, "append", ("a",)),
            (3, "append", ("c",)),
            (4, "update", ("a",)),
            (5, "delete", ("b",)),
            (6, "checkout", ("a",)),
        ]
        assert changes[0].message is not None and changes[0].message.text == "new"
        assert [(change.leaf_moved, change.leaf_id) for change in changes[1::3]] == [(True, "c"), (True, "a")]
        assert changes[1].parent_id == "a"
        for limit in (1, 2, 3):
            assert await self.changes(store, limit=limit) == changes
        for n, change in enumerate(changes):
            assert await self.changes(store, change.cursor) == changes[n + 1 :]
        assert await self.changes(store, await self.feeding(store).changes_end(self.ref())) == []

    async def test_a_feed_is_bounded_by_bytes_too(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        await store.append(self.ref(), [self.message(id, "x" * 500) for id in "abc"], parent=LEAF)
        page = await feeding.changes(self.ref(), after=None, limit=10, budget_bytes=1)
        assert [change.ids for change in page.changes] == [("a",)] and page.more

    async def test_a_feed_goes_on_over_clear_delete_and_a_new_life(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        assert await self.changes(store) == []
        await self.add(store, "a")
        mark = await feeding.changes_end(self.ref())
        await self.add(store, "gone")
        await store.clear(self.ref())
        await self.add(store, "b")
        await store.delete_session(self.ref())
        assert [change.kind for change in await self.changes(store, mark)] == ["clear", "delete session"]
        await self.add(store, "c")
        assert [change.kind for change in await self.changes(store, mark)] == ["clear", "delete session", "append"]
        late = self.ref()
        await self.changes(store, within=late)
        assert late.incarnation is None, "a feed binds nothing"

    async def test_the_feed_rebuilds_a_session_whatever_was_done(self, store: AsyncStore) -> None:
        self.feeding(store)
        await self.change_all(store, self.ref())
        await self.add(store, "k", "l", "m")
        await store.append(self.ref(), [self.message("n")], parent="k", kind="import", activate=False)
        await self.check_feed(store, self.ref())
        await store.delete(self.ref(), ["m", "l", "k"])
        await self.check_feed(store, self.ref())
        await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        await self.check_feed(store, self.ref("copy"))
        stage = await store.stage(self.ref("new"))
        await store.append(stage, [self.message("s"), self.message("t")], parent=None, kind="import")
        await store.append(stage, [self.message("u")], parent="s", kind="import")
        await store.publish(stage, self.ref("new"))
        await self.check_feed(store, self.ref("new"))

    async def test_a_merge_is_on_the_feed_wherever_a_reader_stops(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        self.feeding(store)
        await self.add(store, "a", "b")
        first, second = await merging.stage_more(self.ref(), 3), await merging.stage_more(self.ref(), 3)
        await self.add(store, "c", "d", session=first)
        await self.add(store, "e", "f", session=second)
        if callable(getattr(store, "add_overlay", None)):
            await self.overlaying(store).add_overlay(second, self.overlay("o", "e", "e"))
        await self.add(store, "g", session=second)
        await self.add(store, "h")
        mark = (await self.changes(store))[-1].cursor
        await merging.merge(second, self.ref(), [Graft("e", "b")], None)
        await self.add(store, "i")
        await merging.merge(first, self.ref(), [Graft("c", "b")], None)
        await self.check_feed(store, self.ref())
        whole = await self.changes(store, mark)
        told = [id for change in whole if change.message for id in change.ids]
        assert told == ["e", "f", "g", "i", "c", "d"]
        assert await self.changes(store, mark, limit=1) == whole

    async def test_overlays_come_with_their_changes(self, store: AsyncStore) -> None:
        self.feeding(store)
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        mark = (await self.changes(store))[-1].cursor
        await overlaying.add_overlay(self.ref(), self.overlay("o", "a", "b"), change="compact")
        await overlaying.add_overlay(self.ref(), self.overlay("p", "d", "d", None))
        await store.update(self.ref(), self.message("a", "new"))
        await overlaying.remove_overlay(self.ref(), "p")
        changes = await self.changes(store, mark)
        told = [(change.kind, tuple(change.ids), change.overlay and change.overlay.stale) for change in changes]
        assert told == [
            ("compact", ("o",), True),
            ("overlay", ("p",), None),
            ("update", ("a",), None),
            ("overlay", ("o",), True),
            ("overlay", ("p",), None),
        ]
        assert [change.removed for change in changes] == [False, False, False, False, True]

    async def test_an_overlay_does_not_come_with_what_was_said_of_an_earlier_one(self, store: AsyncStore) -> None:
        self.feeding(store)
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b")
        mark = (await self.changes(store))[-1].cursor
        for summary in ("first", "second"):
            await overlaying.remove_overlay(self.ref(), "o")
            await overlaying.add_overlay(self.ref(), self.overlay("o", "a", "a", summary))
        await store.update(self.ref(), self.message("a", "new"))
        told = [change.overlay and change.overlay.summary for change in await self.changes(store, mark)]
        assert told == [None, None, "second", None, "second"], "added, removed, added, what is below updated, stale"

    async def test_cursors_of_anything_else_are_refused(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        await self.add(store, "a")
        ends = [
            await feeding.changes_end(self.ref("t")),
            await feeding.changes_end(self.ref("s", BOB)),
            await feeding.scope_changes_end(ALICE),
        ]
        for wrong in ["", "nonsense", "é", *ends]:
            with pytest.raises(UsageError):
                await self.changes(store, wrong)
        for wrong in ["", "nonsense", await feeding.changes_end(self.ref()), await feeding.scope_changes_end(BOB)]:
            with pytest.raises(UsageError):
                await self.changes(store, wrong, within=ALICE)

    async def test_a_cursor_older_than_what_was_pruned_has_expired(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        await self.add(store, "a")
        old = await feeding.changes_end(self.ref())
        for n in range(5):
            await store.update(self.ref(), self.message("a", str(n)))
        late = await feeding.changes_end(self.ref())
        assert await feeding.prune_changes(BOB, before_us=None, keep=0) == 0
        assert await feeding.prune_changes(ALICE, before_us=1, keep=None) == 0
        assert await feeding.prune_changes(ALICE, before_us=None, keep=2) == 3
        with pytest.raises(CursorExpiredError):
            await self.changes(store, old)
        assert await self.changes(store, late) == []
        for limit in (1, 5):
            assert [change.kind for change in await self.changes(store, limit=limit)] == ["append", "update", "update"]

    async def test_a_scope_is_told_of_its_own_sessions_each_in_order(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        for id in ("s", "t", "u"):
            await self.add(store, "a", "b", session=self.ref(id))
            await self.add(store, "theirs", session=self.ref(id, BOB))
        mark = await feeding.scope_changes_end(ALICE)
        await store.delete_session(self.ref("t"))
        await self.add(store, "c", session=self.ref("u"))
        await self.add(store, "a", session=self.ref("v"))
        for limit in (1, 2, 50):
            seen: dict[str, list[int]] = {}
            for change in await self.changes(store, within=ALICE, limit=limit):
                versions = seen.setdefault(change.session_id, [])
                if change.version not in versions:  # one may come again
                    assert not versions or (change.version or 0) > versions[-1]
                    versions.append(change.version or 0)
            assert seen == {"s": [1, 2], "t": [3], "u": [1, 2, 3], "v": [1]}
            later = {(c.session_id, c.kind) for c in await self.changes(store, mark, within=ALICE, limit=limit)}
            assert later >= {("t", "delete session"), ("u", "append"), ("v", "append")}
        assert await self.changes(store, await feeding.scope_changes_end(ALICE), within=ALICE) == []

    async def test_a_write_is_seen_in_the_number_of_commits(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        before = await feeding.commits()
        await self.add(store, "a")
        assert before is None or await feeding.commits() != before
