"""The read planner: what a path shows, as runs of rows and overlays between them.

Every read goes through it, forward and newest first, so that all of them show the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct

from plait import formats, jsontext, times
from plait.model import OVERLAY_PREFIX, Overlay, OverlayMessage
from plait.store.protocol import Laid, Path


class Run(Struct, frozen=True):
    """Rows of the path with `lo <= seq <= hi`, shown as they are."""

    lo: int
    hi: int


Item: TypeAlias = Run | OverlayMessage


class Span(Protocol):
    """A stretch of a path that an overlay covers; `version` is that of the change that added it."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def version(self) -> int: ...


S = TypeVar("S", bound=Span)


def outermost(spans: Iterable[S]) -> list[S]:
    """Those spans that lie in no other, in order; of spans that cover the same, the newest.

    Spans that cross cannot be added. Should a damaged file hold some, the one that begins first
    is shown, for every reader alike.
    """
    shown: list[S] = []
    for span in sorted(spans, key=lambda span: (span.first, -span.last, -span.version)):
        if not shown or span.first > shown[-1].last:
            shown.append(span)
    return shown


def plan(path: Path, *, after_seq: int | None = None, before_seq: int | None = None, raw: bool = False) -> list[Item]:
    """What to show of `path` between two seqs (both excluded), root first; `raw`: with nothing hidden.

    An overlay is within the bounds if the place it ends at is; it is then shown as a whole.
    """
    if not path.ranges:
        return []
    lo = path.ranges[0].lo if after_seq is None else after_seq + 1
    hi = path.ranges[-1].hi if before_seq is None else before_seq - 1
    items: list[Item] = []
    for laid in () if raw else path.laid:
        if not lo <= laid.overlay.to_seq:
            continue
        if laid.overlay.to_seq > hi:
            hi = min(hi, laid.overlay.from_seq - 1)
            break
        items += _run(lo, laid.overlay.from_seq - 1)
        items += shown(laid)
        lo = laid.overlay.to_seq + 1
    return [*items, *_run(lo, hi)]


def _run(lo: int, hi: int) -> list[Run]:
    return [Run(lo, hi)] if lo <= hi else []


def shown(laid: Laid) -> list[OverlayMessage]:
    """The message that an overlay shows for what it covers, if it shows any and something is left of that."""
    if laid.overlay.summary is None or not laid.hides.messages:
        return []
    return [message(laid.overlay, laid.role, laid.parent_id)]


def message(overlay: Overlay, role: str, parent_id: str | None) -> OverlayMessage:
    """The message that shows the summary of an overlay, which has one."""
    text = body(overlay.id, role, overlay.summary or "")
    return OverlayMessage(
        OVERLAY_PREFIX + overlay.id,
        role,
        overlay.to_seq,
        parent_id,
        times.to_us(overlay.created_at),
        len(text.encode()),
        overlay.tokens,
        formats.NATIVE,
        text,
        _overlay=overlay,
    )


def body(id: str, role: str, summary: str) -> str:
    """The JSON text of the message that shows the summary of an overlay."""
    parts = [{"type": "text", "text": summary}]
    return jsontext.encode({"id": OVERLAY_PREFIX + id, "role": role, "parts": parts})


def hidden(laid: Sequence[Laid]) -> tuple[int, int, int]:
    """Messages, bytes and tokens that a path shows less than it holds."""
    taken = [item.taken_off() for item in laid]
    return sum(item[0] for item in taken), sum(item[1] for item in taken), sum(item[2] for item in taken)
