"""`plait doctor`, `backup`, `vacuum` and `rm`: looking after a database."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from plait import jsontext
from plait.cli import escape, failure
from plait.cli.place import Place, find, given_text
from plait.cli.progress import progress
from plait.cli.screen import Screen
from plait.cli.sketch import count, size


def doctor(place: Place, *, fix: bool, json: bool) -> int:
    """Check the database; the exit code says whether something is wrong that was not mended."""
    screen = Screen(sys.stdout)
    with place.opened(write=fix) as sessions, progress("checking"):
        findings = sessions.doctor(fix=fix)
    for finding in findings:
        if json:
            view = {"kind": finding.kind, "detail": finding.detail, "fixed": finding.fixed}
            screen.json(jsontext.encode(view))
        else:
            state = ("mended", "user") if finding.fixed else ("damaged", "error")
            screen.line(state, "  ", (finding.kind, "bold"), "  ", escape.one_line(finding.detail, 2000))
    left = sum(not finding.fixed for finding in findings)
    if not json:
        screen.line(_verdict(place, len(findings), left, fix=fix))
    return failure.DAMAGED if left else failure.OK


def _verdict(place: Place, found: int, left: int, *, fix: bool) -> str:
    if not found:
        return f"{place.shown}: all is well"
    if not left:
        return f"{place.shown}: {count(found)} found, all mended"
    remedy = "restore what is left from a backup or export" if fix else "plait doctor --fix mends what can be mended"
    return f"{place.shown}: {count(left)} of {count(found)} not mended; {remedy}"


def backup(place: Place, path: str) -> int:
    """Copy the database to a file that does not exist yet."""
    if os.path.lexists(path):
        raise failure.Failure(f"{escape.name(given_text(path))} exists; name a new file")
    with place.opened() as sessions, progress("copying"):
        sessions.backup(path)
    sys.stderr.write(
        f"plait: {place.shown} is copied to {escape.name(given_text(path))}, {size(os.stat(path).st_size)}\n"
    )
    return failure.OK


def vacuum(place: Place, *, purge: bool) -> int:
    """Shrink the file to what it holds."""
    before = _file_size(place)
    with place.opened(write=True) as sessions, progress("purging" if purge else "shrinking"):
        sessions.vacuum(purge=purge)
    after = _file_size(place)
    if before is not None and after is not None:
        sys.stderr.write(f"plait: {place.shown} was {size(before)} and is {size(after)}\n")
    return failure.OK


def rm(place: Place, ids: Sequence[str], *, ask: bool) -> int:
    """Delete sessions, each found before any is deleted."""
    with place.opened(write=True) as sessions:
        found = {info.id: info for info in (find(sessions, place, id) for id in ids)}
        messages = sum(info.totals.messages for info in found.values())
        what = f"{escape.name(next(iter(found)))}" if len(found) == 1 else f"{count(len(found))} sessions"
        if ask and not _confirmed(f"delete {what} with {count(messages)} messages for good?"):
            raise failure.Failure("nothing was deleted")
        with progress("deleting", total=len(found)) as tick:
            for number, id in enumerate(found, 1):
                sessions.delete(id)
                tick(number)
    failure.note(f"{what} with {count(messages)} messages deleted")
    return failure.OK


def _confirmed(question: str) -> bool:
    """Ask where somebody can answer; a script is taken at its word."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    sys.stderr.write(f"plait: {question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _file_size(place: Place) -> int | None:
    try:
        return sum(
            os.stat(place.db + end).st_size for end in ("", "-wal") if end == "" or os.path.exists(place.db + end)
        )
    except OSError:
        return None
