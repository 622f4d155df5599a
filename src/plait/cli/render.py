"""A message as lines to read: who spoke and when, the words, tool calls, media, and what is damaged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from plait import jsontext
from plait.cli import escape
from plait.cli.screen import Spans, wrap
from plait.cli.sketch import count, size
from plait.model import Damaged, Json, Message, Overlay

_ARGUMENT_CHARS: Final = 120
_INPUT_CHARS: Final = 400
_OUTPUT_LINES: Final = 6
_OUTPUT_CHARS: Final = 1000
_OTHER_CHARS: Final = 240


@dataclass(frozen=True, slots=True)
class Look:
    """How messages are drawn: for how many cells (`None`: lines are not broken), in which characters, how much."""

    width: int | None = None
    unicode: bool = True
    full: bool = False
    ids: bool = False
    zone: dt.tzinfo | None = None

    @property
    def call(self) -> str:
        return "→" if self.unicode else "->"

    @property
    def result(self) -> str:
        return "←" if self.unicode else "<-"

    @property
    def failed(self) -> str:
        return "✗" if self.unicode else "!!"

    @property
    def more(self) -> str:
        return "…" if self.unicode else "..."

    @property
    def dot(self) -> str:
        return " · " if self.unicode else " | "


def message_lines(entry: Message | Damaged, look: Look) -> Iterator[Spans]:
    """One message of a path: a heading, then its content set in by two blanks."""
    if isinstance(entry, Damaged):
        yield _heading(entry, look, ["damaged"])
        yield [("  ", ""), (escape.printable(entry.reason), "error")]
        return
    facts = [when(entry.created_at, look), f"~{count(entry.tokens)} tokens"]
    if entry.overlay is not None:
        facts.append(covered(entry.overlay))
    yield _heading(entry, look, facts)
    for part in entry.parts:
        for line in part_lines(part, look):
            yield [("  ", ""), *line]


def part_lines(part: Mapping[str, Any], look: Look) -> Iterator[Spans]:
    """One native part, not set in."""
    kind = str(part.get("type", ""))
    text = part.get("text")
    if kind == "text" and isinstance(text, str):
        yield from _words(text, "", look)
    elif kind == "reasoning":
        yield from _reasoning(part, look)
    elif kind.startswith("tool-") or kind == "dynamic-tool":
        yield from _tool(part, look)
    elif is_media(part):
        yield [(f"[{_media(part)}]", "media")]
    elif kind.startswith("source-"):
        yield [(f"[source {_first(part, 'title', 'url', 'sourceId')}]", "dim")]
    elif kind != "step-start":
        yield [(_other(kind, part, look), "dim")]


def preview(message: Message | Damaged, limit: int, look: Look) -> str:
    """The message's beginning on one line: its words, else its first call, media or other part."""
    if isinstance(message, Damaged):
        return f"(damaged: {escape.one_line(message.reason, limit, more=look.more)})"
    words = message.text
    if words.strip():
        return escape.one_line(words, limit, more=look.more)
    plain = Look(unicode=look.unicode)
    for part in message.parts:
        for line in part_lines(part, plain):
            shown = escape.one_line("".join(text for text, _ in line), limit, more=look.more)
            if shown:
                return shown
    return "(empty)"


def covered(overlay: Overlay) -> str:
    """What stands in the heading of a summary."""
    stale = ", stale" if overlay.stale else ""
    return f"{overlay.kind} of #{overlay.from_seq} to #{overlay.to_seq} ({count(overlay.left)} messages{stale})"


def when(at: dt.datetime, look: Look) -> str:
    """A time to the second, in the reader's own zone."""
    return at.astimezone(look.zone).strftime("%Y-%m-%d %H:%M:%S")


def is_media(part: Mapping[str, Any]) -> bool:
    """Whether a part stands for a file or picture rather than words."""
    return part.get("type") in ("file", "image", "audio", "video") or isinstance(part.get("mediaType"), str)


def _heading(entry: Message | Damaged, look: Look, facts: list[str]) -> Spans:
    role = escape.one_line(entry.role, 40, more=look.more) or "(no role)"
    facts = [f"#{entry.seq}", *facts]
    if look.ids or isinstance(entry, Damaged):
        facts.append(escape.name(entry.id))
    return [(role, role_style(entry.role)), ("  ", ""), (look.dot.join(facts), "dim")]


def role_style(role: str) -> str:
    """The style that a role's messages carry."""
    if role in ("user", "assistant", "system"):
        return role
    return "tool" if role.startswith(("tool", "function")) else "bold"


def _words(text: str, style: str, look: Look) -> Iterator[Spans]:
    width = None if look.width is None else look.width - 3
    for line in wrap(escape.printable(text).strip("\n"), width):
        yield [(line, style)]


def _reasoning(part: Mapping[str, Any], look: Look) -> Iterator[Spans]:
    text = _first(part, "text", "reasoning", escaped=False)
    if text:
        yield from _words(f"(thinking) {text}", "dim", look)
    else:
        yield [("(thinking, not shown by the provider)", "dim")]


def _tool(part: Mapping[str, Any], look: Look) -> Iterator[Spans]:
    kind = str(part.get("type", ""))
    name = str(part.get("toolName", "")) if kind == "dynamic-tool" else kind.removeprefix("tool-")
    name = escape.one_line(name, 80, more=look.more)
    if "input" in part or "rawInput" in part:
        called = _arguments(part.get("input", part.get("rawInput")), look)
        yield from _call(name or "tool", f"({called})", look)
    elif not {"output", "errorText"} & part.keys():
        yield [(f"{look.call} ", "call"), (name or "tool", "call")]
    yield from _outcome(part, name, look)


def _call(name: str, arguments: str, look: Look) -> Iterator[Spans]:
    mark = f"{look.call} "
    width = None if look.width is None else look.width - 3 - len(mark)
    for number, line in enumerate(wrap(name + arguments, width)):
        named = len(name) if number == 0 else 0
        yield [(mark if number == 0 else " " * len(mark), "call"), (line[:named], "call"), (line[named:], "")]


def _outcome(part: Mapping[str, Any], name: str, look: Look) -> Iterator[Spans]:
    state = part.get("state")
    error = part.get("errorText")
    label = f"{name}: " if name and "input" not in part else ""
    if error is not None or state == "output-error":
        yield from _block(f"{look.failed} {label}", _plain(error), "error", look)
    elif "output" in part:
        yield from _block(f"{look.result} {label}", output_text(part["output"]), "", look)
    elif state == "approval-requested":
        yield [("? waits for approval", "active")]
    elif state == "output-denied":
        yield [(f"{look.failed} denied", "error")]


def output_text(value: Any) -> str:
    """A tool's output to read: text as it is, lists of text parts joined, anything else as JSON."""
    listed = _object(value).get("content", value)
    if _is_list(listed) and listed and all("type" in _object(one) for one in listed):
        return "\n".join(_output_piece(_object(one)) for one in listed)
    return _plain(value)


def _output_piece(part: Mapping[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return f"[{_media(part)}]" if is_media(part) else jsontext.encode(part)


def _block(mark: str, text: str, style: str, look: Look) -> Iterator[Spans]:
    """A mark, then the text beside it; beyond some lines or characters only how much more there is."""
    text = escape.printable(text).strip("\n")
    shown = text if look.full else "\n".join(text[:_OUTPUT_CHARS].split("\n")[:_OUTPUT_LINES]).rstrip()
    width = None if look.width is None else look.width - 3 - len(mark)
    for number, line in enumerate(wrap(shown, width)):
        yield [(mark if number == 0 else " " * len(mark), style or "call"), (line, style)]
    if len(shown) < len(text):
        left = text.count("\n") - shown.count("\n")
        rest = f"{count(left)} more lines" if left > 1 else f"{count(len(text) - len(shown))} more characters"
        yield [(" " * len(mark), ""), (f"{look.more} {rest}", "dim")]


def _arguments(value: Any, look: Look) -> str:
    """Tool input as it would be written in a call: `path="a.py", limit=3`."""
    more, limit = look.more, 1 << 30 if look.full else _ARGUMENT_CHARS
    if not _is_object(value):
        return "" if value is None else escape.one_line(_json(value), limit, more=more)
    given = (f"{escape.one_line(key, limit, more=more)}={_argument(one, limit, more)}" for key, one in value.items())
    return escape.one_line(", ".join(given), 1 << 30 if look.full else _INPUT_CHARS, more=more)


def _argument(value: Any, limit: int, more: str) -> str:
    text = _json(value if not isinstance(value, str) else value[: limit * 2])
    return escape.one_line(text, limit, more=more)


def _media(part: Mapping[str, Any]) -> str:
    kind = _first(part, "mediaType", "mimeType", "media_type") or str(part.get("type", "media"))
    named = _first(part, "filename", "name")
    held = _payload_size(part)
    where = size(held) if held is not None else _first(part, "url", "fileId", "file_id")
    return " ".join(fact for fact in (escape.one_line(kind, 80), named, where) if fact)


def _payload_size(part: Mapping[str, Any]) -> int | None:
    """How many bytes the part's inline base64 stands for, without decoding it; `None` if it holds none."""
    for key in ("url", "data", "image", "source"):
        value = part.get(key)
        value = _object(value).get("data", value)
        if not isinstance(value, str) or "://" in value[:16]:
            continue
        payload = value.partition(",")[2] if value.startswith("data:") else value
        return len(payload) * 3 // 4 - payload[-2:].count("=")
    return None


def _other(kind: str, part: Mapping[str, Any], look: Look) -> str:
    rest: Json = {key: value for key, value in part.items() if key != "type"}
    limit = 1 << 30 if look.full else _OTHER_CHARS
    shown = escape.one_line(_json(rest), limit, more=look.more) if rest else ""
    return f"[{escape.one_line(kind, 80) or 'part'}] {shown}".rstrip()


def _first(part: Mapping[str, Any], *keys: str, escaped: bool = True) -> str:
    """The first of these that holds text."""
    for key in keys:
        value = part.get(key)
        if isinstance(value, str) and value:
            return escape.one_line(value, 120) if escaped else value
    return ""


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "(nothing)" if value is None else _json(value)


def _object(value: object) -> Json:
    return value if _is_object(value) else {}


def _is_object(value: object) -> TypeGuard[Json]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _json(value: Any) -> str:
    return jsontext.encode(value)
