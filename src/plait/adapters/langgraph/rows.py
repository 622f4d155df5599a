"""LangChain's messages as the messages of a session: `{type, data}`, exactly, and sealed where JSON cannot say them."""

from __future__ import annotations

import base64
import copy
import json
import logging
from typing import Any, Final, NamedTuple

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

import plait
from plait.formats.crossing import Crossing

log = logging.getLogger("plait")
FORMAT: Final = "langchain"
CLASSES: Final[dict[str, type[BaseMessage]]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "chat": ChatMessage,
    "AIMessageChunk": AIMessageChunk,
}
_KINDS: Final = {kind: name for name, kind in CLASSES.items()}
_ATOMS: Final = frozenset({str, int, float, bool, type(None)})


class Place(NamedTuple):
    """Where a message is in the session: its last row's id there, the seq and the parent of its first.

    `foreign`: in another framework's words. Then one message may be several rows, or several be one place.
    """

    id: str
    seq: int
    parent_id: str | None
    foreign: bool = False


def kind_of(message: BaseMessage) -> str:
    """The name of a message's class, for one of LangChain's own."""
    return _KINDS[type(message)]


def row_of(message: BaseMessage, serde: Any, *, plain: bool) -> dict[str, Any]:
    """The message of the session for a message of the graph; `restore` makes an equal one of it.

    With `plain` it says what it can in JSON, and holds the serializer's bytes beside that if that is
    not all. Without it, it holds nothing but those.
    """
    data = _data(message) if plain and type(message) in _KINDS else None
    if data is not None:
        row = {"type": _KINDS[type(message)], "data": data}
        if _is_same(row, message):
            return row
    kind, sealed = serde.dumps_typed(message)
    shown = _shown(message) if plain else {}
    name = _KINDS.get(type(message), message.type) if plain else "sealed"
    if name not in CLASSES:
        name = "sealed"
    return {"type": name, "data": shown, "sealed": [kind, base64.b64encode(sealed).decode()]}


def restore(row: dict[str, Any], serde: Any) -> BaseMessage:
    """The message again."""
    sealed = row.get("sealed")
    if sealed is not None:
        found = serde.loads_typed((sealed[0], base64.b64decode(sealed[1])))
        if isinstance(found, BaseMessage):
            return found
        log.warning("a message's class is not there any more; what it said is shown as a %s message", row["type"])
    data = row["data"]
    return CLASSES.get(row["type"], HumanMessage)(**({"content": ""} | data))


class Found:
    """The graph's messages that rows of a session are, given in their order, each with where it is.

    What other frameworks wrote is read as LangChain's messages. `end` where the path is left: what follows goes on
    with nothing but the names of the tools that were called.
    """

    def __init__(self, serde: Any) -> None:
        self._serde = serde
        self._crossing: Crossing | None = None
        self._open: list[plait.Message] = []
        self._last: Place | None = None

    def take(self, row: plait.Message) -> list[tuple[BaseMessage, Place]]:
        """The messages that are complete with this row."""
        if row.format == FORMAT and self._crossing is None:
            return [(restore(row.to_dict(), self._serde), Place(row.id, row.seq, row.parent_id))]
        self._crossing = self._crossing or Crossing("langchain")
        self._open.append(row)
        return [self._made(item, source) for item, source in self._crossing.take(row)]

    def end(self) -> list[tuple[BaseMessage, Place]]:
        """The rest."""
        return [] if self._crossing is None else [self._made(*one) for one in self._crossing.rest()]

    def _made(self, item: Any, source: plait.Message) -> tuple[BaseMessage, Place]:
        if self._last is None or self._last.id != source.id:
            first = self._open[0]
            self._open = [row for row in self._open if row.seq > source.seq]
            self._last = Place(source.id, first.seq, first.parent_id, source.format != FORMAT)
        return restore(item, self._serde), self._last


def texts(content: Any) -> list[str]:
    """The texts of a message's content: itself, or those of its blocks."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    blocks: list[Any] = content
    return [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]


def is_json(value: Any) -> bool:
    """Whether JSON can say a value, if not of which types its parts are."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def snapshot(message: BaseMessage) -> dict[str, Any]:
    """What a message says now, to be compared with what it says later: nodes may change it in place."""
    return {key: item if type(item) in _ATOMS else copy.deepcopy(item) for key, item in message.__dict__.items()}


def _data(message: BaseMessage) -> dict[str, Any] | None:
    """The message's fields but those that say nothing, if JSON can say them all."""
    fields = {key: item for key, item in message.model_dump().items() if key == "content" or not _is_default(key, item)}
    try:
        return json.loads(json.dumps(fields, allow_nan=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError, RecursionError):
        return None


def _is_default(key: str, item: Any) -> bool:
    return key == "type" or item is None or item == {} or item == [] or (key == "status" and item == "success")


def _is_same(row: dict[str, Any], message: BaseMessage) -> bool:
    try:
        again = restore(row, None)
    except Exception:  # whatever a validator raises
        return False
    return type(again) is type(message) and _alike(again.__dict__, message.__dict__) and again == message


def _alike(one: Any, other: Any) -> bool:
    """Equal, and of the same types throughout: `1`, `1.0` and `True` are three things, a tuple is no list."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(_alike(item, other[key]) for key, item in one.items())
    if type(one) is list or type(one) is tuple:
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)


def _shown(message: BaseMessage) -> dict[str, Any]:
    """What of a message JSON can say, for whoever reads the session."""
    shown: dict[str, Any] = {"content": ""}
    for key in ("content", "id", "name", "tool_calls", "tool_call_id", "usage_metadata"):
        item = getattr(message, key, None)
        if item and is_json(item):
            shown[key] = json.loads(json.dumps(item))
    return shown
