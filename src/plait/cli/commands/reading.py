"""`plait show`: one path of a session, to read or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

import plait
from plait.cli import escape, failure, views
from plait.cli.place import Place, find, find_message
from plait.cli.render import Look, covered, message_lines
from plait.cli.screen import Screen
from plait.cli.sketch import count, size
from plait.model import Parent

Form: TypeAlias = Literal["text", "raw", "json"]
Entry: TypeAlias = plait.Message | plait.Damaged


@dataclass(frozen=True, slots=True)
class Show:
    """What `show` is asked for; `transcript`: with nothing hidden, saying what is covered; `around`: a message's surroundings alone."""

    transcript: bool = False
    leaf: str | None = None
    last: int | None = None
    around: str | None = None
    reverse: bool = False
    full: bool = False
    ids: bool = False
    form: Form = "text"


def show(place: Place, id: str | None, wanted: Show) -> int:
    """Print the path; the exit code says whether a damaged message was met."""
    screen = Screen(sys.stdout)
    look = Look(width=screen.width, unicode=screen.unicode, full=wanted.full, ids=wanted.ids)
    code = failure.OK
    with place.opened() as sessions:
        info = find(sessions, place, id)
        session = sessions.session(info.id)
        entries = _entries(session, wanted)
        leaf = _leaf(session, wanted)
        marks = session.overlays(leaf) if wanted.transcript and wanted.form == "text" else []
        if wanted.form == "text":
            _title(info, screen, look)
        for entry in entries:
            if isinstance(entry, plait.Damaged):
                code = failure.DAMAGED
            _print(entry, wanted, screen, look)
            _mark(entry, marks, screen, look)
    return code


def _leaf(session: plait.Session, wanted: Show) -> Parent:
    return plait.LEAF if wanted.leaf is None else find_message(session, wanted.leaf)


def _entries(session: plait.Session, wanted: Show) -> Iterator[Entry]:
    if wanted.around is not None:
        return iter(session.around(find_message(session, wanted.around)))
    leaf = _leaf(session, wanted)
    read = session.transcript if wanted.transcript else session.history
    if wanted.last is None:
        return read(leaf, newest_first=wanted.reverse)
    newest = read(leaf, newest_first=True)
    if wanted.reverse:
        return islice(newest, wanted.last)
    if not wanted.transcript and session.overlays(leaf):
        return iter(session.recent(count=wanted.last, leaf=leaf).messages)
    first = None  # found by walking back, so that no more than a window is held
    for entry in islice(newest, wanted.last):
        first = entry.seq
    if first is None:
        return iter(())
    return session.transcript(leaf, after_seq=first - 1)


def _mark(entry: Entry, marks: list[plait.Overlay], screen: Screen, look: Look) -> None:
    """Say under a message which overlays cover it."""
    for overlay in marks:
        if overlay.from_seq <= entry.seq <= overlay.to_seq:
            screen.flow("  ", (f"under {covered(overlay)} {escape.name(overlay.id)}", "dim"))


def _title(info: plait.SessionInfo, screen: Screen, look: Look) -> None:
    totals = info.totals
    named = escape.name(info.id) if info.name is None else f"{escape.one_line(info.name, 200)} ({escape.name(info.id)})"
    facts = [f"{count(totals.messages)} messages", f"~{count(totals.tokens)} tokens", size(totals.bytes)]
    if totals.path_messages != totals.messages:
        facts.insert(1, f"{count(totals.path_messages)} on the active path")
    screen.flow((named, "bold"), "  ", (look.dot.join(facts), "dim"))


def _print(entry: Entry, wanted: Show, screen: Screen, look: Look) -> None:
    if wanted.form == "text":
        screen.line()
        for line in message_lines(entry, look):
            screen.flow(*line)
    elif wanted.form == "json":
        screen.json(views.message(entry))
    elif isinstance(entry, plait.Damaged):
        sys.stderr.write(f"plait: message #{entry.seq} is damaged: {escape.one_line(entry.reason, 500)}\n")
    else:
        screen.json(entry.to_json())
