"""The read planner: what a path shows, as runs of rows and overlays between them.

Every read goes through it, forward and newest first, so that all of them show the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct

from plait import formats, jsontext, times
from plait.logic.shape import is_object
from plait.model import OVERLAY_PREFIX, Damaged, Format, Json, Message, Overlay, OverlayMessage
from plait.store.protocol import Laid, Path, Range


class Run(Struct, frozen=True):
    """Rows of the path with `lo <= seq <= hi`, shown as they are."""

    lo: int
    hi: int


Item: TypeAlias = Run | OverlayMessage
T = TypeVar("T")


def outermost(spans: Iterable[tuple[int, int, int, T]]) -> list[T]:
    """Of spans (first seq, last seq, version, what it is) those that lie in no other, in order.

    Of spans that cover the same it is the newest. Spans that cross cannot be added. Should a damaged
    file hold some, the one that begins first is shown, for every reader alike.
    """
    shown: list[T] = []
    end = -1
    for first, last, _, what in sorted(spans, key=lambda span: (span[0], -span[1], -span[2])):
        if first > end:
            shown.append(what)
            end = last
    return shown


def plan(path: Path, *, after_seq: int | None = None, before_seq: int | None = None, raw: bool = False) -> list[Item]:
    """What to show of `path` between two seqs (both excluded), root first; `raw`: with nothing hidden.

    An overlay is within the bounds if the place it ends at is; it is then shown as a whole.
    """
    items = _items(path, after_seq, before_seq, () if raw else path.laid)
    return [item if isinstance(item, Run) else message(item.overlay, item.role, item.parent_id) for item in items]


def _items(path: Path, after_seq: int | None, before_seq: int | None, laid: Sequence[Laid]) -> Iterator[Run | Laid]:
    if not path.ranges:
        return
    lo = path.ranges[0].lo if after_seq is None else after_seq + 1
    hi = path.ranges[-1].hi if before_seq is None else before_seq - 1
    for item in laid:
        overlay = item.overlay
        if not lo <= overlay.to_seq:
            continue
        if overlay.to_seq > hi:
            hi = min(hi, overlay.from_seq - 1)
            break
        if lo < overlay.from_seq:
            yield Run(lo, overlay.from_seq - 1)
        if overlay.summary is not None and item.hides.messages:
            yield item
        lo = overlay.to_seq + 1
    if lo <= hi:
        yield Run(lo, hi)


SHORT = 16
"""Runs of fewer rows are read together with what comes after the overlay beside them."""


def stretches(
    path: Path, *, after_seq: int | None = None, before_seq: int | None = None, newest_first: bool = False
) -> Iterator[Stretch]:
    """What `path` shows between two seqs in pieces, each to be read in one go, in the order of reading."""
    items = list(_items(path, after_seq, before_seq, path.laid))
    group: list[Run | Laid] = []
    rows = 0
    for item in reversed(items) if newest_first else items:
        if rows >= SHORT:
            yield Stretch(group, newest_first=newest_first)
            group, rows = [], 0
        group.append(item)
        rows += item.hi - item.lo + 1 if isinstance(item, Run) else 0
    if group:
        yield Stretch(group, newest_first=newest_first)


class Stretch:
    """Rows of a path, and what overlays show before, among and after them.

    `run` reaches from the first row to the last, with what is hidden between them; `None` if there are none.
    """

    def __init__(self, items: Iterable[Run | Laid], *, newest_first: bool) -> None:
        runs: list[Run] = []
        self._waiting = deque[Laid]()
        self._newest_first = newest_first
        for item in items:
            runs.append(item) if isinstance(item, Run) else self._waiting.append(item)
        self.run = Run(min(run.lo for run in runs), max(run.hi for run in runs)) if runs else None

    def take(self, rows: list[Message | Damaged]) -> list[Message | Damaged]:
        """The rows read next with what comes before and among them, in the order of reading."""
        if not self._waiting:
            return rows
        merged: list[Message | Damaged] = []
        for row in rows:
            while self._waiting and (self._waiting[0].overlay.to_seq > row.seq) == self._newest_first:
                merged.append(self._next())
            merged.append(row)
        return merged

    def rest(self) -> list[Message | Damaged]:
        """What comes after the last row."""
        return [self._next() for _ in range(len(self._waiting))]

    def _next(self) -> OverlayMessage:
        item = self._waiting.popleft()
        return message(item.overlay, item.role, item.parent_id)


def uncovered(ranges: Iterable[Range], laid: Sequence[Laid], *, newest_first: bool) -> Iterator[Range]:
    """What overlays leave in sight of ranges, which are given in the order they are read."""
    for item in ranges:
        pieces = list(_pieces(item, laid))
        yield from reversed(pieces) if newest_first else pieces


def _pieces(item: Range, laid: Sequence[Laid]) -> Iterator[Range]:
    lo = item.lo
    for n in range(bisect_left(laid, lo, key=lambda one: one.overlay.to_seq), len(laid)):
        overlay = laid[n].overlay
        if overlay.from_seq > item.hi:
            break
        if lo < overlay.from_seq:
            yield Range(item.strand, lo, overlay.from_seq - 1)
        lo = max(lo, overlay.to_seq + 1)
    if lo <= item.hi:
        yield Range(item.strand, lo, item.hi)


def gaps(seqs: Sequence[int], laid: Sequence[Laid]) -> list[int]:
    """Where in rising seqs of rows an overlay lies between a row and the one before it."""
    if not laid:
        return []
    before = [bisect_left(laid, seq, key=lambda one: one.overlay.to_seq) for seq in seqs]
    return [n for n in range(1, len(seqs)) if before[n] != before[n - 1]]


def message(overlay: Overlay, role: str, parent_id: str | None) -> OverlayMessage:
    """The message that shows the summary of an overlay, which has one."""
    content, format = _content(overlay.id, overlay.kind, role, overlay.summary or "")
    text = jsontext.encode(content)
    return OverlayMessage(
        OVERLAY_PREFIX + overlay.id,
        format.role(content),
        overlay.to_seq,
        parent_id,
        times.to_us(overlay.created_at),
        len(text.encode()),
        overlay.tokens,
        format,
        text,
        _overlay=overlay,
        whole=overlay.kind == "unload" and shown_whole(overlay.summary or "") is not None,
    )


def body(id: str, kind: str, role: str, summary: str) -> str:
    """The JSON text of the message that shows the summary of an overlay."""
    return jsontext.encode(_content(id, kind, role, summary)[0])


def _content(id: str, kind: str, role: str, summary: str) -> tuple[Json, Format]:
    """What is shown in the place of messages: a summary's text or, of an `unload` that says so, a message."""
    whole = shown_whole(summary) if kind == "unload" else None
    if whole is None:
        return {"id": OVERLAY_PREFIX + id, "role": role, "parts": [{"type": "text", "text": summary}]}, formats.NATIVE
    content, format = whole
    return {key: OVERLAY_PREFIX + id if key in ID_KEYS else value for key, value in content.items()}, format


# -- a message as it is shown with something in it unloaded ----------------------

_WHOLE = '{"plait:message":'
ID_KEYS = ("id", "uuid")
"""Where a message's own id stands; what is shown in its place must not go under it."""


def whole(content: Json, format: Format) -> str:
    """The summary of an `unload` that shows a message of `format` in the place of one."""
    return jsontext.encode({"plait:message": content, "format": format.name})


def shown_whole(summary: str) -> tuple[Json, Format] | None:
    """The message that a summary made by `whole` shows; `None` for any other text."""
    if not summary.startswith(_WHOLE):
        return None
    try:
        found = jsontext.decode(summary)
    except (ValueError, RecursionError):
        return None
    content, name = found.get("plait:message"), found.get("format")
    if not is_object(content) or not isinstance(name, str):
        return None
    format = formats.stored(name)
    return (content, format) if format.recognizes(content) else None
