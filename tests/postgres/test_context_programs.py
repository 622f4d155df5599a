"""What serves blocks and prompts to others, with a database of a server behind it: the command line, and MCP."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

import plait
from plait import BlockSpec, Sessions
from plait.cli.run import run


@pytest.fixture
def cli(url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `plait` in this process on the test's database; what it printed."""
    monkeypatch.setenv("PLAIT_DB", url)

    def call(*arguments: str) -> str:
        capfd.readouterr()
        assert run(list(arguments)) == 0
        sys.stdout.flush()
        return capfd.readouterr().out

    return call


def test_plait_context_lists_writes_and_brings_back(cli: Any, sessions: Sessions) -> None:
    sessions.session("chat").append(plait.user("hi"))
    cli("context", "set", "memory", "Likes tea.", "--session", "chat")
    cli("context", "append", "memory", "Likes cake.", "--session", "chat")
    assert cli("context", "show", "memory", "--session", "chat") == "Likes tea.\nLikes cake."
    (block,) = map(json.loads, cli("context", "list", "--session", "chat", "--json").splitlines())
    assert (block["label"], block["version"]) == ("memory", 2)
    assert len(cli("context", "history", "memory", "--session", "chat", "--json").splitlines()) == 2
    cli("context", "restore", "memory", "1", "--session", "chat")
    block = sessions.session("chat", context=["memory"]).context.block("memory")
    assert block is not None and (block.content, block.version) == ("Likes tea.", 3)


def test_plait_prompt_renders_freezes_compares_and_refreshes(cli: Any, sessions: Sessions) -> None:
    chat = sessions.session("chat", context=["soul"], cached_prompt=True)
    chat.append(plait.user("hi"))
    chat.context.replace("soul", "You are kind.")
    rendered = cli("prompt", "render", "chat")
    assert rendered.endswith("You are kind.")
    assert cli("prompt", "freeze", "chat") == rendered == chat.freeze_system_prompt()
    chat.context.replace("soul", "You are brief.")
    compared = cli("prompt", "diff", "chat")
    assert "-You are kind." in compared and "+You are brief." in compared
    assert cli("prompt", "refresh", "chat").endswith("You are brief.")
    assert chat.freeze_system_prompt().endswith("You are brief.")


async def test_plait_mcp_serves_memory_and_search(url: str) -> None:
    pytest.importorskip("mcp", reason="needs mcp: pip install 'plait[mcp]'")
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    with plait.open(url) as sessions:
        sessions.session("monday").append(plait.user("Please deploy to production"))
    path = os.pathsep.join(item for item in sys.path if item)
    given = ["-m", "plait", "mcp", url]
    server = StdioServerParameters(command=sys.executable, args=given, env={**os.environ, "PYTHONPATH": path})
    async with Client(stdio_client(server), mode="auto") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"session_search", "set_context"} <= names
        found: Any = await client.call_tool("session_search", {"query": "deploy production"})
        assert "Please deploy to production" in found.content[0].text
        written: Any = await client.call_tool("set_context", {"label": "memory", "content": "Likes tea."})
        assert written.content[0].text.startswith("Written to memory")
    with plait.open(url) as sessions:
        block = sessions.session("any", context=[BlockSpec("memory", shared=True)]).context.block("memory")
        assert block is not None and block.content == "Likes tea."
