"""Reads Pydantic AI's messages, `pydantic-ai`: requests and responses as `ModelMessagesTypeAdapter` writes them.

What parts there are grows with each of its releases: one that is not known here is kept like all
others and read as nothing that a model says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from plait.formats import native
from plait.logic.shape import is_list, is_object, list_of
from plait.model import Json

_CALLS: Final = ("tool-call", "builtin-tool-call")
_RETURNS: Final = ("tool-return", "builtin-tool-return")
_PROVIDERS: Final = {
    "openai": ("itemId", "reasoningEncryptedContent"),
    "anthropic": ("id", "signature"),
    "google": ("id", "thoughtSignature"),
}


class PydanticAI:
    """The reader of Pydantic AI's messages."""

    name = "pydantic-ai"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        """`kind` is `request` or `response`, and each part has a `part_kind`."""
        parts = message.get("parts")
        if message.get("kind") not in ("request", "response") or not is_list(parts):
            return False
        return all(is_object(part) and isinstance(part.get("part_kind"), str) for part in parts)

    def id(self, message: Mapping[str, Any]) -> str | None:
        """None: neither requests nor responses have ids of their own."""
        return None

    def role(self, message: Mapping[str, Any]) -> str:
        """A response is the assistant's; a request is the user's if anything in it is, else `tool` or `system`."""
        if message.get("kind") == "response":
            return "assistant"
        kinds = {part.get("part_kind") for part in _parts(message)}
        if kinds & {"user-prompt", "speech", "retry-feedback"} or _is_feedback(message):
            return "user"
        if kinds & {"tool-return", "retry-prompt"}:
            return "tool"
        return "system" if kinds & {"system-prompt", "instruction"} else "meta"

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        """Every part in its order, a prompt of several things as several; a system's beside a user's as data."""
        alone = self.role(message) == "system"
        return [found for part in _parts(message) for found in _read(part, alone)]

    def metadata(self, message: Mapping[str, Any]) -> Json:
        """The message's own `metadata`, `{}` if there is none."""
        return native.metadata_of(message)

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        """A response's usage, if it used anything."""
        usage = message.get("usage")
        return usage if is_object(usage) and any(usage.values()) else None

    piecewise = False

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        """The message without the parts (and things of a prompt) that are read as those."""
        kept: list[Json] = []
        at, alone = 0, self.role(message) == "system"
        for part in _parts(message):
            read = len(_read(part, alone))
            gone = {n - at for n in parts if at <= n < at + read}
            at += read
            if not gone:
                kept.append(part)
            elif len(gone) < read and is_list(part.get("content")):
                kept.append({**part, "content": [item for n, item in enumerate(part["content"]) if n not in gone]})
        return {**message, "parts": kept} if kept else None

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        """The response, then a request with a failed return for each call."""
        parts = self.parts(message)
        returns = [
            {
                "part_kind": "tool-return",
                "tool_name": parts[n].get("toolName", ""),
                "tool_call_id": parts[n].get("toolCallId", ""),
                "content": text,
                "outcome": "failed",
                "timestamp": message.get("timestamp"),
            }
            for n in sorted(calls)
        ]
        returns = [{key: item for key, item in part.items() if item is not None} for part in returns]
        return dict(message), [{"kind": "request", "parts": returns}]

    def rewritten(
        self, message: Mapping[str, Any], text: Callable[[str], str], output: Callable[[Any], Any]
    ) -> Mapping[str, Any]:
        """The message with the words of prompts and replies and the tools' returns put through the functions."""
        parts = _parts(message)
        changed = [_rewritten(part, text, output) for part in parts]
        if all(new is old for new, old in zip(changed, parts, strict=True)):
            return message
        return {**message, "parts": changed}


def _parts(message: Mapping[str, Any]) -> list[Json]:
    return [part for part in list_of(message.get("parts")) if is_object(part)]


def _is_feedback(message: Mapping[str, Any]) -> bool:
    """Whether a request asks to try again for no tool's sake: a model reads that as the user's."""
    return any(part.get("part_kind") == "retry-prompt" and not part.get("tool_name") for part in _parts(message))


def _read(part: Json, alone: bool) -> list[Json]:
    """The native parts of a part; a system's prompt is words only in a message `alone` with such."""
    match part.get("part_kind"):
        case "system-prompt" | "instruction" if not alone:
            return [{"type": "data-system-prompt", "data": part}]
        case "text" | "system-prompt" | "instruction":
            return [{**native.text_part(native.text_of(part.get("content"))), **_signed(part, "providerMetadata")}]
        case "user-prompt":
            return _content(part.get("content"))
        case "thinking":
            return [_thought(part)]
        case "file":
            return [_file(part.get("content"))]
        case "tool-call" | "builtin-tool-call" as kind:
            return [_call(kind, part)]
        case "tool-return":
            return [_return(part)]
        case "builtin-tool-return":
            return [native.by_provider(_return(part))]
        case "retry-prompt":
            return [_retry(part)]
        case "retry-feedback":
            return [native.text_part(_complaint(part.get("content")))]
        case "speech" if isinstance(words := part.get("transcript"), str):
            return [native.text_part(words)]
        case "compaction" if isinstance(words := part.get("content"), str):
            return [native.text_part(words)]
        case kind:
            return [{"type": f"data-{kind}", "data": part}]


def _content(content: Any) -> list[Json]:
    """What a user's prompt, or a tool's return, holds."""
    items = content if is_list(content) else [content]
    return [_item(item) for item in items]


def _item(item: Any) -> Json:
    if isinstance(item, str):
        return native.text_part(item)
    if is_object(item):
        match item.get("kind"):
            case "text-content" | "structured-content" if isinstance(item.get("content"), str):
                return native.text_part(item["content"])
            case "binary" | "image-url" | "audio-url" | "video-url" | "document-url" | "uploaded-file":
                return _file(item)
            case str() as kind:
                return {"type": f"data-{kind}", "data": item}
            case _:
                pass
    return {"type": "data-content", "data": item}


def _file(item: Any) -> Json:
    """A file as Pydantic AI has it: bytes in base64 of URLs' alphabet, a URL, or a provider's id."""
    if not is_object(item):
        return {"type": "data-file", "data": item}
    kind, declared = native.text_of(item.get("kind")), native.text_of(item.get("media_type"))
    if kind == "binary":
        return native.data_part(native.standard_base64(item.get("data")), declared)
    if kind == "uploaded-file":
        media_type = declared or "application/octet-stream"
        return {"type": "file", "mediaType": media_type, "fileId": native.text_of(item.get("file_id"))}
    family = kind.removesuffix("-url")
    fallback = "application/octet-stream" if family == "document" else f"{family}/*"
    return native.url_part(native.text_of(item.get("url")), declared or fallback)


def _thought(part: Json) -> Json:
    thought = native.reasoning_part(native.text_of(part.get("content")))
    provider = native.text_of(part.get("provider_name"))
    id, signature = _PROVIDERS.get(provider, ("id", "signature"))
    own = {id: part.get("id"), signature: part.get("signature")}
    kept = {key: item for key, item in own.items() if isinstance(item, str)}
    signed = _signed(part, "providerMetadata")
    return {**thought, **({"providerMetadata": {provider: kept}} if provider and kept else {}), **signed}


def _call(kind: str, part: Json) -> Json:
    call = native.call_part(part.get("tool_name"), part.get("tool_call_id"), part.get("args"))
    call.update(_signed(part, "callProviderMetadata"))
    return native.by_provider(call) if kind == "builtin-tool-call" else call


def _signed(part: Json, key: str) -> Json:
    """Google's signature, which Pydantic AI keeps beside a part, for native metadata under `key`."""
    details = part.get("provider_details")
    signature = details.get("thought_signature") if is_object(details) else None
    return {key: {"google": {"thoughtSignature": signature}}} if isinstance(signature, str) else {}


def _return(part: Json) -> Json:
    content, outcome = part.get("content"), part.get("outcome")
    output = native.merged(_content(content)) if _holds_media(content) else content
    failed = outcome in ("failed", "denied", "interrupted")
    return native.result_part(part.get("tool_call_id"), output, name=part.get("tool_name"), failed=failed)


def _holds_media(content: Any) -> bool:
    items = content if is_list(content) else [content]
    kinds = [item.get("kind") if is_object(item) else None for item in items]
    return any(isinstance(kind, str) and (kind == "binary" or kind.endswith(("-url", "-file"))) for kind in kinds)


def _retry(part: Json) -> Json:
    """What asks a model to try again: a tool's answer, or words to it where no tool is named."""
    text = _complaint(part.get("content"))
    if not isinstance(part.get("tool_name"), str):
        return native.text_part(text)
    return native.result_part(part.get("tool_call_id"), text, name=part["tool_name"], failed=True)


def _complaint(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(native.text_of(error.get("msg")) for error in list_of(content) if is_object(error))


def _rewritten(part: Json, text: Callable[[str], str], output: Callable[[Any], Any]) -> Json:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "tool-return" and content is not None:
        changed = output(content)
    elif kind == "retry-prompt" and isinstance(part.get("tool_name"), str) and content is not None:
        changed = output(content)
        if changed is not content and not isinstance(content, str):  # its errors have a shape of their own
            changed = output(_complaint(content))
    elif kind in ("text", "user-prompt", "system-prompt") and isinstance(content, str):
        changed = text(content)
    elif kind == "user-prompt" and is_list(content):
        changed = [text(item) if isinstance(item, str) else item for item in content]
        changed = content if all(new is old for new, old in zip(changed, content, strict=True)) else changed
    else:
        return part
    return part if changed is content else {**part, "content": changed}
