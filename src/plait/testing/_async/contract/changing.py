"""The contract of updates, deletes and checkouts."""

from __future__ import annotations

import random

import pytest

from plait.errors import LeafMovedError, NotFoundError
from plait.model import LEAF, Totals
from plait.store._async.port import AsyncStore
from plait.store.protocol import Expect
from plait.testing._async.contract.case import AsyncStoreCase, ids


class AsyncChangeTests(AsyncStoreCase):
    """What every store must do with what is updated, deleted or checked out."""

    async def test_update_replaces_the_content_alone(self, store: AsyncStore) -> None:
        written = await self.add(store, "a", "b")
        new = self.message("a", "new words", role="system", tokens=99)
        updated = await store.update(self.ref(), new)
        assert updated is not None and updated.changed
        stored = await self.must(store, "a")
        assert stored == updated.message
        assert (stored.to_json(), stored.role, stored.tokens, stored.bytes) == (new.body, "system", 99, new.bytes)
        assert (stored.seq, stored.parent_id) == (written[0].message.seq, None)
        assert stored.created_at == written[0].message.created_at
        assert (await self.version(store), await self.leaf(store)) == (3, "b")

    async def test_update_to_the_same_writes_nothing(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        updated = await store.update(self.ref(), self.message("a", "text of a"))
        assert updated is not None and not updated.changed
        assert updated.message == await store.get(self.ref(), "a")
        assert await self.version(store) == 1

    async def test_update_of_an_absent_message_does_nothing(self, store: AsyncStore) -> None:
        assert await store.update(self.ref(), self.message("a")) is None
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        assert await store.update(self.ref(), self.message("b")) is None
        assert await store.update(self.ref("other"), self.message("a")) is None
        assert await self.version(store) == 1

    async def test_update_between_small_and_huge(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        for text in ("x" * 4_000_000, "é" * 2_000_000, "small", "y" * 1_600_000, ""):
            await store.update(self.ref(), self.message("a", text))
            assert (await self.must(store, "a")).text == text
        assert (await self.must(store, "b")).text == "text of b"

    async def test_update_moves_the_totals(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.update(self.ref(), self.message("b", "beside the path, and longer", tokens=50))
        await self.check_totals(store)
        await store.update(self.ref(), self.message("a", "on the path", tokens=70))
        await self.check_totals(store)
        assert (await store.totals(self.ref())).path_tokens == 73

    async def test_delete_splices(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c", "d")
        assert await store.delete(self.ref(), ["b", "c"]) == ["b", "c"]
        assert await self.history(store) == ["a", "d"]
        assert (await self.must(store, "d")).parent_id == "a"
        assert await store.get(self.ref(), "b") is None
        assert ids(await store.children(self.ref(), "a")) == ["d"]

    async def test_delete_splices_branches(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        await self.add(store, "x", parent="b")
        await store.delete(self.ref(), ["b"])
        assert ids(await store.children(self.ref(), "a")) == ["c", "x"]
        assert await self.history(store, "c") == ["a", "c"]
        assert await self.history(store, "x") == ["a", "x"]

    async def test_delete_of_a_root_makes_its_children_roots(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.delete(self.ref(), ["a"])
        assert ids(await store.children(self.ref(), None)) == ["b", "x"]
        assert (await self.must(store, "x")).parent_id is None

    async def test_delete_answers_what_was_there_in_the_order_given(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        assert await store.delete(self.ref(), ["c", "nobody", "a", "c", "a"]) == ["c", "a"]
        assert await self.history(store) == ["b"]

    async def test_delete_of_nothing_changes_nothing(self, store: AsyncStore) -> None:
        assert await store.delete(self.ref(), ["a"]) == []
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        assert await store.delete(self.ref(), []) == []
        assert await store.delete(self.ref(), ["nobody"]) == []
        assert await store.delete(self.ref("other"), ["a"]) == []
        assert (await self.version(store), await self.history(store)) == (1, ["a"])

    async def test_deleting_the_leaf_moves_it_to_its_nearest_surviving_ancestor(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c", "d")
        await self.add(store, "x", parent="a")
        await store.checkout(self.ref(), "d")
        await store.delete(self.ref(), ["c", "d"])
        assert await self.leaf(store) == "b"
        [e] = await self.add(store, "e")
        assert e.message.parent_id == "b"

    async def test_deleting_a_branch_that_was_the_leaf_returns_to_the_fork(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        await self.add(store, "x", parent="b")
        await store.delete(self.ref(), ["x"])
        assert await self.leaf(store) == "b"
        [y] = await self.add(store, "y")
        assert y.message.parent_id == "b"
        assert ids(await store.children(self.ref(), "b")) == ["c", "y"]

    async def test_deleting_the_whole_path_moves_the_leaf_to_the_newest(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", "y", parent=None)
        await self.add(store, "r", parent=None)
        await store.checkout(self.ref(), "b")
        await store.delete(self.ref(), ["a", "b"])
        assert await self.leaf(store) == "r"
        await store.delete(self.ref(), ["r"])
        assert await self.leaf(store) == "y"

    async def test_deleting_beside_the_leaf_leaves_it(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.delete(self.ref(), ["b"])
        await store.delete(self.ref(), ["a"])
        assert await self.leaf(store) == "x"

    async def test_deleting_all_leaves_an_empty_session(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.delete(self.ref(), ["b", "a", "x"])
        assert await self.leaf(store) is None
        assert await store.newest(self.ref()) is None
        assert await store.leaves(self.ref()) == []
        assert await store.children(self.ref(), None) == []
        assert await store.totals(self.ref()) == Totals()
        assert await store.info(self.ref()) is not None

    async def test_a_path_runs_through_strands_without_surviving_rows(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        for n in range(6):  # each message a branch of the one before, with a sibling beside it
            await self.add(store, f"in{n}", parent=f"in{n - 1}" if n else "a")
            await self.add(store, f"out{n}", parent=f"in{n - 1}" if n else "a")
        await self.add(store, "end", parent="in5")
        await store.delete(self.ref(), [f"in{n}" for n in range(1, 6)])
        assert await self.history(store, "end") == ["a", "in0", "end"]
        assert await self.history(store, "out5") == ["a", "in0", "out5"]
        await self.check_tree(store)
        await store.delete(self.ref(), ["a", "in0", "b"])
        assert await self.history(store, "end") == ["end"]
        await self.check_tree(store)

    async def test_children_is_the_inverse_of_parent_after_random_deletes(self, store: AsyncStore) -> None:
        for seed in range(6):
            dice, session = random.Random(seed), self.ref(f"s{seed}")
            alive: list[str] = []
            for n in range(60):
                if alive and dice.random() < 0.35:
                    gone = dice.sample(alive, min(len(alive), dice.choice([1, 1, 2, 5])))
                    assert await store.delete(session, gone) == gone
                    alive = [id for id in alive if id not in gone]
                else:
                    parent = dice.choice([LEAF, LEAF, None, *dice.sample(alive, min(2, len(alive)))])
                    await self.add(store, f"m{n}", parent=parent, session=session)
                    alive.append(f"m{n}")
            await self.check_tree(store, session, alive)

    async def test_checkout_makes_another_message_the_leaf(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        assert await store.checkout(self.ref(), "b")
        assert (await self.leaf(store), await self.version(store)) == ("b", 4)
        assert (await store.totals(self.ref())).path_messages == 2
        [x] = await self.add(store, "x")
        assert x.message.parent_id == "b"
        assert ids(await store.leaves(self.ref())) == ["c", "x"]

    async def test_checkout_of_the_leaf_does_nothing(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        assert not await store.checkout(self.ref(), "b")
        await store.delete(self.ref(), ["b"])
        assert not await store.checkout(self.ref(), "a")
        assert await self.version(store) == 3

    async def test_checkout_of_an_absent_message_is_refused(self, store: AsyncStore) -> None:
        with pytest.raises(NotFoundError):
            await store.checkout(self.ref(), "a")
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        with pytest.raises(NotFoundError):
            await store.checkout(self.ref(), "b")
        assert await self.leaf(store) == "a"

    async def test_checkout_of_nothing_leaves_an_empty_path_and_all_messages(self, store: AsyncStore) -> None:
        assert not await store.checkout(self.ref(), None)
        assert await store.info(self.ref()) is None
        await self.add(store, "a", "b")
        assert await store.checkout(self.ref(), None)
        assert not await store.checkout(self.ref(), None)
        assert (await self.leaf(store), await self.version(store)) == (None, 3)
        totals = await store.totals(self.ref())
        assert (totals.messages, totals.path_messages) == (2, 0)
        [x] = await self.add(store, "x")
        assert x.message.parent_id is None
        assert ids(await store.children(self.ref(), None)) == ["a", "x"]
        await store.checkout(self.ref(), None)
        assert await store.delete(self.ref(), ["x"]) == ["x"]
        assert await self.leaf(store) is None
        assert await store.checkout(self.ref(), "b")
        assert (await store.totals(self.ref())).path_messages == 2

    async def test_checkout_by_whoever_sees_the_leaf_where_it_was(self, store: AsyncStore) -> None:
        none, a, b = (Expect(True, leaf) for leaf in (None, "a", "b"))
        assert not await store.checkout(self.ref(), None, expect=none)
        with pytest.raises(LeafMovedError):
            await store.checkout(self.ref(), None, expect=a)
        await self.add(store, "a", "b")
        with pytest.raises(LeafMovedError):
            await store.checkout(self.ref(), None, expect=a)
        assert await store.checkout(self.ref(), "a", expect=b)
        with pytest.raises(LeafMovedError):
            await store.checkout(self.ref(), "a", expect=b)
        assert await store.checkout(self.ref(), None, expect=a)
        assert not await store.checkout(self.ref(), None, expect=none)
        assert await self.version(store) == 4
