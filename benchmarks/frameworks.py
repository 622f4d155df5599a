"""plait under each framework beside that framework's own store: how fast it appends, loads and reads the newest.

    python -m benchmarks.frameworks                       # --rounds 3, --quick, --only LangGraph
    python -m benchmarks.frameworks --docs                # write the table into docs/benchmarks.md

All stores write as durably: a WAL, and an fsync for each append. A store that is not installed is named as absent.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks import report
from benchmarks.cases import Bench
from benchmarks.cases.adapters import GROUPS, MEASURES, Adapters, Group, measure_of
from benchmarks.dose import NORMAL, QUICK, Dose
from benchmarks.ledger import Ledger, Spread, median
from benchmarks.peers import missing
from benchmarks.run import run
from benchmarks.subjects import PlaitAsync

ROOT = Path(__file__).parents[1]
HEADINGS = ("what", "its own", "plait under it", "plait itself", "plait under it over its own")
PACKAGES = (
    "openai-agents", "google-adk", "SQLAlchemy", "aiosqlite", "langgraph", "langgraph-checkpoint-sqlite",
    "langchain-community", "apsw", "msgspec",
)  # fmt: skip
RATES = {"append": "append, one caller: a second", "rate": "append, many callers: a second"}
"""What is told as a rate, too."""

NOTHING = "Pydantic AI brings no store that outlives its process, and the Claude Agent SDK's is in memory, too."


def measure(dose: Dose, folder: Path, only: str = "") -> Ledger:
    """The figures of all rounds, of the adapters that have `only` in their name."""

    async def absent(bench: Bench) -> dict[str, str]:
        found: dict[str, str] = {}
        for group in GROUPS:
            if only in group.ours.name:
                found |= await missing(bench.folder, group.theirs)
            else:
                found |= {kind.name: "not asked for" for kind in group.theirs}
        return found

    return run([Adapters()], Bench(folder, dose, Ledger()), absent)


def lines(ledger: Ledger, dose: Dose) -> Iterator[tuple[str, ...]]:
    """The rows of the table, a heading for each of the frameworks' own stores before its figures."""
    for group in GROUPS:
        for their in group.theirs:
            if their.name in ledger.absent:
                yield (f"**{their.name}**", ledger.absent[their.name], "", "", "")
                continue
            yield (f"**{their.name}**, {group.messages(dose):,} messages and more", "", "", "", "")
            for key, what in MEASURES.items():
                if ledger.values(measure_of(group, key), their.name):
                    yield _line(ledger, group, key, _named(what, dose), their.name)
                    if key in RATES:
                        yield _rates(ledger, group, key, _named(RATES[key], dose), their.name)


def _named(what: str, dose: Dose) -> str:
    return what.replace("many callers", f"{dose.crowd} callers").replace("newest messages", f"newest {dose.last}")


def _line(ledger: Ledger, group: Group, key: str, what: str, their: str) -> tuple[str, ...]:
    measure = measure_of(group, key)
    figures = [_time(median(ledger.values(measure, name))) for name in (their, group.ours.name, PlaitAsync.name)]
    return what, *figures, _ratio(ledger.ratios(measure, group.ours.name, their))


def _rates(ledger: Ledger, group: Group, key: str, what: str, their: str) -> tuple[str, ...]:
    """The same figures as appends per second."""
    measure = measure_of(group, key)
    figures = [f"{1 / median(ledger.values(measure, name)):,.0f}" for name in (their, group.ours.name, PlaitAsync.name)]
    return what, *figures, _ratio([1 / ratio for ratio in ledger.ratios(measure, group.ours.name, their)])


def _ratio(ratios: list[float]) -> str:
    """The median, with its spread where there is more than one round."""
    found = Spread.of(ratios)
    spread = f" ({found.least:.2g} – {found.most:.2g})" if len(ratios) > 1 else ""
    return f"{found.median:.2g} ×{spread}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frameworks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="shorter conversations")
    parser.add_argument("--only", default="", metavar="NAME", help="only the adapters with this in their name")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md too")
    asked = parser.parse_args(arguments)
    dose = replace(QUICK if asked.quick else NORMAL, rounds=asked.rounds)
    about = report.machine(asked.folder, asked.rounds, PACKAGES)
    ledger = measure(dose, asked.folder, asked.only)
    text = f"{report.heading(about)}\n\n{report.aligned([HEADINGS, *lines(ledger, dose)])}{report.failures(ledger)}\n\n{NOTHING}"
    print(text)
    if asked.docs:
        report.put(ROOT, "frameworks", text)


if __name__ == "__main__":
    main()
