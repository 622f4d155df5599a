"""Event loops that come and go: each has connections of its own, which go with it."""

from __future__ import annotations

import asyncio
import gc

import psycopg

import plait
from tests.dose import dose

OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def connections(url: str, at_most: int) -> int:
    """How many others are connected, once the server has seen off those that have gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(100):
            (count,) = connection.execute(OTHERS).fetchone() or (0,)
            if count <= at_most:
                break
            connection.execute("SELECT pg_sleep(0.05)")
        return int(count)


async def ids_of(chat: plait.AsyncSession) -> list[str]:
    return [message.id async for message in chat.history()]


def test_one_store_serves_many_event_loops_in_a_row_and_keeps_none_of_their_connections(url: str) -> None:
    """B-035"""
    store = plait.open_async(url)
    chats = [store.session(f"chat {n}") for n in range(4)]

    async def turn(n: int) -> list[str]:
        await asyncio.gather(*(chat.append(plait.user("words", id=f"{n}")) for chat in chats))
        return await ids_of(chats[0])

    kept: list[asyncio.AbstractEventLoop] = []  # a loop that is closed, and still known to somebody
    for n in range(dose(short=6, soak=100)):
        with asyncio.Runner() as runner:
            assert runner.run(turn(n)) == [f"{m}" for m in range(n + 1)]
            kept.append(runner.get_loop())
    assert connections(url, 10) <= 10, "those of the last loop, and one for hints"
    kept.clear()
    del runner
    gc.collect()
    assert connections(url, 1) <= 1
    asyncio.run(store.close())
    assert connections(url, 0) == 0
