"""A session's overlays on a list of LangChain's messages: by the rows each message was made of, whoever wrote them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import HumanMessage, ToolMessage

import plait
from plait.formats.crossing import Crossing
from plait.model import OVERLAY_PREFIX

SUMMARY: Final = "Summary of the conversation until here:"


class Span(NamedTuple):
    """The seqs of the first and the last row of a message, or of what is covered."""

    first: int
    last: int

    @classmethod
    def under(cls, overlay: plait.Overlay) -> Span:
        return cls(overlay.from_seq, overlay.to_seq)

    def is_in(self, covered: Span) -> bool:
        """Whether all of it is covered."""
        return covered.first <= self.first and self.last <= covered.last


Spans = dict[str, Span]


def spans_of(path: Iterable[plait.Message | plait.Damaged]) -> Spans:
    """What each of LangChain's messages was made of, by its id: several rows may be one, and one row several."""
    crossing, spans, waiting = Crossing("langchain"), Spans(), list[int]()

    def note(made: Iterable[tuple[Any, plait.Message]]) -> None:
        for source, items in itertools.groupby(made, key=lambda one: one[1]):
            span = Span(next((seq for seq in waiting if seq <= source.seq), source.seq), source.seq)
            for item, _ in items:
                spans[item["data"].get("id") or source.id.partition("~")[0]] = span
            waiting[:] = [seq for seq in waiting if seq > source.seq]

    for row in path:
        if isinstance(row, plait.Message) and row.role != "meta":
            waiting.append(row.seq)
            note(crossing.take(row))
    note(crossing.rest())
    return spans


def laid(messages: Sequence[Any], overlays: Sequence[plait.Overlay], spans: Spans) -> list[Any]:
    """The messages with each overlay in the place of those that it covers, the newest one over all others.

    An overlay is laid where both ends of what it covers are found and nothing else stands between. No call
    loses its results by it, and no result its call: what belongs to one that stays stays too.
    """
    known = _known(overlays, spans)
    covered: dict[int, tuple[int, plait.Overlay]] = {}
    twice: set[int] = set()
    for overlay in overlays:
        wanted = [span for span in spans.values() if span.is_in(Span.under(overlay))]
        if overlay.kind == "unload" or not wanted:
            continue
        place, stray = _place(messages, Span.under(overlay), known, wanted)
        if place is None:
            continue
        first, last = place
        covered = {at: item for at, item in covered.items() if not first <= at <= last}
        covered[first] = (last, overlay)
        twice |= stray
    shown: list[Any] = []
    at = 0
    while at < len(messages):
        last, here = covered.get(at, (at, None))
        if here is None:
            shown += [] if at in twice else [messages[at]]
        elif here.summary is not None:
            shown.append(HumanMessage(f"{SUMMARY}\n{here.summary}", id=here.id, name="summary"))
        at = last + 1
    return shown


def has_place(messages: Sequence[Any], covered: Span, overlays: Sequence[plait.Overlay], spans: Spans) -> bool:
    """Whether a summary of what is covered would stand in the place of it."""
    wanted = [span for span in spans.values() if span.is_in(covered)]
    return bool(wanted) and _place(messages, covered, _known(overlays, spans), wanted)[0] is not None


def _known(overlays: Sequence[plait.Overlay], spans: Spans) -> Spans:
    return spans | {OVERLAY_PREFIX + one.id: Span.under(one) for one in overlays}


def _place(
    messages: Sequence[Any], covered: Span, known: Spans, wanted: Sequence[Span]
) -> tuple[tuple[int, int] | None, set[int]]:
    """From where to where a list has what an overlay covers, and where its summary stands in it beside that."""
    here = [n for n, message in enumerate(messages) if _is_in(message, covered, known)]
    stray = {n for n in here if str(messages[n].id).startswith(OVERLAY_PREFIX)}
    for found, beside in ([n for n in here if n not in stray], stray), (here, set[int]()):
        if found and _has_ends(found, messages, wanted, known):
            return _whole(messages, found), beside
    return None, set()


def _is_in(message: Any, covered: Span, known: Spans) -> bool:
    span = known.get(getattr(message, "id", None) or "")
    return span is not None and span.is_in(covered)


def _has_ends(found: Sequence[int], messages: Sequence[Any], wanted: Sequence[Span], known: Spans) -> bool:
    there = [known[messages[n].id] for n in found]
    first, last = min(span.first for span in wanted), max(span.last for span in wanted)
    return min(span.first for span in there) <= first and max(span.last for span in there) >= last


def _whole(messages: Sequence[Any], found: Sequence[int]) -> tuple[int, int] | None:
    """The range without results whose calls are before it, and with all results of its calls; `None` if it has others' words."""
    first, last, mine = found[0], found[-1], set(found)
    while first <= last and isinstance(messages[first], ToolMessage):
        first += 1
    if first > last or any(n not in mine and not isinstance(messages[n], ToolMessage) for n in range(first, last)):
        return None
    while last + 1 < len(messages) and isinstance(messages[last + 1], ToolMessage):
        last += 1
    return first, last
