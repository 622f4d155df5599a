"""Opening a file with the reader that fits it, and importing what it holds."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Protocol

from plait.errors import UsageError
from plait.interchange import chatgpt, claude_code, cloudflare, lists, pi, plait_jsonl
from plait.interchange.detect import KNOWN, detect
from plait.interchange.values import Progress, Report, Transcript
from plait.logic.arguments import refuse_async

_READERS: Final[dict[str, Callable[[Path, Progress | None], Iterator[Transcript]]]] = {
    plait_jsonl.NAME: plait_jsonl.read,
    pi.NAME: pi.read,
    claude_code.NAME: claude_code.read,
    chatgpt.NAME: chatgpt.read,
    "openai": partial(lists.read, "openai"),
    "ui": partial(lists.read, "ui"),
    cloudflare.NAME: cloudflare.read,
}


class Importer(Protocol):
    """What an import needs of a store's sessions."""

    def import_transcript(self, transcript: Transcript, /) -> Any:
        """Keep the transcript: all of it or nothing, and nothing twice."""
        ...


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of one session of a file.

    `messages` is how many the file has of it, `result` what the store answered, `report` what
    could not be placed. Of a session of which nothing could be read none is made: `result` is `None`.
    """

    session_id: str
    name: str | None
    format: str
    messages: int
    report: Report
    result: Any


def read(path: str | Path, *, format: str | None = None, progress: Progress | None = None) -> Iterator[Transcript]:
    """The sessions of a file, one after the other; the format is found by content if it is not named.

    `UsageError` if the file cannot be read or is of no known format.
    """
    path = Path(path)
    try:
        reader = _READERS.get(format if format is not None else detect(path))
        if reader is None:
            raise UsageError(f"there is no format {format!r} to import; there are {', '.join(KNOWN)}")
        yield from reader(path, progress)
    except OSError as error:
        raise _unreadable(path, error) from error


def import_file(
    sessions: Importer,
    path: str | Path,
    *,
    format: str | None = None,
    session_id: str | None = None,
    progress: Progress | None = None,
) -> list[ImportReport]:
    """Import every session of a file, each all or not at all; importing again adds only what is new.

    `session_id` names the session to import into, for a file that holds one.
    """
    refuse_async("sessions", sessions, "import_transcript")
    transcripts = read(path, format=format, progress=progress)
    first = list(islice(transcripts, 1 if session_id is None else 2))
    if not first:
        raise UsageError(f"{path} holds no session")
    if len(first) > 1:
        raise UsageError(f"{path} holds several sessions, so {session_id!r} cannot name them all; leave it out")
    if session_id is not None:
        first = [replace(first[0], id=session_id)]
    try:
        return [_imported(sessions, transcript, path) for transcript in chain(first, transcripts)]
    except OSError as error:  # the file went away between its two passes
        raise _unreadable(path, error) from error


def _unreadable(path: str | Path, error: OSError) -> UsageError:
    if isinstance(error, io.UnsupportedOperation):  # it is read twice
        return UsageError(f"{path} is a pipe or a terminal; save what it says in a file, and import that")
    return UsageError(f"{path} cannot be read: {error.strerror or error}")


def _imported(sessions: Importer, transcript: Transcript, path: str | Path) -> ImportReport:
    try:
        result = None if _is_lost(transcript) else sessions.import_transcript(transcript)
    except UsageError as error:
        line = getattr(error, "line", 0)
        told = (
            f"{path}: {error}. Nothing of session {transcript.id!r:.80} was imported; mend the file, or export it anew"
        )
        raise type(error)(told, line=line, path=getattr(error, "path", "")) from error
    return ImportReport(transcript.id, transcript.name, transcript.format, transcript.count, transcript.report, result)


def _is_lost(transcript: Transcript) -> bool:
    """Whether there was something and nothing of it could be read."""
    held = (transcript.count, transcript.overlays, transcript.state, transcript.values, transcript.records)
    return transcript.report.lost > 0 and not any(held)
