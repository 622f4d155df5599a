"""`plait stats`: a session in numbers, with its tokens drawn over the conversation."""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import plait
from plait import jsontext
from plait.cli import charting, escape, failure, views
from plait.cli.place import Place, find
from plait.cli.progress import progress
from plait.cli.render import Look, role_style, when
from plait.cli.screen import Screen
from plait.cli.sketch import bar, chart, count, marks, samples, size
from plait.cli.timeline import Timeline, timeline

_LARGEST: Final = 5
_CHART_WIDTH: Final = 64
_CHART_HEIGHT: Final = 6
_BAR_WIDTH: Final = 24
_NARROWEST_BAR: Final = 4


@dataclass(slots=True)
class _Role:
    messages: int = 0
    bytes: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Counts:
    """What one walk over the whole tree adds up."""

    roles: dict[str, _Role] = field(default_factory=dict[str, _Role])
    largest: list[tuple[int, int, str, str, int]] = field(default_factory=list[tuple[int, int, str, str, int]])
    children: Counter[str | None] = field(default_factory=Counter[str | None])
    damaged: int = 0
    messages: int = 0

    @property
    def roots(self) -> int:
        return self.children[None]

    @property
    def forks(self) -> int:
        return sum(many > 1 for parent, many in self.children.items() if parent is not None)

    @property
    def leaves(self) -> int:
        return self.messages - sum(parent is not None for parent in self.children)


def stats(place: Place, id: str | None, *, chart: str | None, json: bool) -> int:
    """Print the numbers; the exit code says whether a damaged message was met."""
    if chart is not None:
        charting.check(chart)
    screen = Screen(sys.stdout)
    with place.opened() as sessions:
        info = find(sessions, place, id)
        session = sessions.session(info.id)
        counts = _count(session, info.totals.messages)
        drawn = timeline(list(session.path_stats(raw=True)), session.overlays())
    if chart is not None:
        charting.draw(chart, escape.one_line(info.name or info.id, 80), drawn)
    if json:
        screen.json(jsontext.encode(_view(info, counts)))
    else:
        _print(info, counts, drawn, screen)
    return failure.DAMAGED if counts.damaged else failure.OK


def _count(session: plait.Session, total: int) -> _Counts:
    counts = _Counts()
    with progress("counting", total=total) as tick:
        for entry in session.everything():
            counts.messages += 1
            counts.children[entry.parent_id] += 1
            _add(entry, counts)
            tick(counts.messages)
    counts.largest.sort(reverse=True)
    return counts


def _add(entry: plait.Message | plait.Damaged, counts: _Counts) -> None:
    role = counts.roles.setdefault(entry.role, _Role())
    role.messages += 1
    if isinstance(entry, plait.Damaged):
        counts.damaged += 1
        return
    role.bytes += entry.bytes
    role.tokens += entry.tokens
    one = (entry.bytes, -entry.seq, entry.id, entry.role, entry.tokens)
    if len(counts.largest) < _LARGEST:
        heapq.heappush(counts.largest, one)
    else:
        heapq.heappushpop(counts.largest, one)


def _view(info: plait.SessionInfo, counts: _Counts) -> dict[str, Any]:
    return {
        **views.session(info),
        "roots": counts.roots,
        "leaves": counts.leaves,
        "forks": counts.forks,
        "damaged": counts.damaged,
        "roles": {
            role: {"messages": one.messages, "bytes": one.bytes, "tokens": one.tokens}
            for role, one in counts.roles.items()
        },
        "largest": [
            {"id": id, "seq": -minus_seq, "role": role, "bytes": bytes, "tokens": tokens}
            for bytes, minus_seq, id, role, tokens in counts.largest
        ],
    }


def _print(info: plait.SessionInfo, counts: _Counts, drawn: Timeline, screen: Screen) -> None:
    look = Look(unicode=screen.unicode)
    screen.flow((escape.name(info.id), "bold"), "  ", (escape.one_line(info.name or "", 200, more=look.more), ""))
    for label, text in _facts(info, counts, look):
        screen.flow("  ", (f"{label:<13}", "dim"), text, indent=" " * 15 if (screen.width or 80) >= 30 else "    ")
    if counts.roles:
        screen.line()
        _print_roles(counts.roles, screen, look)
        screen.line()
        _print_largest(counts, screen, look)
    if any(drawn.whole):
        screen.line()
        _print_chart(drawn, screen)


def _facts(info: plait.SessionInfo, counts: _Counts, look: Look) -> Iterator[tuple[str, str]]:
    totals = info.totals
    beside = totals.messages - totals.path_messages
    yield "messages", count(totals.messages) + (f", {count(totals.path_messages)} on the active path" if beside else "")
    if counts.damaged:
        yield "damaged", f"{count(counts.damaged)} (see plait doctor)"
    yield "size", size(totals.bytes) + (f", {size(totals.path_bytes)} on the active path" if beside else "")
    yield "tokens", f"~{count(totals.tokens)}" + _of_the_path(totals)
    yield (
        "branches",
        f"{_many(counts.leaves, 'leaf', 'leaves')}, {_many(counts.forks, 'fork')}, {_many(counts.roots, 'root')}",
    )
    yield "begun", when(info.created_at, look)
    yield "last active", when(info.active_at, look)


def _of_the_path(totals: plait.Totals) -> str:
    """The tokens of the active path and of what a model is shown of it, where they are others."""
    told = f", ~{count(totals.path_tokens)} on the active path" if totals.path_tokens != totals.tokens else ""
    if totals.view_tokens != totals.path_tokens:
        told += f", ~{count(totals.view_tokens)} as a model is shown it"
    return told


def _many(number: int, one: str, more: str | None = None) -> str:
    return f"{count(number)} {one if number == 1 else more or one + 's'}"


def _print_roles(roles: dict[str, _Role], screen: Screen, look: Look) -> None:
    top = max(one.tokens for one in roles.values())
    shown = sorted(roles.items(), key=lambda item: (-item[1].tokens, item[0]))
    names = [escape.one_line(role, 20, more=look.more) for role, _ in shown]
    width = max(len(name) for name in names)
    for name, (role, one) in zip(names, shown, strict=True):
        numbers = f"{count(one.messages):>8} {'message ' if one.messages == 1 else 'messages'} {'~' + count(one.tokens):>12} tokens {size(one.bytes):>10}  "
        room = _BAR_WIDTH if screen.width is None else screen.width - 2 - width - len(numbers)
        drawn = (
            bar(one.tokens, top, min(room, _BAR_WIDTH), ascii_only=not screen.unicode) if room >= _NARROWEST_BAR else ""
        )
        screen.flow("  ", (f"{name:<{width}}", role_style(role)), numbers, (drawn, "bar"))


def _print_largest(counts: _Counts, screen: Screen, look: Look) -> None:
    screen.line("  ", ("largest messages", "dim"))
    for bytes, minus_seq, id, role, tokens in counts.largest:
        name = escape.one_line(role, 20, more=look.more)
        numbers = f"{size(bytes):>10} {'~' + count(tokens):>10} tokens  "
        screen.flow(
            "  ", f"{'#' + str(-minus_seq):>8}", numbers, (f"{name}  ", role_style(role)), (escape.name(id), "dim")
        )


def _print_chart(drawn: Timeline, screen: Screen) -> None:
    width = max(min(_CHART_WIDTH, (screen.width or 80) - 12), 10)
    shown = samples(drawn.shown, width)
    broad = min(4, width // len(shown))  # a short one is drawn broader
    shown = [value for value in shown for _ in range(broad)]
    screen.flow("  ", (_caption(drawn), "dim"), indent="  ")
    for line in chart(shown, _CHART_HEIGHT, ascii_only=not screen.unicode):
        screen.line("  ", (line[:7], "dim"), (line[7:], "bar"))
    if drawn.compactions:
        row = marks(drawn.compactions, len(drawn.shown), len(shown), ascii_only=not screen.unicode)
        screen.line("  ", " " * 7, (row, "active"))


def _caption(drawn: Timeline) -> str:
    messages = _many(len(drawn.whole), "message")
    if drawn.shown == drawn.whole:
        return f"tokens along the active path, summed over its {messages}"
    by = f", {_many(len(drawn.compactions), 'compaction')} marked" if drawn.compactions else ""
    return f"tokens that a model is shown along the active path of {messages}{by}"
