"""Values as bytes: by the graph's serializer, exactly where that would lose something, and texts once.

`Typed` is what a serializer makes of a value. In a record it stands as it is, or, where it holds the
text of messages that are in the session, in pieces: `[type, [bytes, [message, which, size, check], ...]]`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from plait.adapters.langgraph import rows

log = logging.getLogger("plait")
Typed: TypeAlias = tuple[str, bytes]
EXACT: Final = "plait"
"""The type of what plait wrote itself, because the serializer cannot say it."""
LEAST_TEXT_BYTES: Final = 96
"""A text that is shorter than this is not worth a reference."""


class Text(NamedTuple):
    """A text in a message of the session: which message, the how many-th text of it, and its bytes."""

    message: str
    n: int
    data: bytes


def dump(serde: Any, value: Any) -> Typed:
    """A value as bytes; `TypeError` of the serializer's for what neither of us can say."""
    try:
        kind, data = serde.dumps_typed(value)
    except Exception:
        if not is_plain(serde):
            raise
        try:
            return EXACT, _pack.encode(_tagged(serde, value))
        except TypeError:
            pass  # the serializer's own words say better what is wrong
        raise
    if kind == "msgpack" and b"?" in data and is_plain(serde) and _has_halves(value, 0):
        return EXACT, _pack.encode(_tagged(serde, value))
    return kind, bytes(data)


def load(serde: Any, typed: Typed) -> Any:
    """The value again."""
    kind, data = typed
    if kind == EXACT:
        return _untagged(serde, _unpack.decode(data))
    return serde.loads_typed((kind, data))


def is_plain(serde: Any) -> bool:
    """Whether a serializer writes what anybody can read; one that encrypts does not."""
    return isinstance(serde, JsonPlusSerializer)


# -- texts that messages of the session hold -------------------------------------


def cut(typed: Typed, texts: Iterable[Text]) -> list[Any] | None:
    """What stands in a record where a value holds some of the texts; `None` if it holds none."""
    kind, data = typed
    found: list[tuple[int, Text]] = []
    for item in texts:
        at = data.find(item.data)
        while at >= 0:
            found.append((at, item))
            at = data.find(item.data, at + len(item.data))
    pieces: list[Any] = []
    done = 0
    for at, item in sorted(found, key=lambda place: (place[0], -len(place[1].data))):
        if at < done:
            continue
        pieces += [data[done:at], [item.message, item.n, len(item.data), _check(item.data)]]
        done = at + len(item.data)
    return [kind, [*pieces, data[done:]]] if pieces else None


def whole(stored: Sequence[Any], text_of: Callable[[str, int], bytes | None]) -> Typed:
    """A value as it was before its texts were cut out; where one is gone, as many dots."""
    kind, data = stored
    if isinstance(data, bytes):
        return kind, data
    return kind, b"".join(piece if isinstance(piece, bytes) else _text(piece, text_of) for piece in data)


def referred(stored: Sequence[Any]) -> set[str]:
    """The messages whose texts a stored value needs."""
    data: Any = stored[1]
    return set() if isinstance(data, bytes) else {piece[0] for piece in data if not isinstance(piece, bytes)}


def _text(piece: Sequence[Any], text_of: Callable[[str, int], bytes | None]) -> bytes:
    message, n, size, check = piece
    data = text_of(message, n)
    if data is not None and len(data) == size and _check(data) == check:
        return data
    log.warning("message %r was changed or deleted: what a checkpoint said of it is shown as dots", message)
    return b"." * int(size)


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=6).digest()


def texts_of(message: str, row: dict[str, Any]) -> list[Text]:
    """The texts of a message that are long enough to be referred to."""
    found: list[Text] = []
    for n, text in enumerate(rows.texts(row)):
        if len(text) >= LEAST_TEXT_BYTES // 4 and (data := encoded(text)) is not None:
            found.append(Text(message, n, data))
    return [text for text in found if len(text.data) >= LEAST_TEXT_BYTES]


def encoded(text: str) -> bytes | None:
    """A text as serializers write it; `None` for one with half a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


# -- what the serializer cannot say ----------------------------------------------

_pack: Final = msgspec.msgpack.Encoder()
_unpack: Final = msgspec.msgpack.Decoder()
_INT64: Final = 1 << 63
_DEPTH: Final = 200


def _has_halves(value: Any, depth: int) -> bool:
    """Whether there is half a surrogate pair in plain containers and messages: the serializer writes `?` for it."""
    if isinstance(value, str):
        return not value.isascii() and encoded(value) is None
    if depth > _DEPTH:
        return False
    if isinstance(value, dict):
        return any(_has_halves(item, depth + 1) for pair in value.items() for item in pair)
    if isinstance(value, list | tuple):
        return any(_has_halves(item, depth + 1) for item in value)
    return isinstance(value, BaseMessage) and _has_halves(value.__dict__, depth + 1)


def _tagged(serde: Any, value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if kind is int:
        return value if -_INT64 <= value < 2 * _INT64 else ["i", hex(value)]
    if kind is str:
        return value if encoded(value) is not None else ["s", value.encode("utf-8", "surrogatepass")]
    if depth > _DEPTH:
        raise TypeError("a value is nested too deep to be kept")
    if kind is list or kind is tuple:
        return ["l" if kind is list else "t", [_tagged(serde, item, depth + 1) for item in value]]
    if kind is dict:
        pairs = [[_tagged(serde, k, depth + 1), _tagged(serde, v, depth + 1)] for k, v in value.items()]
        return ["d", pairs]
    if kind in rows.CLASSES.values():
        return ["m", rows.kind_of(value), _tagged(serde, dict(value.__dict__), depth + 1)]
    dumped, data = serde.dumps_typed(value)
    return ["x", dumped, bytes(data)]


def _untagged(serde: Any, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    tag: str = value[0]
    body: Any = value[1]
    match tag:
        case "i":
            return int(body, 16)
        case "s":
            return body.decode("utf-8", "surrogatepass")
        case "l":
            return [_untagged(serde, item) for item in body]
        case "t":
            return tuple(_untagged(serde, item) for item in body)
        case "d":
            return {_untagged(serde, k): _untagged(serde, v) for k, v in body}
        case "m":
            return rows.CLASSES[body](**_untagged(serde, value[2]))
        case _:
            return serde.loads_typed((body, value[2]))
