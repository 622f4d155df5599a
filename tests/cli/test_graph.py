"""The drawing of a tree beside its messages."""

from __future__ import annotations

import random

import pytest

from plait.cli.graph import Line, Row, collapsed, draw


def rows(*pairs: str, active: str = "") -> list[Row]:
    """Rows from `child<parent` (or `root`), newest first."""
    parts = (pair.partition("<") for pair in pairs)
    return [Row(id, parent or None, active=id == active) for id, _, parent in parts]


def drawn(tree: list[Row], *, ascii_only: bool = False, collapse: bool = True) -> str:
    def label(row: Row | None) -> str:
        return "" if row is None else f" {row.hidden} more" if row.hidden else f" {row.id}"

    return "\n".join(line.lanes + label(line.row) for line in draw(tree, ascii_only=ascii_only, collapse=collapse))


def chain(length: int) -> list[Row]:
    return [Row(str(at), str(at - 1) if at else None) for at in reversed(range(length))]


def test_nothing_is_drawn_for_an_empty_session() -> None:
    assert drawn([]) == ""


def test_one_message_is_one_node() -> None:
    assert drawn(rows("a")) == "● a"


FORKS = rows("f<c", "e<b", "d<a", "c<b", "b<a", "a", active="d")


def test_branches_run_beside_each_other_and_bend_into_their_fork() -> None:
    assert drawn(FORKS) == "\n".join(
        [
            "● f",
            "│ ● e",
            "│ │ ◉ d",
            "● │ │ c",
            "├─╯ │",
            "●   │ b",
            "├───╯",
            "● a",
        ]
    )


def test_in_ascii_it_looks_like_git_log() -> None:
    assert drawn(rows("d<a", "c<a", "b<a", "a"), ascii_only=True) == "* d\n| * c\n|/\n| * b\n|/\n* a"


def test_in_ascii_a_lane_reaches_over_those_between() -> None:
    assert drawn(rows("d<a", "c<x", "b<a", "a", "x"), ascii_only=True) == "\n".join(
        [
            "* d",
            "| * c",
            "| | * b",
            "| |/",
            "|/|",
            "* | a",
            "  |",
            "  * x",
        ]
    )


def test_the_active_leaf_is_marked_even_where_it_has_children() -> None:
    assert drawn(rows("c<b", "b<a", "a", active="b"), ascii_only=True) == "* c\n@ b\n* a"


def test_a_root_ends_its_lane_so_that_the_next_tree_does_not_seem_to_go_on() -> None:
    assert drawn(rows("d<c", "c", "b<a", "a")) == "● d\n● c\n\n● b\n● a"


def test_a_parent_that_is_not_there_makes_a_root() -> None:
    assert drawn(rows("b<gone", "a")) == "● b\n\n● a"


def test_a_long_straight_run_becomes_one_line_that_counts_it() -> None:
    assert drawn(chain(42)) == "● 41\n● 40\n┆ 38 more\n● 1\n● 0"


def test_a_run_is_not_collapsed_to_hide_next_to_nothing() -> None:
    assert [row.hidden for row in collapsed(chain(6))] == [0] * 6
    assert [row.hidden for row in collapsed(chain(7))] == [0, 0, 3, 0, 0]


def test_the_active_leaf_in_the_middle_of_a_run_stays_visible() -> None:
    tree = [Row(row.id, row.parent, active=row.id == "20") for row in chain(41)]
    shown = collapsed(tree)
    assert [row.id for row in shown if row.active] == ["20"]
    assert sum(row.hidden for row in shown) == 41 - len([row for row in shown if not row.hidden])


def random_tree(seed: int, size: int) -> list[Row]:
    dice = random.Random(seed)
    back = [1, 1, 1, 1, 1, 2, 3, 30]
    parents = [None if dice.random() < 0.03 else max(0, at - dice.choice(back)) for at in range(size)]
    return [Row(str(at), None if at == 0 or parents[at] is None else str(parents[at])) for at in reversed(range(size))]


@pytest.mark.parametrize("seed", range(20))
def test_every_message_is_drawn_once_or_counted_once(seed: int) -> None:
    tree = random_tree(seed, 200)
    lines = [line.row for line in draw(tree) if line.row is not None]
    whole = [line.row for line in draw(tree, collapse=False) if line.row is not None]
    assert whole == tree
    assert sum(row.hidden or 1 for row in lines) == len(tree)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ascii_only", [False, True])
def test_following_the_lines_down_from_a_message_leads_to_its_parent(seed: int, ascii_only: bool) -> None:
    tree = random_tree(seed, 80)
    lines = list(draw(tree, ascii_only=ascii_only, collapse=False))
    for at, line in enumerate(lines):
        if line.row is not None and line.row.parent is not None:
            assert follow(lines, at, ascii_only=ascii_only) == line.row.parent


def follow(lines: list[Line], at: int, *, ascii_only: bool) -> str:
    """The id of the node that the lane of line `at` runs into, read off the characters alone."""
    column = next(n for n, char in enumerate(lines[at].lanes) if char in ("*@" if ascii_only else "●◉"))
    while True:
        at += 1
        line = lines[at]
        char = line.lanes[column] if column < len(line.lanes) else " "
        if char in "●◉*@" and line.row is not None:
            return line.row.id
        if char == "╯":
            column = line.lanes.rindex("├", 0, column)
        elif char == " " or (ascii_only and char == "_"):
            assert line.lanes[column - 1] == "/", line.lanes
            column -= 2
            while column > 0 and line.lanes[column - 1] == "_":
                column -= 2
            if lines[at + 1].row is None:  # a long reach takes a second line
                at += 1
                assert lines[at].lanes[column - 1] == "/", lines[at].lanes
                column -= 2
        else:
            assert char in ("|_" if ascii_only else "│├┼"), line.lanes


def test_fifty_thousand_messages_in_one_run_take_no_recursion() -> None:
    tree = chain(50_000)
    assert [line.row.hidden for line in draw(tree) if line.row] == [0, 0, 49_996, 0, 0]
    assert sum(1 for _ in draw(tree, collapse=False)) == 50_000


def test_five_thousand_roots_are_five_thousand_trees() -> None:
    lines = list(draw([Row(str(at), None) for at in range(5_000)]))
    assert sum(line.row is not None for line in lines) == 5_000
    assert {len(line.lanes) for line in lines} == {0, 1}
