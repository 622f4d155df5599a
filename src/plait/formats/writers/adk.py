"""Writes Google ADK's events as JSON: `Event.model_validate` makes objects of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from plait.formats import native
from plait.formats.crossing import Plain
from plait.formats.pieces import Call, Group, Media, Piece, Result, Thought, Words, own_of
from plait.logic.shape import is_object
from plait.model import Json

AGENT: Final = "agent"
"""Who is named as the author of what a model said, as long as no event of the conversation names another."""


class ADK(Plain):
    """Events of ADK's own go out as they are; the others go under the agent that spoke last before them."""

    own = frozenset({"adk"})

    def __init__(self) -> None:
        self._author = AGENT
        self._invocation = ""

    def kept(self, content: Json) -> list[Json]:
        author, invocation = content.get("author"), content.get("invocationId", content.get("invocation_id"))
        if isinstance(author, str) and author not in ("", "user"):
            self._author = author
        self._invocation = native.text_of(invocation) or self._invocation
        return [content]

    def write(self, group: Group) -> list[Json]:
        if group.kind in ("user", "system", "summary"):
            self._invocation = f"e-{group.id}"
        parts = [part for piece in group.pieces for part in _part(piece)]
        if not parts:
            return []
        spoken = group.kind == "assistant"
        event: Json = {
            "id": group.id,
            "timestamp": group.at.timestamp(),
            "invocationId": self._invocation,
            "author": self._author if spoken or group.kind == "tool" else "user",
            "content": {"role": "model" if spoken else "user", "parts": parts},
        }
        return [event | _usage(group)]


def make(session_id: str) -> ADK:
    """A writer."""
    return ADK()


def _part(piece: Piece) -> Iterator[Json]:
    match piece:
        case Words():
            yield {"text": piece.text, **_signed(piece)}
        case Thought():
            yield {"text": piece.text, "thought": True, **_signed(piece)}
        case Media():
            yield _media(piece)
        case Call(by_provider=False):
            yield {"functionCall": {"id": piece.id, "name": piece.name, "args": piece.fields}, **_signed(piece)}
        case Result(by_provider=False):
            yield {"functionResponse": {"id": piece.id, "name": piece.name or "", **_response(piece)}}
        case _:
            pass


def _signed(piece: Words | Thought | Call) -> Json:
    signature = own_of(piece, "google").get("thoughtSignature")
    return {"thoughtSignature": signature} if isinstance(signature, str) else {}


def _media(media: Media) -> Json:
    named = {"displayName": media.filename} if media.filename else {}
    if media.data is not None:
        return {"inlineData": {"mimeType": media.media_type, "data": media.data, **named}}
    if media.url is None:
        return {"text": media.marker}
    return {"fileData": {"fileUri": media.url, "mimeType": media.media_type, **named}}


def _response(result: Result) -> Json:
    """ADK's responses are objects: it puts what is none under `result`, and an error under `error`."""
    if result.failed:
        return {"response": {"error": result.output}}
    if result.pieces:
        return {"response": {"result": _text(result.pieces)}, "parts": list(_blobs(result.pieces))}
    return {"response": result.output if is_object(result.output) else {"result": result.output}}


def _text(pieces: Iterable[Words | Media]) -> str:
    return "\n".join(piece.text for piece in pieces if isinstance(piece, Words))


def _blobs(pieces: Iterable[Words | Media]) -> Iterator[Any]:
    for piece in pieces:
        if isinstance(piece, Media) and ("inlineData" in (part := _media(piece)) or "fileData" in part):
            yield part


def _usage(group: Group) -> Json:
    if group.usage is None:
        return {}
    asked, said = group.usage
    counts = {"promptTokenCount": asked, "candidatesTokenCount": said, "totalTokenCount": asked + said}
    return {"usageMetadata": counts}
