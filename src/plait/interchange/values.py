"""What a reader of transcripts hands over: sessions with their entries, and what could not be placed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from plait.model import Json

Progress: TypeAlias = Callable[[int, int], None]
"""Told now and then how much of the work is done, and of how much (in whichever unit suits the file)."""

_SNIPPET = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that is not as it should be.

    `line` counts from 1 (for a table, the row in reading order; 0 for the file as a whole).
    `lost` says that the content on it is not in the transcript; otherwise only its place was mended.
    """

    line: int
    reason: str
    snippet: str = ""
    lost: bool = False


@dataclass(slots=True)
class Report:
    """What could not be placed, in the order of finding.

    The first `Report.KEPT` problems are kept; `count` and `lost` count all of them.
    """

    KEPT: Final = 1000

    problems: list[Problem] = field(default_factory=list[Problem])
    count: int = 0
    lost: int = 0

    def add(self, line: int, reason: str, raw: bytes | str = b"", *, lost: bool = False) -> None:
        """Note a problem; `raw` is the text it was found in."""
        self.count += 1
        self.lost += lost
        if len(self.problems) < self.KEPT:
            self.problems.append(Problem(line, reason, snippet(raw), lost))


def snippet(raw: bytes | str) -> str:
    """The beginning of `raw` in printable characters."""
    head = raw[:_SNIPPET]
    text = head.decode("utf-8", "backslashreplace") if isinstance(head, bytes) else head
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return shown + "…" if len(raw) > _SNIPPET else shown


@dataclass(frozen=True, slots=True)
class ImportEntry:
    """One message of a transcript, as the file holds it.

    `message` is the file's own object, with every field; `format` names the reader for it (`None`:
    to be recognized). `parent` is the id of an entry that came before, `None` for a root.
    """

    id: str
    parent: str | None
    message: Json
    format: str | None
    created_at: dt.datetime | None
    line: int


@dataclass(frozen=True, slots=True)
class ImportOverlay:
    """An overlay of a transcript: over which of its entries, and what is shown instead.

    `tokens` is what the message costs that shows it, `None` to have it estimated. `stale` says that
    what it is of was updated or deleted since it was made.
    """

    id: str
    kind: str
    from_id: str
    to_id: str
    summary: str | None
    tokens: int | None
    created_at: dt.datetime | None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class ImportValue:
    """A version of a named value of a transcript; `content` is `None` where it was deleted.

    The versions of a value come together, oldest first. `tokens` is `None` to have them estimated,
    `version` 0 where the source does not number them.
    """

    label: str
    key: str
    content: str | None
    description: str | None
    metadata: Json
    tokens: int | None
    written_at: dt.datetime | None
    version: int = 0


@dataclass(slots=True)
class Transcript:
    """One session of a file.

    `entries` is read from the file as it is consumed, parents before children, and can be consumed
    once. `report` is complete when `entries` is used up. `leaf` is the id of the entry that was
    the active leaf (`None`: the last one), `count` how many entries there are.
    `parent_id` is the session it was forked from. `active_at` is when it was last active (`None`:
    when the latest of its entries was made). `after_seq` is not 0 for a continuation, whose first parents are in the
    session already. `overlays` are laid on once the entries are there, in this order. `values` are the
    versions of what stands beside the messages; they too can be gone through once, and so can `records`, keys and
    bodies of what a framework keeps beside them.
    """

    id: str
    format: str
    entries: Iterator[ImportEntry]
    report: Report
    name: str | None = None
    owner: str | None = None
    metadata: Json = field(default_factory=dict[str, object])
    state: Json = field(default_factory=dict[str, object])
    pinned: bool = False
    parent_id: str | None = None
    created_at: dt.datetime | None = None
    active_at: dt.datetime | None = None
    leaf: str | None = None
    count: int = 0
    after_seq: int = 0
    overlays: tuple[ImportOverlay, ...] = ()
    values: Iterable[ImportValue] = ()
    records: Iterable[tuple[bytes, bytes]] = ()

    def unplaced(self, overlay: ImportOverlay, reason: str) -> None:
        """Note that an overlay could not be laid on; the messages it was to cover are there."""
        self.report.add(0, f"overlay {overlay.id!r:.80} was left out: {reason}", overlay.summary or "", lost=True)

    def unrecorded(self, key: bytes, reason: str) -> None:
        """Note that a record could not be kept."""
        self.report.add(0, f"record {key[:40]!r} was left out: {reason}", lost=True)

    def unkept(self, value: ImportValue, reason: str) -> None:
        """Note that a version of a value could not be kept."""
        self.report.add(
            0, f"value {value.key!r:.80} of {value.label!r:.80} was left out: {reason}", value.content or "", lost=True
        )
