"""Event loops that come and go, and threads that have one each, on one store in PostgreSQL."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import plait
from plait.store.plans import indexing, search, value_search
from plait.store.postgres import adapt
from tests.behaviour.programs import run
from tests.dose import dose


def text(id: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": id}]}


async def ids_of(session: plait.AsyncSession) -> list[str]:
    return [message.id async for message in session.history()]


def test_one_store_serves_three_event_loops_in_a_row(url: str) -> None:
    """B-035: built outside any loop, used in three, read from the sync face in between."""
    sessions = plait.open_async(url)
    chat = sessions.session("chat")

    async def turn(n: int) -> list[str]:
        await asyncio.gather(*(chat.append(text(f"{n}-{m}")) for m in range(5)))
        return await ids_of(chat)

    for n in range(3):
        assert len(asyncio.run(turn(n))) == 5 * (n + 1)
        with plait.open(url) as others:
            assert others.session("chat").totals().path_messages == 5 * (n + 1)
    asyncio.run(sessions.close())
    gc.collect()  # nothing left over warns


def test_one_store_serves_four_threads_each_with_its_own_loop(url: str) -> None:
    """B-035"""
    sessions = plait.open_async(url)
    start, each = threading.Barrier(4), dose(short=5, soak=50)

    async def turn(n: int) -> None:
        for m in range(each):
            await sessions.session("chat").append(text(f"{n}-{m}"))
            await ids_of(sessions.session("chat"))

    def work(n: int) -> None:
        start.wait(30)
        asyncio.run(turn(n))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    async def check() -> list[str]:
        async with sessions:
            return await ids_of(sessions.session("chat"))

    found = asyncio.run(check())
    for n in range(4):
        assert [id for id in found if id.startswith(f"{n}-")] == [f"{n}-{m}" for m in range(each)]
    assert len(found) == 4 * each


DROPPED = """
sessions = plait.open_async(sys.argv[1])
async def work(id):
    await sessions.session("chat").append(note(id))
    waiting = asyncio.ensure_future(anext(aiter(sessions.session("chat").watch(after=start))))
    await asyncio.sleep(0)
async def cursor():
    return await sessions.session("chat").cursor()
for id in ("a", "b", "c"):
    start = asyncio.run(cursor())
    asyncio.run(work(id))
threading.Thread(target=lambda: asyncio.run(work("d"))).start()
"""


def test_a_program_that_ends_with_its_store_open_warns_of_nothing_and_loses_nothing(url: str) -> None:
    """B-035: loops ended, a reader still waiting in each, nothing closed; `run` refuses a word on stderr."""
    run(DROPPED, url)
    with plait.open(url) as sessions:
        assert [message.id for message in sessions.session("chat").history()] == ["a", "b", "c", "d"]


def test_texts_are_taken_apart_beside_the_loop(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To be indexed, to be shown with what was found in them, and to be compared where the index is behind."""
    done: list[int] = []

    def note(place: Any, name: str) -> None:
        original = getattr(place, name)

        def work(folded: str) -> Any:
            if "needle" in folded:
                done.append(threading.get_ident())
            return original(folded)

        monkeypatch.setattr(place, name, work)

    for place, name in ((indexing.words, "fold"), (adapt, "words"), (search, "fold"), (value_search, "fold")):
        note(place, name)

    async def run() -> None:
        async with plait.open_async(url) as sessions:
            chat = sessions.session("chat").with_context("pile", kind="collection")
            await chat.append(plait.user("a needle in hay", id="a"))
            await chat.context.put("pile", "a needle in straw", key="a")
            assert [hit.id for hit in await chat.search("hay")] == ["a"]
            assert "needle" in (await chat.context.search("pile", "straw") or "")
            await chat.append(plait.user("another needle in hay", id="b"))
            assert {hit.id for hit in await sessions.search("hay", newest_first=True)} == {"a", "b"}
            await sessions.build_search_index(rebuild=True)

    asyncio.run(run())
    assert len(done) > 6 and threading.get_ident() not in done
