"""The goals of plait, and how far a run meets them: one row each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks import overlays
from benchmarks.cases import compacting
from benchmarks.cases.lengths import SIZE
from benchmarks.cases.sizes import FIRST_OPEN
from benchmarks.dose import Dose
from benchmarks.ledger import Ledger, Spread
from benchmarks.peers import SQLALCHEMY_BASED, ADKDatabase, OpenAISQLite
from benchmarks.subjects import PlaitAsync, PlaitSync, RawInsert, RawTransaction

WINDOW_BYTES = 4 << 20
OPENAI, RAW, BARE = OpenAISQLite.name, RawTransaction.name, RawInsert.name
FACES = ((PlaitSync.name, "sync"), (PlaitAsync.name, "async"))


@dataclass(frozen=True, slots=True)
class Row:
    """One goal: what was measured against what, the bound, and the figure of each round."""

    what: str
    sense: Literal["≤", "≥", ""]
    bound: float
    unit: str
    values: list[float]
    note: str = ""
    aim: bool = False
    """Whether the bound is something to aim at, and not a goal."""

    @property
    def spread(self) -> Spread | None:
        return Spread.of(self.values) if self.values else None

    @property
    def met(self) -> bool | None:
        """Whether the median is within the bound; `None` if there is no bound or no figure."""
        if self.spread is None or not self.sense:
            return None
        return self.spread.median <= self.bound if self.sense == "≤" else self.spread.median >= self.bound

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "goal": self.goal, "values": self.values, "met": self.met, "note": self.note}

    @property
    def goal(self) -> str:
        if not self.sense:
            return "(reported)"
        return f"{'aim ' if self.aim else ''}{self.sense} {self.bound:g} {self.unit}"


def rows(ledger: Ledger, dose: Dose) -> list[Row]:
    """Every row, also those that could not be measured."""
    found = [
        *_lone(ledger),
        *_crowd(ledger, dose),
        *_lengths(ledger, dose),
        *_loading(ledger, dose),
        *_weights(ledger, dose),
        *_searching(ledger, dose),
        *_compacting(ledger, dose),
    ]
    return [_explained(ledger, row) for row in found]


def _explained(ledger: Ledger, row: Row) -> Row:
    """A row without figures says why."""
    if row.values:
        return row
    reasons = [reason for name, reason in ledger.absent.items() if name in row.what]
    return Row(row.what, row.sense, row.bound, row.unit, [], (reasons or ["not measured"])[0], row.aim)


def _lone(ledger: Ledger) -> Iterator[Row]:
    limits = {"strict": (1.3, 1.8, 0.7), "process": (2.0, 4.5, 0.6)}
    for durability, (raw, bare, openai) in limits.items():
        for name, face in FACES:
            what = f"append, one caller, {durability}, {face}"
            measure = f"append {durability}"
            yield Row(f"{what}, over the same statements raw", "≤", raw, "×", ledger.ratios(measure, name, RAW))
            yield Row(f"{what}, over a bare INSERT", "≤", bare, "×", ledger.ratios(measure, name, BARE), aim=True)
            yield Row(f"{what}, over {OPENAI}", "≤", openai, "×", ledger.ratios(measure, name, OPENAI), aim=True)


def _crowd(ledger: Ledger, dose: Dose) -> Iterator[Row]:
    crowd, mine = f"rate {dose.crowd}", PlaitAsync.name
    what = f"append, {dose.crowd} callers, strict"
    yield Row(f"{what}: rate over a lone bare INSERT", "≥", 2, "×", ledger.ratios(crowd, mine, BARE, "rate 1"))
    yield Row(f"{what}: rate over a lone raw transaction", "", 0, "×", ledger.ratios(crowd, mine, RAW, "rate 1"))
    yield Row(f"{what}: rate over {OPENAI}", "≥", 10, "×", ledger.ratios(crowd, mine, OPENAI))
    for kind in SQLALCHEMY_BASED:
        yield Row(f"{what}: rate over {kind.name}", "≥", 25, "×", ledger.ratios(crowd, mine, kind.name))
    yield Row(f"{what}: CPU each", "≤", 150, "µs", _scaled(ledger, f"rate cpu {dose.crowd}", mine, 1e6))
    over = ledger.ratios(f"rate cpu {dose.crowd}", mine, RAW, "rate cpu 1")
    yield Row(f"{what}: CPU each over that of a lone raw transaction", "", 0, "×", over)
    yield Row(f"{what}: slowest 1 %", "≤", 25, "ms", _scaled(ledger, f"rate p99 {dose.crowd}", mine, 1e3))
    slow = ledger.ratios("rate, slow disk", "crowd", "one at a time")
    yield Row(f"{what}, {dose.slow_fsync_s * 1e3:g} ms fsync: rate over one at a time", "≥", 20, "×", slow)


def _lengths(ledger: Ledger, dose: Dose) -> Iterator[Row]:
    first, mine = min(dose.lengths), PlaitSync.name
    for length in sorted(dose.lengths)[1:]:
        values = ledger.ratios(f"append at {length}", mine, mine, f"append at {first}")
        yield Row(f"append at {length:,} messages over at {first:,}", "≤", 1.15, "×", values)
    what = "open a file and look at its newest message"
    for length in sorted(dose.lengths):
        yield Row(f"{what}, of {length:,}", "", 0, "ms", _scaled(ledger, f"open at {length}", mine, 1e3))
    for length in sorted(dose.lengths)[1:]:
        values = ledger.ratios(f"open at {length}", mine, mine, f"open at {first}")
        yield Row(f"{what}, of {length:,} over of {first:,}", "≤", 1.15, "×", values, aim=True)
    for length in sorted(dose.lengths):
        for change in ("delete", "branch"):
            values = ledger.ratios(f"{change} at {length}", mine, mine, f"append then at {length}")
            yield Row(f"{change} at {length:,} messages over an append", "≤", 3, "×", values)
    for length in sorted(dose.lengths):
        what = f"last {dose.last} of {length:,} messages ({SIZE} B), to dicts"
        yield Row(what, "≤", 0.2, "ms", _scaled(ledger, f"last at {length}", mine, 1e3))
        yield Row(f"{what}, over raw", "", 0, "×", ledger.ratios(f"last at {length}", mine, BARE))
        branched = _scaled(ledger, f"last, branched at {length}", mine, 1e3)
        yield Row(f"{what}, after a checkout from afar", "≤", 0.2, "ms", branched)


def _loading(ledger: Ledger, dose: Dose) -> Iterator[Row]:
    what = f"whole history, {dose.load:,} messages, to dicts"
    raw = _fastest(ledger)
    for name, face in FACES:
        values = [a / b for a, b in zip(ledger.values("load", name), raw, strict=False)]
        yield Row(f"{what}, {face}, over raw and the fastest decoder", "≤", 1.25, "×", values)
        yield Row(f"{what}, {face}, over {OPENAI}", "≤", 0.4, "×", ledger.ratios("load", name, OPENAI))
    values = [a / b for a, b in zip(raw, ledger.values("load", OPENAI), strict=False)]
    yield Row(f"{what}: raw and the fastest decoder over {OPENAI}", "", 0, "×", values)
    adk = ADKDatabase.name
    yield Row(f"{what}, over {adk}", "≤", 1 / 15, "×", ledger.ratios("load", PlaitSync.name, adk))
    for session, label in (("usual", "a usual session"), ("large", "messages of 64 KB to 2 MB")):
        what = f"longest hold of the event loop, {label}"
        yield Row(what, "≤", 10, "ms", _scaled(ledger, f"hold, {session}", "wall", 1e3))
        yield Row(f"{what}, CPU time", "", 0, "ms", _scaled(ledger, f"hold, {session}", "cpu", 1e3))


def _fastest(ledger: Ledger) -> list[float]:
    """Raw reading with whichever decoder was faster in each round."""
    both = [ledger.values("load", name) for name in (BARE, f"{BARE}, orjson")]
    return [min(figures) for figures in zip(*[values for values in both if values], strict=False)]


def _weights(ledger: Ledger, dose: Dose) -> Iterator[Row]:
    small, big = (str(size) for size in (min(dose.streams), max(dose.streams)))
    what = f"memory to stream {_mb(int(big))}"
    allowed = dose.largest + WINDOW_BYTES
    whole = [value / allowed for value in ledger.values("memory", big)]
    yield Row(f"{what} over largest message ({_mb(dose.largest)}) + window ({_mb(WINDOW_BYTES)})", "≤", 1, "×", whole)
    yield Row(f"{what} over that of {_mb(int(small))}", "≤", 1.1, "×", _grown(ledger, big, small))
    yield Row("bytes on disk over the JSON, 1.6 KB mean", "≤", 1.4, "×", ledger.values("disk 1.6 KB", PlaitSync.name))
    yield Row("bytes on disk over the JSON, 300 B", "", 0, "×", ledger.values("disk 300 B", PlaitSync.name))
    yield Row("import plait beyond bare Python", "≤", 60, "ms", _scaled(ledger, "import beyond", "import plait", 1e3))
    yield Row("import plait, CPU time", "", 0, "ms", _scaled(ledger, "import beyond, cpu", "import plait", 1e3))
    over = ledger.ratios("import beyond, cpu", "import plait", "import apsw, msgspec")
    yield Row("import plait, CPU time, over its two dependencies", "", 0, "×", over)
    over = ledger.ratios("import beyond, cpu", FIRST_OPEN, "import apsw, msgspec")
    yield Row("import plait and make a store (which loads one face), CPU time, over the same", "", 0, "×", over)


def _compacting(ledger: Ledger, dose: Dose) -> Iterator[Row]:
    what, mine = f"session of {dose.turns} turns, window of {compacting.WINDOW_TOKENS:,} tokens", "plait"
    views = ledger.values("long session, largest view", mine)
    yield Row(f"{what}: largest view after any turn", "≤", compacting.WINDOW_TOKENS, "tokens", views)
    calls = [value / dose.turns for value in ledger.values("long session, summarizer calls", mine)]
    yield Row(f"{what}: calls of the summarizer a turn", "≤", 0.1, "calls", calls)
    prompts = _scaled(ledger, "long session, largest prompt", mine, 1e-3)
    yield Row(f"{what}: its largest prompt", "≤", 40, "thousand characters", prompts)
    for measure, (label, unit, scale) in compacting.MEASURES.items():
        for mark in compacting.marks(dose.turns):
            values = _scaled(ledger, f"long session, {measure} at {mark}", mine, scale)
            yield Row(f"{what}: {label} at turn {mark}", "", 0, unit, values)
    yield Row(f"{what}: its log at the end", "", 0, "KB", _scaled(ledger, "long session, log", mine, 1e-3))
    gate = ledger.ratios("gate", "with", "without")
    yield Row(
        f"append to {dose.gate:,} messages with compact_after, never due, over one without, CPU", "", 0, "×", gate
    )
    for name in overlays.READS:
        for count in overlays.COUNTS[1:]:
            values = ledger.ratios(f"overlays, {name}", str(count), "0")
            yield Row(f"{name}, {count} overlays over none, CPU", "", 0, "×", values)


def _searching(ledger: Ledger, dose: Dose) -> Iterator[Row]:
    mine = PlaitSync.name
    for kind, words in (("rare", "a rare word"), ("common", "a common word")):
        for order in ("newest first", "best first"):
            what = f"search {dose.searched:,} messages for {words}, 20 hits {order}"
            sense: Literal["≤", ""] = "≤" if order == "newest first" else ""
            yield Row(what, sense, 1, "ms", _scaled(ledger, f"search {kind}, {order}", mine, 1e3))
            yield Row(f"{what}, CPU time", "", 0, "ms", _scaled(ledger, f"search {kind}, {order}, cpu", mine, 1e3))
            yield Row(f"{what}: slowest 1 %", "", 0, "ms", _scaled(ledger, f"search p99 {kind}, {order}", mine, 1e3))
    off = "append, search off"
    yield Row(
        "append where search follows, CPU time, over one where nobody searched",
        "≤",
        1.1,
        "×",
        ledger.ratios("append, search on", mine, mine, off),
    )
    yield Row(
        "append right after a search, CPU time, over the same",
        "",
        0,
        "×",
        ledger.ratios("append, search after a search", mine, mine, off),
    )
    rate, what = ledger.values("backfill Latin", mine), "index messages of 1.6 KB"
    yield Row(f"{what}, Latin text", "≥", 10_000, "messages/s", rate)
    yield Row(f"{what}, Latin text, CPU time", "", 0, "messages/s", ledger.values("backfill cpu Latin", mine))
    yield Row(f"{what}, Chinese text, CPU time", "", 0, "messages/s", ledger.values("backfill cpu Chinese", mine))
    yield Row("bytes of the index over Latin text", "≤", 0.35, "×", ledger.values("index Latin", mine))
    yield Row("bytes of the index over Chinese text", "", 0, "×", ledger.values("index Chinese", mine))


def _grown(ledger: Ledger, big: str, small: str) -> list[float]:
    return [a / b for a, b in zip(ledger.values("memory", big), ledger.values("memory", small), strict=True)]


def _scaled(ledger: Ledger, measure: str, subject: str, scale: float) -> list[float]:
    return [value * scale for value in ledger.values(measure, subject)]


def _mb(size: int) -> str:
    return f"{size / (1 << 20):,.4g} MB"
