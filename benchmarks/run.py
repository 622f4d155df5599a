"""A run: every measurement in each round, in random order, in one process on one machine."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks.cases import Bench, Case
from benchmarks.cases.compacting import Gate, LongSession, UnderOverlays
from benchmarks.cases.crowd import Crowd
from benchmarks.cases.lengths import Lengths
from benchmarks.cases.loading import Holding, Loading
from benchmarks.cases.lone import Lone
from benchmarks.cases.searching import Searching
from benchmarks.cases.sizes import Disk, Importing, Memory
from benchmarks.dose import Dose
from benchmarks.ledger import Ledger, now
from benchmarks.peers import PEERS, missing
from benchmarks.subjects import RawInsertOrjson

CASES: tuple[type[Case], ...] = (
    Lone, Crowd, Lengths, Loading, Holding, Disk, Memory, Importing, LongSession, Gate, UnderOverlays, Searching,
)  # fmt: skip


def measure(dose: Dose, folder: Path, only: str = "") -> Ledger:
    """The figures of all rounds; `only` picks the measurements whose name begins so."""
    return run([kind() for kind in CASES if kind.name.startswith(only)], Bench(folder, dose, Ledger()), _absent)


async def _absent(bench: Bench) -> dict[str, str]:
    if bench.dose.peers:
        return await missing(bench.folder)
    left_out = {kind.name: "left out (--no-peers)" for kind in PEERS}  # not even imported, which takes seconds
    return await missing(bench.folder, [RawInsertOrjson]) | left_out


def run(cases: Sequence[Case], bench: Bench, absent: Callable[[Bench], Awaitable[dict[str, str]]]) -> Ledger:
    """The figures of all rounds of some measurements; `absent` says which peers are not there, and why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the peers say about each other
        return asyncio.run(_run(cases, bench, absent))


async def _run(cases: Sequence[Case], bench: Bench, absent: Callable[[Bench], Awaitable[dict[str, str]]]) -> Ledger:
    with tempfile.TemporaryDirectory(dir=bench.folder, prefix="plait-bench-", ignore_cleanup_errors=True) as folder:
        bench.folder = Path(folder)
        bench.ledger.absent = await absent(bench)
        for case in cases:
            say(f"preparing: {case.name}")
            await case.prepare(bench)
        for number in range(bench.dose.rounds):
            for case in bench.dice.sample(cases, len(cases)):
                start = now()
                await case.round(bench)
                say(f"round {number + 1} of {bench.dose.rounds}: {case.name}, {now() - start:.1f} s")
        for case in cases:
            await case.finish()
    return bench.ledger


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
