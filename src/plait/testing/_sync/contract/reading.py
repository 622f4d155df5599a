"""Generated from src/plait/testing/_async/contract/reading.py by tools/unasync.py: edit that file. The contract of reads: paths, windows, totals, the tree."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from plait.errors import (
    SessionDeletedError,
)
from plait.model import LEAF, Message, Totals
from plait.store._sync.port import Store
from plait.store.protocol import (
    Path,
)
from plait.testing._sync.contract.case import ALICE, StoreCase, messages, sums


class ReadTests(StoreCase):
    """What every store must answer."""

    def test_reads_of_an_absent_session_find_nothing(self, store: Store) -> None:
        session = self.ref("nobody")
        assert store.get(session, "a") is None
        assert store.path(session, LEAF) is None
        assert store.path(session, "a") is None
        assert store.newest(session) is None
        assert store.children(session, None) == []
        assert store.children(session, "a") == []
        assert store.leaves(session) == []
        assert store.totals(session) == Totals()
        assert store.info(session) is None
        assert store.state(session) == {}
        assert session.incarnation is None
        assert (store.sessions(ALICE, cursor=None, limit=10)).sessions == []

    def test_a_path_to_an_absent_leaf_has_no_ranges(self, store: Store) -> None:
        self.add(store, "a")
        path = self.the_path(store, "nobody")
        assert (path.leaf_id, path.ranges) == (None, ())
        assert store.load(self.ref(), path) == []
        assert store.stats(self.ref(), path) == []
        assert self.suffix(store, path) == 0

    def test_a_path_tells_version_leaf_and_rising_ranges(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        self.add(store, "x", "y", parent="b")
        self.add(store, "p", parent="x")
        path = self.the_path(store)
        assert (path.version, path.leaf_id) == (6, "p")
        ends = [end for range in path.ranges for end in (range.lo, range.hi)]
        assert ends == sorted(ends)
        assert len({(range.strand, range.lo) for range in path.ranges}) == len(path.ranges)
        assert all(mine.hi < next.lo for mine, next in itertools.pairwise(path.ranges))

    def test_children_of_an_unknown_id_are_none(self, store: Store) -> None:
        self.add(store, "a")
        assert store.children(self.ref(), "nobody") == []
        assert store.children(self.ref(), "a") == []

    def test_newest_is_the_row_of_highest_seq_wherever_the_leaf_is(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", parent="a")
        store.checkout(self.ref(), "b")
        assert store.newest(self.ref()) == store.get(self.ref(), "x")
        store.delete(self.ref(), ["x"])
        assert store.newest(self.ref()) == store.get(self.ref(), "b")

    def test_windows_of_every_size_read_the_same_path(self, store: Store) -> None:
        self.zigzag(store)
        whole = self.read(store)
        for limit in (1, 2, 3, 7, 1000):
            assert self.read(store, limit=limit) == whole
            assert self.read(store, limit=limit, newest_first=True) == whole[::-1]

    def test_a_window_lies_between_two_seqs(self, store: Store) -> None:
        path = self.zigzag(store)
        whole = self.read(store)
        for after, before in itertools.combinations([0, *(m.seq for m in whole), whole[-1].seq + 1], 2):
            expected = [m for m in whole if after < m.seq < before]
            rows = store.load(self.ref(), path, after_seq=after, before_seq=before)
            assert rows == expected
            rows = store.load(self.ref(), path, after_seq=after, before_seq=before, newest_first=True, limit=2)
            assert rows == expected[::-1][:2]

    def test_a_window_ends_once_its_bytes_reach_the_budget(self, store: Store) -> None:
        sizes = [10, 5000, 10, 10, 2000, 2000, 100_000, 10]
        for n, size in enumerate(sizes):
            store.append(self.ref(), [self.message(f"m{n}", "x" * size)], parent=LEAF)
        whole, path = self.read(store), self.the_path(store)
        for rows, budget in itertools.product((whole, whole[::-1]), (0, 1, 100, 300, 2100, 5200, 10_000, 1_000_000)):
            newest_first = rows is not whole
            seen: list[Message] = []
            while len(seen) < len(rows):
                seq = seen[-1].seq if seen else None
                after, before = (None, seq) if newest_first else (seq, None)
                window = messages(
                    store.load(
                        self.ref(),
                        path,
                        after_seq=after,
                        before_seq=before,
                        newest_first=newest_first,
                        budget_bytes=budget,
                    )
                )
                assert window and window == rows[len(seen) : len(seen) + len(window)]
                assert len(window) == 1 or sum(m.bytes for m in window[:-1]) < budget
                seen += window
                following = [m.bytes for m in rows[len(seen) : len(seen) + 1]]
                assert not following or sum(m.bytes for m in window) + sum(following) > budget
            assert seen == rows

    def test_a_message_larger_than_the_budget_comes_alone(self, store: Store) -> None:
        self.add(store, "a")
        store.append(self.ref(), [self.message("big", "x" * 3_000_000)], parent=LEAF)
        self.add(store, "c")
        path = self.the_path(store)
        big = self.must(store, "big")
        assert store.load(self.ref(), path, after_seq=big.seq - 1, budget_bytes=1000) == [big]
        assert store.load(self.ref(), path, before_seq=big.seq + 1, newest_first=True, budget_bytes=1000) == [big]

    def test_a_path_stays_as_it_was_fixed(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        path = self.the_path(store)
        self.add(store, "d")
        self.add(store, "x", parent="a")
        store.update(self.ref(), self.message("b", "updated"))
        store.delete(self.ref(), ["c"])
        rows = messages(store.load(self.ref(), path))
        assert [(m.id, m.text) for m in rows] == [("a", "text of a"), ("b", "updated")]
        assert [row.id for row in store.stats(self.ref(), path)] == ["a", "b"]

    def test_a_path_does_not_outlive_its_incarnation(self, store: Store) -> None:
        self.add(store, "a")
        cleared = self.the_path(store)
        store.clear(self.ref())
        self.add(store, "a")
        deleted = self.the_path(store)
        store.delete_session(self.ref())
        for path in (cleared, deleted):
            with pytest.raises(SessionDeletedError):
                store.load(self.ref(), path)
            with pytest.raises(SessionDeletedError):
                store.stats(self.ref(), path)
            with pytest.raises(SessionDeletedError):
                store.suffix(self.ref(), path, count=1, budget_bytes=None)

    def test_stats_tell_of_rows_without_their_content(self, store: Store) -> None:
        path = self.zigzag(store)
        whole = self.read(store)
        stats = store.stats(self.ref(), path)
        assert [(s.id, s.seq, s.role, s.bytes, s.tokens) for s in stats] == [
            (m.id, m.seq, m.role, m.bytes, m.tokens) for m in whole
        ]
        times = [(m.created_at.timestamp()) for m in whole]
        assert [s.created_at_us / 1e6 for s in stats] == times
        assert store.stats(self.ref(), path, limit=2) == stats[:2]
        assert store.stats(self.ref(), path, after_seq=stats[1].seq) == stats[2:]
        assert store.stats(self.ref(), path, after_seq=stats[0].seq, limit=2) == stats[1:3]
        assert store.stats(self.ref(), path, after_seq=stats[-1].seq) == []

    def suffix(
        self, store: Store, path: Path, *, count: int | None = None, budget_bytes: int | None = None
    ) -> int:
        """Where a suffix begins; the totals it comes with must be those of the whole path, its messages `load`'s."""
        suffix = store.suffix(self.ref(), path, count=count, budget_bytes=budget_bytes)
        stats = store.stats(self.ref(), path)
        assert (suffix.messages, suffix.bytes, suffix.tokens) == sums(stats)
        if suffix.loaded:
            after = suffix.start_seq - 1
            assert suffix.loaded == store.load(self.ref(), path, after_seq=after, limit=1000)
        bounds: dict[str, Any] = {"count": count, "budget_bytes": budget_bytes}
        fresh = store.path(self.ref(), LEAF)
        assert fresh is not None
        assert store.recent(self.ref(), LEAF, **bounds) == (
            fresh,
            store.suffix(self.ref(), fresh, **bounds),
        )
        return suffix.start_seq

    def test_a_suffix_by_count(self, store: Store) -> None:
        path = self.zigzag(store)
        seqs = [s.seq for s in store.stats(self.ref(), path)]
        assert self.suffix(store, path, count=0) == 0
        for count in range(1, len(seqs) + 1):
            assert self.suffix(store, path, count=count) == seqs[-count]
        assert self.suffix(store, path, count=1000) == seqs[0]
        assert self.suffix(store, path) == seqs[0]

    def test_a_suffix_by_bytes_always_holds_the_newest(self, store: Store) -> None:
        path = self.zigzag(store)
        stats = store.stats(self.ref(), path)
        for n in range(1, len(stats) + 1):
            exact = sum(s.bytes for s in stats[-n:])
            assert self.suffix(store, path, budget_bytes=exact) == stats[-n].seq
            assert self.suffix(store, path, budget_bytes=exact - 1) == stats[-max(n - 1, 1)].seq
        assert self.suffix(store, path, budget_bytes=0) == stats[-1].seq
        assert self.suffix(store, path, count=0, budget_bytes=10_000) == 0

    def test_a_suffix_keeps_both_bounds(self, store: Store) -> None:
        path = self.zigzag(store)
        stats = store.stats(self.ref(), path)
        two = stats[-1].bytes + stats[-2].bytes
        assert self.suffix(store, path, count=3, budget_bytes=two) == stats[-2].seq
        assert self.suffix(store, path, count=1, budget_bytes=two) == stats[-1].seq

    def test_a_suffix_does_not_look_past_a_message_that_is_too_big(self, store: Store) -> None:
        self.add(store, "a")
        store.append(self.ref(), [self.message("big", "x" * 5000)], parent=LEAF)
        [c] = self.add(store, "c")
        path = self.the_path(store)
        assert self.suffix(store, path, budget_bytes=1000) == c.message.seq

    def test_a_suffix_tells_of_its_own_path_wherever_the_leaf_is(self, store: Store) -> None:
        self.zigzag(store)
        for leaf in ("e", "z", "c"):
            path = self.the_path(store, leaf)
            assert self.suffix(store, path, count=1) == (self.must(store, leaf)).seq
        path = self.the_path(store)
        self.add(store, "t", "u")
        store.delete(self.ref(), ["s"])
        assert self.suffix(store, path, count=1) == (self.must(store, "r")).seq

    def test_the_leaf_is_a_message(self, store: Store) -> None:
        assert store.leaf(self.ref()) is None
        self.add(store, "a", "b")
        assert store.leaf(self.ref()) == store.get(self.ref(), "b")
        store.delete(self.ref(), ["b"])
        assert store.leaf(self.ref()) == store.get(self.ref(), "a")
        store.delete(self.ref(), ["a"])
        assert store.leaf(self.ref()) is None

    def test_everything_is_read_in_seq_order_with_parents(self, store: Store) -> None:
        assert store.everything(self.ref()) == []
        self.zigzag(store)
        self.add(store, "root", parent=None, session=self.ref())
        expected = [self.must(store, id) for id in ["a", "c", "d", "y", "z", "q", "e", "r", "s", "root"]]
        for limit in (1, 2, 3, 100):
            found: list[Message] = []
            while rows := store.everything(self.ref(), after_seq=found[-1].seq if found else 0, limit=limit):
                assert len(rows) <= limit
                found += messages(rows)
            assert found == expected
        assert store.everything(self.ref(), budget_bytes=1) == expected[:1]
        assert store.everything(self.ref(), budget_bytes=0) == expected[:1]

    def test_everything_in_bounded_windows_holds_big_messages(self, store: Store) -> None:
        new = [self.message(f"m{n}", "x" * (3_000_000 if n == 2 else 10)) for n in range(5)]
        store.append(self.ref(), new, parent=LEAF)
        found: list[Message] = []
        while rows := store.everything(
            self.ref(), after_seq=found[-1].seq if found else 0, budget_bytes=2_000_000
        ):
            found += messages(rows)
        assert [m.to_json() for m in found] == [m.body for m in new]

    def test_a_path_has_changed_once_a_message_of_it_has(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        self.add(store, "x", "y", parent="b")
        path = self.the_path(store)
        self.add(store, "z")
        store.update(self.ref(), self.message("c", "beside the path"))
        store.delete(self.ref(), ["c"])
        store.checkout(self.ref(), "b")
        assert not store.changed_since(self.ref(), path)
        store.update(self.ref(), self.message("a", "on the path"))
        assert store.changed_since(self.ref(), path)
        path = self.the_path(store, "y")
        assert not store.changed_since(self.ref(), path)
        store.delete(self.ref(), ["x"])
        assert store.changed_since(self.ref(), path)
        path = self.the_path(store, "y")
        store.clear(self.ref())
        assert store.changed_since(self.ref(), path)

    def test_totals_follow_every_write(self, store: Store) -> None:
        self.zigzag(store)
        self.check_totals(store)
        store.checkout(self.ref(), "e")
        self.check_totals(store)
        self.add(store, "f")
        self.check_totals(store)
        store.append(self.ref(), [self.message("g", tokens=1000)], parent="a", activate=False)
        self.check_totals(store)
        store.delete(self.ref(), ["e", "f", "z", "a"])
        self.check_totals(store)
        store.delete(self.ref(), ["c", "d"])
        self.check_totals(store)
