"""Values as bytes: by the graph's serializer, exactly where that would lose something, and texts once.

`Typed` is what a serializer makes of a value. In a record it stands as it is, or, where it holds the
text of messages that are in the session, in pieces: `[type, [bytes, [message, which, size, check], ...]]`.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from plait.adapters.langgraph import rows

log = logging.getLogger("plait")
Typed: TypeAlias = tuple[str, bytes]
PACKED: Final = "msgpack"
"""The type of what the serializer writes as MessagePack."""
EXACT: Final = "plait"
"""The type of what plait wrote itself, because the serializer cannot say it."""
LEAST_TEXT_BYTES: Final = 96
"""A text that is shorter than this is not worth a reference."""


class Text(NamedTuple):
    """A text in a message of the session: which message, the how many-th text of it, and its bytes."""

    message: str
    n: int
    data: bytes


Span: TypeAlias = tuple[int, int]
"""From where to where among the bytes of a value."""
Found: TypeAlias = tuple[int, Text]
"""A text, and where its bytes begin."""


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
    if kind == PACKED and b"?" in data and is_plain(serde) and _has_halves(value, 0):
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


class Said(NamedTuple):
    """A value as bytes, and where in them what is said to lists of messages stands: there, and nowhere else, a text is a message's."""

    typed: Typed
    lists: dict[str, Span]
    """By the list's channel."""
    found: Sequence[Found]
    """Texts of messages that are in the session already."""

    def take(self, texts: dict[str, list[Text]]) -> list[Found]:
        """The texts of new messages that stand here, taken from among those of their list: what one message says, it says once."""
        taken: list[Found] = []
        for channel, span in self.lists.items():
            here = list(_find(self.typed[1], span, texts.get(channel, ())))
            for _, text in here:
                texts[channel].remove(text)
            taken += here
        return taken

    def record(self, more: Iterable[Found] = ()) -> list[Any]:
        """What stands in a record for it, with references to the texts."""
        kind, data = self.typed
        pieces: list[Any] = []
        done = 0
        for at, text in sorted([*self.found, *more], key=lambda found: found[0]):
            if at >= done:
                pieces += [data[done:at], [text.message, text.n, len(text.data), _check(text.data)]]
                done = at + len(text.data)
        return [kind, [*pieces, data[done:]]] if pieces else [kind, data]


def fields(serde: Any, value: dict[Any, Any], data: bytes) -> dict[str, Span]:
    """Where in a dictionary's bytes the value of each key is."""
    spans: dict[str, Span] = {}
    at = _head_bytes(len(value))
    for key, item in value.items():
        first = at + _bytes_inside(serde, key)
        at = first + _bytes_inside(serde, item)
        spans[key] = first, at
    return spans if at == len(data) else {}  # else somebody has changed it meanwhile


def inside(
    serde: Any, messages: Sequence[BaseMessage], data: bytes, span: Span, texts: Sequence[list[Text]]
) -> list[Found]:
    """Where in the bytes of a list of messages those texts stand that each of them has, as far as it is in the session."""
    at, end = span
    at += _head_bytes(len(messages))
    found: list[Found] = []
    for message, own in zip(messages, texts, strict=True):
        first, at = at, at + _bytes_inside(serde, message)
        found += _find(data, (first, at), own)
    return found if at == end else []


def _find(data: bytes, span: Span, texts: Iterable[Text]) -> Iterable[Found]:
    """Texts that stand in a part of a value, in their order; each as the whole of a text, not as a piece of one."""
    at, end = span
    for text in list(texts):
        head = _text_head(len(text.data))
        there = data.find(head + text.data, at, end)
        if there >= 0:
            yield there + len(head), text
            at = there + len(head) + len(text.data)


def _text_head(size: int) -> bytes:
    """What MessagePack has before a text of so many bytes, which are 96 at least."""
    if size < 1 << 8:
        return b"\xd9" + size.to_bytes(1, "big")
    return b"\xda" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xdb" + size.to_bytes(4, "big")


def _head_bytes(count: int) -> int:
    """How many bytes MessagePack has before the items of a list or a dictionary."""
    return 1 if count < 16 else 3 if count < 1 << 16 else 5


def _bytes_inside(serde: Any, item: Any) -> int:
    return len(serde.dumps_typed([item])[1]) - 1


def recall(serde: Any, stored: Sequence[Any], text_of: Callable[[str, int], str | None]) -> Any:
    """The value that a record holds. The text of a message reads as the message has it now; where it is gone, dots do."""
    kind, data = stored
    if isinstance(data, bytes):
        return load(serde, (kind, data))
    now: dict[str, str] = {}
    value = load(serde, (kind, _whole(data, text_of, now)))
    if not now:
        return value
    value = _renewed(value, now)
    return load(serde, (kind, _whole(data, text_of, None))) if now else value


def referred(stored: Sequence[Any]) -> set[str]:
    """The messages whose texts a stored value needs."""
    data: Any = stored[1]
    return set() if isinstance(data, bytes) else {piece[0] for piece in data if not isinstance(piece, bytes)}


def _whole(pieces: Sequence[Any], text_of: Callable[[str, int], str | None], now: dict[str, str] | None) -> bytes:
    """A value's bytes with its texts; with `now`, one that has changed is there by a mark of the same size."""
    return b"".join(piece if isinstance(piece, bytes) else _text(piece, text_of, now) for piece in pieces)


def _text(piece: Sequence[Any], text_of: Callable[[str, int], str | None], now: dict[str, str] | None) -> bytes:
    message, n, size, check = piece
    text = text_of(message, n)
    data = None if text is None else encoded(text)
    if data is not None and len(data) == size and _check(data) == check:
        return data
    if text is not None and now is not None:
        mark = uuid.uuid4().hex.ljust(size, ".")
        now[mark] = text
        return mark.encode()
    log.warning("message %r was changed or deleted: what a checkpoint said of it is shown as dots", message)
    return b"." * int(size)


def _renewed(value: Any, now: dict[str, str]) -> Any:
    """A value with the texts in the place of their marks, which go from `now`."""
    if isinstance(value, str):
        for mark in [mark for mark in now if mark in value]:
            value = value.replace(mark, now.pop(mark))
    elif type(value) is list or type(value) is tuple:
        return type(value)(_renewed(item, now) for item in value)
    elif type(value) is dict:
        return {key: _renewed(item, now) for key, item in value.items()}
    elif isinstance(value, BaseMessage):
        vars(value).update(_renewed(dict(vars(value)), now))
    return value


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=6).digest()


def texts_of(message: str, content: Any) -> list[Text]:
    """The texts of a message that are long enough to be referred to."""
    found: list[Text] = []
    for n, text in enumerate(rows.texts(content)):
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
