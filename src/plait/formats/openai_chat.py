"""Reads `{role, content}` chat messages, `openai-chat`, as OpenAI's and most other APIs take them.

The content blocks of Anthropic's API (`tool_use`, `tool_result`, `thinking`, `image`, `document`) and the
fields that gateways add (`reasoning_content`) are read too, because clients mix them in under the same two keys.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from plait import jsontext
from plait.formats import native
from plait.logic.shape import is_list, is_object
from plait.model import Json

_BODY_KEYS: Final = ("content", "tool_calls", "function_call", "refusal", "audio")
_RESULT_ROLES: Final = ("tool", "function")


class OpenAIChat:
    """The reader of chat messages."""

    name = "openai-chat"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        """`role` is text, `content` text, a list or null (or absent beside `tool_calls` and the like)."""
        if not isinstance(message.get("role"), str) or is_list(message.get("parts")):
            return False
        content = message.get("content")
        return (content is None or isinstance(content, str | list)) and any(key in message for key in _BODY_KEYS)

    def id(self, message: Mapping[str, Any]) -> str | None:
        """The `id`, if it is text and not blank."""
        id = message.get("id")
        return id if isinstance(id, str) and id.strip() else None

    def role(self, message: Mapping[str, Any]) -> str:
        """The `role` as it is."""
        return native.text_of(message.get("role"))

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        """Reasoning, content, refusal, audio, then calls; a `tool` message is one result."""
        if message.get("role") in _RESULT_ROLES:
            call_id = message.get("tool_call_id") or message.get("name")
            return [native.result_part(call_id, _output(message.get("content")), name=message.get("name"))]
        return [*_thoughts(message), *blocks(message.get("content")), *_extras(message), *_calls(message)]

    def metadata(self, message: Mapping[str, Any]) -> Json:
        """The message's own `metadata`, `{}` if there is none."""
        return native.metadata_of(message)

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        """Usage carried beside the content or in the metadata."""
        return native.usage_of(message)

    piecewise = False

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        """The message without those content blocks and calls; a `tool` message is nothing without its result."""
        if message.get("role") in _RESULT_ROLES:
            return None
        at, kept, content = len(_thoughts(message)), dict(message), message.get("content")
        if is_list(content):
            kept["content"] = [block for n, block in enumerate(content, at) if n not in parts]
        at += len(blocks(content)) + len(_extras(message))
        calls = list(_numbered_calls(message, at))
        if any(n in parts for n, _ in calls):
            kept.pop("tool_calls", None)
            if left := [call for n, call in calls if n not in parts]:
                kept["tool_calls"] = left
        if "function_call" in message and at + len(calls) in parts:
            del kept["function_call"]
        return kept if self.parts(kept) else None

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        """The message, then a `tool` message for each call, or one of blocks where it calls in blocks."""
        parts = self.parts(message)
        inline = len(_thoughts(message)) + len(blocks(message.get("content")))
        results: list[Json] = []
        following: list[Json] = []
        for n in sorted(calls):
            id = native.text_of(parts[n].get("toolCallId"))
            if n < inline:
                results.append({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": True})
            elif is_object(message.get("function_call")) and n == len(parts) - 1:
                following.append({"role": "function", "name": id, "content": text})
            else:
                following.append({"role": "tool", "tool_call_id": id, "content": text})
        return dict(message), [{"role": "user", "content": results}, *following] if results else following

    def rewritten(
        self, message: Mapping[str, Any], text: Callable[[str], str], output: Callable[[Any], Any]
    ) -> Mapping[str, Any]:
        """The message with the words of its content put through a function, a `tool` message's as output."""
        content = message.get("content")
        results = message.get("role") in _RESULT_ROLES
        changed = rewritten_output(content, output) if results else rewritten_content(content, text, output)
        return message if changed is content else {**message, "content": changed}


def _numbered_calls(message: Mapping[str, Any], at: int) -> Iterator[tuple[int, Json]]:
    calls = message.get("tool_calls")
    return enumerate((call for call in calls if is_object(call)), at) if is_list(calls) else iter(())


def rewritten_content(content: Any, text: Callable[[str], Any], output: Callable[[Any], Any]) -> Any:
    """A `content` with its words put through one function, and each tool result in it through another."""
    if isinstance(content, str):
        return text(content)
    if not is_list(content):
        return content
    changed = [_rewritten_block(block, text, output) for block in content]
    return content if all(map(operator.is_, changed, content)) else changed


def rewritten_output(content: Any, output: Callable[[Any], Any], *, words: str = "text") -> Any:
    """What a tool gave back put through a function as one: a text, or blocks which stay blocks (`words`: of text)."""
    if isinstance(content, str):
        return output(content)
    if not is_list(content):
        return content
    changed = output(content)
    if changed is content or not is_list(changed):
        return changed
    return [_as_block(item, words) for item in changed]


def _as_block(item: Any, words: str) -> Any:
    if is_object(item) and isinstance(item.get("type"), str) and "__truncated" not in item:
        return item
    return {"type": words, "text": item if isinstance(item, str) else jsontext.encode(item)}


def _rewritten_block(block: Any, text: Callable[[str], Any], output: Callable[[Any], Any]) -> Any:
    if not is_object(block):
        return block
    if block.get("type") == "tool_result":
        key, old = "content", block.get("content")
        new = rewritten_output(old, output)
    else:
        key, old = "text", block.get("text")
        new = text(old) if isinstance(old, str) else old
    return block if new is old else {**block, key: new}


def blocks(content: object) -> list[Json]:
    """The native parts of a chat message's `content`: text, a list of blocks, or nothing."""
    if isinstance(content, str):
        return [native.text_part(content)] if content else []
    if not is_list(content):
        return []
    return [block_part(block) for block in content]


def block_part(block: Any) -> Json:
    """The native part of one content block; a block of no known type stays as it is."""
    if isinstance(block, str):
        return native.text_part(block)
    if not is_object(block):
        return {"type": "unknown", "value": block}
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            return native.text_part(block["text"])
        case "refusal":
            return _refusal(block.get("refusal"))
        case "image_url":
            return _image_url(block)
        case "input_audio" if is_object(audio := block.get("input_audio")):
            return native.data_part(audio.get("data"), _audio_type(audio.get("format")))
        case "file" if is_object(file := block.get("file")):
            return file_part(file)
        case "image" | "document" if is_object(source := block.get("source")):
            return sourced(source, block) or block
        case "thinking":
            return {**native.reasoning_part(native.text_of(block.get("thinking"))), **_signed("signature", block)}
        case "redacted_thinking":
            return {**native.reasoning_part(""), **_signed("redactedData", {"redactedData": block.get("data")})}
        case "tool_use":
            return native.call_part(block.get("name"), block.get("id"), block.get("input"))
        case "tool_result":
            output = _output(block.get("content"))
            return native.result_part(block.get("tool_use_id"), output, failed=block.get("is_error") is True)
        case "server_tool_use" | "mcp_tool_use":
            return provider_call(block)
        case str() as kind if kind.endswith("_tool_result"):
            return provider_result(block)
        case str():
            return block
        case _:
            return {**block, "type": "unknown"}


def provider_call(block: Json) -> Json:
    """A call that Anthropic ran itself (`server_tool_use`, `mcp_tool_use`)."""
    return native.by_provider(native.call_part(block.get("name"), block.get("id"), block.get("input")))


def provider_result(block: Json) -> Json:
    """What Anthropic got by one (`web_search_tool_result` and the like): words of a server's, else the value as it is."""
    content = block.get("content")
    output = _output(content) if block.get("type") == "mcp_tool_result" else content
    kind = content.get("type") if is_object(content) else None
    failed = block.get("is_error") is True or (isinstance(kind, str) and kind.endswith("_error"))
    return native.by_provider(native.result_part(block.get("tool_use_id"), output, failed=failed))


def _output(content: object) -> Any:
    return native.merged(blocks(content)) if is_list(content) else content


def _thoughts(message: Mapping[str, Any]) -> list[Json]:
    for key in ("reasoning_content", "reasoning"):
        text = message.get(key)
        if isinstance(text, str) and text:
            return [native.reasoning_part(text)]
    return []


def _extras(message: Mapping[str, Any]) -> list[Json]:
    """A refusal or spoken answer, which stand beside the content."""
    parts: list[Json] = []
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        parts.append(_refusal(refusal))
    if is_object(audio := message.get("audio")):
        if isinstance(words := audio.get("transcript"), str) and words:
            parts.append(native.text_part(words))
        if isinstance(data := audio.get("data"), str):
            parts.append(native.data_part(data, "audio/*"))
    return parts


def _calls(message: Mapping[str, Any]) -> list[Json]:
    calls = message.get("tool_calls")
    parts = [_call(call) for call in calls if is_object(call)] if is_list(calls) else []
    if is_object(legacy := message.get("function_call")):
        # It has no id; its result, a `function` message, names the function.
        parts.append(native.call_part(legacy.get("name"), legacy.get("name"), legacy.get("arguments")))
    return parts


def _call(call: Json) -> Json:
    for kind, arguments in (("function", "arguments"), ("custom", "input")):
        if is_object(inner := call.get(kind)):
            return native.call_part(inner.get("name"), call.get("id"), inner.get(arguments))
    return native.call_part(call.get("name"), call.get("id"), call.get("arguments", call.get("args")))


def _refusal(text: object) -> Json:
    return {**native.text_part(native.text_of(text)), "refusal": True}


def _image_url(block: Json) -> Json:
    image = block.get("image_url")
    url = image.get("url") if is_object(image) else image
    return native.url_part(url, "image/*") if isinstance(url, str) else block


def file_part(file: Json) -> Json:
    """A file as OpenAI describes it: `file_data` (data URL or base64), `file_url` or `file_id`."""
    data = file.get("file_data")
    if isinstance(data, str) and not data.startswith("data:"):
        part = native.data_part(data, None)
    elif isinstance(url := data if data is not None else file.get("file_url"), str):
        part = native.url_part(url, "application/octet-stream")
    elif data is not None:  # an attachment put ahead
        part = native.data_part(data, getattr(data, "media_type", None))
    else:
        part = {"type": "file", "mediaType": "application/octet-stream", "fileId": native.text_of(file.get("file_id"))}
    return {**part, "filename": file["filename"]} if isinstance(file.get("filename"), str) else part


def sourced(source: Json, block: Json) -> Json | None:
    """Media, or a document's words, as Anthropic describes it; `None` if the source is none of its."""
    kind, fallback = source.get("type"), "image/*" if block.get("type") == "image" else "application/pdf"
    if kind == "text" and isinstance(words := source.get("data"), str):
        return native.text_part(words)
    if kind == "content" and isinstance(words := _output(source.get("content")), str):
        return native.text_part(words)
    if isinstance(url := source.get("url"), str):
        part = native.url_part(url, fallback)
    elif isinstance(id := source.get("file_id"), str):
        part = {"type": "file", "mediaType": fallback, "fileId": id}
    elif source.get("data") is not None:
        part = native.data_part(source.get("data"), source.get("media_type"))
    else:
        return None
    return {**part, "filename": block["title"]} if isinstance(block.get("title"), str) else part


def _signed(key: str, holder: Json) -> Json:
    value = holder.get(key)
    return {"providerMetadata": {"anthropic": {key: value}}} if isinstance(value, str) else {}


def _audio_type(format: object) -> str:
    return {"mp3": "audio/mpeg"}.get(format, f"audio/{format}") if isinstance(format, str) else "audio/*"
