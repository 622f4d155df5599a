"""`plait compact`: summarize the middle of a session with a command or a function of the user's."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import plait
from plait import jsontext
from plait.cli import escape, failure
from plait.cli.failure import Failure
from plait.cli.importing import imported
from plait.cli.place import Place, find
from plait.cli.screen import Screen

KEEP_RECENT_TOKENS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Summarizer:
    """What the user named to summarize with, and how much stays as it is."""

    command: str | None
    function: str | None
    keep_recent_tokens: int


def compact(place: Place, id: str | None, named: Summarizer, *, dry_run: bool, json: bool) -> int:
    """Compact the active path, or say what would be covered; nothing to do is no failure."""
    summarize = _summarizer(named.command, named.function, dry_run)
    screen = Screen(sys.stdout)
    with place.opened(write=not dry_run) as sessions:
        session = sessions.session(find(sessions, place, id).id)
        session.on_compaction(plait.compact_function(summarize, keep_recent_tokens=named.keep_recent_tokens))
        done = session.compact(dry_run=dry_run)
        if json:
            screen.json(jsontext.encode(_json(done)))
        else:
            screen.line(_said(done, dry_run))
    return failure.OK


def _json(done: plait.Compacted) -> dict[str, Any]:
    return {
        "compacted": done.done,
        "overlay": done.overlay.id if done.overlay else None,
        "reason": done.reason,
        "from": done.from_id,
        "to": done.to_id,
        "messages": done.messages,
        "tokens": done.covered_tokens,
        "summary_tokens": done.overlay.tokens if done.overlay else None,
        "calls": done.calls,
    }


def _said(done: plait.Compacted, dry_run: bool) -> str:
    if done.from_id is None or done.to_id is None:
        return f"nothing to compact: {done.reason}"
    covered = f"{done.messages} messages ({done.covered_tokens} tokens) from {escape.name(done.from_id)} to {escape.name(done.to_id)}"
    if dry_run:
        return f"would cover {covered}"
    if done.overlay is None:
        return f"nothing changed: {done.reason}"
    return f"covered {covered} by a summary of {done.overlay.tokens} tokens"


def _summarizer(command: str | None, function: str | None, dry_run: bool) -> Callable[[str], Any]:
    if (command is None) == (function is None):
        if dry_run and command is None:
            return str  # asked nothing
        raise Failure("name what summarizes: either --command CMD, or --function module:name")
    return _by_command(command) if command is not None else imported(function or "")


def _by_command(command: str) -> Callable[[str], str]:
    """A command that is given the prompt on its standard input and prints the summary."""

    def summarize(prompt: str) -> str:
        asked = prompt.encode("utf-8", "replace")
        ran = subprocess.run(shlex.split(command), input=asked, stdout=subprocess.PIPE, check=False)
        if ran.returncode:
            raise plait.CompactionError(f"the command ended with code {ran.returncode}: {command}")
        return ran.stdout.decode("utf-8", "replace")

    return summarize
