"""Taking inline media out of a message's text, and putting it back exactly.

A payload is cut out of the JSON text and remembered by its place (a character offset) and its
hash. Nothing in the text points anywhere, so no text from outside can be mistaken for a pointer;
the part's own media type, header and field stay where they are. Only canonical base64 is taken
out, because only that can be spelled again from the bytes; anything else stays inline.

What counts as media follows Cloudflare's Sessions: type decides, not size.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from plait.logic.shape import Value
from plait.model import Attachment
from plait.store.protocol import Media, NewMessage

MAX_DEPTH = 8
"""How deep below `parts` media is looked for."""

_MARK = re.compile("plait-media:[0-9]+:[0-9a-f]{64}")
_DATA_URL = re.compile(r"data:([^,]*);base64,", re.DOTALL)


class Payload(Struct, frozen=True):
    """Bytes found in a message, or the claim on bytes put ahead of it."""

    data: bytes | None
    hash: bytes
    size: int
    upload: str | None


def may_hold_media(text: str) -> bool:
    """Whether it is worth walking the message: media is inline only where one of these words is."""
    return ";base64," in text or '"mediaType"' in text or '"media_type"' in text or '"mimeType"' in text


def take_out(message: Mapping[str, Any], fields: Collection[str] | None) -> tuple[Mapping[str, Any], list[Payload]]:
    """`message` with each payload below `fields` (`None`: all) replaced by its mark, and the payloads.

    A message that holds no media comes back as the same object.
    """
    found: list[Payload] = []
    marked = {key: _walk(item, 0, found) if fields is None or key in fields else item for key, item in message.items()}
    return (marked, found) if found else (message, found)


def cut_out(text: str, found: list[Payload]) -> tuple[str, tuple[Media, ...]] | None:
    """`text` without its marks, and the media with their places.

    `None` if a mark is not there exactly once, because somebody wrote one into the message: such
    a message stays as it is, media inline.
    """
    marks = {_mark(n, payload): payload for n, payload in enumerate(found)}
    there = [run for run in _MARK.finditer(text) if run[0] in marks]
    if sorted(run[0] for run in there) != sorted(marks):
        return None
    pieces: list[str] = []
    media: list[Media] = []
    at = start = 0
    for run in there:
        pieces.append(text[start : run.start()])
        at += run.start() - start
        start = run.end()
        payload = marks[run[0]]
        media.append(Media(at, payload.hash, payload.size, payload.data, payload.upload))
    return "".join([*pieces, text[start:]]), tuple(media)


def _mark(n: int, payload: Payload) -> str:
    return f"plait-media:{n}:{payload.hash.hex()}"


def _walk(value: Value | Attachment, depth: int, found: list[Payload]) -> Any:
    if depth > MAX_DEPTH:
        return value
    if type(value) is list:
        return [_walk(item, depth + 1, found) for item in value]
    if type(value) is dict:
        return {key: _field(value, key, item, depth, found) for key, item in value.items()}
    return value


def _field(part: dict[str, Any], field: str, value: Any, depth: int, found: list[Payload]) -> Any:
    """What a field of `part` says, with a mark in the place of each payload it holds."""
    if isinstance(value, Attachment):
        header = "" if field == "data" else f"data:{value.media_type};base64,"
        return header + _marked(Payload(None, bytes.fromhex(value.hash), value.size, value.upload), found)
    if type(value) is not str:
        return _walk(value, depth + 1, found)
    before = _header(part, field, value)
    data = None if before is None else canonical_bytes(value[len(before) :])
    if before is None or data is None:
        return value
    return before + _marked(Payload(data, hashlib.sha256(data).digest(), len(data), None), found)


def _header(part: dict[str, Any], field: str, value: str) -> str | None:
    """What stands before the base64 in a field that holds media; `None` if it holds none, or text.

    A declared type is that of `url` or `data`; a data URL elsewhere in the part says its own.
    """
    url = _DATA_URL.match(value)
    if url is None and (field != "data" or _points_elsewhere(part.get("url"))):
        return None
    declared = _declared_type(part) if field in ("url", "data") else None
    media_type = declared if url is None or declared is not None else url[1]
    if media_type is None or media_type.lower().startswith("text/"):
        return None
    return "" if url is None else url[0]


def _points_elsewhere(url: object) -> bool:
    """Whether a part says where its media is, so that `data` beside that is something else."""
    return isinstance(url, str) and _DATA_URL.match(url) is None


def _declared_type(part: dict[str, Any]) -> str | None:
    declared = (part.get(key) for key in ("mediaType", "media_type", "mimeType"))
    return next((value for value in declared if isinstance(value, str)), None)


def _marked(payload: Payload, found: list[Payload]) -> str:
    found.append(payload)
    return _mark(len(found) - 1, payload)


def canonical_bytes(spelled: str) -> bytes | None:
    """The bytes that `spelled` is the canonical base64 of, or `None` if it is not canonical."""
    try:
        data = binascii.a2b_base64(spelled, strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return data if binascii.b2a_base64(data, newline=False).decode() == spelled else None


def base64_length(size: int) -> int:
    """How many characters the canonical base64 of `size` bytes takes."""
    return (size + 2) // 3 * 4


def hydrated_bytes(text: str, media: Iterable[Media]) -> int:
    """The UTF-8 size of a message once its media is back in its text."""
    size = len(text) if text.isascii() else len(text.encode())
    return size + sum(base64_length(item.size) for item in media)


def inline(text: str, payloads: Iterable[tuple[int, bytes]]) -> str:
    """`text` with the base64 of each payload put back at its place (places rise)."""
    pieces: list[str] = []
    start = 0
    for at, data in payloads:
        pieces.append(text[start:at])
        pieces.append(binascii.b2a_base64(data, newline=False).decode())
        start = at
    return "".join([*pieces, text[start:]])


def whole_text(message: NewMessage) -> str | None:
    """A message's text with its media in it, or `None` if some of that was put ahead."""
    payloads = [(item.at, item.data) for item in message.media if item.data is not None]
    return inline(message.body, payloads) if len(payloads) == len(message.media) else None
