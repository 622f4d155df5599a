"""Reading Claude Code's transcripts: JSON lines that form a tree by `uuid` and `parentUuid`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from plait.interchange import lines
from plait.interchange.common import Places, Ticker, imported, moment, named, session_id, tree_entries, words
from plait.interchange.index import Index
from plait.interchange.values import Progress, Report, Transcript
from plait.model import Json

NAME = "claude-code"
_UUID = re.compile(rb'"uuid"\s*:\s*"([^"\\]+)"')
_PARENT = re.compile(rb'"parentUuid"\s*:\s*"([^"\\]+)"')


def is_record(value: Json) -> bool:
    """Whether this is a line of a transcript and not a piece of one."""
    linked = isinstance(value.get("uuid"), str) and "parentUuid" in value
    return isinstance(value.get("type"), str) and (linked or any(key in value for key in _MARKS))


_MARKS = ("sessionId", "leafUuid", "messageId")


@dataclass(slots=True)
class _Seen:
    """What the first pass learns about the session."""

    session: object = None
    titles: dict[str, str] = field(default_factory=dict[str, str])
    compactions: list[Json] = field(default_factory=list[Json])
    leaf: str | None = None
    last_apart: str | None = None
    links: int = 0
    parents: int = 0


def read(path: Path, progress: Progress | None = None) -> Iterator[Transcript]:
    """The one session of the file; every line is an entry.

    Lines outside the tree (summaries, file snapshots, queue operations) form a chain of their own
    beside it, so that they keep their order and the tree keeps its shape. A compact boundary
    follows what it compacted (`logicalParentUuid`).
    """
    index, report, seen = Index(), Report(), _Seen()
    ticker = Ticker(progress, 2 * path.stat().st_size)
    places = Places(index, report)
    with path.open("rb") as file:
        for record in lines.records(file, report, is_record):
            ticker.at(record.at + record.size)
            if record.value is None:
                _guess(index, record)
            else:
                _put(places, record, record.value, seen)
            del record  # else a long line is held while the next is read
    if seen.links > 1 and not seen.parents:
        report.add(0, "no line names a parent; the lines were taken in their order")
        index.chain()
    ticker.at(ticker.total // 2)
    index.arrange(report.add)
    name = seen.titles.get("customTitle") or seen.titles.get("summary") or seen.titles.get("aiTitle")
    yield Transcript(
        id=session_id(seen.session, path, places.mark, report),
        format=NAME,
        entries=tree_entries(path, index, ticker, _entry),
        report=report,
        name=name,
        metadata=imported(NAME, {}, compactions=seen.compactions),
        leaf=index.visible(seen.leaf or places.last),
        count=len(index),
    )


def _put(places: Places, record: lines.Record, value: Json, seen: _Seen) -> None:
    key = named(value.get("uuid"))
    if seen.session is None:
        seen.session = words(value.get("sessionId"))
    for title in ("customTitle", "summary", "aiTitle"):
        text = words(value.get(title)) if key is None else None
        if text:
            seen.titles[title] = text
    if key is None:
        seen.last_apart = places.put(record, None, seen.last_apart, apart=True)
        return
    parent = named(value.get("parentUuid")) or named(value.get("logicalParentUuid"))
    placed = places.put(record, key, parent)
    seen.links += 1
    seen.parents += parent is not None
    if value.get("isSidechain") is not True or seen.leaf is None:
        seen.leaf = placed
    if value.get("subtype") == "compact_boundary" or value.get("isCompactSummary") is True:
        seen.compactions.append({"id": placed, "kind": value.get("subtype") or "summary"})


def _guess(index: Index, record: lines.Record) -> None:
    """A damaged line that still says its id and parent keeps its children attached to what is above."""
    own, parent = _UUID.search(record.raw), _PARENT.search(record.raw)
    if own and parent:
        key, up = (match[1].decode("utf-8", "replace") for match in (own, parent))
        index.add(key, up, line=record.line, hidden=True, guessed=True)


def _entry(value: Json) -> tuple[str | None, dt.datetime | None]:
    return NAME, moment(value.get("timestamp"))
