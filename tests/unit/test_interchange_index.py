from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.interchange.index import Index


def arranged(
    entries: list[tuple[str, str | None]], hidden: set[str] | None = None, *, continues: bool = False
) -> tuple[list[tuple[str, str | None]], list[tuple[int, str]]]:
    index, faults = Index(), list[tuple[int, str]]()
    for line, (key, parent) in enumerate(entries, 1):
        assert index.add(key, parent, line=line, hidden=key in (hidden or set()))
    index.arrange(lambda line, reason: faults.append((line, reason)), continues=continues)
    return [(slot.id, slot.parent) for slot in index.slots()], faults


def test_entries_in_order_stay_in_order() -> None:
    entries = [("a", None), ("b", "a"), ("c", "a"), ("d", "b")]
    assert arranged(entries) == (entries, [])


def test_children_wait_for_their_parents() -> None:
    order, faults = arranged([("c", "b"), ("b", "a"), ("x", None), ("a", None)])
    assert order == [("x", None), ("a", None), ("b", "a"), ("c", "b")]
    assert faults == []


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_shuffled_entries_give_the_same_tree(count: int, chance: random.Random) -> None:
    tree = [(f"m{n}", f"m{chance.randrange(n)}" if n and chance.random() < 0.9 else None) for n in range(count)]
    shuffled = chance.sample(tree, count)
    order, faults = arranged(shuffled)
    assert faults == []
    assert sorted(order) == sorted(tree)
    seen: set[str | None] = {None}
    for id, parent in order:
        assert parent in seen
        seen.add(id)


def test_a_missing_parent_makes_a_root() -> None:
    order, faults = arranged([("a", None), ("b", "gone")])
    assert order == [("a", None), ("b", None)]
    assert faults[0][0] == 2
    assert "'gone'" in faults[0][1]


def test_a_continuation_keeps_parents_that_are_elsewhere() -> None:
    assert arranged([("b", "there"), ("c", "b")], continues=True) == ([("b", "there"), ("c", "b")], [])


def test_an_entry_that_is_its_own_parent_becomes_a_root() -> None:
    order, faults = arranged([("a", "a"), ("b", "a")])
    assert order == [("a", None), ("b", "a")]
    assert [line for line, _ in faults] == [1]


def test_a_circle_is_opened_at_its_first_entry() -> None:
    order, faults = arranged([("tail", "c"), ("b", "a"), ("a", "c"), ("c", "b"), ("root", None)])
    assert sorted(order) == [("a", "c"), ("b", None), ("c", "b"), ("root", None), ("tail", "c")]
    assert [line for line, _ in faults] == [2]


def test_children_of_hidden_entries_go_to_the_nearest_one_with_content() -> None:
    entries = [("h", None), ("a", "h"), ("h2", "a"), ("h3", "h2"), ("b", "h3")]
    assert arranged(entries, {"h", "h2", "h3"})[0] == [("a", None), ("b", "a")]


def test_visible_looks_up_through_hidden_entries() -> None:
    index = Index()
    for key, parent in [("a", None), ("h", "a"), ("top", None)]:
        index.add(key, parent, line=1, hidden=key != "a")
    index.arrange(lambda *_: None)
    assert [index.visible(key) for key in ("a", "h", "top", "gone", None)] == ["a", "a", None, None, None]


def test_a_guessed_entry_gives_way_to_a_real_one() -> None:
    index = Index()
    assert index.add("a", None, line=1, hidden=True, guessed=True)
    assert index.add("a", None, line=2)
    assert not index.add("a", None, line=3)
    assert not index.add("a", None, line=4, hidden=True, guessed=True)
    index.arrange(lambda *_: None)
    assert [(slot.id, slot.line) for slot in index.slots()] == [("a", 2)]


def test_ranks_decide_the_order() -> None:
    index = Index()
    for key, parent, rank in [("b", "a", 20), ("c", "b", 30), ("a", None, 10), ("a2", None, 25)]:
        index.add(key, parent, line=1, rank=rank)
    index.arrange(lambda *_: None)
    assert [slot.id for slot in index.slots()] == ["a", "b", "a2", "c"]


def test_repeated_ranks_are_noticed() -> None:
    index = Index()
    for key, rank in [("a", 2), ("b", 1), ("c", 2)]:
        index.add(key, None, line=1, rank=rank)
    assert index.ranks_repeat()


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_of_50_000_needs_no_recursion(backwards: bool) -> None:
    index, keys = Index(), range(50_000)
    for n in reversed(keys) if backwards else keys:
        index.add(str(n), str(n - 1) if n else None, line=n)
    index.arrange(lambda line, reason: pytest.fail(reason))
    assert [slot.id for slot in index.slots()] == [str(n) for n in keys]
