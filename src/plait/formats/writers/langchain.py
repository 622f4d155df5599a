"""Writes LangChain's messages as `message_to_dict` does: `messages_from_dict` makes objects of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from plait import jsontext
from plait.formats.crossing import Plain
from plait.formats.langchain import SIGNATURE, SIGNATURES
from plait.formats.pieces import Call, Group, Media, Piece, Result, Thought, Words, own_of
from plait.logic.shape import is_object
from plait.model import Json


class LangChain(Plain):
    """Messages of LangChain's own go out as they are."""

    own = frozenset({"langchain"})

    def write(self, group: Group) -> list[Json]:
        if group.kind == "tool":
            return list(_results(group))
        blocks, calls = _blocks(group.pieces), _calls(group.pieces)
        if group.kind == "assistant":
            said = blocks or any(calls.values())
            return [_message("ai", group.id, blocks, **calls, **_signatures(group), **_usage(group))] if said else []
        return [_message("system" if group.kind == "system" else "human", group.id, blocks)] if blocks else []


def make(session_id: str) -> LangChain:
    """A writer."""
    return LangChain()


def _message(type: str, id: str, content: list[Json], **more: Any) -> Json:
    return {"type": type, "data": {"content": _content(content), "type": type, "id": id, **more}}


def _content(blocks: list[Json]) -> str | list[Json]:
    """Text alone is just text."""
    if not blocks:
        return ""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _results(group: Group) -> Iterator[Json]:
    for said in group.said:
        for n, piece in enumerate(said.pieces):
            if isinstance(piece, Result):
                id = said.id if n == 0 else f"{said.id}.{n}"
                content = _blocks(piece.pieces) if piece.pieces else [{"type": "text", "text": piece.text}]
                named = {} if piece.name is None else {"name": piece.name}
                status = "error" if piece.failed else "success"
                yield _message("tool", id, content, tool_call_id=piece.id, status=status, **named)


def _calls(pieces: Iterable[Piece]) -> Json:
    """Calls whose input is an object, and the others, which LangChain keeps apart."""
    calls: list[Json] = []
    odd: list[Json] = []
    for piece in pieces:
        if not isinstance(piece, Call) or piece.by_provider:
            continue
        if is_object(piece.input) or piece.input is None:
            calls.append({"name": piece.name, "args": piece.fields, "id": piece.id, "type": "tool_call"})
        else:
            text = jsontext.encode(piece.input) if not isinstance(piece.input, str) else piece.input
            error = "its arguments are no JSON object"
            odd.append({"name": piece.name, "args": text, "id": piece.id, "error": error, "type": "invalid_tool_call"})
    return {"tool_calls": calls, "invalid_tool_calls": odd}


def _signatures(group: Group) -> Json:
    """Google's signatures of calls, where LangChain's models of Google look for them."""
    found = {piece.id: own_of(piece, "google").get(SIGNATURE) for piece in group.pieces if isinstance(piece, Call)}
    signed = {id: signature for id, signature in found.items() if isinstance(signature, str)}
    return {"additional_kwargs": {SIGNATURES: signed}} if signed else {}


def _usage(group: Group) -> Json:
    if group.usage is None:
        return {}
    asked, said = group.usage
    return {"usage_metadata": {"input_tokens": asked, "output_tokens": said, "total_tokens": asked + said}}


def _blocks(pieces: Iterable[Piece]) -> list[Json]:
    return [block for piece in pieces for block in _block(piece)]


def _block(piece: Piece) -> Iterator[Json]:
    """LangChain's standard content blocks."""
    match piece:
        case Words():
            yield {"type": "text", "text": piece.text}
        case Thought():
            yield _reasoning(piece)
        case Media():
            yield _file(piece)
        case _:
            pass


def _reasoning(thought: Thought) -> Json:
    block: Json = {"type": "reasoning", "reasoning": thought.text}
    openai, extras = own_of(thought, "openai"), dict(own_of(thought, "anthropic"))
    if isinstance(id := openai.get("itemId"), str):
        block["id"] = id
    if isinstance(sealed := openai.get("reasoningEncryptedContent"), str):
        extras["encrypted_content"] = sealed
    return {**block, "extras": extras} if extras else block


def _file(media: Media) -> Json:
    kind = "file" if media.family == "document" else media.family
    places = {"base64": media.data, "url": media.url, "file_id": media.file_id}
    block: Json = {"type": kind, "mime_type": media.media_type}
    block.update((key, value) for key, value in places.items() if value is not None)
    return {**block, "extras": {"filename": media.filename}} if media.filename else block
