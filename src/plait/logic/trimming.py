"""Shortening old messages on copies, so that more of a conversation fits; what is stored is never touched.

Lengths are Python's, in characters: a cut is never within one. Containers keep their kind, a list
stays a list and an object an object, because what turns a tool's output into a model's input
often reads it as what it was. Files in what is cut are replaced by words: half of one is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from plait import formats, jsontext
from plait.formats import native
from plait.logic import arguments, contents, estimate
from plait.logic.shape import is_list, is_mapping, is_object
from plait.model import Damaged, Format, Json, Message

M = TypeVar("M", Message, Mapping[str, Any], Message | Damaged)

MAX_DEPTH: Final = contents.MAX_DEPTH
MIN_CHILD_CHARS: Final = 80
MAX_CHILDREN: Final = 10
ROW_OUTPUT_CHARS: Final = 1_000
ROW_TEXT_CHARS: Final = 1_000
ROW_PREVIEW_CHARS: Final = 500

_OUTPUT_KEYS: Final = {"output-available": "output", "output-error": "errorText"}
_WRAPPED: Final = ("text", "json", "content", "error-text", "error-json")
"""How the AI SDK wraps an output: it is this object, whatever is in it."""

_NESTED: Final = "[nested output omitted]"
_NOTE: Final = "output too large to show"


def truncate_older_messages(
    messages: Sequence[M],
    *,
    keep_recent: int = 4,
    max_tool_output_chars: int = 500,
    max_text_chars: int = 10_000,
    tool_outputs: bool = True,
) -> Sequence[M]:
    """`messages` with the texts and tool outputs of all but the last `keep_recent` shortened, on copies.

    A text longer than `max_text_chars` keeps so many characters and says how long it was. What a
    tool gave back, or how it failed, is cut to `max_tool_output_chars` of JSON, all that one result
    holds together: containers are kept, content blocks stay blocks of their API, a file in it is
    replaced by `[image/png, 6758 bytes]`, a text file by its text, and what has no room is counted.
    A result within the limit stays, with its files. Reasoning, inputs, files beside the text, and
    what a provider ran itself stay. Messages without a change are the same objects; the same
    sequence comes back if there are no older ones.
    """
    keep_recent = arguments.number("keep_recent", keep_recent)
    max_tool_output_chars = arguments.number("max_tool_output_chars", max_tool_output_chars)
    max_text_chars = arguments.number("max_text_chars", max_text_chars)
    tool_outputs = arguments.flag("tool_outputs", tool_outputs)
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise arguments.refusal("messages", "a list of messages", messages)
    for n, message in enumerate(messages):
        _check(f"messages[{n}]", message)
    older = len(messages) - keep_recent
    if older <= 0:
        return messages

    def text(words: str) -> str:
        if len(words) <= max_text_chars:
            return words
        shown: str = contents.spared(words)
        return shown if len(shown) <= max_text_chars else shown[:max_text_chars] + contents.suffix(words)

    def output(value: Any) -> Any:
        return truncated(value, max_tool_output_chars) if tool_outputs else value

    return [_rewritten(message, text, output) if n < older else message for n, message in enumerate(messages)]


def _check(name: str, message: object) -> None:
    if not isinstance(message, Message | Damaged) and not is_mapping(message):
        raise arguments.refusal(name, "a message as one is given or read", message)


def _rewritten(message: Any, text: Callable[[str], str], output: Callable[[Any], Any]) -> Any:
    if isinstance(message, Damaged):
        return message
    if not isinstance(message, Message):
        changed, _ = formats.rewritten(formats.recognize(message), message, text, output)
        return changed
    format = formats.stored(message.format)
    changed, into = formats.rewritten(format, message.content, text, output)
    return message if changed is message.content else _copy(message, changed, into)


def _copy(message: Message, content: Mapping[str, Any], format: Format) -> Message:
    return message.with_content(content, tokens=estimate.estimate_message(content, format), format=format)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(jsontext.encode(value))


def truncated(value: Any, limit: int) -> Any:
    """`value` cut to `limit` characters of JSON (of a string: its own), containers kept; itself if it fits.

    Content blocks stay blocks. Files in it are replaced by words, so none is ever cut through.
    """
    if not isinstance(value, str) and not is_list(value) and not is_object(value):
        return value
    return value if _length(value) <= limit else _truncated(contents.spared(value), limit, 0)


def _truncated(value: Any, limit: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else _cut(value, limit)
    if not is_list(value) and not is_object(value):
        return value
    size = _length(value)
    if size <= limit or not value:
        return value
    if depth >= MAX_DEPTH:
        return _NESTED
    if is_list(value):
        return contents.fitted(value, limit) if contents.is_content(value) else _list(value, size, limit, depth)
    if not is_object(value):
        return value
    address = contents.referred(value)
    return _object(value, size, limit, depth) if address is None else address


def _cut(words: str, limit: int) -> str:
    suffix = contents.suffix(words)
    return suffix[:limit] if limit <= len(suffix) else words[: limit - len(suffix)] + suffix


def _share(limit: int, count: int) -> int:
    """What each of some children may take."""
    return limit if count == 1 else max(MIN_CHILD_CHARS, limit // min(count, MAX_CHILDREN))


def _list(items: list[Any], size: int, limit: int, depth: int) -> list[Any]:
    share = _share(limit, len(items))
    kept: list[Any] = []
    used = len("[]")
    for item in items:  # later ones would be dropped again: they are not looked at
        short = _truncated(item, share, depth + 1)
        used += len(jsontext.encode(short)) + (1 if kept else 0)
        if kept and used > limit:
            break
        kept.append(short)
    while True:
        shown = [*kept, f"... [{len(items) - len(kept)} more items truncated]"] if len(kept) < len(items) else kept
        if len(kept) <= 1 or _length(shown) <= limit:
            break
        kept.pop()
    return shown if _length(shown) <= limit else [_marker(size, limit)]


def _object(value: Json, size: int, limit: int, depth: int) -> Json:
    if value.keys() == {"type", "value"} and value["type"] in _WRAPPED:
        inner = _truncated(value["value"], max(limit - _length({**value, "value": ""}), 0), depth)
        return {**value, "value": inner}
    if 5 * len(value) > limit:  # its keys alone do not fit
        return _marker(size, limit)
    share = _share(limit, len(value))
    short = {key: _truncated(item, share, depth + 1) for key, item in value.items()}
    before = left = _length(short)
    if left <= limit:
        return short
    texts = [key for key, item in short.items() if isinstance(item, str)]
    for key in sorted(texts, key=lambda key: -len(short[key])):
        if left <= limit:
            break
        whole, short[key] = short[key], _truncated(short[key], limit // 4, depth + 1)
        left += len(jsontext.encode(short[key])) - len(jsontext.encode(whole))
    marked = {**short, "__truncated": True, "__truncatedChars": before}
    return marked if _length(marked) <= limit else _marker(size, limit)


def _marker(size: int, limit: int) -> Json:
    marker: Json = {"__truncated": True, "__truncatedChars": size}
    noted = {**marker, "note": _NOTE}
    return noted if _length(noted) <= limit else marker


def enforce_row_size(message: M, *, max_bytes: int = 1_800_000) -> M:
    """`message` as it may be kept in a table with a limit of row size, on a copy; itself if it fits.

    plait has no such limit and never does this by itself: it is for other stores. Tool outputs (and
    errors) over 1,000 characters are cut first, then the texts over 1,000 characters, oldest first,
    until it fits. What was cut is listed in `metadata`, as `compactedToolOutputs` (call ids) and
    `compactedTextParts` (places). A foreign message that is too large becomes a native one.
    Reasoning, inputs of tools and files that are no tool's output are not cut: a message of these may stay larger.
    """
    max_bytes = arguments.number("max_bytes", max_bytes)
    _check("message", message)
    fitting: M = _enforced(message, max_bytes)
    return fitting


def _enforced(message: Any, max_bytes: int) -> Any:
    if isinstance(message, Damaged):
        return message
    if isinstance(message, Message):
        if len(message.to_json().encode()) <= max_bytes:
            return message
        content, format = message.content, formats.stored(message.format)
        return _copy(message, _fitting(content, format, max_bytes), formats.NATIVE)
    if _bytes(message) <= max_bytes:
        return message
    return _fitting(message, formats.recognize(message), max_bytes)


def _bytes(message: Mapping[str, Any]) -> int:
    return len(jsontext.encode(message).encode())


def _fitting(message: Mapping[str, Any], format: Format, max_bytes: int) -> Json:
    copy: Json = {**message, "parts": list(format.parts(message))}
    if format is not formats.NATIVE:
        copy = {"role": format.role(message), "parts": copy["parts"], "metadata": format.metadata(message)}
    _shorten_outputs(copy)
    if _bytes(copy) > max_bytes:
        _shorten_texts(copy, max_bytes)
    return copy


def _shorten_outputs(message: Json) -> None:
    cut: list[str] = []
    for n, part in enumerate(message["parts"]):
        key = _OUTPUT_KEYS.get(native.text_of(part.get("state")))
        if key is not None and _length(output := part.get(key)) > ROW_OUTPUT_CHARS:
            message["parts"][n] = {**part, key: truncated(output, ROW_OUTPUT_CHARS)}
            cut.append(native.text_of(part.get("toolCallId")))
    if cut:
        message["metadata"] = {**native.metadata_of(message), "compactedToolOutputs": cut}


def _shorten_texts(message: Json, max_bytes: int) -> None:
    cut: list[int] = []
    for n, part in enumerate(message["parts"]):
        words = part.get("text")
        if part.get("type") != "text" or not isinstance(words, str) or len(words) <= ROW_TEXT_CHARS:
            continue
        note = f"[This text was {len(words)} characters long and was shortened to be stored. It begins:]\n"
        message["parts"][n] = {**part, "text": note + words[:ROW_PREVIEW_CHARS]}
        cut.append(n)
        message["metadata"] = {**native.metadata_of(message), "compactedTextParts": cut}
        if _bytes(message) <= max_bytes:
            return
