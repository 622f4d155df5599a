"""Messages and inputs that many tests of behaviour use, in both faces."""

from __future__ import annotations

import base64
import random
from typing import Any

ROW_BUDGET_BYTES = 1_572_864
"""What one row takes, restated here so that a change of it is noticed."""


def note(id: str, text: str = "words", role: str = "user", **fields: Any) -> dict[str, Any]:
    """A message with one text part."""
    return {"id": id, "role": role, "parts": [{"type": "text", "text": text}], **fields}


def data_url(payload: bytes, media_type: str = "image/png") -> str:
    """The payload as an inline data URL."""
    return f"data:{media_type};base64,{base64.b64encode(payload).decode()}"


def picture(id: str, payload: bytes, media_type: str = "image/png", text: str = "look") -> dict[str, Any]:
    """A message with a text part and an inline image."""
    file = {"type": "file", "mediaType": media_type, "url": data_url(payload, media_type)}
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}, file]}


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that do not compress and are always the same."""
    return random.Random(seed).randbytes(size)


LONE = "ab\ud99ccd"
"""Half a surrogate pair: a Python string, no UTF-8."""

TEXTS = {
    "empty": "",
    "blank": " \t\n",
    "emoji": "🧵🏳️‍🌈 👩‍👩‍👧‍👦",
    "cjk": "重跑gen-itgc后50条悬空引用清零",
    "rtl": "שלום עולם",
    "combining": "e\u0301 n\u0308 \u00e9",
    "lone high surrogate": LONE,
    "lone low surrogate": "x\udc00y",
    "swapped pair": "\udc00\ud83d",
    "nul": "W\0s\0l",
    "spelled nul": r"the escape \u0000 and \\u0000",
    "spelled surrogate": r"\ud99c and \\ud99c",
    "controls": "".join(map(chr, range(32))),
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "separators": "a\u2028b\u2029c\u0085d\ufeff",
    "quotes": "\"'\\/`%_;--\r\n",
    "sql": "'); DROP TABLE message; --",
    "markup": "<script>alert(1)</script> javascript:alert(1)",
}
"""B-001 and B-003: text of every awkward kind."""

VALUES: dict[str, Any] = {
    "past 63 bits": 2**63,
    "past 64 bits": 2**64,
    "negative past 64 bits": -(2**70),
    "a hash": 2**256,
    "past a double": 2**53 + 1,
    "zero": 0,
    "negative zero": -0.0,
    "float that is whole": 1.0,
    "large float": 1e22,
    "tiny float": 5e-324,
    "largest float": 1.7976931348623157e308,
    "third": 1 / 3,
    "true and one": [True, 1, 1.0, False, 0, None, "", [], {}],
    "key order": {"zebra": 1, "alpha": {"z": 1, "a": 2}, "10": 0, "9": 0, "n": 1.0, "e": 1e2},
    "empty key": {"": {"": ""}},
    "keys that look alike": {"a": 1, "A": 2, "\u00e1": 3, "a\u0301": 4},
    "surrogate key": {LONE: 1},
    "nul key": {"a\0b": 1, "a": 2},
    "deep": {"a": [[[[[[[[{"b": [{}]}]]]]]]]]},
}
"""B-008, B-011: JSON values that stores lose."""


def everywhere(value: Any, id: str = "m") -> dict[str, Any]:
    """A message that holds `value` in every kind of place."""
    text = value if isinstance(value, str) else "text"
    return {
        "id": id,
        "role": "assistant",
        "parts": [
            {"type": "text", "text": text, "x_extra": value},
            {
                "type": "tool-search",
                "toolCallId": "c1",
                "state": "output-available",
                "input": {"q": value},
                "output": [value, value],
            },
            {"type": "brand-new", "v": {"nested": [{"value": value}]}},
        ],
        "metadata": {"value": value, "title": text},
        "other": [value],
    }


ENVELOPES: dict[str, dict[str, Any]] = {
    "langchain": {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "HumanMessage"],
        "kwargs": {"content": "x"},
    },
    "pickle": {"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["true"]}]},
    "cloudflare pointer": {"type": "file", "mediaType": "image/png", "url": "attachment:sha256:" + "0" * 64},
    "plait mark": {"type": "file", "mediaType": "image/png", "url": "plait-media:0:" + "0" * 64},
    "attachment as a dict": {
        "type": "file",
        "url": {"hash": "0" * 64, "media_type": "image/png", "size": 3, "upload": "u"},
    },
    "attachment as text": {"type": "file", "url": "Attachment(hash='00', media_type='image/png', size=3)"},
    "our own names": {"type": "plait:summary", "id": "plait:default", "format": "openai", "body": "{}", "flags": 7},
    "export line": {"type": "message", "plait": 1, "message": {"id": "m"}},
}
"""B-106: what a user may say that looks like somebody's machinery, our own included."""

ODD_IDS = [
    "../../etc/x",
    "/etc/passwd",
    "..\\x",
    "a/b",
    "%2e%2e%2f",
    "CON",
    "-rf",
    "--help",
    "a b",
    "a%",
    "a_b",
    "%",
    "'",
    '"',
    "a\0b",
    "a\nb",
    "🧵",
    "\u00e9",
    "e\u0301",
    "x" * 300,
    "x" * 512,
    "é" * 256,
    "{}",
    "null",
    "0",
    "-1",
    "message_id",
]
"""B-099: ids that other programs take for paths, patterns, options or numbers. They are data."""

BAD_IDS: dict[str, Any] = {
    "empty": "",
    "blank": "  \t",
    "controls": "\0\x01\n",
    "too long": "x" * 513,
    "too long in bytes": "é" * 257,
    "ten kilobytes": "x" * 10_000,
    "half a pair": LONE,
    "a number": 7,
    "bytes": b"m",
    "a list": ["m"],
}
"""B-049: what is no id."""


async def later() -> bytes:
    """Bytes that are to be awaited."""
    return b"later"
