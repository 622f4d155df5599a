"""Generated from src/plait/testing/_async/contract/feeding.py by tools/unasync.py: edit that file. The contract of the feed of changes."""

from __future__ import annotations

from typing import cast

import pytest

from plait.errors import (
    CursorExpiredError,
    UsageError,
)
from plait.model import LEAF, Change
from plait.store._sync.port import Feeding, Store
from plait.store.protocol import (
    Graft,
    Scope,
    SessionRef,
)
from plait.testing._sync.contract.case import ALICE, BOB, StoreCase, now_us


class FeedTests(StoreCase):
    """What every store that records its changes must do."""

    def feeding(self, store: Store) -> Feeding:
        """The store as one that keeps a feed; skips the test if it does not."""
        if not callable(getattr(store, "changes", None)):
            pytest.skip("this store keeps no feed")
        return cast("Feeding", store)

    def changes(
        self, store: Store, after: str | None = None, *, within: SessionRef | Scope | None = None, limit: int = 256
    ) -> list[Change]:
        """All changes after a cursor, page by page."""
        feeding, found, within = self.feeding(store), list[Change](), within or self.ref()
        while True:
            bounds = {"after": after, "limit": limit, "budget_bytes": 1 << 20}
            if isinstance(within, Scope):
                page = feeding.scope_changes(within, **bounds)  # type: ignore[arg-type]
            else:
                page = feeding.changes(within, **bounds)  # type: ignore[arg-type]
            assert len(page.changes) <= limit
            found, after = found + page.changes, page.cursor
            if not page.more:
                return found

    def check_feed(self, store: Store, session: SessionRef) -> None:
        """Hold that a tree built from the feed alone is the session's."""
        parents: dict[str, str | None] = {}
        leaf: str | None = None
        version = 0
        for change in self.changes(store, within=session, limit=2):
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
        rows = store.everything(session, limit=1000)
        assert parents == {row.id: row.parent_id for row in rows}
        found = store.leaf(session)
        assert leaf == (found.id if found else None)

    def test_each_change_comes_once_in_order_with_what_there_is_now(self, store: Store) -> None:
        self.feeding(store)
        self.add(store, "a", "b", "c")
        store.update(self.ref(), self.message("a", "new"))
        store.delete(self.ref(), ["b", "absent"])
        store.checkout(self.ref(), "a")
        changes = self.changes(store)
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
            assert self.changes(store, limit=limit) == changes
        for n, change in enumerate(changes):
            assert self.changes(store, change.cursor) == changes[n + 1 :]
        assert self.changes(store, self.feeding(store).changes_end(self.ref())) == []

    def test_a_feed_is_bounded_by_bytes_too(self, store: Store) -> None:
        feeding = self.feeding(store)
        store.append(self.ref(), [self.message(id, "x" * 500) for id in "abc"], parent=LEAF)
        page = feeding.changes(self.ref(), after=None, limit=10, budget_bytes=1)
        assert [change.ids for change in page.changes] == [("a",)] and page.more

    def test_a_feed_goes_on_over_clear_delete_and_a_new_life(self, store: Store) -> None:
        feeding = self.feeding(store)
        assert self.changes(store) == []
        self.add(store, "a")
        mark = feeding.changes_end(self.ref())
        self.add(store, "gone")
        store.clear(self.ref())
        self.add(store, "b")
        store.delete_session(self.ref())
        assert [change.kind for change in self.changes(store, mark)] == ["clear", "delete session"]
        self.add(store, "c")
        assert [change.kind for change in self.changes(store, mark)] == ["clear", "delete session", "append"]
        late = self.ref()
        self.changes(store, within=late)
        assert late.incarnation is None, "a feed binds nothing"

    def test_the_feed_rebuilds_a_session_whatever_was_done(self, store: Store) -> None:
        self.feeding(store)
        self.change_all(store, self.ref())
        self.add(store, "k", "l", "m")
        store.append(self.ref(), [self.message("n")], parent="k", kind="import", activate=False)
        self.check_feed(store, self.ref())
        store.delete(self.ref(), ["m", "l", "k"])
        self.check_feed(store, self.ref())
        store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        self.check_feed(store, self.ref("copy"))
        stage = store.stage(self.ref("new"))
        store.append(stage, [self.message("s"), self.message("t")], parent=None, kind="import")
        store.append(stage, [self.message("u")], parent="s", kind="import")
        store.publish(stage, self.ref("new"))
        self.check_feed(store, self.ref("new"))

    def test_a_merge_is_on_the_feed_wherever_a_reader_stops(self, store: Store) -> None:
        merging = self.merging(store)
        self.feeding(store)
        self.add(store, "a", "b")
        first, second = merging.stage_more(self.ref(), 3), merging.stage_more(self.ref(), 3)
        self.add(store, "c", "d", session=first)
        self.add(store, "e", "f", session=second)
        if callable(getattr(store, "add_overlay", None)):
            self.overlaying(store).add_overlay(second, self.overlay("o", "e", "e"))
        self.add(store, "g", session=second)
        self.add(store, "h")
        mark = (self.changes(store))[-1].cursor
        merging.merge(second, self.ref(), [Graft("e", "b")], None)
        self.add(store, "i")
        merging.merge(first, self.ref(), [Graft("c", "b")], None)
        self.check_feed(store, self.ref())
        whole = self.changes(store, mark)
        told = [id for change in whole if change.message for id in change.ids]
        assert told == ["e", "f", "g", "i", "c", "d"]
        assert self.changes(store, mark, limit=1) == whole

    def test_overlays_come_with_their_changes(self, store: Store) -> None:
        self.feeding(store)
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d")
        mark = (self.changes(store))[-1].cursor
        overlaying.add_overlay(self.ref(), self.overlay("o", "a", "b"), change="compact")
        overlaying.add_overlay(self.ref(), self.overlay("p", "d", "d", None))
        store.update(self.ref(), self.message("a", "new"))
        overlaying.remove_overlay(self.ref(), "p")
        changes = self.changes(store, mark)
        told = [(change.kind, tuple(change.ids), change.overlay and change.overlay.stale) for change in changes]
        assert told == [
            ("compact", ("o",), True),
            ("overlay", ("p",), None),
            ("update", ("a",), None),
            ("overlay", ("o",), True),
            ("overlay", ("p",), None),
        ]
        assert [change.removed for change in changes] == [False, False, False, False, True]

    def test_an_overlay_does_not_come_with_what_was_said_of_an_earlier_one(self, store: Store) -> None:
        self.feeding(store)
        overlaying = self.overlaying(store)
        self.add(store, "a", "b")
        mark = (self.changes(store))[-1].cursor
        for summary in ("first", "second"):
            overlaying.remove_overlay(self.ref(), "o")
            overlaying.add_overlay(self.ref(), self.overlay("o", "a", "a", summary))
        store.update(self.ref(), self.message("a", "new"))
        told = [change.overlay and change.overlay.summary for change in self.changes(store, mark)]
        assert told == [None, None, "second", None, "second"], "added, removed, added, what is below updated, stale"

    def test_cursors_of_anything_else_are_refused(self, store: Store) -> None:
        feeding = self.feeding(store)
        self.add(store, "a")
        ends = [
            feeding.changes_end(self.ref("t")),
            feeding.changes_end(self.ref("s", BOB)),
            feeding.scope_changes_end(ALICE),
        ]
        for wrong in ["", "nonsense", "é", *ends]:
            with pytest.raises(UsageError):
                self.changes(store, wrong)
        for wrong in ["", "nonsense", feeding.changes_end(self.ref()), feeding.scope_changes_end(BOB)]:
            with pytest.raises(UsageError):
                self.changes(store, wrong, within=ALICE)

    def test_a_cursor_older_than_what_was_pruned_has_expired(self, store: Store) -> None:
        feeding = self.feeding(store)
        self.add(store, "a")
        old = feeding.changes_end(self.ref())
        for n in range(5):
            store.update(self.ref(), self.message("a", str(n)))
        late = feeding.changes_end(self.ref())
        assert feeding.prune_changes(BOB, before_us=None, keep=0) == 0
        assert feeding.prune_changes(ALICE, before_us=1, keep=None) == 0
        assert feeding.prune_changes(ALICE, before_us=None, keep=2) == 3
        with pytest.raises(CursorExpiredError):
            self.changes(store, old)
        assert self.changes(store, late) == []
        for limit in (1, 5):
            assert [change.kind for change in self.changes(store, limit=limit)] == ["append", "update", "update"]

    def test_a_scope_is_told_of_its_own_sessions_each_in_order(self, store: Store) -> None:
        feeding = self.feeding(store)
        for id in ("s", "t", "u"):
            self.add(store, "a", "b", session=self.ref(id))
            self.add(store, "theirs", session=self.ref(id, BOB))
        mark = feeding.scope_changes_end(ALICE)
        store.delete_session(self.ref("t"))
        self.add(store, "c", session=self.ref("u"))
        self.add(store, "a", session=self.ref("v"))
        for limit in (1, 2, 50):
            seen: dict[str, list[int]] = {}
            for change in self.changes(store, within=ALICE, limit=limit):
                versions = seen.setdefault(change.session_id, [])
                if change.version not in versions:  # one may come again
                    assert not versions or (change.version or 0) > versions[-1]
                    versions.append(change.version or 0)
            assert seen == {"s": [1, 2], "t": [3], "u": [1, 2, 3], "v": [1]}
            later = {(c.session_id, c.kind) for c in self.changes(store, mark, within=ALICE, limit=limit)}
            assert later >= {("t", "delete session"), ("u", "append"), ("v", "append")}
        assert self.changes(store, feeding.scope_changes_end(ALICE), within=ALICE) == []

    def test_a_write_is_seen_in_the_number_of_commits(self, store: Store) -> None:
        feeding = self.feeding(store)
        before = feeding.commits()
        self.add(store, "a")
        assert before is None or feeding.commits() != before
