"""What things weigh: bytes on disk, memory of a stream, time of an import."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

import plait
from benchmarks.cases import Bench
from benchmarks.ledger import now
from benchmarks.peers import OpenAISQLite
from benchmarks.subjects import PlaitSync, RawInsert, Subject
from benchmarks.workload import Item, conversation

SOURCE = Path(plait.__file__).parents[1]


class Disk:
    """The closed file over the JSON that it holds."""

    name = "bytes on disk"

    async def prepare(self, bench: Bench) -> None:
        self._done = False

    async def round(self, bench: Bench) -> None:
        """The same in every round, so it is done in the first only."""
        if self._done:
            return
        self._done = True
        workloads = {"1.6 KB": conversation(bench.dose.sizes, seed=8)}
        workloads["300 B"] = conversation(bench.dose.sizes, seed=8, size=300)
        for label, items in workloads.items():
            for kind in (PlaitSync, RawInsert, OpenAISQLite):
                if bench.here(kind.name):
                    await self._weigh(bench, kind(), label, items)

    async def _weigh(self, bench: Bench, store: Subject, label: str, items: list[Item]) -> None:
        path = bench.folder / f"size-{label.replace(' ', '-')}-{store.name.replace(' ', '-')}.db"
        await store.open(path, "process")
        await store.seed("chat", items)
        given = sum(len(msgspec.json.encode(message)) for message in await store.load("chat"))
        await store.close()
        for note, measure in ((path.stat().st_size / given, "disk"), (path.stat().st_size, "disk bytes")):
            bench.ledger.note(f"{measure} {label}", store.name, note)

    async def finish(self) -> None:
        pass


class Memory:
    """The most memory that a process of its own takes to stream a session, beyond what it takes to stream none."""

    name = "memory"

    async def prepare(self, bench: Bench) -> None:
        self._path = bench.folder / "memory.db"
        store = PlaitSync()
        await store.open(self._path, "process")
        await store.append("empty", Item("user", "hello"))
        for size in bench.dose.streams:
            await self._fill(bench, store, size)
        await store.close()

    async def _fill(self, bench: Bench, store: PlaitSync, size: int) -> None:
        """Messages of 100 KB, and two of the largest kind, in ASCII: a character takes a byte in memory, too."""
        small = [Item(item.role, _ascii(item.text)) for item in conversation(20, size=100 << 10)]
        large = Item("tool", _ascii(conversation(1, size=bench.dose.largest)[0].text))
        await store.append(f"stream {size}", large)
        for _ in range(max(1, (size - 2 * bench.dose.largest) // (len(small) * (100 << 10)))):
            store.session(f"stream {size}").append_many([item.native() for item in small])
        await store.append(f"stream {size}", large)

    async def round(self, bench: Bench) -> None:
        base = self._peak("empty")
        for size in bench.dose.streams:
            bench.ledger.note("memory", str(size), max(self._peak(f"stream {size}") - base, 1))

    def _peak(self, session: str) -> int:
        return int(_python("-m", "benchmarks.stream", str(self._path), session))

    async def finish(self) -> None:
        pass


FIRST_OPEN: Final = "import plait; plait.open(':memory:')"


class Importing:
    """`import plait` in a fresh interpreter, beside one that imports nothing."""

    name = "import"

    async def prepare(self, bench: Bench) -> None:
        self._compiled = bench.folder / "compiled"
        _python("-c", FIRST_OPEN, compiled=self._compiled)

    async def round(self, bench: Bench) -> None:
        codes = ("pass", "import plait", FIRST_OPEN, "import apsw, msgspec")
        taken: dict[str, list[tuple[float, float]]] = {code: [] for code in codes}
        for _ in range(bench.dose.imports):
            for code in bench.dice.sample(list(taken), len(taken)):
                busy, start = _children_s(), now()
                _python("-c", code, compiled=self._compiled)
                taken[code].append((now() - start, _children_s() - busy))
        for n, measure in enumerate(("import beyond", "import beyond, cpu")):
            bare = min(figures[n] for figures in taken["pass"])
            for code, times in taken.items():
                bench.ledger.note(measure, code, max(min(figures[n] for figures in times) - bare, 0.0))

    async def finish(self) -> None:
        pass


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()


def _children_s() -> float:
    """CPU time of all processes started so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _python(*arguments: str, compiled: Path | None = None) -> str:
    """What another Python prints; with `compiled` it keeps its bytecode there, as an installed package would."""
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{Path(__file__).parents[2]}"}
    if compiled is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(compiled)
    done = subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True)
    return done.stdout
