"""Generated from tests/behaviour/_async/test_compaction_meanwhile.py by tools/unasync.py: edit that file. What happens to a compaction when its places, its session, its leaf or its store change before it is done."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import plait
from plait import Session, Sessions, ClosedError, Message
from tests.behaviour._sync.helpers import ids_of

Act = Callable[[Sessions, Session], Awaitable[object]]


def fill(chat: Session, count: int, name: str = "m") -> None:
    chat.append_many([plait.user(f"message {n} with some words in it", id=f"{name}{n}") for n in range(count)])


def compacting(chat: Session, summarize: Callable[[str], object] = lambda prompt: "S", head: int = 3) -> None:
    chat.on_compaction(plait.compact_function(summarize, keep_recent_tokens=0, protect_head=head))  # type: ignore[arg-type]


def delete_first(sessions: Sessions, chat: Session) -> None:
    chat.delete("m3")


def delete_last(sessions: Sessions, chat: Session) -> None:
    chat.delete("m11")


def clear(sessions: Sessions, chat: Session) -> None:
    chat.clear()


def delete_session(sessions: Sessions, chat: Session) -> None:
    sessions.delete(chat.id)


def cover(sessions: Sessions, chat: Session) -> None:
    chat.add_overlay("m5", "m12", summary="somebody else's")


@pytest.mark.parametrize("act", [delete_first, delete_last, clear, delete_session, cover])
def test_what_is_summarized_may_change_and_nothing_comes_of_it(
    sessions: Sessions, chat: Session, act: Act
) -> None:
    fill(chat, 14)

    def summarize(prompt: str) -> str:
        act(sessions, chat)
        return "S"

    compacting(chat, summarize)
    done = chat.compact()
    assert not done.done and done.reason.startswith("what was summarized changed meanwhile")
    assert [overlay for overlay in sessions.session("chat").overlays() if overlay.summary == "S"] == []


@pytest.mark.parametrize("act", [delete_first, delete_last, clear, delete_session])
def test_such_a_change_is_no_failure_of_automatic_compaction(
    sessions: Sessions, chat: Session, act: Act
) -> None:
    errors: list[Exception] = []
    fill(chat, 13)

    def summarize(prompt: str) -> str:
        act(sessions, chat)
        return "S"

    compacting(chat, summarize)
    chat.on_compaction_error(errors.append)
    chat.compact_after(10)
    chat.append(plait.user("message 13", id="m13"))
    assert errors == []
    assert (chat.compaction_state().paused, chat.compaction_state().attempts) == (None, 0)


def test_the_leaf_and_all_else_outside_the_range_may_go_away(chat: Session) -> None:
    fill(chat, 14)

    def summarize(prompt: str) -> str:
        chat.delete(["m0", "m12", "m13"])
        chat.append(plait.user("another", id="b"), parent="m2")
        return "S"

    compacting(chat, summarize)
    done = chat.compact()
    assert (done.done, done.from_id, done.to_id) == (True, "m3", "m11")
    assert ids_of(chat.history()) == ["m1", "m2", "b"]
    chat.checkout("m11")
    assert [message.text for message in [m for m in chat.history()] if isinstance(message, Message)][-1] == "S"


@pytest.mark.parametrize("end", ["from_id", "to_id", "both"])
def test_a_summary_is_folded_in_though_its_ends_are_gone(chat: Session, end: str) -> None:
    fill(chat, 20)
    compacting(chat, head=1)
    first = (chat.compact()).overlay
    assert first is not None
    chat.delete([first.from_id, first.to_id] if end == "both" else getattr(first, end))
    fill(chat, 8, "n")
    copy = chat.fork("copy")
    compacting(copy, head=1)
    for session in (chat, copy):
        planned = session.compact(dry_run=True)
        done = session.compact()
        assert done.overlay is not None
        assert (done.from_id, done.to_id) == (planned.from_id, planned.to_id) == (first.from_id, "n5")
        assert done.overlay.from_seq == first.from_seq
        assert len([m for m in session.history() if isinstance(m, Message) and m.overlay]) == 1


def test_a_summary_that_ends_the_range_and_lost_its_end_is_folded_in(chat: Session) -> None:
    fill(chat, 20)
    mine = (chat.add_overlay("m14", "m17", summary="mine")).overlay
    chat.delete("m17")
    compacting(chat, head=1)
    done = chat.compact()
    assert done.overlay is not None and done.overlay.to_seq == mine.to_seq


def test_an_overlay_of_a_branch_in_the_way_is_told_before_anybody_is_asked(chat: Session) -> None:
    prompts: list[str] = []
    fill(chat, 12)
    chat.append(plait.user("a branch", id="b"), parent="m8")
    other = (chat.add_overlay("m6", "b", summary="of the branch")).overlay
    chat.checkout("m9")
    compacting(chat, lambda prompt: prompts.append(prompt) or "S", head=1)
    for done in (chat.compact(dry_run=True), chat.compact(), chat.compact()):
        assert not done.done and other.id in done.reason and "meanwhile" not in done.reason
    assert prompts == []
    chat.remove_overlay(other.id)
    assert (chat.compact()).done


def test_a_function_of_ones_own_is_told_so_too(chat: Session) -> None:
    fill(chat, 12)
    chat.append(plait.user("a branch", id="b"), parent="m8")
    other = (chat.add_overlay("m6", "b", summary="of the branch")).overlay
    chat.checkout("m11")
    chat.on_compaction(lambda messages: plait.Summary("S", "m2", "m7"))
    done = chat.compact()
    assert not done.done and other.id in done.reason and "meanwhile" not in done.reason


def test_closing_lets_others_compact_at_once(
    sessions: Sessions, chat: Session, reopened: Callable[[], Sessions]
) -> None:
    fill(chat, 14)

    def summarize(prompt: str) -> str:
        sessions.close()
        return "S"

    compacting(chat, summarize)
    with pytest.raises(ClosedError):
        chat.compact()
    with reopened() as others:
        other = others.session("chat")
        compacting(other)
        assert (other.compact()).done


def test_a_claim_left_by_a_killed_process_lapses_within_a_minute(chat: Session, file: Path) -> None:
    fill(chat, 14)
    left: list[float] = []

    def summarize(prompt: str) -> str:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as looking:
            (until_us,) = looking.execute("SELECT until FROM compaction_claim").fetchone()
        left.append(until_us / 1e6 - time.time())
        return "S"

    compacting(chat, summarize)
    assert (chat.compact()).done
    assert 0 < left[0] <= 60


def test_another_process_that_compacts_does_not_make_automatic_compaction_wait(
    chat: Session, reopened: Callable[[], Sessions]
) -> None:
    fill(chat, 14)
    with reopened() as others:
        other = others.session("chat")
        compacting(other)
        other.compact_after(10)

        def summarize(prompt: str) -> str:
            other.append(plait.user("more", id="more"))
            return "S"

        compacting(chat, summarize)
        assert (chat.compact()).done
        assert (other.compaction_state().paused, other.compaction_state().attempts) == (None, 0)
