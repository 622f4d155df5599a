"""Generated from tests/behaviour/_async/test_compaction_reports.py by tools/unasync.py: edit that file. Compaction where models report what they were given, and where nobody keeps a handle for long."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait import Session, Sessions, Message
from plait.model import COMPACTION_KEY
from plait.store.protocol import Scope, SessionRef
from tests.behaviour._sync.test_compaction import TRIES, Model, compacting, failing, fill
from tests.dose import dose

WINDOW = 8_000


def reported(tokens: int, answer: int = 114) -> Message:
    """An answer, which is 114 tokens by the estimate, and what the model said of its input and of it."""
    usage = {"inputTokens": tokens, "outputTokens": answer}
    return plait.assistant("an answer " + "word " * 60, metadata={"usage": usage})


def talk(chat: Session, turns: int, given: Callable[[int], int]) -> list[int]:
    """Turns whose inputs are what `given` makes of the view's estimate; what each of them was."""
    sizes: list[int] = []
    for n in range(turns):
        chat.append(plait.user(f"question {n} " + "word " * 60))
        chat.compact_if_needed()
        sizes.append(given((chat.totals()).view_tokens))
        chat.append(reported(sizes[-1], given(1_114) - given(1_000)))
    return sizes


@pytest.mark.parametrize("beside", [0, 2_000, 3_000, 4_000, 5_000])
def test_what_goes_beside_the_view_is_known_from_reports(chat: Session, beside: int) -> None:
    """B-071: definitions of tools that nobody told of; one number decides when, how much and whether it helped."""
    model, turns = Model(lambda prompt: "Goal: x. " + "fact " * 100), dose(short=60, soak=400)
    compacting(chat, model, keep_recent_tokens=20_000)
    chat.compact_after(window_tokens=WINDOW)
    sizes = talk(chat, turns, lambda view: view + beside)
    assert max(sizes) <= WINDOW
    assert len(model.prompts) <= turns // 5
    assert model.prompts or beside + (chat.totals()).path_tokens < WINDOW


@pytest.mark.parametrize("share", [0.4, 0.8, 1.5, 2.2])
def test_an_estimate_that_errs_either_way_is_put_right_by_reports(chat: Session, share: float) -> None:
    model, turns = Model(lambda prompt: "Goal: x. " + "fact " * 100), dose(short=60, soak=400)
    compacting(chat, model, keep_recent_tokens=20_000)
    chat.compact_after(window_tokens=WINDOW)
    sizes = talk(chat, turns, lambda view: int(share * view))
    assert max(sizes) <= WINDOW
    assert len(model.prompts) <= turns // 4


def test_tools_that_have_grown_since_the_report_count(chat: Session) -> None:
    compacting(chat, Model())
    chat.compact_after(window_tokens=WINDOW)
    small: Any = [{"name": "f", "description": "word " * 300}]
    large: Any = [{"name": "f", "description": "word " * 300, "more": "word " * 6_000}]
    fill(chat, 20)
    assert not (chat.compact_if_needed(tools=small)).done
    chat.append(reported(2_600))
    assert not (chat.compact_if_needed(tools=small)).done, "they are in what was reported"
    assert not (chat.compact_if_needed()).done
    chat.compact_if_needed(tools=small)
    chat.append(reported(2_700))
    assert (chat.compact_if_needed(tools=large)).done


def test_tools_larger_than_all_that_was_reported_were_not_in_it(chat: Session) -> None:
    compacting(chat, Model())
    chat.compact_after(window_tokens=WINDOW)
    fill(chat, 20)
    chat.append(reported(1_500))
    assert not (chat.compact_if_needed(tools="word " * 1_000)).done
    assert (chat.compact_if_needed(tools="word " * 9_000)).done


def test_what_was_reported_on_a_branch_that_was_passed_by_is_not_the_view_s(chat: Session) -> None:
    model = Model()
    compacting(chat, model)
    chat.compact_after(window_tokens=WINDOW)
    fill(chat, 20)
    late = chat.append(reported(7_500), expect_leaf="m3", on_moved="branch")
    assert late.branched and model.prompts == []
    assert not (chat.compact_if_needed()).done


@pytest.mark.parametrize("answer", [failing, lambda prompt: ""], ids=["raises", "empty"])
def test_who_comes_with_a_fresh_handle_for_each_message_does_not_try_each_time(
    chat: Session, reopened: Callable[[], Sessions], answer: Callable[[str], Any]
) -> None:
    """B-071: a web server opens the session anew for each request, or the store."""
    model, count = Model(answer), dose(short=24, soak=400)
    for n in range(count):
        with reopened() as sessions:
            own = sessions.session("chat")
            compacting(own, model)
            own.compact_after(300)
            fill(own, 1, n)
    assert 1 <= len(model.prompts) <= TRIES + count // 16
    info = chat.info()
    assert info is not None and info.metadata[COMPACTION_KEY]["attempts"] >= len(model.prompts)

    with reopened() as sessions:
        own = sessions.session("chat")
        compacting(own, Model())
        assert (own.compact()).done
        info = own.info()
        assert info is not None and COMPACTION_KEY not in info.metadata, "nothing is left of the waiting"


def test_a_handle_that_waits_no_more_says_so_to_those_to_come(
    chat: Session, reopened: Callable[[], Sessions]
) -> None:
    compacting(chat, Model(failing))
    chat.compact_after(1_000)
    fill(chat, 40)
    assert chat.compaction_state().paused
    chat.delete([f"m{n}" for n in range(38)])
    with reopened() as sessions:
        own, model = sessions.session("chat"), Model()
        compacting(own, model)
        own.compact_after(1_000)
        fill(own, 30, 40)
        assert model.prompts and own.compaction_state().paused is None


@pytest.mark.parametrize("written", [None, 7, "later", {"paused": 3}, {"resumes_above_tokens": "many"}])
def test_a_note_that_somebody_else_wrote_keeps_nobody_waiting(
    chat: Session, sessions: Sessions, written: object
) -> None:
    fill(chat, 2)
    sessions.store.put_session(
        SessionRef(Scope(), "chat"), created_at_us=1, create="never", metadata={COMPACTION_KEY: written}
    )
    compacting(chat, Model())
    chat.compact_after(1_000)
    fill(chat, 20, 2)
    assert (chat.overlays()) != []


def test_a_summary_is_told_of_messages_that_cannot_be_read(file: Path) -> None:
    """What it covers is not shown any more, so it has to be able to say that something is missing."""
    with plait.open(file) as sessions:
        chat = sessions.session("chat")
        fill(chat, 20)
        with closing(apsw.Connection(str(file))) as database:
            database.execute("UPDATE message SET body = '' WHERE id = 'm8'")
        model = Model()
        compacting(chat, model)
        done = chat.compact()
        assert done.overlay is not None and done.overlay.from_seq < 9 < done.overlay.to_seq
        assert "[a message that cannot be read: " in model.prompts[0]
        assert [message.id for message in chat.transcript()] == [f"m{n}" for n in range(20)]
