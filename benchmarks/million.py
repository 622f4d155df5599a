"""Search on a session of 1,000,000 messages: how fast it is indexed, what an append costs, how soon it answers.

    python -m benchmarks.million                          # makes the session first: some minutes, 2 GB of disk
    python -m benchmarks.million --store FILE             # copies one that is there already; it is not changed
    python -m benchmarks.million --messages 20000         # to try it out
    python -m benchmarks.million --docs                   # write the table into docs/benchmarks.md

Two stores with the same messages, the one without an index, the other indexed while the clock runs. Then the same
message goes to each in turns, and the second is searched.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import apsw

import plait
from benchmarks import report
from benchmarks.cases.lengths import SIZE
from benchmarks.cases.searching import QUERIES
from benchmarks.goals import Row
from benchmarks.ledger import Ledger, median, now, percentile, quiet_memory, timed
from benchmarks.run import say
from benchmarks.workload import Item, conversation

ROOT = Path(__file__).parents[1]
BATCH: Final = 500
BEHIND: Final = 64
"""So many messages are appended between two searches whose price is compared."""
SEARCHES: Final = {("rare", True): 200, ("common", True): 200, ("rare", False): 40, ("common", False): 20}
"""How often each kind of query is asked, newest first or not, in a round of appends."""
WITHOUT = """
DELETE FROM search_on; DELETE FROM search_behind; DELETE FROM search_progress; DELETE FROM search_pending;
INSERT INTO message_words (message_words) VALUES ('delete-all');
"""
"""Takes the index away, as if nobody had ever searched: a build anew would switch it on again."""


def made(path: Path, session: str, messages: int, items: list[Item]) -> None:
    """A store with one session that nobody has searched."""
    with plait.open(path, durability="process") as sessions:
        chat = sessions.session(session)
        for at in range(0, messages, BATCH):
            chat.append_many([item.native() for item in _some(items, at, min(BATCH, messages - at))])


def _some(items: list[Item], at: int, count: int) -> Iterator[Item]:
    return (items[n % len(items)] for n in range(at, at + count))


def copied(source: Path, path: Path) -> None:
    with plait.open(source, read_only=True) as sessions:
        sessions.backup(path)


def without_index(path: Path) -> None:
    with plait.open(path) as sessions:
        sessions.list(limit=1)  # a file of an earlier version is migrated
    database = apsw.Connection(str(path))
    database.execute(WITHOUT)
    database.close()


class Million:
    """One run: what is measured goes into the ledger."""

    def __init__(self, off: plait.Sessions, on: plait.Sessions, session: str, rounds: int, each: int) -> None:
        self.off, self.on, self.rounds, self.each = off.session(session), on.session(session), rounds, each
        self.ledger, self.dice = Ledger(), random.Random(13)
        self.items = conversation(max(each, BEHIND), seed=6, size=SIZE)

    def backfill(self, sessions: plait.Sessions) -> None:
        """Index everything, noting the rate of the whole, and of its first and last tenth."""
        steps: list[tuple[int, float, float]] = [(0, now(), time.process_time())]

        def progress(done: int, _left: int) -> None:
            steps.append((done, now(), time.process_time()))

        sessions.build_search_index(progress=progress)
        tenth = steps[-1][0] // 10
        first = next(step for step in steps if step[0] >= tenth)
        last = next(step for step in steps if step[0] >= steps[-1][0] - tenth)
        for what, (since, upto) in {
            "all": (steps[0], steps[-1]),
            "first tenth": (steps[0], first),
            "last tenth": (last, steps[-1]),
        }.items():
            done, wall, cpu = (b - a for a, b in zip(since, upto, strict=True))
            if done:
                self.ledger.note(f"backfill, {what}", "plait", done / wall)
                self.ledger.note(f"backfill, {what}, cpu", "plait", done / cpu)

    def round(self) -> None:
        with quiet_memory():
            self._appends()
            self._catching_up()

    def _appends(self) -> None:
        """The same messages, in turns, where nobody searched and where an index follows; then there after a search."""
        taken: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for item in self.items[: self.each]:
            for what in self.dice.sample(("off", "on"), 2):
                taken[what].append(_append(self.off if what == "off" else self.on, item))
        for item in self.items[: self.each]:
            self.on.search("parenthesized", newest_first=True)
            taken["after a search"].append(_append(self.on, item))
        for what, times in taken.items():
            self.ledger.note(f"append, {what}", "plait", median([wall for wall, _ in times]))
            self.ledger.note(f"append, {what}, cpu", "plait", median([cpu for _, cpu in times]))

    def _catching_up(self) -> None:
        """What the first search after some appends takes beyond the next one, for each of those messages."""
        over: list[float] = []
        for _ in range(5):
            self.on.append_many([item.native() for item in self.items[:BEHIND]])
            first, then = (_both(partial(self.on.search, "parenthesized", newest_first=True))[1] for _ in range(2))
            over.append(max(first - then, 0.0) / BEHIND)
        self.ledger.note("indexed later, cpu", "plait", median(over))

    def searches(self, share: float) -> None:
        """Each kind of query in both orders, in turns; the middle and the slowest hundredth."""
        taken: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        asked = [kind for kind, times in SEARCHES.items() for _ in range(max(1, int(times * share)))]
        for n, (kind, newest) in enumerate(self.dice.sample(asked, len(asked))):
            query = QUERIES[kind][n % len(QUERIES[kind])]
            taken[kind, newest].append(timed(partial(self.on.search, query, newest_first=newest)))
        for (kind, newest), times in taken.items():
            what = f"search {kind}, {'newest' if newest else 'best'} first"
            self.ledger.note(what, "plait", median(times))
            self.ledger.note(f"{what}, slowest 1 %", "plait", percentile(times, 0.99))


def _append(chat: plait.Session, item: Item) -> tuple[float, float]:
    return _both(partial(chat.append, item.native()))


def _both(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of CPU."""
    start, busy = now(), time.process_time()
    work()
    return now() - start, time.process_time() - busy


def measure(folder: Path, *, messages: int, store: Path | None, session: str, rounds: int, each: int) -> Ledger:
    """Everything, in a folder that is left as it was found."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="plait-million-") as inside:
        off, on = Path(inside) / "off.db", Path(inside) / "on.db"
        say("preparing")
        if store is None:
            made(off, session, messages, conversation(5_000, seed=5, size=SIZE))
        else:
            copied(store, off)
            without_index(off)
        copied(off, on)
        with plait.open(off, durability="process") as unsearched, plait.open(on, durability="process") as searched:
            run = Million(unsearched, searched, session, rounds, each)
            run.ledger.note("messages", "plait", run.on.totals().messages)
            say("indexing")
            run.backfill(searched)
            for number in range(rounds):
                run.round()
                run.searches(1 / rounds)
                say(f"round {number + 1} of {rounds}")
        return run.ledger


def rows(ledger: Ledger) -> Iterator[Row]:
    def values(measure: str, scale: float = 1.0) -> list[float]:
        return [value * scale for value in ledger.values(measure, "plait")]

    def over(measure: str, other: str) -> list[float]:
        return ledger.ratios(measure, "plait", "plait", other)

    whole = f"index {values('messages')[0]:,.0f} messages ({SIZE} B)"
    yield Row(whole, "≥", 10_000, "messages/s", values("backfill, all"))
    yield Row(f"{whole}, CPU time", "", 0, "messages/s", values("backfill, all, cpu"))
    for part in ("first tenth", "last tenth"):
        if found := values(f"backfill, {part}, cpu"):  # a short session is indexed in one step
            yield Row(f"{whole}: the {part}, CPU time", "", 0, "messages/s", found)
    what = "append where search follows, over one where nobody searched"
    yield Row(f"{what}, CPU time", "≤", 1.1, "×", over("append, on, cpu", "append, off, cpu"))
    yield Row(what, "", 0, "×", over("append, on", "append, off"))
    after = over("append, after a search, cpu", "append, off, cpu")
    yield Row("append right after a search, over the same, CPU time", "", 0, "×", after)
    later = "indexed later, by the next search, CPU time of a message"
    yield Row(later, "", 0, "µs", values("indexed later, cpu", 1e6))
    yield Row(f"{later}, over an append", "", 0, "×", over("indexed later, cpu", "append, off, cpu"))
    for kind, newest in SEARCHES:
        name = f"search {kind}, {'newest' if newest else 'best'} first"
        label = f"search for a {kind} word, 20 hits {'newest' if newest else 'best'} first"
        yield Row(label, "≤" if newest else "", 1, "ms", values(name, 1e3))
        yield Row(f"{label}: slowest 1 %", "", 0, "ms", values(f"{name}, slowest 1 %", 1e3))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path, help="a store that has such a session; it is copied")
    parser.add_argument("--session", default="chat", help="its id")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--each", type=int, default=200, help="appends of each kind, in a round")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md too")
    asked = parser.parse_args(arguments)
    about = report.machine(asked.folder, asked.rounds)
    ledger = measure(
        asked.folder,
        messages=asked.messages,
        store=asked.store,
        session=asked.session,
        rounds=asked.rounds,
        each=asked.each,
    )
    text = f"{report.heading(about)}\n\n{report.table(list(rows(ledger)))}"
    print(text)
    if asked.docs:
        report.put(ROOT, "million", text)


if __name__ == "__main__":
    main()
