"""Real LangChain agents on the face without asyncio, offline: a run cut off between call and result is gone on with, streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import plait

pytestmark = pytest.mark.skipif(find_spec("langchain") is None, reason="langchain is not installed: make adapters")
ROOT = Path(__file__).parents[2]

AGENT = """
import os, signal, sys
from typing import Any
import plait
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from plait.adapters.langchain import tools
from plait.adapters.langgraph import PlaitSaver

path, step = sys.argv[1:]
CONFIG = {"configurable": {"thread_id": "chat"}}

class Scripted(BaseChatModel):
    @property
    def _llm_type(self): return "scripted"
    def bind_tools(self, tools, **options): return self
    def _generate(self, messages, *given, **options):
        assert isinstance(messages[0], SystemMessage) and "MEMORY" in messages[0].text, messages[0]
        results = [m.content for m in messages if isinstance(m, ToolMessage)]
        if not results:
            calls = [{"name": "weather", "args": {"city": c}, "id": f"c{c}", "type": "tool_call"} for c in ("Lyon", "Rome")]
            calls.append({"name": "set_context", "args": {"label": "memory", "content": "asks about weather"}, "id": "cm", "type": "tool_call"})
            said = AIMessage("", tool_calls=calls)
        else:
            said = AIMessage("Results: " + ", ".join(sorted(results)[:2]))
        return ChatResult(generations=[ChatGeneration(message=said)])

@tool
def weather(city: str) -> str:
    "The weather in a city."
    if step == "kill" and city == "Rome":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{city} is sunny"

BLOCKS = [plait.BlockSpec("memory", description="Facts", max_tokens=200)]
ASKED = None if step == "resume" else {"messages": [HumanMessage("How is the weather?")]}

def show(messages):
    print([(m.type, m.text) for m in messages])

def sync():
    with plait.open(path) as sessions:
        chat = sessions.session("chat", context=BLOCKS)
        agent = create_agent(Scripted(), [weather, *tools(chat)], system_prompt=chat.freeze_system_prompt(),
                             checkpointer=PlaitSaver(sessions))
        if step == "stream":
            steps = [list(part) for part in agent.stream(ASKED, CONFIG, stream_mode="updates")]
            assert steps[0] == ["model"] and steps[-1] == ["model"], steps
        else:
            agent.invoke(ASKED, CONFIG, durability="sync")
        show(agent.get_state(CONFIG).values["messages"])

sync()
"""


def run(folder: Path, step: str) -> subprocess.CompletedProcess[str]:
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(folder / "agent.py"), str(folder / "agents.db"), step]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)


ANSWER = "Results: Lyon is sunny, Rome is sunny"


@pytest.mark.timeout(300)
def test_an_agent_killed_between_call_and_result_goes_on_in_another_process(tmp_path: Path) -> None:
    killed = run(tmp_path, "kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with plait.open(tmp_path / "agents.db") as sessions:
        kinds = [message.role for message in sessions.session("chat").history()]
        assert kinds == ["user", "assistant"], "what the model called is there, no result is lost or made up"
        shown = list(sessions.session("chat").history(as_="openai", for_model=True))
        assert [item["type"] for item in shown if "type" in item].count("function_call_output") == 3
    resumed = run(tmp_path, "resume")
    assert resumed.returncode == 0, resumed.stderr
    assert ANSWER in resumed.stdout
    with plait.open(tmp_path / "agents.db") as sessions:
        chat = sessions.session("chat", context=[plait.BlockSpec("memory", description="Facts", max_tokens=200)])
        messages = list(chat.history())
        assert [message.role for message in messages] == ["user", "assistant", "tool", "tool", "tool", "assistant"]
        assert messages[-1].text == ANSWER
        block = chat.context.block("memory")
        assert block is not None and block.content == "asks about weather"
        assert sessions.doctor() == []


@pytest.mark.timeout(300)
def test_a_streamed_run_is_stored_like_another_and_goes_on_under_a_second_framework(tmp_path: Path) -> None:
    done = run(tmp_path, "stream")
    assert done.returncode == 0 and ANSWER in done.stdout, done.stderr
    with plait.open(tmp_path / "agents.db") as sessions:
        chat = sessions.session("chat")
        assert [message.role for message in chat.history()] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "tool",
            "assistant",
        ]
        items = list(chat.history(as_="openai", for_model=True))
        assert [item["name"] for item in items if item.get("type") == "function_call"] == [
            "weather",
            "weather",
            "set_context",
        ]
        chat.append({"role": "user", "content": "Thanks."})
        assert [hit.snippet for hit in chat.search("Thanks")] == ["Thanks."]
