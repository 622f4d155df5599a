"""JSON text in and out, exactly: the fast codec first, the standard library where it cannot follow.

msgspec is several times faster, but refuses lone surrogates; Python's own codec keeps them as
escapes. Both write text that is valid UTF-8, whatever the strings hold.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode(value: Any) -> str:
    """The JSON text of `value`; raises `TypeError`, `ValueError` or `RecursionError` if it has none."""
    return utf8(value).decode()


def utf8(value: Any) -> bytes:
    """The same in UTF-8."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate: keep it, escaped
        import json

        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        if json.loads(text) != value:  # two halves side by side read back as the character they make
            raise ValueError("the text has two halves of a surrogate pair side by side") from None
        return text.encode()


def decode(text: str | bytes) -> Any:
    """The value of JSON `text`; raises `ValueError` or `RecursionError` if it is not JSON."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):  # perhaps an escaped lone surrogate
        import json

        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is a number too large for a float")
    return value
