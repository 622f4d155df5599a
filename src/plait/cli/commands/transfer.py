"""`plait import` and `plait export`: transcripts in and out."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, cast

import plait
from plait import interchange, jsontext
from plait.cli import escape, failure
from plait.cli.failure import Failure
from plait.cli.place import Place, find, find_message, given_text
from plait.cli.progress import Tick, progress
from plait.cli.screen import Screen
from plait.cli.sketch import count
from plait.model import Parent

_FORMATS = ("jsonl", "markdown")


@dataclass(frozen=True, slots=True)
class Export:
    """What `export` is asked for."""

    format: str = "jsonl"
    output: str | None = None
    after: int | None = None
    leaf: str | None = None
    force: bool = False


def import_files(place: Place, files: Sequence[str], format: str | None, session: str | None, json: bool) -> int:
    """Import each file; one that cannot be read does not keep the others out."""
    screen = Screen(sys.stdout)
    codes: set[int] = set()
    with place.opened(write=True, create=True) as sessions:
        for file in files:
            try:
                with progress(f"importing {escape.name(os.path.basename(given_text(file)))}", total=1) as tick:
                    reports = interchange.import_file(sessions, file, format=format, session_id=session, progress=tick)
            except plait.UsageError as error:
                _note(str(error))
                codes.add(failure.REFUSED)
                continue
            for report in reports:
                codes.add(_tell(report, file, screen, json))
    return next((code for code in (failure.REFUSED, failure.DAMAGED) if code in codes), failure.OK)


def _tell(report: interchange.ImportReport, file: str, screen: Screen, json: bool) -> int:
    """What became of one session: on stdout how much, on stderr what could not be placed."""
    problems = report.report.problems
    for problem in problems:
        snippet = f": {problem.snippet}" if problem.snippet else ""
        where = f"{file}:{problem.line}" if problem.line else file
        _note(f"{where}: {problem.reason}{snippet}")
    if report.report.count > len(problems):
        _note(f"{file}: {count(report.report.count - len(problems))} more problems are not shown")
    if json:
        screen.json(jsontext.encode(_view(report, file)))
    else:
        named = f" ({escape.one_line(report.name, 60)})" if report.name else ""
        lost = f", {count(report.report.lost)} lost" if report.report.lost else ""
        held = (
            f"{count(report.messages)} messages, {count(_inserted(report))} new{lost}"
            if report.messages
            else f"nothing{lost}"
        )
        what = f"{held}, {report.format}, {escape.name(os.path.basename(given_text(file)))}"
        screen.line((escape.name(report.session_id), "bold"), f"{named}  ", (what, "dim"))
    return failure.DAMAGED if report.report.lost else failure.OK


def _view(report: interchange.ImportReport, file: str) -> dict[str, object]:
    return {
        "file": given_text(file),
        "session_id": report.session_id,
        "name": report.name,
        "format": report.format,
        "messages": report.messages,
        "inserted": _inserted(report),
        "lost": report.report.lost,
        "problems": [
            {"line": one.line, "reason": one.reason, "snippet": one.snippet, "lost": one.lost}
            for one in report.report.problems
        ],
    }


def _inserted(report: interchange.ImportReport) -> int:
    result: plait.Imported | None = report.result
    return 0 if result is None else result.inserted


def _note(text: str) -> None:
    sys.stderr.write(f"plait: {escape.one_line(given_text(text), 2000)}\n")


def export(place: Place, id: str | None, wanted: Export) -> int:
    """Write the session; the exit code says whether a damaged message was met."""
    if wanted.format not in _FORMATS:
        raise Failure(f"--format must be one of {', '.join(_FORMATS)}, not {escape.name(wanted.format)}", failure.USAGE)
    with place.opened() as sessions:
        info = find(sessions, place, id)
        session = sessions.session(info.id)
        leaf = None if wanted.leaf is None else find_message(session, wanted.leaf)
        printed = wanted.output is None
        bar = progress("exporting", total=info.totals.messages, beside_output=printed)
        with _output(wanted) as file, bar as tick:
            source = _Source(session, leaf, wanted.after, tick)
            if wanted.format == "markdown":
                exported = interchange.write_markdown(source, file, leaf=plait.LEAF if leaf is None else leaf)
            else:
                exported = interchange.write_jsonl(source, file, after_seq=wanted.after)
    for damaged in exported.damaged:
        _note(f"message #{damaged.seq} is damaged and was left out: {damaged.reason}")
    for value in exported.damaged_values:
        named = f"value {value.key!r} of {value.label!r}" if value.key else f"value {value.label!r}"
        _note(f"{named}, version {value.version}, is damaged: what can be read of it was written")
    if wanted.output is not None:
        _note(
            f"{count(exported.messages)} messages up to seq {exported.last_seq} in {escape.name(given_text(wanted.output))}"
        )
    return failure.DAMAGED if exported.damaged or exported.damaged_values else failure.OK


class _Source:
    """A session as the exporters read it: all of it or one path, from a seq on, counted as it is read."""

    def __init__(self, session: plait.Session, leaf: str | None, after: int | None, tick: Tick) -> None:
        self._session = session
        self._leaf = leaf
        self._after = after
        self._tick = tick
        self.id = session.id
        self.info = session.info
        self.state = session.state
        self.overlays = session.overlays
        self.value_versions = session.value_versions
        self.records = session.records

    def leaf(self) -> plait.Message | plait.Damaged | None:
        return self._session.leaf() if self._leaf is None else self._session.get(self._leaf)

    def everything(self, *, after_seq: int | None = None) -> Iterator[plait.Message | plait.Damaged]:
        if self._leaf is None:
            return self._counted(self._session.everything(after_seq=after_seq))
        return self._counted(self._session.transcript(self._leaf, after_seq=after_seq))

    def transcript(self, leaf: Parent = plait.LEAF) -> Iterator[plait.Message | plait.Damaged]:
        return self._counted(self._session.transcript(leaf, after_seq=self._after))

    def _counted(self, entries: Iterator[plait.Message | plait.Damaged]) -> Iterator[plait.Message | plait.Damaged]:
        for number, entry in enumerate(entries, 1):
            yield entry
            self._tick(number)


def _output(wanted: Export) -> AbstractContextManager[IO[bytes]]:
    if wanted.output is None:
        return nullcontext(_stdout(json=wanted.format == "jsonl"))
    if not os.path.lexists(wanted.output):
        return interchange.whole_file(wanted.output)
    if wanted.after is not None:
        return _continued(wanted.output)
    if wanted.force:
        return interchange.whole_file(wanted.output)
    raise Failure(f"{escape.name(given_text(wanted.output))} exists; --force replaces it, --after SEQ continues it")


@contextmanager
def _continued(path: str) -> Generator[IO[bytes]]:
    """The end of a file that is to be added to; it is as it was if that fails."""
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(end)
            raise


def _stdout(*, json: bool) -> IO[bytes]:
    """Stdout for a file's content: UTF-8 as it is, but escapes on a terminal or where told that it is not UTF-8."""
    screen = Screen(sys.stdout)
    told = os.environ.get("PYTHONIOENCODING")
    if screen.is_terminal or (told and not screen.utf8):
        return cast("IO[bytes]", _Shown(screen, json=json))
    sys.stdout.flush()
    return sys.stdout.buffer


class _Shown(io.RawIOBase):
    """Takes a file's content piece by piece and shows it so that nothing in it acts on a terminal."""

    def __init__(self, screen: Screen, *, json: bool) -> None:
        self._screen = screen
        self._json = json

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        text = data.decode()
        if self._json:
            self._screen.json(text.removesuffix("\n"))
        else:
            self._screen.text(escape.printable(text))
        return len(data)
