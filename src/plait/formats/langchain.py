"""Reads LangChain's messages, `langchain`: `{type, data}` as `message_to_dict` writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from plait.formats import native, openai, openai_chat
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
SIGNATURES: Final = "__gemini_function_call_thought_signatures__"
"""Where LangChain's models of Google keep what goes back to it with a call, by the call's id."""

SIGNATURE: Final = "thoughtSignature"
_FAMILIES: Final = frozenset({"image", "audio", "video", "file", "text-plain"})
_PLACES: Final = frozenset({"base64", "url", "file_id", "data", "source_type"})
_ITEMS: Final = ("input_text", "output_text", "input_image", "input_file")
_BEDROCK: Final = ("image", "document", "video")
_FALLBACK: Final = {"file": "application/octet-stream", "text-plain": "text/plain"}
_DOCUMENTS: Final = {"txt": "text/plain", "md": "text/markdown", "html": "text/html", "csv": "text/csv"}


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
        signed = _signatures(data)
        return [*_content(data), *(_call(call, signed) for call in _calls(data))]

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


def _call(call: Json, signed: Json) -> Json:
    part, id = native.call_part(call.get("name"), call.get("id"), call.get("args")), call.get("id")
    signature = signed.get(id) if isinstance(id, str) else None
    return {**part, "callProviderMetadata": {"google": {SIGNATURE: signature}}} if signature else part


def _signatures(data: Json) -> Json:
    kept = data.get("additional_kwargs")
    signatures = kept.get(SIGNATURES) if is_object(kept) else None
    return signatures if is_object(signatures) else {}


def _is_googles(data: Json) -> bool:
    """Whether a model of Google's said it, by LangChain's word."""
    said = data.get("response_metadata")
    return is_object(said) and native.text_of(said.get("model_provider")).startswith("google")


def _googles(block: Any, part: Json) -> Json:
    """A part that has Google's signature; LangChain keeps it under the same name as Anthropic's."""
    extras = block.get("extras") if is_object(block) else None
    holder = extras if is_object(extras) else block
    signature = holder.get("signature") if is_object(holder) else None
    return {**part, "providerMetadata": {"google": {SIGNATURE: signature}}} if isinstance(signature, str) else part


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
    read = [(content[n], _block(content[n])) for n in _places(data)]
    return [_googles(block, part) for block, part in read] if _is_googles(data) else [part for _, part in read]


def _places(data: Json) -> dict[int, int]:
    """Which blocks of a content are read, by their number in it, and as which part."""
    twice = ("tool_use", "tool_call", "function_call", "tool_call_chunk") if _calls(data) else ()
    read = [n for n, block in enumerate(list_of(data.get("content"))) if not _is(block, twice)]
    return {n: part for part, n in enumerate(read)}


def _is(block: Any, kinds: tuple[str, ...]) -> bool:
    return is_object(block) and block.get("type") in kinds


def _block(block: Any) -> Json:
    """LangChain's own blocks, of today and before its version 1; those of providers as they are read in chat messages."""
    while is_object(block) and block.get("type") == "non_standard" and is_object(block.get("value")):
        block = block["value"]
    if not is_object(block):
        return openai_chat.block_part(block)
    kind = block.get("type")
    if kind == "reasoning" and isinstance(block.get("reasoning"), str):
        return {**native.reasoning_part(block["reasoning"]), **_signed(block)}
    if kind == "server_tool_call":
        return native.by_provider(native.call_part(block.get("name"), block.get("id"), block.get("args")))
    if kind == "server_tool_result":
        failed = block.get("status") == "error"
        result = native.result_part(block.get("tool_call_id"), block.get("output"), failed=failed)
        return native.by_provider(result)
    if (found := _media(block)) is not None:
        return found
    if kind in _ITEMS:
        return openai.block_part(block)
    return openai_chat.block_part(block)


def _media(block: Json) -> Json | None:
    """A file, or a file's words, in any of the shapes that LangChain and its providers give it."""
    kind = block.get("type")
    if kind == "text-plain" or block.get("source_type") == "text":
        words = block.get("text", block.get("data", block.get("url")) if "source_type" in block else None)
        if isinstance(words, str):
            return native.text_part(words)
    if kind in ("media", "file_data"):  # Google's
        return _file(native.text_of(block.get("mime_type")).partition("/")[0] or "file", block)
    if isinstance(kind, str) and kind in _FAMILIES and block.keys() & _PLACES:
        return _file(kind, block)
    return _of_bedrock(block)


def _of_bedrock(block: Json) -> Json | None:
    """A file as the Converse API has it, under the name of its kind."""
    family = next((family for family in _BEDROCK if is_object(block.get(family))), None)
    if family is None:
        return None
    file = block[family]
    source, format = file.get("source"), native.text_of(file.get("format"))
    if not is_object(source):
        return None
    if isinstance(source.get("text"), str):
        return native.text_part(source["text"])
    media_type = (
        f"{family}/{format or '*'}" if family != "document" else _DOCUMENTS.get(format, f"application/{format}")
    )
    place = source.get("s3Location", source.get("s3_location"))
    if is_object(place) and isinstance(place.get("uri"), str):
        part = native.url_part(place["uri"], media_type)
    else:
        part = native.data_part(source.get("bytes"), media_type)
    return {**part, "filename": file["name"]} if isinstance(file.get("name"), str) else part


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
    fallback = _FALLBACK.get(family, f"{family}/*")
    declared = native.text_of(block.get("mime_type")) or fallback
    id = block.get("id") if block.get("source_type") == "id" else block.get("file_id")
    if isinstance(url := block.get("url", block.get("file_uri")), str):
        part = native.url_part(url, declared)
    elif isinstance(id, str):
        part = {"type": "file", "mediaType": declared, "fileId": id}
    else:
        part = native.data_part(native.standard_base64(block.get("base64", block.get("data"))), declared)
    names = [
        holder.get(key)
        for holder in (block.get("extras"), block.get("metadata"), block)
        if is_object(holder)
        for key in ("filename", "name")
    ]
    named = next((name for name in names if isinstance(name, str)), None)
    return part if named is None else {**part, "filename": named}
