"""Reads the items of OpenAI's Responses API, `openai`: messages, calls, their outputs, reasoning."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from plait.formats import native, openai_chat
from plait.logic.shape import is_list, is_object, list_of
from plait.model import Json

_PLACEHOLDER_ID: Final = "__fake_id__"
_KINDS: Final = frozenset({"message", "reasoning", "item_reference", "compaction", "mcp_list_tools"})
_BLOCKS: Final = frozenset({"input_text", "output_text", "input_image", "input_file", "summary_text", "reasoning_text"})
# Where the different calls keep what was asked and what came back, the usual place first.
_INPUTS: Final = ("arguments", "input", "action", "operation", "code", "queries")
_OUTPUTS: Final = ("output", "outputs", "results", "result", "error")
_WRITTEN: Final = ("stdout", "stderr")
# The calls that the application runs and answers; the others run at OpenAI and need no answer.
_OURS: Final = frozenset(
    {"function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call"}
)


class OpenAI:
    """The reader of Responses items."""

    name = "openai"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        """An item's `type`, or a `role` with content blocks that only Responses items have."""
        kind = message.get("type")
        if is_list(message.get("parts")):
            return False
        if kind is None or kind == "message":
            return isinstance(message.get("role"), str) and _has_own_blocks(message.get("content"), kind)
        return isinstance(kind, str) and "role" not in message and _is_kind(kind)

    def id(self, message: Mapping[str, Any]) -> str | None:
        """The item's `id`; not that of an `item_reference` (another item's), nor a placeholder."""
        id = message.get("id")
        if not isinstance(id, str) or not id.strip() or id == _PLACEHOLDER_ID:
            return None
        return None if message.get("type") == "item_reference" else id

    def role(self, message: Mapping[str, Any]) -> str:
        """The `role` where there is one; outputs of tools are `tool`, all else is the `assistant`."""
        role = message.get("role")
        if isinstance(role, str):
            return role
        kind = native.text_of(message.get("type"))
        return "tool" if kind.endswith(("_output", "_response")) else "assistant"

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        """Content blocks of a message; one part for any other item."""
        kind = message.get("type")
        if kind is None or kind == "message":
            return _blocks(message.get("content"))
        return [_item(kind, message) if isinstance(kind, str) else {**message, "type": "unknown"}]

    def metadata(self, message: Mapping[str, Any]) -> Json:
        """The item's own `metadata`, `{}` if there is none."""
        return native.metadata_of(message)

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        """Usage carried beside the content or in the metadata."""
        return native.usage_of(message)

    piecewise = True

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        """A message without those blocks; any other item is one part, and nothing without it."""
        content = message.get("content")
        if message.get("type") not in (None, "message") or not is_list(content):
            return None
        kept = [block for n, block in enumerate(content) if n not in parts]
        return {**message, "content": kept} if kept else None

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        """The call, then its output item; a screenshot or a shell's outcome cannot be made up."""
        kind, id = message.get("type"), message.get("call_id") or message.get("id")
        match kind:
            case "function_call" | "custom_tool_call":
                item = {"type": f"{kind}_output", "call_id": id, "output": text}
            case "local_shell_call":
                item = {"type": f"{kind}_output", "id": id, "call_id": id, "output": text, "status": "incomplete"}
            case "apply_patch_call":
                item = {"type": f"{kind}_output", "call_id": id, "status": "failed", "output": text}
            case _:
                return None
        return dict(message), [item]

    def rewritten(
        self, message: Mapping[str, Any], text: Callable[[str], str], output: Callable[[Any], Any]
    ) -> Mapping[str, Any]:
        """A message with its words put through a function, or an output item with its output."""
        kind = native.text_of(message.get("type"))
        if kind == "shell_call_output":
            return _rewritten_shell(message, output)
        if kind.endswith("_call_output"):
            old = message.get("output")
            new = openai_chat.rewritten_output(old, output, words="input_text")
            return message if new is old else {**message, "output": new}
        if kind not in ("", "message"):
            return message
        changed = openai_chat.rewritten_content(message.get("content"), text, output)
        return message if changed is message.get("content") else {**message, "content": changed}


def _rewritten_shell(message: Mapping[str, Any], output: Callable[[Any], Any]) -> Mapping[str, Any]:
    """What the commands of a shell wrote, put through a function as one text after another."""
    chunks = list_of(message.get("output"))
    places = [(n, key) for n, chunk in enumerate(chunks) if is_object(chunk) for key in _WRITTEN if chunk.get(key)]
    words = [native.text_part(native.text_of(chunks[n][key])) for n, key in places]
    short = output(words)
    if short is words:
        return message
    texts = [native.text_of(block.get("text")) for block in _objects(short)] + [""] * len(places)
    changed = [dict(chunk) if is_object(chunk) else chunk for chunk in chunks]
    for (n, key), new in zip(places, texts, strict=False):  # what is left out is said in the last text
        changed[n][key] = new
    return {**message, "output": changed}


def _is_kind(kind: str) -> bool:
    return kind in _KINDS or kind.endswith(("_call", "_call_output")) or kind.startswith("mcp_approval_")


def _has_own_blocks(content: object, kind: object) -> bool:
    """Whether this content is a Responses message's; a bare `{role, content: "text"}` is chat."""
    if is_list(content) and content:
        own = _BLOCKS | {"refusal"} if kind == "message" else _BLOCKS
        return any(is_object(block) and block.get("type") in own for block in content)
    return kind == "message" and isinstance(content, str | list)


def _item(kind: str, item: Mapping[str, Any]) -> Json:
    if kind == "reasoning":
        return _reasoning(item)
    if kind.endswith("_call_output"):
        return native.result_part(item.get("call_id"), _output(item.get("output")), name=item.get("name"))
    if kind.endswith("_call"):
        return _call(kind, item)
    return dict(item)


def _call(kind: str, item: Mapping[str, Any]) -> Json:
    """A call; those that OpenAI runs itself carry their result with them."""
    name = item.get("name") or kind.removesuffix("_call")
    part = native.call_part(name, item.get("call_id") or item.get("id"), _first(item, _INPUTS))
    output = _first(item, _OUTPUTS)
    if kind not in _OURS:
        part = {**part, "providerExecuted": True, "state": "output-available"}
    if output is None:
        return part
    if kind == "image_generation_call":
        output = [native.data_part(output, f"image/{item.get('output_format') or 'png'}")]
    return {**part, "state": "output-available", "output": _output(output)}


def _first(item: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((item[key] for key in keys if item.get(key) is not None), None)


def _output(output: Any) -> Any:
    if is_list(output):
        return native.merged(_blocks(output))
    if is_object(output) and "image_url" in output:  # a screenshot
        return [block_part(output)]
    return output


def _reasoning(item: Mapping[str, Any]) -> Json:
    words = [native.text_of(block.get("text")) for key in ("summary", "content") for block in _objects(item.get(key))]
    part = native.reasoning_part("\n\n".join(words))
    own = {"itemId": item.get("id"), "reasoningEncryptedContent": item.get("encrypted_content")}
    kept = {key: value for key, value in own.items() if isinstance(value, str)}
    return {**part, "providerMetadata": {"openai": kept}} if kept else part


def _objects(value: object) -> list[Json]:
    return [entry for entry in value if is_object(entry)] if is_list(value) else []


def _blocks(content: object) -> list[Json]:
    return [block_part(block) for block in content] if is_list(content) else openai_chat.blocks(content)


def block_part(block: Any) -> Json:
    """The native part of one content block of an item."""
    if not is_object(block):
        return openai_chat.block_part(block)
    match block.get("type"):
        case "input_text" | "output_text" | "summary_text" | "reasoning_text":
            return native.text_part(native.text_of(block.get("text")))
        case "input_image" | "computer_screenshot":
            return _image(block)
        case "input_file":
            return openai_chat.file_part(block)
        case _:
            return openai_chat.block_part(block)


def _image(block: Json) -> Json:
    url = block.get("image_url")
    if isinstance(url, str):
        return native.url_part(url, "image/*")
    if url is not None:  # an attachment put ahead
        return {"type": "file", "mediaType": getattr(url, "media_type", "image/*"), "url": url}
    return {"type": "file", "mediaType": "image/*", "fileId": native.text_of(block.get("file_id"))}
