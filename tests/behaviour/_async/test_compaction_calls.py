"""Compaction at any moment of turns whose calls and results are messages of their own: no result is ever lost."""

from __future__ import annotations

import random
from typing import Any

import pytest

import plait
from plait import AsyncSession, Message
from plait.logic.legal import NO_RESULT
from tests.behaviour._async.helpers import ids_of
from tests.dose import dose
from tests.unit.conversations import faults, item_call

WORDS = "some words that cost tokens " * 4


def compacting(chat: AsyncSession, protect_head: int, min_tail: int = 1, keep: int = 0) -> list[str]:
    """Compaction of the smallest kind; the prompts it asks."""
    prompts: list[str] = []

    def summarize(prompt: str) -> str:
        prompts.append(prompt)
        return "S"

    options: dict[str, Any] = {"protect_head": protect_head, "min_tail": min_tail, "keep_recent_tokens": keep}
    chat.on_compaction(plait.compact_function(summarize, **options))
    return prompts


def item(id: str, words: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": words}


def line(n: int, role: str, block: dict[str, Any]) -> dict[str, Any]:
    message = {"id": "msg", "role": role, "type": "message", "content": [block]}
    return {"type": role, "uuid": f"u{n}", "parentUuid": None, "message": message}


async def shown(chat: AsyncSession) -> str:
    """All that a model sees, as text; it is a legal conversation."""
    messages = [message async for message in chat.history(for_model=True)]
    assert all(isinstance(message, Message) for message in messages)
    assert faults([message for message in messages if isinstance(message, Message)]) == []
    return " ".join(message.to_json() for message in messages if isinstance(message, Message))


@pytest.mark.parametrize("protect_head", [0, 1, 2, 3])
async def test_open_calls_of_one_turn_stay_however_many_messages_they_are(
    chat: AsyncSession, protect_head: int
) -> None:
    prompts = compacting(chat, protect_head)
    for n in range(4):
        await chat.append(plait.user(f"question {n} {WORDS}"))
    for id in ("a", "b", "c"):
        await chat.append(item_call(id), id=f"call {id}")
        await chat.compact()
    assert (await ids_of(chat.history()))[-3:] == ["call a", "call b", "call c"]
    for id in ("b", "c", "a"):
        await chat.append(item(id, f"result {id}"))
        await chat.compact()
        assert "call a" in await ids_of(chat.history()), "its result is to come, or nothing has followed it"
    seen = await shown(chat)
    assert all(f"result {id}" in seen for id in ("a", "b", "c")) and NO_RESULT not in seen
    assert prompts != [] and "result" not in " ".join(prompts)


async def test_pieces_of_one_answer_that_are_lines_of_their_own_stay_together(chat: AsyncSession) -> None:
    compacting(chat, 0)
    for n in range(4):
        await chat.append(plait.user(f"question {n} {WORDS}"))
    for n in (1, 2):
        await chat.append(line(n, "assistant", {"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}}))
    assert (await chat.compact()).done
    for n in (1, 2):
        block = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"result {n}"}
        await chat.append(line(n + 2, "user", block))
    assert (await ids_of(chat.history()))[1:] == ["u1", "u2", "u3", "u4"]
    assert NO_RESULT not in await shown(chat)


async def test_an_open_call_is_no_part_of_the_head_that_its_result_could_be_parted_from(chat: AsyncSession) -> None:
    prompts = compacting(chat, 2)
    await chat.append(plait.user(f"question {WORDS}"))
    for id in ("a", "b"):
        await chat.append(item_call(id))
    await chat.append(item("b", "result b"))
    await chat.append(item_call("c"))
    await chat.compact()
    for id in ("a", "c"):
        await chat.append(item(id, f"result {id}"))
    for words in ("done", "next", "ok"):
        await chat.append(plait.assistant(words + WORDS) if words != "next" else plait.user(words + WORDS))
    assert (await chat.compact()).done
    assert NO_RESULT not in await shown(chat)
    assert "result a" in " ".join(prompts)


async def test_a_call_that_nobody_will_answer_does_not_hold_compaction_up(chat: AsyncSession) -> None:
    compacting(chat, 3)
    await chat.append(item_call("abandoned"))
    await chat.append(plait.user(f"go on {WORDS}"))
    for n in range(6):
        await chat.append(item_call(f"c{n}"))
        await chat.append(item(f"c{n}", f"result {n} {WORDS}"))
    assert (await chat.compact()).done
    assert (await chat.totals()).view_messages <= 3


def turn(chance: random.Random, n: int) -> list[dict[str, Any]]:
    """What a user and a model say in one turn, some calls at once, their results in any order."""
    said: list[dict[str, Any]] = [plait.user(f"word{n}_q {WORDS}")]
    for step in range(chance.choice((0, 1, 2))):
        ids = chance.sample(("a", "b", "c"), chance.choice((1, 2, 3)))
        said += [item_call(id) for id in ids]
        chance.shuffle(ids)
        said += [item(id, f"word{n}_{step}{id} {WORDS}") for id in ids]
    return [*said, plait.assistant(f"word{n}_a {WORDS}")]


@pytest.mark.parametrize("seed", range(dose(short=12, soak=60)))
async def test_whenever_it_is_compacted_all_is_seen_or_was_summarized(chat: AsyncSession, seed: int) -> None:
    chance = random.Random(seed)
    prompts = compacting(chat, chance.choice((0, 1, 2, 3)), chance.choice((1, 2, 3)), chance.choice((0, 60, 200)))
    for n in range(5):
        for message in turn(chance, n):
            await chat.append(message)
            if chance.random() < 0.4:
                await chat.compact()
    seen = await shown(chat)
    assert NO_RESULT not in seen
    told = seen + " ".join(prompts)
    async for message in chat.transcript():
        assert isinstance(message, Message)
        for word in message.to_json().split():
            start = word.find("word")
            assert start < 0 or word[start:] in told
