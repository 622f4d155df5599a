"""Which kinds of message plait can read: the registry of formats.

Built in are `plait` (native messages), `openai` (Responses items), `openai-chat` (`{role, content}`), `pydantic-ai`, `langchain`
and the lines of `pi`, `claude-code` and `chatgpt` transcripts. A format built in is a class with
the methods of `plait.Format` in a module of its own here (what it reads parts into stands in
`native`), one object of it in `FORMATS`, and a row in docs/reference/adapters.md. It imports
no framework: a message is plain JSON. An application adds its own by registering such an object:

    cancel = plait.formats.register(MyFormat())

Stored messages keep their format's name for ever, so a name is never given to anything else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from plait.errors import InvalidMessageError, UsageError
from plait.formats import native
from plait.formats.adk import ADK
from plait.formats.langchain import LangChain
from plait.formats.openai import OpenAI
from plait.formats.openai_chat import OpenAIChat
from plait.formats.pydantic_ai import PydanticAI
from plait.formats.transcripts import FORMATS as TRANSCRIPTS
from plait.logic.shape import is_list, is_object
from plait.model import Format, Json

__all__ = [
    "FORMATS",
    "NATIVE",
    "Answers",
    "Repairs",
    "Rewrites",
    "answered",
    "formats",
    "is_piecewise",
    "named",
    "recognize",
    "register",
    "rewritten",
    "stored",
    "without",
]

NATIVE: Final[Format] = native.FORMAT
FORMATS: Final[tuple[Format, ...]] = (NATIVE, *TRANSCRIPTS, ADK(), PydanticAI(), LangChain(), OpenAI(), OpenAIChat())
"""The formats built in, in the order in which they are asked whether a message is theirs: the most particular first."""


@runtime_checkable
class Repairs(Protocol):
    """What a reader may offer beside `Format`: a view that had to be repaired then stays in its format.

    Without these, a message that had to be changed is shown as a native one. Parts are named by
    their places in what `parts` answers.
    """

    piecewise: bool
    """Whether a message is one piece of what a model said at once: a call, a text, a thought."""

    def without(self, message: Mapping[str, Any], parts: Collection[int]) -> Json | None:
        """A copy without these parts, `None` if nothing of the message is left then."""
        ...

    def answered(self, message: Mapping[str, Any], calls: Collection[int], text: str) -> tuple[Json, list[Json]] | None:
        """The message with these calls answered by the error `text`, and messages to follow it.

        `None` if this format has no way to say so.
        """
        ...


@runtime_checkable
class Rewrites(Protocol):
    """What a reader may offer so that a shortened copy of a message stays in its format."""

    def rewritten(
        self, message: Mapping[str, Any], text: Callable[[str], str], output: Callable[[Any], Any]
    ) -> Mapping[str, Any]:
        """The message with each text and each tool's output put through a function; the same if none changes."""
        ...


_lock = threading.Lock()
_added: tuple[Format, ...] = ()


def formats() -> tuple[Format, ...]:
    """Every format known now: native, then registered ones (the latest first), then the other built-in ones."""
    return (NATIVE, *_added, *FORMATS[1:])


def register(format: Format) -> Callable[[], None]:
    """Let messages of `format` be recognized and read; the answer, when called, takes it out again.

    It is asked after the native format and before the other built-in ones. A name that is taken by
    another kind of format raises `UsageError`; registering the same kind again replaces it.
    """
    global _added
    with _lock:
        taken = next((known for known in formats() if known.name == format.name), None)
        if taken is not None and (taken in FORMATS or _kind(taken) != _kind(format)):
            raise UsageError(f"a format named {format.name!r} is there already; give this one another name")
        _added = (format, *(known for known in _added if known is not taken))

    def cancel() -> None:
        global _added
        with _lock:
            _added = tuple(known for known in _added if known is not format)

    return cancel


def named(name: str) -> Format:
    """The format called `name`; `UsageError` if there is none."""
    for format in formats():
        if format.name == name:
            return format
    known = ", ".join(format.name for format in formats())
    raise UsageError(f"there is no format named {name!r} (known: {known}); import or register what brings it")


def stored(name: str) -> Format:
    """The format of a stored message, also when nobody has registered it in this process.

    Such a message still reads back whole; only what its reader would find in it is missing.
    """
    try:
        return named(name)
    except UsageError:
        return _Unread(name)


def recognize(message: Mapping[str, Any]) -> Format:
    """The first format that `message` is of; `InvalidMessageError` says what was looked for if none is."""
    if NATIVE.recognizes(message):
        return NATIVE
    for format in formats():
        if format.recognizes(message):
            return format
    raise _unrecognized(message)


class Answers(NamedTuple):
    """A message whose calls are answered: its content, and the messages of a format that follow it."""

    content: Json
    format: Format
    following: list[Json]


def is_piecewise(name: str) -> bool:
    """Whether messages of the format called `name` are pieces of what a model said at once."""
    return getattr(stored(name), "piecewise", False) is True  # asked of each message: a protocol's isinstance is slow


def without(format: Format, message: Mapping[str, Any], parts: Collection[int]) -> tuple[Json, Format] | None:
    """`message` without some of its parts and the format that copy is of; `None` if nothing is left."""
    if isinstance(format, Repairs):
        left = format.without(message, parts)
        return None if left is None else (left, format)
    kept = [part for n, part in enumerate(format.parts(message)) if n not in parts]
    return ({"role": format.role(message), "parts": kept}, NATIVE) if kept else None


def answered(format: Format, message: Mapping[str, Any], calls: Collection[int], text: str) -> Answers | None:
    """`message` with these calls answered by the error `text`; `None` if its format cannot say so."""
    if isinstance(format, Repairs):
        found = format.answered(message, calls, text)
        return None if found is None else Answers(found[0], format, found[1])
    parts = format.parts(message)
    results = [
        native.result_part(parts[n].get("toolCallId"), text, name=parts[n].get("toolName"), failed=True)
        for n in sorted(calls)
    ]
    return Answers(dict(message), NATIVE, [{"role": "tool", "parts": results}])


def rewritten(
    format: Format, message: Mapping[str, Any], text: Callable[[str], str], output: Callable[[Any], Any]
) -> tuple[Mapping[str, Any], Format]:
    """`message` with its texts and outputs put through functions, and the format that copy is of."""
    if isinstance(format, Rewrites):
        return format.rewritten(message, text, output), format
    parts = format.parts(message)
    changed = native.rewritten_parts(parts, text, output)
    return (message, format) if changed is parts else ({"role": format.role(message), "parts": changed}, NATIVE)


class _Unread:
    """Stands in for a format that is not registered here."""

    def __init__(self, name: str) -> None:
        self.name = name

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        return False

    def id(self, message: Mapping[str, Any]) -> str | None:
        return None

    def role(self, message: Mapping[str, Any]) -> str:
        return ""

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        return []

    def metadata(self, message: Mapping[str, Any]) -> Json:
        return {}

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        return None


def _kind(format: Format) -> tuple[str, str]:
    return type(format).__module__, type(format).__qualname__


def _unrecognized(message: Mapping[str, Any]) -> InvalidMessageError:
    path, fault = _fault(message)
    known = ", ".join(format.name for format in formats())
    return InvalidMessageError(
        f"{fault}; a message is {{role, parts}} with a `type` in each part, a chat message {{role, content}}, "
        f"a Responses item with a known `type`, or of a registered format (known: {known}). "
        "Register its format, or name one with format=",
        path=path,
    )


def _fault(message: Mapping[str, Any]) -> tuple[str, str]:
    """Where and why `message` is of no format: what is wrong with a native one, or what is there instead."""
    parts, role = message.get("parts"), message.get("role")
    if is_list(parts) and isinstance(role, str):
        for n, part in enumerate(parts):
            if not is_object(part):
                return f"parts[{n}]", f"parts[{n}] is not an object"
            if not isinstance(part.get("type"), str):
                return f"parts[{n}].type", f"parts[{n}] has no `type` that is text"
    if "parts" in message and not is_list(parts):
        return "parts", "`parts` is not a list"
    if ("parts" in message or "content" in message) and not isinstance(role, str):
        return "role", "there is no `role` that is text"
    if "content" in message and not isinstance(message["content"], str | list | None):
        return "content", f"`content` is a {type(message['content']).__name__}, not text or a list of parts"
    seen = ", ".join(repr(key) for key in list(message)[:8]) or "nothing"
    return "", f"no registered format fits a message with {seen}"
