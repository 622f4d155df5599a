"""Which documents stand in a conversation: read from the results of the tools that load and unload them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from plait import formats
from plait.errors import CorruptError
from plait.logic import prompt
from plait.logic.shape import is_list, is_object
from plait.logic.turns import has_result, is_tool
from plait.model import Damaged, Format, Json, Message

LOAD: Final = "load_context"
UNLOAD: Final = "unload_context"
UNLOADED: Final = "[skill unloaded: "
FAILED: Final = "Error:"
_OUTPUTS: Final = ("output", "result")
_TEXTS: Final = ("value", "text")


class Document(NamedTuple):
    """A document of a block."""

    label: str
    key: str


class Place(NamedTuple):
    """Where the text of a document stands: the message, and which of its parts."""

    message_id: str
    part: int


class _Call(NamedTuple):
    """A call whose result may follow: what it asks for."""

    name: str
    document: Document


def marker(key: str) -> str:
    """What stands in the place of a document that was unloaded."""
    return f"{UNLOADED}{key}]"


def not_found(key: str) -> str:
    """What loading answers for a key that there is not."""
    return f"Not found: {key}"


def told(key: str, text: str) -> str:
    """A document as loading answers it: one that reads as a failure, or as no document, begins on a line of its own."""
    return f"\n{text}" if text.startswith(FAILED) or text in (not_found(key), marker(key)) else text


def unloaded(key: str) -> str:
    """What unloading answers."""
    return f"Unloaded {key}. Load it again with {LOAD} when it is needed."


class Loaded:
    """The documents that a conversation shows, read message by message, root first.

    `places` tells for each where its text stands; `waiting` the same of those that were unloaded
    and whose text is still shown.
    """

    def __init__(self) -> None:
        self.places: dict[Document, list[Place]] = {}
        self.waiting: dict[Document, list[Place]] = {}
        self._calls: dict[str, _Call] = {}

    def copy(self) -> Loaded:
        """The same, to read on from here."""
        other = Loaded()
        other.places = {document: list(places) for document, places in self.places.items()}
        other.waiting = {document: list(places) for document, places in self.waiting.items()}
        other._calls = dict(self._calls)
        return other

    def feed(self, message: Message | Damaged) -> None:
        """Take the next message."""
        if isinstance(message, Damaged):
            return
        try:
            if not self._calls and LOAD not in message.to_json():  # most say nothing of documents: spare their decoding
                return
            parts = message.parts
        except CorruptError:
            return
        for n, part in enumerate(parts):
            if is_object(part) and is_tool(part):
                self._take(Place(message.id, n), part, message.role == "assistant")

    def _take(self, place: Place, part: Json, by_model: bool) -> None:
        """A part with a call, a result or both; only a model calls, whoever brings the result."""
        id = _text(part.get("toolCallId"))
        call = _call(part) if by_model else None
        if call is not None:
            self._calls[id] = call
        if not has_result(part):
            return
        call = self._calls.pop(id, None) if call is None else call
        if call is not None:
            self._result(place, call, output_text(part))

    def _result(self, place: Place, call: _Call, output: str | None) -> None:
        document, key = call.document, prompt.sendable(call.document.key)
        if output is None or output.startswith(FAILED):
            return
        if call.name == UNLOAD:
            if output == unloaded(key) and document in self.places:
                self.waiting.setdefault(document, []).extend(self.places.pop(document))
        elif output not in (marker(document.key), marker(key), not_found(document.key), not_found(key)):
            self.places.setdefault(document, []).append(place)


def _call(part: Json) -> _Call | None:
    """What a part asks for, if it is a call of one of the two tools."""
    kind = _text(part.get("type"))
    name = _text(part.get("toolName")) or kind.removeprefix("tool-")
    given = next((part[key] for key in ("input", "rawInput", "args") if is_object(part.get(key))), None)
    if name not in (LOAD, UNLOAD) or given is None:
        return None
    label, key = given.get("label"), given.get("key")
    return _Call(name, Document(label, key)) if isinstance(label, str) and isinstance(key, str) else None


def output_text(part: Json) -> str | None:
    """The text that a result holds, however it is wrapped; `None` if it is not one text."""
    return text_of(next((part[key] for key in _OUTPUTS if part.get(key) is not None), None))


def text_of(output: Any) -> str | None:
    """A text, alone or in the wrappings that SDKs give it."""
    if isinstance(output, str):
        return output
    if is_list(output) and len(output) == 1:
        return text_of(output[0])
    if is_object(output):
        return next((value for key in _TEXTS if isinstance(value := output.get(key), str)), None)
    return None


def without(message: Message, marks: Mapping[int, str]) -> tuple[Json, Format] | None:
    """The content of a message in which other texts stand for some results, and its format.

    `marks` says by the numbers of the parts what; `None` if nothing is to be changed.
    """
    parts = message.parts
    marked = [_marked(part, marks.get(n)) for n, part in enumerate(parts)]
    if all(map(operator.is_, marked, parts)):
        return None
    if message.format == formats.NATIVE.name:
        return {**message.content, "parts": marked}, formats.NATIVE
    texts = {output_text(old): output_text(new) for old, new in zip(parts, marked, strict=True) if old is not new}
    content, format = formats.rewritten(
        formats.stored(message.format), message.content, lambda text: text, lambda output: _put(output, texts)
    )
    return dict(content), format


def _marked(part: Json, mark: str | None) -> Json:
    if mark is None or not (is_object(part) and is_tool(part) and has_result(part)):
        return part
    key = next((key for key in _OUTPUTS if part.get(key) is not None), None)
    return part if key is None else {**part, key: _put(part[key], {output_text(part): mark})}


def _put(output: Any, texts: Mapping[str | None, str | None]) -> Any:
    """An output with another text in the same wrapping."""
    found = texts.get(text_of(output))
    if found is None:
        return output
    if is_list(output):
        return [_put(output[0], texts)]
    if is_object(output):
        return {**output, next(key for key in _TEXTS if isinstance(output.get(key), str)): found}
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
