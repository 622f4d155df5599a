"""What overlays cost a read: the same session with none, one and a hundred of them.

    python -m benchmarks.overlays

CPU time, medians, and their ratios to the session without overlays. The hundred are side by side, so that
each is shown; of overlays inside one another only the outermost is.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import plait

MESSAGES = 2000
ROUNDS = 40
COUNTS = (0, 1, 100)


def made(sessions: plait.Sessions, overlays: int) -> plait.Session:
    """A session whose overlays cover five messages each."""
    chat = sessions.session(f"with {overlays}")
    chat.append_many([plait.user(f"message {n} " + "words " * 40, id=f"m{n}") for n in range(MESSAGES)])
    for n in range(overlays):
        chat.add_overlay(f"m{n * 10 + 5}", f"m{n * 10 + 9}", summary=f"summary {n} " + "short " * 20)
    return chat


READS: dict[str, Callable[[plait.Session], Any]] = {
    "history": lambda chat: sum(1 for _ in chat.history()),
    "newest 20, lazily": lambda chat: list(islice(chat.history(newest_first=True), 20)),
    "recent(count=20)": lambda chat: chat.recent(count=20),
    "totals": lambda chat: chat.totals(),
    "transcript, newest 20": lambda chat: list(chat.transcript(newest_first=True, limit=20)),
}


def cpu(read: Callable[[plait.Session], Any], chat: plait.Session) -> float:
    start = time.process_time()
    read(chat)
    return time.process_time() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, plait.open(Path(folder) / "o.db", durability="process") as sessions:
        chats = {count: made(sessions, count) for count in COUNTS}
        for name, read in READS.items():
            taken: dict[int, list[float]] = {count: [] for count in COUNTS}
            for _ in range(ROUNDS):
                for count, chat in chats.items():
                    taken[count].append(cpu(read, chat))
            medians = {count: statistics.median(values) for count, values in taken.items()}
            told = "   ".join(
                f"{count}: {value * 1e6:8.0f} µs {value / medians[0]:5.2f} x" for count, value in medians.items()
            )
            print(f"{name:24} {told}")


if __name__ == "__main__":
    main()
