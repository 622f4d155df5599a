"""`plait tree`: a session's branches drawn beside its messages."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import plait
from plait import jsontext
from plait.cli import escape, failure, graph
from plait.cli.place import Place, find
from plait.cli.progress import progress
from plait.cli.render import Look, preview, role_style
from plait.cli.screen import Screen, Span, Spans, cells, fit
from plait.cli.sketch import count

_PREVIEW: Final = 100


@dataclass(frozen=True, slots=True)
class _Note:
    seq: int
    role: str
    damaged: bool


def tree(place: Place, id: str | None, *, every: bool, ids: bool, json: bool) -> int:
    """Draw the tree, newest message first; the exit code says whether a damaged message was met."""
    screen = Screen(sys.stdout)
    look = Look(unicode=screen.unicode)
    with place.opened() as sessions:
        info = find(sessions, place, id)
        rows, notes = _read(sessions.session(info.id), info.totals.messages, look)
    parents = {row.parent for row in rows}
    if json:
        for row in rows:
            screen.json(_json(row, notes[row.id], row.id not in parents))
    else:
        with_id = {row.id for row in rows if ids or row.id not in parents}
        for line in graph.draw(rows, ascii_only=not screen.unicode, collapse=not every):
            _print(line, notes, with_id, screen, look)
    return failure.DAMAGED if any(note.damaged for note in notes.values()) else failure.OK


def _read(session: plait.Session, total: int, look: Look) -> tuple[list[graph.Row], dict[str, _Note]]:
    """All messages, newest first, with only a line of each kept."""
    active = session.leaf()
    active_id = None if active is None else active.id
    rows: list[graph.Row] = []
    notes: dict[str, _Note] = {}
    with progress("reading", total=total) as tick:
        for entry in session.everything():
            text = preview(entry, _PREVIEW, look)
            rows.append(graph.Row(entry.id, entry.parent_id, text, active=entry.id == active_id))
            notes[entry.id] = _Note(entry.seq, entry.role, isinstance(entry, plait.Damaged))
            tick(len(rows))
    return rows[::-1], notes


def _print(line: graph.Line, notes: dict[str, _Note], with_id: set[str], screen: Screen, look: Look) -> None:
    lanes = _lanes(line)
    if line.row is None:
        screen.line(*lanes)
    elif line.row.hidden:
        screen.line(*lanes, "  ", (f"{look.more} {count(line.row.hidden)} messages {look.more}", "dim"))
    else:
        note = notes[line.row.id]
        role = escape.one_line(note.role, 20, more=look.more)
        before: Spans = [*lanes, ("  ", ""), (f"#{note.seq} ", "dim"), (f"{role} ", role_style(note.role))]
        after: Spans = [("  (active leaf)", "active")] if line.row.active else []
        if line.row.id in with_id:
            after.append((f"  {escape.name(line.row.id)}", "dim"))
        room = None if screen.width is None else max(16, screen.width - cells(before) - cells(after))
        screen.line(*before, (fit(line.row.label, room, more=look.more), "error" if note.damaged else ""), *after)


def _lanes(line: graph.Line) -> Spans:
    """The drawing's characters in the colours of their lanes."""
    spans: list[Span] = []
    for color, group in groupby(zip(line.lanes, line.colors, strict=True), key=lambda one: one[1]):
        spans.append(("".join(char for char, _ in group), f"lane {color}"))
    return spans


def _json(row: graph.Row, note: _Note, leaf: bool) -> str:
    value = {"id": row.id, "parent_id": row.parent, "seq": note.seq, "role": note.role, "preview": row.label}
    value |= {"leaf": leaf, "active": row.active, "damaged": note.damaged}
    return jsontext.encode(value)
