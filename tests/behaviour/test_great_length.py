"""Great length: the cost of an append does not grow, and memory holds one window, not the session."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import plait
from plait.store.plan import Ask, Row
from plait.store.sqlite.executor import Executor, Writing
from tests.dose import dose

MIB = 1 << 20

STREAM = """
import resource, sys
limit = 300 * 1024 * 1024
import plait
from plait.interchange import import_file, whole_file, write_jsonl
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
path, mib, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
piece = "0123456789abcdef" * 65536  # 1 MiB
with plait.open(path, durability="process") as sessions:
    chat = sessions.session("big")
    for n in range(mib):
        chat.append({"id": f"m{n}", "role": "user", "parts": [{"type": "text", "text": f"{n}:" + piece}]})
    size = 0
    for n, message in enumerate(chat.history()):
        assert message.id == f"m{n}" and message.text.startswith(f"{n}:0123")
        size += message.bytes
    assert size > mib << 20
    for message in chat.history(newest_first=True):
        assert message.id == f"m{mib - 1}"
        break
    with whole_file(folder + "/big.jsonl") as file:
        assert write_jsonl(chat, file).messages == mib
    [report] = import_file(sessions, folder + "/big.jsonl", session_id="copy")
    assert report.result.inserted == mib, report
    sessions.delete("big")
    assert sum(message.bytes for message in sessions.session("copy").history()) == size
"""


@pytest.mark.timeout(500)
def test_a_session_larger_than_memory_streams_exports_and_imports(tmp_path: Path) -> None:
    """The address space may hold 300 MiB, whatever the session's size (B-082, B-084)."""
    mib = dose(short=64, soak=1024)
    command = [sys.executable, "-c", STREAM, str(tmp_path / "big.db"), str(mib), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_message_in_slices_is_read_without_holding_it_three_times(tmp_path: Path) -> None:
    """Its pieces as they are stored go while its text comes together: what is held is twice the message."""
    with plait.open(tmp_path / "large.db") as sessions:
        chat = sessions.session("large")
        chat.append(plait.user("word " * (16 * MIB // 5)))
        tracemalloc.start()
        (message,) = chat.history()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert isinstance(message, plait.Message)
    assert message.bytes < peak < 2.2 * message.bytes


@pytest.mark.timeout(500)
def test_an_append_to_a_long_session_runs_the_same_statements_as_to_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-087: the statements of one append, and the rows they write, do not depend on the length (speed: benchmarks)."""
    ran: list[str] = []
    run = Writing.__init__

    def spying(self: Writing, *args: object) -> None:
        run(self, *args)  # type: ignore[arg-type]
        self.connection.set_exec_trace(lambda cursor, sql, bindings: ran.append(sql) or True)

    monkeypatch.setattr(Writing, "__init__", spying)
    length = dose(short=100_000, soak=1_000_000)
    with plait.open(tmp_path / "long.db", durability="process") as sessions:
        chat = sessions.session("long")
        costs = []
        for size in (10, length):
            there = chat.totals().messages
            while there < size:
                batch = [plait.user("x") for _ in range(min(5000, size - there))]
                there += len(chat.append_many(batch))
            ran.clear()
            chat.append(plait.user("one more"))
            costs.append(list(ran))
        assert costs[0] == costs[1]
        assert len(list(chat.transcript(newest_first=True, limit=20))) == 20
        assert chat.totals().path_messages == length + 1


def test_a_listing_asks_nothing_of_the_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B-084: what the sessions hold does not matter to a listing with all its totals."""
    with plait.open(tmp_path / "a.db") as sessions:
        for n in range(20):
            sessions.session(f"s{n}").append(plait.user("x" * (MIB // 8)))
        asked: set[str] = set()
        ask = Executor.answers[Ask]

        def spying(self: Executor, step: Ask) -> list[Row]:
            asked.add(step.query)
            return ask(self, step)

        monkeypatch.setitem(Executor.answers, Ask, spying)
        assert sum(info.totals.bytes for info in sessions.all()) > 20 * MIB // 8
        assert asked == {"next_bucket", "sessions_in_bucket", "find_info"}
