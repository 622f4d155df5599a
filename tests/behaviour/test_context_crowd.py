"""Many who write one block, or freeze one prompt, at once: in one loop, in threads, in processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import AsyncSessions, BlockSpec
from tests.behaviour.providers import Fixed, Notes
from tests.dose import dose
from tests.postgres_server import database

MEMORY = BlockSpec("memory", description="Facts", max_tokens=100)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def reopened(file: Path) -> Callable[[], AsyncSessions]:
    return lambda: plait.open_async(file, durability="process")


async def test_first_calls_at_once_give_one_text(reopened: Callable[[], AsyncSessions]) -> None:
    class Counting(Fixed):
        count = 0

        def get(self) -> str:
            Counting.count += 1
            return str(Counting.count)

    async with reopened() as sessions, reopened() as again:
        handles = [
            one.session("s", context=[BlockSpec("n", provider=Counting())], cached_prompt=True)
            for one in (sessions, again)
        ]
        texts = await asyncio.gather(*(handle.freeze_system_prompt() for handle in handles * 5))
    assert len(set(texts)) == 1


class Counted(Fixed):
    """A block that reads otherwise each time."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._lock = threading.Lock()

    def get(self) -> str:
        with self._lock:
            self.count += 1
            return str(self.count)


class Slow(Notes):
    """A store of one's own in which there is much time between a look and a write."""

    async def get(self) -> str | None:
        await asyncio.sleep(0)
        found = self.text
        for _ in range(20):
            await asyncio.sleep(0)
        return found

    async def set(self, content: str) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        self.text = content


async def test_first_calls_of_one_loop_give_one_text_in_a_store_of_ones_own(
    reopened: Callable[[], AsyncSessions],
) -> None:
    kept, block = Slow(), BlockSpec("n", provider=Counted())
    async with reopened() as sessions, reopened() as again:
        handles = [each.session("s", context=[block], cached_prompt=kept) for each in (sessions, again)]
        texts = await asyncio.gather(*(handle.freeze_system_prompt() for handle in handles * 3))
        assert set(texts) == {kept.text} and texts[0].endswith("\n1")
        handles[0].with_cached_prompt()  # from now on it takes turns with those of the session, not of that store
        handles[0].with_cached_prompt(kept)
        await asyncio.gather(*(handle.refresh_system_prompt() for handle in handles))
        assert {await handle.freeze_system_prompt() for handle in handles} == {kept.text}


def test_first_calls_of_threads_give_one_text_in_a_store_of_ones_own(file: Path) -> None:
    looked, again = threading.Barrier(2), threading.Event()

    class Meeting(Notes):
        """Both look before either has its turn; a write leaves time for both to have looked twice."""

        def get(self) -> str | None:
            found = self.text
            self.asked.append(threading.current_thread().name)
            if self.asked.count(threading.current_thread().name) == 1:
                looked.wait(30)
            elif len(self.asked) == 4:
                again.set()
            return found

        def set(self, content: str) -> None:
            again.wait(0.2)
            self.text = content

    kept, block = Meeting(), BlockSpec("n", provider=Counted())
    with plait.open(file, durability="process") as one, plait.open(file, durability="process") as two:
        handles = [each.session("s", context=[block], cached_prompt=kept) for each in (one, two)]
        texts: list[str] = []
        threads = [threading.Thread(target=lambda one=one: texts.append(one.freeze_system_prompt())) for one in handles]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(texts) == {kept.text} and len(texts) == 2


async def test_a_refresh_knows_what_was_written_before_it(reopened: Callable[[], AsyncSessions]) -> None:
    async with reopened() as sessions, reopened() as again:
        one, two = (each.session("s", context=[MEMORY], cached_prompt=True) for each in (sessions, again))
        for n in range(5):
            await asyncio.gather(one.context.append("memory", f"one {n}"), two.context.append("memory", f"two {n}"))
            await asyncio.gather(one.refresh_system_prompt(), two.refresh_system_prompt())
            text = await one.freeze_system_prompt()
            assert all(f"{who} {m}" in text for who in ("one", "two") for m in range(n + 1))


async def test_appends_of_one_loop_are_all_kept(reopened: Callable[[], AsyncSessions]) -> None:
    async with reopened() as sessions:
        session = sessions.session("s", context=["memory"])
        await asyncio.gather(*(session.context.append("memory", str(n)) for n in range(50)))
        block = await session.context.block("memory")
        assert block is not None and sorted(map(int, block.content.splitlines())) == list(range(50))
        assert block.version == 50


def test_appends_of_threads_are_all_kept(file: Path) -> None:
    with plait.open(file, durability="process") as sessions:
        session = sessions.session("s", context=["memory"])

        def work(name: str) -> None:
            for n in range(20):
                session.context.append("memory", f"{name}{n}")

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        block = session.context.block("memory")
        assert block is not None and set(block.content.splitlines()) == {
            f"{name}{n}" for name in "abcd" for n in range(20)
        }


# -- processes -----------------------------------------------------------------------

APPEND = """
import sys, plait
path, name, count, shared = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "shared"
with plait.open(path, durability="process") as sessions:
    context = sessions.session("s", context=[plait.BlockSpec("memory", shared=shared)]).context
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(count):
        context.append("memory", f"{name} {n}")
"""

FREEZE = """
import json, locale, os, sys, plait
class Clock:
    def get(self):
        return f"{os.getpid()} {locale.setlocale(locale.LC_ALL, '')}"
context = [plait.BlockSpec("clock", provider=Clock()), plait.BlockSpec("memory", max_tokens=10)]
with plait.open(sys.argv[1], durability="process") as sessions:
    session = sessions.session("s", context=context, cached_prompt=True)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(session.freeze_system_prompt()))
"""


def started(program: str, *given: object, **env: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    command = [sys.executable, "-c", program, *map(str, given)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path, **env}
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(processes: list[subprocess.Popen[str]]) -> list[str]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return answers


@pytest.fixture
def store_at(request: pytest.FixtureRequest, file: Path) -> Iterator[str]:
    """What two processes open: a file, or a database of a server."""
    if request.param == "file":
        yield str(file)
    else:
        with database() as url:
            yield url


@pytest.mark.parametrize(
    ("store_at", "whose"), [("file", "shared"), ("file", "own"), ("server", "own")], indirect=["store_at"]
)
def test_appends_of_two_processes_are_all_kept(store_at: str, whose: str) -> None:
    """B-127"""
    served = store_at.startswith("postgresql:")
    count = dose(short=50 if served else 200, soak=2000)
    go([started(APPEND, store_at, name, count, whose) for name in ("one", "two")])
    with plait.open(store_at) as sessions:
        context = sessions.session("s", context=[BlockSpec("memory", shared=whose == "shared")]).context
        block = context.block("memory")
        assert block is not None
        lines = block.content.splitlines()
        assert len(lines) == 2 * count
        for name in ("one", "two"):
            assert [line for line in lines if line.startswith(name)] == [f"{name} {n}" for n in range(count)]
        mine = block.version
        context.append("memory", "later")
        with pytest.raises(plait.StaleValueError) as caught:
            context.replace("memory", "stale", expect_version=mine)
        assert caught.value.current is not None and caught.value.current.content == block.content + "\nlater"


def test_first_freezes_of_several_processes_and_locales_are_one_text(file: Path) -> None:
    """B-126"""
    environments: list[dict[str, Any]] = [
        {"LC_ALL": "C"},
        {"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo"},
        {"PYTHONHASHSEED": "7"},
    ]
    texts = [json.loads(answer) for answer in go([started(FREEZE, file, **env) for env in environments])]
    assert len(set(texts)) == 1
    (again,) = go([started(FREEZE, file)])
    assert json.loads(again) == texts[0]


RENDER = r"""
import json, locale, sys, time, plait
print("ready", flush=True)
sys.stdin.readline()
with plait.open(sys.argv[1], durability="process") as sessions:
    try:
        chosen = locale.setlocale(locale.LC_ALL, "")
    except locale.Error:
        chosen = locale.setlocale(locale.LC_ALL)
    time.tzset()
    context = [
        plait.BlockSpec("i\u0131stanbul stra\xdfe \u01c6", description="Facts, 1,5 %", max_tokens=1234),
        plait.BlockSpec("notes", kind="collection", shared=True),
        plait.BlockSpec("books", kind="documents"),
        {"label": "soul", "description": "Identity", "remind": True},
    ]
    session = sessions.session("s", context=context)
    if not session.context.block("soul").content:
        session.context.replace("i\u0131stanbul stra\xdfe \u01c6", "\u0130\u0131 \u2550 10,5 \U0001f600 \x1b" * 20)
        for n in range(12):
            session.context.put("notes", f"entry {n}", key=f"k{n}")
            session.context.put("books", f"text {n}", key=f"\xe9\u0131{n}", description=f"book {n}")
        session.context.replace("soul", "Be kind.")
    print(json.dumps([chosen, time.tzname, session.refresh_system_prompt()]))
"""
"""Renders by itself: nothing is kept, so what it says is its own."""

ABROAD: dict[str, dict[str, str]] = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "UTC", "PYTHONHASHSEED": "0"},
    "C and UTF-8": {"LC_ALL": "C", "PYTHONUTF8": "1", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "1"},
    "C.UTF-8": {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "0", "TZ": "Pacific/Chatham", "PYTHONHASHSEED": "2"},
    "Turkish": {"LC_ALL": "tr_TR.UTF-8", "TZ": "America/St_Johns", "PYTHONHASHSEED": "3"},
    "German, Latin-1": {"LC_ALL": "de_DE.ISO-8859-1", "PYTHONUTF8": "0", "TZ": "Europe/Berlin", "PYTHONHASHSEED": "4"},
}
"""A locale that neither is installed nor can be made is that of C: the answer says which it was."""


def locales(folder: Path) -> dict[str, str]:
    """The environment in which those of `ABROAD` are there, if they can be made on this machine."""
    made = []
    for source, charmap in (("tr_TR", "UTF-8"), ("de_DE", "ISO-8859-1")):
        if shutil.which("localedef"):
            command = ["localedef", "--no-archive", "-i", source, "-f", charmap, str(folder / f"{source}.{charmap}")]
            made.append(subprocess.run(command, capture_output=True, check=False).returncode == 0)
    return {"LOCPATH": str(folder)} if made and all(made) else {}


def test_a_prompt_is_rendered_alike_in_every_locale_time_zone_and_order_of_hashes(tmp_path: Path) -> None:
    """B-126"""
    there = locales(tmp_path)
    processes = [started(RENDER, tmp_path / f"{n}.db", **env, **there) for n, env in enumerate(ABROAD.values())]
    answers = [json.loads(answer) for answer in go(processes)]
    assert len({json.dumps(zones) for _, zones, _ in answers}) == len(ABROAD), "each was in a time zone of its own"
    if there:
        assert len({chosen for chosen, _, _ in answers}) == 4, "and C, C.UTF-8, Turkish and German were there"
    assert "IISTANBUL STRASSE" in answers[0][2] and "book 11" in answers[0][2]
    assert {text for _, _, text in answers} == {answers[0][2]}
