"""The server that speaks MCP, over stdio or streamable HTTP; what it offers is in `memory` and `library`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, TypeVar

import plait
from plait.mcp.library import Library
from plait.mcp.lines import Lines
from plait.mcp.memory import Memory
from plait.mcp.wording import sayable

if TYPE_CHECKING:
    from starlette.applications import Starlette

T = TypeVar("T")

log = logging.getLogger("plait")

INSTRUCTIONS: Final = (
    "Memory that outlives this conversation. Read its blocks with read_context at the start, keep what is worth "
    "knowing later with set_context, and find what was said in earlier conversations with session_search."
)
_NOT_FOUND: Final = -32002
_INVALID: Final = -32602
_FAILED: Final = -32603

MOST_BODY_BYTES: Final = 64 << 20
"""What one request over HTTP may hold; the SDK's own limit is 4 MiB, less than a block may."""


def make_server(memory: Memory, library: Library) -> Any:
    """An `mcp.server.Server` with these tools and resources, to be run on any transport."""
    import mcp_types as types
    from mcp.server import Server

    async def list_tools(context: Any, params: Any) -> Any:
        found = await _aside(memory.tools)
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in found])

    async def call_tool(context: Any, params: Any) -> Any:
        answer = await _aside(lambda: memory.call(params.name, params.arguments))
        return types.CallToolResult(content=[types.TextContent(text=answer.text)], is_error=answer.failed)

    async def list_resources(context: Any, params: Any) -> Any:
        page = await _aside(lambda: library.page(getattr(params, "cursor", None)))
        items = [
            types.Resource(uri=one.uri, name=one.name, description=one.description, mime_type=one.media_type)
            for one in page.items
        ]
        return types.ListResourcesResult(resources=items, next_cursor=page.cursor)

    async def list_templates(context: Any, params: Any) -> Any:
        about = "The newest messages of a session, as Markdown; its id percent-encoded"
        session = types.ResourceTemplate(
            uri_template="plait://session/{id}", name="session", description=about, mime_type="text/markdown"
        )
        return types.ListResourceTemplatesResult(resource_templates=[session])

    async def read_resource(context: Any, params: Any) -> Any:
        text, media_type = await _aside(lambda: library.read(str(params.uri)))
        contents = types.TextResourceContents(uri=str(params.uri), mime_type=media_type, text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "plait",
        version=_version(),
        title="plait: memory and earlier conversations",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


async def _aside(work: Callable[[], T]) -> T:
    """What blocking work answers, done in a thread; an error of plait's is one that a client is told."""
    import anyio.to_thread
    from mcp.shared.exceptions import MCPError

    try:
        return await anyio.to_thread.run_sync(work)
    except plait.NotFoundError as error:
        raise MCPError(_NOT_FOUND, sayable(str(error))) from error
    except plait.UsageError as error:
        raise MCPError(_INVALID, sayable(str(error))) from error
    except plait.PlaitError as error:
        raise MCPError(_FAILED, sayable(str(error))) from error
    except Exception as error:
        log.warning("an MCP request failed: %r", error, exc_info=error)
        raise MCPError(_FAILED, f"internal error, {type(error).__name__}") from error


async def serve_stdio(server: Any) -> None:
    """Speak with the process at the other end of stdin and stdout until it goes away."""
    from mcp.server.stdio import stdio_server

    lines: Any = Lines()  # the library's own reader is waited for when it is cancelled, until a line comes
    async with stdio_server(stdin=lines) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def http_app(server: Any) -> Starlette:
    """The server as an ASGI application, at `/mcp`; it takes requests to names of this machine only."""
    app: Starlette = server.streamable_http_app(host="127.0.0.1", max_request_body_size=MOST_BODY_BYTES)
    return app


async def serve_http(server: Any, *, port: int, ready: Callable[[int], object] = lambda port: None) -> None:
    """Speak streamable HTTP on the loopback address until interrupted; `ready` is told the port (0: a free one)."""
    import socket

    import uvicorn

    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()  # before anybody is told where
        config = uvicorn.Config(http_app(server), log_level="warning", timeout_graceful_shutdown=2)
        ready(listening.getsockname()[1])
        await uvicorn.Server(config).serve(sockets=[listening])


def _version() -> str:
    try:
        return version("plait")
    except PackageNotFoundError:
        return "0"
