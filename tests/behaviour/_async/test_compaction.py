"""Compaction as a user sees it: what is covered, when it happens, and that nothing is ever lost."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import AsyncSession, AsyncSessions, Change, CompactionError, Message, Summary, UsageError
from plait.testing.faults import invariants
from tests.behaviour._async.helpers import ids_of
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


async def fill(chat: AsyncSession, count: int, start: int = 0, words: int = 60) -> None:
    for n in range(start, start + count):
        make = plait.assistant if n % 2 else plait.user
        await chat.append(make(f"turn {n} " + "word " * words, id=f"m{n}"))


def compacting(chat: AsyncSession, model: Callable[[str], Any], **options: Any) -> None:
    options = {"keep_recent_tokens": 200, **options}
    chat.on_compaction(plait.compact_function(model, **options))


async def view(chat: AsyncSession) -> list[Message]:
    shown = [message async for message in chat.history(for_model=True)]
    messages = [message for message in shown if isinstance(message, Message)]
    assert faults(messages) == []
    return messages


async def test_compacting_without_a_function_is_refused(chat: AsyncSession) -> None:
    with pytest.raises(UsageError, match="on_compaction"):
        await chat.compact()
    with pytest.raises(UsageError, match="on_compaction"):
        await chat.compact_if_needed()
    chat.compact_after(1)
    with pytest.raises(UsageError, match="on_compaction"):
        await chat.compact()


async def test_a_limit_without_a_function_never_fires_and_warns_once(
    chat: AsyncSession, caplog: pytest.LogCaptureFixture
) -> None:
    chat.compact_after(10)
    with caplog.at_level(logging.WARNING, "plait"):
        await fill(chat, 8)
    assert len([record for record in caplog.records if "on_compaction" in record.getMessage()]) == 1
    assert await chat.overlays() == []


async def test_the_middle_is_summarized_and_both_ends_stay(chat: AsyncSession, changes: list[Change]) -> None:
    await fill(chat, 20)
    model = Model()
    compacting(chat, model)
    done = await chat.compact()
    assert done.done and done.overlay is not None
    assert (done.from_id, done.overlay.kind, done.calls) == ("m3", "compaction", 1)
    assert "turn 3 " in model.prompts[0] and "turn 2 " not in model.prompts[0] and "turn 19 " not in model.prompts[0]
    shown = await view(chat)
    assert [message.id for message in shown[:3]] == ["m0", "m1", "m2"]
    assert (shown[3].text, shown[3].overlay) == ("Goal: none.", done.overlay)
    assert shown[-1].id == "m19"
    assert await ids_of(chat.transcript()) == [f"m{n}" for n in range(20)]
    assert [change.kind for change in changes[20:]] == ["compact"]
    assert changes[-1].overlay == done.overlay


@pytest.mark.parametrize("count", range(9))
async def test_a_short_conversation_has_no_middle(chat: AsyncSession, count: int) -> None:
    """Three first and two last messages stay: of five nothing is between, of six one is."""
    await fill(chat, count)
    model = Model()
    compacting(chat, model, keep_recent_tokens=0)
    done = await chat.compact()
    assert (done.from_id, done.to_id) == (("m3", f"m{count - 3}") if count > 5 else (None, None))
    assert (done.done, len(model.prompts), len(await chat.overlays())) == ((True, 1, 1) if count > 5 else (False, 0, 0))


async def test_a_dry_run_says_what_would_be_covered_and_asks_nobody(chat: AsyncSession) -> None:
    await fill(chat, 20)
    model = Model()
    compacting(chat, model)
    plan = await chat.compact(dry_run=True)
    assert model.prompts == [] and await chat.overlays() == []
    done = await chat.compact()
    assert (plan.from_id, plan.to_id, plan.messages) == (done.from_id, done.to_id, done.messages)


async def test_rounds_of_compaction_leave_one_flat_bounded_summary(chat: AsyncSession) -> None:
    """B-073, B-074: each round works, an idle one says so, an echo does not grow."""
    model = Model(lambda prompt: prompt[-4000:])
    compacting(chat, model)
    sizes: list[int] = []
    for n in range(10):
        await fill(chat, 20, 20 * n)
        assert (await chat.compact()).done
        summaries = [message for message in await view(chat) if message.overlay is not None]
        assert len(summaries) == 1
        sizes.append(summaries[0].tokens)
        idle = await chat.compact()
        assert not idle.done and "summarized already" in idle.reason
    assert max(sizes) <= 2 * plait.logic.compaction.SUMMARY_TOKENS_MAX
    assert max(sizes[2:]) <= 2 * max(sizes[:2])
    assert "<summary>" in model.prompts[-1]


@pytest.mark.parametrize(
    "answer",
    [failing, lambda prompt: "", lambda prompt: None, lambda prompt: 7, lambda prompt: "half \ud800"],
    ids=["raises", "empty", "none", "number", "half a character"],
)
async def test_a_summarizer_of_no_use_changes_nothing(chat: AsyncSession, answer: Callable[[str], Any]) -> None:
    await fill(chat, 20)
    compacting(chat, Model(answer))
    with pytest.raises(CompactionError) as caught:
        await chat.compact()
    assert caught.value.session_id == "chat"
    assert await chat.overlays() == []
    compacting(chat, Model())
    assert (await chat.compact()).done


async def test_a_summary_must_be_smaller_than_what_it_replaces(chat: AsyncSession) -> None:
    await fill(chat, 8, words=1)
    compacting(chat, Model(lambda prompt: "word " * 90), keep_recent_tokens=10)
    with pytest.raises(CompactionError, match="nothing would be won"):
        await chat.compact()


TRIES = 7
"""How often an attempt in vain is followed by one soon: after a tenth of the limit, two tenths, ..."""


@pytest.mark.parametrize(
    ("words", "options"),
    [(20, {"protect_head": 0, "min_tail": 20}), (20, {}), (60, {}), (90, {}), (1200, {})],
    ids=["tail stays", "small", "a tenth", "a sixth", "twice"],
)
@pytest.mark.parametrize("answer", [failing, lambda prompt: "w " * 9000, lambda prompt: "short"])
async def test_compaction_cannot_loop(
    chat: AsyncSession, answer: Callable[[str], Any], words: int, options: dict[str, Any]
) -> None:
    """B-071: failing, winning nothing or little, or what stays is over the limit by itself, with messages of any size.

    One message in sixteen at most sets off a call when nothing helps, and as much as a fifth of the limit if it does.
    """
    model, limit = Model(answer), 1_000
    compacting(chat, model, keep_recent_tokens=20_000, **options)
    chat.compact_after(limit)
    count = dose(short=50, soak=400)
    await fill(chat, count, words=words)
    totals = await chat.totals()
    assert len(model.prompts) <= TRIES + max(count // 16, 5 * totals.path_tokens // limit if words < 200 else 0)
    assert bool(model.prompts) == (totals.path_tokens > limit and count > 3)
    assert await ids_of(chat.transcript()) == [f"m{n}" for n in range(count)]


@pytest.mark.parametrize("first", [5, 60, 80, 300])
async def test_the_messages_that_stay_may_fill_the_limit_and_calls_stay_few(chat: AsyncSession, first: int) -> None:
    """B-071: a compaction that works but leaves little room waits like one that does not."""
    model, count = Model(lambda prompt: "tiny"), dose(short=50, soak=400)
    chat.on_compaction(plait.compact_function(model))
    chat.compact_after(1_000)
    await fill(chat, 3, words=first)
    largest = 0
    for n in range(3, count):
        await fill(chat, 1, n, words=60)
        largest = max(largest, (await chat.totals()).view_tokens)
    assert 1 <= len(model.prompts) <= count // 2, "each takes at least two messages"
    state = chat.compaction_state()
    assert state.paused or largest <= 1_000
    if first == 300:
        assert len(model.prompts) <= TRIES + count // 16 and state.attempts > 3
        assert state.paused == "what has to stay is over the limit by itself" and state.resumes_above_messages
    else:
        assert largest <= 1_200 + 120, "where it can be kept near the limit it is"


async def test_a_call_whose_tools_are_too_large_does_not_compact_before_each_call(chat: AsyncSession) -> None:
    model = Model()
    compacting(chat, model)
    chat.compact_after(2_000)
    for n in range(60):
        await fill(chat, 1, n)
        await chat.compact_if_needed(tools="word " * 3_000)
    assert 1 <= len(model.prompts) <= TRIES + 60 // 16


async def test_the_waiting_ends_when_the_view_is_small_again(chat: AsyncSession) -> None:
    model = Model(failing)
    compacting(chat, model)
    chat.compact_after(1_000)
    await fill(chat, 40)
    assert chat.compaction_state().attempts > 1
    await chat.delete([f"m{n}" for n in range(38)])
    await fill(chat, 1, 40)
    assert chat.compaction_state().paused is None
    asked = len(model.prompts)
    model.answer = lambda prompt: "Goal: none."
    await fill(chat, 20, 41)
    assert len(model.prompts) > asked and (await chat.totals()).view_tokens <= 1_000


async def test_a_failure_is_published_logged_and_handed_over_and_the_append_stands(
    chat: AsyncSession, changes: list[Change], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Exception] = []

    async def hear(error: Exception) -> None:
        heard.append(error)
        raise ValueError("the handler fails too")

    compacting(chat, Model(failing))
    chat.compact_after(800)
    chat.on_compaction_error(hear)
    await fill(chat, 14)
    assert heard and isinstance(heard[0], CompactionError) and isinstance(heard[0].__cause__, RuntimeError)
    failed = next(change for change in changes if change.kind == "error")
    assert failed.error is heard[0] and failed.during == "compact"
    assert "could not be compacted" in caplog.text and "on_compaction_error failed" in caplog.text
    assert (await chat.totals()).messages == 14


async def test_the_limit_is_strict_and_the_view_stays_below_it(chat: AsyncSession) -> None:
    model = Model()
    compacting(chat, model)
    await fill(chat, 10)
    tokens = (await chat.totals()).view_tokens
    each = (await chat.get("m9")).tokens  # type: ignore[union-attr]
    chat.compact_after(tokens + each)
    await chat.append(plait.assistant("turn 9 " + "word " * 60, id="m10"))
    assert (await chat.totals()).view_tokens == tokens + each and model.prompts == []
    await chat.append(plait.user("x", id="m11"))
    assert len(model.prompts) == 1
    chat.compact_after(None)
    await fill(chat, 30, 12)
    assert len(model.prompts) == 1


async def test_the_prompt_that_goes_before_the_view_counts_with_it(chat: AsyncSession) -> None:
    """The gate is the stored total and the prompt's tokens; what a model reported has the prompt in it."""
    model = Model()
    compacting(chat, model)
    await fill(chat, 12)
    size = (await chat.totals()).view_tokens
    chat.compact_after(3 * size, prompt_tokens=2 * size - 20)
    await chat.append(plait.user("x"))
    assert model.prompts == []
    chat.compact_after(window_tokens=4 * size, trigger_ratio=1.0, prompt_tokens=2 * size)
    assert not (await chat.compact_if_needed(tools="word " * (size // 2))).done
    assert not (await chat.compact_if_needed(instructions="word " * (5 * size // 4))).done, (
        "counted instead, not beside"
    )
    assert (await chat.compact_if_needed(instructions="word " * (4 * size))).done
    with pytest.raises(UsageError, match="prompt_tokens must be a whole number of at least 0"):
        chat.compact_after(100, prompt_tokens=-1)
    with pytest.raises(UsageError, match=r"reserved_tokens \(90\) must be less than trigger_ratio .* \(85\)"):
        chat.compact_after(window_tokens=100, reserved_tokens=90)
    await chat.append(plait.assistant("y", metadata={"usage": {"totalTokens": size}}))
    chat.compact_after(window_tokens=4 * size, trigger_ratio=1.0, prompt_tokens=100 * size)
    assert (await chat.compact_if_needed()).reason == "the view is small enough"
    chat.compact_after(10 * size, prompt_tokens=100 * size)
    await chat.append(plait.user("z"))
    assert chat.compaction_state().paused is not None, "nothing helps against a prompt over the limit"


async def test_the_head_stays_and_a_summary_shows_whoever_opens_the_session(file: Path) -> None:
    """B-081: with the same settings, with none, in a fork; the cut is stored, not recomputed."""
    model = Model()
    async with plait.open_async(file, durability="process") as sessions:
        chat = sessions.session("s")
        compacting(chat, model, protect_head=2)
        await fill(chat, 20)
        assert (await chat.compact()).done
        before = await ids_of(chat.history())
        assert before[:2] == ["m0", "m1"] and len(before) < 15
    async with plait.open_async(file, durability="process") as sessions:
        chat = sessions.session("s")
        assert await ids_of(chat.history()) == before
        forked = await chat.fork("copy")
        assert [message.text async for message in forked.history() if isinstance(message, Message)] == [
            message.text async for message in chat.history() if isinstance(message, Message)
        ]
        for session in (chat, forked):
            compacting(session, model, protect_head=2)
            await fill(session, 20, 20)
            assert (await session.compact()).done
            shown = await ids_of(session.history())
            assert shown[:2] == ["m0", "m1"] and shown[2].startswith(plait.OVERLAY_PREFIX), (
                "one summary, after the head"
            )
            assert shown[3].startswith("m")


async def test_a_picture_does_not_set_compaction_off_and_chinese_does_in_time(chat: AsyncSession) -> None:
    """B-080: by the stamped estimate, which counts neither base64 as text nor four characters to a token."""
    model = Model()
    compacting(chat, model)
    chat.compact_after(4_000)
    await fill(chat, 8)
    await chat.append(picture("p", b"x" * 2_000_000))
    assert model.prompts == []
    for n in range(10):
        await chat.append(plait.user("\u5b57" * 600, id=f"c{n}"))
    assert model.prompts != []
    assert (await chat.totals()).view_tokens <= 4_000


async def test_a_duplicate_an_update_and_an_import_do_not_trigger(chat: AsyncSession) -> None:
    await fill(chat, 12)
    model = Model()
    compacting(chat, model)
    chat.compact_after(10)
    await chat.append(plait.user("again", id="m3"))
    await chat.update(plait.user("word " * 500, id="m3"))
    await chat.import_message(plait.user("imported"), parent="m11")
    assert model.prompts == []
    await chat.append(plait.user("now"))
    assert len(model.prompts) == 1


async def test_messages_that_arrive_while_compacting_are_kept_and_a_changed_range_is_given_up(
    chat: AsyncSession,
) -> None:
    """B-077"""
    await fill(chat, 20)
    inside: list[str] = []

    async def slow(prompt: str) -> str:
        inside.append((await chat.compact()).reason)
        await fill(chat, 4, 20 + 4 * len(inside))
        await chat.append(call("c"))
        await chat.append(result("c"))
        if len(inside) == 2:
            await chat.update(plait.user("edited", id="m6"))
        if len(inside) == 3:
            await chat.delete("m7")
        return "Goal: none."

    compacting(chat, slow)
    first = await chat.compact()
    assert first.done and inside == ["this session is being compacted"]
    assert len([message for message in await view(chat) if message.overlay]) == 1
    assert await chat.remove_overlay(first.overlay.id)  # type: ignore[union-attr]
    for _ in range(2):
        given_up = await chat.compact()
        assert not given_up.done and "changed meanwhile" in given_up.reason
    assert await chat.overlays() == []
    assert "m7" not in await ids_of(chat.transcript()) and len(await ids_of(chat.transcript())) == 20 - 1 + 3 * 6


async def test_a_range_that_loses_an_end_while_it_is_summarized_is_given_up(chat: AsyncSession) -> None:
    await fill(chat, 20)
    chat.on_compaction(plait.compact_function(failing, keep_recent_tokens=200))
    for end in ("from_id", "to_id"):
        planned = getattr(await chat.compact(dry_run=True), end)

        async def slow(prompt: str, id: str = planned) -> str:
            await chat.delete(id)
            return "Goal: none."

        compacting(chat, slow)
        given_up = await chat.compact()
        assert not given_up.done and "changed meanwhile" in given_up.reason
    assert await chat.overlays() == []


async def test_another_process_that_compacts_is_not_joined(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    await fill(chat, 20)
    async with reopened() as others:
        other = others.session("chat")
        compacting(other, Model())
        reasons: list[str] = []

        async def ask_other(prompt: str) -> str:
            reasons.append((await other.compact()).reason)
            return "Goal: none."

        compacting(chat, ask_other)
        assert (await chat.compact()).done
        assert reasons == ["another process is compacting this session"]
        assert not (await other.compact()).done


async def test_a_range_too_long_for_the_summarizer_is_fed_in_pieces_with_nothing_left_out(chat: AsyncSession) -> None:
    """B-078"""
    limit = 2_000

    def picky(prompt: str) -> str:
        if plait.logic.estimate.estimate_text(prompt) > limit:
            raise ValueError("too long")
        return "Goal: none."

    await fill(chat, 60)
    await chat.append(plait.user("begin " + "long " * 3000 + "end", id="huge"))
    await fill(chat, 4, 60)
    model = Model(picky)
    compacting(chat, model, max_input_tokens=limit)
    done = await chat.compact()
    assert done.done and done.calls == len(model.prompts) > 3
    whole = "\n".join(model.prompts)
    assert all(f"turn {n} " in whole for n in range(3, 60))
    assert whole.count("long ") >= 3000 - len(model.prompts)  # a word may be cut by the end of a piece


@pytest.mark.parametrize("limit", [1_000, 1_200, 2_000, 20_000])
async def test_a_summary_of_any_size_goes_on_in_prompts_within_the_bound(chat: AsyncSession, limit: int) -> None:
    """B-078: what the summary before says is neither too much for the summarizer nor left out."""
    said = " ".join(f"fact{n}" for n in range(4_000))
    await fill(chat, 20)
    assert (await chat.add_overlay("m3", "m10", summary=said)).inserted
    model = Model(lambda prompt: "so far: " + "word " * 3_000)
    compacting(chat, model, max_input_tokens=limit, keep_recent_tokens=50)
    assert (await chat.compact()).done
    await fill(chat, 12, 20)
    assert (await chat.compact()).done
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
async def test_a_function_for_prompts_of_no_use_changes_nothing(chat: AsyncSession, made: Any) -> None:
    await fill(chat, 20)
    model = Model()
    compacting(chat, model, prompt=made)
    with pytest.raises(CompactionError, match="prompt") as caught:
        await chat.compact()
    assert caught.value.session_id == "chat"
    heard: list[Exception] = []
    chat.on_compaction_error(heard.append)
    chat.compact_after(100)
    await fill(chat, 2, 20)
    assert heard and isinstance(heard[0], CompactionError) and "prompt" in (chat.compaction_state().paused or "")
    assert model.prompts == [] and await chat.overlays() == []
    compacting(chat, model)
    assert (await chat.compact()).done


async def test_media_becomes_a_short_marker(chat: AsyncSession) -> None:
    """B-078: images do not go into the prompt."""
    url = "data:image/png;base64," + "A" * dose(short=400_000, soak=2_800_000)
    for n in range(dose(short=8, soak=20)):
        await chat.append(said({"type": "file", "mediaType": "image/png", "url": url}, role="user", id=f"i{n}"))
    output = {"type": "tool-shot", "toolCallId": "c", "state": "output-available", "input": {}}
    await chat.append(said({**output, "output": [{"type": "media", "mediaType": "image/png", "data": "B" * 9000}]}))
    await fill(chat, 4)
    model = Model()
    compacting(chat, model)
    assert (await chat.compact()).done
    assert len(model.prompts) == 1 and len(model.prompts[0]) < 5_000
    assert "[image/png, " in model.prompts[0] and "[tool shot" in model.prompts[0]


@pytest.mark.parametrize("keep", range(0, 400, 40))
async def test_no_boundary_parts_a_call_from_its_results_or_reasoning_from_its_item(
    chat: AsyncSession, keep: int
) -> None:
    """B-063, B-066, B-070"""
    thought = {"type": "reasoning", "text": "hm", "providerMetadata": {"anthropic": {"signature": "sig"}}}
    for n in range(6):
        await chat.append(plait.user(f"question {n}"))
        await chat.append(said(thought, *call("a", "b", "c")["parts"]))
        for id in ("b", "a", "c"):
            await chat.append(result(id))
        await chat.append({"type": "reasoning", "id": f"rs{n}", "summary": []})
        await chat.append({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"})
        await chat.append({"type": "function_call_output", "call_id": "a", "output": "x" * n})
        await chat.append(plait.assistant("answer " * 5))
    compacting(chat, Model(), keep_recent_tokens=keep, protect_head=keep // 50)
    await chat.compact()
    stored = {message.id: message async for message in chat.transcript()}
    for message in await view(chat):
        assert message.overlay is not None or message == stored[message.id]


async def test_an_open_call_and_a_pending_approval_stay_in_view(chat: AsyncSession) -> None:
    await fill(chat, 20)
    await chat.append(call("x", id="open"))
    await fill(chat, 10, 20)
    compacting(chat, Model(), keep_recent_tokens=0)
    assert (await chat.compact()).done
    await chat.append(said(PENDING, id="pending"))
    await chat.append(plait.user("wait", id="w1"))
    await chat.append(plait.user("wait " * 100, id="w2"))
    await chat.append(plait.user("wait " * 100, id="w3"))
    assert (await chat.compact()).done
    shown = await view(chat)
    assert next(message for message in shown if message.id == "pending").parts == [PENDING]


@pytest.mark.parametrize("place", ["first", "in the head", "in the middle"])
@pytest.mark.parametrize("rounds", [1, 3])
async def test_what_was_approved_late_is_seen_however_often_it_was_compacted_before(
    chat: AsyncSession, place: str, rounds: int
) -> None:
    model = Model()
    compacting(chat, model, keep_recent_tokens=100)
    before = {"first": 0, "in the head": 2, "in the middle": 8}[place]
    await fill(chat, before)
    await chat.append(said(PENDING, id="pending"))
    for n in range(rounds):
        await fill(chat, 12, before + 12 * n)
        while (await chat.compact()).done:
            pass
        shown = await ids_of(chat.history())
        assert "pending" in shown and len(shown) <= 10
        assert any(message.parts == [PENDING] for message in await view(chat))
    paid = {**PENDING, "state": "output-available", "output": "PAID"}
    await chat.update(said(paid, id="pending"))
    assert any("PAID" in message.to_json() for message in await view(chat))
    assert not any(overlay.stale for overlay in await chat.overlays())
    await fill(chat, 12, 100)
    assert (await chat.compact()).done
    shown_last = [message for message in await view(chat) if message.overlay is not None]
    assert len(shown_last) == 1 and ("PAID" in model.prompts[-1]) == (place == "in the middle"), (
        "one summary once it is answered"
    )
    told = " ".join(model.prompts) + " ".join([message.text for message in await view(chat)])
    assert all(f"turn {n} " in told for n in range(before + 12 * rounds))


@pytest.mark.parametrize("hide", ["archive", "omit", "replace"])
async def test_what_was_hidden_from_a_summary_is_not_uncovered_below_it(chat: AsyncSession, hide: str) -> None:
    """A compaction never hides a message that its summary does not cover."""
    model = Model()
    compacting(chat, model, keep_recent_tokens=100)
    await fill(chat, 20)
    what = {"archive": ("m6", "m6"), "omit": ("m6",), "replace": ("m6", "another text")}[hide]
    inner = (await getattr(chat, hide)(*what)).overlay
    outer = (await chat.compact()).overlay
    assert outer is not None and not any("turn 6 " in prompt for prompt in model.prompts)
    with pytest.raises(plait.ConflictError, match=outer.id):
        await chat.remove_overlay(inner.id)
    assert await chat.remove_overlay(outer.id) and await chat.remove_overlay(inner.id)
    assert (await chat.compact()).done
    assert any("turn 6 " in prompt for prompt in model.prompts)


async def test_each_view_is_right_for_its_leaf_and_removing_brings_everything_back(chat: AsyncSession) -> None:
    """B-076"""
    compacting(chat, Model())
    await fill(chat, 40)
    first = await chat.compact()
    await fill(chat, 40, 40)
    second = await chat.compact()
    assert second.overlay is not None and first.overlay is not None
    raw = [f"m{n}" for n in range(39)]
    assert await ids_of(chat.history("m10")) == raw[:11]
    assert f"plait:overlay:{first.overlay.id}" in await ids_of(chat.history("m39"))
    assert f"plait:overlay:{second.overlay.id}" in await ids_of(chat.history("m79"))
    await chat.remove_overlay(second.overlay.id)
    assert f"plait:overlay:{first.overlay.id}" in await ids_of(chat.history("m79"))
    await chat.remove_overlay(first.overlay.id)
    assert await ids_of(chat.history()) == [f"m{n}" for n in range(80)]


async def test_a_function_of_ones_own_is_given_the_history_and_its_answer_is_checked(chat: AsyncSession) -> None:
    await fill(chat, 10)
    seen: list[list[str]] = []
    answers = iter([Summary("S", "m2", "m5"), None, Summary("S", "m5", "m2"), Summary("S", "gone", "m5"), "S"])

    def own(messages: list[Message]) -> Any:
        seen.append([message.id for message in messages])
        return next(answers)

    chat.on_compaction(own)
    done = await chat.compact()
    assert done.done and await ids_of(chat.history()) == [
        "m0",
        "m1",
        f"plait:overlay:{done.overlay.id}",  # type: ignore[union-attr]
        *[f"m{n}" for n in range(6, 10)],
    ]
    assert not (await chat.compact()).done
    for _ in range(3):
        with pytest.raises(CompactionError):
            await chat.compact()
    assert seen[1] == await ids_of(chat.history())


async def test_a_range_of_ones_own_begins_and_ends_with_messages_never_with_a_summary(chat: AsyncSession) -> None:
    """What is shown in a summary's place has an id that no message has, and no overlay is laid on by it."""
    await fill(chat, 12)
    chat.on_compaction(lambda messages: Summary("S", "m3", "m5"))
    overlay = (await chat.compact()).overlay
    assert overlay is not None
    shown = f"plait:overlay:{overlay.id}"
    for ends in ((shown, "m7"), ("m2", shown), (shown, shown)):
        chat.on_compaction(lambda messages, ends=ends: Summary("T", *ends))
        with pytest.raises(CompactionError, match="messages"):
            await chat.compact()
    assert await chat.overlays() == [overlay]
    chat.on_compaction(lambda messages: Summary("T", messages[2].id, messages[4].id))
    wider = (await chat.compact()).overlay
    assert wider is not None and (wider.from_id, wider.to_id) == ("m2", "m6")


async def test_reasoning_counts_for_automatic_compaction(chat: AsyncSession) -> None:
    chat.compact_after(3_000)
    compacting(chat, model := Model())
    for n in range(10):
        await chat.append(said({"type": "reasoning", "text": "hm " * 900}, {"type": "text", "text": "ok"}, id=f"r{n}"))
    assert model.prompts != []
    assert (await chat.totals()).view_tokens < 3_000


async def test_before_a_model_call_what_goes_beside_the_view_counts(chat: AsyncSession) -> None:
    await fill(chat, 12)
    model = Model()
    compacting(chat, model)
    size = (await chat.totals()).view_tokens
    chat.compact_after(window_tokens=2 * size)
    assert (await chat.compact_if_needed()).reason == "the view is small enough"
    assert not (await chat.compact_if_needed(reserved_tokens=size // 2)).done
    assert (await chat.compact_if_needed(instructions="word " * size, tools=[{"name": "f"}])).done
    assert len(model.prompts) == 1


async def test_the_usage_that_a_model_reported_overrules_the_estimate(chat: AsyncSession) -> None:
    model = Model()
    compacting(chat, model)
    chat.compact_after(window_tokens=10_000)
    await fill(chat, 12)
    await chat.append(plait.assistant("ok", metadata={"usage": {"inputTokens": 8_000, "outputTokens": 600}}))
    assert len(model.prompts) == 1
    await fill(chat, 2, 20)
    assert len(model.prompts) == 1  # what was reported before a compaction says nothing after it


async def test_reported_usage_is_found_again_by_another_handle(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    await fill(chat, 12)
    await chat.append(plait.assistant("ok", metadata={"usage": {"inputTokens": 8_000, "outputTokens": 600}}))
    async with reopened() as others:
        other = others.session("chat")
        compacting(other, Model())
        other.compact_after(window_tokens=10_000)
        assert (await other.compact_if_needed()).done
        assert not (await other.compact_if_needed()).done


async def test_compaction_in_the_background_does_not_hold_the_append_and_close_waits_for_it(file: Path) -> None:
    done: list[str] = []

    async def slow(prompt: str) -> str:
        done.append("asked")
        return "Goal: none."

    async with plait.open_async(file, durability="process") as sessions:
        chat = sessions.session("chat")
        compacting(chat, slow)
        chat.compact_after(800, background=True)
        await fill(chat, 14)
    assert done
    async with plait.open_async(file, durability="process") as sessions:
        assert len(await sessions.session("chat").overlays(all=True)) >= 1
    assert invariants(file) == []


async def test_a_windows_count_and_budget_never_begin_with_an_orphan(chat: AsyncSession) -> None:
    """B-063"""
    await chat.append(plait.user("q"))
    await chat.append(call("1", "2", "3"))
    for id in ("1", "2", "3"):
        await chat.append(result(id))
    await chat.append(plait.assistant("answer"))
    sizes = [len((await chat.recent(count=n, for_model=True)).messages) for n in range(8)]
    assert sizes == [0, 1, 1, 1, 1, 5, 6, 6]
    for budget in range(0, 2000, 50):
        window = await chat.recent(budget_bytes=budget, for_model=True)
        assert faults([message for message in window.messages if isinstance(message, Message)]) == []
        assert window.messages and window.truncated == (len(window.messages) < 6)


async def test_the_view_for_a_model_is_the_same_newest_first(chat: AsyncSession) -> None:
    await fill(chat, 8)
    await chat.append(call("a", "b"))
    await chat.append(result("a"))
    await fill(chat, 70, 10)
    forward = await ids_of(chat.history(for_model=True))
    assert await ids_of(chat.history(for_model=True, newest_first=True)) == forward[::-1]
    before = [message.to_json() async for message in chat.transcript() if isinstance(message, Message)]
    assert "No result" not in "".join(before)


async def test_the_vendors_long_session_stays_inside_its_window(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100-character question, 600-character answer, a window of 8,000 tokens."""
    turns = dose(short=200, soak=800)
    model = Model(lambda prompt: "Goal: talk. " + "fact " * 120)
    lines: list[str] = []
    async with plait.open_async(file, durability="process") as sessions:
        chat = sessions.session("long")
        chat.on_compaction(plait.compact_function(model))
        chat.compact_after(window_tokens=8_000)
        for turn in range(1, turns + 1):
            await chat.append(plait.user(("question words " * 7)[:100]))
            await chat.append(plait.assistant(("an answer of some words " * 26)[:600]))
            totals = await chat.totals()
            assert totals.view_tokens < 8_000
            if turn % (turns // 4) == 0:
                lines.append(f"turn {turn}: view {totals.view_tokens} tokens, {len(model.prompts)} summaries")
        assert totals.messages == 2 * turns and len(await ids_of(chat.transcript())) == 2 * turns
        await view(chat)
    assert len(model.prompts) <= turns // 8
    with sqlite3.connect(file) as connection:
        pages = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
    connection.close()
    print("\n".join([*lines, f"{pages[0]} bytes in the database"]))
    assert "turn" in capsys.readouterr().out
