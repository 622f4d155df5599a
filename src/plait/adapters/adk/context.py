"""plait's context under ADK: the blocks' tools as a toolset of an agent, the frozen prompt as its instructions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from plait import AsyncTool
from plait.adapters.adk.sessions import PlaitSessionService
from plait.logic.blocks import BlockLike


class PlaitTool(BaseTool):
    """One of plait's tools, of a session or of all sessions, as a tool of ADK's."""

    def __init__(self, tool: AsyncTool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self.tool = tool

    def _get_declaration(self) -> types.FunctionDeclaration:
        """The tool as it goes to the model."""
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self.tool.schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Do it; what the model is to read, also of failures."""
        return {"result": await self.tool.call(args)}


class ContextToolset(BaseToolset):
    """The tools for the blocks of whichever session the agent runs in, for an agent's `tools` beside its own.

    `context` declares the blocks, as `AsyncSessions.session` takes them. With `search` there is also
    `session_search`, over all sessions of the user.
    """

    def __init__(
        self, service: PlaitSessionService, context: Iterable[BlockLike] = (), *, search: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self._service = service
        self._context = list(context)
        self._search = search

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools as the blocks are now; none outside of a session."""
        if readonly_context is None:
            return []
        handle = self._service.composed(readonly_context.session, self._context)
        tools = list(await handle.tools())
        if self._search:
            tools += await self._service.scope_of(readonly_context.session).tools()
        found: list[BaseTool] = [PlaitTool(tool) for tool in tools]
        return [tool for tool in found if self._is_tool_selected(tool, readonly_context)]


def instruction(
    service: PlaitSessionService, context: Iterable[BlockLike] = (), *, before: str = "", after: str = ""
) -> Callable[[ReadonlyContext], Awaitable[str]]:
    """For an agent's `instruction`: the frozen prompt of its session, between the app's own words.

    The prompt is frozen in the session, so that it is the same in every process until it is refreshed. ADK
    puts nothing in the place of `{names}` in it.
    """
    declared = list(context)

    async def instructions(readonly_context: ReadonlyContext) -> str:
        handle = service.composed(readonly_context.session, declared)
        prompt = await handle.freeze_system_prompt()
        return "\n\n".join(text for text in (before, prompt, after) if text)

    return instructions
