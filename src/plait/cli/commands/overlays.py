"""`plait overlays`: what a session shows instead of its messages, and taking it away."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import plait
from plait import jsontext
from plait.cli import escape, failure, views
from plait.cli.failure import Failure
from plait.cli.place import Place, find, find_message
from plait.cli.render import Look
from plait.cli.screen import Screen
from plait.cli.sketch import count

_SUMMARY = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `overlays` is asked for: those of one path or all, or to remove one."""

    leaf: str | None = None
    all: bool = False
    remove: str | None = None
    json: bool = False


def overlays(place: Place, id: str | None, wanted: Wanted) -> int:
    """List overlays in the order they were added, or remove one."""
    screen = Screen(sys.stdout)
    look = Look(width=screen.width, unicode=screen.unicode)
    with place.opened(write=wanted.remove is not None) as sessions:
        info = find(sessions, place, id)
        session = sessions.session(info.id)
        if wanted.remove is not None:
            return _remove(session, wanted.remove, screen)
        leaf = plait.LEAF if wanted.leaf is None else find_message(session, wanted.leaf)
        found = session.overlays(leaf, all=wanted.all)
    for overlay in found:
        if wanted.json:
            screen.json(jsontext.encode(views.overlay(overlay)))
        else:
            _print(overlay, screen, look)
    if not found and not wanted.json:
        failure.note(
            "no overlays in this session" if wanted.all else "no overlays on this path; --all looks at every path"
        )
    return failure.OK


def _remove(session: plait.Session, id: str, screen: Screen) -> int:
    if not session.remove_overlay(id):
        raise Failure(f"there is no overlay {escape.name(id)} in this session; `plait overlays --all` lists them")
    screen.line((f"removed {escape.name(id)}; what it covered is shown again", ""))
    return failure.OK


def _print(overlay: plait.Overlay, screen: Screen, look: Look) -> None:
    facts = [f"#{overlay.from_seq} to #{overlay.to_seq}", f"{count(overlay.left)} messages"]
    facts += ["stale"] * overlay.stale
    screen.flow((overlay.kind, "bold"), "  ", (look.dot.join(facts), "dim"), "  ", (escape.name(overlay.id), ""))
    if overlay.summary is not None:
        screen.flow("  ", (escape.one_line(overlay.summary, _SUMMARY, more=look.more), ""), indent="  ")
