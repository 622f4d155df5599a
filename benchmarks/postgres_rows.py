"""PostgreSQL with 5,000,000 rows: one session of that many messages beside one of 1,000 in the same tables.

    python -m benchmarks.postgres_rows                    # 6 GB of disk, some minutes; --rows 100000 to try it out
    python -m benchmarks.postgres_rows --search           # index them all, too, and search them
    python -m benchmarks.postgres_rows --docs             # write the table into docs/benchmarks.md

Needs a server: `--url` (an empty database of a superuser's or owner's), or the tests' own, started for the run with its fsync on. The
server makes the rows out of 500 that plait wrote, each with an id of its own, so that its size is that of real messages.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg

import plait
from benchmarks import report
from benchmarks.ledger import Ledger, median, now, percentile, quiet_memory, timed
from benchmarks.postgres import PACKAGES, database, version
from benchmarks.run import say
from benchmarks.workload import conversation

ROOT = Path(__file__).parents[1]
SIZE: Final = 300
SEEDS: Final = 500
SHORT: Final = 1_000
CHUNK: Final = 250_000
HEADINGS: Final = ("what", "at 1,000 messages", "at {rows:,}", "slowest 1 % there", "the one over the other")

SEED = """CREATE TEMP TABLE seed AS SELECT row_number() OVER (ORDER BY key) - 1 AS place, m.* FROM plait.message AS m WHERE home = %s"""
FILL = """
WITH made AS MATERIALIZED (
  SELECT s.*, n, s.key / 4294967296 * 4294967296 + n AS place_in, substr(s.id, 1, 24) || lpad(to_hex(n), 12, '0') AS new_id
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n JOIN seed AS s ON s.place = n %% %(seeds)s::bigint
), ids AS (
  INSERT INTO plait.message_id (home, incarnation, id, key) SELECT home, %(incarnation)s::bigint, new_id, place_in FROM made
)
INSERT INTO plait.message (home, key, version, bytes, tokens, created_at, flags, format, role, id, body)
SELECT home, place_in, %(version)s::bigint + n, bytes, tokens, created_at + n, flags, format, role, new_id,
       convert_to(replace(convert_from(body, 'UTF8'), id, new_id), 'UTF8')
  FROM made ORDER BY n"""
SUMS = """
UPDATE plait.session AS s SET next_seq = %(rows)s::bigint + 1, leaf = leaf / 4294967296 * 4294967296 + %(rows)s::bigint,
       version = %(version)s::bigint + %(rows)s::bigint, messages = %(rows)s::bigint, bytes = t.bytes, tokens = t.tokens,
       path_messages = %(rows)s::bigint, path_bytes = t.bytes, path_tokens = t.tokens
  FROM (SELECT sum(bytes)::bigint AS bytes, sum(tokens)::bigint AS tokens FROM plait.message WHERE home = %(home)s) AS t
 WHERE s.home = %(home)s"""


def fill(url: str, session: str, rows: int) -> None:
    """Bring a session that plait wrote the first messages of to as many as asked for."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT home, incarnation, version FROM plait.session WHERE id = %s", (session,))
        home, incarnation, reached = found.fetchall()[0]
        connection.execute(SEED, (home,))
        given: dict[str, Any] = {"home": home, "incarnation": incarnation, "version": reached, "seeds": SEEDS}
        for first in range(SEEDS + 1, rows + 1, CHUNK):
            last = min(rows, first + CHUNK - 1)
            connection.execute(FILL, {**given, "first": first, "last": last})
            say(f"{last:,} rows")
        connection.execute(SUMS, {**given, "rows": rows})
        for table in ("message", "message_id", "session"):
            connection.execute(f"VACUUM (ANALYZE) plait.{table}".encode())


class Pair:
    """The long session and the short one, each doing each thing once in turn."""

    def __init__(self, sessions: plait.Sessions, names: dict[str, str], rows: int) -> None:
        self.chats = {length: sessions.session(name) for length, name in names.items()}
        self.rows = {"long": rows, "short": SHORT}
        self.ledger, self.dice = Ledger(), random.Random(17)
        self.taken: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def measure(self, times: int) -> Ledger:
        items = [item.native() for item in conversation(200, seed=6, size=SIZE)]
        with quiet_memory():
            for n in range(times):
                for length in self.dice.sample(sorted(self.chats), len(self.chats)):
                    self._on_the_end(length, items[n % len(items)])
            for n in range(max(1, times // 10)):
                for length in self.dice.sample(sorted(self.chats), len(self.chats)):
                    self._on_a_branch(length, items[n % len(items)])
        for length, chat in self.chats.items():
            count = min(100_000, self.rows[length])
            took = timed(partial(_read, chat, count))
            self.taken["history from the root, a message", length].append(took / count)
        for (what, length), figures in self.taken.items():
            self.ledger.note(what, length, median(figures))
            self.ledger.note(f"{what}, p99", length, percentile(figures, 0.99))
        return self.ledger

    def _middle(self, length: str) -> tuple[int, str]:
        """A message anywhere: its seq and its id."""
        seq = self.dice.randrange(1, self.rows[length])
        (there,) = self.chats[length].transcript(after_seq=seq - 1, limit=1)
        return seq, there.id

    def _on_the_end(self, length: str, message: Any) -> None:
        chat, (seq, id) = self.chats[length], self._middle(length)
        self._time("append", length, lambda: chat.append(message))
        self._time("last 20", length, lambda: _is(20, len(chat.recent(count=20).messages)))
        self._time("a message by its id", length, lambda: chat.get(id))
        page = partial(chat.transcript, after_seq=seq, limit=100)
        self._time("100 from the middle", length, lambda: _is(100, len(list(page())), most=True))
        self._time("totals", length, chat.totals)

    def _on_a_branch(self, length: str, message: Any) -> None:
        chat, (_, id), leaf = self.chats[length], self._middle(length), self.chats[length].leaf()
        assert leaf is not None
        self._time("a branch in the middle", length, lambda: chat.append(message, parent=id))
        self._time("checkout of the end", length, lambda: chat.checkout(leaf.id))
        self._time("the first last 20 after it", length, lambda: _is(20, len(chat.recent(count=20).messages)))

    def _time(self, what: str, length: str, work: Callable[[], object]) -> None:
        self.taken[what, length].append(timed(work))

    def search(self, sessions: plait.Sessions, times: int) -> None:
        """Index everything, then find words in both."""
        start = now()
        done = sessions.build_search_index(
            progress=lambda done, left: say(f"indexed {done:,}") if done % 100_000 == 0 else None
        )
        self.ledger.note("index, a message", "long", (now() - start) / max(1, done))
        for n in range(times):
            word = ("parenthesized", "metaclass", "traceback", "object", "expression")[n % 5]
            for length in self.dice.sample(sorted(self.chats), len(self.chats)):
                self.taken["search, newest first", length].append(
                    timed(partial(self.chats[length].search, word, newest_first=True))
                )
        for length in self.chats:
            figures = self.taken["search, newest first", length]
            self.ledger.note("search, newest first", length, median(figures))
            self.ledger.note("search, newest first, p99", length, percentile(figures, 0.99))


def _is(wanted: int, found: int, *, most: bool = False) -> None:
    assert found == wanted or (most and found < wanted), found


def _read(chat: plait.Session, count: int) -> None:
    _is(count, sum(1 for _ in islice(chat.history(), count)))


def measure(url: str, rows: int, times: int, *, search: bool) -> Ledger:
    names = {"long": f"long {uuid4()}", "short": f"short {uuid4()}"}
    items = [item.native() for item in conversation(SEEDS, seed=4, size=SIZE)]
    with plait.open(url) as sessions:
        sessions.session(names["short"]).append_many([items[n % SEEDS] for n in range(SHORT)])
        sessions.session(names["long"]).append_many(items)
    start = now()
    fill(url, names["long"], rows)
    took = now() - start
    with plait.open(url) as sessions:
        pair = Pair(sessions, names, rows)
        assert pair.chats["long"].totals().messages == rows
        pair.measure(times)
        pair.ledger.note("fill", "long", (rows - SEEDS) / took)
        if search:
            pair.search(sessions, times)
        return pair.ledger


def lines(ledger: Ledger) -> Iterator[tuple[str, ...]]:
    for what in ledger.figures:
        if what.endswith(", p99") or what == "fill":
            continue
        (long,), short = ledger.values(what, "long"), ledger.values(what, "short")
        slowest = ledger.values(f"{what}, p99", "long")
        over = f"{long / short[0]:.2g} ×" if short else ""
        yield what, _ms(short), _ms([long]), _ms(slowest), over


def _ms(values: list[float]) -> str:
    return f"{values[0] * 1e3:,.3g} ms" if values else ""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres_rows", description=__doc__)
    parser.add_argument("--url", help="a database that may be written to")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--times", type=int, default=200, help="how often each thing is done")
    parser.add_argument("--search", action="store_true", help="index and search them, too")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md too")
    asked = parser.parse_args(arguments)
    about = report.machine(Path(tempfile.gettempdir()), 1, PACKAGES)
    with database(asked.url) as url:
        about["packages"]["PostgreSQL"] = version(url)
        ledger = measure(url, asked.rows, asked.times, search=asked.search)
    head = tuple(word.format(rows=asked.rows) for word in HEADINGS)
    filled = f"The server made {ledger.values('fill', 'long')[0]:,.0f} rows a second."
    told = f"{report.heading(about)} {filled}\n\n{report.aligned([head, *lines(ledger)])}"
    print(told)
    if asked.docs:
        report.put(ROOT, "rows", told)


if __name__ == "__main__":
    main()
