"""A standby is read like its primary: every read, search and feed; a write is refused, until it is promoted."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

import plait
from plait import Session, Sessions
from plait.errors import StoreUnavailableError
from tests.postgres_pair import Pair, pair, wait_until

pytestmark = pytest.mark.xdist_group("failover")


def follow(servers: Pair) -> None:
    """Wait until the standby has all that is on its primary."""
    ((end,),) = servers.ask("a", "SELECT pg_current_wal_insert_lsn()")
    replayed = f"SELECT pg_last_wal_replay_lsn() >= '{end}'::pg_lsn"
    wait_until(lambda: servers.ask("b", replayed) == [(True,)], "the standby has all of it")


def furnish(sessions: Sessions) -> None:
    """A bit of everything."""
    chat = sessions.session("chat")
    chat.append_many([plait.user(f"words of {n}", id=f"m{n}") for n in range(120)])
    chat.append(plait.assistant("another answer", id="branch"), parent="m50")
    chat.append(plait.user("long " * 400_000, id="long"))
    image = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBORw0KGgoAAAA="}
    chat.append({"id": "picture", "role": "user", "parts": [image]})
    chat.checkout("m119")
    chat.on_compaction(plait.compact_function(lambda text: "in short", keep_recent_tokens=50, protect_head=1))
    chat.compact()
    chat.delete(["m3", "m118"])
    chat.update(plait.user("other words", id="m7"))
    chat.update_state({"step": 7})
    chat.fork("copy", at="m50")
    sessions.create("empty", name="nothing yet")
    sessions.delete("empty")


def plain(messages: Any) -> list[Any]:
    return [(m.seq, m.parent_id, m.to_dict()) for m in messages]


READS: dict[str, Callable[[Sessions, Session], Any]] = {
    "history": lambda _, chat: plain(chat.history()),
    "history for a model": lambda _, chat: [m.to_dict() for m in chat.history(for_model=True)],
    "newest first": lambda _, chat: plain(chat.history(newest_first=True)),
    "transcript": lambda _, chat: plain(chat.transcript()),
    "a page": lambda _, chat: plain(chat.transcript(after_seq=20, before_seq=60, limit=10)),
    "everything": lambda _, chat: plain(chat.everything()),
    "batches": lambda _, chat: [plain(batch) for batch in chat.batches(count=30)],
    "recent": lambda _, chat: plain(chat.recent(count=20).messages),
    "get": lambda _, chat: [chat.get("m7").text, chat.get("m3"), len(chat.get("long").text)],  # type: ignore[union-attr]
    "media": lambda _, chat: chat.get("picture").to_dict(),  # type: ignore[union-attr]
    "tree": lambda _, chat: [plain(chat.leaves()), plain(chat.roots()), plain(chat.children("m50"))],
    "ends": lambda _, chat: [chat.leaf().id, chat.newest().id],  # type: ignore[union-attr]
    "totals": lambda _, chat: chat.info(),
    "overlays": lambda _, chat: chat.overlays(all=True),
    "state": lambda _, chat: chat.state(),
    "feed": lambda _, chat: [(c.version, c.kind, c.ids) for c in chat.changes(limit=1000).changes],
    "feed of the scope": lambda all, _: {(c.session_id, c.version, c.kind) for c in all.changes(limit=1000).changes},
    "list": lambda all, _: [info.id for info in all.list().sessions],
    "search": lambda _, chat: [(hit.id, hit.snippet) for hit in chat.search("words", limit=200)],
    "search of the scope": lambda all, _: sorted((hit.session_id, hit.id) for hit in all.search("words", limit=500)),
    "a phrase": lambda _, chat: [hit.id for hit in chat.search('"words of 77"')],
    "lease": lambda _, chat: chat.lease_info(),
}

WRITES: dict[str, Callable[[Sessions, Session], Any]] = {
    "append": lambda _, chat: chat.append(plait.user("no")),
    "append many": lambda _, chat: chat.append_many([plait.user("no")]),
    "a new session": lambda all, _: all.session("new").append(plait.user("no")),
    "update": lambda _, chat: chat.update(plait.user("no", id="m7")),
    "delete": lambda _, chat: chat.delete("m7"),
    "clear": lambda _, chat: chat.clear(),
    "checkout": lambda _, chat: chat.checkout("m50"),
    "state": lambda _, chat: chat.update_state({"step": 8}),
    "fork": lambda _, chat: chat.fork("other"),
    "delete session": lambda all, _: all.delete("chat"),
    "create": lambda all, _: all.create("new"),
    "retain": lambda all, _: all.retain(max_count=1),
    "lease": lambda _, chat: chat.lease().__enter__(),
    "index": lambda all, _: all.build_search_index(),
    "prune": lambda all, _: all.prune_changes(max_count=1),
    "vacuum": lambda all, _: all.vacuum(),
}


def test_a_standby_is_read_like_its_primary_and_takes_no_write_until_it_is_promoted() -> None:
    with pair(synchronous=False) as servers:
        answers_as_its_primary_and_refuses_to_write(servers)
        tells_who_follows_it_of_what_reaches_it(servers)
        is_written_to_once_it_is_promoted(servers)


def answers_as_its_primary_and_refuses_to_write(servers: Pair) -> None:
    with plait.open(servers.one("a")) as primary:
        furnish(primary)
        follow(servers)
        ours = primary.session("chat")
        searched: set[str] = set()
        for read_only in (True, False):
            with plait.open(servers.one("b"), read_only=read_only) as standby:
                theirs = standby.session("chat")
                searched = {hit.id for hit in theirs.search("words", limit=200)}  # there is no index yet
                for name, write in WRITES.items():
                    with pytest.raises(StoreUnavailableError, match="read-only" if read_only else "standby"):
                        write(standby, theirs)
                        pytest.fail(name)
        assert searched == {hit.id for hit in ours.search("words", limit=200)} >= {"m0", "m7", "m119"}
        ours.append(plait.user("words that the index lacks", id="tail"))
        follow(servers)
        with plait.open(servers.one("b"), read_only=True) as standby:
            theirs = standby.session("chat")
            assert {hit.id for hit in theirs.search("words", limit=200)} == searched | {"tail"}
            primary.build_search_index()
            follow(servers)
            for name, read in READS.items():
                assert read(standby, theirs) == read(primary, ours), name
            assert standby.doctor() == primary.doctor()


def tells_who_follows_it_of_what_reaches_it(servers: Pair) -> None:
    found: queue.Queue[str] = queue.Queue()
    with plait.open(servers.one("a")) as primary, plait.open(servers.one("b"), read_only=True) as standby:
        cursor = primary.session("followed").cursor()
        primary.session("followed").append(plait.user("first", id="first"))
        follow(servers)

        def read() -> None:
            for change in standby.session("followed").watch(after=cursor):
                found.put(change.ids[0])

        reader = threading.Thread(target=read)
        reader.start()
        assert found.get(timeout=60) == "first"
        primary.session("followed").append(plait.user("second", id="second"))
        assert found.get(timeout=60) == "second"
        standby.close()
        reader.join(20)
        assert not reader.is_alive()


def is_written_to_once_it_is_promoted(servers: Pair) -> None:
    """Also by a store that was open before."""

    async def both() -> None:
        async with plait.open_async(servers.one("b")) as sessions, plait.open_async(servers.one("b")) as other:
            for store in (sessions, other):
                with pytest.raises(StoreUnavailableError, match="standby"):
                    await store.session("late").append(plait.user("no", id="no"))
            await asyncio.to_thread(servers.kill, "a")
            await asyncio.to_thread(servers.promote, "b")
            assert (await sessions.session("late").append(plait.user("yes", id="yes"))).inserted
            assert [message.id async for message in other.session("late").history()] == ["yes"]

    asyncio.run(both())
    with plait.open(servers.one("b")) as sessions:
        assert sessions.session("late").append(plait.user("more")).inserted
