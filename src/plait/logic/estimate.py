"""How many tokens a message will cost a model: an estimate that errs on the high side.

Models count tokens with vocabularies that are large, many and partly secret. This is a sum of
prices instead: each byte of the text costs what it costs, on average, in the dearest of eight
vocabularies (`docs/explanation/token-estimate.md` has the measurements, `benchmarks/estimate.py`
makes them). Letters that English is rich in are cheap, the others dear, because vocabularies
know English words best; scripts are priced one by one. No text costs more than one token a byte,
as in every vocabulary that falls back to bytes.
"""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from plait import jsontext
from plait.logic.shape import is_list, is_object
from plait.model import Attachment, Format, Json

Counter: TypeAlias = Callable[[Mapping[str, Any]], float]
"""A user's own count of one message's tokens, given its content."""

MESSAGE_TOKENS: Final = 4
"""What a message costs beside its content."""
CALL_TOKENS: Final = 56
"""What a tool call costs beside its name and input (what a provider of the dearest kind reported)."""
RESULT_TOKENS: Final = 16
"""What a tool's result costs beside its output."""
IMAGE_TOKENS: Final = 1_600
"""What an image costs, whatever its size; also any media whose size cannot be seen."""
MEDIA_TOKENS_MAX: Final = 20_000
"""The most that other media cost; below it, one token for 4 bytes."""

_log = logging.getLogger("plait")
_UNITS: Final = 20  # prices are in twentieths of a token
_HIDDEN: Final = ("step-start", "source-url", "source-document")  # for the interface; no model sees them
_TYPE_KEYS: Final = ("mediaType", "media_type", "mimeType", "mime_type")
_MEDIA_HINTS: Final = ('"data:', 'ediaType"', 'edia_type"', 'imeType"', 'ime_type"')
_OPAQUE_KEYS: Final = ("signature", "redactedData", "reasoningEncryptedContent")
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n"
_COUNT_MAX: Final = 2**53
_ASCII_BYTES: Final = bytes(range(0x80))
_SLICE: Final = 1 << 20  # characters looked at together, so that a huge text is not copied whole

_Prices: TypeAlias = tuple[bytes, int]


def _prices(default: float, entries: Iterable[tuple[float, Iterable[int]]]) -> _Prices:
    """A table of the price of each byte, and how many bytes one checksum can add up."""
    table = bytearray([round(default * _UNITS)] * 256)
    for price, values in entries:
        for value in values:
            table[value] = round(price * _UNITS)
    return bytes(table), 65_519 // max(table)


# UTF-8: ASCII and the first bytes of two-byte characters. Later and longer bytes cost nothing here.
_BYTES: Final = _prices(
    0.0,
    [
        (1.0, range(0x20)),  # control characters
        (0.1, b" "),
        (0.5, b"\n"),
        (0.2, b"\t"),
        (0.75, b'!"#$%&()*+:;<=>?@[\\]^`{|}~'),
        (0.8, b"-/_"),
        (1.0, b"',."),
        (1.2, b"0123456789"),
        (0.9, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        (0.15, b"cehlmoprst"),
        (0.5, b"dginuy"),
        (0.85, b"abfjkqvwxz"),
        (2.15, range(0xC3, 0xE0)),  # what is not named below: rare letters, combining marks
        (1.2, [0xC2]),  # Latin-1 signs
        (2.0, [0xC3]),  # Latin-1 letters
        (1.8, [0xC4]),  # Latin Extended-A
        (1.5, [0xCE, 0xCF]),  # Greek
        (0.9, [0xD0, 0xD1]),  # Cyrillic
        (1.25, [0xD7]),  # Hebrew
        (1.4, [0xD8, 0xD9]),  # Arabic
        (1.6, [0xDA, 0xDB]),  # Persian, Urdu
    ],
)
_ASCII: Final = (_BYTES[0], 65_519 // max(_BYTES[0][:0x80]))  # the same prices, in longer steps
# UTF-16: the upper byte of characters from U+0800 on, that is which 256 of them.
_ROWS: Final = _prices(
    3.5,  # scripts that some vocabularies spell in bytes; more than 3, for the spaces beside them
    [
        (0.0, range(0x08)),
        (1.45, [0x09]),  # Devanagari (Bengali: see _DEARER)
        (2.15, [0x0B]),  # Oriya, Tamil
        (2.45, [0x0C]),  # Telugu, Kannada
        (1.95, [0x0E]),  # Thai (Lao: see _DEARER)
        (2.45, [0x10]),  # Myanmar, Georgian
        (1.5, [0x20, 0x21, 0x25]),  # punctuation, letterlike signs and arrows, boxes
        (2.5, [0x22]),  # mathematics
        (1.15, [0x30]),  # kana
        (1.6, range(0x4E, 0xA0)),  # Han
        (1.55, range(0xAC, 0xD8)),  # Hangul
        (2.0, range(0xD8, 0xE0)),  # surrogates: two of them for emoji and all beyond U+FFFF
        (1.5, [0xFF]),  # full-width forms
    ],
)
# Scripts that share a row with a cheaper one: what each character costs on top.
_DEARER: Final = ((b"\xe0\xa6", 0.65), (b"\xe0\xa7", 0.65), (b"\xe0\xba", 1.5), (b"\xe0\xbb", 1.5))


def estimate_text(text: str) -> int:
    """Tokens of `text`: rarely fewer than a model counts, never more than its UTF-8 bytes."""
    if len(text) > _SLICE:
        return sum(estimate_text(text[at : at + _SLICE]) for at in range(0, len(text), _SLICE))
    if text.isascii():
        data = text.encode()
        return min(len(data), math.ceil(_sum(data, _ASCII) / _UNITS))
    data = text.encode("utf-8", "surrogatepass")
    wide = data.translate(None, _ASCII_BYTES)  # mostly little: quotes and dashes in English
    rows = wide.decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass")[::2]
    units = _sum(data, _BYTES) + _sum(rows, _ROWS)
    if b"\xe0" in wide:
        units += round(sum(wide.count(lead) * price for lead, price in _DEARER) * _UNITS)
    return min(len(data), math.ceil(units / _UNITS))


def _sum(data: bytes, prices: _Prices) -> int:
    """The prices of all bytes together.

    Adler-32's lower half is one plus the sum of the bytes, modulo 65,521: the fastest sum of bytes
    there is without numpy, exact while it stays below that.
    """
    table, step = prices
    priced = data.translate(table)
    if len(priced) <= step:
        return (zlib.adler32(priced) & 0xFFFF) - 1
    view = memoryview(priced)
    return sum((zlib.adler32(view[at : at + step]) & 0xFFFF) - 1 for at in range(0, len(priced), step))


def estimate_message(message: Mapping[str, Any], format: Format) -> int:
    """Tokens of a message of `format`: its words, reasoning, tool inputs and outputs, media and framing.

    Media have a fixed price; their inline base64 is not text. Never raises on odd content.
    """
    return MESSAGE_TOKENS + sum(_part(part) for part in format.parts(message))


def stamp(message: Mapping[str, Any], format: Format, counter: Counter | None = None) -> int:
    """The tokens to store with a message: the user's `counter`, or the estimate if there is none.

    A counter that raises or answers anything but a finite number from 0 on is passed over, and
    logged the first time.
    """
    if counter is None:
        return estimate_message(message, format)
    try:
        count = math.ceil(counter(message))
        if 0 <= count <= _COUNT_MAX:
            return count
        fault = f"answered {count}"
    except Exception as error:  # whatever it does, an append must not fail for it
        fault = f"failed with {error!r}"
    _warn_once(counter, fault)
    return estimate_message(message, format)


_warned: set[str] = set()


def _warn_once(counter: Counter, fault: str) -> None:
    name = getattr(counter, "__qualname__", type(counter).__qualname__)
    if name not in _warned:
        _warned.add(name)
        _log.warning("token counter %s %s; plait's own estimate stands in for it", name, fault)


def _part(part: Any) -> int:
    if not is_object(part):
        return _value(part)
    kind = part.get("type")
    text = part.get("text")
    if kind == "text" and isinstance(text, str):
        return estimate_text(text)
    if kind == "reasoning":
        return _reasoning(part)
    if kind == "file":
        return _file(part)
    if not isinstance(kind, str):
        return _value(part)
    if kind == "dynamic-tool" or kind.startswith("tool-"):
        return _tool(part, kind)
    if kind in _HIDDEN or kind.startswith("data-"):
        return estimate_text(text) if isinstance(text, str) else 0
    return _value(part)


def _reasoning(part: Json) -> int:
    """The words, or what lies encrypted beside them if that is more (a provider charges for that)."""
    words = next((value for key in ("text", "reasoning") if isinstance(value := part.get(key), str) and value), "")
    carried = part.get("providerMetadata")
    owners = carried.values() if is_object(carried) else ()
    opaque = [owner.get(key) for owner in owners if is_object(owner) for key in _OPAQUE_KEYS]
    sealed = sum(len(value) for value in opaque if isinstance(value, str))
    return max(estimate_text(words), math.ceil(sealed / 4))


def _tool(part: Json, kind: str) -> int:
    name = part.get("toolName")
    output = next((part[key] for key in ("output", "result", "errorText") if part.get(key) is not None), None)
    total = estimate_text(name if isinstance(name, str) else kind.removeprefix("tool-").removeprefix("dynamic-tool"))
    if output is None or "input" in part:
        total += CALL_TOKENS + _value(part.get("input"))
    return total if output is None else total + RESULT_TOKENS + _value(output)


def _file(part: Json) -> int:
    found = _media(part)
    if found:
        return next(iter(found.values()))
    url = part.get("url")
    text = url if isinstance(url, str) and url.startswith("data:") else part.get("data")
    if isinstance(text, str):
        return estimate_text(text)  # a text file, or nothing that is base64: it will be read as text
    return IMAGE_TOKENS


def _value(value: Any) -> int:
    """Tokens of a tool's input or output: as compact JSON text, media inside it at their fixed price."""
    if value is None:
        return 0
    if isinstance(value, str):
        return estimate_text(value)
    try:
        text = jsontext.encode(value)
        if not any(hint in text for hint in _MEDIA_HINTS):
            return estimate_text(text)
        prices: list[int] = []
        return estimate_text(jsontext.encode(_without_media(value, prices))) + sum(prices)
    except (TypeError, ValueError, OverflowError, RecursionError):  # not JSON: the door will say so
        return estimate_text(str(value))


def _without_media(value: Any, prices: list[int]) -> Any:
    """A copy of `value` whose media payloads are gone, their prices noted."""
    if is_list(value):
        return [_without_media(entry, prices) for entry in value]
    if not is_object(value):
        return value
    found = _media(value)
    prices += found.values()
    return {key: _without_media(entry, prices) for key, entry in value.items() if key not in found}


def _media(holder: Json) -> dict[str, int]:
    """Which keys of an object hold media, and what each costs; none of those hold text."""
    declared = next((value for key in _TYPE_KEYS if isinstance(value := holder.get(key), str)), None)
    found: dict[str, int] = {}
    for key, value in holder.items():
        if isinstance(value, Attachment):
            found[key] = _price(value.media_type, value.size)
        elif isinstance(value, str) and value.startswith("data:"):
            header, comma, _ = value[5:261].partition(",")
            media_type = declared or header.partition(";")[0] or "application/octet-stream"
            if comma and not media_type.startswith("text/"):
                found[key] = _price(media_type, _payload_bytes(len(value) - 6 - len(header), header))
    data = holder.get("data")
    if "data" in found or declared is None or declared.startswith("text/") or not isinstance(data, str):
        return found
    return found | {"data": _price(declared, len(data) * 3 // 4)} if _is_base64(data) else found


def _payload_bytes(length: int, header: str) -> int:
    return length * 3 // 4 if header.endswith(";base64") else length


def _is_base64(data: str) -> bool:
    start = data[:256]
    return start.isascii() and not start.encode().translate(None, _BASE64)


def _price(media_type: str, size: int) -> int:
    return IMAGE_TOKENS if media_type.startswith("image/") else min(math.ceil(size / 4), MEDIA_TOKENS_MAX)
