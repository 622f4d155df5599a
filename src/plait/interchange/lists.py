"""Reading lists of messages: OpenAI chat and Responses, and AI SDK UI messages, as JSON or JSON lines."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from plait import formats, jsontext
from plait.errors import PlaitError
from plait.interchange import lines
from plait.interchange.common import (
    Places,
    Ticker,
    imported,
    moment,
    named,
    session_id,
    tree_entries,
    with_own_id,
    words,
)
from plait.interchange.index import Index
from plait.interchange.scanner import Child, Scanner
from plait.interchange.values import ImportEntry, Progress, Report, Transcript
from plait.model import Json

WRAPPERS = ("messages", "input", "items", "output")
"""Under which keys of an object its list of messages is looked for, in this order."""

_KEPT_MEMBER = 16 << 20


def read(name: str, path: Path, progress: Progress | None = None) -> Iterator[Transcript]:
    """The sessions of the file.

    One for a list, alone or in an object; one for each line where every line is such an object.
    """
    report = Report()
    with path.open("rb") as file:
        at = _start(file)
        file.seek(at)
        if file.read(1) == b"[":
            yield _one(name, path, _elements(file, Child(b"", at, 0, 1), report), {}, report, progress)
            return
        scanner = Scanner(file, at)
        members = list(scanner.children())
        held = _held(members)
        if scanner.end is not None and _more(file, scanner.end):
            yield from _lines(name, path, held is not None, progress)
        elif held is not None:
            header = _header(file, members, held, report)
            yield _one(name, path, _elements(file, held, report), header, report, progress)
        else:
            yield from _lines(name, path, False, progress)


def list_in(value: Json) -> str | None:
    """The key under which the object holds a list of messages, if it does."""
    return next((key for key in WRAPPERS if isinstance(value.get(key), list)), None)


def _lines(name: str, path: Path, wrapped: bool, progress: Progress | None) -> Iterator[Transcript]:
    if wrapped:
        yield from _wrapped(name, path, progress)
        return
    report = Report()
    with path.open("rb") as file:
        yield _one(name, path, lines.records(file, report, _has_role), {}, report, progress)


def _has_role(value: Json) -> bool:
    return "role" in value


def _one(
    name: str, path: Path, records: Iterable[lines.Record], header: Json, report: Report, progress: Progress | None
) -> Transcript:
    """The session of all `records`, each a message that follows the one before."""
    ticker, index = Ticker(progress, 2 * path.stat().st_size), Index()
    places = Places(index, report)
    for record in records:
        _put(places, record, report)
        ticker.at(min(record.at + record.size, ticker.total // 2))
        del record  # else a long message is held while the next is read
    ticker.at(ticker.total // 2)
    return _transcript(name, path, index, places, report, header, tree_entries(path, index, ticker, _entry))


def _transcript(
    name: str,
    path: Path,
    index: Index,
    places: Places,
    report: Report,
    header: Json,
    entries: Iterator[ImportEntry],
) -> Transcript:
    index.arrange(report.add)
    return Transcript(
        id=session_id(header.get("id"), path, places.mark, report),
        format=name,
        entries=map(with_own_id, entries),
        report=report,
        name=words(header.get("title")) or words(header.get("name")),
        metadata=imported(name, header),
        leaf=index.visible(places.last),
        count=len(index),
    )


def _put(places: Places, record: lines.Record, report: Report) -> None:
    if record.value is None:
        return
    try:
        formats.recognize(record.value)
    except PlaitError as error:
        report.add(record.line, f"is not a message that plait knows: {error}", record.raw, lost=True)
    else:
        places.put(record, named(record.value.get("id")), places.last)


def _entry(value: Json) -> tuple[str | None, dt.datetime | None]:
    metadata = value.get("metadata")
    stamps = [value.get("createdAt"), value.get("created_at")]
    stamps += [cast(Json, metadata).get("createdAt")] if isinstance(metadata, dict) else []
    return None, next((at for at in map(moment, stamps) if at is not None), None)


def _wrapped(name: str, path: Path, progress: Progress | None) -> Iterator[Transcript]:
    ticker, pending = Ticker(progress, path.stat().st_size), Report()
    with path.open("rb") as file:
        for record in lines.records(file, pending, lambda value: list_in(value) is not None):
            ticker.at(record.at + record.size)
            key = list_in(record.value) if record.value is not None else None
            if record.value is None or key is None:
                if record.value is not None:
                    pending.add(record.line, "holds no list of messages", record.raw, lost=True)
                continue
            report, pending = pending, Report()
            yield _from_memory(name, path, record, key, report)
    if pending.count:
        yield Transcript(id=f"{path.stem}-rest", format=name, entries=iter(()), report=pending)


def _from_memory(name: str, path: Path, record: lines.Record, key: str, report: Report) -> Transcript:
    value = record.value or {}
    index = Index()
    places = Places(index, report)
    messages = cast("list[object]", value[key])
    for n, item in enumerate(messages):
        raw = jsontext.encode(item).encode()
        if isinstance(item, dict):
            _put(places, lines.Record(record.line, n, raw, cast(Json, item)), report)
        else:
            report.add(record.line, f"{key}[{n}] is not an object", raw, lost=True)
    header = {name: item for name, item in value.items() if name != key}
    return _transcript(name, path, index, places, report, header, _memory_entries(index, messages))


def _memory_entries(index: Index, messages: list[object]) -> Iterator[ImportEntry]:
    for slot in index.slots():
        message = cast(Json, messages[slot.at])
        yield ImportEntry(slot.id, slot.parent, message, *_entry(message), slot.line)


def _start(file: IO[bytes]) -> int:
    """Where the first value begins."""
    at = 3 if file.read(3) == b"\xef\xbb\xbf" else 0
    file.seek(at)
    while piece := file.read(4096):
        if piece.strip():
            return at + len(piece) - len(piece.lstrip())
        at += len(piece)
    return at


def _more(file: IO[bytes], at: int) -> bool:
    file.seek(at)
    return bool(file.read(4096).strip(b" \t\r\n\0"))


def _held(members: list[Child]) -> Child | None:
    named = {child.key.decode("utf-8", "replace"): child for child in members}
    return next((named[key] for key in WRAPPERS if key in named), None)


def _header(file: IO[bytes], members: list[Child], held: Child, report: Report) -> Json:
    """What an object says beside its list of messages."""
    header: Json = {}
    for child in members:
        if child is held:
            continue
        file.seek(child.at)
        raw = file.read(min(child.size, _KEPT_MEMBER))
        shown = child.key + b": " + raw
        try:
            key = jsontext.decode(b'"' + child.key + b'"')
            if key in header:
                report.add(child.line, "repeats a key; what it says last was kept", shown, lost=True)
            header[key] = jsontext.decode(raw)
        except (ValueError, RecursionError):
            report.add(child.line, "cannot be read beside the messages", shown, lost=True)
    return header


def _elements(file: IO[bytes], held: Child, report: Report) -> Iterator[lines.Record]:
    """The elements of the array at `held`, each a record."""
    scanner = Scanner(file, held.at, held.line)
    for child in scanner.children():
        yield from filter(None, [element(file, child, report)])
    if scanner.end is None:
        report.add(0, "the list is not closed: the file was cut off")
    elif not held.size and _more(file, scanner.end):
        report.add(0, "there is more after the end of the list, which was not read", lost=True)


def element(file: IO[bytes], child: Child, report: Report) -> lines.Record | None:
    """The element as a record; `None`, and a word in the report, if it cannot be read."""
    if child.size > lines.MAX_LINE:
        report.add(child.line, f"is longer than {lines.MAX_LINE >> 20} MiB", lost=True)
        return None
    file.seek(child.at)
    raw = file.read(child.size)
    try:
        return lines.Record(child.line, child.at, raw, lines.checked(raw, child.line, report))
    except ValueError as error:
        report.add(child.line, f"{error}{'' if child.whole else ' and is cut off'}", raw, lost=True)
        return None
