"""Writes Pydantic AI's messages as JSON: `ModelMessagesTypeAdapter.validate_json` makes objects of a list of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from plait.formats.adk import CODE
from plait.formats.crossing import Plain
from plait.formats.pieces import Call, Group, Media, Piece, Result, Thought, Words, own_of
from plait.logic.shape import is_object
from plait.model import Json

_SIGNED: Final = {
    "openai": ("itemId", "reasoningEncryptedContent"),
    "anthropic": ("", "signature"),
}
"""Where each provider's own keeps a thought's id and its signature."""


class PydanticAI(Plain):
    """Requests and responses of Pydantic AI's own go out as they are."""

    own = frozenset({"pydantic-ai"})

    def write(self, group: Group) -> list[Json]:
        at = _time(group.at)
        parts = list(_parts(group, at))
        if not parts:
            return []
        if group.kind == "assistant":
            return [{"kind": "response", "parts": parts, "timestamp": at, **_usage(group)}]
        return [{"kind": "request", "parts": parts, "timestamp": at}]


def make(session_id: str) -> PydanticAI:
    """A writer."""
    return PydanticAI()


def _time(at: dt.datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _parts(group: Group, at: str) -> Iterator[Json]:
    match group.kind:
        case "assistant":
            for piece in group.pieces:
                yield from _said(piece, at)
        case "tool":
            for piece in group.pieces:
                if isinstance(piece, Result):
                    yield _return(piece, at)
        case "system":
            text = "\n".join(piece.text for piece in group.pieces if isinstance(piece, Words))
            yield {"part_kind": "system-prompt", "content": text, "timestamp": at}
        case _:
            if (content := _content(group.pieces)) != []:
                yield {"part_kind": "user-prompt", "content": content, "timestamp": at}


def _content(pieces: Iterable[Piece]) -> str | list[Any]:
    """Text alone is just text."""
    content = [item for piece in pieces for item in _item(piece)]
    return content[0] if len(content) == 1 and isinstance(content[0], str) else content


def _item(piece: Piece) -> Iterator[Any]:
    match piece:
        case Words():
            yield piece.text
        case Media(data=str()):
            yield _binary(piece)
        case Media(url=str(url)):
            yield {"kind": f"{piece.family}-url", "url": url, **_typed(piece)}
        case Media(file_id=str(id)):  # who says so is a reader of OpenAI's
            yield {"kind": "uploaded-file", "file_id": id, "provider_name": "openai", **_typed(piece)}
        case _:
            pass


def _typed(media: Media) -> Json:
    """The media type, if it is one and not a family of them."""
    return {} if media.media_type.endswith("/*") else {"media_type": media.media_type}


def _binary(media: Media) -> Json:
    return {"kind": "binary", "data": media.data, "media_type": media.media_type}


def _said(piece: Piece, at: str) -> Iterator[Json]:
    match piece:
        case Words():
            yield {"part_kind": "text", "content": piece.text, **_details(piece)}
        case Thought():
            yield {"part_kind": "thinking", "content": piece.text, **(_details(piece) or _signature(piece))}
        case Media(data=str()):
            yield {"part_kind": "file", "content": _binary(piece)}
        case Media():  # a file that a model made is bytes here: where it is stands in words
            yield {"part_kind": "text", "content": piece.url or piece.marker}
        case Call(by_provider=True):
            yield {**_call(piece), **_ran_by(piece), "part_kind": "builtin-tool-call"}
            if piece.result is not None:
                yield _returned(replace(piece.result, name=piece.name), at)
        case Call():
            yield {**_call(piece), **_details(piece)}
        case Result(by_provider=True):
            yield _returned(piece, at)
        case _:
            pass


def _call(call: Call) -> Json:
    args = call.fields if call.input is None or is_object(call.input) else call.arguments
    return {"part_kind": "tool-call", "tool_name": call.name, "args": args, "tool_call_id": call.id}


def _returned(result: Result, at: str) -> Json:
    """What the provider itself got by a call."""
    named = {"provider_name": "google"} if result.name == CODE else {}
    return {**_return(result, at), **named, "part_kind": "builtin-tool-return"}


def _ran_by(call: Call) -> Json:
    """Who ran a call, where its arguments are what Pydantic AI gives back to that provider: Google's code."""
    return {"provider_name": "google", **_details(call)} if call.name == CODE and "google" in call.own else {}


def _details(piece: Words | Thought | Call) -> Json:
    """Google's signature, which is a part's own and goes back to it with that part."""
    signature = own_of(piece, "google").get("thoughtSignature")
    if not isinstance(signature, str):
        return {}
    return {"provider_name": "google", "provider_details": {"thought_signature": signature}}


def _return(result: Result, at: str) -> Json:
    content = [item for piece in result.pieces for item in _item(piece)] if result.pieces else result.output
    return {
        "part_kind": "tool-return",
        "tool_name": result.name or "",
        "content": content,
        "tool_call_id": result.id,
        "outcome": "failed" if result.failed else "success",
        "timestamp": at,
    }


def _signature(thought: Thought) -> Json:
    """What lets Pydantic AI give a thought back to the provider whose it is; to others it is words."""
    for provider, (id, signature) in _SIGNED.items():
        own = thought.own.get(provider)
        if is_object(own):
            kept = {"id": own.get(id), "signature": own.get(signature)}
            return {"provider_name": provider, **{key: item for key, item in kept.items() if isinstance(item, str)}}
    return {}


def _usage(group: Group) -> Json:
    if group.usage is None:
        return {}
    return {"usage": {"input_tokens": group.usage[0], "output_tokens": group.usage[1]}}
