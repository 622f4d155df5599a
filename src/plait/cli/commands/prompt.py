"""`plait prompt`: the system prompt of a session, rendered now, frozen, made anew, or compared."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import plait
from plait import jsontext
from plait.cli import blocks, escape, failure
from plait.cli.blocks import Declared
from plait.cli.failure import Failure
from plait.cli.place import Place, find
from plait.cli.screen import Screen
from plait.logic import ids
from plait.logic.blocks import PROMPT_LABEL


def render(place: Place, id: str | None, declared: Declared, *, json: bool) -> int:
    """The prompt as the blocks would make it now; nothing is kept."""
    with _opened(place, id, declared) as (_, session):
        prompt = session.freeze_system_prompt()
        _print("prompt", prompt, json)
        if not prompt and not json:
            failure.note(_empty(session.id, declared))
    return failure.OK


def freeze(place: Place, id: str | None, declared: Declared, *, json: bool) -> int:
    """The frozen prompt; if there is none, it is rendered and kept."""
    with _opened(place, id, declared, write=True) as (_, session):
        _print_kept(session.id, session.with_cached_prompt().freeze_system_prompt(), declared, json)
    return failure.OK


def refresh(place: Place, id: str | None, declared: Declared, *, json: bool) -> int:
    """Render anew and keep that."""
    with _opened(place, id, declared, write=True) as (_, session):
        _print_kept(session.id, session.with_cached_prompt().refresh_system_prompt(), declared, json)
    _tell_undeclared(declared)
    return failure.OK


def diff(place: Place, id: str | None, declared: Declared, *, json: bool) -> int:
    """The frozen prompt against one rendered now, as a unified diff; nothing if they are the same."""
    with _opened(place, id, declared) as (sessions, session):
        value = blocks.value(sessions, session.id, PROMPT_LABEL)
        if value is None or value.content is None:
            raise Failure(f"session {escape.name(session.id)} has no frozen prompt; `plait prompt freeze` makes one")
        frozen, now = value.content, session.freeze_system_prompt()
    screen = Screen(sys.stdout)
    lines = list(_diff(frozen, now))
    if json:
        found = {"changed": frozen != now, "frozen": frozen, "now": now, "diff": lines}
        screen.json(jsontext.encode(found))
        return failure.OK
    for line in lines:
        screen.line((escape.printable(line), {"+": "user", "-": "error", "@": "call"}.get(line[:1], "")))
    if lines:
        _tell_undeclared(declared)
    return failure.OK


def _print_kept(id: str, prompt: str, declared: Declared, json: bool) -> None:
    _print("prompt", prompt, json)
    if not prompt:
        failure.note(f"the frozen prompt is empty: {_empty(id, declared)}")


def _empty(id: str, declared: Declared) -> str:
    """Why a prompt has nothing in it."""
    if declared.names_any:
        return "the named blocks hold nothing to render"
    return f"session {escape.name(id)} has no blocks; `plait context set` writes one"


def _tell_undeclared(declared: Declared) -> None:
    """The database does not know what the program says of its blocks: a difference may be only that."""
    if not declared.names_any:
        failure.note(
            "rendered from what is stored, without what your program says of its blocks;"
            " --function MODULE:NAME or --block LABEL=ABOUT says it"
        )


def _diff(frozen: str, now: str) -> Iterator[str]:
    # Split at newlines only: other separators are content, which a line must not hide.
    return difflib.unified_diff(frozen.split("\n"), now.split("\n"), "frozen", "now", lineterm="")


@contextmanager
def _opened(
    place: Place, id: str | None, declared: Declared, *, write: bool = False
) -> Generator[tuple[plait.Sessions, plait.Session]]:
    declared.check()
    with place.opened(write=write) as sessions:
        session = sessions.session(find(sessions, place, id).id)
        if declared.names_any:
            declared.onto(session)
        else:
            _stored_onto(sessions, session)
        yield sessions, session


def _stored_onto(sessions: plait.Sessions, session: plait.Session) -> None:
    """Declare the texts that the store holds: the session's own, then the shared ones of other labels."""
    own = blocks.texts_of(sessions, session.id)
    shared = [label for label in blocks.texts_of(sessions, ids.SHARED_SESSION) if label not in own]
    for labels, is_shared in ((own, False), (shared, True)):
        for label in labels:
            session.with_context(label, shared=is_shared)


def _print(name: str, prompt: str, json: bool) -> None:
    screen = Screen(sys.stdout)
    if json:
        screen.json(jsontext.encode({name: prompt, "bytes": len(prompt.encode("utf-8", "surrogatepass"))}))
    elif screen.is_terminal:
        shown = escape.printable(prompt).rstrip("\n")
        screen.text((shown if screen.unicode else shown.replace("═", "=")) + "\n")
    else:
        screen.text(prompt)
