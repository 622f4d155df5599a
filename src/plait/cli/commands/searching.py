"""`plait search`: messages that hold some words, in one session or all of a scope."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import plait
from plait import jsontext
from plait.cli import escape, failure, views
from plait.cli.place import Place, find
from plait.cli.screen import Screen, Span


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `search` is asked for."""

    words: Sequence[str]
    session: str | None = None
    roles: Sequence[str] = ()
    newest: bool = False
    limit: int = 20
    json: bool = False


def search(place: Place, wanted: Wanted) -> int:
    """Print the hits; the exit code is 0 whether or not there are any.

    The file is opened to be written where that is allowed, so that the index is kept.
    """
    screen = Screen(sys.stdout)
    with place.opened(write=os.access(place.db, os.W_OK)) as sessions:
        hits = _hits(sessions, place, wanted)
    for hit in hits:
        if wanted.json:
            screen.json(jsontext.encode(_view(hit)))
        else:
            _print(hit, screen)
    if not hits and not wanted.json:
        where = "" if wanted.session is None else f" session {escape.name(wanted.session)} of"
        failure.note(f"nothing in{where} {place.described} has these words; all of them must be in one message")
    return failure.OK


def _hits(sessions: plait.Sessions, place: Place, wanted: Wanted) -> list[plait.Hit]:
    query, roles = " ".join(wanted.words), tuple(wanted.roles) or None
    if wanted.session is None:
        return sessions.search(query, limit=wanted.limit, newest_first=wanted.newest, role=roles)
    session = sessions.session(find(sessions, place, wanted.session).id)
    return session.search(query, limit=wanted.limit, newest_first=wanted.newest, role=roles)


def _print(hit: plait.Hit, screen: Screen) -> None:
    facts = [name for name, so in (("other branch", not hit.on_path), ("covered", hit.covered)) if so]
    head = f"{escape.name(hit.session_id)} #{hit.seq} "
    role = escape.one_line(hit.role, 40)
    screen.line(
        (head, "bold"),
        (role, role if role in ("user", "assistant", "system", "tool") else ""),
        " ",
        *([(f"({', '.join(facts)})", "dim")] if facts else []),
    )
    screen.line("  ", *_snippet(hit))


def _snippet(hit: plait.Hit) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for start, end in hit.highlights:
        spans += [(escape.printable(hit.snippet[at:start]), ""), (escape.printable(hit.snippet[start:end]), "active")]
        at = end
    return [*spans, (escape.printable(hit.snippet[at:]), "")]


def _view(hit: plait.Hit) -> dict[str, object]:
    return {
        "session": hit.session_id,
        "id": hit.id,
        "seq": hit.seq,
        "role": hit.role,
        "created_at": views.time(hit.created_at),
        "snippet": hit.snippet,
        "highlights": [list(span) for span in hit.highlights],
        "score": hit.score,
        "on_path": hit.on_path,
        "covered": hit.covered,
        "leaf_id": hit.leaf_id,
    }
