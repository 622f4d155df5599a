"""Reading Pi's session files: JSON lines, linear without ids (version 1) or a tree (2 and 3)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path

from plait.interchange import lines
from plait.interchange.common import Places, Ticker, imported, moment, named, session_id, tree_entries, words
from plait.interchange.index import Index
from plait.interchange.values import Progress, Report, Transcript
from plait.model import Json

NAME = "pi"
_GUESS = re.compile(rb'"id"\s*:\s*"([^"\\]+)"\s*,\s*"parentId"\s*:\s*(?:"([^"\\]+)"|null)')


def is_record(value: Json) -> bool:
    """Whether this is a line of a Pi session and not a piece of one."""
    return isinstance(value.get("type"), str) and isinstance(value.get("timestamp"), str)


def read(path: Path, progress: Progress | None = None) -> Iterator[Transcript]:
    """The one session of the file. The header goes to its metadata, every other line is an entry.

    An entry without an id gets one made of its line, and follows the entry before it.
    """
    index, report, header = Index(), Report(), Json()
    ticker = Ticker(progress, 2 * path.stat().st_size)
    places, name, compactions = Places(index, report), None, list[str]()
    with path.open("rb") as file:
        for record in lines.records(file, report, is_record):
            ticker.at(record.at + record.size)
            if record.value is None:
                _guess(index, record)
                continue
            if record.value.get("type") == "session" and not header and places.last is None:
                header = record.value
                continue
            _put(places, record, record.value)
            name = words(record.value.get("name")) or name if record.value.get("type") == "session_info" else name
            if record.value.get("type") == "compaction" and places.last is not None:
                compactions.append(places.last)
            del record  # else a long line is held while the next is read
    if not header:
        report.add(0, "has no session header")
    ticker.at(ticker.total // 2)
    index.arrange(report.add)
    yield Transcript(
        id=session_id(header.get("id"), path, places.mark, report),
        format=NAME,
        entries=tree_entries(path, index, ticker, _entry),
        report=report,
        name=name,
        metadata=imported(NAME, header, compactions=compactions),
        created_at=moment(header.get("timestamp")),
        leaf=index.visible(places.last),
        count=len(index),
    )


def _put(places: Places, record: lines.Record, value: Json) -> None:
    key = named(value.get("id")) if value.get("type") != "session" else None
    places.put(record, key, places.last if key is None else named(value.get("parentId")))


def _guess(index: Index, record: lines.Record) -> None:
    """A damaged line that still says its id and parent keeps its children attached to what is above."""
    match = _GUESS.search(record.raw)
    if match:
        key, parent = (group.decode("utf-8", "replace") if group else None for group in match.groups())
        index.add(key or "", parent, line=record.line, hidden=True, guessed=True)


def _entry(value: Json) -> tuple[str | None, dt.datetime | None]:
    return NAME, moment(value.get("timestamp"))
