"""The tree of a file's entries by place: who is whose parent, and an order with parents first.

Ids and places live in a private temporary database, so that a file of any length is put in order
in bounded memory (some 20 bytes an entry when lines are shuffled, 8 otherwise).
"""

from __future__ import annotations

import heapq
import sqlite3
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE entry (
    n INTEGER PRIMARY KEY, key TEXT UNIQUE, id TEXT, parent TEXT,
    line INTEGER, at INTEGER, size INTEGER, apart INTEGER, guessed INTEGER);
BEGIN;
"""

Fault = Callable[[int, str], None]
"""Told of an entry whose place is not as the file says: its line, and why."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One entry in order: its id, its parent's id, and where its content is."""

    id: str
    parent: str | None
    line: int
    at: int
    size: int


class Index:
    """Entries are added as they are found, `arrange` is called once, then `slots` gives the order.

    A key is how entries of the file name each other; an id is what the entry is to be called.
    Hidden entries have a place but no content: their children go to their parent.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._db.close)
        self._db.executescript(_SCHEMA)
        self._hidden = bytearray()
        self._rank = array("q")
        self._up = array("q")
        self._order: Sequence[int] = ()
        self._chained = False

    def __len__(self) -> int:
        """How many entries there are to read."""
        return len(self._hidden) - sum(self._hidden)

    def add(
        self,
        key: str,
        parent: str | None,
        *,
        line: int,
        at: int = 0,
        size: int = 0,
        id: str | None = None,
        rank: int | None = None,
        hidden: bool = False,
        guessed: bool = False,
        apart: bool = False,
    ) -> bool:
        """Put an entry after the others; false if its key is taken (a guessed one gives way).

        `rank` orders entries where the file says more than their sequence does. `apart` marks
        entries that `chain` leaves alone.
        """
        n = len(self._hidden)
        row = (n, key, key if id is None else id, parent, line, at, size, apart, guessed)
        try:
            self._db.execute("INSERT INTO entry VALUES (?,?,?,?,?,?,?,?,?)", row)
        except sqlite3.IntegrityError:
            if guessed or not self._give_way(key):
                return False
            self._db.execute("INSERT INTO entry VALUES (?,?,?,?,?,?,?,?,?)", row)
        self._hidden.append(hidden)
        self._rank.append(n if rank is None else rank)
        return True

    def _give_way(self, key: str) -> bool:
        """Take the key from a guessed entry, if that has it."""
        return self._db.execute("UPDATE entry SET key = NULL WHERE key = ? AND guessed", (key,)).rowcount > 0

    def chain(self) -> None:
        """Make each entry (but those apart) the child of the one before: for files that name no parents.

        Takes effect in `arrange`.
        """
        self._chained = True

    def arrange(self, fault: Fault, *, continues: bool = False) -> None:
        """Find every entry's parent and the order; what does not fit becomes a root and goes to `fault`.

        With `continues`, parents that are not there are taken to be where the entries go.
        """
        missing, before = -2 if continues else -1, -1
        query = (
            "SELECT e.line, e.parent, p.n, e.apart OR e.guessed"
            " FROM entry e LEFT JOIN entry p ON p.key = e.parent ORDER BY e.n"
        )
        for n, (line, parent, up, apart) in enumerate(self._db.execute(query)):
            if self._chained and not apart:
                self._up.append(before)
                before = n
                continue
            if parent is not None and up is None and not continues:
                fault(line, f"names the parent {parent!r:.80}, which is not in the file; kept as a root")
            if up == n:
                fault(line, "names itself as its parent; kept as a root")
                up = None
            self._up.append(up if up is not None else -1 if parent is None else missing)
        self._order = self._sorted(fault)
        self._see_through()

    def slots(self) -> Iterator[Slot]:
        """The entries with content, parents before children, otherwise as they came."""
        last, last_id = -1, ""
        for n in self._order:
            if self._hidden[n]:
                continue
            id, named, line, at, size = self._db.execute(
                "SELECT id, parent, line, at, size FROM entry WHERE n = ?", (n,)
            ).fetchone()
            up = self._up[n]
            parent = named if up == -2 else None if up < 0 else last_id if up == last else self._id(up)
            yield Slot(id, parent, line, at, size)
            last, last_id = n, id

    def visible(self, key: str | None) -> str | None:
        """The id of the entry with this key, or of its nearest ancestor that has content."""
        row = self._db.execute("SELECT n FROM entry WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        n = int(row[0])
        n = self._up[n] if self._hidden[n] else n
        return self._id(n) if n >= 0 else None

    def ranks_repeat(self) -> bool:
        """Whether two entries have the same rank."""
        rises = all(a < b for a, b in zip(self._rank, self._rank[1:], strict=False))
        return not rises and len(set(self._rank)) < len(self._rank)

    def _id(self, n: int) -> str:
        return str(self._db.execute("SELECT id FROM entry WHERE n = ?", (n,)).fetchone()[0])

    def _sorted(self, fault: Fault) -> Sequence[int]:
        up, rank = self._up, self._rank
        count = len(up)
        if all(up[n] < n for n in range(count)) and all(rank[n - 1] < rank[n] for n in range(1, count)):
            return range(count)
        first, after = self._children()
        ready = [(rank[n], n) for n in range(count) if up[n] < 0]
        heapq.heapify(ready)
        order, done, look = array("q"), bytearray(count), 0
        while True:
            while ready:
                n = heapq.heappop(ready)[1]
                if done[n]:
                    continue
                done[n] = 1
                order.append(n)
                child = first[n]
                while child >= 0:
                    heapq.heappush(ready, (rank[child], child))
                    child = after[child]
            look = done.find(0, look)
            if look < 0:
                return order
            ready.append(self._opened(look, fault))

    def _children(self) -> tuple[array[int], array[int]]:
        """For each entry its first child, and for each the next one of the same parent."""
        count = len(self._up)
        first, after = array("q", [-1]) * count, array("q", [-1]) * count
        for n in range(count - 1, -1, -1):
            if self._up[n] >= 0:
                after[n], first[self._up[n]] = first[self._up[n]], n
        return first, after

    def _opened(self, n: int, fault: Fault) -> tuple[int, int]:
        """Cut the cycle that `n` leads up to at its first entry, which becomes a root."""
        seen: set[int] = set()
        while n not in seen:
            seen.add(n)
            n = self._up[n]
        cut, at = n, self._up[n]
        while at != n:
            cut, at = min(cut, at), self._up[at]
        line = self._db.execute("SELECT line FROM entry WHERE n = ?", (cut,)).fetchone()[0]
        fault(line, "is its own ancestor; the circle was opened here, and it is kept as a root")
        self._up[cut] = -1
        return self._rank[cut], cut

    def _see_through(self) -> None:
        """Let parents be entries with content; the order has parents first, so one step is enough."""
        if not any(self._hidden):
            return
        for n in self._order:
            up = self._up[n]
            if up >= 0 and self._hidden[up]:
                self._up[n] = self._up[up]
