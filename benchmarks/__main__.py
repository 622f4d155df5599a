"""The command: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks import dose, plots, report
from benchmarks.goals import rows
from benchmarks.ledger import Ledger
from benchmarks.run import measure, say

ROOT = Path(__file__).parents[1]
DOSES = {"normal": dose.NORMAL, "full": dose.FULL, "quick": dose.QUICK, "tiny": dose.TINY}


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--full", dest="dose", action="store_const", const="full", help="up to 1,000,000 messages, 1 GB"
    )
    parser.add_argument(
        "--quick", dest="dose", action="store_const", const="quick", help="a few minutes, rough figures"
    )
    parser.add_argument(
        "--tiny", dest="dose", action="store_const", const="tiny", help="seconds; the figures mean nothing"
    )
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--only", default="", metavar="NAME", help="only the measurements whose name begins so")
    parser.add_argument("--no-peers", action="store_true", help="leave other stores out")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure")
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmarks", help="where JSON and pictures go")
    parser.add_argument("--docs", action="store_true", help="write the table and the pictures into docs/ too")
    parser.set_defaults(dose="normal")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    chosen = options(arguments)
    amount = DOSES[chosen.dose]
    amount = replace(amount, rounds=chosen.rounds or amount.rounds, peers=amount.peers and not chosen.no_peers)
    about = report.machine(chosen.folder, amount.rounds)
    ledger = measure(amount, chosen.folder, chosen.only)
    found = rows(ledger, amount)
    chosen.out.mkdir(parents=True, exist_ok=True)
    report.write_json(chosen.out / "results.json", about, found, ledger)
    print(report.heading(about), report.table(found) + report.failures(ledger), sep="\n\n")
    if chosen.docs:
        report.write_docs(ROOT, about, found, ledger)
    if not chosen.only:
        picture(ROOT / "docs/images" if chosen.docs else chosen.out, ledger, amount)


def picture(folder: Path, ledger: Ledger, amount: dose.Dose) -> None:
    try:
        plots.draw_all(folder, ledger, amount)
    except ImportError:
        say("no pictures: pip install matplotlib")


if __name__ == "__main__":
    main()
