"""Writing one path of a session as Markdown to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Protocol

from plait import jsontext
from plait.errors import no_session
from plait.interchange.export import Exported
from plait.logic.arguments import refuse_async
from plait.model import LEAF, Damaged, Json, Message, Parent, SessionInfo

_BREAK = re.compile(r"\r\n?")
_TICKS = re.compile(r"`+")
_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING_LIKE = re.compile(
    r"^(?:.* · \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC.*"
    r"|[ \t>*+\-\d.)]*#{1,6}[ \t]+(?:system|developer|user|assistant|tool|data)[ \t#]*)$",
    re.IGNORECASE,
)
"""A line that reads as the heading of a message."""

_UNDERLINE = re.compile(r"^([ \t>]*)(=+|-+)(?=[ \t]*$)")
"""What makes the lines of a paragraph above it a heading."""

_OPEN_HTML = re.compile(r"<(?=!|\?|(?:pre|script|style|textarea)\b)", re.IGNORECASE)
"""HTML that goes on until it is closed, over whatever comes."""

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


class Readable(Protocol):
    """What this export needs of a session."""

    @property
    def id(self) -> str: ...

    def info(self) -> SessionInfo | None: ...

    def transcript(self, leaf: Parent = LEAF) -> Iterator[Message | Damaged]: ...


def write_markdown(session: Readable, file: IO[bytes], *, leaf: Parent = LEAF) -> Exported:
    """Write the path to `leaf` to a binary file as UTF-8; text as it is, tools in fences, media as markers.

    For people to read: it cannot be imported. A line of a text that reads as the heading of another
    message is escaped, and a fence that a text leaves open is closed, so that no message speaks for
    another. `NotFoundError` if there is no such session.
    """
    refuse_async("session", session, "info")
    info = session.info()
    if info is None:
        raise no_session(session.id, " to export")
    exported = Exported()
    _write(file, f"# {_plain(info.name or info.id)}\n")
    for message in session.transcript(leaf):
        _write(file, f"\n## {_heading(message)}\n")
        if isinstance(message, Damaged):
            exported.damaged.append(message)
            _write(file, f"\n*This message is damaged: {_plain(message.reason)}*\n")
        else:
            exported.messages += 1
            for block in map(_block, message.parts):
                _write(file, f"\n{block}\n" if block else "")
        exported.last_seq = message.seq
    return exported


def _heading(message: Message | Damaged) -> str:
    if isinstance(message, Damaged):
        return _plain(message.role)
    return f"{_plain(message.role)} · {message.created_at:%Y-%m-%d %H:%M:%S} UTC"


def _block(part: Json) -> str:
    """One part as Markdown; empty for parts that say nothing to a reader."""
    kind = str(part.get("type"))
    if kind in ("text", "reasoning"):
        text = _own(_BREAK.sub("\n", str(part.get("text") or part.get("reasoning") or "")).strip("\n"))
        return text if kind == "text" else _quoted(text)
    if kind.startswith("tool-") or kind == "dynamic-tool":
        return _tool(part, str(part.get("toolName") or kind.removeprefix("tool-")))
    if kind == "file":
        return _media(part)
    if kind == "source-url":
        return f"Source: {_plain(str(part.get('title') or ''))} {_plain(str(part.get('url') or ''))}"
    return "" if kind == "step-start" else f"*{_plain(kind)}*\n\n{_fence(part.get('data', part))}"


def _tool(part: Json, name: str) -> str:
    pieces: list[str] = []
    label = f"**{_plain(name or 'tool')}** {_plain(str(part.get('toolCallId') or ''))}".rstrip()
    for key, word in (("input", "call"), ("output", "result"), ("errorText", "error")):
        if key in part:
            pieces.append(f"{label} ({word})\n\n{_fence(part[key])}")
    return "\n\n".join(pieces) or f"{label} ({_plain(str(part.get('state') or 'call'))})"


def _media(part: Json) -> str:
    url, name = str(part.get("url") or ""), str(part.get("filename") or "")
    what = f"{part.get('mediaType') or 'media'} {name}".strip()
    where = f", {len(url) * 3 // 4 // 1024 + 1} KiB inline" if url.startswith("data:") else f": {url}"
    return f"*[{_plain(what + where)}]*"


def _own(text: str) -> str:
    """A text that keeps to its own message: no heading of another, no fence or HTML that reaches beyond it."""
    lines, fence, imitated = text.split("\n"), "", False
    for n, line in enumerate(lines):
        imitated = bool(line.strip(" \t>")) and (imitated or _HEADING_LIKE.match(line) is not None)
        shown = _plainly(line) if imitated else line
        found = _FENCE.match(shown)
        if not fence:
            fence = found[1] if found else ""
            shown = _OPEN_HTML.sub(r"\\<", shown)
        elif found and found[1].startswith(fence) and not shown[found.end() :].strip():
            fence = ""
        lines[n] = shown
    return "\n".join([*lines, fence] if fence else lines)


def _plainly(line: str) -> str:
    """A line of a paragraph that reads as a heading, so that it is none."""
    if _HEADING_LIKE.match(line):
        return _SPECIAL.sub(r"\\\1", line)
    return _UNDERLINE.sub(r"\1\\\2", line)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n")) if text else ""


def _fence(value: object) -> str:
    """A value in a fence that nothing in it can close."""
    text, language = _shown(value)
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def _shown(value: object) -> tuple[str, str]:
    if isinstance(value, str):
        return value, ""
    return jsontext.encode(value), "json"


def _plain(text: str) -> str:
    """Text on one line that is not taken for markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _write(file: IO[bytes], text: str) -> None:
    file.write(text.encode("utf-8", "backslashreplace"))
