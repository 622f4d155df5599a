"""`plait watch`: what happens in a session or a scope, as it happens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import plait
from plait import jsontext
from plait.cli import escape, failure, views
from plait.cli.failure import USAGE, Failure
from plait.cli.place import Place, find
from plait.cli.render import Look
from plait.cli.screen import Screen, Span, fit

_TEXT_CHARS = 200


@dataclass(frozen=True, slots=True)
class Watch:
    """What `watch` is asked for; `after` is a cursor, `None` means from now on."""

    after: str | None = None
    from_start: bool = False
    follow: bool = True
    json: bool = False


def watch(place: Place, id: str | None, wanted: Watch) -> int:
    """Print changes until interrupted, or those there are."""
    screen = Screen(sys.stdout)
    look = Look(width=screen.width, unicode=screen.unicode)
    with place.opened() as sessions:
        feed = sessions if id is None else sessions.session(find(sessions, place, id).id)
        after = wanted.after if wanted.after is not None or wanted.from_start else feed.cursor()
        for change in _changes(feed, after, follow=wanted.follow):
            if wanted.json:
                screen.json(_value(change))
            else:
                _line(change, screen, look, named=id is None)
            screen.flush()
    return failure.OK


def _changes(feed: plait.Session | plait.Sessions, after: str | None, *, follow: bool) -> Iterator[plait.Change]:
    """What happens after a cursor; one that this feed refuses is a wrong option."""
    try:
        yield from feed.watch(after=after) if follow else _so_far(feed, after)
    except plait.CursorExpiredError:
        raise
    except plait.UsageError as error:
        raise Failure(f"--after: {error} (`plait watch --json` prints them)", USAGE) from None


def _so_far(feed: plait.Session | plait.Sessions, after: str | None) -> Iterator[plait.Change]:
    """The changes there are after a cursor, page by page."""
    more = True
    while more:
        page = feed.changes(after=after)
        yield from page.changes
        after, more = page.cursor, page.more


def _value(change: plait.Change) -> str:
    """A change for programs; its message is the stored one, to the letter."""
    head = {
        "session": change.session_id,
        "version": change.version,
        "kind": change.kind,
        "ids": list(change.ids),
        "at": None if change.at is None else views.time(change.at),
        "leaf": change.leaf_id if change.leaf_moved else None,
        "leaf_moved": change.leaf_moved,
        "overlay": None if change.overlay is None else views.overlay(change.overlay),
        "removed": change.removed,
        "label": change.label,
        "key": change.key,
        "value_version": change.value_version,
        "cursor": change.cursor,
    }
    entry = change.message or change.damaged
    return f'{jsontext.encode(head)[:-1]},"message":{"null" if entry is None else views.message(entry)}}}'


def _line(change: plait.Change, screen: Screen, look: Look, *, named: bool) -> None:
    at = f"{change.at:%H:%M:%S} " if change.at is not None else ""
    spans: list[Span] = [(at, "dim")]
    if named:
        spans.append((f"{escape.name(change.session_id)} ", "bold"))
    spans.append((f"{change.kind} ", "active" if change.message is None else ""))
    used = sum(len(text) for text, _ in spans)
    if change.message is not None:
        role = escape.one_line(change.message.role, 20)
        spans.append((f"{role} ", role if role in ("user", "assistant", "system", "tool") else "bold"))
        used += len(role) + 1
    rest = None if screen.width is None else max(screen.width - used, 10)
    spans.append((fit(_told(change), rest, more=look.more), ""))
    screen.flow(*spans)


def _told(change: plait.Change) -> str:
    if change.message is not None:
        return escape.one_line(change.message.text, _TEXT_CHARS) or f"#{change.message.seq}"
    if change.damaged is not None:
        return f"#{change.damaged.seq} is damaged: {escape.one_line(change.damaged.reason, _TEXT_CHARS)}"
    if change.overlay is not None:
        return _overlay(change.overlay)
    if change.label is not None:
        return _written(change.label, change.key or "", change.value_version or 0, removed=change.removed)
    return " ".join([*(escape.name(id) for id in change.ids), *["removed"] * change.removed])


def _written(label: str, key: str, version: int, *, removed: bool) -> str:
    """Which value was written, or deleted, and the version that made."""
    names = [escape.name(label), *([escape.name(key)] if key else [])]
    return " ".join([*names, *["removed"] * removed, f"(version {version})"])


def _overlay(overlay: plait.Overlay) -> str:
    stale = " stale" if overlay.stale else ""
    summary = escape.one_line(overlay.summary or "", _TEXT_CHARS)
    return f"{overlay.kind} of #{overlay.from_seq} to #{overlay.to_seq}{stale} {summary}".rstrip()
