"""Reads native messages, `plait`: AI SDK UI messages, `{role, parts: [{type, …}, …]}`.

Native parts are what every other reader answers with and every writer of another format begins from, so
the shapes and the helpers they share are here:

- `{"type": "text", "text"}` and `{"type": "reasoning", "text"}`
- `{"type": "file", "mediaType", "url"}`, or `data` (bare base64) in place of `url`, or neither where
  a provider keeps the file (`fileId`); with a `filename` if there is one
- `{"type": "dynamic-tool", "toolName", "toolCallId", "state", "input"}` for a call, `state` being
  `input-available`; with `output` too where call and result stand together (`output-available`)
- `{"type": "dynamic-tool", "toolCallId", "state", "output"}`, without `input`, for a result whose call
  is in another message: pair them by `toolCallId`. A failed one has `state: "output-error"` and `errorText`.
  `output` is text, any JSON value, or native parts where it holds media (`merged` makes that of parts)
- `providerExecuted: true` on a call that the provider ran itself, which nobody here has to answer, and on its result
- `providerMetadata: {provider: {…}}` for what must go back to that provider as it came: signatures, item ids
- anything else as it is, under its own `type`
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from plait import jsontext
from plait.logic.markers import STANDARD
from plait.logic.shape import is_list, is_object
from plait.model import Format, Json

_USAGE_KEYS: Final = ("usage", "totalUsage", "usage_metadata", "usageMetadata", "token_usage", "tokenUsage")
_USAGE_PLACES: Final = ("metadata", "response_metadata")


class Native:
    """The reader of plait's own messages."""

    name = "plait"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        """`role` is text and `parts` a list in which each part has a `type`."""
        parts = message.get("parts")
        if not is_list(parts) or not isinstance(message.get("role"), str):
            return False
        return all(is_object(part) and isinstance(part.get("type"), str) for part in parts)

    def id(self, message: Mapping[str, Any]) -> str | None:
        """The `id`, as it is, if it is text."""
        return text_or_none(message.get("id"))

    def role(self, message: Mapping[str, Any]) -> str:
        """The `role` as it is."""
        return text_of(message.get("role"))

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        """The message's own list."""
        parts = message.get("parts")
        return parts if is_list(parts) else []

    def metadata(self, message: Mapping[str, Any]) -> Json:
        """The message's own `metadata`, `{}` if it is not an object."""
        return metadata_of(message)

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        """Usage carried in the metadata or beside it."""
        return usage_of(message)

    piecewise = False

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        """The message with those parts gone from its list."""
        kept = [part for n, part in enumerate(self.parts(message)) if n not in parts]
        return {**message, "parts": kept} if kept else None

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        """Each call with its failure in the same part, as the AI SDK has it; a `tool-call` has one apart."""
        parts, results = list(self.parts(message)), list[Json]()
        for n in sorted(calls):
            part = parts[n]
            if part.get("type") == "tool-call":
                results.append({"type": "tool-result", **_named(part), "output": {"type": "error-text", "value": text}})
            else:
                parts[n] = {"input": {}, **part, "state": "output-error", "errorText": text}
        more: list[Json] = [{"role": "tool", "parts": results}] if results else []
        return {**message, "parts": parts}, more

    def rewritten(
        self, message: Mapping[str, Any], text: Callable[[str], str], output: Callable[[Any], Any]
    ) -> Mapping[str, Any]:
        """The message with its text parts and tool outputs put through the functions."""
        parts = self.parts(message)
        changed = rewritten_parts(parts, text, output)
        return message if changed is parts else {**message, "parts": changed}


def _named(part: Json) -> Json:
    return {key: part[key] for key in ("toolCallId", "toolName") if key in part}


def rewritten_parts(parts: list[Json], text: Callable[[str], str], output: Callable[[Any], Any]) -> list[Json]:
    """The parts with texts and tool outputs put through functions; the same list if none changes.

    What a provider ran itself stays as it is: it must be sent back as it came.
    """
    changed = [_rewritten(part, text, output) for part in parts]
    return parts if all(map(operator.is_, changed, parts)) else changed


def _rewritten(part: Json, text: Callable[[str], str], output: Callable[[Any], Any]) -> Json:
    kind = part.get("type")
    if kind == "text" and isinstance(words := part.get("text"), str):
        return _with(part, "text", text(words))
    tool = isinstance(kind, str) and (kind == "dynamic-tool" or kind.startswith("tool-"))
    if not tool or part.get("providerExecuted") is True:
        return part
    key = next((key for key in ("output", "result", "errorText") if part.get(key) is not None), None)
    return part if key is None else _with(part, key, output(part[key]))


def _with(part: Json, key: str, value: Any) -> Json:
    return part if value is part[key] else {**part, key: value}


FORMAT: Final[Format] = Native()
"""The native format, the one object that stands for it."""


def text_of(value: object) -> str:
    """`value` if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def text_or_none(value: object) -> str | None:
    """`value` if it is text, else `None`."""
    return value if isinstance(value, str) else None


def metadata_of(message: Mapping[str, Any]) -> Json:
    """The `metadata` of a message of any format, `{}` if it is not an object."""
    metadata = message.get("metadata")
    return metadata if is_object(metadata) else {}


def usage_of(message: Mapping[str, Any]) -> Json | None:
    """The usage a message carries, looked for where providers and frameworks put it."""
    for place in _USAGE_PLACES:
        inner = message.get(place)
        if is_object(inner) and (usage := _usage_in(inner)) is not None:
            return usage
    return _usage_in(message)


def _usage_in(holder: Mapping[str, Any]) -> Json | None:
    for key in _USAGE_KEYS:
        usage = holder.get(key)
        if is_object(usage) and usage:
            return usage
    return None


def text_part(text: str) -> Json:
    """Words."""
    return {"type": "text", "text": text}


def reasoning_part(text: str) -> Json:
    """What a model said to itself."""
    return {"type": "reasoning", "text": text}


def call_part(name: object, call_id: object, arguments: object) -> Json:
    """A tool call; `arguments` may be the JSON text that a model wrote, kept as text if it is not JSON."""
    return {
        "type": "dynamic-tool",
        "toolName": text_of(name),
        "toolCallId": text_of(call_id),
        "state": "input-available",
        "input": _parsed(arguments) if isinstance(arguments, str) else arguments,
    }


def result_part(call_id: object, output: Any, *, name: object = None, failed: bool = False) -> Json:
    """The result of a call that stands in another message."""
    part: Json = {"type": "dynamic-tool", "toolCallId": text_of(call_id)}
    if isinstance(name, str):
        part["toolName"] = name
    if failed:
        text = output if isinstance(output, str) else jsontext.encode(output)
        return {**part, "state": "output-error", "errorText": text}
    return {**part, "state": "output-available", "output": output}


def url_part(url: str, fallback_type: str) -> Json:
    """Media at a URL; a data URL says its own type."""
    media_type = fallback_type
    if url.startswith("data:"):
        media_type = url[5:261].partition(",")[0].partition(";")[0] or fallback_type
    return {"type": "file", "mediaType": media_type, "url": url}


def data_part(data: object, media_type: object) -> Json:
    """Media given as bare base64."""
    return {"type": "file", "mediaType": text_of(media_type) or "application/octet-stream", "data": data}


def by_provider(part: Json) -> Json:
    """A call that the provider ran itself, or what it got by that."""
    return {**part, "providerExecuted": True}


def standard_base64(data: Any) -> Any:
    """Base64 of URLs' alphabet, as pydantic writes bytes, in the one that everybody reads; anything else as it is."""
    return data.translate(STANDARD) if isinstance(data, str) else data


def merged(parts: list[Json]) -> str | list[Json]:
    """What a tool gave back: its words if that is all there is, else its parts."""
    if all(part.get("type") == "text" for part in parts):
        return "\n".join(text_of(part.get("text")) for part in parts)
    return parts


def _parsed(text: str) -> Any:
    try:
        return jsontext.decode(text)
    except (ValueError, RecursionError):
        return text
