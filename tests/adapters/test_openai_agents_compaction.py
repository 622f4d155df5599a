"""Compaction under OpenAI's Agents SDK: by the agent's own model, in mid-turn, and by OpenAI, which hides and deletes nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import plait
from plait import AsyncSession

agents = pytest.importorskip("agents", reason="needs openai-agents: pip install 'plait[openai]'")

from agents.memory import openai_responses_compaction_session as theirs  # noqa: E402  # after the skip
from agents.memory import session as protocol  # noqa: E402  # likewise
from agents.memory import sqlite_session  # noqa: E402  # likewise
from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402  # likewise

from plait.adapters import openai_agents  # noqa: E402  # likewise
from plait.adapters.openai_agents import PlaitSession  # noqa: E402  # likewise

agents.set_tracing_disabled(True)

MODES = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
WORDS = "so much to say " * 60


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[AsyncSession]:
    async with plait.open_async(tmp_path / "store.db") as sessions:
        yield sessions.session("chat")


@agents.function_tool
def read(page: int) -> str:
    """A long page."""
    return f"page {page}: {WORDS}"


def pages(*numbers: int) -> list[Any]:
    return [function_call("read", {"page": n}, call_id=f"c{n}") for n in numbers]


async def run(agent: Any, given: Any, session: Any, streamed: bool, **options: Any) -> Any:
    if not streamed:
        return await agents.Runner.run(agent, given, session=session, **options)
    result = agents.Runner.run_streamed(agent, given, session=session, **options)
    async for _ in result.stream_events():
        pass
    return result


def matched(items: Any) -> bool:
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    return sorted(calls) == sorted(results)


# -- by the agent's model ------------------------------------------------------------------


@MODES
async def test_the_agents_own_model_sums_up_without_tools_also_in_mid_turn(chat: AsyncSession, streamed: bool) -> None:
    asked: list[Any] = []

    def answer(call: Any) -> Any:
        asked.append(call)
        if not call.tools:
            return [assistant_message(f"Summary {sum(not one.tools for one in asked)}.")]
        turn = sum(bool(one.tools) for one in asked)
        return pages(2 * turn, 2 * turn + 1) if turn <= 6 else [assistant_message("All read.")]

    model = ScriptedModel([{"responder": answer}] * 40)
    settings = agents.ModelSettings(temperature=0.5, tool_choice="auto", parallel_tool_calls=True)
    agent = agents.Agent(name="a", instructions="Read.", model=model, tools=[read], model_settings=settings)
    session = PlaitSession(chat)
    function = plait.compact_function(openai_agents.summarizer(agent), keep_recent_tokens=400, protect_head=1)
    chat.on_compaction(function).compact_after(1_200)
    config = openai_agents.compacting(session, agents.RunConfig())
    result = await run(agent, "Read it all.", session, streamed, run_config=config, max_turns=20)
    assert result.final_output == "All read."
    summaries, turns = [call for call in asked if not call.tools], [call for call in asked if call.tools]
    assert len(summaries) >= 2
    assert all(call.system_instructions is None and call.handoffs == [] for call in summaries)
    assert {(s.model_settings.temperature, s.model_settings.tool_choice) for s in summaries} == {(0.5, None)}
    assert all(matched(call.input) for call in turns)
    assert [call.input[0] for call in turns] == [{"role": "user", "content": "Read it all."}] * 7
    longest = max(len(str(call.input)) for call in turns)
    assert longest < 12 * len(WORDS) * 0.75, "the input of the later calls was shortened"
    assert any("Summary" in str(call.input) for call in turns)
    assert (await chat.totals()).messages == 1 + 6 * 4 + 1
    items = [message.to_dict() async for message in chat.transcript() if isinstance(message, plait.Message)]
    assert matched(items)


async def test_a_summary_model_takes_the_place_of_the_agents(chat: AsyncSession) -> None:
    other, own = ScriptedModel([[assistant_message("By another.")]] * 3), ScriptedModel([])
    agent = agents.Agent(name="a", model=own)
    assert await openai_agents.summarizer(agent, summary_model=other)("Sum up.") == "By another."
    assert await openai_agents.summarizer(agent, run_config=agents.RunConfig(model=other))("Sum up.") == "By another."

    class Provider(agents.ModelProvider):  # type: ignore[name-defined,misc]
        def get_model(self, model_name: str | None) -> Any:
            assert model_name == "small"
            return other

    config = agents.RunConfig(model_provider=Provider())
    assert await openai_agents.summarizer(agent, summary_model="small", run_config=config)("Sum up.") == "By another."
    assert len(own.calls) == 0


async def test_what_summaries_use_is_counted_where_a_session_is_named(chat: AsyncSession) -> None:
    used = agents.Usage(requests=1, input_tokens=70, output_tokens=3, total_tokens=73)
    model = ScriptedModel([{"output": [assistant_message("Ten of them.")], "usage": used}])
    await chat.append_many([plait.user(f"{n} {WORDS}") for n in range(10)])
    summarize = openai_agents.summarizer(agents.Agent(name="a", model=model), chat=chat)
    assert (await chat.on_compaction(plait.compact_function(summarize, keep_recent_tokens=300)).compact()).done
    info = await chat.info()
    assert info is not None and (info.usage.input_tokens, info.usage.output_tokens) == (70, 3)


async def test_a_filter_of_the_applications_own_sees_what_is_left(chat: AsyncSession) -> None:
    seen: list[int] = []

    async def own(data: Any) -> Any:
        seen.append(len(data.model_data.input))
        return agents.run.ModelInputData(input=data.model_data.input[-1:], instructions="mine")

    model = ScriptedModel([[assistant_message("Yes.")]])
    await chat.append_many([plait.user(f"{n} {WORDS}") for n in range(10)])
    summing = ScriptedModel([[assistant_message("Ten of them.")]])
    agent = agents.Agent(name="a", model=model)
    function = plait.compact_function(openai_agents.summarizer(agent, summary_model=summing), keep_recent_tokens=300)
    chat.on_compaction(function).compact_after(10_000)
    session = PlaitSession(chat)
    config = openai_agents.compacting(session, agents.RunConfig(call_model_input_filter=own), reserved_tokens=9_000)
    await agents.Runner.run(agent, "And?", session=session, run_config=config)
    assert seen and seen[0] < 11
    assert (model.calls[0].input, model.calls[0].system_instructions) == ([{"role": "user", "content": "And?"}], "mine")


async def test_a_summary_that_fails_fails_no_run(chat: AsyncSession) -> None:
    agent = agents.Agent(name="a", model=ScriptedModel([[assistant_message("Yes.")]]))
    failing = ScriptedModel([RuntimeError("no summary")] * 9)
    function = plait.compact_function(openai_agents.summarizer(agent, summary_model=failing), keep_recent_tokens=100)
    await chat.append_many([plait.user(f"{n} {WORDS}") for n in range(10)])
    failures: list[Exception] = []
    chat.on_compaction(function).compact_after(500).on_compaction_error(failures.append)
    session = PlaitSession(chat)
    result = await agents.Runner.run(agent, "And?", session=session, run_config=openai_agents.compacting(session))
    assert result.final_output == "Yes." and failures
    assert (await chat.totals()).messages == 12 and await chat.overlays() == []


async def test_compacting_without_a_way_to_compact_says_what_is_missing(chat: AsyncSession) -> None:
    session = PlaitSession(chat)
    await session.run_compaction()
    with pytest.raises(plait.UsageError, match="on_compaction"):
        await session.run_compaction({"force": True})
    agent = agents.Agent(name="a", model=ScriptedModel([[assistant_message("Yes.")]]))
    with pytest.raises(plait.UsageError, match="on_compaction"):
        await agents.Runner.run(agent, "And?", session=session, run_config=openai_agents.compacting(session))


# -- by OpenAI ------------------------------------------------------------------------------


def test_the_private_names_that_the_sdk_looks_for_are_where_they_were() -> None:
    """If this fails the SDK has moved them: OpenAI's compaction would clear the session, as a branch, and add its output."""
    fields = set(protocol._CompactionSnapshot.__dataclass_fields__)
    assert fields == {"items", "complete", "replace_suffix"}
    source = Path(theirs.__file__).read_text("utf-8")
    for name in (
        '"_get_compaction_snapshot"',
        '"_atomic_replace_items"',
        "snapshot.replace_suffix(suffix_start, output_items)",
    ):
        assert name in source
    mine, model = PlaitSession._get_compaction_snapshot, sqlite_session.SQLiteSession._get_compaction_snapshot
    assert parameters(mine) == parameters(model)


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    import inspect

    return [(name, given.kind, given.default) for name, given in inspect.signature(function).parameters.items()]


class Compacts:
    """OpenAI's client as far as compaction needs it: answers with a sealed item, and notes what it was sent."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.responses = self
        self.meanwhile: Any = None

    async def compact(self, **given: Any) -> Any:
        self.asked.append(given)
        if self.meanwhile is not None:
            await self.meanwhile()
        return SimpleNamespace(
            output=[{"type": "compaction", "encrypted_content": f"sealed {len(self.asked)}"}], usage=None
        )


def wrapped(session: PlaitSession, client: Compacts, **options: Any) -> Any:
    return agents.OpenAIResponsesCompactionSession(
        session_id=session.session_id, underlying_session=session, client=client, **options
    )


@MODES
async def test_openais_own_compaction_hides_and_deletes_nothing(chat: AsyncSession, streamed: bool) -> None:
    client, session = Compacts(), PlaitSession(chat)
    outer = wrapped(session, client, should_trigger_compaction=lambda about: len(about["session_items"]) >= 5)
    for turn in range(1, 6):
        agent = agents.Agent(name="a", model=ScriptedModel([[assistant_message(f"answer {turn}")]]))
        config = agents.RunConfig(model_settings=agents.ModelSettings(store=False))
        await run(agent, f"question {turn}", outer, streamed, run_config=config)
    assert len(client.asked) == 2
    items: list[Any] = list(await session.get_items())
    assert [item.get("encrypted_content") for item in items] == ["sealed 2"]
    transcript = [message.text async for message in chat.transcript() if isinstance(message, plait.Message)]
    assert [text for text in transcript if text] == [
        text for n in range(1, 6) for text in (f"question {n}", f"answer {n}")
    ]
    assert {overlay.kind for overlay in await chat.overlays()} == {"archive"}
    assert len(await chat.leaves()) == 1
    assert [hit.snippet for hit in await chat.search("question 1")] == ["question 1"]
    for overlay in reversed(await chat.overlays()):
        await chat.remove_overlay(overlay.id)
    assert len(await session.get_items()) == 12


async def test_forced_compaction_replaces_all_that_is_shown(chat: AsyncSession) -> None:
    client, session = Compacts(), PlaitSession(chat)
    outer = wrapped(session, client, compaction_mode="input")
    given: list[Any] = [{"role": "user", "content": str(n)} for n in range(3)]
    await session.add_items(given)
    await outer.run_compaction({"force": True})
    assert [item["type"] for item in await session.get_items()] == ["compaction"]  # type: ignore[typeddict-item]
    await outer.add_items([{"role": "user", "content": "on"}])
    assert [(await session.pop_item() or {}).get("type", "said") for _ in range(3)] == ["said", "compaction", "said"]
    assert await session.get_items() == []
    assert (await chat.totals()).messages == 5


async def test_what_was_said_while_openai_compacted_is_neither_lost_nor_covered(chat: AsyncSession) -> None:
    client, session = Compacts(), PlaitSession(chat)
    given: list[Any] = [{"role": "user", "content": str(n)} for n in range(3)]
    await session.add_items(given)
    snapshot: Any = await session._get_compaction_snapshot(10)
    assert (snapshot.items, snapshot.complete) == (given, True)
    await chat.append(plait.user("meanwhile"))
    assert not await snapshot.replace_suffix(1, [{"type": "compaction", "encrypted_content": "late"}])
    assert [message.text async for message in chat.history() if isinstance(message, plait.Message)] == [
        "0",
        "1",
        "2",
        "meanwhile",
    ]
    snapshot = await session._get_compaction_snapshot(2)
    assert (len(snapshot.items), snapshot.complete) == (2, False)
    assert await snapshot.replace_suffix(0, [{"type": "compaction", "encrypted_content": "sealed"}])
    assert [item.get("content") for item in await session.get_items()] == ["0", "1", None]
    assert client.asked == []


async def test_a_replacement_that_is_cancelled_has_been_made_or_not_begun(chat: AsyncSession) -> None:
    """Never half of it: the old and what takes its place, both shown to a model."""
    session, made = PlaitSession(chat), 0
    await session.add_items([{"role": "user", "content": str(n)} for n in range(3)])  # type: ignore[misc]
    for turns in range(60):
        before = await session.get_items()
        snapshot: Any = await session._get_compaction_snapshot(10)
        new = {"type": "compaction", "encrypted_content": f"sealed {turns}"}
        task = asyncio.ensure_future(snapshot.replace_suffix(1, [new]))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        after: list[Any] = list(await session.get_items())
        assert after in (before, [before[0], new])
        made += after != before
        await session.add_items([{"role": "user", "content": "more"}])
    assert made


async def test_a_session_that_changes_its_items_is_compacted_through_its_own_methods(chat: AsyncSession) -> None:
    class Shouting(PlaitSession):
        async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
            return [{**item, "content": str(item.get("content")).upper()} for item in await super().get_items(limit)]

    session = Shouting(chat)
    await session.add_items([{"role": "user", "content": "hello"}])
    assert await session._get_compaction_snapshot(5) is None
    assert not await session._atomic_replace_items([])
    outer = wrapped(session, Compacts(), compaction_mode="input")
    await outer.run_compaction({"force": True})
    assert len(await session.get_items()) == 1
    assert (await chat.totals()).messages == 2  # what was there is a branch now


async def test_compacted_to_nothing_hides_all_or_what_was_read(chat: AsyncSession) -> None:
    session = PlaitSession(chat)
    await session.add_items([{"role": "user", "content": str(n)} for n in range(3)])  # type: ignore[misc]
    stale: Any = await session._get_compaction_snapshot(10)
    await chat.append(plait.user("meanwhile"))
    assert not await stale.replace_suffix(0, [])
    assert len(await session.get_items()) == 4
    fresh: Any = await session._get_compaction_snapshot(10)
    assert not await fresh.replace_suffix(9, [])
    assert await fresh.replace_suffix(1, [])
    assert [item["content"] for item in await session.get_items()] == ["0"]  # type: ignore[typeddict-item]
    assert (await chat.totals()).messages == 4
