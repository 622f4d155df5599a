"""Pydantic AI on plait: its conversations, held against its own store in memory; real agents, killed and gone on with."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.conversation_store", reason="needs Pydantic AI: pip install 'plait[pydantic-ai]'")

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryImage,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

import plait
from plait.adapters import pydantic_ai
from plait.adapters.pydantic_ai import (
    Compaction,
    ConversationStore,
    Saving,
    history,
    instructions,
    summarizer,
    tools,
)
from tests.dose import dose

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[plait.AsyncSessions]:
    async with plait.open_async(store_at) as opened:
        yield opened


@pytest.fixture
def store(sessions: plait.AsyncSessions) -> ConversationStore:
    return ConversationStore(sessions)


def asks(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content=text)])


def says(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(content=text)])


# --- the store in memory as an oracle


class Pair:
    """The same operations on both stores; ids, which each makes itself, are compared by what they stand for."""

    def __init__(self, ours: ConversationStore) -> None:
        self.ours, self.theirs = ours, InMemoryConversationStore()
        self.known: dict[str | None, str | None] = {None: None}

    async def both(self, work: Callable[[Any, bool], Awaitable[Any]]) -> tuple[Any, Any]:
        outcomes = []
        for store, own in ((self.theirs, False), (self.ours, True)):
            try:
                outcomes.append(await work(store, own))
            except (ConversationConflict, UserError) as error:
                outcomes.append(type(error).__name__)
        theirs, ours = outcomes
        if isinstance(theirs, str) or isinstance(ours, str):
            assert theirs == ours
        return theirs, ours

    def pair(self, theirs: list[Any], ours: list[Any]) -> None:
        assert len(theirs) == len(ours)
        for one, other in zip(theirs, ours, strict=True):
            assert self.known.setdefault(one.id, other.id) == other.id
            assert (self.known[one.parent_id], one.message) == (other.parent_id, other.message)

    def record(self, theirs: ConversationRecord) -> ConversationRecord:
        """The record as ours must be, but for revision and time."""
        return replace(
            theirs,
            head_id=self.known[theirs.head_id],
            forked_at=self.known[theirs.forked_at],
            branches=[self.known[id] or "" for id in theirs.branches],
        )

    async def check(self, names: list[str]) -> None:
        theirs, ours = await self.theirs.list_conversations(), await self.ours.list_conversations()
        assert [one.conversation_id for one in theirs] == [one.conversation_id for one in ours]
        for one, other in zip(theirs, ours, strict=True):
            assert replace(self.record(one), revision="", updated_at=other.updated_at) == replace(other, revision="")
        for name in names:
            for limit in (None, 0, 2):
                mine, yours = await self.both(lambda store, _, n=name, k=limit: store.load_entries(n, limit=k))
                assert (mine is None) == (yours is None)
                if mine is not None and not isinstance(mine, str):
                    self.pair(mine, yours)
            for record in theirs:
                for tip in record.branches:
                    line = await self.theirs.read_history(tip)
                    self.pair(line, await self.ours.read_history(self.known[tip]))


NAMES = ["a", "b", "c"]


async def step(pair: Pair, rng: random.Random, held: dict[str, tuple[Conversation, Conversation]]) -> None:
    """One operation, drawn."""
    name, n = rng.choice(NAMES), rng.randrange(5)
    scope, limit = rng.choice([None, None, "ada", "bob"]), rng.choice([None, None, 2])
    texts = [f"{rng.randrange(100)}" for _ in range(rng.randrange(3))]
    messages = [asks(text) if k % 2 == 0 else says(text) for k, text in enumerate(texts)]

    def from_both(found: tuple[Any, Any]) -> None:
        if isinstance(found[0], Conversation):
            held[name] = found

    match rng.choice(["new", "load", "load", "save", "save", "rewrite", "branch", "back", "fork", "delete", "plain"]):
        case "new":
            held[name] = tuple(Conversation(conversation_id=name, messages=list(messages)) for _ in "ab")  # type: ignore[assignment]
        case "load":
            from_both(await pair.both(lambda store, _: store.load(name, scope=scope, limit=limit)))
        case "save" | "rewrite" | "plain" as kind if name in held:
            for conversation in held[name]:
                if kind == "rewrite":
                    conversation.messages = conversation.messages[: n + 1]
                if kind == "plain":
                    conversation.new_message_index = None
                conversation.messages.extend(messages)
                conversation.usage = RunUsage(requests=n)
            saved = await pair.both(lambda store, own: store.save(held[name][own], scope=scope))
            if not isinstance(saved[0], str):
                pair.pair(*saved)
        case "branch" if name in held:
            from_both(
                await pair.both(
                    lambda store, own: store.branch(name, at=n, expected_revision=held[name][own].revision, scope=scope)
                )
            )
        case "back":
            record = await pair.theirs.read_record(name)
            if record is not None and record.branches and name in held:
                tip = rng.choice(record.branches)
                from_both(
                    await pair.both(
                        lambda store, own: store.branch(
                            name,
                            from_entry=pair.known[tip] if own else tip,
                            expected_revision=held[name][own].revision,
                        )
                    )
                )
        case "fork":
            at, target = rng.choice([None, n]), rng.choice(NAMES)
            await pair.both(lambda store, _: store.fork(name, at=at, new_conversation_id=target, source_scope=scope))
        case "delete":
            await pair.both(lambda store, _: store.delete(name, scope=scope))
        case _:
            pass


@pytest.mark.parametrize("seed", range(dose(short=4, soak=400)))
async def test_random_operations_have_the_answers_and_the_conflicts_of_the_store_in_memory(
    store: ConversationStore, seed: int
) -> None:
    rng, pair = random.Random(seed), Pair(store)
    held: dict[str, tuple[Conversation, Conversation]] = {}
    for _ in range(40):
        await step(pair, rng, held)
    await pair.check(NAMES)


async def test_what_one_object_wrote_another_reads(sessions: plait.AsyncSessions, store: ConversationStore) -> None:
    conversation = Conversation(conversation_id="c", messages=[asks("one"), says("two")])
    entries = await store.save(conversation)
    other = ConversationStore(sessions)
    assert await other.read_entry(entries[1].id) == entries[1]
    assert await other.read_history(entries[0].id) == entries[:1]
    with pytest.raises(LookupError):
        await other.read_entry("nowhere")


async def test_of_savers_at_once_one_wins_and_the_others_leave_nothing(store: ConversationStore) -> None:
    conversation = Conversation(conversation_id="c", messages=[asks("one")])
    await store.save(conversation)
    loaded = [await store.load("c") for _ in range(8)]
    for n, mine in enumerate(loaded):
        mine.messages.append(says(f"answer {n}"))
    outcomes = await asyncio.gather(*(store.save(mine) for mine in loaded), return_exceptions=True)
    assert sum(isinstance(one, list) for one in outcomes) == 1
    assert sum(isinstance(one, ConversationConflict) for one in outcomes) == 7
    assert len(await store.load_entries("c") or []) == 2
    assert (await store._sessions.session("c").totals()).messages == 2


def entry(id: str, parent: str | None) -> ConversationEntry:
    return ConversationEntry(id=id, parent_id=parent, message=asks(id))


def record_of(conversation_id: str, head: str) -> ConversationRecord:
    now = dt.datetime.now(dt.timezone.utc)
    return ConversationRecord(
        conversation_id=conversation_id, head_id=head, usage=RunUsage(), revision="r", updated_at=now
    )


async def test_entries_of_several_chains_are_saved_with_their_record_or_not_at_all(
    sessions: plait.AsyncSessions, store: ConversationStore
) -> None:
    lost = [entry("c1", None), entry("c2", "nobody")]
    with pytest.raises(ConversationConflict):
        await store.write_record(record_of("c", "c1"), new_entries=lost, expected_revision=None)
    assert [row async for row in sessions.session("c").everything()] == []
    assert await store.read_record("c") is None
    kept = [entry("c1", None), entry("c2", "c1"), entry("d1", "c1"), entry("e1", None)]
    await store.write_record(record_of("c", "c2"), new_entries=kept, expected_revision=None)
    record = await store.read_record("c")
    assert record is not None and (record.head_id, record.revision) == ("c2", "r")
    assert [one.id for one in await store.read_history("d1")] == ["c1", "d1"]
    again = [entry("f1", "e1"), entry("c2", "e1")]
    with pytest.raises(ConversationConflict):
        await store.write_record(record_of("c", "f1"), new_entries=again, expected_revision="r")
    assert await sessions.session("c").get("f1") is None


async def test_a_fork_that_was_stopped_in_its_middle_is_made_when_it_is_repeated(
    sessions: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ConversationStore(sessions)
    await store.save(Conversation(messages=[asks("Hi"), says("Hello")], usage=RunUsage(), conversation_id="source"))

    async def stopped(*given: Any) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch, pytest.raises(asyncio.CancelledError):
        patch.setattr(ConversationStore, "_write", stopped)
        await store.fork("source", new_conversation_id="fork")
    assert await sessions.get("fork") is not None
    again = ConversationStore(sessions)
    forked = await again.fork("source", new_conversation_id="fork")
    assert len(forked.messages) == 2
    record = await again.read_record("fork")
    assert record is not None and record.forked_from == "source"
    with pytest.raises(ConversationConflict):
        await again.fork("source", new_conversation_id="fork")
    await sessions.session("source").fork("theirs")
    await sessions.session("theirs").append(plait.user("Mine"))
    with pytest.raises(ConversationConflict):
        await again.fork("source", new_conversation_id="theirs")


async def test_three_turns_save_each_message_once(sessions: plait.AsyncSessions, store: ConversationStore) -> None:
    agent = Agent(TestModel(call_tools=["weather"]))
    agent.tool_plain(weather)
    for n in range(3):
        conversation = await store.load("c") or Conversation(conversation_id="c")
        await store.save(await agent.run(f"turn {n}", conversation=conversation))
    stored = [message async for message in sessions.session("c").transcript()]
    assert len(stored) == (await sessions.session("c").totals()).messages == 8  # the test model calls a tool once
    loaded = await store.load("c")
    assert loaded is not None and len(loaded.messages) == 8
    assert [message.role for message in stored[:4] if isinstance(message, plait.Message)] == [
        *("user", "assistant", "tool", "assistant")
    ]


def weather(city: str) -> str:
    """The weather."""
    return f"Sun in {city}."


ODD: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart(content="half \ud99c, NUL \x00, 日本")]),
    ModelRequest(
        parts=[UserPromptPart(content=["look", BinaryImage(b"\xff\xfe\xfb\xf0" * 9, media_type="image/png")])]
    ),
    ModelResponse(parts=[ToolCallPart("f", {"z": 1, "a": 2**70, "n": 1.0}, "c1")]),
    ModelRequest(
        parts=[ToolReturnPart("f", [{"deep": [1, None]}, BinaryImage(b"\xff\xfe", media_type="image/png")], "c1")]
    ),
    ModelRequest(parts=[ToolReturnPart("f", "no", "c2", outcome="failed")], instructions="Be brief."),
    ModelResponse(parts=[ToolCallPart("f", {"kind": "binary", "data": "a-b_c-_=", "media_type": "x/y"}, "c3")]),
    ModelRequest(parts=[ToolReturnPart("f", {"kind": "binary", "data": "a-b_c", "half": "\ud83d"}, "c3")]),
    ModelResponse(parts=[TextPart(content="", id="x", provider_details={"signature": "abc"}), TextPart(content="a")]),
]


async def test_messages_come_back_equal_and_bytes_are_kept_once(
    sessions: plait.AsyncSessions, store: ConversationStore
) -> None:
    await store.save(Conversation(conversation_id="c", messages=list(ODD)))
    loaded = await ConversationStore(sessions).load("c")
    assert loaded is not None and loaded.messages == ODD
    pieces = [piece async for piece in sessions.session("c").read_attachment((await first(sessions, "c", 1)).id)]
    assert b"".join(pieces) == b"\xff\xfe\xfb\xf0" * 9  # beside the message, not in it


async def first(sessions: plait.AsyncSessions, id: str, n: int) -> plait.Message:
    rows = [row async for row in sessions.session(id).transcript()]
    found = rows[n]
    assert isinstance(found, plait.Message)
    return found


async def test_a_message_that_this_version_cannot_read_hides_no_other(
    sessions: plait.AsyncSessions, store: ConversationStore, caplog: pytest.LogCaptureFixture
) -> None:
    given = [asks("one"), says("two")]
    await store.save(Conversation(conversation_id="c", messages=list(given)))
    strange = {"kind": "response", "parts": [{"part_kind": "of-the-future", "v": 1}]}
    await sessions.session("c").append(strange)
    loaded = await store.load("c")
    assert loaded is not None and loaded.messages == given
    assert "cannot read it" in caplog.text
    assert (await first(sessions, "c", 2)).to_dict() == strange


# --- beside other writers


async def test_what_another_framework_appended_belongs_to_the_history_and_a_stale_copy_conflicts(
    sessions: plait.AsyncSessions, store: ConversationStore
) -> None:
    conversation = Conversation(conversation_id="c", messages=[asks("one"), says("two")])
    await store.save(conversation)
    chat = sessions.session("c")
    await chat.append({"role": "user", "content": "three"})
    await chat.append({"type": "function_call", "call_id": "k", "name": "f", "arguments": "{}"})
    await chat.append({"type": "function_call_output", "call_id": "k", "output": "four"})
    conversation.messages.append(asks("stale"))
    with pytest.raises(ConversationConflict):
        await store.save(conversation)
    loaded = await store.load("c")
    assert loaded is not None
    kinds = [[part.part_kind for part in message.parts] for message in loaded.messages]
    assert kinds == [["user-prompt"], ["text"], ["user-prompt"], ["tool-call"], ["tool-return"]]
    loaded.messages.append(says("five"))
    await store.save(loaded)
    items = [item async for item in chat.history(as_="openai")]
    assert [item.get("content", item.get("type")) for item in items][-1] == "five"
    assert [entry.parent_id for entry in (await store.load_entries("c") or [])][-1] == (await chat.leaf()).parent_id  # type: ignore[union-attr]


async def test_a_session_that_others_began_is_a_conversation(
    sessions: plait.AsyncSessions, store: ConversationStore
) -> None:
    await sessions.session("c").append(plait.user("Hello."))
    loaded = await store.load("c")
    assert loaded is not None and [part.content for part in loaded.messages[0].parts] == ["Hello."]  # type: ignore[union-attr]
    loaded.messages.append(says("Hi."))
    assert len(await store.save(loaded)) == 1
    assert (await sessions.session("c").totals()).messages == 2


async def test_after_a_compaction_a_run_begins_with_the_summary_and_nothing_is_lost(
    sessions: plait.AsyncSessions, store: ConversationStore
) -> None:
    conversation = Conversation(conversation_id="c", messages=[asks("1"), says("2"), asks("3"), says("4")])
    entries = await store.save(conversation)
    await sessions.session("c").add_overlay(entries[0].id, entries[1].id, summary="They counted to two.")
    loaded = await store.load("c")
    assert loaded is not None and len(loaded.messages) == 3
    assert [part.content for part in loaded.messages[0].parts] == ["They counted to two."]  # type: ignore[union-attr]
    loaded.messages.append(asks("5"))
    await store.save(loaded)
    assert [entry.message.parts[0].content for entry in await store.load_entries("c") or []] == list("12345")  # type: ignore[union-attr]


async def test_a_branch_is_the_sessions_active_path(sessions: plait.AsyncSessions, store: ConversationStore) -> None:
    conversation = Conversation(conversation_id="c", messages=[asks("1"), says("2")])
    await store.save(conversation)
    await store.branch("c", at=1, expected_revision=conversation.revision)
    assert [m.text async for m in sessions.session("c").history() if isinstance(m, plait.Message)] == ["1"]
    record = await store.read_record("c")
    assert record is not None and len(record.branches) == 1
    await store.branch("c", at=0, expected_revision=record.revision)
    assert [m async for m in sessions.session("c").history()] == []
    assert (await store.load("c")).messages == []


async def test_a_branch_that_others_left_is_one_of_the_conversations(
    sessions: plait.AsyncSessions, store: ConversationStore
) -> None:
    """By a checkout or an append elsewhere: what the conversation ended in can be gone back to."""
    conversation = Conversation(conversation_id="c", messages=[asks("1"), says("2"), asks("3")])
    await store.save(conversation)
    session = sessions.session("c")
    first, second, third = [message.id async for message in session.transcript()]
    await session.append(plait.user("on"))
    record = await store.read_record("c")
    assert record is not None and record.branches == []
    beside = (await session.append(plait.user("other"), parent=second)).id
    record = await store.read_record("c")
    assert record is not None and (record.head_id, record.branches) == (beside, [third])
    await store.branch("c", from_entry=third, expected_revision=record.revision)
    record = await store.read_record("c")
    assert record is not None and (record.head_id, record.branches) == (third, [beside])
    await session.checkout(None)
    record = await store.read_record("c")
    assert record is not None and (record.head_id, record.branches) == (None, [beside, third])
    await session.checkout(first)
    await session.delete(third)
    record = await store.read_record("c")
    assert record is not None and (record.head_id, record.branches) == (first, [beside])


async def test_ids_that_nobody_can_have_are_not_there(store: ConversationStore) -> None:
    for id in ("plait:shared", "half \ud83d", "x" * 513, " ", ""):
        assert await store.load(id) is None
        with pytest.raises(plait.UsageError):
            await store.save(Conversation(conversation_id=id, messages=[asks("1")]))


async def test_what_another_process_deletes_is_gone_and_what_it_makes_anew_is_there(
    sessions: plait.AsyncSessions, store: ConversationStore, store_at: str
) -> None:
    await store.save(Conversation(conversation_id="c", messages=[asks("1"), says("2")]))
    entries = await store.load_entries("c")
    third, fourth = asks("3"), asks("4")
    async with plait.open_async(store_at) as elsewhere:
        theirs = ConversationStore(elsewhere)
        await elsewhere.delete("c")
        with pytest.raises(LookupError):
            await store.read_entry(entries[0].id)
        assert await store.load("c") is None
        await theirs.save(Conversation(conversation_id="c", messages=[third]))
        assert (await store.load("c")).messages == [third]  # type: ignore[union-attr]
        (entry,) = await theirs.load_entries("c")
        await elsewhere.delete("c")
        await theirs.save(Conversation(conversation_id="c", messages=[fourth]))
        (entry,) = await theirs.load_entries("c")
        assert (await store.read_entry(entry.id)).message == fourth


async def test_the_scope_of_plait_keeps_conversations_apart(sessions: plait.AsyncSessions) -> None:
    ada, bob = (ConversationStore(sessions.scoped("t", name)) for name in ("ada", "bob"))
    entries = await ada.save(Conversation(conversation_id="c", messages=[asks("hers")]))
    assert await bob.load("c") is None and await bob.list_conversations() == []
    with pytest.raises(LookupError):
        await bob.read_entry(entries[0].id)
    await bob.save(Conversation(conversation_id="c", messages=[asks("his")]))
    await bob.delete("c")
    assert await ada.load("c") is not None


# --- under its adapter for interfaces


async def test_the_store_serves_a_vercel_interface(store: ConversationStore) -> None:
    vercel = pytest.importorskip("pydantic_ai.ui.vercel_ai", reason="needs pydantic-ai-slim[ui]")
    pytest.importorskip("starlette", reason="needs starlette")
    agent = Agent(TestModel(custom_output_text="Hello."))
    for n in range(2):
        said = {"id": f"u{n}", "role": "user", "parts": [{"type": "text", "text": f"turn {n}"}]}
        body = json.dumps({"trigger": "submit-message", "id": "chat", "messages": [said]}).encode()
        request = vercel.VercelAIAdapter.build_run_input(body)
        adapter = vercel.VercelAIAdapter(agent=agent, run_input=request, conversation_store=store)
        events = [event async for event in adapter.run_stream(conversation_id="chat")]
        assert events
    loaded = await store.load("chat")
    assert loaded is not None and len(loaded.messages) == 4


# --- runs written as they come


PROGRAM = """
import asyncio, json, os, signal, sys
import plait
from plait.adapters.pydantic_ai import Saving, history, instructions, tools
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

path, step, streamed = sys.argv[1], sys.argv[2], sys.argv[3] == "streamed"

def reply(messages, info):
    assert "MEMORY" in info.instructions, info.instructions
    assert {tool.name for tool in info.function_tools} == {"weather", "set_context"}
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    return " ".join(str(part.content) for part in returned)

def model(messages, info):
    if said := reply(messages, info):
        return ModelResponse(parts=[TextPart(said)])
    return ModelResponse(parts=[ToolCallPart("weather", {"city": city}, tool_call_id=city) for city in ("Lyon", "Oslo")])

async def stream(messages, info):
    if said := reply(messages, info):
        yield said
    else:
        yield {n: DeltaToolCall("weather", json.dumps({"city": city}), tool_call_id=city) for n, city in enumerate(("Lyon", "Oslo"))}

async def weather(city: str) -> str:
    "The weather."
    if step == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"Sun in {city}."

async def main():
    async with plait.open_async(path) as sessions:
        chat = sessions.session("chat", cached_prompt=True, context=[plait.BlockSpec("memory", max_tokens=200)])
        await chat.context.replace("memory", "The user likes sun.")
        agent = Agent(FunctionModel(model, stream_function=stream), tools=[weather, *await tools(chat)], instructions=instructions(chat))
        given = dict(message_history=await history(chat, for_model=False), capabilities=[Saving(chat)])
        asked = None if given["message_history"] else "Weather in Lyon and Oslo?"
        if streamed:
            async with agent.run_stream(asked, **given) as result:
                said = await result.get_output()
        else:
            said = (await agent.run(asked, **given)).output
        print(json.dumps({"said": said}))

asyncio.run(main())
"""


def test_a_run_killed_between_call_and_result_goes_on_without_a_prompt_in_a_new_process(tmp_path: Path) -> None:
    how = "streamed"
    file = tmp_path / "store.db"
    run(PROGRAM, file, "killed", how, killed=True)
    with plait.open(file) as sessions:
        stored = list(sessions.session("chat").history())
        assert [message.role for message in stored if isinstance(message, plait.Message)] == ["user", "assistant"]
        assert len(stored[1].parts) == 2  # type: ignore[union-attr]
        legal = list(sessions.session("chat").history(as_="openai", for_model=True))
        assert [item.get("output") for item in legal[-2:]] == [plait.NO_RESULT] * 2
    done = run(PROGRAM, file, "resumed", how)
    assert sorted(done["said"].replace(".", "").split(" Sun ")) == sorted(["Sun in Lyon", "in Oslo"])
    with plait.open(file) as sessions:
        chat = sessions.session("chat")
        assert [message.role for message in chat.history() if isinstance(message, plait.Message)] == [
            *("user", "assistant", "tool", "assistant")
        ]
        items = list(chat.history(as_="openai", for_model=True))
        kinds = [item.get("type", item.get("role")) for item in items]
        assert kinds == ["user", *["function_call"] * 2, *["function_call_output"] * 2, "assistant"]


def run(program: str, file: Path, *steps: str, killed: bool = False) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", program, str(file), *steps],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == (-signal.SIGKILL if killed else 0), done.stderr
    answer: dict[str, str] = {} if killed else json.loads(done.stdout)
    return answer


def two_calls(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if isinstance(messages[-1].parts[-1], ToolReturnPart) or any(isinstance(m, ModelResponse) for m in messages):
        return says("Done.")
    return ModelResponse(parts=[ToolCallPart("weather", {"city": city}, city) for city in ("Lyon", "Oslo")])


async def test_each_message_of_a_run_is_written_once_whoever_gives_the_history(sessions: plait.AsyncSessions) -> None:
    chat = sessions.session("c")
    agent = Agent(FunctionModel(two_calls), tools=[weather])
    for n in range(3):
        await agent.run(f"turn {n}", message_history=await history(chat), capabilities=[Saving(chat)])
    roles = [message.role async for message in chat.history() if isinstance(message, plait.Message)]
    assert roles == ["user", "assistant", "tool", "assistant", *["user", "assistant"] * 2]
    assert ModelMessagesTypeAdapter.dump_python(await history(chat))


# --- context


async def test_the_blocks_are_tools_and_instructions_beside_the_apps_own(sessions: plait.AsyncSessions) -> None:
    chat = sessions.session("c", context=[plait.BlockSpec("memory", description="Facts", max_tokens=200)])
    seen: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.instructions or "")
        if isinstance(messages[-1].parts[-1], ToolReturnPart):
            return says(str(messages[-1].parts[-1].content))
        given = {"label": "memory", "content": "The cat is called Schnurr."}
        return ModelResponse(parts=[ToolCallPart("set_context", given, "c1")])

    agent = Agent(
        FunctionModel(model), tools=[weather, *await tools(chat)], instructions=["Be kind.", instructions(chat)]
    )
    result = await agent.run("My cat is called Schnurr.")
    assert result.output.startswith("Written to memory.")
    block = await chat.context.block("memory")
    assert block is not None and block.content == "The cat is called Schnurr."
    assert seen[0] == seen[1] and "Be kind." in seen[0] and "MEMORY (Facts)" in seen[0]


def test_the_other_face_has_tools_and_instructions_too(tmp_path: Path) -> None:
    with plait.open(tmp_path / "s.db") as opened:
        chat = opened.session("c", context=["memory"])

        async def use() -> tuple[list[Any], str]:
            return await tools(chat), await instructions(chat)()

        found, prompt = asyncio.run(use())
        assert [tool.name for tool in found] == ["set_context"]
        assert "MEMORY" in prompt


async def test_a_model_of_pydantic_ai_summarizes(sessions: plait.AsyncSessions) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert info.function_tools == [] and not info.instructions
        return says("They counted.")

    chat = sessions.session("c")
    chat.on_compaction(plait.compact_function(summarizer(FunctionModel(model)), keep_recent_tokens=50))
    for n in range(40):
        await chat.append(plait.user(f"This is number {n}, and that is all there is to say."))
    assert (await chat.compact()).done
    assert "They counted." in [message.text async for message in chat.history() if isinstance(message, plait.Message)]


PAGE = "so much to say " * 25


async def read(n: int) -> str:
    """A page of the book."""
    return f"Page {n}: {PAGE}"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_run_is_compacted_in_mid_turn_by_its_own_model_without_tools(
    streamed: bool, sessions: plait.AsyncSessions
) -> None:
    shown: list[list[ModelMessage]] = []
    summed: list[int] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not info.function_tools:
            assert not info.instructions and len(messages) == 1
            summed.append(len(shown))
            return says(f"Summary {len(summed)}.")
        shown.append(messages)
        if len(shown) > 6:
            return says("All read.")
        numbers = (2 * len(shown), 2 * len(shown) + 1)
        return ModelResponse(parts=[ToolCallPart("read", {"n": n}, f"c{n}") for n in numbers])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for n, part in enumerate(model(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {n: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            else:
                yield part.content  # type: ignore[union-attr]

    chat = sessions.session("c")
    agent = Agent(FunctionModel(model, stream_function=stream), tools=[read], instructions="Read.")
    compaction = Compaction(1_200, keep_recent_tokens=400, protect_head=1)
    given: Any = {"capabilities": [Saving(chat, compaction=compaction)]}
    if streamed:
        async with agent.run_stream("Read it all.", **given) as result:
            assert await result.get_output() == "All read."
            every = result.all_messages()
    else:
        run = await agent.run("Read it all.", **given)
        assert run.output == "All read."
        every = run.all_messages()
    assert len(summed) >= 2 and summed[0] < 7, "in mid-turn"
    assert max(len(str(messages)) for messages in shown) < len(str(every)) * 0.75, (
        "what later calls were sent is shorter"
    )
    assert any("Summary" in str(messages) for messages in shown)
    for messages in shown:
        parts = [part for message in messages for part in message.parts]
        asked = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
        assert asked == [part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)]
        assert isinstance(messages[0], ModelRequest) and "Read it all." in str(messages[0])
    stored = [message async for message in chat.transcript() if isinstance(message, plait.Message)]
    assert [message.role for message in stored] == ["user", *["assistant", "tool"] * 6, "assistant"]
    assert [entry.message for entry in pydantic_ai._entries(stored)] == every, "of the run's own nothing changes"
    info = await chat.info()
    assert info is not None and info.usage.output_tokens > 0, "what the summaries used is counted"
    begun = await history(chat)
    assert len(begun) < len(every) and "Summary" in str(begun)


async def test_a_summary_model_and_what_is_reserved_are_heeded(sessions: plait.AsyncSessions) -> None:
    def small(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return says("By another.")

    chat = sessions.session("c")
    await chat.append_many([plait.user(f"{n} {PAGE}") for n in range(10)])
    agent = Agent(FunctionModel(lambda messages, info: says("Yes.")))
    compaction = Compaction(10_000, FunctionModel(small), 9_500, keep_recent_tokens=300)
    await agent.run("And?", message_history=await history(chat), capabilities=[Saving(chat, compaction=compaction)])
    assert [overlay.summary for overlay in await chat.overlays()] == ["By another."]
    unreserved = sessions.session("d")
    await unreserved.append_many([plait.user(f"{n} {PAGE}") for n in range(10)])
    saving = Saving(unreserved, compaction=Compaction(10_000, FunctionModel(small), keep_recent_tokens=300))
    await agent.run("And?", message_history=await history(unreserved), capabilities=[saving])
    assert await unreserved.overlays() == []


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_what_a_processor_makes_of_the_history_is_never_stored(
    streamed: bool, sessions: plait.AsyncSessions
) -> None:
    """B-046: neither what it adds, nor copies of what is there, nor copies of what is new."""

    def rewritten(messages: list[ModelMessage]) -> list[ModelMessage]:
        copies = [replace(message, parts=list(message.parts), metadata={"copied": True}) for message in messages]
        return [asks("rewritten"), *copies]

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for n, part in enumerate(two_calls(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {n: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            else:
                yield part.content  # type: ignore[union-attr]

    chat = sessions.session("c")
    model = FunctionModel(two_calls, stream_function=stream)
    agent = Agent(model, tools=[weather], capabilities=[ProcessHistory(rewritten)])
    for count in (4, 6, 8):
        given: Any = {"message_history": await history(chat), "capabilities": [Saving(chat)]}
        if streamed:
            async with agent.run_stream(f"to {count}", **given) as result:
                await result.get_output()
        else:
            await agent.run(f"to {count}", **given)
        assert (await chat.totals()).messages == count
    assert "rewritten" not in str(await history(chat)) and "copied" not in str(await history(chat))
    parts = [part.part_kind for message in await history(chat) for part in message.parts]
    assert parts[:6] == ["user-prompt", "tool-call", "tool-call", "tool-return", "tool-return", "text"]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_pause_for_approval_stores_one_call_and_one_result(
    approved: bool, sessions: plait.AsyncSessions
) -> None:
    """B-048: nothing but the session is left between asking and the answer."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return says(str(last.content))
        return ModelResponse(parts=[ToolCallPart("pay", {}, "c1")])

    async def pay() -> str:
        return "Paid."

    chat = sessions.session("c")
    agent: Any = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests])
    agent.tool_plain(pay, requires_approval=True)
    asked = await agent.run("Pay!", capabilities=[Saving(chat)])
    assert [call.tool_call_id for call in asked.output.approvals] == ["c1"]
    before = await history(chat, for_model=False)
    answer = DeferredToolResults(approvals={"c1": approved})
    await agent.run(message_history=before, deferred_tool_results=answer, capabilities=[Saving(chat)])
    stored = [message async for message in chat.history() if isinstance(message, plait.Message)]
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]
    assert (stored[-1].text == "Paid.") == approved


async def test_an_answer_that_is_a_tools_is_stored_with_its_end(sessions: plait.AsyncSessions) -> None:
    chat = sessions.session("c")
    agent = Agent(TestModel(), output_type=dict[str, int], tools=[weather])
    for _ in range(2):
        result = await agent.run("Count.", message_history=await history(chat), capabilities=[Saving(chat)])
        assert ModelMessagesTypeAdapter.dump_python(await history(chat, for_model=False)) == (
            ModelMessagesTypeAdapter.dump_python(result.all_messages())
        )
        assert (await chat.totals()).messages == len(result.all_messages())


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_question_that_nobody_answered_is_asked_again_and_stored_once(
    streamed: bool, sessions: plait.AsyncSessions
) -> None:
    chat = sessions.session("c")
    await chat.append(plait.user("Are you there?"))
    agent = Agent(TestModel(custom_output_text="Yes."))
    given: Any = {"message_history": await history(chat), "capabilities": [Saving(chat)]}
    if streamed:
        async with agent.run_stream(**given) as result:
            await result.get_output()
    else:
        await agent.run(**given)
    assert [message.text async for message in chat.history() if isinstance(message, plait.Message)] == [
        *("Are you there?", "Yes.")
    ]


@pytest.mark.parametrize("limit", range(6))
async def test_no_limit_shows_a_model_a_result_without_its_call(
    limit: int, sessions: plait.AsyncSessions, store: ConversationStore
) -> None:
    """B-063: `load` answers as many as it is asked for, and Pydantic AI drops what lost its call."""
    chat = sessions.session("c")
    await Agent(FunctionModel(two_calls), tools=[weather]).run("Weather?", capabilities=[Saving(chat)])

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        asked = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
        assert asked == [part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)]
        return says("Fine.")

    conversation = await store.load("c", limit=limit)
    result = await Agent(FunctionModel(model)).run("Thanks.", conversation=conversation)
    await store.save(result)
    assert (await chat.totals()).messages == 6


async def test_a_block_that_a_tool_writes_makes_no_copy_of_a_conversation_stale(
    sessions: plait.AsyncSessions, store: ConversationStore
) -> None:
    """B-032"""
    conversation = Conversation(conversation_id="c", messages=[asks("one"), says("two")])
    await store.save(conversation)
    chat = sessions.session("c", context=["memory"])
    (tool,) = await chat.tools()
    await tool.call({"label": "memory", "content": "Likes tea."})
    await sessions.rename("c", "Tea")
    conversation.messages.append(asks("three"))
    assert len(await store.save(conversation)) == 1
