"""Reads LangChain's messages, `langchain`: `{type, data}` as `message_to_dict` writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from plait.formats import native, openai_chat
from plait.logic.shape import is_list, is_object, list_of
from plait.model import Json

_ROLES: Final = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "tool",
    "FunctionMessageChunk": "tool",
    "remove": "meta",
}
_OWN: Final = frozenset({*_ROLES, "chat", "ChatMessageChunk", "sealed"})
_FAMILIES: Final = frozenset({"image", "audio", "video", "file"})


class LangChain:
    """The reader of LangChain's messages."""

    name = "langchain"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        """A `type` that LangChain gives its messages, and `data` that is an object."""
        return message.get("type") in _OWN and is_object(message.get("data"))

    def id(self, message: Mapping[str, Any]) -> str | None:
        """The message's `id`, if it has one that names something."""
        id = _data(message).get("id")
        return id if isinstance(id, str) and id.strip() else None

    def role(self, message: Mapping[str, Any]) -> str:
        """By its type; a chat message says its own; one that is sealed says nothing."""
        kind = message.get("type")
        if kind in ("chat", "ChatMessageChunk"):
            return native.text_of(_data(message).get("role"))
        return _ROLES.get(kind, "meta") if isinstance(kind, str) else "meta"

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        """Content blocks, then calls; the result of a `tool` message is one part."""
        data = _data(message)
        if self.role(message) == "tool":
            return [_result(data)]
        return [*_content(data), *map(_call, _calls(data))]

    def metadata(self, message: Mapping[str, Any]) -> Json:
        """What the provider said of its response."""
        metadata = _data(message).get("response_metadata")
        return metadata if is_object(metadata) else {}

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        """The message's `usage_metadata`, or what its provider said."""
        data = _data(message)
        usage = data.get("usage_metadata")
        return usage if is_object(usage) and usage else native.usage_of({"metadata": self.metadata(message)})

    piecewise = False

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        """The message without those blocks and calls; a `tool` message is nothing without its result."""
        data = _data(message)
        if self.role(message) == "tool":
            return None
        shown, left = len(_content(data)), dict(data)
        if is_list(data.get("content")):
            kept = _places(data)
            left["content"] = [block for n, block in enumerate(data["content"]) if kept.get(n) not in parts]
        elif 0 in parts and shown:
            left["content"] = ""
        at = shown
        for key in ("tool_calls", "invalid_tool_calls"):
            calls = list_of(data.get(key))
            if calls:
                left[key] = [call for n, call in enumerate(calls, at) if n not in parts]
            at += len(calls)
        gone = {**message, "data": left}
        return gone if self.parts(gone) else None

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        """The message, then a failed `tool` message for each call."""
        parts = self.parts(message)
        results: list[Json] = []
        for n in sorted(calls):
            about = {"tool_call_id": parts[n].get("toolCallId", ""), "name": parts[n].get("toolName", "")}
            results.append({"type": "tool", "data": {"content": text, "type": "tool", **about, "status": "error"}})
        return dict(message), results

    def rewritten(
        self, message: Mapping[str, Any], text: Callable[[str], str], output: Callable[[Any], Any]
    ) -> Mapping[str, Any]:
        """The message with the words of its content put through a function, a `tool` message's as output."""
        data = _data(message)
        content = data.get("content")
        if self.role(message) == "tool":
            changed = openai_chat.rewritten_output(content, output)
        else:
            changed = openai_chat.rewritten_content(content, text, output)
        return message if changed is content else {**message, "data": {**data, "content": changed}}


def _data(message: Mapping[str, Any]) -> Json:
    data = message.get("data")
    return data if is_object(data) else {}


def _calls(data: Json) -> list[Json]:
    """Calls, and after them those whose arguments are no JSON object."""
    return [call for key in ("tool_calls", "invalid_tool_calls") for call in list_of(data.get(key)) if is_object(call)]


def _call(call: Json) -> Json:
    return native.call_part(call.get("name"), call.get("id"), call.get("args"))


def _result(data: Json) -> Json:
    content = data.get("content")
    output = native.merged([_block(block) for block in content]) if is_list(content) else content
    return native.result_part(
        data.get("tool_call_id"), output, name=data.get("name"), failed=data.get("status") == "error"
    )


def _content(data: Json) -> list[Json]:
    """The blocks of a content; calls that are blocks, too, are told once, as calls."""
    content = data.get("content")
    if not is_list(content):
        return openai_chat.blocks(content)
    return [_block(content[n]) for n in _places(data)]


def _places(data: Json) -> dict[int, int]:
    """Which blocks of a content are read, by their number in it, and as which part."""
    twice = ("tool_use", "tool_call", "function_call", "tool_call_chunk") if _calls(data) else ()
    read = [n for n, block in enumerate(list_of(data.get("content"))) if not _is(block, twice)]
    return {n: part for part, n in enumerate(read)}


def _is(block: Any, kinds: tuple[str, ...]) -> bool:
    return is_object(block) and block.get("type") in kinds


def _block(block: Any) -> Json:
    """LangChain's own blocks; those of providers as they are read in chat messages."""
    if not is_object(block):
        return openai_chat.block_part(block)
    kind = block.get("type")
    if kind == "reasoning" and isinstance(block.get("reasoning"), str):
        return {**native.reasoning_part(block["reasoning"]), **_signed(block)}
    if kind == "text-plain":
        return native.text_part(native.text_of(block.get("text")))
    if kind in _FAMILIES and isinstance(kind, str) and block.keys() & {"base64", "url", "file_id", "data"}:
        return _file(kind, block)
    return openai_chat.block_part(block)


def _signed(block: Json) -> Json:
    """What must go back with reasoning to the provider whose it is; LangChain's own ids are nobody's."""
    id, extras = native.text_of(block.get("id")), block.get("extras")
    kept = extras if is_object(extras) else {}
    openai = {
        "itemId": id if id.startswith("rs_") else None,
        "reasoningEncryptedContent": kept.get("encrypted_content"),
    }
    own = {"openai": openai, "anthropic": {key: kept.get(key) for key in ("signature", "redactedData")}}
    said = {provider: {key: item for key, item in of.items() if isinstance(item, str)} for provider, of in own.items()}
    found = {provider: of for provider, of in said.items() if of}
    return {"providerMetadata": found} if found else {}


def _file(family: str, block: Json) -> Json:
    fallback = "application/octet-stream" if family == "file" else f"{family}/*"
    declared = native.text_of(block.get("mime_type")) or fallback
    if isinstance(url := block.get("url"), str):
        part = native.url_part(url, declared)
    elif isinstance(id := block.get("file_id"), str):
        part = {"type": "file", "mediaType": declared, "fileId": id}
    else:
        part = native.data_part(block.get("base64", block.get("data")), declared)
    extras = block.get("extras")
    named = extras.get("filename") if is_object(extras) else block.get("filename")
    return {**part, "filename": named} if isinstance(named, str) else part
