"""Generated from src/plait/testing/_async/contract/overlaying.py by tools/unasync.py: edit that file. The contract of overlays."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from plait.errors import (
    ConflictError,
    NotFoundError,
    SessionDeletedError,
    StaleValueError,
)
from plait.model import LEAF, Message, OverlayKind, Parent
from plait.store._sync.port import Store
from plait.store.protocol import (
    Graft,
    SessionRef,
    Span,
)
from plait.testing._sync.contract.case import StoreCase, ids, now_us


class OverlayTests(StoreCase):
    """What every store that keeps overlays must do."""

    def laid(self, store: Store, leaf: Parent = LEAF, session: SessionRef | None = None) -> list[str]:
        """The overlays that a path shows."""
        path = store.path(session or self.ref(), leaf)
        return [] if path is None else [laid.overlay.id for laid in path.laid]

    def test_an_overlay_lies_on_the_paths_through_its_end(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d")
        self.add(store, "x", parent="b")
        added = overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), leaf="d")
        assert (added.inserted, added.covered, added.overlay.left) == (True, False, 2)
        assert [self.laid(store, leaf) for leaf in ("d", "c", "b", "x")] == [["o"], ["o"], [], []]
        path = store.path(self.ref(), "d")
        assert path is not None and path.laid[0].parent_id == "a"
        assert [message.id for message in store.load(self.ref(), path)] == ["a", "b", "c", "d"]
        assert overlaying.covering(self.ref(), ["a", "c", "x", "?"]) == {"c": ["o"]}
        store.delete(self.ref(), ["c"])
        assert [self.laid(store, leaf) for leaf in ("d", "b", "x")] == [["o"], [], []]
        self.add(store, "y", parent="b")
        assert self.laid(store, "y") == []
        store.delete(self.ref(), ["b"])
        assert self.laid(store, "d") == []

    def test_a_path_is_read_raw_or_as_its_overlays_leave_it(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d", "e", "f")
        overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        overlaying.add_overlay(self.ref(), self.overlay("p", "e", "e", None))
        asked = ["f", "e", "c", "b", "a", "e"]
        assert list((overlaying.covering(self.ref(), asked)).items()) == [
            ("e", ["p"]),
            ("c", ["o"]),
            ("b", ["o"]),
        ]
        raw, path = store.path(self.ref(), LEAF, raw=True), self.the_path(store)
        assert raw is not None and raw.laid == () and raw.ranges == path.ranges
        assert (raw.leaf_id, raw.version, raw.incarnation) == (path.leaf_id, path.version, path.incarnation)
        for newest_first in (False, True):
            for limit in (1, 2, 50):
                options: dict[str, Any] = {"newest_first": newest_first, "limit": limit}
                rows = store.load(self.ref(), path, shown=True, **options)
                left = ["f", "d", "a"] if newest_first else ["a", "d", "f"]
                assert [(row.id, row.parent_id) for row in rows] == [
                    (id, {"a": None, "d": "c", "f": "e"}[id]) for id in left[:limit]
                ]
                assert store.load(self.ref(), raw, shown=True, **options) == store.load(
                    self.ref(), path, **options
                )
        rows = store.load(self.ref(), path, after_seq=rows[-1].seq, before_seq=rows[0].seq, shown=True)
        assert [row.id for row in rows] == ["d"]

    def test_the_same_overlay_is_added_once(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c")
        new = self.overlay("o", "a", "b")
        first = overlaying.add_overlay(self.ref(), new)
        info = store.info(self.ref())
        again = overlaying.add_overlay(self.ref(), new)
        assert (again.overlay, again.inserted) == (first.overlay, False)
        assert store.info(self.ref()) == info
        assert overlaying.overlay(self.ref(), "o") == first.overlay
        assert overlaying.overlay(self.ref(), "?") is None

    def test_overlays_are_disjoint_or_nested(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d", "e")
        overlaying.add_overlay(self.ref(), self.overlay("o", "b", "d"))
        for first, last in (("a", "b"), ("a", "c"), ("c", "e"), ("d", "e"), ("c", "d"), ("b", "c"), ("c", "c")):
            refused = self.ref()
            with pytest.raises(ConflictError):
                overlaying.add_overlay(refused, self.overlay("p", first, last))
            assert refused.incarnation is None, "what is refused binds nothing"
        covered = overlaying.add_overlay(self.ref(), self.overlay("p", "b", "d", None))
        assert (covered.covered, covered.inserted, covered.overlay.id) == (True, False, "o")
        overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"))
        overlaying.add_overlay(self.ref(), self.overlay("r", "a", "e"))
        assert self.laid(store) == ["r"]
        for gone, left in (("r", ["q"]), ("q", ["o"]), ("o", [])):
            removed = overlaying.remove_overlay(self.ref(), gone)
            assert removed is not None and removed.id == gone
            assert self.laid(store) == left
        assert overlaying.remove_overlay(self.ref(), "o") is None

    def test_what_a_summary_was_made_without_is_not_uncovered_below_it(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, *"abcdefgh")
        below: list[tuple[OverlayKind, str, str]] = [
            ("archive", "b", "c"),
            ("omit", "d", "d"),
            ("replace", "e", "e"),
            ("compaction", "f", "g"),
        ]
        for kind, first, last in below:
            summary = None if kind in ("archive", "omit") else "text"
            overlaying.add_overlay(self.ref(), replace(self.overlay(kind, first, last, summary), kind=kind))
        overlaying.add_overlay(self.ref(), self.overlay("outer", "b", "g"))
        info = store.info(self.ref())
        refused = self.ref()
        for kind in ("archive", "omit", "replace"):
            with pytest.raises(ConflictError, match="outer"):
                overlaying.remove_overlay(refused, kind)
        assert store.info(self.ref()) == info and refused.incarnation is None
        assert overlaying.remove_overlay(self.ref(), "compaction") is not None, "the newer summary has it in it"
        assert self.laid(store) == ["outer"]
        overlaying.remove_overlay(self.ref(), "outer")
        assert self.laid(store) == ["archive", "omit", "replace"]
        overlaying.add_overlay(self.ref(), self.overlay("hidden", "a", "h", None))
        for kind in ("archive", "omit", "replace"):
            assert overlaying.remove_overlay(self.ref(), kind) is not None, "an archive is no summary"
        assert self.laid(store) == ["hidden"]

    def test_an_overlay_is_not_added_over_what_has_changed_since(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d")
        info = store.info(self.ref())
        assert info is not None
        self.add(store, "e")
        store.update(self.ref(), self.message("d", "changed"))
        added = overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), expect_version=info.version)
        assert added.inserted
        with pytest.raises(StaleValueError):
            overlaying.add_overlay(self.ref(), self.overlay("p", "a", "d"), expect_version=info.version)
        store.delete(self.ref(), ["a"])
        with pytest.raises(StaleValueError):
            overlaying.add_overlay(self.ref(), self.overlay("p", "a", "c"), expect_version=info.version)
        with pytest.raises(NotFoundError):
            overlaying.add_overlay(self.ref(), self.overlay("p", "a", "c"))

    def test_a_span_of_a_path_is_covered_whatever_became_of_its_messages(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d", "e")
        overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        store.delete(self.ref(), ["b", "d"])
        path = self.the_path(store)
        laid = path.laid[0].overlay
        store.delete(self.ref(), ["e"])
        span = Span(path, laid.from_seq, laid.to_seq + 1)
        added = overlaying.add_overlay(self.ref(), self.overlay("p", "b", "d"), span=span)
        assert (added.inserted, added.overlay.from_seq, added.overlay.to_seq) == (True, laid.from_seq, laid.to_seq + 1)
        assert (added.overlay.from_id, added.overlay.to_id, added.overlay.left) == ("b", "d", 1)
        store.update(self.ref(), self.message("c", "changed"))
        with pytest.raises(StaleValueError):
            overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"), span=span)
        store.clear(self.ref())
        self.add(store, "a", "b", "c", "d", session=self.ref())
        with pytest.raises(StaleValueError):
            overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"), span=span)
        assert overlaying.crossing(self.ref(), span) is None

    def test_what_a_span_would_cross_is_told_on_whichever_branch(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d", "e")
        self.add(store, "x", parent="c")
        overlaying.add_overlay(self.ref(), self.overlay("o", "b", "x"))
        path = store.path(self.ref(), "e")
        assert path is not None
        seqs = [message.seq for message in store.load(self.ref(), path) if isinstance(message, Message)]
        for first, last, crosses in (
            (0, 0, False),
            (0, 1, True),
            (0, 2, True),
            (1, 2, False),
            (2, 3, False),
            (0, 4, False),
        ):
            other = overlaying.crossing(self.ref(), Span(path, seqs[first], seqs[last]))
            assert (other is not None) == crosses, (first, last)
            assert other is None or other.id == "o"

    def test_changes_below_make_an_overlay_stale_and_totals_follow(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d")
        overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        before = store.totals(self.ref())
        assert (before.path_messages, before.view_messages) == (4, 3)
        assert before.view_tokens == before.path_tokens - 2 * 3 + 5
        store.update(self.ref(), self.message("b", "much longer than it was", tokens=30))
        assert [overlay.stale for overlay in overlaying.overlays(self.ref())] == [True]
        after = store.totals(self.ref())
        assert after.path_tokens > before.path_tokens
        assert (after.view_messages, after.view_bytes, after.view_tokens) == (
            before.view_messages,
            before.view_bytes,
            before.view_tokens,
        ), "what it shows is the same"
        store.clear(self.ref())
        assert overlaying.overlays(self.ref(), everywhere=True) == []

    def test_a_text_laid_over_a_stale_text_is_stale(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d", "e", "f")
        overlaying.add_overlay(self.ref(), self.overlay("below", "b", "c"))
        overlaying.add_overlay(self.ref(), self.overlay("beside", "e", "e"))
        store.delete(self.ref(), ["c"])
        for new, stale in (
            (self.overlay("over", "a", "d"), True),
            (self.overlay("elsewhere", "e", "f"), False),
            (self.overlay("says nothing", "a", "e", summary=None), False),
            (self.overlay("over all", "a", "f"), True),
        ):
            if new.id == "says nothing":
                overlaying.remove_overlay(self.ref(), "elsewhere")
            added = overlaying.add_overlay(self.ref(), new)
            assert (added.inserted, added.overlay.stale) == (True, stale), new.id
        overlaying.remove_overlay(self.ref(), "below")
        found = {item.id: item.stale for item in overlaying.overlays(self.ref(), everywhere=True)}
        assert found == {"beside": False, "over": True, "says nothing": False, "over all": True}

    def test_a_fork_takes_the_overlays_of_its_path_along(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        self.add(store, "a", "b", "c", "d")
        self.add(store, "x", parent="b")
        overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), leaf="d")
        overlaying.add_overlay(self.ref(), self.overlay("p", "b", "x"))
        for at, laid in (("d", ["o"]), ("x", ["p"]), ("b", [])):
            target = self.ref(f"at {at}")
            store.fork(self.ref(), target, at=at, created_at_us=now_us())
            assert self.laid(store, session=target) == laid
            assert [overlay.id for overlay in overlaying.overlays(target, everywhere=True)] == laid

    def test_overlays_of_staged_messages_are_published_with_them(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        stage = store.stage(self.ref())
        self.add(store, "a", "b", "c", session=stage)
        overlaying.add_overlay(stage, self.overlay("o", "a", "b"))
        store.publish(stage, self.ref())
        assert self.laid(store) == ["o"]
        totals = store.totals(self.ref())
        assert (totals.path_messages, totals.view_messages) == (3, 2)

    def test_a_merge_keeps_the_overlays_of_staged_messages(self, store: Store) -> None:
        merging, overlaying = self.merging(store), self.overlaying(store)
        self.add(store, "a", "b")
        stage = merging.stage_more(self.ref(), 2)
        self.add(store, "c", "d", session=stage)
        overlaying.add_overlay(stage, self.overlay("o", "c", "c"))
        self.add(store, "e")
        merging.merge(stage, self.ref(), [Graft("c", "b")], None)
        assert [self.laid(store, leaf) for leaf in ("d", "e")] == [["o"], []]
        assert [overlay.id for overlay in overlaying.overlays(self.ref(), everywhere=True)] == ["o"]

    def test_one_at_a_time_may_compact(self, store: Store) -> None:
        overlaying = self.overlaying(store)
        assert not overlaying.claim_compaction(self.ref(), "me", until_us=now_us() + 10**9)
        self.add(store, "a")
        info = store.info(self.ref())
        assert overlaying.claim_compaction(self.ref(), "me", until_us=now_us() + 10**9)
        assert overlaying.claim_compaction(self.ref(), "me", until_us=now_us() + 10**9), "to keep it longer"
        assert not overlaying.claim_compaction(self.ref(), "you", until_us=now_us() + 10**9)
        overlaying.release_compaction(self.ref(), "you")
        assert not overlaying.claim_compaction(self.ref(), "you", until_us=now_us() + 10**9)
        overlaying.release_compaction(self.ref(), "me")
        assert overlaying.claim_compaction(self.ref(), "you", until_us=now_us() - 1)
        assert overlaying.claim_compaction(self.ref(), "me", until_us=now_us() + 10**9), "that one has lapsed"
        assert store.info(self.ref()) == info, "it is no change of the session"

    def test_a_merge_adds_staged_messages_below_those_that_are_there(self, store: Store) -> None:
        merging = self.merging(store)
        self.add(store, "a", "b")
        version = self.version(store)
        stage = merging.stage_more(self.ref(), 10)
        store.append(stage, [self.message("c"), self.picture("p", b"pixels")], parent=None, kind="import")
        store.append(stage, [self.message("x")], parent=None, kind="import")
        store.append(stage, [self.message("root")], parent=None, kind="import")
        assert self.history(store) == ["a", "b"]
        assert merging.existing(self.ref(), ["a", "c", "b", "nobody"]) == {"a", "b"}
        assert merging.merge(stage, self.ref(), [Graft("c", "b"), Graft("x", "a")], "p") == 4
        assert self.history(store) == ["a", "b", "c", "p"]
        assert self.history(store, "x") == ["a", "x"]
        assert ids(store.children(self.ref(), None)) == ["a", "root"]
        assert self.version(store) == version + 5, "each message, and the record of the merge"
        assert merging.existing(self.ref(), ["a", "c", "x", "nobody"]) == {"a", "c", "x"}
        self.check_tree(store)
        self.add(store, "d")
        assert self.history(store) == ["a", "b", "c", "p", "d"]

    def test_a_merge_takes_the_messages_alone(self, store: Store) -> None:
        merging = self.merging(store)
        self.add(store, "x")
        stage = merging.stage_more(self.ref(), 2)
        self.change_all(store, stage)
        before = store.info(self.ref())
        assert merging.merge(stage, self.ref(), [Graft("a", "x")], "a") == 1
        after = store.info(self.ref())
        assert before is not None and after is not None
        assert (after.name, after.metadata, store.state(self.ref())) == (None, {}, {})
        assert after.version > before.version
        self.change_all(store, self.ref("t"))
        self.add(store, "y")
        assert self.history(store) == ["x", "a", "y"]

    def test_a_merge_leaves_the_leaf_of_another_branch(self, store: Store) -> None:
        merging = self.merging(store)
        self.add(store, "a", "b", "c")
        stage = merging.stage_more(self.ref(), 1)
        store.append(stage, [self.message("x")], parent=None)
        merging.merge(stage, self.ref(), [Graft("x", "b")], "x")
        assert self.leaf(store) == "c"
        self.check_tree(store)

    def test_a_merge_meets_what_was_written_meanwhile(self, store: Store) -> None:
        merging = self.merging(store)
        self.add(store, "a", "b", "c")
        stage = merging.stage_more(self.ref(), 2)
        store.append(stage, [self.message("x"), self.message("y")], parent=None)
        self.add(store, "d")
        self.add(store, "e", parent="b")
        store.delete(self.ref(), ["a"])
        assert merging.merge(stage, self.ref(), [Graft("x", "b")], "y") == 2
        assert self.history(store, "y") == ["b", "x", "y"]
        assert self.history(store, "d") == ["b", "c", "d"]
        assert self.leaf(store) == "e"
        self.check_tree(store)

    def test_a_merge_below_a_message_that_came_after_its_stage(self, store: Store) -> None:
        merging = self.merging(store)
        self.add(store, "a")
        stage = merging.stage_more(self.ref(), 2)
        store.append(stage, [self.message("x"), self.message("y")], parent=None)
        self.add(store, "b")
        try:
            merging.merge(stage, self.ref(), [Graft("x", "b")], "y")
        except ConflictError:  # the seqs set aside come before the parent's: a store may refuse it
            assert self.history(store) == ["a", "b"]
        else:
            assert self.history(store) == ["a", "b", "x", "y"]
        self.check_tree(store)

    def test_a_merge_is_refused_whole(self, store: Store) -> None:
        merging = self.merging(store)
        self.add(store, "a", "b")
        stage = merging.stage_more(self.ref(), 2)
        store.append(stage, [self.message("x"), self.message("y")], parent=None)
        self.add(store, "y", parent="a")
        with pytest.raises(ConflictError):
            merging.merge(stage, self.ref(), [Graft("x", "b")], None)
        store.delete(self.ref(), ["b", "y"])
        with pytest.raises(NotFoundError):
            merging.merge(stage, self.ref(), [Graft("x", "b")], None)
        assert self.history(store) == ["a"]
        self.check_tree(store)
        store.discard(stage)
        self.check_tree(store)
        store.delete_session(self.ref())
        with pytest.raises((NotFoundError, SessionDeletedError)):
            merging.stage_more(self.ref(), 1)
