"""A tree of messages drawn as lanes beside its rows, newest first, the way `git log --graph` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

ENDS_SHOWN: Final = 2
"""Messages of a straight run that stay visible at either end when the run is collapsed."""

SHORTEST_RUN: Final = 3
"""Fewer hidden messages than this are shown instead: the line that counts them would gain nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One message to draw: its id, its parent's (`None` for a root), and what is written beside it.

    `hidden` is above zero on a row that stands for so many messages of a straight run.
    """

    id: str
    parent: str | None
    label: str = ""
    active: bool = False
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the drawing: `lanes` in characters, the lane each belongs to (-1: none), the row if any."""

    lanes: str
    colors: tuple[int, ...]
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a drawing."""

    node: str
    active: str
    hidden: str
    lane: str


UNICODE: Final = Glyphs("●", "◉", "┆", "│")
ASCII: Final = Glyphs("*", "@", ":", "|")


def draw(rows: Sequence[Row], *, ascii_only: bool = False, collapse: bool = True) -> Iterator[Line]:
    """The lines of the tree whose messages are `rows`, newest first; a parent comes after its children.

    A row whose parent is not among the later rows is drawn as a root. With `collapse`, the middle
    of a long straight run becomes one row that says how many messages it stands for.
    """
    rows = _rooted(rows)
    glyphs = ASCII if ascii_only else UNICODE
    lanes = _Lanes()
    shown = collapsed(rows) if collapse else rows
    for number, row in enumerate(shown, 1):
        at = lanes.enter(row.id)
        yield lanes.row_line(row, at, glyphs)
        joined = lanes.leave(at, row.parent)
        if joined is not None:
            yield from lanes.join_lines(*joined, glyphs)
        elif row.parent is None and number < len(shown):  # else the next tree would seem to go on from this root
            yield lanes.gap_line(glyphs)


def collapsed(rows: Sequence[Row]) -> list[Row]:
    """`rows` with the middle of each long straight run as one row; roots, forks, leaves and ends stay."""
    children = Counter(row.parent for row in rows)
    by_id = {row.id: row for row in rows}
    taken: set[str] = set()
    stands_for: dict[str, Row] = {}
    for row in rows:
        if row.id not in taken and not _straight(row, children):
            taken.add(row.id)
        elif row.id not in taken:
            run = _run(row, by_id, children)
            taken.update(one.id for one in run)
            _hide_middle(run, stands_for)
    return [shown for row in rows if (shown := stands_for.get(row.id, row)).id]


def _rooted(rows: Sequence[Row]) -> list[Row]:
    """`rows` with every parent that does not come later taken for absent."""
    place = {row.id: at for at, row in enumerate(rows)}
    return [
        row if row.parent is None or place.get(row.parent, -1) > at else Row(row.id, None, row.label, row.active)
        for at, row in enumerate(rows)
    ]


def _straight(row: Row, children: Counter[str | None]) -> bool:
    return row.parent is not None and children[row.id] == 1 and not row.active


def _run(row: Row, by_id: dict[str, Row], children: Counter[str | None]) -> list[Row]:
    """The straight run that begins at `row` and goes down to the next fork, root or active leaf."""
    run = [row]
    while (parent := run[-1].parent) is not None and _straight(by_id[parent], children):
        run.append(by_id[parent])
    return run


def _hide_middle(run: list[Row], stands_for: dict[str, Row]) -> None:
    # The leaf above the run and the fork or root below it are shown anyway, so one less at each end.
    middle = run[ENDS_SHOWN - 1 : len(run) - (ENDS_SHOWN - 1)]
    if len(middle) < SHORTEST_RUN:
        return
    stands_for.update((row.id, _GONE) for row in middle)
    stands_for[middle[0].id] = Row(middle[0].id, middle[-1].parent, hidden=len(middle))


_GONE: Final = Row("", None)


class _Lanes:
    """Which message each lane is on the way to; a lane that ended is a gap until a new branch takes it."""

    def __init__(self) -> None:
        self._awaits: list[str | None] = []  # by lane; None is a gap
        self._colors: list[int] = []
        self._lane_of: dict[str, int] = {}
        self._colors_used = 0

    def enter(self, id: str) -> int:
        """The lane that `id` stands in: the one that awaits it, else a new one."""
        at = self._lane_of.get(id)
        return at if at is not None else self._open(id)

    def leave(self, at: int, parent: str | None) -> tuple[int, int] | None:
        """Send the lane on to `parent`; the two lanes that thereby become one, if any, the left first."""
        awaited = self._awaits[at]
        if awaited is not None:
            del self._lane_of[awaited]
        self._awaits[at] = parent
        if parent is None:
            self._trim()
            return None
        other = self._lane_of.get(parent)
        if other is None:
            self._lane_of[parent] = at
            return None
        left, right = sorted((at, other))
        self._lane_of[parent] = left
        return left, right

    def row_line(self, row: Row, at: int, glyphs: Glyphs) -> Line:
        mark = glyphs.hidden if row.hidden else glyphs.active if row.active else glyphs.node
        return self._line([mark if lane == at else self._bar(lane, glyphs) for lane in range(len(self._awaits))], row)

    def gap_line(self, glyphs: Glyphs) -> Line:
        return self._line([self._bar(lane, glyphs) for lane in range(len(self._awaits))], None)

    def join_lines(self, left: int, right: int, glyphs: Glyphs) -> Iterator[Line]:
        """The lines that bend lane `right` into lane `left`; `right` is a gap after them."""
        if glyphs is UNICODE:
            yield self._bend(left, right)
            self._close(right)
            return
        if right > left + 1:
            yield self._reach(left, right)
        self._close(right)
        cells = [self._bar(lane, glyphs) for lane in range(max(len(self._awaits), left + 1))]
        yield self._line(cells, None, slash=left)

    def _open(self, id: str) -> int:
        at = next((lane for lane, awaited in enumerate(self._awaits) if awaited is None), len(self._awaits))
        if at == len(self._awaits):
            self._awaits.append(id)
            self._colors.append(0)
        self._awaits[at] = id
        self._colors[at] = self._colors_used
        self._colors_used += 1
        self._lane_of[id] = at
        return at

    def _close(self, at: int) -> None:
        self._awaits[at] = None
        self._trim()

    def _trim(self) -> None:
        while self._awaits and self._awaits[-1] is None:
            self._awaits.pop()
            self._colors.pop()

    def _bar(self, lane: int, glyphs: Glyphs) -> str:
        return " " if self._awaits[lane] is None else glyphs.lane

    def _line(self, cells: list[str], row: Row | None, *, slash: int | None = None) -> Line:
        chars: list[str] = []
        colors: list[int] = []
        for lane, cell in enumerate(cells):
            chars += [cell, "/" if slash == lane else " "]
            color = self._colors[lane]
            colors += [color, color]
        return _ended(chars, colors, row)

    def _bend(self, left: int, right: int) -> Line:
        """`├─┼─╯`: the right lane's colour from the corner to the left lane."""
        chars: list[str] = []
        colors: list[int] = []
        for lane in range(len(self._awaits)):
            inside = left < lane < right
            bar = self._bar(lane, UNICODE)
            cell = "├" if lane == left else "╯" if lane == right else bar
            if inside:
                cell = "─" if bar == " " else "┼"
            chars += [cell, "─" if left <= lane < right else " "]
            own = self._colors[lane]
            colors += [self._colors[right] if inside else own, self._colors[right] if left <= lane < right else own]
        return _ended(chars, colors, None)

    def _reach(self, left: int, right: int) -> Line:
        """`| |_|/`: the right lane on its way over the lanes between, in ASCII."""
        chars: list[str] = []
        colors: list[int] = []
        for lane in range(len(self._awaits)):
            bar = " " if lane == right else self._bar(lane, ASCII)
            inside = left < lane < right
            after = "/" if lane == right - 1 else "_" if inside else " "
            chars += ["_" if inside and bar == " " and lane > left + 1 else bar, after]
            own = self._colors[lane]
            colors += [own, self._colors[right] if inside else own]
        return _ended(chars, colors, None)


def _ended(chars: list[str], colors: list[int], row: Row | None) -> Line:
    while chars and chars[-1] == " ":
        chars.pop()
    return Line("".join(chars), tuple(colors[: len(chars)]), row)
