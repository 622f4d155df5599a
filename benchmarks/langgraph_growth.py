"""How much a LangGraph thread of 1 KB + 1 KB turns takes on disk, and what a put costs, beside LangGraph's own saver.

    python -m benchmarks.langgraph_growth [TURNS ...]

Both savers wait for the disk at each commit. A saver that is not installed is named as absent.
"""

from __future__ import annotations

import os
import random
import statistics
import string
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TEXT = 1024


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


SAVERS: dict[str, Callable[[str], Any]] = {"plait": on_plait, "SqliteSaver": on_sqlite}


def text(chance: random.Random) -> str:
    return "".join(chance.choices(string.ascii_letters + "      ", k=TEXT))


def measure(make: Callable[[str], Any], turns: int) -> tuple[int, float, float]:
    """Bytes on disk after as many turns, and the median of a put in its first and last tenth, in ms."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    chance, puts = random.Random(1), list[float]()
    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [AIMessage(text(chance))]})
    graph.add_edge(START, "agent")
    with tempfile.TemporaryDirectory() as folder:
        with make(os.path.join(folder, "thread.db")) as saver:
            saver.put = timed(saver.put, puts)
            app = graph.compile(checkpointer=saver)
            for _ in range(turns):
                app.invoke({"messages": [("user", text(chance))]}, {"configurable": {"thread_id": "t"}})
        size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    part = max(1, len(puts) // 10)
    return size, statistics.median(puts[:part]) * 1000, statistics.median(puts[-part:]) * 1000


def timed(put: Callable[..., Any], puts: list[float]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        start = time.perf_counter()
        answer = put(*given)
        puts.append(time.perf_counter() - start)
        return answer

    return call


def main() -> None:
    print(
        "| saver | turns | bytes on disk | × the text | put, first tenth | put, last tenth |\n|---|---|---|---|---|---|"
    )
    for turns in [int(argument) for argument in sys.argv[1:]] or [100, 400]:
        for name, make in SAVERS.items():
            try:
                size, first, last = measure(make, turns)
            except ImportError as absent:
                print(f"| {name} | {turns} | absent: {absent} | | | |")
                continue
            share = size / (2 * TEXT * turns)
            print(f"| {name} | {turns} | {size:,} | {share:.1f} | {first:.1f} ms | {last:.1f} ms |", flush=True)


if __name__ == "__main__":
    main()
