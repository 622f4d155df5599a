"""Context under real agents, with their own test models: what a model saves outlives the process it was saved in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import plait
from plait import BlockSpec

ROOT = Path(__file__).parents[2]
MEMORY = BlockSpec("memory", description="Facts about the user", max_tokens=200)

PYDANTIC = """
import asyncio, json, os, signal, sys
import plait
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

path, step = sys.argv[1:]

def model(messages, info: AgentInfo):
    assert [tool.name for tool in info.function_tools] == ["set_context"], info
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        assert last.content.startswith("Written to memory."), last
        return ModelResponse(parts=[TextPart("I will remember.")])
    if step == "save":
        given = {"label": "memory", "content": "The user's cat is called Schnurr."}
        return ModelResponse(parts=[ToolCallPart("set_context", given, tool_call_id="c1")])
    return ModelResponse(parts=[TextPart("Schnurr." if "Schnurr" in info.instructions else "I do not know.")])

def as_tool(tool):
    async def run(**given):
        return await tool.call(given)
    return Tool.from_schema(run, name=tool.name, description=tool.description, json_schema=tool.schema)

async def main():
    async with plait.open_async(path) as sessions:
        chat = sessions.session("chat", cached_prompt=True, context=[
            plait.BlockSpec("memory", description="Facts about the user", max_tokens=200)])
        mark = (await chat.state()).get("mark")
        if step != "save":
            await chat.refresh_system_prompt()
        report = await chat.prefix_report(since=mark)
        prompt = await chat.freeze_system_prompt()
        report = report if mark else await chat.prefix_report()
        await chat.update_state({"mark": report.mark})
        agent = Agent(FunctionModel(model), tools=[as_tool(tool) for tool in await chat.tools()], instructions=prompt)
        asked = {"save": "My cat is called Schnurr.", "ask": "What is my cat called?"}[step]
        result = await agent.run(asked)
        await chat.append(plait.user(asked))
        await chat.append(plait.assistant(result.output))
        print(json.dumps({"said": result.output, "prompt": prompt, "report": [report.broken_by, report.detail]}), flush=True)
        if step == "save":
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

AGENTS = """
import asyncio, json, os, signal, sys
import plait
from agents import Agent, FunctionTool, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)
path, step = sys.argv[1:]

def says(text):
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])

class Scripted(Model):
    async def get_response(self, system_instructions, input, model_settings, tools, *rest, **more):
        assert [tool.name for tool in tools] == ["set_context"], tools
        answered = [item for item in input if not isinstance(input, str) and item.get("type") == "function_call_output"]
        if step == "save" and not answered:
            given = json.dumps({"label": "memory", "content": "The user's cat is called Schnurr."})
            item = ResponseFunctionToolCall(type="function_call", call_id="c1", name="set_context", arguments=given)
        elif step == "save":
            assert answered[0]["output"].startswith("Written to memory."), answered
            item = says("I will remember.")
        else:
            item = says("Schnurr." if "Schnurr" in system_instructions else "I do not know.")
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *given, **more):
        raise NotImplementedError

def as_tool(tool):
    async def run(context, arguments):
        return await tool.call(arguments)
    return FunctionTool(tool.name, tool.description, tool.schema, run, strict_json_schema=False)

async def main():
    async with plait.open_async(path) as sessions:
        chat = sessions.session("chat", cached_prompt=True, context=[
            plait.BlockSpec("memory", description="Facts about the user", max_tokens=200)])
        mark = (await chat.state()).get("mark")
        if step != "save":
            await chat.refresh_system_prompt()
        report = await chat.prefix_report(since=mark)
        prompt = await chat.freeze_system_prompt()
        report = report if mark else await chat.prefix_report()
        await chat.update_state({"mark": report.mark})
        agent = Agent("a", instructions=prompt, tools=[as_tool(tool) for tool in await chat.tools()], model=Scripted())
        asked = {"save": "My cat is called Schnurr.", "ask": "What is my cat called?"}[step]
        result = await Runner.run(agent, asked)
        await chat.append_many(result.to_input_list())
        print(json.dumps({"said": result.final_output, "prompt": prompt, "report": [report.broken_by, report.detail]}), flush=True)
        if step == "save":
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("module", "package", "program"),
    [("pydantic_ai", "pydantic-ai-slim", PYDANTIC), ("agents", "openai-agents", AGENTS)],
    ids=["pydantic-ai", "openai-agents"],
)
def test_what_a_model_saved_outlives_the_process(module: str, package: str, program: str, tmp_path: Path) -> None:
    if find_spec(module) is None:
        pytest.skip(f"needs {module}: pip install {package}")
    file = tmp_path / "store.db"
    saved = run(program, file, "save", killed=True)
    assert saved["said"] == "I will remember."
    assert "Schnurr" not in saved["prompt"]
    with plait.open(file) as sessions:  # the process is gone: what it saved is there, and its prompt as it was
        session = sessions.session("chat", context=[MEMORY], cached_prompt=True)
        assert session.freeze_system_prompt() == saved["prompt"]
        block = session.context.block("memory")
        assert block is not None and block.content == "The user's cat is called Schnurr."
    asked = run(program, file, "ask")
    assert asked["said"] == "Schnurr."
    assert "The user's cat is called Schnurr." in asked["prompt"]
    assert asked["report"] == ["prompt", "the prompt was refreshed: MEMORY (Facts about the user)"]


def run(program: str, file: Path, step: str, *, killed: bool = False) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", program, str(file), step],
        env={**os.environ, "PYTHONPATH": path, "OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == (-signal.SIGKILL if killed else 0), done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


# -- the shapes that SDKs take ---------------------------------------------------------


@pytest.fixture
def tools() -> list[plait.Tool]:
    with plait.open(":memory:") as sessions:
        context = ["memory", {"label": "books", "kind": "documents"}, {"label": "pile", "kind": "collection"}]
        found = sessions.session("s", context=context).tools()  # type: ignore[arg-type]
        return [*found, *sessions.tools()]


def test_the_mcp_shape_is_one_that_the_official_types_take(tools: list[plait.Tool]) -> None:
    types = pytest.importorskip("mcp.types", reason="needs mcp: pip install mcp")
    for tool in tools:
        read = types.Tool.model_validate(tool.to_mcp())
        shown = read.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
        assert shown == tool.to_mcp()


def test_the_openai_shapes_are_those_of_its_types(tools: list[plait.Tool]) -> None:
    pydantic = pytest.importorskip("pydantic", reason="needs openai: pip install openai")
    chat = pytest.importorskip("openai.types.chat", reason="needs openai: pip install openai")
    responses = pytest.importorskip("openai.types.responses", reason="needs openai: pip install openai")
    for tool in tools:
        for kind, shape in (
            (chat.ChatCompletionFunctionToolParam, tool.to_openai()),
            (responses.FunctionToolParam, tool.to_openai(api="responses")),
        ):
            assert pydantic.TypeAdapter(kind).validate_python(shape, strict=True) == shape


def test_the_anthropic_shape_is_that_of_its_types(tools: list[plait.Tool]) -> None:
    pydantic = pytest.importorskip("pydantic", reason="needs anthropic: pip install anthropic")
    types = pytest.importorskip("anthropic.types", reason="needs anthropic: pip install anthropic")
    for tool in tools:
        adapter = pydantic.TypeAdapter(types.ToolParam)
        assert adapter.validate_python(tool.to_anthropic())["name"] == tool.name


def test_the_schemas_are_json_schemas(tools: list[plait.Tool]) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema: pip install jsonschema")
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool.schema)
