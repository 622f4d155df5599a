"""Long texts are cut between characters, a slice at a time."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.logic import slices


@given(st.text(st.sampled_from("aé€😀\x00"), max_size=60), st.integers(1, 12))
def test_slices_joined_are_the_text_and_each_is_as_long_as_fits(text: str, budget: int) -> None:
    pieces = list(slices.cut(text, budget))
    assert slices.join(pieces) == text
    for n, piece in enumerate(pieces):
        assert len(piece.encode()) <= budget or len(piece) == 1
        if n + 1 < len(pieces):
            assert piece and len((piece + pieces[n + 1][0]).encode()) > budget


@pytest.mark.parametrize("text", ["", "short", "é" * 10])
def test_a_text_within_the_budget_is_one_slice_and_not_copied(text: str) -> None:
    (piece,) = slices.cut(text)
    assert piece is text


def test_a_huge_text_is_not_copied_whole() -> None:
    text = "x" * (40 * slices.ROW_BUDGET_BYTES)
    tracemalloc.start()
    for _ in slices.cut(text):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * slices.ROW_BUDGET_BYTES
