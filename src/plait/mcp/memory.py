"""A scope's memory as tools: which there are, and what a call of one answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

import plait
from plait.logic import prompt
from plait.logic.shape import is_mapping
from plait.mcp.wording import sayable

READ: Final = "read_context"
_WRITES: Final = "set_context"
_LEFT_OUT: Final = frozenset(
    ("unload_context",)
)  # what was loaded stands in the client's conversation, not in one here
_FAILED: Final = "Error:"


class Answer(Struct, frozen=True):
    """What a call answers: text for the model to read, and whether it says that something went wrong."""

    text: str
    failed: bool = False


class Memory:
    """The blocks of a session's context, and the search of all sessions of its scope, as tools of MCP.

    The tools are those of `Session.tools` and `Sessions.tools`, and `read_context`: an MCP client has no system
    prompt of plait's in which the blocks stand. With `read_only` none of them writes. All methods block and
    may be called from many threads.
    """

    def __init__(self, sessions: plait.Sessions, session: plait.Session, *, read_only: bool = False) -> None:
        self._sessions = sessions
        self._session = session
        self._read_only = read_only

    def tools(self) -> list[dict[str, Any]]:
        """The tools as MCP lists them."""
        return [*self._reading(), *(tool.to_mcp() for tool in self._offered())]

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> Answer:
        """Do what a tool does; nothing that a client passes is raised."""
        given: Mapping[str, Any] = {} if arguments is None else arguments
        if not is_mapping(given):
            return Answer(f"{_FAILED} the arguments must be an object", failed=True)
        try:
            return self._call(name, given)
        except Exception as error:  # a provider's own, or the store's, before the tool could catch it
            return Answer(f"{_FAILED} {type(error).__name__}: {sayable(str(error))}", failed=True)

    def _call(self, name: str, given: Mapping[str, Any]) -> Answer:
        if name == READ and self._session.context.labels():
            return self._read(given.get("label"))
        tool = next((tool for tool in self._offered() if tool.name == name), None)
        if tool is None:
            return Answer(f"{_FAILED} there is no tool {sayable(str(name))[:80]!r} here", failed=True)
        text = sayable(tool.call(given))
        return Answer(text, failed=text.startswith(_FAILED))

    def block(self, label: str) -> plait.Block | None:
        """A block as it is now."""
        return self._session.context.block(label)

    def listing(self) -> list[tuple[str, str]]:
        """The label of each block and what it is for (or nothing), as they were declared: no provider is asked."""
        declared = self._session.context._blocks  # pyright: ignore[reportPrivateUsage]
        return [(entry.spec.label, prompt.one_line(entry.spec.description or "")) for entry in declared.entries()]

    def _offered(self) -> list[plait.Tool]:
        tools = [*self._session.tools(), *self._sessions.tools()]
        return [tool for tool in tools if tool.name not in _LEFT_OUT and not (self._read_only and tool.name == _WRITES)]

    def _reading(self) -> list[dict[str, Any]]:
        listing = self.listing()
        if not listing:
            return []
        labels = [label for label, _ in listing]
        blocks = "\n".join(f"- {label}: {about or 'no description'}" for label, about in listing)
        schema = {
            "type": "object",
            "properties": {"label": {"type": "string", "enum": labels, "description": "The block to read"}},
            "required": ["label"],
            "additionalProperties": False,
        }
        about = f"Read a block of your memory, which outlives this conversation.\n{blocks}"
        return [{"name": READ, "description": about, "inputSchema": schema}]

    def _read(self, label: object) -> Answer:
        labels = self._session.context.labels()
        if not isinstance(label, str) or label not in labels:
            return Answer(f"{_FAILED} label must be one of: {', '.join(labels)}", failed=True)
        try:
            block = self._session.context.block(label)
        except Exception as error:  # a provider's own
            return Answer(f"{_FAILED} {type(error).__name__}: {sayable(str(error))}", failed=True)
        return Answer(sayable(block.content) if block is not None and block.content else "(empty)")
