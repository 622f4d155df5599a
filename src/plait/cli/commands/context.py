"""`plait context`: the blocks that a session or a scope remembers, read, written, and brought back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import plait
from plait import jsontext
from plait.cli import blocks, escape, failure, views
from plait.cli.failure import USAGE, Failure
from plait.cli.place import Place, find
from plait.cli.render import Look, when
from plait.cli.screen import Screen, Span, fit
from plait.cli.sketch import count, size
from plait.logic import ids
from plait.logic.blocks import BlockKind
from plait.model import Json

_PREVIEW: Final = 60


@dataclass(frozen=True, slots=True)
class Target:
    """Whose context: a session's (without an id the latest one's), or what a scope's sessions share."""

    session: str | None = None
    shared: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What is to be written: text, or a file that holds it (`-`: standard input), and under which conditions."""

    text: str | None = None
    file: str | None = None
    key: str | None = None
    description: str | None = None
    max_tokens: int | None = None
    expect: int | None = None


def list_(place: Place, target: Target, *, deleted: bool) -> int:
    """Every block and entry, in order of label and key."""
    with _opened(place, target) as (sessions, session):
        id, any_found = _id(session, target), False
        for label, key in blocks.stored(sessions, id, deleted=deleted):
            _line(_newest(sessions, id, label, key), target)
            any_found = True
        if not any_found and not target.json:
            failure.note(f"no blocks in {blocks.where(session.id, shared=target.shared)}; {_elsewhere(target)}")
    return failure.OK


def show(place: Place, target: Target, label: str, *, key: str | None, version: int | None) -> int:
    """The text of a block or entry, exactly as it is where the output is no terminal."""
    with _opened(place, target) as (sessions, session):
        context = _declared(session, target, label, key)
        before = None if version is None else version + 1
        found = context.history(label, key=key or "", before=before, limit=1)
        if not found or (version is not None and found[0].version != version) or found[0].content is None:
            _check_kind(sessions, session, target, label, key)
            raise Failure(_absent(session, target, label, key, version))
        _show(found[0], target)
    return failure.OK


def set_(place: Place, target: Target, label: str, written: Written) -> int:
    """Write a block, or an entry under a key."""
    if written.key is not None and (written.expect is not None or written.max_tokens is not None):
        raise Failure("--expect and --max-tokens are for blocks, not for entries under a --key", USAGE)
    if written.key is None and written.description is not None:
        raise Failure("--description is for an entry, under a --key; a program declares what its blocks are for", USAGE)
    content = _content(written)

    def write(context: plait.Context) -> None:
        if written.key is None:
            _replace(context, label, content, written.expect)
        else:
            context.put(label, content, key=written.key, description=written.description)

    return _write(place, target, label, written, write)


def _replace(context: plait.Context, label: str, content: str, expect: int | None) -> None:
    try:
        context.replace(label, content, expect_version=expect)
    except plait.StaleValueError as error:
        there = error.current.version if error.current is not None else None
        if expect is None or there is None or expect < there:
            raise
        is_at = "was never written" if there == 0 else f"is at version {there}"
        raise Failure(
            f"block {escape.name(label)} {is_at}: there is no version {expect} yet; nothing was written"
        ) from None


def append(place: Place, target: Target, label: str, written: Written) -> int:
    """Add to a block, on a line of its own."""
    content = _content(written)
    return _write(place, target, label, written, lambda context: context.append(label, content))


def restore(place: Place, target: Target, label: str, version: int, *, key: str | None) -> int:
    """Write what a version said once more."""
    return _write(
        place, target, label, Written(key=key), lambda context: context.restore(label, version, key=key or "")
    )


def history(place: Place, target: Target, label: str, *, key: str | None, limit: int) -> int:
    """The versions that are kept, newest first."""
    with _opened(place, target) as (sessions, session):
        # One more than is shown: what the oldest one changed.
        found = _declared(session, target, label, key).history(label, key=key or "", limit=limit + 1)
        if not found:
            _check_kind(sessions, session, target, label, key)
            raise Failure(_absent(session, target, label, key, None))
        for value, before in zip_longest(found[:limit], found[1:]):
            _line(value, target, _change(value, before))
    return failure.OK


# -- whose ----------------------------------------------------------------------


@contextmanager
def _opened(place: Place, target: Target, *, write: bool = False) -> Generator[tuple[plait.Sessions, plait.Session]]:
    blocks.one_kind(target.shared, target.session is not None)
    if write and not target.shared and target.session is None:
        raise Failure("say whose: --session ID, or --shared for what all sessions of the scope share", USAGE)
    with place.opened(write=write, create=write and target.shared) as sessions:
        # With `shared` the session says nothing: the scope's values are the same whoever asks.
        yield sessions, sessions.session(None if target.shared else find(sessions, place, target.session).id)


def _declared(
    session: plait.Session, target: Target, label: str, key: str | None, max_tokens: int | None = None
) -> plait.Context:
    kind: BlockKind = "text" if key is None else "documents"
    return session.with_context(label, kind=kind, shared=target.shared, max_tokens=max_tokens).context


def _id(session: plait.Session, target: Target) -> str:
    return ids.SHARED_SESSION if target.shared else session.id


def _newest(sessions: plait.Sessions, id: str, label: str, key: str) -> plait.Value:
    """The newest version, also one that says the value was deleted."""
    handle = sessions.session(None if id == ids.SHARED_SESSION else id)
    handle.with_context(label, kind="documents" if key else "text", shared=id == ids.SHARED_SESSION)
    (found,) = handle.context.history(label, key=key, limit=1)
    return found


def _absent(session: plait.Session, target: Target, label: str, key: str | None, version: int | None) -> str:
    what = f"block {escape.name(label)}" + (f", key {escape.name(key)}" if key is not None else "")
    what += "" if version is None else f", version {version}"
    return f"there is no {what} in {blocks.where(session.id, shared=target.shared)}; {_listing(session, target)}"


def _listing(session: plait.Session, target: Target) -> str:
    """The command that lists what is there, of the same target, and how to name another."""
    whose = "--shared" if target.shared else f"--session {escape.name(session.id)}"
    return f"`plait context list {whose}` lists those there are, {_elsewhere(target)}"


def _elsewhere(target: Target) -> str:
    if target.shared:
        return "--session ID looks at a session's own"
    return "--session ID looks at another session's, --shared at those that all share"


def _check_kind(sessions: plait.Sessions, session: plait.Session, target: Target, label: str, key: str | None) -> None:
    """Refuse one text where there are entries under keys, and the other way around: no program would show it."""
    id = _id(session, target)
    if key is None:
        found = next(blocks.keys_of(sessions, id, label), None)
        if found is not None and blocks.value(sessions, id, label) is None:
            raise Failure(
                f"block {escape.name(label)} holds entries under keys, such as {escape.name(found)}; name one with --key KEY"
            )
    elif blocks.value(sessions, id, label) is not None and next(blocks.keys_of(sessions, id, label), None) is None:
        raise Failure(f"block {escape.name(label)} is one text, without keys; leave --key out")


# -- writing --------------------------------------------------------------------


def _content(written: Written) -> str:
    if (written.text is None) == (written.file is None):
        raise Failure("give the text, or --file FILE (- is standard input)", USAGE)
    if written.text is not None:
        return written.text
    if written.file == "-":
        return _decoded(sys.stdin.buffer.read())
    with open(written.file or "", "rb") as file:
        return _decoded(file.read())


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Failure(f"the text must be UTF-8: {error.reason} at byte {error.start}") from None


def _write(
    place: Place, target: Target, label: str, written: Written, change: Callable[[plait.Context], object]
) -> int:
    with _opened(place, target, write=True) as (sessions, session):
        context = _declared(session, target, label, written.key, written.max_tokens)
        _check_kind(sessions, session, target, label, written.key)
        change(context)
        (value,) = context.history(label, key=written.key or "", limit=1)
        screen = Screen(sys.stdout)
        if target.json:
            screen.json(_json(value))
        else:
            named = escape.name(label) + (f", key {escape.name(written.key)}" if written.key is not None else "")
            screen.line(f"{named} is at version {value.version}, {count(value.tokens)} tokens")
    return failure.OK


# -- printing -------------------------------------------------------------------


def _json(value: plait.Value) -> str:
    shown: Json = {
        "label": value.label,
        "key": value.key,
        "version": value.version,
        "content": value.content,
        "description": value.description,
        "tokens": value.tokens,
        "written_at": views.time(value.written_at),
        "metadata": dict(value.metadata),
    }
    return jsontext.encode(shown)


def _show(value: plait.Value, target: Target) -> None:
    screen = Screen(sys.stdout)
    if target.json:
        screen.json(_json(value))
    elif screen.is_terminal:
        screen.text(escape.printable(value.content or "").rstrip("\n") + "\n")
    else:
        screen.text(value.content or "")


def _change(value: plait.Value, before: plait.Value | None) -> str:
    """What a version has that the one before has not: its end after an append, else from the first difference on."""
    new, old = value.content or "", (before.content or "") if before is not None else ""
    if not old or new == old:
        return value.description or new
    same = _alike(old, new)
    if same == len(old):
        return f"+ {new[same:].strip()}"
    if same == len(new):
        return f"- {old[same:].strip()}"
    word = max(new.rfind(" ", 0, same), new.rfind("\n", 0, same)) + 1  # the one in which they part
    start = max(word, same - _PREVIEW // 2)
    return ("… " if start else "") + new[start:]


def _alike(old: str, new: str) -> int:
    """How many characters two texts begin with alike."""
    lo, hi = 0, min(len(old), len(new))
    while lo < hi:
        middle = (lo + hi + 1) // 2
        lo, hi = (middle, hi) if new.startswith(old[lo:middle], lo) else (lo, middle - 1)
    return lo


def _line(value: plait.Value, target: Target, shown: str | None = None) -> None:
    screen = Screen(sys.stdout)
    if target.json:
        screen.json(_json(value))
        return
    look = Look(width=screen.width, unicode=screen.unicode)
    facts = [f"version {value.version}", when(value.written_at, look)]
    if value.content is None:
        facts.append("deleted")
    else:
        facts += [f"{count(value.tokens)} tokens", size(len(value.content.encode("utf-8", "surrogatepass")))]
    named: list[Span] = [(escape.name(value.label), "bold")]
    if value.key:
        named += [(" / ", "dim"), (escape.name(value.key), "bold")]
    screen.flow(*named, "  ", (look.dot.join(facts), "dim"))
    text = (value.description or value.content or "") if shown is None else shown
    preview = fit(escape.one_line(text, look.width or _PREVIEW, more=look.more), look.width and look.width - 2)
    if preview:
        screen.line("  ", (preview if screen.unicode else preview.replace("…", look.more), ""))
