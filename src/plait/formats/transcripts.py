"""Reading messages kept as other tools wrote them: Pi's entries, Claude Code's lines, ChatGPT's nodes.

The stored message is the tool's own object; role, parts and usage are derived from it. What stands
in the conversation without being said by anybody (a change of model, a file snapshot) has the
role `meta`, what stands for earlier messages (a compaction's summary) the role `summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, cast

from plait.formats import openai_chat
from plait.formats.native import (
    call_part,
    data_part,
    merged,
    reasoning_part,
    result_part,
    text_part,
    url_part,
)
from plait.logic.shape import is_list, list_of
from plait.model import Format, Json

_PI_ENTRIES = frozenset(
    {
        "message",
        "model_change",
        "thinking_level_change",
        "compaction",
        "branch_summary",
        "custom",
        "custom_message",
        "label",
        "session_info",
        "usage",
    }
)
_PI_ROLES = {
    "toolResult": "tool",
    "bashExecution": "user",
    "custom": "user",
    "hookMessage": "user",
    "branchSummary": "summary",
    "compactionSummary": "summary",
}
_CLAUDE_MARKS = ("parentUuid", "sessionId", "leafUuid")


class PiFormat:
    """A line of a Pi session: the entry with its envelope."""

    name = "pi"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        kind = message.get("type")
        is_entry = isinstance(kind, str) and kind in _PI_ENTRIES and isinstance(message.get("timestamp"), str)
        return is_entry and not _is_claude(message)

    def id(self, message: Mapping[str, Any]) -> str | None:
        return _text(message.get("id"))

    def role(self, message: Mapping[str, Any]) -> str:
        kind = message.get("type")
        if kind == "message":
            role = _text(_object(message.get("message")).get("role")) or "meta"
            return _PI_ROLES.get(role, role)
        if kind in ("compaction", "branch_summary"):
            return "summary"
        return "user" if kind == "custom_message" else "meta"

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        kind, inner = message.get("type"), _object(message.get("message"))
        if kind in ("compaction", "branch_summary"):
            return _texts(message.get("summary"))
        if kind == "custom_message":
            return _blocks(message.get("content"), _pi_block)
        if kind != "message":
            return [_data(str(kind), _without(message, "type", "id", "parentId", "timestamp"))]
        if inner.get("role") == "toolResult":
            output, failed = _output(inner.get("content"), _pi_block), inner.get("isError") is True
            return [result_part(inner.get("toolCallId"), output, name=inner.get("toolName"), failed=failed)]
        if inner.get("role") == "bashExecution":
            return _texts(f"$ {inner.get('command')}\n{inner.get('output')}")
        if "summary" in inner:
            return _texts(inner["summary"])
        return _blocks(inner.get("content"), _pi_block)

    def metadata(self, message: Mapping[str, Any]) -> Json:
        inner = _object(message.get("message"))
        return _without(inner, "role", "content", "usage", "toolCallId", "toolName", "isError")

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        return _object(_object(message.get("message")).get("usage")) or None

    piecewise = False

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        inner = _object(message.get("message"))
        return None if inner.get("role") == "toolResult" else _fewer(message, inner, parts)

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        parts = self.parts(message)
        said = {"role": "toolResult", "content": [text_part(text)], "isError": True}
        entry = {"type": "message", "timestamp": message.get("timestamp", "")}
        named = [{key: parts[n].get(key, "") for key in ("toolCallId", "toolName")} for n in sorted(calls)]
        return dict(message), [{**entry, "message": {**said, **names}} for names in named]


class ClaudeCodeFormat:
    """A line of a Claude Code transcript: the message with its envelope."""

    name = "claude-code"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        return _is_claude(message)

    def id(self, message: Mapping[str, Any]) -> str | None:
        return _text(message.get("uuid"))

    def role(self, message: Mapping[str, Any]) -> str:
        kind = message.get("type")
        if kind not in ("user", "assistant"):
            return "meta"
        if message.get("isCompactSummary") is True:
            return "summary"
        blocks = list_of(_object(message.get("message")).get("content"))
        if blocks and all(_object(block).get("type") == "tool_result" for block in blocks):
            return "tool"
        return str(kind)

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        if message.get("type") in ("user", "assistant"):
            return _blocks(_object(message.get("message")).get("content"), _claude_block)
        # A prompt that waits in the queue is said again by the entry that it becomes: as text it would be found twice.
        queued = message.get("type") == "queue-operation"
        said = None if queued else message.get("content") or message.get("summary")
        known = _texts(said) if isinstance(said, str) else []
        return known or [_data(str(message.get("type")), dict(message))]

    def metadata(self, message: Mapping[str, Any]) -> Json:
        inner = _object(message.get("message"))
        return {
            **_without(message, "message", "content", "toolUseResult"),
            **_without(inner, "role", "content", "usage"),
        }

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        return _object(_object(message.get("message")).get("usage")) or None

    piecewise = True

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        return _fewer(message, _object(message.get("message")), parts)

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        parts = self.parts(message)
        result = {"type": "tool_result", "content": text, "is_error": True}
        results = [{**result, "tool_use_id": parts[n].get("toolCallId", "")} for n in sorted(calls)]
        envelope = {key: message[key] for key in ("sessionId", "timestamp", "isSidechain") if key in message}
        line = {"type": "user", "parentUuid": message.get("uuid"), **envelope}
        return dict(message), [{**line, "message": {"role": "user", "content": results}}]


class ChatGPTFormat:
    """A node of a ChatGPT conversation's mapping."""

    name = "chatgpt"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        inner = _object(message.get("message"))
        return isinstance(inner.get("author"), dict) and isinstance(inner.get("content"), dict)

    def id(self, message: Mapping[str, Any]) -> str | None:
        return _text(message.get("id"))

    def role(self, message: Mapping[str, Any]) -> str:
        return _text(_object(_object(message.get("message")).get("author")).get("role")) or "meta"

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        inner = _object(message.get("message"))
        content = _object(inner.get("content"))
        author, recipient = _object(inner.get("author")), _text(inner.get("recipient"))
        said = _chatgpt_content(content, inner)
        if author.get("role") == "tool":
            return [result_part(message.get("parent"), merged(said), name=author.get("name"))]
        if author.get("role") == "assistant" and recipient not in (None, "all"):
            return [{**call_part(recipient, message.get("id"), None), "input": merged(said)}]
        return said

    def metadata(self, message: Mapping[str, Any]) -> Json:
        return _object(_object(message.get("message")).get("metadata"))

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        return None

    piecewise = True

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        return None if len(set(parts)) >= len(self.parts(message)) else dict(message)

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        call = self.parts(message)[min(calls)]
        author: Json = {"role": "tool", "name": call.get("toolName"), "metadata": {}}
        inner: Json = {"author": author, "content": {"content_type": "text", "parts": [text]}, "metadata": {}}
        return dict(message), [{"parent": message.get("id"), "message": inner}]


FORMATS: Final[tuple[Format, ...]] = (PiFormat(), ClaudeCodeFormat(), ChatGPTFormat())
"""All of them, as they are registered."""


def _fewer(message: Mapping[str, Any], inner: Json, parts: Collection[int]) -> Json | None:
    """A line without some blocks of its message's content."""
    content = inner.get("content")
    kept = [block for n, block in enumerate(content) if n not in parts] if is_list(content) else None
    return {**message, "message": {**inner, "content": kept}} if kept else None


def _is_claude(message: Mapping[str, Any]) -> bool:
    snapshot = message.get("type") == "file-history-snapshot"
    return isinstance(message.get("type"), str) and (snapshot or any(mark in message for mark in _CLAUDE_MARKS))


def _pi_block(block: Json) -> Json:
    match block.get("type"):
        case "thinking":
            return _reasoning(block.get("thinking"), "pi", _without(block, "type", "thinking"))
        case "toolCall":
            return call_part(block.get("name"), block.get("id"), block.get("arguments"))
        case "image" if isinstance(block.get("data"), str):
            return data_part(block["data"], block.get("mimeType"))
        case _:
            return _text_or_data(block)


def _claude_block(block: Json) -> Json:
    match block.get("type"):
        case "thinking":
            return _reasoning(block.get("thinking"), "anthropic", _without(block, "type", "thinking"))
        case "redacted_thinking":
            return _reasoning("", "anthropic", {"redactedData": block.get("data")})
        case "tool_use":
            return call_part(block.get("name"), block.get("id"), block.get("input"))
        case "server_tool_use" | "mcp_tool_use":
            return openai_chat.provider_call(block)
        case str() as kind if kind.endswith("_tool_result"):
            return openai_chat.provider_result(block)
        case "tool_result":
            output, failed = _output(block.get("content"), _claude_block), block.get("is_error") is True
            return result_part(block.get("tool_use_id"), output, failed=failed)
        case "image" | "document" if (found := openai_chat.sourced(_object(block.get("source")), block)) is not None:
            return found
        case _:
            return _text_or_data(block)


def _chatgpt_content(content: Json, inner: Json) -> list[Json]:
    kind, pieces = content.get("content_type"), content.get("parts")
    if isinstance(pieces, list):
        return [part for piece in list_of(content.get("parts")) for part in _chatgpt_piece(piece, inner)]
    if kind == "thoughts":
        return [_thought(_object(item)) for item in list_of(content.get("thoughts"))]
    if kind == "reasoning_recap":
        return [_reasoning(content.get("content"), "openai", {})]
    said = next((content[key] for key in ("text", "result", "content") if isinstance(content.get(key), str)), None)
    known = _texts(said) if said is not None else []
    return known or [_data(str(kind), content)]


def _thought(thought: Json) -> Json:
    return _reasoning(thought.get("content"), "openai", _without(thought, "content"))


def _chatgpt_piece(piece: object, inner: Json) -> list[Json]:
    if isinstance(piece, str):
        return _texts(piece) if piece else []
    item = _object(piece)
    pointer = item.get("asset_pointer")
    if isinstance(pointer, str):
        kind = str(item.get("content_type"))
        return [url_part(pointer, _chatgpt_type(pointer, inner) or f"{kind.split('_')[0]}/*")]
    if isinstance(item.get("text"), str):
        return _texts(item["text"])
    return [_data(str(item.get("content_type") or "part"), item)]


def _chatgpt_type(pointer: str, inner: Json) -> str | None:
    """The media type that the message's list of attachments gives for the file pointed to."""
    listed = _object(inner.get("metadata")).get("attachments")
    for entry in list_of(listed):
        attachment = _object(entry)
        if isinstance(attachment.get("id"), str) and pointer.endswith(attachment["id"]):
            return _text(attachment.get("mime_type"))
    return None


def _blocks(content: object, reader: Callable[[Json], Json]) -> list[Json]:
    """The parts of a content that is a string or a list of blocks."""
    if isinstance(content, str):
        return [text_part(content)]
    return [text_part(block) if isinstance(block, str) else reader(_object(block)) for block in list_of(content)]


def _texts(text: object) -> list[Json]:
    return [text_part(text)] if isinstance(text, str) else []


def _text_or_data(block: Json) -> Json:
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return text_part(block["text"])
    return _data(str(block.get("type")), block)


def _data(kind: str, data: object) -> Json:
    return {"type": f"data-{kind}", "data": data}


def _reasoning(text: object, provider: str, rest: Json) -> Json:
    part = reasoning_part(text if isinstance(text, str) else "")
    return {**part, "providerMetadata": {provider: rest}} if rest else part


def _output(content: object, reader: Callable[[Json], Json]) -> Any:
    """What a tool gave back: words, parts, or a value as it is."""
    return merged(_blocks(content, reader)) if is_list(content) else content


def _object(value: object) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def _without(value: Mapping[str, Any], *keys: str) -> Json:
    return {key: item for key, item in value.items() if key not in keys}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
