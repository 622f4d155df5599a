"""Generated from src/plait/testing/_async/contract/appending.py by tools/unasync.py: edit that file. The contract of appends: chains, branches, repetitions, expectations."""

from __future__ import annotations

import pytest

from plait.errors import (
    ConflictError,
    LeafMovedError,
    NotFoundError,
)
from plait.model import LEAF, Message
from plait.store._sync.port import Store
from plait.store.protocol import (
    Expect,
    Kind,
    Written,
)
from plait.testing._sync.contract.case import ALICE, NEW_YEAR_US, ODD_IDS, StoreCase, ids

KINDS: tuple[Kind, ...] = ("append", "import")


class AppendTests(StoreCase):
    """What every store must do with what is appended."""

    def test_append_makes_a_chain(self, store: Store) -> None:
        written = self.add(store, "a", "b", "c")
        assert [(item.message.id, item.message.parent_id, item.inserted) for item in written] == [
            ("a", None, True),
            ("b", "a", True),
            ("c", "b", True),
        ]
        assert self.history(store) == ["a", "b", "c"]

    def test_append_answers_what_is_then_read(self, store: Store) -> None:
        new = self.message("a", "words", role="assistant", at_us=NEW_YEAR_US + 1, tokens=17)
        [written] = store.append(self.ref(), [new], parent=LEAF)
        stored = store.get(self.ref(), "a")
        assert stored == written.message
        assert isinstance(stored, Message)
        assert (stored.to_json(), stored.role, stored.format, stored.text) == (new.body, "assistant", "plait", "words")
        assert (stored.bytes, stored.tokens, stored.parent_id) == (new.bytes, 17, None)
        assert (stored.created_at.year, stored.created_at.microsecond, stored.created_at.tzname()) == (2026, 1, "UTC")

    def test_append_goes_on_after_the_leaf_it_left(self, store: Store) -> None:
        self.add(store, "a")
        [b] = self.add(store, "b")
        assert b.message.parent_id == "a"
        assert self.leaf(store) == "b"

    def test_append_with_parent_none_makes_another_root(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "r", "s", parent=None)
        assert self.history(store) == ["r", "s"]
        assert ids(store.children(self.ref(), None)) == ["a", "r"]

    def test_append_with_a_parent_branches(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        self.add(store, "x", "y", parent="a")
        assert self.history(store) == ["a", "x", "y"]
        assert self.history(store, "c") == ["a", "b", "c"]
        assert ids(store.leaves(self.ref())) == ["c", "y"]

    def test_append_after_an_older_branch_end_goes_on_there(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", parent="a")
        self.add(store, "c", parent="b")
        assert self.history(store) == ["a", "b", "c"]
        assert self.history(store, "x") == ["a", "x"]

    def test_append_twice_writes_once(self, store: Store) -> None:
        self.add(store, "a", "b")
        before = self.version(store)
        [again] = store.append(self.ref(), [self.message("a", "other words")], parent=LEAF)
        assert not again.inserted
        assert again.message == store.get(self.ref(), "a")
        assert again.message.text == "text of a"
        assert self.version(store) == before
        assert self.history(store) == ["a", "b"]

    def test_append_again_says_whether_it_differs(self, store: Store) -> None:
        store.append(self.ref(), [self.message("a"), self.picture("p", b"pixels")], parent=LEAF)
        same = [self.message("a"), self.picture("p", b"pixels")]
        other = [self.message("a", "other words"), self.picture("p", b"other pixels")]
        for new, differs in ((same, False), (other, True)):
            written = store.append(self.ref(), new, parent=LEAF)
            assert [(w.inserted, w.differs) for w in written] == [(False, differs)] * 2
        [fresh] = self.add(store, "b")
        assert not fresh.differs

    def test_an_id_with_other_content_may_be_refused(self, store: Store) -> None:
        self.add(store, "a")
        new = [self.message("b"), self.message("a", "other words"), self.message("c")]
        with pytest.raises(ConflictError):
            store.append(self.ref(), new, parent=LEAF, refuse_other=True)
        assert (self.history(store), self.version(store)) == (["a"], 1)
        new = [self.message("b"), self.message("a", "text of a")]
        written = store.append(self.ref(), new, parent=LEAF, refuse_other=True)
        assert [w.inserted for w in written] == [True, False]

    def test_append_again_leaves_the_active_leaf(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        self.add(store, "a")
        assert self.leaf(store) == "c"

    def test_a_chain_goes_on_from_a_message_that_was_there(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        written = self.add(store, "x", "b", "y", parent="a")
        assert [(w.message.id, w.message.parent_id, w.inserted) for w in written] == [
            ("x", "a", True),
            ("b", "a", False),
            ("y", "b", True),
        ]
        assert self.history(store) == ["a", "b", "y"]
        assert self.version(store) == 5

    def test_a_batch_that_ends_with_a_message_that_was_there(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", "a", parent="b")
        assert self.leaf(store) == "x"
        self.add(store, "a", "b", "x")
        assert self.leaf(store) == "x"

    def test_an_id_repeated_in_one_batch_is_written_once(self, store: Store) -> None:
        written = self.add(store, "a", "b", "a", "c", "c")
        assert [w.inserted for w in written] == [True, True, False, True, False]
        assert self.history(store) == ["a", "c"]
        assert self.history(store, "b") == ["a", "b"]

    def test_an_empty_batch_does_nothing(self, store: Store) -> None:
        assert store.append(self.ref(), [], parent=LEAF) == []
        assert store.append(self.ref(), [], parent=LEAF, expect=Expect(check_leaf=True)) == []
        assert store.info(self.ref()) is None

    def test_an_unknown_parent_is_refused_and_nothing_is_written(self, store: Store) -> None:
        with pytest.raises(NotFoundError):
            self.add(store, "a", parent="nobody")
        self.add(store, "a")
        before = self.version(store)
        with pytest.raises(NotFoundError):
            self.add(store, "b", "c", parent="nobody")
        assert store.get(self.ref(), "b") is None
        assert (self.version(store), self.leaf(store)) == (before, "a")

    def test_a_message_is_not_its_own_parent(self, store: Store) -> None:
        self.add(store, "a")
        with pytest.raises(NotFoundError):
            self.add(store, "b", parent="b")
        with pytest.raises(NotFoundError):
            self.add(store, "b", "c", parent="c")
        assert self.history(store) == ["a"]

    def test_a_parent_in_another_session_is_unknown(self, store: Store) -> None:
        self.add(store, "a")
        with pytest.raises(NotFoundError):
            self.add(store, "b", parent="a", session=self.ref("other"))

    def test_a_message_that_is_there_asks_for_no_parent(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        store.delete(self.ref(), ["a"])
        before = self.version(store)
        for parent in ("a", "nobody"):
            for kind in KINDS:
                [again] = store.append(self.ref(), [self.message("b")], parent=parent, kind=kind)
                assert (again.inserted, again.differs) == (False, True)
                assert again.message == self.must(store, "b")
            [*_, c] = self.add(store, "b", "c", parent=parent)
            assert (c.inserted, c.differs, c.message.parent_id) == (False, False, "b")
        with pytest.raises(ConflictError):
            store.append(self.ref(), [self.message("b")], parent="nobody", refuse_other=True)
        assert (self.version(store), self.leaf(store)) == (before, "c")

    def test_what_follows_a_message_that_is_there_hangs_below_it_whatever_the_parent(
        self, store: Store
    ) -> None:
        self.add(store, "a", "b", "c")
        [_, x, _, y] = self.add(store, "a", "x", "b", "y", parent="nobody")
        assert [(w.message.parent_id, w.inserted) for w in (x, y)] == [("a", True), ("b", True)]
        self.check_tree(store, alive=["a", "b", "c", "x", "y"])
        with pytest.raises(NotFoundError):
            self.add(store, "z", "a", parent="nobody")
        assert store.get(self.ref(), "z") is None

    def test_a_deleted_parent_is_unknown(self, store: Store) -> None:
        self.add(store, "a", "b")
        store.delete(self.ref(), ["b"])
        with pytest.raises(NotFoundError):
            self.add(store, "c", parent="b")

    def test_without_activate_the_leaf_stays(self, store: Store) -> None:
        self.add(store, "a", "b")
        store.append(self.ref(), [self.message("x"), self.message("y")], parent="a", activate=False)
        assert self.leaf(store) == "b"
        assert self.history(store, "y") == ["a", "x", "y"]

    def test_without_activate_a_message_after_the_leaf_is_not_on_the_path(self, store: Store) -> None:
        self.add(store, "a")
        store.append(self.ref(), [self.message("b", tokens=100)], parent="a", activate=False)
        assert self.history(store) == ["a"]
        totals = store.totals(self.ref())
        assert (totals.messages, totals.path_messages, totals.path_tokens) == (2, 1, 3)
        [c] = self.add(store, "c")
        assert c.message.parent_id == "a"

    def test_import_is_an_append_of_another_kind(self, store: Store) -> None:
        first = self.message("a", at_us=5)
        store.append(self.ref(), [first], parent=None, kind="import")
        [w] = store.append(self.ref(), [self.message("b", at_us=3)], parent="a", kind="import")
        assert w.message.created_at.microsecond == 3
        assert self.history(store) == ["a", "b"]
        with pytest.raises(NotFoundError):
            store.append(self.ref(), [self.message("c")], parent="nobody", kind="import")

    def test_seqs_count_up_across_branches(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "x", parent="a")
        self.add(store, "c", parent="b")
        seqs = [m.seq for m in [self.must(store, id) for id in "abxc"]]
        assert seqs == sorted(set(seqs))

    def test_seqs_are_not_used_again(self, store: Store) -> None:
        [*_, c] = self.add(store, "a", "b", "c")
        store.delete(self.ref(), ["c"])
        [again] = self.add(store, "c")
        assert again.inserted
        assert again.message.seq > c.message.seq
        store.delete(self.ref(), ["a", "b", "c"])
        [d] = self.add(store, "d")
        assert d.message.seq > again.message.seq
        assert d.message.parent_id is None

    def test_two_sessions_may_use_the_same_ids(self, store: Store) -> None:
        self.add(store, "a", "b")
        self.add(store, "b", "a", session=self.ref("other"))
        assert self.history(store) == ["a", "b"]
        assert self.history(store, session=self.ref("other")) == ["b", "a"]
        store.delete(self.ref(), ["a"])
        assert self.history(store, session=self.ref("other")) == ["b", "a"]

    def test_ids_are_data(self, store: Store) -> None:
        for session_id in ODD_IDS:
            self.add(store, *ODD_IDS, session=self.ref(session_id))
        for session_id in ODD_IDS:
            assert self.history(store, session=self.ref(session_id)) == ODD_IDS
        assert store.delete(self.ref("%"), ["%", "e"]) == ["%", "e"]
        assert self.history(store, session=self.ref("%")) == [id for id in ODD_IDS if id not in ("%", "e")]
        assert self.history(store, session=self.ref("_")) == ODD_IDS
        page = store.sessions(ALICE, cursor=None, limit=100)
        assert sorted(info.id for info in page.sessions) == sorted(ODD_IDS)

    def test_an_expected_leaf_that_is_there_lets_the_append_pass(self, store: Store) -> None:
        self.expecting(store, "a", Expect(check_leaf=True, leaf_id=None))
        self.expecting(store, "b", Expect(check_leaf=True, leaf_id="a"))
        self.expecting(store, "c", Expect(check_leaf=True, leaf_id="b", branch=True))
        assert self.history(store) == ["a", "b", "c"]

    def test_a_moved_leaf_is_refused_and_named(self, store: Store) -> None:
        self.add(store, "a", "b")
        for expect in (Expect(check_leaf=True, leaf_id="a"), Expect(check_leaf=True, leaf_id=None)):
            with pytest.raises(LeafMovedError) as caught:
                self.expecting(store, "c", expect)
            assert (caught.value.leaf_id, caught.value.version) == ("b", 2)
        assert store.get(self.ref(), "c") is None
        assert self.version(store) == 2

    def test_a_moved_version_is_refused_and_named(self, store: Store) -> None:
        self.add(store, "a")
        self.expecting(store, "b", Expect(version=1))
        with pytest.raises(LeafMovedError) as caught:
            self.expecting(store, "c", Expect(version=1))
        assert (caught.value.leaf_id, caught.value.version) == ("b", 2)
        assert self.history(store) == ["a", "b"]

    def test_a_moved_leaf_may_become_a_branch_beside_the_winner(self, store: Store) -> None:
        self.add(store, "a", "b")
        [w] = self.expecting(store, "x", Expect(check_leaf=True, leaf_id="a", branch=True))
        assert (w.inserted, w.branched, w.message.parent_id) == (True, True, "a")
        assert self.leaf(store) == "b"
        assert self.history(store, "x") == ["a", "x"]
        [c] = self.add(store, "c")
        assert (c.branched, c.message.parent_id) == (False, "b")

    def test_an_expected_leaf_of_none_may_become_another_root(self, store: Store) -> None:
        self.add(store, "a")
        [w] = self.expecting(store, "x", Expect(check_leaf=True, leaf_id=None, branch=True))
        assert (w.branched, w.message.parent_id) == (True, None)
        assert self.leaf(store) == "a"

    def test_a_repeat_of_a_write_that_landed_is_not_refused(self, store: Store) -> None:
        self.add(store, "a")
        expect = Expect(check_leaf=True, leaf_id="a", version=1)
        for inserted in (True, False):
            written = store.append(self.ref(), [self.message("b"), self.message("c")], parent=LEAF, expect=expect)
            assert [(w.message.id, w.inserted, w.branched) for w in written] == [
                ("b", inserted, False),
                ("c", inserted, False),
            ]
        assert self.version(store) == 3

    def test_a_branch_at_a_leaf_that_is_gone_needs_it_only_for_what_is_new(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        store.delete(self.ref(), ["b"])
        gone = Expect(check_leaf=True, leaf_id="b", branch=True)
        [again] = self.expecting(store, "c", gone)
        assert (again.inserted, again.branched) == (False, False)
        written = store.append(self.ref(), [self.message("c"), self.message("d")], parent=LEAF, expect=gone)
        assert [(w.inserted, w.branched, w.message.parent_id) for w in written] == [
            (False, False, "a"),
            (True, True, "c"),
        ]
        assert self.leaf(store) == "c"
        with pytest.raises(NotFoundError):
            self.expecting(store, "x", gone)

    def test_one_message_that_was_there_does_not_lift_the_expectation(self, store: Store) -> None:
        self.add(store, "a", "b", "c")
        for messages in ([self.message("a"), self.message("x")], [self.message("x"), self.message("a")]):
            with pytest.raises(LeafMovedError):
                store.append(self.ref(), messages, parent=LEAF, expect=Expect(check_leaf=True, leaf_id="b"))
        assert self.history(store) == ["a", "b", "c"]

    def test_an_expectation_that_holds_does_not_branch(self, store: Store) -> None:
        self.add(store, "a")
        [w] = self.expecting(store, "b", Expect(check_leaf=True, leaf_id="a", branch=True))
        assert not w.branched
        assert self.leaf(store) == "b"

    def expecting(self, store: Store, id: str, expect: Expect) -> list[Written]:
        """Append one message under an expectation."""
        return store.append(self.ref(), [self.message(id)], parent=LEAF, expect=expect)
