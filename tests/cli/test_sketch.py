"""Numbers as small pictures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.cli import sketch


@pytest.mark.parametrize(
    ("bytes", "shown"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"),
     (10**9, "1.0 GB"), (5 * 10**15, "5000.0 TB")],
)  # fmt: skip
def test_sizes_are_in_words(bytes: int, shown: str) -> None:
    assert sketch.size(bytes) == shown


@given(st.integers(0, 10**14))
def test_a_short_number_fits_the_side_of_a_chart(number: int) -> None:
    assert len(sketch.short(number)) <= 5


@given(st.lists(st.integers(0, 10**9)), st.integers(1, 80))
def test_samples_end_with_the_last_value_and_keep_the_width_and_order(values: list[int], width: int) -> None:
    shown = sketch.samples(values, width)
    assert len(shown) == min(width, len(values))
    assert shown[-1:] == values[-1:]
    assert sketch.samples(sorted(values), width) == sorted(sketch.samples(sorted(values), width))


def test_marks_stand_below_the_places_they_mark() -> None:
    assert sketch.marks([1, 50, 100], 100, 10, ascii_only=True) == "^   ^    ^"
    assert sketch.marks([3], 4, 8, ascii_only=True) == "    ^"
    assert sketch.marks([], 4, 8, ascii_only=True) == ""


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 8), st.booleans())
def test_columns_rise_with_their_values(values: list[int], height: int, ascii_only: bool) -> None:
    lines = sketch.columns(values, height, ascii_only=ascii_only)
    assert [len(line) for line in lines] == [len(values)] * height
    filled = [sum(line[at] != " " for line in lines) for at in range(len(values))]
    assert all((value > 0) == (marks > 0) for value, marks in zip(values, filled, strict=True))
    order = sorted(range(len(values)), key=lambda at: values[at])
    assert [filled[at] for at in order] == sorted(filled)


def test_a_chart_of_nothing_is_empty_and_breaks_nothing() -> None:
    assert [line.strip() for line in sketch.chart([], 2, ascii_only=True)] == ["0 |", "0 |", "0 +"]


def test_a_chart_says_its_scale() -> None:
    assert sketch.chart([500, 1000], 2, ascii_only=True) == [" 1000 | #", "  500 |##", "    0 +--"]


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_bar_of_little_is_still_a_mark_and_of_nothing_is_none(ascii_only: bool) -> None:
    assert sketch.bar(0, 10, 20, ascii_only=ascii_only) == ""
    assert len(sketch.bar(1, 10**9, 20, ascii_only=ascii_only)) == 1
    assert len(sketch.bar(10, 10, 20, ascii_only=ascii_only)) == 20
