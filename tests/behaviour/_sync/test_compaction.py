"""Generated from tests/behaviour/_async/test_compaction.py by tools/unasync.py: edit that file. Compaction as a user sees it: what is covered, when it happens, and that nothing is ever lost."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import Session, Sessions, Change, CompactionError, Message, Summary, UsageError
from plait.testing.faults import invariants
from tests.behaviour._sync.helpers import ids_of
from tests.behaviour.values import picture
from tests.dose import dose
from tests.unit.conversations import call, faults, result, said

PENDING = {"type": "tool-f", "toolCallId": "p", "state": "approval-requested", "input": {}}


class Model:
    """A summarizer that is no model: notes what it was asked and answers as told."""

    def __init__(self, answer: Callable[[str], Any] = lambda prompt: "Goal: none.") -> None:
        self.prompts: list[str] = []
        self.answer = answer

    def __call__(self, prompt: str) -> Any:
        self.prompts.append(prompt)
        return self.answer(prompt)


def failing(prompt: str) -> str:
    raise RuntimeError("no model today")


def fill(chat: Session, count: int, start: int = 0, words: int = 60) -> None:
    for n in range(start, start + count):
        make = plait.assistant if n % 2 else plait.user
        chat.append(make(f"turn {n} " + "word " * words, id=f"m{n}"))


def compacting(chat: Session, model: Callable[[str], Any], **options: Any) -> None:
    options = {"keep_recent_tokens": 200, **options}
    chat.on_compaction(plait.compact_function(model, **options))


def view(chat: Session) -> list[Message]:
    shown = [message for message in chat.history(for_model=True)]
    messages = [message for message in shown if isinstance(message, Message)]
    assert faults(messages) == []
    return messages


def test_compacting_without_a_function_is_refused(chat: Session) -> None:
    with pytest.raises(UsageError, match="on_compaction"):
        chat.compact()
    with pytest.raises(UsageError, match="on_compaction"):
        chat.compact_if_needed()
    chat.compact_after(1)
    with pytest.raises(UsageError, match="on_compaction"):
        chat.compact()


def test_a_limit_without_a_function_never_fires_and_warns_once(
    chat: Session, caplog: pytest.LogCaptureFixture
) -> None:
    chat.compact_after(10)
    with caplog.at_level(logging.WARNING, "plait"):
        fill(chat, 8)
    assert len([record for record in caplog.records if "on_compaction" in record.getMessage()]) == 1
    assert chat.overlays() == []


def test_the_middle_is_summarized_and_both_ends_stay(chat: Session, changes: list[Change]) -> None:
    fill(chat, 20)
    model = Model()
    compacting(chat, model)
    done = chat.compact()
    assert done.done and done.overlay is not None
    assert (done.from_id, done.overlay.kind, done.calls) == ("m3", "compaction", 1)
    assert "turn 3 " in model.prompts[0] and "turn 2 " not in model.prompts[0] and "turn 19 " not in model.prompts[0]
    shown = view(chat)
    assert [message.id for message in shown[:3]] == ["m0", "m1", "m2"]
    assert (shown[3].text, shown[3].overlay) == ("Goal: none.", done.overlay)
    assert shown[-1].id == "m19"
    assert ids_of(chat.transcript()) == [f"m{n}" for n in range(20)]
    assert [change.kind for change in changes[20:]] == ["compact"]
    assert changes[-1].overlay == done.overlay


@pytest.mark.parametrize("count", range(9))
def test_a_short_conversation_has_no_middle(chat: Session, count: int) -> None:
    """Three first and two last messages stay: of five nothing is between, of six one is."""
    fill(chat, count)
    model = Model()
    compacting(chat, model, keep_recent_tokens=0)
    done = chat.compact()
    assert (done.from_id, done.to_id) == (("m3", f"m{count - 3}") if count > 5 else (None, None))
    assert (done.done, len(model.prompts), len(chat.overlays())) == ((True, 1, 1) if count > 5 else (False, 0, 0))


def test_a_dry_run_says_what_would_be_covered_and_asks_nobody(chat: Session) -> None:
    fill(chat, 20)
    model = Model()
    compacting(chat, model)
    plan = chat.compact(dry_run=True)
    assert model.prompts == [] and chat.overlays() == []
    done = chat.compact()
    assert (plan.from_id, plan.to_id, plan.messages) == (done.from_id, done.to_id, done.messages)


def test_rounds_of_compaction_leave_one_flat_bounded_summary(chat: Session) -> None:
    """B-073, B-074: each round works, an idle one says so, an echo does not grow."""
    model = Model(lambda prompt: prompt[-4000:])
    compacting(chat, model)
    sizes: list[int] = []
    for n in range(10):
        fill(chat, 20, 20 * n)
        assert (chat.compact()).done
        summaries = [message for message in view(chat) if message.overlay is not None]
        assert len(summaries) == 1
        sizes.append(summaries[0].tokens)
        idle = chat.compact()
        assert not idle.done and "summarized already" in idle.reason
    assert max(sizes) <= 2 * plait.logic.compaction.SUMMARY_TOKENS_MAX
    assert max(sizes[2:]) <= 2 * max(sizes[:2])
    assert "<summary>" in model.prompts[-1]


@pytest.mark.parametrize(
    "answer",
    [failing, lambda prompt: "", lambda prompt: None, lambda prompt: 7, lambda prompt: "half \ud800"],
    ids=["raises", "empty", "none", "number", "half a character"],
)
def test_a_summarizer_of_no_use_changes_nothing(chat: Session, answer: Callable[[str], Any]) -> None:
    fill(chat, 20)
    compacting(chat, Model(answer))
    with pytest.raises(CompactionError) as caught:
        chat.compact()
    assert caught.value.session_id == "chat"
    assert chat.overlays() == []
    compacting(chat, Model())
    assert (chat.compact()).done


def test_a_summary_must_be_smaller_than_what_it_replaces(chat: Session) -> None:
    fill(chat, 8, words=1)
    compacting(chat, Model(lambda prompt: "word " * 90), keep_recent_tokens=10)
    with pytest.raises(CompactionError, match="nothing would be won"):
        chat.compact()


TRIES = 7
"""How often an attempt in vain is followed by one soon: after a tenth of the limit, two tenths, ..."""


@pytest.mark.parametrize(
    ("words", "options"),
    [(20, {"protect_head": 0, "min_tail": 20}), (20, {}), (60, {}), (90, {}), (1200, {})],
    ids=["tail stays", "small", "a tenth", "a sixth", "twice"],
)
@pytest.mark.parametrize("answer", [failing, lambda prompt: "w " * 9000, lambda prompt: "short"])
def test_compaction_cannot_loop(
    chat: Session, answer: Callable[[str], Any], words: int, options: dict[str, Any]
) -> None:
    """B-071: failing, winning nothing or little, or what stays is over the limit by itself, with messages of any size.

    One message in sixteen at most sets off a call when nothing helps, and as much as a fifth of the limit if it does.
    """
    model, limit = Model(answer), 1_000
    compacting(chat, model, keep_recent_tokens=20_000, **options)
    chat.compact_after(limit)
    count = dose(short=50, soak=400)
    fill(chat, count, words=words)
    totals = chat.totals()
    assert len(model.prompts) <= TRIES + max(count // 16, 5 * totals.path_tokens // limit if words < 200 else 0)
    assert bool(model.prompts) == (totals.path_tokens > limit and count > 3)
    assert ids_of(chat.transcript()) == [f"m{n}" for n in range(count)]


@pytest.mark.parametrize("first", [5, 60, 80, 300])
def test_the_messages_that_stay_may_fill_the_limit_and_calls_stay_few(chat: Session, first: int) -> None:
    """B-071: a compaction that works but leaves little room waits like one that does not."""
    model, count = Model(lambda prompt: "tiny"), dose(short=50, soak=400)
    chat.on_compaction(plait.compact_function(model))
    chat.compact_after(1_000)
    fill(chat, 3, words=first)
    largest = 0
    for n in range(3, count):
        fill(chat, 1, n, words=60)
        largest = max(largest, (chat.totals()).view_tokens)
    assert 1 <= len(model.prompts) <= count // 2, "each takes at least two messages"
    state = chat.compaction_state()
    assert state.paused or largest <= 1_000
    if first == 300:
        assert len(model.prompts) <= TRIES + count // 16 and state.attempts > 3
        assert state.paused == "what has to stay is over the limit by itself" and state.resumes_above_messages
    else:
        assert largest <= 1_200 + 120, "where it can be kept near the limit it is"


def test_a_call_whose_tools_are_too_large_does_not_compact_before_each_call(chat: Session) -> None:
    model = Model()
    compacting(chat, model)
    chat.compact_after(2_000)
    for n in range(60):
        fill(chat, 1, n)
        chat.compact_if_needed(tools="word " * 3_000)
    assert 1 <= len(model.prompts) <= TRIES + 60 // 16


def test_the_waiting_ends_when_the_view_is_small_again(chat: Session) -> None:
    model = Model(failing)
    compacting(chat, model)
    chat.compact_after(1_000)
    fill(chat, 40)
    assert chat.compaction_state().attempts > 1
    chat.delete([f"m{n}" for n in range(38)])
    fill(chat, 1, 40)
    assert chat.compaction_state().paused is None
    asked = len(model.prompts)
    model.answer = lambda prompt: "Goal: none."
    fill(chat, 20, 41)
    assert len(model.prompts) > asked and (chat.totals()).view_tokens <= 1_000


def test_a_failure_is_published_logged_and_handed_over_and_the_append_stands(
    chat: Session, changes: list[Change], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Exception] = []

    def hear(error: Exception) -> None:
        heard.append(error)
        raise ValueError("the handler fails too")

    compacting(chat, Model(failing))
    chat.compact_after(800)
    chat.on_compaction_error(hear)
    fill(chat, 14)
    assert heard and isinstance(heard[0], CompactionError) and isinstance(heard[0].__cause__, RuntimeError)
    failed = next(change for change in changes if change.kind == "error")
    assert failed.error is heard[0] and failed.during == "compact"
    assert "could not be compacted" in caplog.text and "on_compaction_error failed" in caplog.text
    assert (chat.totals()).messages == 14


def test_the_limit_is_strict_and_the_view_stays_below_it(chat: Session) -> None:
    model = Model()
    compacting(chat, model)
    fill(chat, 10)
    tokens = (chat.totals()).view_tokens
    each = (chat.get("m9")).tokens  # type: ignore[union-attr]
    chat.compact_after(tokens + each)
    chat.append(plait.assistant("turn 9 " + "word " * 60, id="m10"))
    assert (chat.totals()).view_tokens == tokens + each and model.prompts == []
    chat.append(plait.user("x", id="m11"))
    assert len(model.prompts) == 1
    chat.compact_after(None)
    fill(chat, 30, 12)
    assert len(model.prompts) == 1


def test_the_prompt_that_goes_before_the_view_counts_with_it(chat: Session) -> None:
    """The gate is the stored total and the prompt's tokens; what a model reported has the prompt in it."""
    model = Model()
    compacting(chat, model)
    fill(chat, 12)
    size = (chat.totals()).view_tokens
    chat.compact_after(3 * size, prompt_tokens=2 * size - 20)
    chat.append(plait.user("x"))
    assert model.prompts == []
    chat.compact_after(window_tokens=4 * size, trigger_ratio=1.0, prompt_tokens=2 * size)
    assert not (chat.compact_if_needed(tools="word " * (size // 2))).done
    assert not (chat.compact_if_needed(instructions="word " * (5 * size // 4))).done, (
        "counted instead, not beside"
    )
    assert (chat.compact_if_needed(instructions="word " * (4 * size))).done
    with pytest.raises(UsageError, match="prompt_tokens must be a whole number of at least 0"):
        chat.compact_after(100, prompt_tokens=-1)
    with pytest.raises(UsageError, match=r"reserved_tokens \(90\) must be less than trigger_ratio .* \(85\)"):
        chat.compact_after(window_tokens=100, reserved_tokens=90)
    chat.append(plait.assistant("y", metadata={"usage": {"totalTokens": size}}))
    chat.compact_after(window_tokens=4 * size, trigger_ratio=1.0, prompt_tokens=100 * size)
    assert (chat.compact_if_needed()).reason == "the view is small enough"
    chat.compact_after(10 * size, prompt_tokens=100 * size)
    chat.append(plait.user("z"))
    assert chat.compaction_state().paused is not None, "nothing helps against a prompt over the limit"


def test_the_head_stays_and_a_summary_shows_whoever_opens_the_session(file: Path) -> None:
    """B-081: with the same settings, with none, in a fork; the cut is stored, not recomputed."""
    model = Model()
    with plait.open(file, durability="process") as sessions:
        chat = sessions.session("s")
        compacting(chat, model, protect_head=2)
        fill(chat, 20)
        assert (chat.compact()).done
        before = ids_of(chat.history())
        assert before[:2] == ["m0", "m1"] and len(before) < 15
    with plait.open(file, durability="process") as sessions:
        chat = sessions.session("s")
        assert ids_of(chat.history()) == before
        forked = chat.fork("copy")
        assert [message.text for message in forked.history() if isinstance(message, Message)] == [
            message.text for message in chat.history() if isinstance(message, Message)
        ]
        for session in (chat, forked):
            compacting(session, model, protect_head=2)
            fill(session, 20, 20)
            assert (session.compact()).done
            shown = ids_of(session.history())
            assert shown[:2] == ["m0", "m1"] and shown[2].startswith(plait.OVERLAY_PREFIX), (
                "one summary, after the head"
            )
            assert shown[3].startswith("m")


def test_a_picture_does_not_set_compaction_off_and_chinese_does_in_time(chat: Session) -> None:
    """B-080: by the stamped estimate, which counts neither base64 as text nor four characters to a token."""
    model = Model()
    compacting(chat, model)
    chat.compact_after(4_000)
    fill(chat, 8)
    chat.append(picture("p", b"x" * 2_000_000))
    assert model.prompts == []
    for n in range(10):
        chat.append(plait.user("\u5b57" * 600, id=f"c{n}"))
    assert model.prompts != []
    assert (chat.totals()).view_tokens <= 4_000


def test_a_duplicate_an_update_and_an_import_do_not_trigger(chat: Session) -> None:
    fill(chat, 12)
    model = Model()
    compacting(chat, model)
    chat.compact_after(10)
    chat.append(plait.user("again", id="m3"))
    chat.update(plait.user("word " * 500, id="m3"))
    chat.import_message(plait.user("imported"), parent="m11")
    assert model.prompts == []
    chat.append(plait.user("now"))
    assert len(model.prompts) == 1


def test_messages_that_arrive_while_compacting_are_kept_and_a_changed_range_is_given_up(
    chat: Session,
) -> None:
    """B-077"""
    fill(chat, 20)
    inside: list[str] = []

    def slow(prompt: str) -> str:
        inside.append((chat.compact()).reason)
        fill(chat, 4, 20 + 4 * len(inside))
        chat.append(call("c"))
        chat.append(result("c"))
        if len(inside) == 2:
            chat.update(plait.user("edited", id="m6"))
        if len(inside) == 3:
            chat.delete("m7")
        return "Goal: none."

    compacting(chat, slow)
    first = chat.compact()
    assert first.done and inside == ["this session is being compacted"]
    assert len([message for message in view(chat) if message.overlay]) == 1
    assert chat.remove_overlay(first.overlay.id)  # type: ignore[union-attr]
    for _ in range(2):
        given_up = chat.compact()
        assert not given_up.done and "changed meanwhile" in given_up.reason
    assert chat.overlays() == []
    assert "m7" not in ids_of(chat.transcript()) and len(ids_of(chat.transcript())) == 20 - 1 + 3 * 6


def test_a_range_that_loses_an_end_while_it_is_summarized_is_given_up(chat: Session) -> None:
    fill(chat, 20)
    chat.on_compaction(plait.compact_function(failing, keep_recent_tokens=200))
    for end in ("from_id", "to_id"):
        planned = getattr(chat.compact(dry_run=True), end)

        def slow(prompt: str, id: str = planned) -> str:
            chat.delete(id)
            return "Goal: none."

        compacting(chat, slow)
        given_up = chat.compact()
        assert not given_up.done and "changed meanwhile" in given_up.reason
    assert chat.overlays() == []


def test_another_process_that_compacts_is_not_joined(
    chat: Session, reopened: Callable[[], Sessions]
) -> None:
    fill(chat, 20)
    with reopened() as others:
        other = others.session("chat")
        compacting(other, Model())
        reasons: list[str] = []

        def ask_other(prompt: str) -> str:
            reasons.append((other.compact()).reason)
            return "Goal: none."

        compacting(chat, ask_other)
        assert (chat.compact()).done
        assert reasons == ["another process is compacting this session"]
        assert not (other.compact()).done


def test_a_range_too_long_for_the_summarizer_is_fed_in_pieces_with_nothing_left_out(chat: Session) -> None:
    """B-078"""
    limit = 2_000

    def picky(prompt: str) -> str:
        if plait.logic.estimate.estimate_text(prompt) > limit:
            raise ValueError("too long")
        return "Goal: none."

    fill(chat, 60)
    chat.append(plait.user("begin " + "long " * 3000 + "end", id="huge"))
    fill(chat, 4, 60)
    model = Model(picky)
    compacting(chat, model, max_input_tokens=limit)
    done = chat.compact()
    assert done.done and done.calls == len(model.prompts) > 3
    whole = "\n".join(model.prompts)
    assert all(f"turn {n} " in whole for n in range(3, 60))
    assert whole.count("long ") >= 3000 - len(model.prompts)  # a word may be cut by the end of a piece


@pytest.mark.parametrize("limit", [1_000, 1_200, 2_000, 20_000])
def test_a_summary_of_any_size_goes_on_in_prompts_within_the_bound(chat: Session, limit: int) -> None:
    """B-078: what the summary before says is neither too much for the summarizer nor left out."""
    said = " ".join(f"fact{n}" for n in range(4_000))
    fill(chat, 20)
    assert (chat.add_overlay("m3", "m10", summary=said)).inserted
    model = Model(lambda prompt: "so far: " + "word " * 3_000)
    compacting(chat, model, max_input_tokens=limit, keep_recent_tokens=50)
    assert (chat.compact()).done
    fill(chat, 12, 20)
    assert (chat.compact()).done
    assert max(plait.logic.estimate.estimate_text(prompt) for prompt in model.prompts) <= limit
    told = "".join(part.split("<conversation>\n")[-1].split("\n</conversation>")[0] for part in model.prompts)
    told = told.replace("[continued]\n", "")  # a word may be cut by the end of a piece
    assert all(f"fact{n} " in told for n in range(3_999)) and all(f"turn {n} " in told for n in range(11, 28))


@pytest.mark.parametrize(
    "made",
    [
        lambda *given, **named: 1 / 0,
        lambda *given, **named: None,
        lambda conversation: conversation,
        lambda conversation, **named: conversation.encode(),
        lambda conversation, **named: "x " * 200_000 + conversation,
    ],
    ids=["raises", "none", "wants less", "bytes", "too long"],
)
def test_a_function_for_prompts_of_no_use_changes_nothing(chat: Session, made: Any) -> None:
    fill(chat, 20)
    model = Model()
    compacting(chat, model, prompt=made)
    with pytest.raises(CompactionError, match="prompt") as caught:
        chat.compact()
    assert caught.value.session_id == "chat"
    heard: list[Exception] = []
    chat.on_compaction_error(heard.append)
    chat.compact_after(100)
    fill(chat, 2, 20)
    assert heard and isinstance(heard[0], CompactionError) and "prompt" in (chat.compaction_state().paused or "")
    assert model.prompts == [] and chat.overlays() == []
    compacting(chat, model)
    assert (chat.compact()).done


def test_media_becomes_a_short_marker(chat: Session) -> None:
    """B-078: images do not go into the prompt."""
    url = "data:image/png;base64," + "A" * dose(short=400_000, soak=2_800_000)
    for n in range(dose(short=8, soak=20)):
        chat.append(said({"type": "file", "mediaType": "image/png", "url": url}, role="user", id=f"i{n}"))
    output = {"type": "tool-shot", "toolCallId": "c", "state": "output-available", "input": {}}
    chat.append(said({**output, "output": [{"type": "media", "mediaType": "image/png", "data": "B" * 9000}]}))
    fill(chat, 4)
    model = Model()
    compacting(chat, model)
    assert (chat.compact()).done
    assert len(model.prompts) == 1 and len(model.prompts[0]) < 5_000
    assert "[image/png, " in model.prompts[0] and "[tool shot" in model.prompts[0]


@pytest.mark.parametrize("keep", range(0, 400, 40))
def test_no_boundary_parts_a_call_from_its_results_or_reasoning_from_its_item(
    chat: Session, keep: int
) -> None:
    """B-063, B-066, B-070"""
    thought = {"type": "reasoning", "text": "hm", "providerMetadata": {"anthropic": {"signature": "sig"}}}
    for n in range(6):
        chat.append(plait.user(f"question {n}"))
        chat.append(said(thought, *call("a", "b", "c")["parts"]))
        for id in ("b", "a", "c"):
            chat.append(result(id))
        chat.append({"type": "reasoning", "id": f"rs{n}", "summary": []})
        chat.append({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"})
        chat.append({"type": "function_call_output", "call_id": "a", "output": "x" * n})
        chat.append(plait.assistant("answer " * 5))
    compacting(chat, Model(), keep_recent_tokens=keep, protect_head=keep // 50)
    chat.compact()
    stored = {message.id: message for message in chat.transcript()}
    for message in view(chat):
        assert message.overlay is not None or message == stored[message.id]


def test_an_open_call_and_a_pending_approval_stay_in_view(chat: Session) -> None:
    fill(chat, 20)
    chat.append(call("x", id="open"))
    fill(chat, 10, 20)
    compacting(chat, Model(), keep_recent_tokens=0)
    assert (chat.compact()).done
    chat.append(said(PENDING, id="pending"))
    chat.append(plait.user("wait", id="w1"))
    chat.append(plait.user("wait " * 100, id="w2"))
    chat.append(plait.user("wait " * 100, id="w3"))
    assert (chat.compact()).done
    shown = view(chat)
    assert next(message for message in shown if message.id == "pending").parts == [PENDING]


@pytest.mark.parametrize("place", ["first", "in the head", "in the middle"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_what_was_approved_late_is_seen_however_often_it_was_compacted_before(
    chat: Session, place: str, rounds: int
) -> None:
    model = Model()
    compacting(chat, model, keep_recent_tokens=100)
    before = {"first": 0, "in the head": 2, "in the middle": 8}[place]
    fill(chat, before)
    chat.append(said(PENDING, id="pending"))
    for n in range(rounds):
        fill(chat, 12, before + 12 * n)
        while (chat.compact()).done:
            pass
        shown = ids_of(chat.history())
        assert "pending" in shown and len(shown) <= 10
        assert any(message.parts == [PENDING] for message in view(chat))
    paid = {**PENDING, "state": "output-available", "output": "PAID"}
    chat.update(said(paid, id="pending"))
    assert any("PAID" in message.to_json() for message in view(chat))
    assert not any(overlay.stale for overlay in chat.overlays())
    fill(chat, 12, 100)
    assert (chat.compact()).done
    shown_last = [message for message in view(chat) if message.overlay is not None]
    assert len(shown_last) == 1 and ("PAID" in model.prompts[-1]) == (place == "in the middle"), (
        "one summary once it is answered"
    )
    told = " ".join(model.prompts) + " ".join([message.text for message in view(chat)])
    assert all(f"turn {n} " in told for n in range(before + 12 * rounds))


@pytest.mark.parametrize("hide", ["archive", "omit", "replace"])
def test_what_was_hidden_from_a_summary_is_not_uncovered_below_it(chat: Session, hide: str) -> None:
    """A compaction never hides a message that its summary does not cover."""
    model = Model()
    compacting(chat, model, keep_recent_tokens=100)
    fill(chat, 20)
    what = {"archive": ("m6", "m6"), "omit": ("m6",), "replace": ("m6", "another text")}[hide]
    inner = (getattr(chat, hide)(*what)).overlay
    outer = (chat.compact()).overlay
    assert outer is not None and not any("turn 6 " in prompt for prompt in model.prompts)
    with pytest.raises(plait.ConflictError, match=outer.id):
        chat.remove_overlay(inner.id)
    assert chat.remove_overlay(outer.id) and chat.remove_overlay(inner.id)
    assert (chat.compact()).done
    assert any("turn 6 " in prompt for prompt in model.prompts)


def test_each_view_is_right_for_its_leaf_and_removing_brings_everything_back(chat: Session) -> None:
    """B-076"""
    compacting(chat, Model())
    fill(chat, 40)
    first = chat.compact()
    fill(chat, 40, 40)
    second = chat.compact()
    assert second.overlay is not None and first.overlay is not None
    raw = [f"m{n}" for n in range(39)]
    assert ids_of(chat.history("m10")) == raw[:11]
    assert f"plait:overlay:{first.overlay.id}" in ids_of(chat.history("m39"))
    assert f"plait:overlay:{second.overlay.id}" in ids_of(chat.history("m79"))
    chat.remove_overlay(second.overlay.id)
    assert f"plait:overlay:{first.overlay.id}" in ids_of(chat.history("m79"))
    chat.remove_overlay(first.overlay.id)
    assert ids_of(chat.history()) == [f"m{n}" for n in range(80)]


def test_a_function_of_ones_own_is_given_the_history_and_its_answer_is_checked(chat: Session) -> None:
    fill(chat, 10)
    seen: list[list[str]] = []
    answers = iter([Summary("S", "m2", "m5"), None, Summary("S", "m5", "m2"), Summary("S", "gone", "m5"), "S"])

    def own(messages: list[Message]) -> Any:
        seen.append([message.id for message in messages])
        return next(answers)

    chat.on_compaction(own)
    done = chat.compact()
    assert done.done and ids_of(chat.history()) == [
        "m0",
        "m1",
        f"plait:overlay:{done.overlay.id}",  # type: ignore[union-attr]
        *[f"m{n}" for n in range(6, 10)],
    ]
    assert not (chat.compact()).done
    for _ in range(3):
        with pytest.raises(CompactionError):
            chat.compact()
    assert seen[1] == ids_of(chat.history())


def test_a_range_of_ones_own_begins_and_ends_with_messages_never_with_a_summary(chat: Session) -> None:
    """What is shown in a summary's place has an id that no message has, and no overlay is laid on by it."""
    fill(chat, 12)
    chat.on_compaction(lambda messages: Summary("S", "m3", "m5"))
    overlay = (chat.compact()).overlay
    assert overlay is not None
    shown = f"plait:overlay:{overlay.id}"
    for ends in ((shown, "m7"), ("m2", shown), (shown, shown)):
        chat.on_compaction(lambda messages, ends=ends: Summary("T", *ends))
        with pytest.raises(CompactionError, match="messages"):
            chat.compact()
    assert chat.overlays() == [overlay]
    chat.on_compaction(lambda messages: Summary("T", messages[2].id, messages[4].id))
    wider = (chat.compact()).overlay
    assert wider is not None and (wider.from_id, wider.to_id) == ("m2", "m6")


def test_reasoning_counts_for_automatic_compaction(chat: Session) -> None:
    chat.compact_after(3_000)
    compacting(chat, model := Model())
    for n in range(10):
        chat.append(said({"type": "reasoning", "text": "hm " * 900}, {"type": "text", "text": "ok"}, id=f"r{n}"))
    assert model.prompts != []
    assert (chat.totals()).view_tokens < 3_000


def test_before_a_model_call_what_goes_beside_the_view_counts(chat: Session) -> None:
    fill(chat, 12)
    model = Model()
    compacting(chat, model)
    size = (chat.totals()).view_tokens
    chat.compact_after(window_tokens=2 * size)
    assert (chat.compact_if_needed()).reason == "the view is small enough"
    assert not (chat.compact_if_needed(reserved_tokens=size // 2)).done
    assert (chat.compact_if_needed(instructions="word " * size, tools=[{"name": "f"}])).done
    assert len(model.prompts) == 1


def test_the_usage_that_a_model_reported_overrules_the_estimate(chat: Session) -> None:
    model = Model()
    compacting(chat, model)
    chat.compact_after(window_tokens=10_000)
    fill(chat, 12)
    chat.append(plait.assistant("ok", metadata={"usage": {"inputTokens": 8_000, "outputTokens": 600}}))
    assert len(model.prompts) == 1
    fill(chat, 2, 20)
    assert len(model.prompts) == 1  # what was reported before a compaction says nothing after it


def test_reported_usage_is_found_again_by_another_handle(
    chat: Session, reopened: Callable[[], Sessions]
) -> None:
    fill(chat, 12)
    chat.append(plait.assistant("ok", metadata={"usage": {"inputTokens": 8_000, "outputTokens": 600}}))
    with reopened() as others:
        other = others.session("chat")
        compacting(other, Model())
        other.compact_after(window_tokens=10_000)
        assert (other.compact_if_needed()).done
        assert not (other.compact_if_needed()).done


def test_compaction_in_the_background_does_not_hold_the_append_and_close_waits_for_it(file: Path) -> None:
    done: list[str] = []

    def slow(prompt: str) -> str:
        done.append("asked")
        return "Goal: none."

    with plait.open(file, durability="process") as sessions:
        chat = sessions.session("chat")
        compacting(chat, slow)
        chat.compact_after(800, background=True)
        fill(chat, 14)
    assert done
    with plait.open(file, durability="process") as sessions:
        assert len(sessions.session("chat").overlays(all=True)) >= 1
    assert invariants(file) == []


def test_a_windows_count_and_budget_never_begin_with_an_orphan(chat: Session) -> None:
    """B-063"""
    chat.append(plait.user("q"))
    chat.append(call("1", "2", "3"))
    for id in ("1", "2", "3"):
        chat.append(result(id))
    chat.append(plait.assistant("answer"))
    sizes = [len((chat.recent(count=n, for_model=True)).messages) for n in range(8)]
    assert sizes == [0, 1, 1, 1, 1, 5, 6, 6]
    for budget in range(0, 2000, 50):
        window = chat.recent(budget_bytes=budget, for_model=True)
        assert faults([message for message in window.messages if isinstance(message, Message)]) == []
        assert window.messages and window.truncated == (len(window.messages) < 6)


def test_the_view_for_a_model_is_the_same_newest_first(chat: Session) -> None:
    fill(chat, 8)
    chat.append(call("a", "b"))
    chat.append(result("a"))
    fill(chat, 70, 10)
    forward = ids_of(chat.history(for_model=True))
    assert ids_of(chat.history(for_model=True, newest_first=True)) == forward[::-1]
    before = [message.to_json() for message in chat.transcript() if isinstance(message, Message)]
    assert "No result" not in "".join(before)


def test_the_vendors_long_session_stays_inside_its_window(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100-character question, 600-character answer, a window of 8,000 tokens."""
    turns = dose(short=200, soak=800)
    model = Model(lambda prompt: "Goal: talk. " + "fact " * 120)
    lines: list[str] = []
    with plait.open(file, durability="process") as sessions:
        chat = sessions.session("long")
        chat.on_compaction(plait.compact_function(model))
        chat.compact_after(window_tokens=8_000)
        for turn in range(1, turns + 1):
            chat.append(plait.user(("question words " * 7)[:100]))
            chat.append(plait.assistant(("an answer of some words " * 26)[:600]))
            totals = chat.totals()
            assert totals.view_tokens < 8_000
            if turn % (turns // 4) == 0:
                lines.append(f"turn {turn}: view {totals.view_tokens} tokens, {len(model.prompts)} summaries")
        assert totals.messages == 2 * turns and len(ids_of(chat.transcript())) == 2 * turns
        view(chat)
    assert len(model.prompts) <= turns // 8
    with sqlite3.connect(file) as connection:
        pages = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
    connection.close()
    print("\n".join([*lines, f"{pages[0]} bytes in the database"]))
    assert "turn" in capsys.readouterr().out
