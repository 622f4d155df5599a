"""The contract of overlays."""

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
from plait.store._async.port import AsyncStore
from plait.store.protocol import (
    Graft,
    SessionRef,
    Span,
)
from plait.testing._async.contract.case import AsyncStoreCase, ids, now_us


class AsyncOverlayTests(AsyncStoreCase):
    """What every store that keeps overlays must do."""

    async def laid(self, store: AsyncStore, leaf: Parent = LEAF, session: SessionRef | None = None) -> list[str]:
        """The overlays that a path shows."""
        path = await store.path(session or self.ref(), leaf)
        return [] if path is None else [laid.overlay.id for laid in path.laid]

    async def test_an_overlay_lies_on_the_paths_through_its_end(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        await self.add(store, "x", parent="b")
        added = await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), leaf="d")
        assert (added.inserted, added.covered, added.overlay.left) == (True, False, 2)
        assert [await self.laid(store, leaf) for leaf in ("d", "c", "b", "x")] == [["o"], ["o"], [], []]
        path = await store.path(self.ref(), "d")
        assert path is not None and path.laid[0].parent_id == "a"
        assert [message.id for message in await store.load(self.ref(), path)] == ["a", "b", "c", "d"]
        assert await overlaying.covering(self.ref(), ["a", "c", "x", "?"]) == {"c": ["o"]}
        await store.delete(self.ref(), ["c"])
        assert [await self.laid(store, leaf) for leaf in ("d", "b", "x")] == [["o"], [], []]
        await self.add(store, "y", parent="b")
        assert await self.laid(store, "y") == []
        await store.delete(self.ref(), ["b"])
        assert await self.laid(store, "d") == []

    async def test_a_path_is_read_raw_or_as_its_overlays_leave_it(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e", "f")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        await overlaying.add_overlay(self.ref(), self.overlay("p", "e", "e", None))
        asked = ["f", "e", "c", "b", "a", "e"]
        assert list((await overlaying.covering(self.ref(), asked)).items()) == [
            ("e", ["p"]),
            ("c", ["o"]),
            ("b", ["o"]),
        ]
        raw, path = await store.path(self.ref(), LEAF, raw=True), await self.the_path(store)
        assert raw is not None and raw.laid == () and raw.ranges == path.ranges
        assert (raw.leaf_id, raw.version, raw.incarnation) == (path.leaf_id, path.version, path.incarnation)
        for newest_first in (False, True):
            for limit in (1, 2, 50):
                options: dict[str, Any] = {"newest_first": newest_first, "limit": limit}
                rows = await store.load(self.ref(), path, shown=True, **options)
                left = ["f", "d", "a"] if newest_first else ["a", "d", "f"]
                assert [(row.id, row.parent_id) for row in rows] == [
                    (id, {"a": None, "d": "c", "f": "e"}[id]) for id in left[:limit]
                ]
                assert await store.load(self.ref(), raw, shown=True, **options) == await store.load(
                    self.ref(), path, **options
                )
        rows = await store.load(self.ref(), path, after_seq=rows[-1].seq, before_seq=rows[0].seq, shown=True)
        assert [row.id for row in rows] == ["d"]

    async def test_the_same_overlay_is_added_once(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c")
        new = self.overlay("o", "a", "b")
        first = await overlaying.add_overlay(self.ref(), new)
        info = await store.info(self.ref())
        again = await overlaying.add_overlay(self.ref(), new)
        assert (again.overlay, again.inserted) == (first.overlay, False)
        assert await store.info(self.ref()) == info
        assert await overlaying.overlay(self.ref(), "o") == first.overlay
        assert await overlaying.overlay(self.ref(), "?") is None

    async def test_overlays_are_disjoint_or_nested(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "d"))
        for first, last in (("a", "b"), ("a", "c"), ("c", "e"), ("d", "e"), ("c", "d"), ("b", "c"), ("c", "c")):
            refused = self.ref()
            with pytest.raises(ConflictError):
                await overlaying.add_overlay(refused, self.overlay("p", first, last))
            assert refused.incarnation is None, "what is refused binds nothing"
        covered = await overlaying.add_overlay(self.ref(), self.overlay("p", "b", "d", None))
        assert (covered.covered, covered.inserted, covered.overlay.id) == (True, False, "o")
        await overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"))
        await overlaying.add_overlay(self.ref(), self.overlay("r", "a", "e"))
        assert await self.laid(store) == ["r"]
        for gone, left in (("r", ["q"]), ("q", ["o"]), ("o", [])):
            removed = await overlaying.remove_overlay(self.ref(), gone)
            assert removed is not None and removed.id == gone
            assert await self.laid(store) == left
        assert await overlaying.remove_overlay(self.ref(), "o") is None

    async def test_what_a_summary_was_made_without_is_not_uncovered_below_it(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, *"abcdefgh")
        below: list[tuple[OverlayKind, str, str]] = [
            ("archive", "b", "c"),
            ("omit", "d", "d"),
            ("replace", "e", "e"),
            ("compaction", "f", "g"),
        ]
        for kind, first, last in below:
            summary = None if kind in ("archive", "omit") else "text"
            await overlaying.add_overlay(self.ref(), replace(self.overlay(kind, first, last, summary), kind=kind))
        await overlaying.add_overlay(self.ref(), self.overlay("outer", "b", "g"))
        info = await store.info(self.ref())
        refused = self.ref()
        for kind in ("archive", "omit", "replace"):
            with pytest.raises(ConflictError, match="outer"):
                await overlaying.remove_overlay(refused, kind)
        assert await store.info(self.ref()) == info and refused.incarnation is None
        assert await overlaying.remove_overlay(self.ref(), "compaction") is not None, "the newer summary has it in it"
        assert await self.laid(store) == ["outer"]
        await overlaying.remove_overlay(self.ref(), "outer")
        assert await self.laid(store) == ["archive", "omit", "replace"]
        await overlaying.add_overlay(self.ref(), self.overlay("hidden", "a", "h", None))
        for kind in ("archive", "omit", "replace"):
            assert await overlaying.remove_overlay(self.ref(), kind) is not None, "an archive is no summary"
        assert await self.laid(store) == ["hidden"]

    async def test_an_overlay_is_not_added_over_what_has_changed_since(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        info = await store.info(self.ref())
        assert info is not None
        await self.add(store, "e")
        await store.update(self.ref(), self.message("d", "changed"))
        added = await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), expect_version=info.version)
        assert added.inserted
        with pytest.raises(StaleValueError):
            await overlaying.add_overlay(self.ref(), self.overlay("p", "a", "d"), expect_version=info.version)
        await store.delete(self.ref(), ["a"])
        with pytest.raises(StaleValueError):
            await overlaying.add_overlay(self.ref(), self.overlay("p", "a", "c"), expect_version=info.version)
        with pytest.raises(NotFoundError):
            await overlaying.add_overlay(self.ref(), self.overlay("p", "a", "c"))

    async def test_a_span_of_a_path_is_covered_whatever_became_of_its_messages(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        await store.delete(self.ref(), ["b", "d"])
        path = await self.the_path(store)
        laid = path.laid[0].overlay
        await store.delete(self.ref(), ["e"])
        span = Span(path, laid.from_seq, laid.to_seq + 1)
        added = await overlaying.add_overlay(self.ref(), self.overlay("p", "b", "d"), span=span)
        assert (added.inserted, added.overlay.from_seq, added.overlay.to_seq) == (True, laid.from_seq, laid.to_seq + 1)
        assert (added.overlay.from_id, added.overlay.to_id, added.overlay.left) == ("b", "d", 1)
        await store.update(self.ref(), self.message("c", "changed"))
        with pytest.raises(StaleValueError):
            await overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"), span=span)
        await store.clear(self.ref())
        await self.add(store, "a", "b", "c", "d", session=self.ref())
        with pytest.raises(StaleValueError):
            await overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"), span=span)
        assert await overlaying.crossing(self.ref(), span) is None

    async def test_what_a_span_would_cross_is_told_on_whichever_branch(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e")
        await self.add(store, "x", parent="c")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "x"))
        path = await store.path(self.ref(), "e")
        assert path is not None
        seqs = [message.seq for message in await store.load(self.ref(), path) if isinstance(message, Message)]
        for first, last, crosses in (
            (0, 0, False),
            (0, 1, True),
            (0, 2, True),
            (1, 2, False),
            (2, 3, False),
            (0, 4, False),
        ):
            other = await overlaying.crossing(self.ref(), Span(path, seqs[first], seqs[last]))
            assert (other is not None) == crosses, (first, last)
            assert other is None or other.id == "o"

    async def test_changes_below_make_an_overlay_stale_and_totals_follow(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        before = await store.totals(self.ref())
        assert (before.path_messages, before.view_messages) == (4, 3)
        assert before.view_tokens == before.path_tokens - 2 * 3 + 5
        await store.update(self.ref(), self.message("b", "much longer than it was", tokens=30))
        assert [overlay.stale for overlay in await overlaying.overlays(self.ref())] == [True]
        after = await store.totals(self.ref())
        assert after.path_tokens > before.path_tokens
        assert (after.view_messages, after.view_bytes, after.view_tokens) == (
            before.view_messages,
            before.view_bytes,
            before.view_tokens,
        ), "what it shows is the same"
        await store.clear(self.ref())
        assert await overlaying.overlays(self.ref(), everywhere=True) == []

    async def test_a_text_laid_over_a_stale_text_is_stale(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e", "f")
        await overlaying.add_overlay(self.ref(), self.overlay("below", "b", "c"))
        await overlaying.add_overlay(self.ref(), self.overlay("beside", "e", "e"))
        await store.delete(self.ref(), ["c"])
        for new, stale in (
            (self.overlay("over", "a", "d"), True),
            (self.overlay("elsewhere", "e", "f"), False),
            (self.overlay("says nothing", "a", "e", summary=None), False),
            (self.overlay("over all", "a", "f"), True),
        ):
            if new.id == "says nothing":
                await overlaying.remove_overlay(self.ref(), "elsewhere")
            added = await overlaying.add_overlay(self.ref(), new)
            assert (added.inserted, added.overlay.stale) == (True, stale), new.id
        await overlaying.remove_overlay(self.ref(), "below")
        found = {item.id: item.stale for item in await overlaying.overlays(self.ref(), everywhere=True)}
        assert found == {"beside": False, "over": True, "says nothing": False, "over all": True}

    async def test_a_fork_takes_the_overlays_of_its_path_along(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        await self.add(store, "x", parent="b")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), leaf="d")
        await overlaying.add_overlay(self.ref(), self.overlay("p", "b", "x"))
        for at, laid in (("d", ["o"]), ("x", ["p"]), ("b", [])):
            target = self.ref(f"at {at}")
            await store.fork(self.ref(), target, at=at, created_at_us=now_us())
            assert await self.laid(store, session=target) == laid
            assert [overlay.id for overlay in await overlaying.overlays(target, everywhere=True)] == laid

    async def test_overlays_of_staged_messages_are_published_with_them(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        stage = await store.stage(self.ref())
        await self.add(store, "a", "b", "c", session=stage)
        await overlaying.add_overlay(stage, self.overlay("o", "a", "b"))
        await store.publish(stage, self.ref())
        assert await self.laid(store) == ["o"]
        totals = await store.totals(self.ref())
        assert (totals.path_messages, totals.view_messages) == (3, 2)

    async def test_a_merge_keeps_the_overlays_of_staged_messages(self, store: AsyncStore) -> None:
        merging, overlaying = self.merging(store), self.overlaying(store)
        await self.add(store, "a", "b")
        stage = await merging.stage_more(self.ref(), 2)
        await self.add(store, "c", "d", session=stage)
        await overlaying.add_overlay(stage, self.overlay("o", "c", "c"))
        await self.add(store, "e")
        await merging.merge(stage, self.ref(), [Graft("c", "b")], None)
        assert [await self.laid(store, leaf) for leaf in ("d", "e")] == [["o"], []]
        assert [overlay.id for overlay in await overlaying.overlays(self.ref(), everywhere=True)] == ["o"]

    async def test_one_at_a_time_may_compact(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        assert not await overlaying.claim_compaction(self.ref(), "me", until_us=now_us() + 10**9)
        await self.add(store, "a")
        info = await store.info(self.ref())
        assert await overlaying.claim_compaction(self.ref(), "me", until_us=now_us() + 10**9)
        assert await overlaying.claim_compaction(self.ref(), "me", until_us=now_us() + 10**9), "to keep it longer"
        assert not await overlaying.claim_compaction(self.ref(), "you", until_us=now_us() + 10**9)
        await overlaying.release_compaction(self.ref(), "you")
        assert not await overlaying.claim_compaction(self.ref(), "you", until_us=now_us() + 10**9)
        await overlaying.release_compaction(self.ref(), "me")
        assert await overlaying.claim_compaction(self.ref(), "you", until_us=now_us() - 1)
        assert await overlaying.claim_compaction(self.ref(), "me", until_us=now_us() + 10**9), "that one has lapsed"
        assert await store.info(self.ref()) == info, "it is no change of the session"

    async def test_a_merge_adds_staged_messages_below_those_that_are_there(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a", "b")
        version = await self.version(store)
        stage = await merging.stage_more(self.ref(), 10)
        await store.append(stage, [self.message("c"), self.picture("p", b"pixels")], parent=None, kind="import")
        await store.append(stage, [self.message("x")], parent=None, kind="import")
        await store.append(stage, [self.message("root")], parent=None, kind="import")
        assert await self.history(store) == ["a", "b"]
        assert await merging.existing(self.ref(), ["a", "c", "b", "nobody"]) == {"a", "b"}
        assert await merging.merge(stage, self.ref(), [Graft("c", "b"), Graft("x", "a")], "p") == 4
        assert await self.history(store) == ["a", "b", "c", "p"]
        assert await self.history(store, "x") == ["a", "x"]
        assert ids(await store.children(self.ref(), None)) == ["a", "root"]
        assert await self.version(store) == version + 5, "each message, and the record of the merge"
        assert await merging.existing(self.ref(), ["a", "c", "x", "nobody"]) == {"a", "c", "x"}
        await self.check_tree(store)
        await self.add(store, "d")
        assert await self.history(store) == ["a", "b", "c", "p", "d"]

    async def test_a_merge_takes_the_messages_alone(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "x")
        stage = await merging.stage_more(self.ref(), 2)
        await self.change_all(store, stage)
        before = await store.info(self.ref())
        assert await merging.merge(stage, self.ref(), [Graft("a", "x")], "a") == 1
        after = await store.info(self.ref())
        assert before is not None and after is not None
        assert (after.name, after.metadata, await store.state(self.ref())) == (None, {}, {})
        assert after.version > before.version
        await self.change_all(store, self.ref("t"))
        await self.add(store, "y")
        assert await self.history(store) == ["x", "a", "y"]

    async def test_a_merge_leaves_the_leaf_of_another_branch(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a", "b", "c")
        stage = await merging.stage_more(self.ref(), 1)
        await store.append(stage, [self.message("x")], parent=None)
        await merging.merge(stage, self.ref(), [Graft("x", "b")], "x")
        assert await self.leaf(store) == "c"
        await self.check_tree(store)

    async def test_a_merge_meets_what_was_written_meanwhile(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a", "b", "c")
        stage = await merging.stage_more(self.ref(), 2)
        await store.append(stage, [self.message("x"), self.message("y")], parent=None)
        await self.add(store, "d")
        await self.add(store, "e", parent="b")
        await store.delete(self.ref(), ["a"])
        assert await merging.merge(stage, self.ref(), [Graft("x", "b")], "y") == 2
        assert await self.history(store, "y") == ["b", "x", "y"]
        assert await self.history(store, "d") == ["b", "c", "d"]
        assert await self.leaf(store) == "e"
        await self.check_tree(store)

    async def test_a_merge_below_a_message_that_came_after_its_stage(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a")
        stage = await merging.stage_more(self.ref(), 2)
        await store.append(stage, [self.message("x"), self.message("y")], parent=None)
        await self.add(store, "b")
        try:
            await merging.merge(stage, self.ref(), [Graft("x", "b")], "y")
        except ConflictError:  # the seqs set aside come before the parent's: a store may refuse it
            assert await self.history(store) == ["a", "b"]
        else:
            assert await self.history(store) == ["a", "b", "x", "y"]
        await self.check_tree(store)

    async def test_a_merge_is_refused_whole(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a", "b")
        stage = await merging.stage_more(self.ref(), 2)
        await store.append(stage, [self.message("x"), self.message("y")], parent=None)
        await self.add(store, "y", parent="a")
        with pytest.raises(ConflictError):
            await merging.merge(stage, self.ref(), [Graft("x", "b")], None)
        await store.delete(self.ref(), ["b", "y"])
        with pytest.raises(NotFoundError):
            await merging.merge(stage, self.ref(), [Graft("x", "b")], None)
        assert await self.history(store) == ["a"]
        await self.check_tree(store)
        await store.discard(stage)
        await self.check_tree(store)
        await store.delete_session(self.ref())
        with pytest.raises((NotFoundError, SessionDeletedError)):
            await merging.stage_more(self.ref(), 1)
