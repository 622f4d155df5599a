"""What a run says: a table for people, JSON for machines."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import apsw

from benchmarks.goals import Row
from benchmarks.ledger import Ledger, median, now

HEADINGS: Final = ("what", "goal", "measured: median (least – most)", "met")
PACKAGES: Final = ("apsw", "msgspec", "orjson", "openai-agents", "SQLAlchemy", "langchain-community", "google-adk")
PARTS: Final = {
    "measured": ("docs/benchmarks.md", "python -m benchmarks"),
    "million": ("docs/benchmarks.md", "python -m benchmarks.million"),
    "frameworks": ("docs/benchmarks.md", "python -m benchmarks.frameworks"),
    "postgres": ("docs/benchmarks.md", "python -m benchmarks.postgres"),
    "rows": ("docs/benchmarks.md", "python -m benchmarks.postgres_rows"),
    "recall": ("docs/explanation/search.md", "python -m benchmarks.recall"),
    "growth": ("docs/howto/langgraph.md", "python -m benchmarks.langgraph_growth"),
}
"""The parts of the documentation that are measured: the page, and the command that writes the part."""


def marks(part: str) -> tuple[str, str]:
    """The lines around such a part."""
    return f"<!-- {part}: written by `{PARTS[part][1]} --docs` -->", f"<!-- end of {part} -->"


def machine(folder: Path, rounds: int, packages: Sequence[str] = PACKAGES) -> dict[str, Any]:
    """What was measured on, so that figures are not taken for another machine's."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "sqlite": apsw.sqlite_lib_version(),
        "fsync_us": round(_fsync_s(folder) * 1e6),
        "load": round(os.getloadavg()[0], 1),
        "rounds": rounds,
        "day": datetime.now(timezone.utc).date().isoformat(),
        "packages": {name: found for name in packages if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _fsync_s(folder: Path, count: int = 60) -> float:
    """What it takes here to have 4 KiB on the disk."""
    taken: list[float] = []
    with tempfile.NamedTemporaryFile(dir=folder, prefix="fsync-", buffering=0) as file:
        for _ in range(count):
            start = now()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            taken.append(now() - start)
    return median(taken)


def cells(row: Row) -> tuple[str, str, str, str]:
    """A row of the table."""
    spread = row.spread
    if spread is None:
        return row.what, row.goal, row.note, "–"
    figure = f"{_figure(spread.median)} {row.unit} ({_figure(spread.least)} – {_figure(spread.most)})"
    return row.what, row.goal, figure, {True: "yes", False: "NO", None: ""}[row.met]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    return aligned([HEADINGS, *(cells(row) for row in rows)])


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """A heading and lines as a table of Markdown, columns aligned."""
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    text = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    rule = " | ".join("-" * width for width in widths)
    return "\n".join(f"| {line} |" for line in [text[0], rule, *text[1:]])


def heading(about: dict[str, Any]) -> str:
    """A sentence about the machine."""
    packages = ", ".join(f"{name} {found}" for name, found in about["packages"].items())
    return (
        f"Measured {about['day']}, {about['rounds']} rounds: Python {about['python']}, SQLite {about['sqlite']}, "
        f"{about['system']}, {about['cpus']} CPUs, an fsync of 4 KiB takes {about['fsync_us']} µs, "
        f"a load of {about['load']} before it began. {packages}."
    )


def failures(ledger: Ledger) -> str:
    """A sentence about the appends of others that failed, nothing if none did."""
    told = [f"{name} {count} ({error})" for (name, error), count in sorted(ledger.failed.items())]
    return f"\n\nAppends that failed, of many callers, and are not counted: {', '.join(told)}." if told else ""


def write_json(path: Path, about: dict[str, Any], rows: list[Row], ledger: Ledger) -> None:
    whole = {
        "machine": about,
        "absent": ledger.absent,
        "failed": failures(ledger).strip(),
        "rows": [row.to_json() for row in rows],
        **ledger.to_json(),
    }
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_docs(root: Path, about: dict[str, Any], rows: list[Row], ledger: Ledger) -> None:
    """Put the table into its page, between its marks."""
    put(root, "measured", f"{heading(about)}\n\n{table(rows)}{failures(ledger)}")


def put(root: Path, part: str, text: str) -> None:
    """Write a part of the documentation anew; what is around it stays."""
    page, (begin, end) = root / PARTS[part][0], marks(part)
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{page} has no part {part!r}: put the lines {begin} and {end} into it")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
