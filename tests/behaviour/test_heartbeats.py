"""What keeps a lease alive ends with the block, and at the latest with the store: no thread, no task is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import plait

FORGOTTEN = 3
"""Leases that nobody gives back, each in its own session."""


def new_threads(before: set[threading.Thread]) -> set[str]:
    return {thread.name for thread in set(threading.enumerate()) - before}


@pytest.mark.parametrize("ttl_s", [0.1, 3600])
@pytest.mark.parametrize("close", [plait.Sessions.close, lambda sessions: sessions.store.close()])
def test_threads_end_with_the_store(tmp_path: Path, ttl_s: float, close: Callable[[plait.Sessions], None]) -> None:
    before = set(threading.enumerate())
    sessions = plait.open(tmp_path / "a.db", durability="relaxed")
    for number in range(FORGOTTEN):
        sessions.session(f"chat {number}").lease(ttl_s=ttl_s).__enter__()
    assert "plait-repeated" in new_threads(before)
    close(sessions)
    if close is not plait.Sessions.close and ttl_s > 1:
        sessions.close()  # a store closed beneath its sessions is found out at the next beat only
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
    assert not new_threads(before)


@pytest.mark.parametrize("ttl_s", [0.1, 3600])
async def test_tasks_end_with_the_store(tmp_path: Path, ttl_s: float) -> None:
    sessions = plait.open_async(tmp_path / "a.db", durability="relaxed")
    for number in range(FORGOTTEN):
        await sessions.session(f"chat {number}").lease(ttl_s=ttl_s).__aenter__()
    before = asyncio.all_tasks()
    await sessions.close()
    ended = before - asyncio.all_tasks()
    assert len(ended) == FORGOTTEN


def test_a_block_that_goes_on_in_a_closed_store_ends_as_it_would(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = set(threading.enumerate())
    with plait.open(tmp_path / "a.db", durability="relaxed") as sessions:
        with sessions.session("c").lease(ttl_s=0.1) as turn:
            sessions.close()
            with pytest.raises(plait.ClosedError):
                turn.append(plait.user("too late"))
        assert "could not be given back" in caplog.text
        assert "could not be renewed" not in caplog.text
    assert not new_threads(before)
