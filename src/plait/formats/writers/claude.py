"""Writes entries of Claude Code's transcripts, as the session stores of the Claude Agent SDK keep them.

The `message` of an entry is one of Anthropic's Messages API.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Final

from plait.formats import native
from plait.formats.crossing import Plain
from plait.formats.pieces import Call, Group, Media, Piece, Result, Thought, Words, own_of, uuid_of
from plait.model import Json

_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DOCUMENTS: Final = ("application/pdf",)


class Claude(Plain):
    """Entries of Claude Code's own go out as they are; each other one goes on from the entry before it."""

    own = frozenset({"claude-code"})

    def __init__(self, session_id: str) -> None:
        self._session = uuid_of(session_id)
        self._parent: str | None = None

    def kept(self, content: Json) -> list[Json]:
        self._session = native.text_of(content.get("sessionId")) or self._session
        if content.get("type") in ("user", "assistant", "system", "attachment") and not content.get("isSidechain"):
            self._parent = native.text_or_none(content.get("uuid")) or self._parent
        return [content]

    def write(self, group: Group) -> list[Json]:
        content = [block for piece in group.pieces for block in _block(piece)]
        if not content:
            return []
        said = group.kind == "assistant"
        body: Json = {"role": "assistant" if said else "user", "content": _content(content, group.kind)}
        parent, self._parent = self._parent, uuid_of(group.id)
        marks = {"system": {"isMeta": True}, "summary": {"isCompactSummary": True}}.get(group.kind, {})
        entry: Json = {
            "type": "assistant" if said else "user",
            "uuid": self._parent,
            "parentUuid": parent,
            "sessionId": self._session,
            "timestamp": _time(group.at),
            "isSidechain": False,
            "userType": "external",
            **marks,
            "message": {**body, **_reply(group)} if said else body,
        }
        return [entry]


def make(session_id: str) -> Claude:
    """A writer of entries of one session."""
    return Claude(session_id)


def _time(at: dt.datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _content(blocks: list[Json], kind: str) -> str | list[Json]:
    alone = kind != "assistant" and len(blocks) == 1 and blocks[0]["type"] == "text"
    return blocks[0]["text"] if alone else blocks


def _reply(group: Group) -> Json:
    """What else a reply of the Messages API says."""
    asked, said = group.usage or (0, 0)
    return {
        "id": f"msg_{uuid_of(group.id).replace('-', '')}",
        "type": "message",
        "model": "<synthetic>",
        "stop_reason": "tool_use" if any(isinstance(piece, Call) for piece in group.pieces) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": asked, "output_tokens": said},
    }


def _block(piece: Piece) -> Iterator[Json]:
    match piece:
        case Words():
            if piece.text.strip():  # the API refuses blank text
                yield {"type": "text", "text": piece.text}
        case Thought():
            yield from _thinking(piece)
        case Media():
            yield _media(piece)
        case Call(by_provider=False):
            yield {"type": "tool_use", "id": piece.id, "name": piece.name, "input": piece.fields}
        case Result(by_provider=False):
            yield _result(piece)
        case _:
            pass


def _thinking(thought: Thought) -> Iterator[Json]:
    """Thinking with a signature of Anthropic's: it refuses any other."""
    own = own_of(thought, "anthropic")
    if isinstance(own.get("signature"), str):
        yield {"type": "thinking", "thinking": thought.text, "signature": own["signature"]}
    elif isinstance(own.get("redactedData"), str):
        yield {"type": "redacted_thinking", "data": own["redactedData"]}


def _media(media: Media) -> Json:
    kind = "image" if media.family == "image" else "document"
    if media.data is not None and media.media_type in (*_IMAGES, *_DOCUMENTS):
        source = {"type": "base64", "media_type": media.media_type, "data": media.data}
    elif media.url is not None and (kind == "image" or media.media_type in _DOCUMENTS):
        source = {"type": "url", "url": media.url}
    else:
        return {"type": "text", "text": media.url or media.marker}
    titled = {"title": media.filename} if media.filename and kind == "document" else {}
    return {"type": kind, "source": source, **titled}


def _result(result: Result) -> Json:
    content: str | list[Json] = list(_blocks(result.pieces)) if result.pieces else result.text
    return {"type": "tool_result", "tool_use_id": result.id, "content": content, "is_error": result.failed}


def _blocks(pieces: Iterable[Words | Media]) -> Iterator[Json]:
    for piece in pieces:
        yield from _block(piece)
