"""Generated from tests/behaviour/_async/test_leases.py by tools/unasync.py: edit that file. One worker alone writes a session's turn, and whoever comes too late is told so."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait._sync import leasing
from plait.pauses import rest


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[plait.Sessions]:
    with plait.open(tmp_path / "a.db", durability="relaxed") as sessions:
        yield sessions


@pytest.fixture
def others(tmp_path: Path, sessions: plait.Sessions) -> Iterator[plait.Sessions]:
    """The same file, as another process has it."""
    with plait.open(tmp_path / "a.db", durability="relaxed") as others:
        yield others


def texts(session: plait.Session) -> list[str]:
    return [message.text for message in session.history() if isinstance(message, plait.Message)]


def test_within_the_block_only_its_handle_writes(
    sessions: plait.Sessions, others: plait.Sessions
) -> None:
    chat, elsewhere = sessions.session("c"), others.session("c")
    lease = chat.lease(ttl_s=60, holder="worker 1")
    with lease as turn:
        turn.append(plait.user("mine"))
        for handle in (chat, elsewhere):
            with pytest.raises(plait.LeaseHeldError, match="leased to worker 1 until") as held:
                handle.append(plait.user("not mine"))
            assert held.value.retryable and held.value.holder == "worker 1"
            left = held.value.until - dt.datetime.now(dt.timezone.utc) if held.value.until else dt.timedelta(0)
            assert dt.timedelta(seconds=30) < left < dt.timedelta(seconds=61)
        assert texts(elsewhere) == ["mine"]
        info = elsewhere.lease_info()
        assert info is not None and (info.holder, info.epoch) == ("worker 1", lease.epoch)
    assert elsewhere.lease_info() is None
    elsewhere.append(plait.user("now I may"))
    chat.append(plait.user("and I"))
    assert texts(chat) == ["mine", "now I may", "and I"]


def test_the_blocks_handle_writes_no_more_after_it(sessions: plait.Sessions) -> None:
    with sessions.session("c").lease() as turn:
        turn.append(plait.user("in time"))
    with pytest.raises(plait.LeaseLostError, match="'c'"):
        turn.append(plait.user("late"))
    assert texts(turn) == ["in time"]


def test_one_worker_at_a_time(sessions: plait.Sessions, others: plait.Sessions) -> None:
    with sessions.session("c").lease(ttl_s=60):
        with pytest.raises(plait.LeaseHeldError):
            with others.session("c").lease():
                raise AssertionError("two have it")
        with pytest.raises(plait.LeaseHeldError):
            with others.session("c").lease(wait_s=0.12):
                raise AssertionError("two have it")
        with others.session("d").lease():
            pass
    with others.session("c").lease() as turn:
        turn.append(plait.user("next"))


def test_waiting_ends_when_the_lease_is_given_back(
    sessions: plait.Sessions, others: plait.Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sessions.session("c").lease(ttl_s=60)
    first.__enter__()
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        first.__exit__(None, None, None)

    monkeypatch.setattr(leasing, rest.__name__, rest)
    with others.session("c").lease(wait_s=60) as turn:
        turn.append(plait.user("mine"))
    assert len(rests) == 1 and rests[0] <= leasing.POLL_S


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_refused(
    sessions: plait.Sessions, others: plait.Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        leasing.Repeated, "start", lambda *_arguments: None
    )  # a holder that is stopped has no heartbeat
    lease = sessions.session("c").lease(ttl_s=0.1)
    with lease as late:
        late.append(plait.user("one", id="one"))
        with others.session("c").lease(ttl_s=60, wait_s=60) as turn:
            for work in every_write(late):
                with pytest.raises(plait.LeaseLostError):
                    work()
            assert lease.lost
            turn.append(plait.user("two"))
        assert texts(late) == ["one", "two"]
    assert not lease.release()


def every_write(turn: plait.Session) -> list[Any]:
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


def test_the_heartbeat_keeps_it(
    sessions: plait.Sessions, others: plait.Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = sessions.session("c").lease(ttl_s=0.3)
    with lease as turn:
        first = lease.until
        assert first is not None
        while lease.until == first:  # until it has beaten
            rest(0.01)
        with pytest.raises(plait.LeaseHeldError):
            others.session("c").append(plait.user("x"))
        turn.append(plait.user("still mine"))


def test_a_holder_learns_from_the_heartbeat_that_it_was_broken(
    sessions: plait.Sessions, others: plait.Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    lease = sessions.session("c").lease(ttl_s=0.1)
    with caplog.at_level(logging.WARNING, "plait"):
        with lease:
            assert others.session("c").break_lease()
            while not lease.lost:
                rest(0.01)
    assert "was lost" in caplog.text
    assert not others.session("c").break_lease()


def test_what_the_block_raises_comes_out_and_the_lease_is_given_back(sessions: plait.Sessions) -> None:
    with pytest.raises(ZeroDivisionError):
        with sessions.session("c").lease():
            raise ZeroDivisionError
    assert sessions.session("c").lease_info() is None


def test_the_handle_goes_on_in_the_life_that_the_turn_began(sessions: plait.Sessions) -> None:
    chat = sessions.session("c")
    chat.append(plait.user("old"))
    with chat.lease() as turn:
        turn.clear()
        turn.append(plait.user("new"))
    chat.append(plait.user("more"))
    assert texts(chat) == ["new", "more"] and not chat.is_over


def test_the_turn_compacts_as_its_session_does(sessions: plait.Sessions) -> None:
    chat = sessions.session("c")
    chat.on_compaction(plait.compact_function(lambda _prompt: "in short", keep_recent_tokens=10))
    chat.compact_after(120)
    with chat.lease() as turn:
        for n in range(12):
            turn.append(plait.user(f"message {n} with some words in it"))
        assert {overlay.kind for overlay in turn.overlays()} == {"compaction"}


def test_the_turn_has_the_context_of_its_session_and_writes_it_alone(
    sessions: plait.Sessions, others: plait.Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = sessions.session("c").with_context("memory").with_cached_prompt()
    chat.context.replace("memory", "before")
    frozen = chat.freeze_system_prompt()
    elsewhere = others.session("c").with_context("memory")
    monkeypatch.setattr(leasing.Repeated, "start", lambda *_arguments: None)
    with chat.lease(ttl_s=60) as turn:
        assert turn.freeze_system_prompt() == frozen
        turn.context.replace("memory", "from the turn")
        for context in (chat.context, elsewhere.context):
            with pytest.raises(plait.LeaseHeldError):
                context.replace("memory", "from elsewhere")
        chat.break_lease()
        with pytest.raises(plait.LeaseLostError):
            turn.context.replace("memory", "too late")
        with pytest.raises(plait.LeaseLostError):
            turn.refresh_system_prompt()
    block = chat.context.block("memory")
    assert block is not None and block.content == "from the turn"


def test_retention_passes_over_a_session_that_is_being_written(sessions: plait.Sessions) -> None:
    for id in ("a", "b"):
        sessions.session(id).append(plait.user("x"))
    with sessions.session("a").lease():
        planned = sessions.retain(max_count=0, dry_run=True)
        plan = sessions.retain(max_count=0)
        assert [id for id, _ in plan.sessions] == ["b"] and planned.sessions == plan.sessions
        assert (sessions.retain(max_count=0, dry_run=True)).sessions == []
    assert [id for id, _ in (sessions.retain(max_count=0, dry_run=True)).sessions] == ["a"]
    assert sessions.get("a") is not None and sessions.get("b") is None
    with pytest.raises(plait.LeaseHeldError):
        with sessions.session("a").lease():
            sessions.delete("a")


def test_a_lease_is_used_once(sessions: plait.Sessions) -> None:
    lease = sessions.session("c").lease()
    with pytest.raises(plait.UsageError, match="not taken yet"):
        lease.renew()
    assert (lease.epoch, lease.until, lease.lost) == (0, None, False)
    with lease as turn:
        with pytest.raises(plait.UsageError, match="under a lease already"):
            turn.lease()
        lease.renew()
        assert lease.release()
    with pytest.raises(plait.UsageError, match="has been used"):
        lease.__enter__()


@pytest.mark.parametrize("ttl_s", [0, 0.01, -1, 1e9, float("nan"), float("inf"), "30", None, True])
def test_a_time_that_makes_no_sense_is_refused(sessions: plait.Sessions, ttl_s: Any) -> None:
    with pytest.raises(plait.UsageError, match="ttl_s"):
        sessions.session("c").lease(ttl_s=ttl_s)


def test_who_may_not_write_may_not_take_a_lease(sessions: plait.Sessions, tmp_path: Path) -> None:
    with sessions.session("c").lease(holder="me"):
        with plait.open(tmp_path / "a.db", read_only=True) as reading:
            info = reading.session("c").lease_info()
            assert info is not None and info.holder == "me"
            with pytest.raises(plait.StoreUnavailableError):
                reading.session("c").lease().__enter__()
            with pytest.raises(plait.StoreUnavailableError):
                reading.session("c").break_lease()


def test_the_epoch_goes_on_when_the_file_is_opened_again(tmp_path: Path) -> None:
    epochs: list[int] = []
    for _ in range(3):
        with plait.open(tmp_path / "b.db") as sessions:
            lease = sessions.session("c").lease()
            with lease:
                epochs.append(lease.epoch)
    assert epochs == sorted(set(epochs))
