"""Real agents of ADK on plait, offline: streams, context, compaction, memory, the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs google-adk: pip install 'plait[adk]'")

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App
from google.adk.cli import service_registry
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types
from pydantic import Field

import plait
from plait.adapters.adk import (
    ArtifactServiceByUri,
    Compaction,
    CompactionPlugin,
    ContextToolset,
    MemoryServiceByUri,
    PlaitMemoryService,
    PlaitSessionService,
    SessionServiceByUri,
    instruction,
)
from plait.logic.legal import NO_RESULT
from plait.logic.turns import is_tool
from tests.postgres_server import free_port

ROOT = Path(__file__).parents[2]
ANN: dict[str, str] = {"app_name": "shop", "user_id": "ann"}
MEMORY = plait.BlockSpec("memory", description="Facts about the user", max_tokens=200)


def said(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def words(text: str) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


def calls(**tools: dict[str, Any]) -> LlmResponse:
    made = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in tools.items()]
    return LlmResponse(content=types.Content(role="model", parts=made))


def flat(request: LlmRequest) -> list[tuple[str, str]]:
    """What a model is shown: who, and a word for each part; calls and answers must be paired."""
    shown: list[tuple[str, str]] = []
    open_calls: list[str] = []
    for content in request.contents:
        for part in content.parts or []:
            if part.function_call:
                open_calls.append(part.function_call.name or "")
                shown.append(("call", part.function_call.name or ""))
            elif part.function_response:
                open_calls.remove(part.function_response.name or "")
                shown.append(("answer", json.dumps(part.function_response.response)))
            else:
                assert not open_calls, "no provider takes words between a call and its answer"
                shown.append((content.role or "", part.text or ""))
    return shown


class Scripted(BaseLlm):
    """Answers with what `script` says to what it is shown, in pieces where it is asked to stream."""

    model: str = "scripted"
    script: Any = None
    seen: list[Any] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append((flat(llm_request), str(llm_request.config.system_instruction or "")))
        answer: LlmResponse = self.script(llm_request)
        text = answer.content and answer.content.parts and answer.content.parts[0].text
        if stream and text:
            for piece in (text[:3], text[3:]):
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=piece)]), partial=True)
        yield answer


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[plait.AsyncSessions]:
    async with plait.open_async(store_at, durability="process") as opened:
        yield opened


async def run(runner: Runner, text: str, *, stream: bool = False) -> list[str]:
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    found: list[str] = []
    async for event in runner.run_async(user_id="ann", session_id="s", new_message=said(text), run_config=config):
        if event.is_final_response() and event.content and event.content.parts:
            found.append(event.content.parts[0].text or "")
    return found


async def test_three_turns_are_saved_once_each(sessions: plait.AsyncSessions) -> None:
    model = Scripted(script=lambda request: words(f"{len(request.contents)} so far."))
    service = PlaitSessionService(sessions)
    runner = Runner(
        app_name="shop", agent=LlmAgent(name="guide", model=model), session_service=service, auto_create_session=True
    )
    chat = sessions.scoped("shop", "ann").session("s")
    for n in range(3):
        assert await run(runner, f"Turn {n}", stream=bool(n % 2)) == [f"{2 * n + 1} so far."]
        assert (await chat.totals()).messages == 2 * n + 2


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_pause_for_approval_goes_on_with_nothing_but_the_session(
    confirmed: bool, beside: bool, sessions: plait.AsyncSessions, store_at: str
) -> None:
    """B-048: another service, on another store, is told what the user says; what is asked is no result of a call."""
    paid: list[int] = []

    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "Paid."

    async def weather(city: str) -> str:
        """The weather."""
        return f"sun in {city}"

    def script(request: LlmRequest) -> LlmResponse:
        last = (request.contents[-1].parts or [])[-1]
        if last.function_response is None:
            return calls(pay={"amount": 3}, **({"weather": {"city": "Rome"}} if beside else {}))
        return words("Done.")

    async def turn(given: plait.AsyncSessions, message: types.Content) -> list[Event]:
        tools = [FunctionTool(pay, require_confirmation=True), weather]
        agent = LlmAgent(name="guide", model=Scripted(script=script), tools=tools)
        service = PlaitSessionService(given)
        runner = Runner(app_name="shop", agent=agent, session_service=service, auto_create_session=True)
        return [event async for event in runner.run_async(user_id="ann", session_id="s", new_message=message)]

    async def outcomes() -> dict[str, object]:
        """What a model is told of each call, and that all of it is what any provider takes."""
        shown = [message async for message in chat.history(for_model=True)]
        assert [message.role for message in shown][:2] == ["user", "assistant"]
        named = {part["toolCallId"]: part["toolName"] for part in shown[1].parts}
        parts = [part for message in shown[2:] for part in message.parts if is_tool(part)]
        assert sorted(part["toolCallId"] for part in parts) == sorted(named)
        return {named[part["toolCallId"]]: part.get("output", part.get("errorText")) for part in parts}

    events = await turn(sessions, said("Pay 3!"))
    asked = [call for event in events for call in event.get_function_calls() if call.name not in ("pay", "weather")]
    assert len(asked) == 1 and not paid
    chat = sessions.scoped("shop", "ann").session("s")
    other = {"weather": "sun in Rome"} if beside else {}
    assert await outcomes() == {"pay": NO_RESULT, **other}
    answer = types.FunctionResponse(id=asked[0].id, name=asked[0].name, response={"confirmed": confirmed})
    async with plait.open_async(store_at, durability="process") as later:
        await turn(later, types.Content(role="user", parts=[types.Part(function_response=answer)]))
    assert paid == [3] * confirmed
    assert await outcomes() == {"pay": "Paid." if confirmed else "This tool call is rejected.", **other}
    assert "adk_request" not in str([item async for item in chat.history(as_="openai")])


async def test_no_limit_shows_a_model_an_answer_without_its_call(sessions: plait.AsyncSessions) -> None:
    """B-063: whatever the newest events are that a run is given; and every call and answer is stored."""

    async def weather(city: str) -> str:
        """The weather."""
        return f"sun in {city}"

    def script(request: LlmRequest) -> LlmResponse:
        last = (request.contents[-1].parts or [])[-1]
        if last.function_response or "Thanks" in (last.text or ""):
            return words("Fine.")
        made = [types.FunctionCall(name="weather", args={"city": city}) for city in ("Lyon", "Rome", "Oslo")]
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=one) for one in made]))

    model = Scripted(script=script)
    agent = LlmAgent(name="guide", model=model, tools=[weather])
    service = PlaitSessionService(sessions)
    runner = Runner(app_name="shop", agent=agent, session_service=service, auto_create_session=True)
    await run(runner, "Weather?")
    for recent in range(6):  # `flat` holds that answers are paired
        config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=recent))
        async for _ in runner.run_async(user_id="ann", session_id="s", new_message=said("Thanks."), run_config=config):
            pass
    chat = sessions.scoped("shop", "ann").session("s")
    assert (await chat.totals()).messages == 4 + 2 * 6


async def test_a_model_remembers_by_plaits_tools_and_prompt(tmp_path: Path) -> None:
    def script(request: LlmRequest) -> LlmResponse:
        last = (request.contents[-1].parts or [])[-1]
        if last.function_response:
            assert last.function_response.response is not None
            return words(last.function_response.response["result"])
        if "called" in (last.text or ""):
            return calls(set_context={"label": "memory", "content": "The cat is called Schnurr."})
        return words("Schnurr." if "Schnurr" in str(request.config.system_instruction) else "I do not know.")

    for step in ("save", "ask", "refreshed"):  # each with a store opened anew
        async with plait.open_async(tmp_path / "store.db") as sessions:
            service = PlaitSessionService(sessions)
            model = Scripted(script=script)
            agent = LlmAgent(
                name="guide",
                model=model,
                instruction=instruction(service, [MEMORY], before="You are {kind}."),
                tools=[ContextToolset(service, [MEMORY], search=True)],
            )
            runner = Runner(app_name="shop", agent=agent, session_service=service, auto_create_session=True)
            if step == "refreshed":
                session = await service.get_session(**ANN, session_id="s")
                assert session is not None
                await service.composed(session, [MEMORY]).refresh_system_prompt()
            asked = "My cat is called Schnurr." if step == "save" else "What is its name?"
            (answer,) = await run(runner, asked)
            assert answer.startswith({"save": "Written to memory.", "ask": "I do", "refreshed": "Schnurr"}[step])
            assert "You are {kind}." in model.seen[0][1] and "MEMORY" in model.seen[0][1]


async def test_a_compaction_keeps_the_state_and_who_replied_last(sessions: plait.AsyncSessions) -> None:
    """By the agent's own model, in mid-turn too; what is summarized stays, and the next turn goes to the same agent."""

    def script(request: LlmRequest) -> LlmResponse:
        if not request.config.tools:
            return words("They spoke of many things.")
        if "Turn 2 " in str(request.contents[-1]) and not model.seen[-1][1].startswith("HELP"):
            call = types.FunctionCall(name="transfer_to_agent", args={"agent_name": "helper"})
            return LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
        return words("x" * 400)

    model = Scripted(script=script)
    helper = LlmAgent(name="helper", model=model, output_key="last", instruction="HELP")
    agent = LlmAgent(name="guide", model=model, sub_agents=[helper], output_key="last")
    service = PlaitSessionService(sessions, compaction=Compaction(tokens=600, keep_recent_tokens=150, protect_head=0))
    app = App(name="shop", root_agent=agent, plugins=[CompactionPlugin(service)])
    runner = Runner(app=app, session_service=service, auto_create_session=True)
    for n in range(8):
        await run(runner, f"Turn {n} " + "y" * 100)
    session = await service.get_session(**ANN, session_id="s")
    assert session is not None
    handle = service.handle(session)
    said = [row.content["author"] async for row in handle.transcript() if isinstance(row, plait.Message)]
    assert {"user", "guide", "helper"} == set(said) and said[1] == "guide" and said[-1] == "helper"
    overlays = await handle.overlays()
    assert overlays and all(overlay.summary == "They spoke of many things." for overlay in overlays[-1:])
    summary = session.events[0]
    assert summary.author == "helper" and summary.actions.state_delta == {"last": "x" * 400}
    assert session.state == {"last": "x" * 400}
    assert (await handle.totals()).messages == len(said) > len(session.events), "nothing is lost"
    assert all(len(shown) < 16 for shown, _ in model.seen), "what goes to the model is compacted"
    await service.append_event(session, session.events[-1].model_copy(update={"id": "more"}))
    again = await service.get_session(**ANN, session_id="s")
    assert again is not None and again.events[-1].id == "more"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_turn_is_compacted_in_its_middle_and_what_the_summaries_used_is_counted(
    stream: bool, sessions: plait.AsyncSessions
) -> None:
    async def read(n: int) -> str:
        """A page of the book."""
        return f"Page {n}: " + "so much to say " * 25

    used = types.GenerateContentResponseUsageMetadata(prompt_token_count=70, candidates_token_count=3)
    rounds: list[int] = []

    def script(request: LlmRequest) -> LlmResponse:
        if not request.config.tools:
            return words("They read.").model_copy(update={"usage_metadata": used})
        rounds.append(len(request.contents))
        if len(rounds) > 6:
            return words("All read.")
        made = [types.FunctionCall(name="read", args={"n": 2 * len(rounds) + n}) for n in (0, 1)]
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=one) for one in made]))

    model = Scripted(script=script)
    compaction = Compaction(tokens=2_200, reserved_tokens=1_000, keep_recent_tokens=400, protect_head=1)
    service = PlaitSessionService(sessions, compaction=compaction)
    agent = LlmAgent(name="guide", model=model, tools=[read])
    app = App(name="shop", root_agent=agent, plugins=[CompactionPlugin(service)])
    runner = Runner(app=app, session_service=service, auto_create_session=True)
    assert await run(runner, "Read it all.", stream=stream) == ["All read."]
    turns = [shown for shown, _ in model.seen if ("user", "Read it all.") in shown[:1]]
    summaries = [shown for shown, _ in model.seen if shown[0] != ("user", "Read it all.")]
    assert len(turns) == 7 and len(summaries) >= 2, "compacted in mid-turn, by the agent's own model without tools"
    assert any("They read." in str(shown) for shown in turns) and max(map(len, turns)) < 1 + 6 * 4
    chat = sessions.scoped("shop", "ann").session("s")
    assert [message.role async for message in chat.transcript()] == ["user", *["assistant", "tool"] * 6, "assistant"]  # type: ignore[union-attr]
    info = await chat.info()
    assert info is not None and info.usage.input_tokens == 70 * len(summaries)


async def test_a_compaction_without_a_model_says_so_once(
    sessions: plait.AsyncSessions, caplog: pytest.LogCaptureFixture
) -> None:
    service = PlaitSessionService(sessions, compaction=Compaction(tokens=10))
    model = Scripted(script=lambda request: words("x" * 400))
    runner = Runner(
        app_name="shop", agent=LlmAgent(name="guide", model=model), session_service=service, auto_create_session=True
    )
    for n in range(3):
        await run(runner, f"Turn {n}")
    assert caplog.text.count("is not compacted") == 1


def test_a_summary_model_needs_no_plugin() -> None:
    with plait.open(":memory:"):
        pass
    assert Compaction(tokens=1, summary_model=Scripted()).summary_model is not None


async def test_memory_is_at_hand_in_the_next_session(sessions: plait.AsyncSessions) -> None:
    service, memory = PlaitSessionService(sessions), PlaitMemoryService(sessions)
    old = await service.create_session(**ANN, session_id="old")
    await service.append_event(old, Event(author="user", invocation_id="i", content=said("My bicycle is red.")))
    await memory.add_session_to_memory(old)
    model = Scripted(script=lambda request: words("Red."))
    runner = Runner(
        app_name="shop",
        agent=LlmAgent(name="guide", model=model, tools=[PreloadMemoryTool()]),
        session_service=service,
        memory_service=memory,
        auto_create_session=True,
    )
    await run(runner, "Which colour has my bicycle?")
    assert "My bicycle is red." in model.seen[0][1] + str(model.seen[0][0])


SERVICES = [("session", SessionServiceByUri), ("memory", MemoryServiceByUri), ("artifact", ArtifactServiceByUri)]
YAML = "services:\n" + "".join(
    f"  - {{scheme: plait, type: {kind}, class: plait.adapters.adk.{made.__name__}}}\n" for kind, made in SERVICES
)
AGENT = """
from google.adk.agents.llm_agent import LlmAgent
from tests.adapters.test_adk_agents import Scripted, words

root_agent = LlmAgent(name="guide", model=Scripted(script=lambda request: words("Hello, Ann.")))
"""


@pytest.mark.timeout(300)
def test_adk_web_keeps_its_sessions_in_plait(tmp_path: Path) -> None:
    """The server itself, over HTTP: a session is made, an agent runs in it, and plait has it while it serves and after."""
    (tmp_path / "agents" / "shop").mkdir(parents=True)
    (tmp_path / "agents" / "services.yaml").write_text(YAML)
    (tmp_path / "agents" / "shop" / "agent.py").write_text(AGENT)
    port = free_port()
    uris = [f"--{kind}_service_uri=plait:///agents.db" for kind, _ in SERVICES]
    server = subprocess.Popen(
        [sys.executable, "-m", "google.adk.cli", "web", f"--port={port}", *uris, "agents"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def ask(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=100) as response:
            return json.load(response)

    try:
        assert server.stdout is not None
        started = next((line for line in server.stdout if "Uvicorn running" in line), "")
        assert started, "it ended before it served"
        assert ask("/apps/shop/users/ann/sessions", {"sessionId": "s", "state": {"kind": "tea"}})["id"] == "s"
        hello = {"role": "user", "parts": [{"text": "Hello"}]}
        (event,) = ask("/run", {"appName": "shop", "userId": "ann", "sessionId": "s", "newMessage": hello})
        assert event["content"]["parts"] == [{"text": "Hello, Ann."}]
        kept = ask("/apps/shop/users/ann/sessions/s")
        assert len(kept["events"]) == 2 and kept["state"] == {"kind": "tea"}
        with plait.open(tmp_path / "agents.db") as beside:
            chat = beside.scoped("shop", "ann").session("s")
            assert [(message.role, message.text) for message in chat.history()] == [  # type: ignore[union-attr]
                *(("user", "Hello"), ("assistant", "Hello, Ann."))
            ]
            chat.append({"role": "user", "content": "From beside."})
        assert len(ask("/apps/shop/users/ann/sessions/s")["events"]) == 3
    finally:
        server.terminate()
        server.communicate(timeout=100)
    with plait.open(tmp_path / "agents.db") as after:
        assert after.scoped("shop", "ann").session("s").totals().messages == 3 and after.doctor() == []


def test_the_command_line_knows_plait_from_services_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    (tmp_path / "services.yaml").write_text(YAML)
    service_registry.load_services_module(str(tmp_path))
    registry = service_registry.get_service_registry()
    given: dict[str, Any] = {"agents_dir": str(tmp_path)}
    session = registry.create_session_service("plait:///a.db", **given)
    memory = registry.create_memory_service("plait:///a.db", **given)
    artifact = registry.create_artifact_service("plait:///a.db", **given)
    assert isinstance(session, SessionServiceByUri) and isinstance(memory, MemoryServiceByUri)
    assert isinstance(artifact, ArtifactServiceByUri) and session.sessions is memory.sessions is artifact.sessions
    for bad in ("plait://", "plait:///", "plait://host/x", "other:///x"):
        with pytest.raises(plait.UsageError, match=r"plait:///file\.db"):
            SessionServiceByUri(bad)
    for service in (SessionServiceByUri, MemoryServiceByUri, ArtifactServiceByUri):
        service("plait:///agents.db", agents_dir="agents", per_agent=True)  # what `adk web` says of itself
        with pytest.raises(plait.UsageError, match="no option 'on_stael'; it has"):
            service("plait:///agents.db", on_stael="merge")
        with pytest.raises(plait.UsageError, match="takes no options"):
            service("plait:///agents.db?agent=helper")
    named = SessionServiceByUri("plait:///agents.db", agent="helper", on_stale="merge")
    assert (named._agent, named._on_stale) == ("helper", "merge")
    assert MemoryServiceByUri("plait:///agents.db", max_results=3)._max_results == 3
    postgres = SessionServiceByUri("plait+postgresql://u:secret@nowhere/db")
    assert "secret" not in repr(postgres) + repr(postgres.sessions)
