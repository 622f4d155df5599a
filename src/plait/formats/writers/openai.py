"""Writes items of OpenAI's Responses API, as the OpenAI Agents SDK takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from plait.formats.crossing import Plain
from plait.formats.pieces import Call, Group, Media, Piece, Result, Thought, Words, own_of
from plait.logic.shape import is_list
from plait.model import Json

_EASY: Final = {"role", "content"}
_ROLES: Final = ("user", "assistant", "system", "developer")
_AUDIO: Final = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}


class OpenAI(Plain):
    """Responses items go out as they are, and so do chat messages that are such items too."""

    own = frozenset({"openai", "openai-chat"})

    def takes(self, content: Json, format: str) -> bool:
        """A chat message of `role` and text is an item as well; one with blocks or calls is written anew."""
        easy = content.keys() == _EASY and content["role"] in _ROLES and not is_list(content["content"])
        return format == "openai" or (easy and content["content"] is not None)

    def write(self, group: Group) -> list[Json]:
        match group.kind:
            case "assistant":
                return [item for piece in group.pieces for item in _said(piece)]
            case "tool":
                return [_output(piece) for piece in group.pieces if isinstance(piece, Result)]
            case _:
                return list(_message("system" if group.kind == "system" else "user", group.pieces))


def make(session_id: str) -> OpenAI:
    """A writer."""
    return OpenAI()


def _message(role: str, pieces: list[Piece]) -> Iterator[Json]:
    if len(pieces) == 1 and isinstance(pieces[0], Words):
        yield {"role": role, "content": pieces[0].text}
    elif content := _blocks(pieces):
        yield {"role": role, "content": content}


def _said(piece: Piece) -> Iterator[Json]:
    """One item for each thing that a model said."""
    match piece:
        case Words():
            yield {"role": "assistant", "content": piece.text}
        case Thought():
            yield from _reasoning(piece)
        case Call(by_provider=False):
            yield {"type": "function_call", "call_id": piece.id, "name": piece.name, "arguments": piece.arguments}
        case Media():  # an assistant's message holds words alone
            yield from _message("user", [piece])
        case _:
            pass


def _reasoning(thought: Thought) -> Iterator[Json]:
    """Reasoning of OpenAI's own: it refuses any other."""
    own = own_of(thought, "openai")
    if not isinstance(id := own.get("itemId"), str):
        return
    summary = [{"type": "summary_text", "text": thought.text}] if thought.text else []
    sealed = own.get("reasoningEncryptedContent")
    yield {
        "type": "reasoning",
        "id": id,
        "summary": summary,
        **({"encrypted_content": sealed} if isinstance(sealed, str) else {}),
    }


def _output(result: Result) -> Json:
    output = _blocks(result.pieces) if result.pieces else result.text
    return {"type": "function_call_output", "call_id": result.id, "output": output}


def _blocks(pieces: Iterable[Piece]) -> list[Json]:
    return [block for piece in pieces for block in _block(piece)]


def _block(piece: Piece) -> Iterator[Json]:
    match piece:
        case Words():
            yield {"type": "input_text", "text": piece.text}
        case Media(data=str(data)) if piece.media_type in _AUDIO:
            yield {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO[piece.media_type]}}
        case Media() if piece.family == "image":
            place = {"file_id": piece.file_id} if piece.data_url is None else {"image_url": piece.data_url}
            yield {"type": "input_image", "detail": "auto", **place}
        case Media():
            named = {"filename": piece.filename} if piece.filename else {}
            yield {"type": "input_file", **_place(piece), **named}
        case _:
            pass


def _place(media: Media) -> Json:
    if media.data is not None:
        return {"file_data": media.data_url}
    return {"file_id": media.file_id} if media.url is None else {"file_url": media.url}
