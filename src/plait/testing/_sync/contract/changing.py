"""Generated from src/plait/testing/_async/contract/changing.py by tools/unasync.py: edit that file. The contract of updates, deletes and checkouts."""

from __future__ import annotations

import random

import pytest

from plait.errors import LeafMovedError, NotFoundError
from plait.model import LEAF, Totals
from plait.store._sync.port import Store
from plait.store.protocol import Expect
from plait.testing._sync.contract.case import StoreCase, ids


class ChangeTests(StoreCase):
    """What every store must do with what is updated, deleted or checked out."""

    def test_update_replaces_the_content_alone(self, store: Store) -> None:
        written = self.add(store, "a", "b")
        new = self.message("a", "new words", role="system", tokens=99)
        updated = store.update(self.ref(), new)
        assert updated is not None and updated.changed
        stored = self.must(store, "a")
        assert stored == updated.message
        assert (stored.to_json(), stored.role, stored.tokens, stored.bytes) == (new.body, "system", 99, new.bytes)
        assert (stored.seq, stored.parent_id) == (written[0].message.seq, None)
        assert stored.created_at == written[0].message.created_at
        assert (self.version(store), self.leaf(store)) == (3, "b")

    def test_update_to_the_same_writes_nothing(self, store: Store) -> None:
        self.add(store, "a")
        updated = store.update(self.ref(), self.message("a", "text of a"))
        assert updated is not None and not updated.changed
        assert updated.message == store.get(self.ref(), "a")
        assert self.version(store) == 1

    def test_update_of_an_absent_message_does_nothing(self, store: Store) -> None:
        assert store.update(self.ref(), self.message("a")) is None
        assert store.info(self.ref()) is None
        self.add(store, "a")
        assert store.update(self.ref(), self.message("b")) is None
        assert store.update(self.ref("other"), self.message("a")) is None
        assert self.version(store) == 1

    def test_update_between_small_and_huge(self, store: Store) -> None:
        self.add(store, "a", "b")
        for text in ("x" * 4_000_000, "é" * 2_000_000, "small", "y" * 1_600_000, ""):
            store.update(self.ref(), self.message("a", text))
            assert (self.must(store, "a")).text == text
        assert (self.must(store, "b")).text == "text of b"

    def test_update_moves_the_totals(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", parent="a")
        store.update(self.ref(), self.message("b", "beside the path, and longer", tokens=50))
        self.check_totals(store)
        store.update(self.ref(), self.message("a", "on the path", tokens=70))
        self.check_totals(store)
        assert (store.totals(self.ref())).path_tokens == 73

    def test_delete_splices(self, store: Store) -> None:
        self.add(store, "a", "b", "c", "d")
        assert store.delete(self.ref(), ["b", "c"]) == ["b", "c"]
        assert self.history(store) == ["a", "d"]
        assert (self.must(store, "d")).parent_id == "a"
        assert store.get(self.ref(), "b") is None
        assert ids(store.children(self.ref(), "a")) == ["d"]

    def test_delete_splices_branches(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        self.add(store, "x", parent="b")
        store.delete(self.ref(), ["b"])
        assert ids(store.children(self.ref(), "a")) == ["c", "x"]
        assert self.history(store, "c") == ["a", "c"]
        assert self.history(store, "x") == ["a", "x"]

    def test_delete_of_a_root_makes_its_children_roots(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", parent="a")
        store.delete(self.ref(), ["a"])
        assert ids(store.children(self.ref(), None)) == ["b", "x"]
        assert (self.must(store, "x")).parent_id is None

    def test_delete_answers_what_was_there_in_the_order_given(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        assert store.delete(self.ref(), ["c", "nobody", "a", "c", "a"]) == ["c", "a"]
        assert self.history(store) == ["b"]

    def test_delete_of_nothing_changes_nothing(self, store: Store) -> None:
        assert store.delete(self.ref(), ["a"]) == []
        assert store.info(self.ref()) is None
        self.add(store, "a")
        assert store.delete(self.ref(), []) == []
        assert store.delete(self.ref(), ["nobody"]) == []
        assert store.delete(self.ref("other"), ["a"]) == []
        assert (self.version(store), self.history(store)) == (1, ["a"])

    def test_deleting_the_leaf_moves_it_to_its_nearest_surviving_ancestor(self, store: Store) -> None:
        self.add(store, "a", "b", "c", "d")
        self.add(store, "x", parent="a")
        store.checkout(self.ref(), "d")
        store.delete(self.ref(), ["c", "d"])
        assert self.leaf(store) == "b"
        [e] = self.add(store, "e")
        assert e.message.parent_id == "b"

    def test_deleting_a_branch_that_was_the_leaf_returns_to_the_fork(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        self.add(store, "x", parent="b")
        store.delete(self.ref(), ["x"])
        assert self.leaf(store) == "b"
        [y] = self.add(store, "y")
        assert y.message.parent_id == "b"
        assert ids(store.children(self.ref(), "b")) == ["c", "y"]

    def test_deleting_the_whole_path_moves_the_leaf_to_the_newest(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", "y", parent=None)
        self.add(store, "r", parent=None)
        store.checkout(self.ref(), "b")
        store.delete(self.ref(), ["a", "b"])
        assert self.leaf(store) == "r"
        store.delete(self.ref(), ["r"])
        assert self.leaf(store) == "y"

    def test_deleting_beside_the_leaf_leaves_it(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", parent="a")
        store.delete(self.ref(), ["b"])
        store.delete(self.ref(), ["a"])
        assert self.leaf(store) == "x"

    def test_deleting_all_leaves_an_empty_session(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", parent="a")
        store.delete(self.ref(), ["b", "a", "x"])
        assert self.leaf(store) is None
        assert store.newest(self.ref()) is None
        assert store.leaves(self.ref()) == []
        assert store.children(self.ref(), None) == []
        assert store.totals(self.ref()) == Totals()
        assert store.info(self.ref()) is not None

    def test_a_path_runs_through_strands_without_surviving_rows(self, store: Store) -> None:
        self.add(store, "a", "b")
        for n in range(6):  # each message a branch of the one before, with a sibling beside it
            self.add(store, f"in{n}", parent=f"in{n - 1}" if n else "a")
            self.add(store, f"out{n}", parent=f"in{n - 1}" if n else "a")
        self.add(store, "end", parent="in5")
        store.delete(self.ref(), [f"in{n}" for n in range(1, 6)])
        assert self.history(store, "end") == ["a", "in0", "end"]
        assert self.history(store, "out5") == ["a", "in0", "out5"]
        self.check_tree(store)
        store.delete(self.ref(), ["a", "in0", "b"])
        assert self.history(store, "end") == ["end"]
        self.check_tree(store)

    def test_children_is_the_inverse_of_parent_after_random_deletes(self, store: Store) -> None:
        for seed in range(6):
            dice, session = random.Random(seed), self.ref(f"s{seed}")
            alive: list[str] = []
            for n in range(60):
                if alive and dice.random() < 0.35:
                    gone = dice.sample(alive, min(len(alive), dice.choice([1, 1, 2, 5])))
                    assert store.delete(session, gone) == gone
                    alive = [id for id in alive if id not in gone]
                else:
                    parent = dice.choice([LEAF, LEAF, None, *dice.sample(alive, min(2, len(alive)))])
                    self.add(store, f"m{n}", parent=parent, session=session)
                    alive.append(f"m{n}")
            self.check_tree(store, session, alive)

    def test_checkout_makes_another_message_the_leaf(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        assert store.checkout(self.ref(), "b")
        assert (self.leaf(store), self.version(store)) == ("b", 4)
        assert (store.totals(self.ref())).path_messages == 2
        [x] = self.add(store, "x")
        assert x.message.parent_id == "b"
        assert ids(store.leaves(self.ref())) == ["c", "x"]

    def test_checkout_of_the_leaf_does_nothing(self, store: Store) -> None:
        self.add(store, "a", "b")
        assert not store.checkout(self.ref(), "b")
        store.delete(self.ref(), ["b"])
        assert not store.checkout(self.ref(), "a")
        assert self.version(store) == 3

    def test_checkout_of_an_absent_message_is_refused(self, store: Store) -> None:
        with pytest.raises(NotFoundError):
            store.checkout(self.ref(), "a")
        assert store.info(self.ref()) is None
        self.add(store, "a")
        with pytest.raises(NotFoundError):
            store.checkout(self.ref(), "b")
        assert self.leaf(store) == "a"

    def test_checkout_of_nothing_leaves_an_empty_path_and_all_messages(self, store: Store) -> None:
        assert not store.checkout(self.ref(), None)
        assert store.info(self.ref()) is None
        self.add(store, "a", "b")
        assert store.checkout(self.ref(), None)
        assert not store.checkout(self.ref(), None)
        assert (self.leaf(store), self.version(store)) == (None, 3)
        totals = store.totals(self.ref())
        assert (totals.messages, totals.path_messages) == (2, 0)
        [x] = self.add(store, "x")
        assert x.message.parent_id is None
        assert ids(store.children(self.ref(), None)) == ["a", "x"]
        store.checkout(self.ref(), None)
        assert store.delete(self.ref(), ["x"]) == ["x"]
        assert self.leaf(store) is None
        assert store.checkout(self.ref(), "b")
        assert (store.totals(self.ref())).path_messages == 2

    def test_checkout_by_whoever_sees_the_leaf_where_it_was(self, store: Store) -> None:
        none, a, b = (Expect(True, leaf) for leaf in (None, "a", "b"))
        assert not store.checkout(self.ref(), None, expect=none)
        with pytest.raises(LeafMovedError):
            store.checkout(self.ref(), None, expect=a)
        self.add(store, "a", "b")
        with pytest.raises(LeafMovedError):
            store.checkout(self.ref(), None, expect=a)
        assert store.checkout(self.ref(), "a", expect=b)
        with pytest.raises(LeafMovedError):
            store.checkout(self.ref(), "a", expect=b)
        assert store.checkout(self.ref(), None, expect=a)
        assert not store.checkout(self.ref(), None, expect=none)
        assert self.version(store) == 4
