"""Reads the events of Google's Agent Development Kit, `adk`: contents of genai, with what they do to the session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from plait.formats import native
from plait.logic.shape import is_list, is_object, list_of
from plait.model import Json

_OWN: Final = ("author", "invocationId", "branch")
_ASKING: Final = ("adk_request_confirmation", "adk_request_credential", "adk_framework")
"""Calls of no tool: with them ADK asks whoever runs it, and shows them to no model, nor the answers (ADK 2.13)."""

CODE: Final = "code_execution"
"""The tool by which Google runs code."""

_ASKED: Final = ("requestedToolConfirmations", "requestedAuthConfigs")
"""Where an event says by their ids which calls wait; what stands as their answers in it is no result."""


class ADK:
    """The reader of events as `Event.model_dump(mode="json", by_alias=True)` gives them."""

    name = "adk"

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        """An `author`, an `invocationId`, and a `timestamp` that is a number."""
        at = message.get("timestamp")
        named = isinstance(message.get("author"), str) and isinstance(message.get("invocationId"), str)
        return named and isinstance(at, int | float) and not isinstance(at, bool)

    def id(self, message: Mapping[str, Any]) -> str | None:
        """The event's `id`."""
        id = message.get("id")
        return id if isinstance(id, str) and id.strip() else None

    def role(self, message: Mapping[str, Any]) -> str:
        """`user` by its author, `tool` where only tools answer, else the `assistant`.

        Without content it is a `summary` if it is a compaction, else `meta`: a change of state, say. So is
        what ADK shows to no model: that it asks for a confirmation, and what it is told.
        """
        if message.get("content") is None:
            return "meta" if _compacted(message) is None else "summary"
        parts = _parts(message.get("content"))
        if _is_asking(parts, _asked(message)):
            return "meta"
        if parts and all("functionResponse" in part for part in parts):
            return "tool"
        return "user" if message.get("author") == "user" else "assistant"

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        """One part for each of the content; those of the summary for a compaction."""
        content, waiting = message.get("content"), message.get("longRunningToolIds")
        held = {id for id in waiting if isinstance(id, str)} if is_list(waiting) else set[str]()
        asked = _asked(message)
        return [_part(part, held, asked) for part in _parts(_compacted(message) if content is None else content)]

    def metadata(self, message: Mapping[str, Any]) -> Json:
        """The `customMetadata`, and which agent said it in which invocation and branch."""
        custom = message.get("customMetadata")
        own = {key: message[key] for key in _OWN if message.get(key) is not None}
        return {**(custom if is_object(custom) else {}), **own}

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        """The `usageMetadata`."""
        return native.usage_of(message)

    piecewise = False

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        """The event without those parts of its content; none of one that has no content."""
        kept = [part for n, part in enumerate(_parts(message.get("content"))) if n not in parts]
        return {**message, "content": {**message["content"], "parts": kept}} if kept else None

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        """The event, and one of its agent's in which the tools answer with the error."""
        parts = _parts(message.get("content"))
        answers: list[Json] = []
        for n in sorted(calls):
            call = parts[n].get("functionCall")
            if not is_object(call):
                return None
            named = {key: call[key] for key in ("id", "name") if key in call}
            answers.append({"functionResponse": {**named, "response": {"error": text}}})
        own = {key: message[key] for key in (*_OWN, "timestamp") if key in message}
        return dict(message), [{**own, "content": {"role": "user", "parts": answers}}]

    def rewritten(
        self, message: Mapping[str, Any], text: Callable[[str], str], output: Callable[[Any], Any]
    ) -> Mapping[str, Any]:
        """The event with its words and the answers of its tools put through the functions."""
        parts = _parts(message.get("content"))
        changed = [_rewritten(part, text, output) for part in parts]
        if all(new is old for new, old in zip(changed, parts, strict=True)):
            return message
        return {**message, "content": {**message["content"], "parts": changed}}


def _compacted(message: Mapping[str, Any]) -> object:
    """The content that an event puts in the place of others, if it does."""
    actions = message.get("actions")
    compaction = actions.get("compaction") if is_object(actions) else None
    return compaction.get("compactedContent") if is_object(compaction) else None


def _parts(content: object) -> list[Json]:
    """The parts of a genai content; what is no object in them stands as an unknown part."""
    parts = content.get("parts") if is_object(content) else None
    return [part if is_object(part) else {"unknown": part} for part in parts] if is_list(parts) else []


def _asked(message: Mapping[str, Any]) -> set[str]:
    """The ids of the calls that wait for somebody's word by this event."""
    actions = message.get("actions")
    named = [actions.get(key) for key in _ASKED] if is_object(actions) else []
    return {id for ids in named if is_object(ids) for id in ids}


def _is_asking(parts: list[Json], asked: set[str]) -> bool:
    """Whether nothing is said here but that something is asked for, or what was answered to that."""
    tools = [part.get(kind) for part in parts for kind in ("functionCall", "functionResponse")]
    if any(is_object(tool) and tool.get("name") in _ASKING for tool in tools):
        return True
    answers = [part.get("functionResponse") for part in parts]
    return bool(answers) and all(is_object(answer) and answer.get("id") in asked for answer in answers)


def _part(part: Json, waiting: set[str], asked: set[str]) -> Json:
    answer = part.get("functionResponse")
    if is_object(answer) and answer.get("id") in asked:
        return {"type": "data-waiting", "data": answer}
    found = _derived(part, waiting)
    signature = part.get("thoughtSignature")
    if isinstance(signature, str):
        google = {"thoughtSignature": native.standard_base64(signature)}
        return {**found, "providerMetadata": {"google": google}}
    return found


def _derived(part: Json, waiting: set[str]) -> Json:
    if isinstance(words := part.get("text"), str):
        return native.reasoning_part(words) if part.get("thought") is True else native.text_part(words)
    if is_object(call := part.get("functionCall")):
        made = native.call_part(call.get("name"), call.get("id"), call.get("args") or {})
        return {**made, "state": "approval-requested"} if call.get("id") in waiting else made
    if is_object(answer := part.get("functionResponse")):
        return _answer(answer)
    if is_object(blob := part.get("inlineData")):
        return _named(native.data_part(native.standard_base64(blob.get("data")), blob.get("mimeType")), blob)
    if is_object(file := part.get("fileData")):
        uri, kind = native.text_of(file.get("fileUri")), native.text_of(file.get("mimeType"))
        return _named({"type": "file", "mediaType": kind or "application/octet-stream", "url": uri}, file)
    if (ran := _ran(part)) is not None:
        return native.by_provider(ran)
    kind = next((key for key in part if key != "thoughtSignature"), "unknown")
    return {**part, "type": kind}


def _ran(part: Json) -> Json | None:
    """What Google ran itself, or got by that; code and what it printed are one call, by the name that others give it."""
    if is_object(code := part.get("executableCode")):
        call = native.call_part(CODE, code.get("id"), _without_id(code))
        return {**call, "providerMetadata": {"google": {}}}
    if is_object(printed := part.get("codeExecutionResult")):
        return native.result_part(printed.get("id"), _without_id(printed), name=CODE)
    if is_object(asked := part.get("toolCall")):
        return native.call_part(native.text_of(asked.get("toolType")).lower(), asked.get("id"), asked.get("args") or {})
    if is_object(answer := part.get("toolResponse")):
        name = native.text_of(answer.get("toolType")).lower()
        return native.result_part(answer.get("id"), answer.get("response"), name=name)
    return None


def _without_id(value: Json) -> Json:
    return {key: item for key, item in value.items() if key != "id"}


def _named(part: Json, holder: Json) -> Json:
    name = holder.get("displayName")
    return {**part, "filename": name} if isinstance(name, str) else part


def _answer(answer: Json) -> Json:
    """A tool's answer: ADK wraps what is no object as `result`, and failures as `error`."""
    response, more = answer.get("response"), _parts(answer)
    output, failed = response, False
    if is_object(response) and len(response) == 1:
        ((key, value),) = response.items()
        output, failed = (value, key == "error") if key in ("result", "error") else (response, False)
    if more:
        output = [native.text_part(output)] if isinstance(output, str) else [{"type": "data", "data": output}]
        output += [_derived(part, set()) for part in more]
    return native.result_part(answer.get("id"), output, name=answer.get("name"), failed=failed)


def _rewritten(part: Json, text: Callable[[str], str], output: Callable[[Any], Any]) -> Json:
    if isinstance(words := part.get("text"), str) and part.get("thought") is not True:
        new = text(words)
        return part if new is words else {**part, "text": new}
    answer = part.get("functionResponse")
    if not is_object(answer):
        return part
    files = list_of(answer.get("parts"))
    if files:
        return _with_files(part, answer, files, output)
    if (old := answer.get("response")) is None:
        return part
    new = output(old)
    if new is old:
        return part
    return {**part, "functionResponse": {**answer, "response": new if is_object(new) else {"result": new}}}


def _with_files(part: Json, answer: Json, files: list[Any], output: Callable[[Any], Any]) -> Json:
    """An answer with files beside it, put through a function as one; words for files go into the answer."""
    whole = {"response": answer.get("response"), "parts": files}
    new = output(whole)
    if new is whole or not is_object(new):
        return part
    kept: list[Json] = []
    words: list[Any] = []
    for file in list_of(new.get("parts")):
        if is_object(file) and file.keys() & {"inlineData", "fileData"}:
            kept.append(file)
        else:
            words.append(file.get("text", file) if is_object(file) else file)
    response = new.get("response", new if "__truncated" in new else {})
    said = response if is_object(response) else {} if response is None else {"result": response}
    if words:
        said = {**said, "media": words}
    left = {key: item for key, item in answer.items() if key != "parts"}
    return {**part, "functionResponse": {**left, "response": said, **({"parts": kept} if kept else {})}}
