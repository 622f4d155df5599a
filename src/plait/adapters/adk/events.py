"""ADK's events as messages of plait, and messages of any format as events.

An event is kept as its own JSON, without what is empty in it, and comes back equal.
"""

from __future__ import annotations

import base64
import copy
import logging
from collections.abc import Iterator
from typing import Any, Final

from google.adk.events.event import Event
from google.genai import types
from pydantic import ValidationError

from plait import Message, messages_as
from plait.adapters.adk.exact import Note, restored, written
from plait.formats.crossing import Crossing
from plait.formats.writers.adk import AGENT
from plait.logic.shape import is_object
from plait.model import Json

log = logging.getLogger("plait")
NOTES: Final = "plaitNotes"
"""The key, unknown to ADK, under which an event has notes of what JSON cannot say of it."""

_CONTENT: Final[Any] = {
    "parts": {
        "__all__": {
            "function_call": {"args"},
            "function_response": {"response"},
            "tool_call": {"args"},
            "tool_response": {"response"},
            "part_metadata": True,
        }
    }
}
_FREE: Final[Any] = {
    "content": _CONTENT,
    "custom_metadata": True,
    "output": True,
    "actions": {
        "state_delta": True,
        "agent_state": True,
        "set_model_response": True,
        "compaction": {"compacted_content": _CONTENT},
    },
}
"""The places that take any value, which pydantic writes with losses."""

_SCORES: Final = {"avgLogprobs", "logprobsResult", "groundingMetadata"}
"""What holds numbers of a model's that may not be finite."""

_EMPTY: Final = ("stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations")


def packed(event: Event) -> Json:
    """The event as the message that is stored; `events_of` makes an equal one of it.

    Bytes and numbers that are not finite come back also out of a tool's arguments and answers, the
    state and other places that take any value. Media is spelled as plait keeps it apart.
    """
    notes: list[Note] = []
    message: Json = event.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_FREE, fallback=repr)
    for name in _SCORES & message.keys():
        message[name] = written(message[name], (name,), notes)
    for path, value in _free(event):
        _put(message, path, written(value, path, notes))
    for path, data in _media(event):
        _put(message, path, base64.b64encode(data).decode())
    if notes:
        message[NOTES] = notes
    return _without_empty(message)


def events_of(message: Message) -> list[Event]:
    """The events that a message is: itself, or those that say the same as a message of another format; at times none.

    An event that ADK does not understand, of a later version perhaps, is reported, and its words are read.
    """
    if message.format != "adk":
        return [Event.model_validate(written) for written in messages_as([message], "adk")]
    content = message.to_dict()
    content |= {"id": content.get("id") or message.id, "timestamp": said_at(message)}
    notes = content.pop(NOTES, None)
    try:
        return [Event.model_validate(restored(content, notes))]
    except ValidationError as error:
        log.error("event %r is none that this version of ADK knows; only its words are read: %s", message.id, error)
    role = "user" if message.role == "user" else "model"
    return [
        Event(
            id=message.id,
            invocation_id=message.id,
            author=role,
            timestamp=said_at(message),
            content=types.Content(role=role, parts=[types.Part(text=message.text)]),
        )
    ]


class Along:
    """Makes events of the messages of a path, given in their order, those of other frameworks among them.

    One event may be several of another framework's messages, and only the call says the name of the tool that
    a result is of. What a model said elsewhere is said by the agent that spoke last before it, or by
    `agent`: to any other one ADK shows it as a stranger's words. `mixed`: whether there are such messages.
    """

    def __init__(self, agent: str, *, mixed: bool) -> None:
        self._agent = agent
        self._crossing = Crossing("adk") if mixed else None

    def take(self, message: Message) -> list[Event]:
        """The events that are complete with this message."""
        return events_of(message) if self._crossing is None else self._made(self._crossing.take(message))

    def end(self) -> list[Event]:
        """The rest."""
        return [] if self._crossing is None else self._made(self._crossing.rest())

    def _made(self, written: list[tuple[Json, Message]]) -> list[Event]:
        events: list[Event] = []
        for item, source in written:
            if source.format == "adk":
                events += events_of(source)
                if item.get("author") not in (None, "", "user"):
                    self._agent = AGENT  # from here on the crossing names another itself
                continue
            if item["author"] == AGENT:
                item["author"] = self._agent
            events.append(Event.model_validate(item))
        return events


def said_at(message: Message) -> float:
    """When a message was said: by its event's own account, else when it was stored."""
    at = message.content.get("timestamp") if message.format == "adk" else None
    try:
        return float(at) if isinstance(at, int | float) else message.created_at.timestamp()
    except OverflowError:
        return message.created_at.timestamp()


def delta_of(message: Message) -> dict[str, Any]:
    """What an event does to the state of its session: keys without a prefix, and what they become."""
    if message.format != "adk":
        return {}
    content = message.content
    if NOTES in content and _delta(content):
        whole = copy.deepcopy(dict(content))
        content = restored(whole, whole.pop(NOTES))
    return {key: value for key, value in _delta(content).items() if not key.startswith(("app:", "user:", "temp:"))}


def _delta(content: Json) -> Json:
    """An event's changes of state, in either spelling of ADK's."""
    actions = content.get("actions")
    delta = actions.get("stateDelta", actions.get("state_delta")) if is_object(actions) else None
    return delta if is_object(delta) else {}


def _free(event: Event) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The places of an event that take any value, by their names in JSON, with what is there."""
    for at, part in _parts(event):
        call, response = part.function_call, part.function_response
        for path, value in (
            (("functionCall", "args"), call and call.args),
            (("functionResponse", "response"), response and response.response),
            (("toolCall", "args"), part.tool_call and part.tool_call.args),
            (("toolResponse", "response"), part.tool_response and part.tool_response.response),
            (("partMetadata",), part.part_metadata),
        ):
            if value is not None:
                yield (*at, *path), value
    for name, value in (("customMetadata", event.custom_metadata), ("output", event.output)):
        if value is not None:
            yield (name,), value
    actions = event.actions
    if actions.state_delta:
        yield ("actions", "stateDelta"), actions.state_delta
    for name, value in (("agentState", actions.agent_state), ("setModelResponse", actions.set_model_response)):
        if value is not None:
            yield ("actions", name), value
    for key, asked in actions.requested_tool_confirmations.items():
        if asked.payload is not None:
            yield ("actions", "requestedToolConfirmations", key, "payload"), asked.payload
    for n, widget in enumerate(actions.render_ui_widgets or ()):
        yield ("actions", "renderUiWidgets", n, "payload"), widget.payload


def _media(event: Event) -> Iterator[tuple[tuple[str | int, ...], bytes]]:
    """The places of inline media, with their bytes."""
    for at, part in _parts(event):
        if part.inline_data is not None and part.inline_data.data is not None:
            yield (*at, "inlineData", "data"), part.inline_data.data
        for m, piece in enumerate((part.function_response and part.function_response.parts) or ()):
            if piece.inline_data is not None and piece.inline_data.data is not None:
                yield (*at, "functionResponse", "parts", m, "inlineData", "data"), piece.inline_data.data


def _parts(event: Event) -> Iterator[tuple[tuple[str | int, ...], types.Part]]:
    """The parts of an event and of the summary that it may hold, with their places in JSON."""
    summary = event.actions.compaction and event.actions.compaction.compacted_content
    for at, content in ((("content",), event.content), (("actions", "compaction", "compactedContent"), summary)):
        for n, part in enumerate((content and content.parts) or ()):
            yield (*at, "parts", n), part


def _put(holder: Any, path: tuple[str | int, ...], value: Any) -> None:
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value


def _without_empty(message: Json) -> Json:
    """The message without the members that an event has in any case, where they are empty."""
    actions = message.get("actions")
    if is_object(actions):
        for key in _EMPTY:
            if actions.get(key) == {}:
                del actions[key]
        if not actions:
            del message["actions"]
    if message.get("nodeInfo") == {"path": ""}:
        del message["nodeInfo"]
    return message
