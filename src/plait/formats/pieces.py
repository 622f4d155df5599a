"""What messages of any format say, in a few plain values: what a writer of another format begins from.

Native parts have several spellings of one thing (`tool-search` and `dynamic-tool`, a call with its
result in it and one apart, a data URL and bare base64). Here each thing has one.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from plait import jsontext
from plait.formats import native
from plait.logic.shape import is_list, is_object
from plait.logic.usage import tokens_used
from plait.model import Json, Message

Kind: TypeAlias = Literal["system", "user", "summary", "assistant", "tool"]
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("assistant", "model", "ai"), "assistant"),
    **dict.fromkeys(("tool", "function"), "tool"),
    "summary": "summary",
}
NOBODY: Final = "meta"
"""The role of what nobody said; no writer writes it."""
_NAMES: Final = uuid.UUID("8d3f9f9e-52b5-4d0c-9f0b-6c4d1b2a7e10")


class Words(Struct, frozen=True):
    """Text that was said. `own` is what must go back to its provider as it came, by the provider's name."""

    text: str
    own: Json


class Thought(Struct, frozen=True):
    """What a model said to itself; `own` as that of `Words`."""

    text: str
    own: Json


class Media(Struct, frozen=True):
    """A file: its bytes as base64, or where it is, or the id under which a provider keeps it."""

    media_type: str
    data: str | None
    url: str | None
    file_id: str | None
    filename: str | None

    @property
    def data_url(self) -> str | None:
        """The file as a URL: its own, or a data URL; `None` if there is neither."""
        return self.url if self.data is None else f"data:{self.media_type};base64,{self.data}"

    @property
    def family(self) -> str:
        """`image`, `audio`, `video`, or `document` for all else."""
        family = self.media_type.partition("/")[0]
        return family if family in ("image", "audio", "video") else "document"

    @property
    def marker(self) -> str:
        """What stands for it where a format has no place for it."""
        return f"[{self.filename}: {self.media_type}]" if self.filename else f"[{self.media_type}]"


class Result(Struct, frozen=True):
    """What came back from a call: text, a JSON value, or `pieces` where there is media in it.

    One that the provider itself got is `by_provider`: it is part of what a model said.
    """

    id: str
    name: str | None
    output: Any
    failed: bool
    pieces: tuple[Words | Media, ...] = ()
    by_provider: bool = False

    @property
    def text(self) -> str:
        """The output as text: JSON if it is no text."""
        return self.output if isinstance(self.output, str) else jsontext.encode(self.output)


class Call(Struct, frozen=True):
    """A call of a tool. One that the provider ran itself has its `result` with it, and nobody here answers it."""

    id: str
    name: str
    input: Any
    own: Json
    by_provider: bool = False
    result: Result | None = None

    @property
    def arguments(self) -> str:
        """The input as JSON text; text that a model wrote and that is no JSON is as it is."""
        if self.input is None:
            return "{}"
        return self.input if isinstance(self.input, str) else jsontext.encode(self.input)

    @property
    def fields(self) -> Json:
        """The input as an object; what is none is under `input`."""
        if is_object(self.input):
            return self.input
        return {} if self.input is None else {"input": self.input}


class Odd(Struct, frozen=True):
    """A part that is none of these."""

    part: Json

    @property
    def prompt(self) -> str | None:
        """The words of a system's prompt that stands in another's message (`data-system-prompt`)."""
        data = self.part.get("data") if self.part.get("type") == "data-system-prompt" else None
        return native.text_of(data.get("content")) if is_object(data) else None


class _Step(Struct, frozen=True):
    """Where a model was asked again."""


STEP: Final = _Step()


Piece: TypeAlias = Words | Thought | Media | Call | Result | Odd


class Said(Struct, frozen=True):
    """Some pieces that one message says at once; `n` is which of several of that message."""

    kind: Kind
    pieces: list[Piece]
    message: Message
    n: int

    @property
    def id(self) -> str:
        """The message's id, numbered if this is not the first of it."""
        return self.message.id if self.n == 0 else f"{self.message.id}:{self.n}"


class Group(Struct, frozen=True):
    """What was said at once, or all results of that, or one message that came in; never empty."""

    kind: Kind
    said: list[Said]

    @property
    def pieces(self) -> list[Piece]:
        return [piece for said in self.said for piece in said.pieces]

    @property
    def id(self) -> str:
        return self.said[0].id

    @property
    def at(self) -> dt.datetime:
        return self.said[0].message.created_at

    @property
    def usage(self) -> tuple[int, int] | None:
        """Tokens in (cached ones too) and out, as the last of the messages that says so says."""
        found = [tokens_used(said.message.usage) for said in self.said if said.kind == "assistant"]
        return next((tokens for tokens in reversed(found) if tokens is not None), None)


def said_by(message: Message) -> Iterator[Said]:
    """What a message says, in the order in which a model is to see it: its calls before their results."""
    role = message.role
    if role == NOBODY:
        return
    pieces = list(_pieces(message.parts))
    calling = any(isinstance(piece, Call) or is_own_result(piece) for piece in pieces)
    kind: Kind = "assistant" if calling else _KINDS.get(role, "user")
    runs = _steps(pieces) if kind == "assistant" else _come_in("user" if kind == "tool" else kind, pieces)
    n = 0
    for run_kind, run in runs:
        if run:
            yield Said(run_kind, run, message, n)
            n += 1


def joined(said: list[Said]) -> None:
    """Put what the provider got to the calls by which it did, where one reply says both."""
    waiting: dict[str, Call] = {}
    found: dict[int, Result] = {}
    taken: set[int] = set()
    for piece in (piece for one in said for piece in one.pieces):
        if isinstance(piece, Call) and piece.by_provider and piece.result is None:
            waiting[piece.id] = piece
        elif isinstance(piece, Result) and piece.by_provider and piece.id in waiting:
            found[id(waiting.pop(piece.id))] = piece
            taken.add(id(piece))
    if not taken:
        return
    for one in said:
        left = [piece for piece in one.pieces if id(piece) not in taken]
        one.pieces[:] = [replace(piece, result=found[id(piece)]) if id(piece) in found else piece for piece in left]


def is_own_result(piece: object) -> bool:
    """Whether a piece is what the provider itself got by a call."""
    return isinstance(piece, Result) and piece.by_provider


def _steps(pieces: list[Piece | _Step]) -> Iterator[tuple[Kind, list[Piece]]]:
    """What a model said, then what its calls gave, step by step; what it says after a result is the next step."""
    marked = STEP in pieces
    said: list[Piece] = []
    results: list[Piece] = []
    for piece in pieces:
        answers = isinstance(piece, Result) and not piece.by_provider
        if isinstance(piece, _Step) or (results and not marked and isinstance(piece, Words | Thought | Media)):
            yield "assistant", said
            yield "tool", results
            said, results = [], []
        if not isinstance(piece, _Step):
            (results if answers else said).append(piece)
    yield "assistant", said
    yield "tool", results


def _come_in(kind: Kind, pieces: list[Piece | _Step]) -> Iterator[tuple[Kind, list[Piece]]]:
    """What a message that no model wrote holds: a system's words, results, then what its speaker says."""
    prompts = [piece for piece in pieces if isinstance(piece, Odd) and piece.prompt is not None]
    yield "system", [Words(piece.prompt or "", {}) for piece in prompts]
    yield "tool", [piece for piece in pieces if isinstance(piece, Result)]
    yield kind, [piece for piece in pieces if not isinstance(piece, Result | _Step) and piece not in prompts]


def _pieces(parts: Iterable[Json]) -> Iterator[Piece | _Step]:
    for part in parts:
        kind = part.get("type") if is_object(part) else None
        if kind == "step-start":
            yield STEP
        elif kind == "dynamic-tool" or (isinstance(kind, str) and kind.startswith("tool-")):
            yield from _tool(kind, part)
        elif isinstance(kind, str):
            yield _piece(kind, part)


def _piece(kind: str, part: Json) -> Piece:
    match kind:
        case "text":
            return Words(native.text_of(part.get("text")), _own(part, "providerMetadata"))
        case "reasoning":
            return Thought(native.text_of(part.get("text")), _own(part, "providerMetadata"))
        case "file":
            return media(part)
        case _:
            return Odd(part)


def media(part: Json) -> Media:
    """The piece of a native `file` part."""
    declared, url = native.text_of(part.get("mediaType")), native.text_or_none(part.get("url"))
    data, names = native.text_or_none(part.get("data")), ("fileId", "filename")
    file_id, filename = (native.text_or_none(part.get(name)) for name in names)
    if url is not None and url.startswith("data:"):
        head, _, body = url[5:].partition(",")
        spelled, _, encoding = head.rpartition(";")
        if encoding == "base64":
            return Media(declared or spelled or "application/octet-stream", body, None, file_id, filename)
    return Media(declared or "application/octet-stream", data, None if data is not None else url, file_id, filename)


def _tool(kind: str, part: Json) -> Iterator[Piece]:
    """A call, its result, or both."""
    id = native.text_of(part.get("toolCallId"))
    name = native.text_or_none(part.get("toolName"))
    if name is None and kind.startswith("tool-") and kind not in ("tool-call", "tool-result"):
        name = kind.removeprefix("tool-")
    asked, answered = "input" in part or "rawInput" in part or kind == "tool-call", _answered(part)
    result = _result(id, name, part) if answered else None
    if asked or not answered:
        provider = part.get("providerExecuted") is True
        given = part.get("input", part.get("rawInput"))
        own = _own(part, "callProviderMetadata") or _own(part, "providerMetadata")
        yield Call(id, name or "", given, own, provider, result if provider else None)
        if provider:
            return
    if result is not None:
        yield result


def _answered(part: Json) -> bool:
    state = part.get("state")
    return state in ("output-available", "output-error", "output-denied") or (
        state is None and any(part.get(key) is not None for key in ("output", "result", "errorText"))
    )


def _result(id: str, name: str | None, part: Json) -> Result:
    own = part.get("providerExecuted") is True
    if part.get("state") == "output-denied":
        return Result(id, name, _reason(part) or "The call was not allowed.", failed=True, by_provider=own)
    if part.get("state") == "output-error" or part.get("errorText") is not None:
        return Result(id, name, native.text_of(part.get("errorText")), failed=True, by_provider=own)
    output, failed = part.get("output", part.get("result")), part.get("isError") is True
    if part.get("type") == "tool-result" and is_object(output) and output.keys() == {"type", "value"}:
        failed = failed or native.text_of(output["type"]).startswith("error")
        output = output["value"]
    return Result(id, name, output, failed, _media_in(output), own)


def _reason(part: Json) -> str:
    approval = part.get("approval")
    return native.text_of(approval.get("reason")) if is_object(approval) else ""


def _media_in(output: Any) -> tuple[Words | Media, ...]:
    """The pieces of an output that is native parts with media among them."""
    if not is_list(output) or not any(is_object(part) and part.get("type") == "file" for part in output):
        return ()
    return tuple(_in_output(part) for part in output)


def _in_output(part: Any) -> Words | Media:
    """Words, a file, or any other value as its JSON."""
    if is_object(part) and part.get("type") == "file":
        return media(part)
    if is_object(part) and part.get("type") == "text":
        return Words(native.text_of(part.get("text")), {})
    inner = part["data"] if is_object(part) and part.keys() == {"type", "data"} else part
    return Words(jsontext.encode(inner), {})


def _own(part: Json, key: str) -> Json:
    own = part.get(key)
    return own if is_object(own) else {}


def own_of(piece: Words | Thought | Call, provider: str) -> Json:
    """What a piece has to give back to one provider."""
    return _own(piece.own, provider)


def uuid_of(id: str) -> str:
    """The id itself if it is a UUID, else the one that stands for it."""
    try:
        return str(uuid.UUID(id)) if len(id) == 36 else str(uuid.uuid5(_NAMES, id.encode("utf-8", "replace").decode()))
    except ValueError:
        return str(uuid.uuid5(_NAMES, id.encode("utf-8", "replace").decode()))
