"""Telling what a file is by what is in it, never by its name."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, cast

from plait.errors import UsageError
from plait.interchange import chatgpt, claude_code, cloudflare, lines, lists, pi, plait_jsonl
from plait.interchange.scanner import Scanner
from plait.interchange.values import Report
from plait.model import Json

KNOWN: Final = {
    plait_jsonl.NAME: "plait's own JSON lines",
    pi.NAME: "a Pi session (JSON lines)",
    claude_code.NAME: "a Claude Code transcript (JSON lines)",
    chatgpt.NAME: "ChatGPT's conversations.json",
    "openai": "OpenAI chat or Responses messages (JSON or JSON lines)",
    "ui": "AI SDK UI messages (JSON or JSON lines)",
    cloudflare.NAME: "a SQLite file with Cloudflare Agents sessions",
}
"""The readers by name, and what each reads."""

_SQLITE = b"SQLite format 3\0"
_HEAD = 1 << 20
_LOOK_AT = 50
_ITEMS = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "item_reference",
        "computer_call",
        "web_search_call",
    }
)


def detect(path: str | Path) -> str:
    """The name of the reader for this file; `UsageError` listing the known ones if there is none."""
    path = Path(path)
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(_SQLITE):
        if cloudflare.holds_sessions(path):
            return cloudflare.NAME
        raise UsageError(f"{path} is a SQLite file without Cloudflare sessions in it. {_known()}")
    if not head.strip(b" \t\r\n\0\xef\xbb\xbf"):
        raise UsageError(f"{path} is empty. {_known()}")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(f"{path} is UTF-16 text; convert it to UTF-8 first")
    for value in _samples(head):
        name = _name(value)
        if name is not None:
            return name
    raise UsageError(f"{path} is not a transcript that plait can read. {_known()}")


def _known() -> str:
    listed = "; ".join(f"{name} ({what})" for name, what in KNOWN.items())
    return f"Known are: {listed}. If it is one of these and damaged, name its format"


def _samples(head: bytes) -> Iterator[Json]:
    """Objects near the beginning of the file: its lines, elements or itself."""
    body = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if body.startswith(b"["):
        yield from _elements(body)
        return
    for n, record in enumerate(lines.records(io.BytesIO(head), Report(), lambda _: False)):
        if record.value is not None:
            yield record.value
        if n >= _LOOK_AT:
            break
    if body.startswith(b"{"):
        yield _outline(body)


def _elements(body: bytes) -> Iterator[Json]:
    file = io.BytesIO(body)
    for n, child in enumerate(Scanner(file).children()):
        raw = body[child.at : child.at + child.size]
        try:
            yield lines.decode(raw)
        except ValueError:
            if raw.startswith(b"{"):
                yield _outline(raw)
        if n >= _LOOK_AT:
            break


def _outline(body: bytes) -> Json:
    """An object too long to be read here: its keys, with the values that are short enough."""
    outline: Json = {}
    for child in Scanner(io.BytesIO(body)).children():
        raw = body[child.at : child.at + child.size]
        key = child.key.decode("utf-8", "replace")
        try:
            outline[key] = lines.decode(b'{"value":' + raw + b"}")["value"]
        except ValueError:
            outline[key] = list(islice(_elements(raw), 1)) if raw.startswith(b"[") else {}
    return outline


def _name(value: Json) -> str | None:
    return next((name for name, test in _TESTS if test(value)), None)


def _is_plait(value: Json) -> bool:
    header = isinstance(value.get("plait"), int) and value.get("type") == "session"
    return header or (value.get("type") == "message" and {"seq", "format", "message"} <= value.keys())


def _is_claude(value: Json) -> bool:
    named = any(key in value for key in ("parentUuid", "sessionId", "leafUuid"))
    return value.get("type") == "file-history-snapshot" or (named and isinstance(value.get("type"), str))


def _is_pi(value: Json) -> bool:
    stamped = isinstance(value.get("timestamp"), str)
    kind = value.get("type")
    return stamped and (
        (kind == "session" and "id" in value) or (kind == "message" and isinstance(value.get("message"), dict))
    )


def _is_chatgpt(value: Json) -> bool:
    return isinstance(value.get("mapping"), dict)


def _is_ui(value: Json) -> bool:
    parts = value.get("parts")
    return isinstance(value.get("role"), str) and isinstance(parts, list)


def _is_openai(value: Json) -> bool:
    kind, role = value.get("type"), value.get("role")
    return (isinstance(role, str) and ("content" in value or "tool_calls" in value)) or (
        kind in _ITEMS and kind != "message"
    )


def _listed(test: Callable[[Json], bool]) -> Callable[[Json], bool]:
    """The same test for an object that holds a list of messages."""

    def holds(value: Json) -> bool:
        key = lists.list_in(value)
        items = cast("list[object]", value[key]) if key is not None else []
        return any(isinstance(item, dict) and test(cast(Json, item)) for item in items[:_LOOK_AT])

    return holds


_TESTS: Final[tuple[tuple[str, Callable[[Json], bool]], ...]] = (
    (plait_jsonl.NAME, _is_plait),
    (claude_code.NAME, _is_claude),
    (pi.NAME, _is_pi),
    (chatgpt.NAME, _is_chatgpt),
    ("ui", _is_ui),
    ("openai", _is_openai),
    ("ui", _listed(_is_ui)),
    ("openai", _listed(_is_openai)),
)
