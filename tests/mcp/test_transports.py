"""The server as MCP clients meet it: the official client over stdio and HTTP, and peers that are none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.mcp import Library, Memory, make_server
from plait.mcp.lines import Lines
from plait.mcp.server import MOST_BODY_BYTES
from tests.docs.pages import DOCS, blocks
from tests.mcp.conftest import HOSTILE

mcp = pytest.importorskip("mcp", reason="needs mcp: pip install 'plait[mcp]'")

from mcp.client import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture
def store(db: Path) -> Path:
    with plait.open(db) as sessions:
        sessions.session("monday").append(plait.user("Please deploy to production"))
        sessions.session("odd \n .. id").append(plait.user(HOSTILE))
    return db


def command(db: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "plait", "mcp", str(db), *more]


@contextlib.asynccontextmanager
async def over_stdio(db: Path, *more: str, mode: str = "auto") -> AsyncIterator[Any]:
    program, *arguments = command(db, *more)
    server = stdio_client(StdioServerParameters(command=program, args=arguments, env=ENVIRONMENT))
    async with Client(server, mode=mode) as client:
        yield client


@contextlib.contextmanager
def serving_http(db: Path, *more: str) -> Iterator[str]:
    """A server process; the address it says."""
    process = subprocess.Popen(command(db, "--http", "0", *more), stderr=subprocess.PIPE, env=ENVIRONMENT, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("plait: MCP at "), line + process.stderr.read()
        yield line.split()[3]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        finally:
            process.kill()
            process.stderr.close()


def text(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


async def use(client: Any) -> None:
    """All that is offered, each once."""
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert tools == ["read_context", "set_context", "session_search"]
    kept = await client.call_tool("set_context", {"label": "memory", "content": f"Likes tea. {HOSTILE[:20]}"})
    assert not kept.is_error
    assert text(await client.call_tool("read_context", {"label": "memory"})).startswith("Likes tea.")
    found = await client.call_tool("session_search", {"query": "deploy production"})
    assert text(found) == "[user] Please deploy to production"
    resources = (await client.list_resources()).resources
    assert len(resources) == 3 and resources[0].uri == "plait://context/memory"
    for resource in resources:
        assert (await client.read_resource(resource.uri)).contents[0].text
    templates = (await client.list_resource_templates()).resource_templates
    assert templates[0].uri_template == "plait://session/{id}"


async def misuse(client: Any) -> None:
    """What is wrong, each an error, after which the server goes on."""
    for name, arguments in [
        ("nope", {}),
        ("read_context", {"label": "absent"}),
        ("read_context", {}),
        ("set_context", {"label": "memory", "content": 3}),
        ("set_context", {"label": ["memory"], "content": "x"}),
    ]:
        result = await client.call_tool(name, arguments)
        assert result.is_error and text(result).startswith("Error:")
    for uri in ("plait://session/absent", "file:///etc/passwd", "plait://session/%ff"):
        with pytest.raises(MCPError, match="there is nothing at"):
            await client.read_resource(uri)
    with pytest.raises(MCPError, match="cursor"):
        await client.list_resources(cursor="nobody's")
    assert (await client.list_tools()).tools


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_what_is_offered_is_used_and_what_is_wrong_is_an_error(store: Path, mode: str) -> None:
    with plait.open(store) as sessions:
        session = sessions.session("server", context=[plait.BlockSpec("memory", shared=True)])
        memory = Memory(sessions, session)
        async with Client(make_server(memory, Library(sessions, memory)), mode=mode) as client:
            await use(client)
            await misuse(client)


async def test_it_is_served_over_stdio(store: Path) -> None:
    async with over_stdio(store) as client:
        await use(client)
        await misuse(client)
        large = "word " * 2_000_000
        assert not (await client.call_tool("set_context", {"label": "memory", "content": large})).is_error
        assert text(await client.call_tool("read_context", {"label": "memory"})) == large
    with plait.open(store) as sessions:
        block = sessions.session("new", context=[plait.BlockSpec("memory", shared=True)]).context.block("memory")
        assert block is not None and block.content == large


async def test_it_is_served_over_http(store: Path) -> None:
    with serving_http(store) as address:
        for mode in ("legacy", "auto"):
            async with Client(address, mode=mode) as client:
                await use(client)
                await misuse(client)
        for body in (b"", b"not json", b"[]", b"\xff", b"[" * 100_000):
            assert 400 <= await asyncio.to_thread(ask_http, address, body) < 500
        assert await asyncio.to_thread(lambda: ask_http(address, b"{}", Host="evil.example")) in (403, 421)
        assert await asyncio.to_thread(lambda: ask_http(address, b"{}", Origin="http://evil.example")) == 403
        async with Client(address) as client:
            await use(client)
            large = "word " * 2_000_000
            assert not (await client.call_tool("set_context", {"label": "memory", "content": large})).is_error
            assert text(await client.call_tool("read_context", {"label": "memory"})) == large
        said = {"Content_Length": str(MOST_BODY_BYTES + 1)}
        assert await asyncio.to_thread(lambda: ask_http(address, b"{}", **said)) == 413


async def test_blocks_and_skills_are_named_on_the_command_line(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML: pip install 'plait[files]'")
    (tmp_path / "skills" / "pirate").mkdir(parents=True)
    (tmp_path / "skills" / "pirate" / "SKILL.md").write_text("---\nname: pirate\ndescription: Talks.\n---\nArr.")
    asked = ["--block", "facts=What is known", "--collection", "notes", "--documents", "manuals", "--session", "monday"]
    async with over_stdio(store, *asked, "--skills", str(tmp_path / "skills")) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            "read_context", "set_context", "search_context", "load_context", "activate_skill", "read_skill_resource",
            "session_search",
        }  # fmt: skip
        labels = tools["read_context"].input_schema["properties"]["label"]["enum"]
        assert labels == ["facts", "notes", "manuals", "skills"]
        assert "What is known" in (tools["read_context"].description or "")
        await client.call_tool("set_context", {"label": "facts", "content": "one"})
        assert "Arr." in text(await client.call_tool("activate_skill", {"name": "pirate"}))
        assert "- pirate: Talks." in text(await client.call_tool("read_context", {"label": "skills"}))
    with plait.open(store) as sessions:
        block = sessions.session("monday", context=["facts"]).context.block("facts")
        assert block is not None and block.content == "one"


async def test_the_configuration_of_the_docs_starts_a_server_here_a_read_only_one(store: Path) -> None:
    """With this Python's `plait` in the place of the command, and the test's database."""
    (page,) = [block.code for block in blocks(DOCS / "howto" / "mcp.md") if block.language == "json"]
    server = json.loads(page)["mcpServers"]["plait"]
    assert server["command"] == "plait"
    given = [str(store) if argument == "/home/me/agents.db" else argument for argument in server["args"]]
    transport = stdio_client(
        StdioServerParameters(command=sys.executable, args=["-m", "plait", *given, "--read-only"], env=ENVIRONMENT)
    )
    async with Client(transport) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read_context", "session_search"]
        assert text(await client.call_tool("session_search", {"query": "deploy"})).startswith("[user]")
        assert (await client.call_tool("set_context", {"label": "memory", "content": "x"})).is_error


async def test_two_servers_of_a_new_database_share_one_memory(tmp_path: Path) -> None:
    db = tmp_path / "new.db"
    async with over_stdio(db) as one, over_stdio(db) as other:

        async def add(client: Any, name: str) -> None:
            for n in range(10):
                given = {"label": "memory", "content": f"{name}{n}", "action": "append"}
                assert not (await client.call_tool("set_context", given)).is_error

        await asyncio.gather(add(one, "a"), add(other, "b"))
        lines = text(await one.call_tool("read_context", {"label": "memory"})).splitlines()
        assert sorted(lines) == sorted(f"{name}{n}" for name in "ab" for n in range(10))


GARBAGE = [
    b"\n", b"not json\n", b"\xff\xfe\x00\n", b"[]\n", b"{}\n", b'{"jsonrpc":"2.0"}\n', b'{"jsonrpc":"2.0","id":1,"method":3}\n',
    b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}\n', b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[]}\n',
    b'{"jsonrpc":"2.0","id":3,"method":"nope/nope","params":{}}\n', b"[" * 100_000 + b"\n", b"x" * 1_000_000 + b"\n",
    b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"\\ud800"}}\n',
]  # fmt: skip


def test_garbage_on_stdin_ends_nothing(store: Path) -> None:
    first = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    }
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 100, "method": "initialize", "params": first}).encode() + b"\n",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
        *GARBAGE,
        b'{"jsonrpc":"2.0","id":200,"method":"tools/list"}\n',
    ]
    process = subprocess.Popen(
        command(store), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    )
    assert process.stdin is not None and process.stdout is not None
    for line in lines:
        process.stdin.write(line)
        process.stdin.flush()
    answered: dict[str, Any] = {}
    while answered.get("id") != 200:
        answered = json.loads(process.stdout.readline())
    assert [tool["name"] for tool in answered["result"]["tools"]] == ["read_context", "set_context", "session_search"]
    process.stdin.close()
    process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0


def ask_http(address: str, body: bytes, **headers: str) -> int:
    """The status of an answer to a request made by hand."""
    host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
    fields = {
        "Host": f"{host}:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode() + body)
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("--session", "absent"), 1, "there is no session absent"),
        (("--block", "bad[label]"), 1, "label must be one line"),
        (("--function", "nope"), 1, "--function takes module:name"),
        (("--http", "70000"), 2, "--http"),
        (("--skills", "nosuch://x"), 1, "cannot be opened"),
        (("--skills", "/no/such/folder"), 1, "there is no folder '/no/such/folder'"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(store: Path, more: tuple[str, ...], code: int, told: str) -> None:
    ran = subprocess.run(
        command(store, *more), stdin=subprocess.DEVNULL, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert ran.returncode == code and told in ran.stderr and len(ran.stderr.splitlines()) == 1, ran.stderr


def test_a_port_in_use_is_told(store: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ran = subprocess.run(command(store, "--http", port), capture_output=True, text=True, env=ENVIRONMENT)
    assert ran.returncode == 1 and "in use" in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal there")
def test_an_interrupt_ends_a_server_that_nobody_speaks_to(store: Path) -> None:
    process = subprocess.Popen(
        command(store), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with process:
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b""


async def test_lines_are_read_whole_wherever_they_are_cut() -> None:
    given = ["", "a", "é用😀" * 30_000, "x" * 200_000, "last without an end"]
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write("\n".join(given).encode() + b"\xff")

    with os.fdopen(reading, "rb"):
        done = asyncio.create_task(asyncio.to_thread(write))
        assert [line async for line in Lines(reading)] == [*given[:-1], given[-1] + "\ufffd"]
        await done
