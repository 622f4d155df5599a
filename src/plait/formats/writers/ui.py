"""Writes AI SDK UI messages: a reply with all its steps, its calls and their results, is one of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from plait.formats import native
from plait.formats.pieces import Call, Group, Media, Odd, Piece, Result, Thought, Words
from plait.model import Json


class UI:
    """plait's own messages go out as they are; a reply of others is held until it is over."""

    own = frozenset({"plait"})

    def __init__(self) -> None:
        self._reply: Json | None = None
        self._waiting: dict[str, deque[Json]] = {}

    def takes(self, content: Json, format: str) -> bool:
        return True

    def kept(self, content: Json) -> list[Json]:
        return [*self.end(), content]

    def write(self, group: Group) -> list[Json]:
        if group.kind in ("assistant", "tool"):
            self._go_on(group)
            return []
        parts = [part for piece in group.pieces for part in _part(piece)]
        role = "system" if group.kind == "system" else "user"
        return [*self.end(), {"id": group.id, "role": role, "parts": parts}] if parts else []

    def end(self) -> list[Json]:
        reply, self._reply, self._waiting = self._reply, None, {}
        return [] if reply is None else [reply]

    def _go_on(self, group: Group) -> None:
        if self._reply is None:
            self._reply = {"id": group.id, "role": "assistant", "parts": []}
        parts: list[Json] = self._reply["parts"]
        if group.kind == "tool":
            for piece in group.pieces:
                if isinstance(piece, Result):
                    self._answer(piece, parts)
            return
        parts.append({"type": "step-start"})
        for piece in group.pieces:
            if isinstance(piece, Result):  # the provider's own, of a call that it said before
                self._answer(piece, parts)
            for part in _part(piece):
                parts.append(part)
                if isinstance(piece, Call) and piece.result is None:
                    self._waiting.setdefault(piece.id, deque()).append(part)
        _add_usage(self._reply, group)

    def _answer(self, result: Result, parts: list[Json]) -> None:
        """Put a result to its call, or beside it where the call is not in this reply."""
        waiting = self._waiting.get(result.id)
        if waiting:
            part = waiting.popleft()
        else:
            part = native.call_part(result.name, result.id, {})
            parts.append(native.by_provider(part) if result.by_provider else part)
            part = parts[-1]
        part.update(_outcome(result))


def make(session_id: str) -> UI:
    """A writer."""
    return UI()


def _add_usage(reply: Json, group: Group) -> None:
    if group.usage is None:
        return
    metadata: Json = reply.setdefault("metadata", {"totalUsage": {"inputTokens": 0, "outputTokens": 0}})
    for key, tokens in zip(("inputTokens", "outputTokens"), group.usage, strict=True):
        metadata["totalUsage"][key] += tokens


def _part(piece: Piece) -> Iterator[Json]:
    match piece:
        case Words():
            own = {key: item for key, item in piece.own.items() if key != "refusal"}
            yield {**native.text_part(piece.text), **({"providerMetadata": own} if own else {})}
        case Thought():
            yield {**native.reasoning_part(piece.text), **({"providerMetadata": piece.own} if piece.own else {})}
        case Media():
            yield _file(piece)
        case Call():
            yield _call(piece)
        case Odd(part) if str(part.get("type")).startswith(("data-", "source-")):
            yield part
        case _:
            pass


def _file(media: Media) -> Json:
    if media.data_url is None:  # a client can show nothing of it
        return native.text_part(media.marker)
    named = {"filename": media.filename} if media.filename else {}
    return {"type": "file", "mediaType": media.media_type, "url": media.data_url, **named}


def _call(call: Call) -> Json:
    part = {**native.call_part(call.name, call.id, None), "input": call.input}
    if call.by_provider:
        part["providerExecuted"] = True
        part.update(_outcome(call.result) if call.result is not None else {})
    return {**part, "callProviderMetadata": call.own} if call.own else part


def _outcome(result: Result) -> Json:
    if result.failed:
        return {"state": "output-error", "errorText": result.text}
    return {"state": "output-available", "output": [_shown(p) for p in result.pieces] or result.output}


def _shown(piece: Words | Media) -> Json:
    return native.text_part(piece.text) if isinstance(piece, Words) else _file(piece)
