"""Through PgBouncer in transaction mode, where each transaction may be on another connection of the server's."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

import plait
from plait.store.postgres import settings as given
from plait.store.postgres._sync.connecting import connect
from tests.dose import dose
from tests.postgres.test_many_writers import in_threads


def text(id: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": f"words of {id}"}]}


def test_a_pooler_is_noticed_and_nothing_is_prepared_there(pooled: str, url: str) -> None:
    line = connect(given.Settings(pooled))
    assert line.names is None
    line.close()
    with plait.open(pooled) as sessions:
        for n in range(5):
            sessions.session("chat").append(text(f"{n}"))
        assert len(list(sessions.session("chat").history())) == 5
    with psycopg.connect(url) as connection:
        busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        assert connection.execute(busy).fetchone() == (0,), "a transaction was left open"


def test_more_callers_than_connections_each_get_what_is_theirs(pooled: str, url: str) -> None:
    callers, each = 24, dose(short=6, soak=300)

    async def crowd() -> None:
        async with plait.open_async(pooled) as sessions:

            async def caller(n: int) -> None:
                for i in range(each):
                    assert (await sessions.session(f"chat {n % 8}").append(text(f"{n}-{i}"))).inserted
                    window = await sessions.session(f"chat {n % 8}").recent(count=3)
                    assert 1 <= len(window.messages) <= 3

            await asyncio.gather(*(caller(n) for n in range(callers)))

    asyncio.run(crowd())

    def threads(n: int) -> None:
        with plait.open(pooled) as sessions:
            for i in range(each):
                sessions.session("all").append(text(f"{n}-{i}"))

    in_threads(4, threads)
    with plait.open(url) as sessions:
        for n in range(8):
            assert len(list(sessions.session(f"chat {n}").history())) == callers // 8 * each
        assert [message.seq for message in sessions.session("all").history()] == list(range(1, 4 * each + 1))


def test_what_needs_many_statements_works_through_a_pooler(pooled: str) -> None:
    with plait.open(pooled) as sessions:
        chat, cursor = sessions.session("chat"), sessions.cursor()
        chat.append_many([text(f"m{n}") for n in range(300)])
        assert [hit.id for hit in chat.search('"words of m7"')] == ["m7"]
        assert chat.delete(["m0", "m299"]) == ["m0", "m299"]
        chat.fork("copy", at="m100")
        chat.update_state({"k": 1})
        with chat.lease(ttl_s=30) as turn:
            turn.append(text("leased"))
        assert [message.id for message in sessions.session("copy").history()][-1] == "m100"
        assert sum(len(change.ids) for change in sessions.changes(after=cursor, limit=1000).changes) >= 300
