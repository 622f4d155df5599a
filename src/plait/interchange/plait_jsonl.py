"""Reading plait's own JSON lines, where damage is an error and not something to work around."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, NoReturn, TypeAlias, get_args

from plait.errors import UsageError
from plait.formats import formats
from plait.interchange import lines
from plait.interchange.common import Ticker, is_legal_id, moment
from plait.interchange.index import Index
from plait.interchange.values import ImportEntry, ImportOverlay, ImportValue, Progress, Report, Transcript
from plait.logic.arguments import shown
from plait.logic.ids import MAX_RECORD_KEY_BYTES, can_be_stored
from plait.logic.shape import is_object
from plait.logic.strands import MAX_SEQ
from plait.logic.values import unpacked
from plait.model import Json, OverlayKind

NAME = "plait"
KINDS: Final = get_args(OverlayKind)
VERSION = 4
"""With records; a session without any is written as version 3, one without named values either as 2, and without overlays as 1."""

MAX_LINE = 4 << 30
"""A line is a message, which may be of any size; beyond this many bytes the file is no export."""


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


class _Field(NamedTuple):
    """What a field of a line must be: in words, and as a test of a value that is there."""

    rule: str
    fits: Callable[[Any], bool]
    optional: bool = False


Fields: TypeAlias = Mapping[str, _Field]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and can_be_stored(value)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and is_legal_id(value)


def _is_key(value: object) -> bool:
    return value == "" or _is_id(value)


def _is_version(value: object) -> bool:
    return type(value) is int and value > 0


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_base64(value: object) -> bool:
    try:
        base64.b64decode(str(value), validate=True)
    except ValueError:
        return False
    return isinstance(value, str)


def _is_record_key(value: object) -> bool:
    return _is_base64(value) and 0 < len(base64.b64decode(str(value))) <= MAX_RECORD_KEY_BYTES


def _is_place(value: object) -> bool:
    return type(value) is int and 1 <= value <= MAX_SEQ


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_SEQ


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_time(value: object) -> bool:
    return isinstance(value, str) and moment(value) is not None


def _is_kind(value: object) -> bool:
    return value in KINDS


def _is_known(value: object) -> bool:
    return isinstance(value, str) and any(value == format.name for format in formats())


_TEXT = _Field("a string without half characters, or null", _is_text, optional=True)
_TIME = _Field("a time such as 2026-10-03T09:00:00.000000Z, or null", _is_time, optional=True)
_OBJECT = _Field("an object, or null", is_object, optional=True)
_ID = _Field("the id of a message: a string of 1 to 512 bytes with something to see in it", _is_id)
_SEQ = _Field(f"a whole number from 1 to {MAX_SEQ}", _is_place)
_COUNT = _Field(f"a whole number from 0 to {MAX_SEQ}", _is_count)
_PARENT = _Field("the id of the message before, or null", _is_id, optional=True)

HEADER: Final[Fields] = {
    "id": _Field("the session's id: a string of 1 to 512 bytes with something to see in it", _is_id),
    "name": _TEXT,
    "owner": _TEXT,
    "parentId": _TEXT,
    "pinned": _Field("true or false", _is_flag, optional=True),
    "createdAt": _TIME,
    "activeAt": _TIME,
    "metadata": _OBJECT,
    "state": _OBJECT,
    "afterSeq": _COUNT._replace(optional=True),
}
MESSAGE: Final[Fields] = {
    "id": _ID,
    "parent": _PARENT,
    "seq": _SEQ,
    "createdAt": _TIME,
    "format": _Field("the name of a format that this plait knows, or null", _is_known, optional=True),
    "message": _Field("an object", is_object),
}
DAMAGED: Final[Fields] = {
    "id": _ID,
    "parent": _PARENT,
    "seq": _SEQ,
    "role": _TEXT,
    "reason": _TEXT,
}
OVERLAY: Final[Fields] = {
    "id": _Field("the overlay's id: a string of 1 to 512 bytes with something to see in it", _is_id),
    "kind": _Field(f"one of {', '.join(KINDS)}", _is_kind),
    "from": _ID,
    "to": _ID,
    "createdAt": _TIME,
    "tokens": _COUNT._replace(optional=True),
    "summary": _TEXT,
    "stale": _Field("true or false", _is_flag, optional=True),
}
VALUE: Final[Fields] = {
    "label": _Field("the value's label: a string of 1 to 512 bytes with something to see in it", _is_id),
    "key": _Field("the value's key: such a string too, or an empty one", _is_key),
    "version": _Field("a whole number from 1 on", _is_version),
    "writtenAt": _TIME,
    "tokens": _COUNT._replace(optional=True),
    "description": _Field("a string, or null", _is_string, optional=True),
    "metadata": _OBJECT,
    "content": _Field("a string, or null", _is_string, optional=True),
    "escaped": _Field("true or false", _is_flag, optional=True),
}
RECORD: Final[Fields] = {
    "key": _Field(f"1 to {MAX_RECORD_KEY_BYTES:,} bytes as base64", _is_record_key),
    "body": _Field("bytes as base64", _is_base64),
}
END: Final[Fields] = {"leaf": _PARENT, "count": _COUNT}


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
        self._overlays: list[ImportOverlay] = []
        self._values: list[tuple[int, int]] = []
        self._records: list[tuple[int, int]] = []
        self._newest: tuple[str, str, int] = ("", "", 0)

    def read(self, file: IO[bytes], ticker: Ticker) -> bool:
        """Find the places of all messages; false if there is no further session."""
        for value, at, size in self._lines(file):
            ticker.at(max(ticker.done, at + size))
            if not self._header:
                self._begin(value)
            elif value.get("type") == "overlay":
                self._overlays.append(self._overlay(value))
            elif value.get("type") == "value":
                self._keep(value, at, size)
            elif value.get("type") == "record":
                self._check(value, RECORD)
                self._records.append((at, size))
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
            parent_id=header.get("parentId"),
            created_at=moment(header.get("createdAt")),
            active_at=moment(header.get("activeAt")),
            leaf=leaf if leaf is not None and self._knows(leaf) else None,
            count=len(self._index),
            after_seq=self._after_seq,
            overlays=tuple(self._overlays),
            values=self._read_values(),
            records=self._read_records(),
        )

    @property
    def _after_seq(self) -> int:
        return int(self._header.get("afterSeq") or 0)

    def _lines(self, file: IO[bytes]) -> Iterator[tuple[Json, int, int]]:
        report = Report()
        offset = self._first
        for record in lines.records(file, report, lambda _: False, longest=MAX_LINE):
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
        if value.get("type") != "session" or type(version) is not int or version < 1:
            self._fail("is not the header of a session")
        if version > VERSION:
            self._fail(f"is of format version {version}; this plait reads up to {VERSION}: use a newer one")
        self._check(value, HEADER)
        self._header = value

    def _place(self, value: Json, at: int, size: int) -> None:
        kind = value.get("type")
        damaged = kind == "damaged"
        if not damaged and kind != "message":
            self._fail("is neither a message nor the end line")
        self._check(value, DAMAGED if damaged else MESSAGE)
        id, parent, seq = value["id"], value.get("parent"), value["seq"]
        if not self._index.add(id, parent, line=self.line, at=at, size=size, rank=seq, hidden=damaged):
            self._fail(f"has the id {id!r:.80} of an earlier line")
        if damaged:
            self._report.add(
                self.line, f"the message was damaged when it was exported: {value.get('reason')}", lost=True
            )

    def _check(self, value: Json, fields: Fields) -> None:
        """Each field is what it must be, and none is there that would be lost without a word."""
        for name, field in fields.items():
            if value.get(name) is None:
                fault = "" if field.optional else "is missing"
            else:
                fault = "" if field.fits(value[name]) else f"is {shown(value[name])}"
            if fault:
                self._fail(f"{name} {fault}; it must be {field.rule}")
        strange = sorted(value.keys() - fields.keys() - {"plait", "type"})
        if strange:
            reason = f"has fields that this plait does not know, which were left out: {', '.join(map(shown, strange))}"
            self._report.add(self.line, reason[:200], lost=True)

    def _overlay(self, value: Json) -> ImportOverlay:
        self._check(value, OVERLAY)
        names = (value["id"], value["kind"], value["from"], value["to"])
        made, stale = moment(value.get("createdAt")), value.get("stale") is True
        return ImportOverlay(*names, value.get("summary"), value.get("tokens"), made, stale)

    def _keep(self, value: Json, at: int, size: int) -> None:
        """Check a value's line, and remember where it is: it may be long."""
        self._check(value, VALUE)
        self._unpacked(value)
        label, key, version = self._newest
        if (label, key) == (value["label"], value["key"]) and value["version"] <= version:
            self._fail(f"version must be above {version}, that of the line before; it is {value['version']}")
        self._newest = (value["label"], value["key"], value["version"])
        self._values.append((at, size))

    def _unpacked(self, value: Json) -> str | None:
        content = value.get("content")
        try:
            return content if content is None else unpacked(content, value.get("escaped") is True)
        except ValueError:
            self._fail("content is not escaped as it says")

    def _read_values(self) -> Iterator[ImportValue]:
        with self._path.open("rb") as file:
            for at, size in self._values:
                file.seek(at)
                value = lines.decode(file.read(size))
                yield ImportValue(
                    label=value["label"],
                    key=value["key"],
                    content=self._unpacked(value),
                    description=value.get("description"),
                    metadata=value.get("metadata") or {},
                    tokens=value.get("tokens"),
                    written_at=moment(value.get("writtenAt")),
                    version=value["version"],
                )

    def _read_records(self) -> Iterator[tuple[bytes, bytes]]:
        with self._path.open("rb") as file:
            for at, size in self._records:
                file.seek(at)
                value = lines.decode(file.read(size))
                yield base64.b64decode(value["key"]), base64.b64decode(value["body"])

    def _finish(self) -> None:
        self._check(self._end, END)
        count = self._end["count"]
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
