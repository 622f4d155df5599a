"""One turn of a real agent under each framework, with its own scripted model, on one session: what the crossings are tried with.

`python -m tests.adapters.frameworks FILE FRAMEWORK HOW` has a turn in a process of its own, which is killed
while the second of two tools runs; HOW is `whole`, `streamed`, or `long`: whole, after much else was said.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import plait
from plait import AsyncSession, AsyncSessions
from tests.adapters.messages_api import environment, serving

ID = "0b7e5b1e-5f0e-4a53-9a3c-3f5c2d9c8a11"  # Claude Code has no sessions but by such ids
MCP = "mcp__plait__"
"""What Claude Code calls the tools of a server named `plait`."""

APP, USER = "shop", "ann"
MEMORY = plait.BlockSpec("memory", description="Facts about the user", max_tokens=200)

Step: TypeAlias = str | list[tuple[str, dict[str, Any]]]
"""What the model does: it says something, or calls tools, all at once."""

WORDS = "so much to say " * 25

SUMMARY = "They spoke of many things."
"""What a summary says, where a turn is to stay within a `window` of tokens."""

Shown: TypeAlias = tuple[str, str]
"""One thing that a model is shown: `user`, `model`, `call` or `result`, and its words."""


def weather_in(*cities: str) -> Step:
    """Calls of the tool, in parallel."""
    return [("weather", {"city": city}) for city in cities]


def remembering(text: str) -> Step:
    """A call of plait's own tool."""
    return [("set_context", {"label": "memory", "content": text})]


@dataclass
class Turn:
    """What is asked, what the model does, and what it was shown each time, with its instructions."""

    asked: str
    steps: list[Step]
    stream: bool = False
    killed: bool = False
    window: int | None = None
    shown: list[list[Shown]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)

    def step(self, shown: list[Shown], prompt: str) -> Step:
        """What the model does now that it is shown this."""
        assert is_legal(shown), shown
        self.shown.append(shown)
        self.prompts.append(prompt.strip())
        return self.steps[len(self.shown) - 1]

    async def weather(self, city: str) -> str:
        """The weather in a city."""
        if self.killed and city == "Oslo":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"sun in {city}"


def is_legal(shown: list[Shown]) -> bool:
    """Whether a provider takes it: every call has a result, and nothing stands between them."""
    waiting = 0
    for kind, _ in shown:
        waiting += {"call": 1, "result": -1}.get(kind, 0)
        if waiting < 0 or (waiting and kind in ("user", "model")):
            return False
    return waiting == 0


def user_of(sessions: AsyncSessions) -> AsyncSessions:
    """The sessions of the one user there is: ADK's scope for them."""
    return sessions.scoped(APP, USER)


def chat_of(sessions: AsyncSessions) -> AsyncSession:
    """The conversation."""
    return user_of(sessions).session(ID, context=[MEMORY], cached_prompt=True)


# -- OpenAI Agents SDK ---------------------------------------------------------------


async def openai(sessions: AsyncSessions, turn: Turn) -> None:
    from agents import Agent, ModelResponse, Runner, function_tool, set_tracing_disabled
    from agents.testing import ScriptedModel, assistant_message, function_call

    from plait.adapters.openai_agents import PlaitSession, compacting, instructions, summarizer, tools

    set_tracing_disabled(True)

    def made(step: Step) -> list[Any]:
        if isinstance(step, str):
            return [assistant_message(step)]
        return [function_call(name, given, call_id=_id(turn, n)) for n, (name, given) in enumerate(step)]

    class Looking(ScriptedModel):
        async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> ModelResponse:
            turn.step(_openai_shown(input), system_instructions or "")
            return await super().get_response(system_instructions, input, *rest, **more)

        async def stream_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> Any:
            turn.step(_openai_shown(input), system_instructions or "")
            async for event in super().stream_response(system_instructions, input, *rest, **more):
                yield event

    chat = chat_of(sessions)
    agent = Agent(
        name="guide",
        model=Looking([made(step) for step in turn.steps]),
        tools=[function_tool(turn.weather), *await tools(chat)],
        instructions=instructions(chat),
    )
    given: dict[str, Any] = {"session": PlaitSession(chat)}
    if turn.window:
        summarize = summarizer(agent, summary_model=ScriptedModel([[assistant_message(SUMMARY)]] * 9))
        chat.on_compaction(plait.compact_function(summarize, keep_recent_tokens=turn.window // 3))
        chat.compact_after(turn.window)
        given["run_config"] = compacting(given["session"])
    if not turn.stream:
        await Runner.run(agent, turn.asked, **given)
        return
    result = Runner.run_streamed(agent, turn.asked, **given)
    async for _ in result.stream_events():
        pass


def _openai_shown(items: Any) -> list[Shown]:
    shown: list[Shown] = []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        if item.get("type") == "function_call":
            shown.append(("call", _call(item["name"], json.loads(item["arguments"]))))
        elif item.get("type") == "function_call_output":
            shown.append(("result", item["output"]))
        else:
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            shown.append(("model" if item["role"] == "assistant" else item["role"], text))
    return shown


# -- LangGraph -----------------------------------------------------------------------


async def langgraph(sessions: AsyncSessions, turn: Turn) -> None:
    from langchain.agents import create_agent
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import StructuredTool

    from plait.adapters.langchain import PlaitCompaction, tools_async
    from plait.adapters.langgraph import PlaitSaver

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, *given: Any, **options: Any) -> ChatResult:
            prompt, *rest = messages
            assert isinstance(prompt, SystemMessage)
            step = turn.step([one for message in rest for one in shown(message)], prompt.text)
            if isinstance(step, str):
                said = AIMessage(step)
            else:
                named = [{"name": name, "args": given} for name, given in step]
                calls: Any = [{**one, "id": _id(turn, n), "type": "tool_call"} for n, one in enumerate(named)]
                said = AIMessage("", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=said)])

    def shown(message: Any) -> list[Shown]:
        if isinstance(message, ToolMessage):
            return [("result", message.text)]
        words = [("user" if isinstance(message, HumanMessage) else "model", message.text)] if message.text else []
        return [*words, *(("call", _call(one["name"], one["args"])) for one in getattr(message, "tool_calls", ()))]

    chat = chat_of(sessions)
    weather = StructuredTool.from_function(coroutine=turn.weather, name="weather", description="The weather.")
    saver = PlaitSaver(user_of(sessions))
    small = FakeListChatModel(responses=[SUMMARY])
    limits = {"trigger_tokens": turn.window, "keep_recent_tokens": turn.window // 3} if turn.window else {}
    agent: Any = create_agent(
        Scripted(),
        [weather, *await tools_async(chat)],
        system_prompt=await chat.freeze_system_prompt(),
        middleware=[PlaitCompaction(user_of(sessions), summary_model=small, **limits)],
        checkpointer=saver,
    )
    config: Any = {"configurable": {"thread_id": ID}}
    asked = {"messages": [*await saver.amessages(config), HumanMessage(turn.asked)]}
    if turn.stream:
        async for _ in agent.astream(asked, config, stream_mode="messages", durability="sync"):
            pass
    else:
        await agent.ainvoke(asked, config, durability="sync")


# -- Pydantic AI ---------------------------------------------------------------------


async def pydantic_ai(sessions: AsyncSessions, turn: Turn) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    from plait.adapters.pydantic_ai import Compaction, Saving, history, instructions, tools

    def shown(messages: Any) -> list[Shown]:
        found: list[Shown] = []
        for part in (part for message in messages for part in message.parts):
            match part.part_kind:
                case "tool-call":
                    found.append(("call", _call(part.tool_name, part.args_as_dict())))
                case "tool-return":
                    found.append(("result", str(part.content)))
                case kind:
                    found.append(("user" if kind == "user-prompt" else "model", str(part.content)))
        return found

    def reply(messages: Any, info: Any) -> ModelResponse:
        step = turn.step(shown(messages), info.instructions or "")
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        return ModelResponse(parts=[ToolCallPart(name, given, _id(turn, n)) for n, (name, given) in enumerate(step)])

    async def stream(messages: Any, info: Any) -> Any:
        for n, part in enumerate(reply(messages, info).parts):
            if isinstance(part, TextPart):
                yield part.content
            elif isinstance(part, ToolCallPart):
                yield {n: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    chat = chat_of(sessions)
    model = FunctionModel(reply, stream_function=stream)
    agent = Agent(model, tools=[turn.weather, *await tools(chat)], instructions=instructions(chat))
    small = FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart(SUMMARY)]))
    limits = Compaction(turn.window, small, keep_recent_tokens=turn.window // 3) if turn.window else None
    given: Any = {"message_history": await history(chat), "capabilities": [Saving(chat, compaction=limits)]}
    if turn.stream:
        async with agent.run_stream(turn.asked, **given) as result:
            await result.get_output()
    else:
        await agent.run(turn.asked, **given)


# -- Google ADK ----------------------------------------------------------------------


async def adk(sessions: AsyncSessions, turn: Turn) -> None:
    from google.adk.agents.llm_agent import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner
    from google.genai import types

    from plait.adapters.adk import Compaction, ContextToolset, PlaitSessionService, instruction

    def shown(request: Any) -> list[Shown]:
        found: list[Shown] = []
        for content in request.contents:
            for part in content.parts:
                if part.function_call:
                    found.append(("call", _call(part.function_call.name, part.function_call.args)))
                elif part.function_response:
                    assert part.function_response.name, "Gemini refuses an answer without the tool's name"
                    (value,) = part.function_response.response.values()
                    found.append(("result", value))
                else:
                    found.append((content.role, part.text))
        return found

    class Scripted(BaseLlm):
        model: str = "scripted"

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            prompt, *_ = str(llm_request.config.system_instruction).split("\n\nYou are an agent")
            step = turn.step(shown(llm_request), prompt)
            parts = (
                [types.Part(text=step)]
                if isinstance(step, str)
                else [types.Part(function_call=types.FunctionCall(name=name, args=given)) for name, given in step]
            )
            if stream and isinstance(step, str):
                for piece in (step[:2], step[2:]):
                    content = types.Content(role="model", parts=[types.Part(text=piece)])
                    yield LlmResponse(content=content, partial=True)
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    class Small(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=SUMMARY)]))

    limits = Compaction(turn.window, Small(model="small"), keep_recent_tokens=turn.window // 3) if turn.window else None
    service = PlaitSessionService(sessions, agent="guide", compaction=limits)
    agent = LlmAgent(
        name="guide",
        model=Scripted(),
        instruction=instruction(service, [MEMORY]),
        tools=[turn.weather, ContextToolset(service, [MEMORY])],
    )
    runner = Runner(app_name=APP, agent=agent, session_service=service, auto_create_session=True)
    config = RunConfig(streaming_mode=StreamingMode.SSE if turn.stream else StreamingMode.NONE)
    asked = types.Content(role="user", parts=[types.Part(text=turn.asked)])
    async for _ in runner.run_async(user_id=USER, session_id=ID, new_message=asked, run_config=config):
        pass


# -- Claude Agent SDK ----------------------------------------------------------------


async def claude(sessions: AsyncSessions, turn: Turn) -> None:
    """Claude Code itself, which the SDK brings and starts, with a scripted API on this machine."""
    import claude_agent_sdk as sdk

    from plait.adapters.claude import ClaudeSessionStore, tools

    stored = asyncio.Event()

    class Watched(ClaudeSessionStore):
        async def append(self, key: Any, entries: list[Any]) -> None:
            await super().append(key, entries)
            if '"city": "Oslo"' in json.dumps(entries):
                stored.set()

    async def weather(given: dict[str, Any]) -> dict[str, Any]:
        if turn.killed and given["city"] == "Oslo":
            await stored.wait()  # Claude Code starts a tool while its call is on the way to the store
        return {"content": [{"type": "text", "text": await turn.weather(**given)}]}

    chat = chat_of(sessions)
    prompt = await chat.freeze_system_prompt()
    store = Watched(user_of(sessions), by_project=False)
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    offered = [sdk.SdkMcpTool("weather", "The weather in a city.", schema, weather), *await tools(chat)]

    def script(request: Any) -> Any:
        system = "".join(block["text"] for block in request["system"])
        step = turn.step(_claude_shown(request["messages"]), prompt if prompt in system else system)
        if isinstance(step, str):
            return step
        named = enumerate(step)
        return [
            {"type": "tool_use", "id": _id(turn, n), "name": MCP + name, "input": given} for n, (name, given) in named
        ]

    known = await store.load({"project_key": "", "session_id": ID})
    with tempfile.TemporaryDirectory() as folder, serving(script, streams=turn.stream) as api:
        options = sdk.ClaudeAgentOptions(
            session_store=store,
            session_store_flush="eager",
            session_id=None if known else ID,
            resume=ID if known else None,
            system_prompt={"type": "preset", "preset": "claude_code", "append": prompt},
            mcp_servers={"plait": sdk.create_sdk_mcp_server("plait", tools=offered)},
            allowed_tools=[MCP + tool.name for tool in offered],
            tools=[],
            include_partial_messages=turn.stream,
            setting_sources=[],
            cwd=folder,
            env=environment(api, Path(folder)),
        )
        kinds = [type(message).__name__ async for message in sdk.query(prompt=turn.asked, options=options)]
        assert turn.stream == ("StreamEvent" in kinds) and kinds[-1] == "ResultMessage"
        assert api.refused == [], "it asks nobody else"


def _claude_shown(messages: Any) -> list[Shown]:
    """What is said in a request, without what Claude Code tells the model by itself."""
    shown: list[Shown] = []
    for message in messages:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_use":
                shown.append(("call", _call(block["name"], block["input"])))
            elif block["type"] == "tool_result":
                said = block["content"]
                shown.append(("result", said if isinstance(said, str) else said[0]["text"]))
            elif message["role"] != "system" and not block["text"].startswith("<system-reminder>"):
                shown.append(("model" if message["role"] == "assistant" else "user", block["text"]))
    return shown


# -- all of them ---------------------------------------------------------------------


def _id(turn: Turn, n: int) -> str:
    return f"call-{turn.asked}-{len(turn.shown)}-{n}".replace(" ", "-")


def _call(name: str, given: Any) -> str:
    return f"{name.removeprefix(MCP)} {given.get('city', given.get('content'))}"


FRAMEWORKS: dict[str, tuple[str, Callable[[AsyncSessions, Turn], Awaitable[None]]]] = {
    "openai": ("agents", openai),
    "langgraph": ("langchain", langgraph),
    "pydantic-ai": ("pydantic_ai", pydantic_ai),
    "adk": ("google.adk", adk),
    "claude": ("claude_agent_sdk", claude),
}
"""By name: the package that it needs, and what has a turn under it."""


def is_there(name: str) -> bool:
    """Whether the framework is installed, and with Claude's the Claude Code that its wheels bring."""
    package = FRAMEWORKS[name][0]
    found = find_spec(package) if find_spec(package.partition(".")[0]) is not None else None
    if found is None or name != "claude":
        return found is not None
    return any(Path(str(found.origin)).parent.glob("_bundled/claude*"))


async def have(sessions: AsyncSessions, name: str, asked: str, *steps: Step, **how: Any) -> Turn:
    """A turn under a framework."""
    turn = Turn(asked, list(steps), **how)
    await FRAMEWORKS[name][1](sessions, turn)
    assert len(turn.shown) == len(steps), "every step of the script was taken"
    return turn


async def _main(file: str, name: str, how: str) -> None:
    async with plait.open_async(file) as sessions:
        stream = how == "streamed"
        if how == "long":
            said = [(plait.user(f"{n}? {WORDS}"), plait.assistant(f"{n}. {WORDS}")) for n in range(12)]
            await chat_of(sessions).append_many([message for both in said for message in both])
        first = await have(sessions, name, "Hello.", remembering("Likes sun."), "Hi.", stream=stream)
        print(json.dumps(first.prompts), flush=True)
        await have(sessions, name, "Lyon, Oslo?", weather_in("Lyon", "Oslo"), "Sun.", stream=stream, killed=True)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
