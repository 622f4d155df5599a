"""`plait copy`: sessions from one database into another, each whole and compared."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import plait
from plait import jsontext
from plait.cli import escape, failure
from plait.cli.place import Place, find
from plait.cli.progress import Tick, progress
from plait.cli.screen import Screen
from plait.cli.sketch import count


def copy(source: Place, target: Place, ids: Sequence[str], *, whole: bool, json: bool) -> int:
    """Copy the sessions named, or a scope's, or all of every scope; the exit code says whether all is the same."""
    screen = Screen(sys.stdout)
    codes = {failure.OK}
    with source.opened() as origin, target.opened(write=True, create=True, durability="process") as to:
        with progress("copying", total=1) as tick:
            for scope, copied in _copied(origin, to, source, ids, tick, whole=whole):
                to.flush()  # what is told is on disk
                codes.add(_tell(copied, scope, screen, whole=whole, json=json))
    return next((code for code in (failure.REFUSED, failure.DAMAGED) if code in codes), failure.OK)


def _copied(
    origin: plait.Sessions, to: plait.Sessions, source: Place, ids: Sequence[str], tick: Tick, *, whole: bool
) -> Iterator[tuple[tuple[str, str], plait.Copied]]:
    if ids:
        for info in [find(origin, source, id) for id in ids]:
            yield origin.scope, to.copy_from(origin, info.id, progress=tick)
        return
    for scope in origin.scopes() if whole else [origin.scope]:
        for copied in to.scoped(*scope).copy_all_from(origin.scoped(*scope), progress=tick):
            yield scope, copied


def _tell(copied: plait.Copied, scope: tuple[str, str], screen: Screen, *, whole: bool, json: bool) -> int:
    """What became of one session: on stdout how much, on stderr what could not be copied."""
    for reason in copied.lost:
        failure.note(f"{escape.name(copied.session_id)}: {escape.one_line(reason, 2000)}")
    if json:
        view = {"tenant": scope[0], "owner": scope[1], "session_id": copied.session_id, "created": copied.created}
        view |= {"inserted": copied.inserted, "messages": copied.messages, "same": copied.same}
        screen.json(jsontext.encode({**view, "lost": list(copied.lost)}))
    else:
        whose = f" of {escape.name(scope[0])}/{escape.name(scope[1])}" if whole and any(scope) else ""
        state = "" if copied.same else ", not the same as its source"
        what = f"{count(copied.messages)} messages, {count(copied.inserted)} new{state}"
        screen.line((escape.name(copied.session_id), "bold"), f"{whose}  ", (what, "dim"))
    if not copied.same:
        return failure.REFUSED
    return failure.DAMAGED if copied.lost else failure.OK
