"""How a LangGraph thread of 1 KB + 1 KB turns grows on disk, and what a put costs, beside LangGraph's own saver.

    python -m benchmarks.langgraph_growth                 # --turns 400; LangGraph's saver writes 600 MB
    python -m benchmarks.langgraph_growth --docs          # write the table and the picture into docs/ too

Both savers wait for the disk at each commit. A saver that is not installed is named as absent.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import string
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import plots, report
from benchmarks.ledger import median, now
from benchmarks.run import say

ROOT = Path(__file__).parents[1]
TEXT: Final = 1024
MARKS: Final = (25, 100, 400)
HEADINGS: Final = ("saver", "turns", "bytes on disk", "× the text", "a put", "a put, CPU")
PACKAGES: Final = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite", "apsw", "msgspec")


@dataclass(slots=True)
class Growth:
    """What a saver was like after each turn."""

    sizes: list[int] = field(default_factory=list[int])
    """Bytes of the database, its log counted in."""
    puts: list[float] = field(default_factory=list[float])
    """Seconds that a put took, the median of its turn."""
    cpu: list[float] = field(default_factory=list[float])
    """Seconds of CPU, likewise."""


@contextmanager
def on_plait(path: str) -> Iterator[Any]:
    import plait
    from plait.adapters.langgraph import PlaitSaver

    with plait.open(path) as sessions:
        yield PlaitSaver(sessions)


@contextmanager
def on_sqlite(path: str) -> Iterator[Any]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
        saver.conn.execute("PRAGMA synchronous = FULL")
        yield saver


SAVERS: Final[dict[str, Callable[[str], Any]]] = {"plait": on_plait, "SqliteSaver": on_sqlite}


def text(chance: random.Random) -> str:
    return "".join(chance.choices(string.ascii_letters + "      ", k=TEXT))


def measure(make: Callable[[str], Any], turns: int) -> Growth:
    """A thread of a graph with one node, turn by turn."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    chance, growth, puts = random.Random(1), Growth(), list[tuple[float, float]]()
    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [AIMessage(text(chance))]})
    graph.add_edge(START, "agent")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "thread.db")
        with make(path) as saver:
            saver.put = timed(saver.put, puts)
            app = graph.compile(checkpointer=saver)
            for _ in range(turns):
                puts.clear()
                app.invoke({"messages": [("user", text(chance))]}, {"configurable": {"thread_id": "t"}})
                growth.sizes.append(size_of(path))
                growth.puts.append(median([wall for wall, _ in puts]))
                growth.cpu.append(median([cpu for _, cpu in puts]))
    return growth


def size_of(path: str) -> int:
    """The bytes of a database with its log, as one who opens it sees them."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        count, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(count * size)
    finally:
        database.close()


def timed(put: Callable[..., Any], puts: list[tuple[float, float]]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        start, busy = now(), time.process_time()
        answer = put(*given)
        puts.append((now() - start, time.process_time() - busy))
        return answer

    return call


def lines(growths: dict[str, Growth | str], turns: int) -> Iterator[tuple[str, ...]]:
    """The table: each saver at some lengths, the time of a put being the median of the tenth of the turns before."""
    for name, growth in growths.items():
        if isinstance(growth, str):
            yield (name, "", growth, "", "", "")
            continue
        for mark in sorted({mark for mark in MARKS if mark < turns} | {turns}):
            size, near = growth.sizes[mark - 1], slice(max(0, mark - max(10, turns // 10)), mark)
            wall, cpu = (f"{median(times[near]) * 1e3:.1f} ms" for times in (growth.puts, growth.cpu))
            yield name, str(mark), f"{size / 1e6:,.2f} MB", f"{size / (2 * TEXT * mark):.1f}", wall, cpu


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.langgraph_growth", description=__doc__)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--docs", action="store_true", help="write the table and the picture into docs/ too")
    asked = parser.parse_args(arguments)
    growths: dict[str, Growth | str] = {}
    for name, make in SAVERS.items():
        try:
            growths[name] = measure(make, asked.turns)
        except ImportError as absent:
            growths[name] = f"absent: {absent}"
        say(name)
    about = report.machine(Path(tempfile.gettempdir()), 1, PACKAGES)
    told = f"{report.aligned([HEADINGS, *lines(growths, asked.turns)])}\n\n{report.heading(about)}"
    print(told)
    if asked.docs:
        report.put(ROOT, "growth", told)
        measured = {name: growth for name, growth in growths.items() if isinstance(growth, Growth)}
        plots.growth(ROOT / "docs/images/langgraph-growth.svg", measured, 2 * TEXT)


if __name__ == "__main__":
    main()
