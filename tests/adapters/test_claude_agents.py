"""Claude Code itself, as the Claude Agent SDK starts it, on plait's store: a scripted API on this machine, and no network.

About twenty seconds of processor time in all, and none where the SDK or the Claude Code in it is missing.
"""

from __future__ import annotations

import importlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="needs claude-agent-sdk: pip install 'plait[claude]' (384 MB)")

import plait
from plait.adapters.claude import ClaudeSessionStore, tools
from tests.adapters.messages_api import Api, environment, serving

sdk: Any = importlib.import_module("claude_agent_sdk")
BUNDLED = Path(sdk.__file__).parent / "_bundled"
NOT_MIRRORED = ("api-request", "api-request-blob", "api-request-shape")
"""What Claude Code writes to its own file and shows no store: copies of its requests."""

pytestmark = [
    pytest.mark.skipif(not list(BUNDLED.glob("claude*")), reason="this claude-agent-sdk brings no Claude Code"),
    pytest.mark.timeout(300),
]


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[plait.AsyncSessions]:
    async with plait.open_async(tmp_path / "store.db", durability="process") as opened:
        yield opened


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """It says what was said last; `call`, `delegate` and a request for a summary are what they say."""
    with serving(answer, streams=getattr(request, "param", True)) as served:
        yield served
        assert served.refused == [], "Claude Code asks nobody else"


def answer(request: Any) -> Any:
    said = [message for message in request["messages"] if message["role"] != "system"][-1]["content"]
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    text = str(blocks[-1].get("text"))
    if "TEXT ONLY" in text:
        return "<summary>All of it.</summary>"
    if any(block["type"] == "tool_result" for block in blocks):
        return "Done."
    if text == "call":
        given = [{"label": "memory", "content": f"Likes {thing}."} for thing in ("sun", "rain")]
        return [
            {"type": "tool_use", "id": f"c{n}", "name": "mcp__plait__set_context", "input": one}
            for n, one in enumerate(given)
        ]
    if text == "delegate":
        task = {
            "description": "part",
            "prompt": "The part.",
            "subagent_type": "general-purpose",
            "run_in_background": False,
        }
        return [{"type": "tool_use", "id": "d1", "name": "Agent", "input": task}]
    return f"Re: {text}"


class Desk:
    """Claude Code in a folder of the test's."""

    def __init__(self, sessions: plait.AsyncSessions, api: Api, root: Path) -> None:
        self.store, self.api, self.home, self.cwd = ClaudeSessionStore(sessions), api, root / "home", root / "work"
        for folder in (self.home, self.cwd):
            folder.mkdir()
        self.key = {"project_key": sdk.project_key_for_directory(self.cwd), "session_id": str(uuid.uuid4())}

    def options(self, **more: Any) -> Any:
        begun = {"session_id": self.key["session_id"], "system_prompt": "Be short.", "tools": []}
        given = {**begun, **more, "cwd": self.cwd, "env": environment(self.api, self.home), "setting_sources": []}
        return sdk.ClaudeAgentOptions(session_store=self.store, **given)

    async def say(self, text: str, **more: Any) -> Any:
        """A process of its own that goes on; its last message."""
        *_, last = [m async for m in sdk.query(prompt=text, options=self.options(**{"session_id": None, **more}))]
        assert last.subtype == "success", last
        return last

    def resumed(self, **more: Any) -> dict[str, Any]:
        return {"resume": self.key["session_id"], **more}

    def written(self) -> dict[str | None, list[Any]]:
        """What Claude Code wrote to its own files, but for what it shows no store: by subpath, if a subagent did."""
        project = self.home / "claude" / "projects" / self.key["project_key"]
        found: dict[str | None, list[Any]] = {}
        for file in project.rglob("*.jsonl"):
            inside = file.relative_to(project).with_suffix("").parts[1:]
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            found["/".join(inside) or None] = [line for line in lines if line["type"] not in NOT_MIRRORED]
        return found

    async def shown(self) -> list[tuple[str, str]]:
        """The conversation as any model gets it."""
        chat = self.store.handle(self.key)
        found = [m async for m in chat.history(for_model=True) if isinstance(m, plait.Message)]
        return [(message.role, message.text) for message in found]


@pytest.fixture
def desk(sessions: plait.AsyncSessions, api: Api, tmp_path: Path) -> Desk:
    return Desk(sessions, api, tmp_path)


@pytest.mark.parametrize(
    ("api", "streamed"), [(True, True), (False, False)], indirect=["api"], ids=["streamed", "whole"]
)
async def test_what_claude_code_writes_is_what_is_stored(
    desk: Desk, sessions: plait.AsyncSessions, streamed: bool
) -> None:
    """Calls of plait's tools at once, a subagent and Claude Code's own compaction, in one process."""
    chat = sessions.session("memory", context=["memory"], cached_prompt=True)
    prompt, offered = await chat.freeze_system_prompt(), await tools(chat)
    options = desk.options(
        system_prompt={"type": "preset", "preset": "claude_code", "append": prompt},
        mcp_servers={"plait": sdk.create_sdk_mcp_server("plait", tools=offered)},
        allowed_tools=["mcp__plait__set_context", "Agent"],
        tools=["Agent"],
        include_partial_messages=streamed,
    )
    kinds: list[str] = []
    async with sdk.ClaudeSDKClient(options) as client:
        for text in ("call", "delegate", "/compact", "And now?"):
            await client.query(text)
            kinds += [type(message).__name__ async for message in client.receive_response()]
    assert streamed == ("StreamEvent" in kinds)
    assert {request.get("stream", False) for request in desk.api.requests} == {streamed}
    said = "".join(block["text"] for block in desk.api.requests[0]["system"])
    assert prompt in said, "the frozen prompt is part of the instructions"
    block = await chat.context.block("memory")
    assert block is not None and block.content == "Likes rain."

    written = desk.written()
    below = await desk.store.list_subkeys(desk.key)
    assert len(below) == 1 and below[0].startswith("subagents/agent-")
    assert set(written) == {None, *below}
    loaded = await desk.store.load(desk.key) or []
    assert loaded == written[None][: len(loaded)]
    assert {entry["type"] for entry in written[None][len(loaded) :]} <= {"cost-state", "last-prompt"}, (
        "nobody listens when it ends"
    )
    (subpath,) = below
    stored = await desk.store.load({**desk.key, "subpath": subpath}) or []
    assert [entry for entry in stored if entry["type"] != "agent_metadata"] == written[subpath]
    await desk.store.append(desk.key, [entry for entry in loaded if "uuid" in entry])
    assert await desk.store.load(desk.key) == loaded, "what comes twice is stored once"

    shown = await desk.shown()
    assert "All of it." in shown[0][1] and shown[-2:] == [("user", "And now?"), ("assistant", "Re: And now?")]
    assert [text for _, text in shown].count("Done.") <= 1 and ("user", "call") not in shown
    whole = [m.role async for m in desk.store.handle(desk.key).transcript() if m.role != "meta"]
    assert whole[:2] == ["user", "assistant"] and whole.count("tool") == 3
    assert await sessions.doctor() == []


async def test_a_process_that_begins_at_an_earlier_entry_begins_a_branch(
    desk: Desk, sessions: plait.AsyncSessions
) -> None:
    """Claude Code notes things between a prompt and what it goes on from."""
    await desk.say("One", session_id=desk.key["session_id"])
    await desk.say("Two", **desk.resumed())
    (first, *_) = [entry for entry in await desk.store.load(desk.key) or [] if entry["type"] == "assistant"]
    await desk.say("Three", **desk.resumed(extra_args={"resume-session-at": first["uuid"]}))
    begun = [("user", "One"), ("assistant", "Re: One")]
    assert await desk.shown() == [*begun, ("user", "Three"), ("assistant", "Re: Three")]
    await desk.say("Four", **desk.resumed())
    gone_on = [*begun, ("user", "Three"), ("assistant", "Re: Three"), ("user", "Four"), ("assistant", "Re: Four")]
    assert await desk.shown() == gone_on
    chat = desk.store.handle(desk.key)
    assert len(await chat.leaves()) == 2
    assert [hit.role for hit in await chat.search("Two")] == ["user", "assistant"], "a prompt is found once"
    forked = await desk.say("Five", **desk.resumed(fork_session=True))
    assert forked.session_id != desk.key["session_id"] and await desk.shown() == gone_on
    desk.key["session_id"] = forked.session_id
    assert await desk.shown() == [*gone_on, ("user", "Five"), ("assistant", "Re: Five")]
    assert await sessions.doctor() == []


async def test_after_a_compaction_what_is_shown_is_what_the_model_gets(desk: Desk) -> None:
    """What Claude Code keeps beside its summary was written before it, and comes after."""
    await desk.say("One", session_id=desk.key["session_id"])
    await desk.say("Two", **desk.resumed())
    await desk.say("/compact", **desk.resumed())
    await desk.say("Three", **desk.resumed())
    asked = json.dumps([m for m in desk.api.requests[-1]["messages"] if m["role"] != "system"])
    shown = [text for _, text in await desk.shown()]
    assert "All of it." in shown[0] and shown[-2:] == ["Three", "Re: Three"]
    places = [asked.index(json.dumps(text[:100])[1:-1]) for text in shown[:-1]]
    assert places == sorted(places)
    assert '"One"' not in asked and "One" not in shown


async def test_without_projects_a_session_is_found_from_any_folder(
    desk: Desk, sessions: plait.AsyncSessions, tmp_path: Path
) -> None:
    users = sessions.scoped("shop", "ann")
    desk.store = ClaudeSessionStore(users, by_project=False)
    chat = users.session(desk.key["session_id"])
    await chat.append({"role": "user", "content": "Begun elsewhere."})
    await chat.append({"role": "assistant", "content": "Yes."})
    await desk.say("One", **desk.resumed())
    desk.cwd = tmp_path / "other"
    desk.cwd.mkdir()
    await desk.say("Two", continue_conversation=True)
    asked = [("user", "Begun elsewhere."), ("assistant", "Yes."), ("user", "One"), ("assistant", "Re: One")]
    assert await desk.shown() == [*asked, ("user", "Two"), ("assistant", "Re: Two")]
    assert [info.id async for info in users.all()] == [chat.id]
