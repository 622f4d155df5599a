"""From what a caller gives to what a store keeps: the door check, derived values, media taken out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from plait import formats, jsontext
from plait.errors import InvalidMessageError, InvalidMessageTypeError, UsageError
from plait.formats import native
from plait.logic import door, estimate, media
from plait.logic.ids import check_message_id
from plait.logic.sanitize import sanitize
from plait.logic.shape import is_list, is_mapping, is_object
from plait.model import Format, Message, Source
from plait.store.protocol import Media, NewMessage

_WORDS_KEYS: Final = {"id", "role", "parts"}
_WORDS_PART_KEYS: Final = {"type", "text"}
_USUAL_ROLES: Final = {"user", "assistant", "system", "tool"}


class Rules(Struct, frozen=True):
    """What a store's owner set for all its messages."""

    reserved_metadata_keys: frozenset[str] = frozenset()
    counter: estimate.Counter | None = None


class Given(Struct, frozen=True):
    """How a message was given: by whom, under which id and format, and whether to keep it verbatim.

    `spare_id` was made for it, in case it carries none, or carries one that is not to count (`own_id`).
    """

    spare_id: str
    at_us: int
    id: str | None = None
    format: str | None = None
    source: Source = "server"
    verbatim: bool = False
    own_id: bool = True


LARGE: Final = 256 << 10
"""Preparing so many characters takes some milliseconds, and so does preparing a list or object with this many"""
CHILD: Final = 64
"""times its items."""


def is_large(message: object) -> bool:
    """Whether preparing this, a message or several, takes so long that an event loop should not wait for it."""
    room, stack = LARGE, [message]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            room -= len(item)
        elif isinstance(item, Message):
            room -= item.bytes
        elif is_object(item):
            room -= CHILD * len(item)
            if room > 0:
                stack.extend(item.values())
        elif isinstance(item, list | tuple):
            inside = cast("Sequence[object]", item)
            room -= CHILD * len(inside)
            if room > 0:
                stack.extend(inside)
        if room <= 0:
            return True
    return False


def prepare(message: object, given: Given, rules: Rules) -> NewMessage:
    """`message` checked and ready to be stored; raises `InvalidMessageError` before anything is written."""
    if is_object(message) and given.format is None:
        words = _words(message, given, rules)
        if words is not None:
            return words
    if isinstance(message, Message):
        given = _as_it_was(message, given)
        message = message.content
    if not is_mapping(message):
        kind = type(message).__name__
        raise InvalidMessageTypeError(f"message is a {kind}; pass a dict, such as plait.user('…')")
    reader = formats.named(given.format) if given.format else formats.recognize(message)
    if reader is native.FORMAT:
        message = _native(message, given, rules)
    return _new(message, reader, given, rules)


def _words(message: Mapping[str, Any], given: Given, rules: Rules) -> NewMessage | None:
    """A native message that is strings in text parts and nothing else, as most are; `None` if it is not.

    Such a message is as it should be: JSON says strings exactly, none of them is media, and there
    is nothing to take off. It goes in one pass: calls cost more here than what they do.
    """
    role, parts, id = message.get("role"), message.get("parts"), message.get("id")
    if type(role) is not str or not role or not is_list(parts) or not message.keys() <= _WORDS_KEYS:
        return None
    for key in message:
        if type(key) is not str:
            return None
    for part in parts:
        if not is_object(part) or part.keys() != _WORDS_PART_KEYS or part["type"] != "text":
            return None
        text = part["text"]
        if type(text) is not str or text.startswith("data:") or type(part["type"]) is not str:
            return None
        for key in part:
            if type(key) is not str:
                return None
    made = id is None and given.id is None
    if id is None:
        message, id = _with_id(message, given), given.spare_id if given.id is None else given.id
    elif type(id) is not str or given.id is not None:
        return None
    data = _utf8(message)
    return NewMessage(
        id if made else check_message_id(id),
        role if role in _USUAL_ROLES else kept_role(role),
        native.FORMAT.name,
        data.decode(),
        len(data),
        _tokens(parts) if rules.counter is None else estimate.stamp(message, native.FORMAT, rules.counter),
        given.at_us,
        (),
        made,
    )


def _tokens(parts: list[Any]) -> int:
    """The estimate of text parts; quicker after they were encoded, for then Python has their UTF-8 at hand."""
    tokens = estimate.MESSAGE_TOKENS
    for part in parts:
        tokens += estimate.estimate_text(part["text"])
    return tokens


def _as_it_was(message: Message, given: Given) -> Given:
    """A message read from a session keeps its id and format when it is written to another."""
    return replace(given, id=message.id if given.id is None else given.id, format=message.format)


def _native(message: Mapping[str, Any], given: Given, rules: Rules) -> Mapping[str, Any]:
    _check_native(message)
    message = _with_id(message, given)
    if given.verbatim:
        return message
    return sanitize(message, source=given.source, reserved_metadata_keys=rules.reserved_metadata_keys)


def _with_id(message: Mapping[str, Any], given: Given) -> Mapping[str, Any]:
    """A native message with its id in it, in front if it had none."""
    own = message.get("id")
    if own is None:
        id = given.spare_id if given.id is None else given.id
        rest = {key: item for key, item in message.items() if key != "id"} if "id" in message else message
        return {"id": id, **rest}
    if given.id is not None and own != given.id:
        raise UsageError(f"the message has the id {own!r}, but id={given.id!r} was given; give one")
    return message


def _check_native(message: Mapping[str, Any]) -> None:
    parts = message.get("parts")
    if message.get("id") is not None:
        check_message_id(message["id"])
    if not isinstance(message.get("role"), str) or not message["role"]:
        raise InvalidMessageError("role must be a word such as 'user' or 'assistant'", path="role")
    if not is_list(parts):
        raise InvalidMessageError("parts must be a list of objects, each with a type", path="parts")
    for n, part in enumerate(parts):
        if not is_object(part):
            raise InvalidMessageError(f"parts[{n}] must be an object with a type", path=f"parts[{n}]")
        if not isinstance(part.get("type"), str):
            raise InvalidMessageError(f"parts[{n}].type must be a word such as 'text'", path=f"parts[{n}].type")


def _new(message: Mapping[str, Any], reader: Format, given: Given, rules: Rules) -> NewMessage:
    """What is stored of `message`."""
    id = given.id if given.id is not None or not given.own_id else reader.id(message)
    text, items = _checked(message, _encode(message), reader)
    return NewMessage(
        id=check_message_id(given.spare_id if id is None else id),
        role=kept_role(reader.role(message)),
        format=reader.name,
        body=text,
        bytes=media.hydrated_bytes(text, items),
        tokens=estimate.stamp(message, reader, rules.counter),
        created_at_us=given.at_us,
        media=items,
        made_id=given.id is None and id in (None, given.spare_id),
    )


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
    return _utf8(message).decode()


def _utf8(message: Mapping[str, Any]) -> bytes:
    try:
        return jsontext.utf8(message)
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise door.culprit(message) from None


def _check(message: Mapping[str, Any], text: str) -> None:
    try:
        door.check_exact(message, text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidMessageError):
            raise
        raise door.culprit(message) from None


def kept_role(role: str) -> str:
    """The role as a column can hold it: the message itself keeps it exactly."""
    return role.encode("utf-8", "replace").decode().replace("\x00", "�")[:512]
