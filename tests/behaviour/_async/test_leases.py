"""One worker alone writes a session's turn, and whoever comes too late is told so."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait._async import leasing
from plait.pauses import rest_async


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[plait.AsyncSessions]:
    async with plait.open_async(tmp_path / "a.db", durability="relaxed") as sessions:
        yield sessions


@pytest.fixture
async def others(tmp_path: Path, sessions: plait.AsyncSessions) -> AsyncIterator[plait.AsyncSessions]:
    """The same file, as another process has it."""
    async with plait.open_async(tmp_path / "a.db", durability="relaxed") as others:
        yield others


async def texts(session: plait.AsyncSession) -> list[str]:
    return [message.text async for message in session.history() if isinstance(message, plait.Message)]


async def test_within_the_block_only_its_handle_writes(
    sessions: plait.AsyncSessions, others: plait.AsyncSessions
) -> None:
    chat, elsewhere = sessions.session("c"), others.session("c")
    lease = chat.lease(ttl_s=60, holder="worker 1")
    async with lease as turn:
        await turn.append(plait.user("mine"))
        for handle in (chat, elsewhere):
            with pytest.raises(plait.LeaseHeldError, match="leased to worker 1 until") as held:
                await handle.append(plait.user("not mine"))
            assert held.value.retryable and held.value.holder == "worker 1"
            left = held.value.until - dt.datetime.now(dt.timezone.utc) if held.value.until else dt.timedelta(0)
            assert dt.timedelta(seconds=30) < left < dt.timedelta(seconds=61)
        assert await texts(elsewhere) == ["mine"]
        info = await elsewhere.lease_info()
        assert info is not None and (info.holder, info.epoch) == ("worker 1", lease.epoch)
    assert await elsewhere.lease_info() is None
    await elsewhere.append(plait.user("now I may"))
    await chat.append(plait.user("and I"))
    assert await texts(chat) == ["mine", "now I may", "and I"]


async def test_the_blocks_handle_writes_no_more_after_it(sessions: plait.AsyncSessions) -> None:
    async with sessions.session("c").lease() as turn:
        await turn.append(plait.user("in time"))
    with pytest.raises(plait.LeaseLostError, match="'c'"):
        await turn.append(plait.user("late"))
    assert await texts(turn) == ["in time"]


async def test_one_worker_at_a_time(sessions: plait.AsyncSessions, others: plait.AsyncSessions) -> None:
    async with sessions.session("c").lease(ttl_s=60):
        with pytest.raises(plait.LeaseHeldError):
            async with others.session("c").lease():
                raise AssertionError("two have it")
        with pytest.raises(plait.LeaseHeldError):
            async with others.session("c").lease(wait_s=0.12):
                raise AssertionError("two have it")
        async with others.session("d").lease():
            pass
    async with others.session("c").lease() as turn:
        await turn.append(plait.user("next"))


async def test_waiting_ends_when_the_lease_is_given_back(
    sessions: plait.AsyncSessions, others: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sessions.session("c").lease(ttl_s=60)
    await first.__aenter__()
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await first.__aexit__(None, None, None)

    monkeypatch.setattr(leasing, rest_async.__name__, rest)
    async with others.session("c").lease(wait_s=60) as turn:
        await turn.append(plait.user("mine"))
    assert len(rests) == 1 and rests[0] <= leasing.POLL_S


async def test_a_lease_that_ran_out_is_taken_over_and_its_holder_refused(
    sessions: plait.AsyncSessions, others: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        leasing.AsyncRepeated, "start", lambda *_arguments: None
    )  # a holder that is stopped has no heartbeat
    lease = sessions.session("c").lease(ttl_s=0.1)
    async with lease as late:
        await late.append(plait.user("one", id="one"))
        async with others.session("c").lease(ttl_s=60, wait_s=60) as turn:
            for work in every_write(late):
                with pytest.raises(plait.LeaseLostError):
                    await work()
            assert lease.lost
            await turn.append(plait.user("two"))
        assert await texts(late) == ["one", "two"]
    assert not await lease.release()


def every_write(turn: plait.AsyncSession) -> list[Any]:
    return [
        lambda: turn.append(plait.user("x")),
        lambda: turn.append_many([plait.user("x"), plait.user("y")]),
        lambda: turn.append(plait.user("x"), parent=None),
        lambda: turn.update(plait.user("x", id="one")),
        lambda: turn.upsert(plait.user("x", id="one")),
        lambda: turn.delete("one"),
        lambda: turn.clear(),
        lambda: turn.checkout("one"),
        lambda: turn.import_message(plait.user("x"), parent=None),
        lambda: turn.archive("one", "one"),
        lambda: turn.add_overlay("one", "one", summary="s"),
        lambda: turn.update_state({"k": 1}),
    ]


async def test_the_heartbeat_keeps_it(
    sessions: plait.AsyncSessions, others: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = sessions.session("c").lease(ttl_s=0.3)
    async with lease as turn:
        first = lease.until
        assert first is not None
        while lease.until == first:  # until it has beaten
            await rest_async(0.01)
        with pytest.raises(plait.LeaseHeldError):
            await others.session("c").append(plait.user("x"))
        await turn.append(plait.user("still mine"))


async def test_a_holder_learns_from_the_heartbeat_that_it_was_broken(
    sessions: plait.AsyncSessions, others: plait.AsyncSessions, caplog: pytest.LogCaptureFixture
) -> None:
    lease = sessions.session("c").lease(ttl_s=0.1)
    with caplog.at_level(logging.WARNING, "plait"):
        async with lease:
            assert await others.session("c").break_lease()
            while not lease.lost:
                await rest_async(0.01)
    assert "was lost" in caplog.text
    assert not await others.session("c").break_lease()


async def test_what_the_block_raises_comes_out_and_the_lease_is_given_back(sessions: plait.AsyncSessions) -> None:
    with pytest.raises(ZeroDivisionError):
        async with sessions.session("c").lease():
            raise ZeroDivisionError
    assert await sessions.session("c").lease_info() is None


async def test_the_handle_goes_on_in_the_life_that_the_turn_began(sessions: plait.AsyncSessions) -> None:
    chat = sessions.session("c")
    await chat.append(plait.user("old"))
    async with chat.lease() as turn:
        await turn.clear()
        await turn.append(plait.user("new"))
    await chat.append(plait.user("more"))
    assert await texts(chat) == ["new", "more"] and not chat.is_over


async def test_the_turn_compacts_as_its_session_does(sessions: plait.AsyncSessions) -> None:
    chat = sessions.session("c")
    chat.on_compaction(plait.compact_function(lambda _prompt: "in short", keep_recent_tokens=10))
    chat.compact_after(120)
    async with chat.lease() as turn:
        for n in range(12):
            await turn.append(plait.user(f"message {n} with some words in it"))
        assert {overlay.kind for overlay in await turn.overlays()} == {"compaction"}


async def test_the_turn_has_the_context_of_its_session_and_writes_it_alone(
    sessions: plait.AsyncSessions, others: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = sessions.session("c").with_context("memory").with_cached_prompt()
    await chat.context.replace("memory", "before")
    frozen = await chat.freeze_system_prompt()
    elsewhere = others.session("c").with_context("memory")
    monkeypatch.setattr(leasing.AsyncRepeated, "start", lambda *_arguments: None)
    async with chat.lease(ttl_s=60) as turn:
        assert await turn.freeze_system_prompt() == frozen
        await turn.context.replace("memory", "from the turn")
        for context in (chat.context, elsewhere.context):
            with pytest.raises(plait.LeaseHeldError):
                await context.replace("memory", "from elsewhere")
        await chat.break_lease()
        with pytest.raises(plait.LeaseLostError):
            await turn.context.replace("memory", "too late")
        with pytest.raises(plait.LeaseLostError):
            await turn.refresh_system_prompt()
    block = await chat.context.block("memory")
    assert block is not None and block.content == "from the turn"


async def test_retention_passes_over_a_session_that_is_being_written(sessions: plait.AsyncSessions) -> None:
    for id in ("a", "b"):
        await sessions.session(id).append(plait.user("x"))
    async with sessions.session("a").lease():
        planned = await sessions.retain(max_count=0, dry_run=True)
        plan = await sessions.retain(max_count=0)
        assert [id for id, _ in plan.sessions] == ["b"] and planned.sessions == plan.sessions
        assert (await sessions.retain(max_count=0, dry_run=True)).sessions == []
    assert [id for id, _ in (await sessions.retain(max_count=0, dry_run=True)).sessions] == ["a"]
    assert await sessions.get("a") is not None and await sessions.get("b") is None
    with pytest.raises(plait.LeaseHeldError):
        async with sessions.session("a").lease():
            await sessions.delete("a")


async def test_a_lease_is_used_once(sessions: plait.AsyncSessions) -> None:
    lease = sessions.session("c").lease()
    with pytest.raises(plait.UsageError, match="not taken yet"):
        await lease.renew()
    assert (lease.epoch, lease.until, lease.lost) == (0, None, False)
    async with lease as turn:
        with pytest.raises(plait.UsageError, match="under a lease already"):
            turn.lease()
        await lease.renew()
        assert await lease.release()
    with pytest.raises(plait.UsageError, match="has been used"):
        await lease.__aenter__()


@pytest.mark.parametrize("ttl_s", [0, 0.01, -1, 1e9, float("nan"), float("inf"), "30", None, True])
async def test_a_time_that_makes_no_sense_is_refused(sessions: plait.AsyncSessions, ttl_s: Any) -> None:
    with pytest.raises(plait.UsageError, match="ttl_s"):
        sessions.session("c").lease(ttl_s=ttl_s)


async def test_who_may_not_write_may_not_take_a_lease(sessions: plait.AsyncSessions, tmp_path: Path) -> None:
    async with sessions.session("c").lease(holder="me"):
        async with plait.open_async(tmp_path / "a.db", read_only=True) as reading:
            info = await reading.session("c").lease_info()
            assert info is not None and info.holder == "me"
            with pytest.raises(plait.StoreUnavailableError):
                await reading.session("c").lease().__aenter__()
            with pytest.raises(plait.StoreUnavailableError):
                await reading.session("c").break_lease()


async def test_the_epoch_goes_on_when_the_file_is_opened_again(tmp_path: Path) -> None:
    epochs: list[int] = []
    for _ in range(3):
        async with plait.open_async(tmp_path / "b.db") as sessions:
            lease = sessions.session("c").lease()
            async with lease:
                epochs.append(lease.epoch)
    assert epochs == sorted(set(epochs))
