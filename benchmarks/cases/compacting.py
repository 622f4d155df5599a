"""Long conversations under compaction: the vendor's measured session, what the gate of each append costs, and reads."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import apsw

import plait
from benchmarks import overlays
from benchmarks.cases import Bench
from benchmarks.ledger import median, now, quiet_memory

WINDOW_TOKENS: Final = 8_000
QUESTION_CHARS, ANSWER_CHARS = 100, 600
MARKS: Final = 4
"""The session is looked at after each quarter of its turns."""


def sized(start: str, size: int) -> str:
    """Words of exactly so many characters."""
    return (start + " the part number and what is known of its place" * (size // 40 + 1))[:size]


def tag(turn: int) -> str:
    """A word that only this turn holds."""
    return f"turn{turn:05}x"


@dataclass
class Summarizer:
    """Answers with some of what it was given, always the same for the same; counts what it was asked."""

    calls: int = 0
    largest: int = 0

    def __call__(self, prompt: str) -> str:
        self.calls += 1
        self.largest = max(self.largest, len(prompt))
        lines = [line[:60] for line in prompt.splitlines() if "turn" in line]
        return "Goal: find the part. Facts: " + " | ".join(lines[-20:])


class LongSession:
    """800 turns of a 100-character question and a 600-character answer, a window of 8,000 tokens.

    Reported after 200, 400, 600 and 800 turns: tokens of the view, bytes of the database, time of a turn. Checked:
    the view is within the window after every turn, every message can be read as it was and found by its words.
    """

    name = "long session"

    async def prepare(self, bench: Bench) -> None:
        self._round = 0

    async def round(self, bench: Bench) -> None:
        self._round += 1
        path = bench.folder / f"long-{self._round}.db"
        summarizer = Summarizer()
        with plait.open(path, durability="process") as sessions:
            chat = sessions.session("chat")
            chat.on_compaction(plait.compact_function(summarizer))
            chat.compact_after(window_tokens=WINDOW_TOKENS)
            largest = self._converse(bench, str(path), chat)
            log = path.with_name(path.name + "-wal").stat().st_size
            self._check(chat, bench.dose.turns)
        for measure, value in (
            ("largest view", largest),
            ("summarizer calls", summarizer.calls),
            ("largest prompt", summarizer.largest),
            ("log", log),
            ("closed file", path.stat().st_size),
        ):
            bench.ledger.note(f"long session, {measure}", "plait", value)

    def _converse(self, bench: Bench, path: str, chat: plait.Session) -> int:
        """Have the conversation, noting what it comes to at each mark; the largest view after any turn."""
        largest, turns = 0, bench.dose.turns
        quarter = turns // MARKS
        start = now()
        for turn in range(1, turns + 1):
            chat.append(plait.user(sized(f"Question of {tag(turn)}:", QUESTION_CHARS), id=f"q{turn}"))
            chat.append(plait.assistant(sized(f"Answer of {tag(turn)}:", ANSWER_CHARS), id=f"a{turn}"))
            view = chat.totals().view_tokens
            assert view <= WINDOW_TOKENS, f"the view has {view} tokens after turn {turn}"
            assert chat.compaction_state().paused is None
            largest = max(largest, view)
            if turn % quarter == 0:
                figures = {"time": (now() - start) / quarter, "tokens": view, "bytes": pages(path)}
                figures["shown"] = sum(1 for _ in chat.history(for_model=True))
                for measure, value in figures.items():
                    bench.ledger.note(f"long session, {measure} at {turn}", "plait", value)
                start = now()
        return largest

    def _check(self, chat: plait.Session, turns: int) -> None:
        """Every message is there as it was given, and is found by the word that only its turn holds."""
        texts = [message.text for message in chat.transcript() if isinstance(message, plait.Message)]
        given = [
            sized(f"{who} of {tag(turn)}:", size)
            for turn in range(1, turns + 1)
            for who, size in (("Question", QUESTION_CHARS), ("Answer", ANSWER_CHARS))
        ]
        assert texts == given
        for turn in range(1, turns + 1):
            assert {hit.id for hit in chat.search(tag(turn))} == {f"q{turn}", f"a{turn}"}, turn

    async def finish(self) -> None:
        pass


def pages(path: str) -> int:
    """The bytes of a database with its log, as one who opens it sees them."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        count, size = (int(connection.pragma(name)) for name in ("page_count", "page_size"))
        return count * size
    finally:
        connection.close()


class Gate:
    """An append with automatic compaction switched on and never due, beside one without, and a long transcript below."""

    name = "compaction gate"

    async def prepare(self, bench: Bench) -> None:
        self._sessions = plait.open(bench.folder / "gate.db", durability="process")
        self._sessions.open()
        self._chats: dict[str, plait.Session] = {}
        for subject in ("without", "with"):
            chat = self._sessions.session(subject)
            chat.append_many([plait.user(sized("Earlier:", 300)) for _ in range(bench.dose.gate)])
            self._chats[subject] = chat
        self._chats["with"].on_compaction(plait.compact_function(lambda prompt: "never asked"))
        self._chats["with"].compact_after(1 << 40)

    async def round(self, bench: Bench) -> None:
        taken: defaultdict[str, list[float]] = defaultdict(list)
        message = plait.user(sized("Now:", 300))
        with quiet_memory():
            for _ in range(bench.dose.lone):
                for subject in bench.dice.sample(sorted(self._chats), len(self._chats)):
                    start = time.process_time()
                    self._chats[subject].append(message)
                    taken[subject].append(time.process_time() - start)
        for subject, times in taken.items():
            bench.ledger.note("gate", subject, median(times))

    async def finish(self) -> None:
        self._sessions.close()


class UnderOverlays:
    """Reads of one session with no overlay, with one and with a hundred side by side; CPU time."""

    name = "reads under overlays"

    async def prepare(self, bench: Bench) -> None:
        self._sessions = plait.open(bench.folder / "overlays.db", durability="process")
        self._sessions.open()
        self._chats = {count: overlays.made(self._sessions, count) for count in overlays.COUNTS}

    async def round(self, bench: Bench) -> None:
        taken: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        with quiet_memory():
            for _ in range(bench.dose.overlay_reads):
                for name, read in overlays.READS.items():
                    for count in bench.dice.sample(overlays.COUNTS, len(overlays.COUNTS)):
                        taken[name, count].append(overlays.cpu(read, self._chats[count]))
        for (name, count), times in taken.items():
            bench.ledger.note(f"overlays, {name}", str(count), median(times))

    async def finish(self) -> None:
        self._sessions.close()


MEASURES: Final[dict[str, tuple[str, str, float]]] = {
    "tokens": ("tokens of the view", "tokens", 1),
    "bytes": ("bytes of the database", "KB", 1e-3),
    "time": ("time of a turn", "ms", 1e3),
}


def marks(turns: int) -> list[int]:
    """After which turns the long session is looked at."""
    return [turns // MARKS * n for n in range(1, MARKS + 1)]
