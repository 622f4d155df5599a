"""`plait search`: messages that hold some words, in one session or all of a scope."""

from __future__ import annotations

import datetime as dt
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plait
from plait import jsontext
from plait.cli import escape, failure, views
from plait.cli.place import Place, find, find_message
from plait.cli.render import Look, role_style, when
from plait.cli.screen import Screen, Span
from plait.logic.words import has_words
from plait.model import Parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What `search` is asked for; `leaf` names a path of the session, `None` is every branch."""

    words: Sequence[str]
    session: str | None = None
    leaf: Parent = None
    roles: Sequence[str] = ()
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    newest: bool = False
    limit: int = 20
    offset: int = 0
    json: bool = False


def search(place: Place, wanted: Wanted) -> int:
    """Print the hits; the exit code is 0 whether or not there are any.

    The file is opened to be written where that is allowed, so that the index is kept.
    """
    screen = Screen(sys.stdout)
    look = Look(width=screen.width, unicode=screen.unicode)
    with place.opened(write=place.writable) as sessions:
        hits = _hits(sessions, place, wanted)
    for hit in hits:
        if wanted.json:
            screen.json(jsontext.encode(_view(hit)))
        else:
            _print(hit, screen, look)
    if hits and screen.is_terminal and not wanted.json:
        screen.flow((f"one with what stands around it: {_opening(place, hits[0])}", "dim"))
    if not hits and not wanted.json:
        failure.note(_nothing(place, wanted))
    return failure.OK


def _hits(sessions: plait.Sessions, place: Place, wanted: Wanted) -> list[plait.Hit]:
    query = " ".join(wanted.words)
    given: dict[str, Any] = {
        "limit": wanted.limit,
        "offset": wanted.offset,
        "newest_first": wanted.newest,
        "role": tuple(wanted.roles) or None,
        "since": wanted.since,
        "until": wanted.until,
    }
    if wanted.session is None:
        return sessions.search(query, **given)
    session = sessions.session(find(sessions, place, wanted.session).id)
    if wanted.leaf is not None:
        given["leaf"] = find_message(session, wanted.leaf) if isinstance(wanted.leaf, str) else wanted.leaf
    return session.search(query, **given)


def _nothing(place: Place, wanted: Wanted) -> str:
    """Why there is no hit, as far as the command line says."""
    if not has_words(" ".join(wanted.words)):
        return "there is no word to look for; words are letters, digits and emoji"
    where = "" if wanted.session is None else f" session {escape.name(wanted.session)} of"
    more = " beyond those left out by --offset" if wanted.offset else ""
    filtered = wanted.leaf is not None or wanted.roles or wanted.since is not None or wanted.until is not None
    passed = ", and pass what narrows the search" if filtered else ""
    rule = f"all of them must be in one message{passed}"
    return f"nothing{more} in{where} {place.described} has these words; {rule}"


def _print(hit: plait.Hit, screen: Screen, look: Look) -> None:
    facts = [when(hit.created_at, look), escape.name(hit.id)]
    facts += [name for name, so in (("other branch", not hit.on_path), ("covered", hit.covered)) if so]
    role = escape.one_line(hit.role, 40, more=look.more)
    screen.flow(
        (f"{escape.name(hit.session_id)} #{hit.seq} ", "bold"),
        (role, role_style(hit.role)),
        ("  " + look.dot.join(facts), "dim"),
    )
    screen.flow("  ", *_snippet(hit), indent="  ")


def _opening(place: Place, hit: plait.Hit) -> str:
    """The command that shows a hit in its place."""
    words = [f"--id={escape.name(hit.session_id)}", f"--around={escape.name(hit.id)}"]
    given = (("db", place.named_db), ("tenant", place.tenant), ("owner", place.owner))
    words += [f"--{option}={escape.printable(value)}" for option, value in given if value]
    return shlex.join(["plait", "show", *words])


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
