"""Reading plait's own JSON lines, where damage is an error and not something to work around."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

from plait.errors import UsageError
from plait.interchange import lines
from plait.interchange.common import Ticker, is_legal_id, moment
from plait.interchange.index import Index
from plait.interchange.values import ImportEntry, Progress, Report, Transcript
from plait.logic.ids import check_id
from plait.model import Json

NAME = "plait"
VERSION = 1


def read(path: Path, progress: Progress | None = None) -> Iterator[Transcript]:
    """Each session of the file, checked whole before the first entry of it is given out.

    `UsageError` with a `line` for a file that is cut off, damaged or of a newer version.
    """
    ticker = Ticker(progress, 2 * path.stat().st_size)
    at = line = 0
    while True:
        block = _Block(path, line)
        with path.open("rb") as file:
            file.seek(at)
            if not block.read(file, ticker):
                return
        at, line = block.at, block.line
        yield block.transcript(ticker)


class _Block:
    """One session's lines, from its header to its end line."""

    def __init__(self, path: Path, line: int) -> None:
        self.at = 0
        self.line = line
        self._path = path
        self._first = line
        self._index = Index()
        self._report = Report()
        self._header: Json = {}
        self._end: Json = {}

    def read(self, file: IO[bytes], ticker: Ticker) -> bool:
        """Find the places of all messages; false if there is no further session."""
        for value, at, size in self._lines(file):
            ticker.at(max(ticker.done, at + size))
            if not self._header:
                self._begin(value)
            elif value.get("type") == "end":
                self._end, self.at = value, at + size
                self._finish()
                return True
            else:
                self._place(value, at, size)
        if self._header:
            self._fail(f"the file ends without an end line: it was cut off after {len(self._index)} messages")
        if not self._first:
            self._fail("the file is empty")
        return False

    def transcript(self, ticker: Ticker) -> Transcript:
        header, leaf = self._header, self._end.get("leaf")
        return Transcript(
            id=str(header["id"]),
            format=NAME,
            entries=self._entries(ticker),
            report=self._report,
            name=header.get("name"),
            owner=header.get("owner"),
            metadata=header.get("metadata") or {},
            state=header.get("state") or {},
            pinned=header.get("pinned") is True,
            created_at=moment(header.get("createdAt")),
            leaf=leaf if isinstance(leaf, str) and self._knows(leaf) else None,
            count=len(self._index),
            after_seq=self._after_seq,
        )

    @property
    def _after_seq(self) -> int:
        after = self._header.get("afterSeq")
        return after if isinstance(after, int) else 0

    def _lines(self, file: IO[bytes]) -> Iterator[tuple[Json, int, int]]:
        report = Report()
        offset = self._first
        for record in lines.records(file, report, lambda _: False):
            self.line = offset + record.line
            if report.count or record.value is None:
                break
            yield record.value, record.at, record.size
        if report.count:
            problem = report.problems[0]
            self.line = offset + problem.line
            self._fail(f"{problem.reason}: {problem.snippet}")

    def _begin(self, value: Json) -> None:
        version = value.get("plait")
        if value.get("type") != "session" or not isinstance(version, int):
            self._fail("is not the header of a session")
        if version > VERSION:
            self._fail(f"is of format version {version}; this plait reads up to {VERSION}: use a newer one")
        check_id(value.get("id"), f"{self._path}: line {self.line}: the session's id")
        self._header = value

    def _place(self, value: Json, at: int, size: int) -> None:
        id, parent, seq = value.get("id"), value.get("parent"), value.get("seq")
        damaged = value.get("type") == "damaged"
        if not damaged and (value.get("type") != "message" or not isinstance(value.get("message"), dict)):
            self._fail("is neither a message nor the end line")
        if not isinstance(id, str) or not is_legal_id(id) or not isinstance(seq, int) or seq < 1:
            self._fail("does not say the message's id and seq")
        if not isinstance(parent, str | None):
            self._fail("does not say the message's parent")
        if not self._index.add(id, parent, line=self.line, at=at, size=size, rank=seq, hidden=damaged):
            self._fail(f"has the id {id!r:.80} of an earlier line")
        if damaged:
            self._report.add(
                self.line, f"the message was damaged when it was exported: {value.get('reason')}", lost=True
            )

    def _finish(self) -> None:
        count = self._end.get("count")
        if count != len(self._index):
            self._fail(f"the end line counts {count} messages, but {len(self._index)} are there")
        if self._index.ranks_repeat():
            self._fail("two messages have the same seq")
        self._index.arrange(self._misplaced, continues=self._after_seq > 0)

    def _knows(self, leaf: str) -> bool:
        if self._index.visible(leaf) == leaf or self._after_seq:
            return True
        self._report.add(self.line, f"the active leaf {leaf!r:.80} is not in the file; the last message is taken")
        return False

    def _misplaced(self, line: int, reason: str) -> None:
        self.line = line
        self._fail(reason.removesuffix("; kept as a root"))

    def _fail(self, reason: str) -> NoReturn:
        raise UsageError(
            f"{self._path}: line {self.line}: {reason}. Nothing was imported from here on; export the session again",
            line=self.line,
        )

    def _entries(self, ticker: Ticker) -> Iterator[ImportEntry]:
        start, done = max(ticker.done, ticker.total // 2), 0
        with self._path.open("rb") as file:
            for slot in self._index.slots():
                file.seek(slot.at)
                value = lines.decode(file.read(slot.size))
                at, format = moment(value.get("createdAt")), value.get("format")
                yield ImportEntry(slot.id, slot.parent, value["message"], format, at, slot.line)
                done += slot.size
                ticker.at(min(start + done, ticker.total))
