"""Reciprocal rank fusion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plait.logic.fusion import K, fused

rankings = st.lists(st.lists(st.integers(0, 9), max_size=8), max_size=4)


def test_what_both_have_comes_before_what_one_has_first() -> None:
    assert [item for item, _ in fused(["a", "b", "c"], ["d", "b"])] == ["b", "a", "d", "c"]
    assert fused(["a"], ["a"]) == [("a", 2 / (K + 1))]


def test_one_ranking_stays_as_it_is() -> None:
    assert [item for item, _ in fused(["c", "a", "b", "a"])] == ["c", "a", "b"]
    assert fused() == fused([], []) == []


@given(given=rankings)
def test_every_item_is_there_once_and_the_best_score_first(given: list[list[int]]) -> None:
    found = fused(*given)
    assert {item for item, _ in found} == {item for ranking in given for item in ranking}
    assert len({item for item, _ in found}) == len(found)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
