"""Real runs of OpenAI's Agents SDK on plait, offline: parallel tools, pauses across processes, three turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import plait

agents = pytest.importorskip("agents", reason="needs openai-agents: pip install 'plait[openai]'")

from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call  # noqa: E402  # after the skip

from plait.adapters.openai_agents import PlaitSession  # noqa: E402  # likewise

agents.set_tracing_disabled(True)

ROOT = Path(__file__).parents[2]
PATIENCE_S = 250
"""A process that imports the SDK on a busy machine takes its time."""
MODES = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])

TOOLS = """
import asyncio, json, sys
import plait
from agents import Agent, RunConfig, RunState, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from plait.adapters.openai_agents import PlaitSession, instructions, tools

set_tracing_disabled(True)
path, step, streamed = sys.argv[1], sys.argv[2], sys.argv[3] == "streamed"

@function_tool
async def quick() -> str:
    "Answers at once."
    return "quick result"

@function_tool(needs_approval=True)
async def risky() -> str:
    "Needs somebody's word."
    return "risky result"

def chat_of(sessions):
    return sessions.session("chat", context=[plait.BlockSpec("memory", max_tokens=200)], cached_prompt=True)

async def run(chat, steps, given, **options):
    model = ScriptedModel(steps)
    own = [quick, risky, *await tools(chat)]
    agent = Agent(name="a", model=model, tools=own, instructions=instructions(chat, "Be kind."))
    session = PlaitSession(chat)
    if isinstance(given, dict):
        given = await RunState.from_json(agent, given)
        for item in given.get_interruptions():
            (given.approve if step == "approve" else given.reject)(item)
    if streamed:
        result = Runner.run_streamed(agent, given, session=session, **options)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, given, session=session, **options)
    return model, session, result
"""

PAUSED = (
    TOOLS
    + """
async def main():
    async with plait.open_async(path) as sessions:
        chat = chat_of(sessions)
        calls = [function_call("quick", {}, call_id="c1"), function_call("risky", {}, call_id="c2")]
        if step == "ask":
            model, session, result = await run(chat, [calls], "Do both.")
            await chat.update_state({"run": result.to_state().to_json()})
        else:
            state = (await chat.state())["run"]
            model, session, result = await run(chat, [[assistant_message("Done.")]], state)
        print(json.dumps([result.final_output, await session.get_items()]))

asyncio.run(main())
"""
)


def program(code: str, file: Path, step: str, streamed: bool) -> Any:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code, str(file), step, "streamed" if streamed else "whole"],
        env={**os.environ, "PYTHONPATH": path, "OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stored(file: Path) -> list[Any]:
    with plait.open(file) as sessions:
        history = sessions.session("chat").history()
        return [message.to_dict() for message in history if isinstance(message, plait.Message)]


def kinds(items: list[Any]) -> list[str]:
    """The items as short words: whose message it is, or a call's and a result's id."""
    short = {"function_call": "call ", "function_call_output": "result "}
    return [
        short[item["type"]] + item["call_id"] if item.get("type") in short else item.get("role", item.get("type"))
        for item in items
    ]


def matched(items: list[Any]) -> bool:
    """Whether every result has its call before it, and every call its result after."""
    open_calls: set[str] = set()
    for item in items:
        if item.get("type") == "function_call":
            open_calls.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in open_calls:
                return False
            open_calls.remove(item["call_id"])
    return not open_calls


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.parametrize(("word", "streamed"), [("approve", True), ("reject", False)])
def test_a_pause_for_approval_across_processes_stores_one_call_and_one_result(
    word: str, streamed: bool, tmp_path: Path
) -> None:
    file = tmp_path / "store.db"
    program(PAUSED, file, "ask", streamed)
    said, items = program(PAUSED, file, word, streamed)
    assert said == "Done."
    assert sorted(kinds(items)) == sorted(["user", "call c1", "call c2", "result c1", "result c2", "assistant"])
    assert matched(items)
    assert stored(file) == items
    assert ("risky result" in str(items)) == (word == "approve")


@MODES
@pytest.mark.parametrize("trimmed", ["plain", "limit", "callback"])
async def test_three_turns_store_two_four_and_six_items(streamed: bool, trimmed: str, tmp_path: Path) -> None:
    def newest(history: list[Any], new: list[Any]) -> list[Any]:
        return [*({**item, "content": "rewritten"} for item in history[-1:] if "type" not in item), *new]

    options: dict[str, Any] = {
        "plain": {},
        "limit": {"session_settings": agents.SessionSettings(limit=1)},
        "callback": {"session_input_callback": newest},
    }[trimmed]
    async with plait.open_async(tmp_path / "store.db") as sessions:
        session = PlaitSession(sessions.session("chat"))
        for turn in range(1, 4):
            agent = agents.Agent(name="a", model=ScriptedModel([[assistant_message(f"answer {turn}")]]))
            await run(agent, f"question {turn}", session, streamed, run_config=agents.RunConfig(**options))
            assert len(await session.get_items()) == 2 * turn
        assert "rewritten" not in str(await session.get_items())


@MODES
async def test_calls_and_results_of_a_turn_are_in_the_input_of_the_next_process(streamed: bool, tmp_path: Path) -> None:
    """B-068"""

    @agents.function_tool
    def look(where: str) -> str:
        """Looks."""
        return f"seen {where}"

    calls = [function_call("look", {"where": where}, call_id=f"call_{where}") for where in ("here", "there")]
    async with plait.open_async(tmp_path / "store.db") as sessions:
        model = ScriptedModel([calls, [assistant_message("Seen.")]])
        agent = agents.Agent(name="a", model=model, tools=[look])
        await run(agent, "Look!", PlaitSession(sessions.session("chat")), streamed)
    async with plait.open_async(tmp_path / "store.db") as sessions:
        model = ScriptedModel([[assistant_message("Again.")]])
        await run(agents.Agent(name="a", model=model), "And?", PlaitSession(sessions.session("chat")), streamed)
        seen: Any = model.calls[0].input
    assert kinds(seen) == [
        *("user", "call call_here", "call call_there", "result call_here", "result call_there"),
        *("assistant", "user"),
    ]
    assert [item["output"] for item in seen if item.get("type") == "function_call_output"] == [
        "seen here",
        "seen there",
    ]


@MODES
async def test_a_model_that_fails_leaves_the_question_and_a_retry_goes_on(streamed: bool, tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "store.db") as sessions:
        session = PlaitSession(sessions.session("chat"))
        failing = agents.Agent(name="a", model=ScriptedModel([ModelStep.raise_error(RuntimeError("no answer"))]))
        with pytest.raises(RuntimeError, match="no answer"):
            await run(failing, "And?", session, streamed)
        assert kinds(list(await session.get_items())) == ["user"]
        assert await session.rewind() == {"role": "user", "content": "And?"}
        agent = agents.Agent(name="a", model=ScriptedModel([[assistant_message("Yes.")]]))
        await run(agent, "And?", session, streamed)
        assert kinds(list(await session.get_items())) == ["user", "assistant"]


async def run(agent: Any, given: Any, session: PlaitSession, streamed: bool, **options: Any) -> Any:
    if not streamed:
        return await agents.Runner.run(agent, given, session=session, **options)
    result = agents.Runner.run_streamed(agent, given, session=session, **options)
    async for _ in result.stream_events():
        pass
    return result
