"""`plait ls`: the sessions of a scope, the most recently active first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from typing import Final, TypeAlias

from rich.cells import cell_len

import plait
from plait import jsontext
from plait.cli import escape, failure, views
from plait.cli.place import Place
from plait.cli.render import Look, when
from plait.cli.screen import Screen, fit
from plait.cli.sketch import count, size

_HEAD: Final = ("session", "name", "messages", "tokens", "size", "last active")
_RIGHT: Final = (2, 3, 4)
_PAGE: Final = 200
_NAME: Final = 1
_NAME_CHARS: Final = 60
_NARROWEST_NAME: Final = 8
_GAP: Final = "  "

_Cells: TypeAlias = tuple[str, ...]


def ls(place: Place, limit: int | None, json: bool) -> int:
    """Print one line a session; column widths are those of each 200 lines."""
    screen = Screen(sys.stdout)
    with place.opened() as sessions:
        found = islice(sessions.all(), limit)
        if json:
            for info in found:
                screen.json(jsontext.encode(views.session(info)))
            return failure.OK
        look = Look(width=screen.width, unicode=screen.unicode)
        any_found = False
        while page := [_cells(info, look) for info in islice(found, _PAGE)]:
            _table(page, screen, look, head=not any_found)
            any_found = True
    if not any_found:
        sys.stderr.write(f"plait: no sessions in {place.described}\n")
    return failure.OK


def _cells(info: plait.SessionInfo, look: Look) -> _Cells:
    name = escape.one_line(info.name or "", _NAME_CHARS, more=look.more)
    totals = info.totals
    last = when(info.active_at, look)
    return escape.name(info.id), name, count(totals.messages), f"~{count(totals.tokens)}", size(totals.bytes), last


def _table(rows: Sequence[_Cells], screen: Screen, look: Look, *, head: bool) -> None:
    widths = [max(cell_len(row[at]) for row in (_HEAD, *rows)) for at in range(len(_HEAD))]
    if not any(row[_NAME] for row in rows):
        widths[_NAME] = 0
    elif screen.width is not None:  # the name takes what the others leave; if that is next to nothing, none
        room = screen.width - (sum(widths) - widths[_NAME]) - len(_GAP) * (len(_HEAD) - 1)
        widths[_NAME] = min(widths[_NAME], room) if room >= _NARROWEST_NAME else 0
    for row in (_HEAD, *rows) if head else rows:
        style = "dim" if row is _HEAD else ""
        shown = [(at, _placed(cell, at, widths[at], look)) for at, cell in enumerate(row) if widths[at]]
        screen.flow(*((_GAP * (at > 0) + cell, style or ("bold" if at == 0 else "")) for at, cell in shown))


def _placed(cell: str, at: int, width: int, look: Look) -> str:
    cell = fit(cell, width, more=look.more)
    pad = " " * (width - cell_len(cell))
    return pad + cell if at in _RIGHT else cell + pad
