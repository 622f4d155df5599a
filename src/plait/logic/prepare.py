"""From what a caller gives to what a store keeps: the door check, derived values, media taken out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from plait import formats, jsontext
from plait.errors import InvalidMessageError, InvalidMessageTypeError, UsageError
from plait.formats import native
from plait.logic import door, estimate, media
from plait.logic.ids import check_message_id
from plait.logic.sanitize import sanitize
from plait.model import Format, Message, Source
from plait.store.protocol import Media, NewMessage

_WORDS_KEYS: Final = {"id", "role", "parts"}
_WORDS_PART_KEYS: Final = {"type", "text"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a store's owner set for all its messages."""

    reserved_metadata_keys: frozenset[str] = frozenset()
    counter: estimate.Counter | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """How a message was given: by whom, under which id and format, and whether to keep it verbatim.

    `spare_id` was made for it, in case it carries none.
    """

    spare_id: str
    at_us: int
    id: str | None = None
    format: str | None = None
    source: Source = "server"
    verbatim: bool = False


def prepare(message: object, given: Given, rules: Rules) -> NewMessage:
    """`message` checked and ready to be stored; raises `InvalidMessageError` before anything is written."""
    if isinstance(message, Message):
        given = _as_it_was(message, given)
        message = message.content
    if not isinstance(message, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        kind = type(message).__name__
        raise InvalidMessageTypeError(f"message is a {kind}; pass a dict, such as plait.user('…')")
    reader = formats.named(given.format) if given.format else formats.recognize(message)
    if reader is native.FORMAT:
        message = _native(message, given, rules)
    id = given.id if given.id is not None else reader.id(message)
    made = id is None
    return _encoded(message, check_message_id(given.spare_id if id is None else id), made, reader, given, rules)


def _as_it_was(message: Message, given: Given) -> Given:
    """A message read from a session keeps its id and format when it is written to another."""
    id = given.id if given.id is not None else message.id
    return Given(given.spare_id, given.at_us, id, message.format, given.source, given.verbatim)


def _native(message: Mapping[str, Any], given: Given, rules: Rules) -> Mapping[str, Any]:
    _check_native(message)
    if given.id is not None and message.get("id", given.id) != given.id:
        raise UsageError(f"the message has the id {message['id']!r}, but id={given.id!r} was given; give one")
    if message.get("id") is None:
        id = given.spare_id if given.id is None else given.id
        message = {"id": id, **{key: item for key, item in message.items() if key != "id"}}
    if given.verbatim:
        return message
    return sanitize(message, source=given.source, reserved_metadata_keys=rules.reserved_metadata_keys)


def _check_native(message: Mapping[str, Any]) -> None:
    parts = message.get("parts")
    if message.get("id") is not None:
        check_message_id(message["id"])
    if not isinstance(message.get("role"), str) or not message["role"]:
        raise InvalidMessageError("role must be a word such as 'user' or 'assistant'", path="role")
    if not isinstance(parts, list):
        raise InvalidMessageError("parts must be a list of objects, each with a type", path="parts")
    for n, part in enumerate(parts):
        if not isinstance(part, dict):
            raise InvalidMessageError(f"parts[{n}] must be an object with a type", path=f"parts[{n}]")
        if not isinstance(part.get("type"), str):
            raise InvalidMessageError(f"parts[{n}].type must be a word such as 'text'", path=f"parts[{n}].type")


def _encoded(message: Mapping[str, Any], id: str, made: bool, reader: Format, given: Given, rules: Rules) -> NewMessage:
    items: tuple[Media, ...] = ()
    text = _encode(message)
    if not _only_words(message):
        text, items = _checked(message, text, reader)
    return NewMessage(
        id=id,
        role=_role(reader.role(message)),
        format=reader.name,
        body=text,
        bytes=media.hydrated_bytes(text, items),
        tokens=estimate.stamp(message, reader, rules.counter),
        created_at_us=given.at_us,
        media=items,
        made_id=made,
    )


def _only_words(message: Mapping[str, Any]) -> bool:
    """Whether a message is strings in text parts and nothing else, as most are.

    JSON says strings exactly and none of them is media, so nothing is left to check: that spares
    half the time of `prepare`.
    """
    parts = message.get("parts")
    if type(message) is not dict or type(parts) is not list or not message.keys() <= _WORDS_KEYS:
        return False
    return type(message.get("role")) is str and type(message.get("id")) is str and all(map(_is_words, parts))


def _is_words(part: Any) -> bool:
    if type(part) is not dict or part.keys() != _WORDS_PART_KEYS:
        return False
    text = part["text"]
    return type(text) is str and type(part["type"]) is str and not text.startswith("data:")


def _checked(message: Mapping[str, Any], text: str, reader: Format) -> tuple[str, tuple[Media, ...]]:
    """The text of `message` without its media, and those; raises unless the text says exactly what it does."""
    marked: Mapping[str, Any] = message
    found: list[media.Payload] = []
    if media.may_hold_media(text):
        marked, found = media.take_out(message, ("parts",) if reader is native.FORMAT else None)
        text = _encode(marked) if found else text
    _check(marked, text)
    cut = media.cut_out(text, found) if found else None
    if cut is not None:
        return cut
    return (_encode(message) if found else text), ()


def differs(stored: Message, new: NewMessage) -> bool:
    """Whether what came is not what is stored, media and all; how it is spelled in JSON does not count."""
    text = media.whole_text(new)
    if stored.format != new.format or text is None:
        return True
    return stored.to_json() != text and jsontext.encode(stored.content) != text


def _encode(message: Mapping[str, Any]) -> str:
    try:
        return jsontext.encode(message)
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise door.culprit(message) from None


def _check(message: Mapping[str, Any], text: str) -> None:
    try:
        door.check_exact(message, text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidMessageError):
            raise
        raise door.culprit(message) from None


def _role(role: str) -> str:
    """The role as a column can hold it: the message itself keeps it exactly."""
    return role.encode("utf-8", "replace").decode().replace("\x00", "�")[:512]
