"""A conversation as another framework's messages: kept as they are where they are its own, written anew where not."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from msgspec.structs import replace

from plait import formats
from plait.errors import CorruptError
from plait.formats.pieces import Call, Group, Result, Said, joined, said_by
from plait.logic import arguments
from plait.model import Damaged, Json, Message

As: TypeAlias = Literal["openai", "langchain", "pydantic-ai", "adk", "claude", "ui"]
NAMES: Final[tuple[str, ...]] = get_args(As)


class Writer(Protocol):
    """Writes groups as messages of one format; made anew for each conversation.

    `own` are the names of the formats whose messages it takes as they are.
    """

    own: frozenset[str]

    def takes(self, content: Json, format: str) -> bool:
        """Whether a message of one of its `own` formats can go out as it is."""
        ...

    def kept(self, content: Json) -> list[Json]:
        """What comes out for a message that goes out as it is, with what was held back before it."""
        ...

    def write(self, group: Group) -> list[Json]:
        """What comes out for a group; some of it may be held back for what follows."""
        ...

    def end(self) -> list[Json]:
        """What was held back."""
        ...


class Plain:
    """What most writers share: every message of their own goes out, and nothing is held back."""

    own: frozenset[str] = frozenset()

    def takes(self, content: Json, format: str) -> bool:
        return True

    def kept(self, content: Json) -> list[Json]:
        return [content]

    def end(self) -> list[Json]:
        return []


class Crossing:
    """Takes messages in the order of their path, root first, and answers them in another format.

    Holds what belongs to one message of that format, and the names of the tools whose calls are open.
    """

    def __init__(self, as_: str, *, session_id: str = "") -> None:
        self._writer = _writer(as_, session_id)
        self._held: list[Said] = []
        self._last: Message | None = None
        self._names: dict[str, str] = {}
        self._ran = ""

    def feed(self, message: Message | Damaged) -> list[Json]:
        """What can be said of the conversation with one message more; damaged ones are passed over."""
        return [item for item, _ in self.take(message)]

    def end(self) -> list[Json]:
        """The rest."""
        return [item for item, _ in self.rest()]

    def take(self, message: Message | Damaged) -> list[tuple[Json, Message]]:
        """The same as `feed`, each with the last message that it was made of."""
        if isinstance(message, Damaged):
            return []
        try:
            content = message.to_dict() if message.format in self._writer.own else None
            if content is not None and self._writer.takes(content, message.format):
                return [*self._flush(), *self._keep(content, message)]
            written: list[tuple[Json, Message]] = []
            for said in said_by(message):
                if self._held and not _joins(self._held[-1], said):
                    written += self._flush()
                self._held.append(said)
        except CorruptError:
            return []
        return written

    def rest(self) -> list[tuple[Json, Message]]:
        """The same as `end`, each with the last message that it was made of."""
        written = self._flush()
        left = self._writer.end()
        assert self._last is not None or not left
        return written + [(item, self._last) for item in left if self._last is not None]

    def _keep(self, content: Json, message: Message) -> list[tuple[Json, Message]]:
        for said in said_by(message):
            self._note(said)
        before, self._last = self._last or message, message
        *held, last = self._writer.kept(content)
        return [*((item, before) for item in held), (last, message)]

    def _flush(self) -> list[tuple[Json, Message]]:
        held, self._held = self._held, []
        if not held:
            return []
        for said in held:
            self._note(said)
        joined(held)
        source = self._last = held[-1].message
        return [(item, source) for item in self._writer.write(Group(held[0].kind, held))]

    def _note(self, said: Said) -> None:
        """Give each result the name of its tool, which only the call may say."""
        for n, piece in enumerate(said.pieces):
            if isinstance(piece, Call | Result) and not piece.id and piece.by_provider:
                piece = said.pieces[n] = self._named(piece, f"{said.id}.{n}")
            if isinstance(piece, Call) and piece.result is None:
                self._names[piece.id] = piece.name
            elif isinstance(piece, Result):
                name = self._names.pop(piece.id, None) if piece.name is None else piece.name
                self._names.pop(piece.id, None)
                said.pieces[n] = replace(piece, name=name)

    def _named(self, piece: Call | Result, id: str) -> Call | Result:
        """What the provider ran without saying an id, by one that its result shares."""
        if isinstance(piece, Call):
            self._ran = id
        return replace(piece, id=self._ran or id)


def _joins(last: Said, next: Said) -> bool:
    """Whether two things said one after another go into one message where a format has one for both."""
    if last.kind != next.kind:
        return False
    pieces = _is_piece(last.message) and _is_piece(next.message)
    return next.kind == "tool" or (next.kind == "assistant" and pieces and last.message is not next.message)


def _is_piece(message: Message) -> bool:
    return formats.is_piecewise(message.format)


def messages_as(messages: Iterable[Message | Damaged], as_: As, *, session_id: str = "") -> Iterator[Json]:
    """`messages` (a path or a piece of one, root first) as another framework's, in plain JSON values.

    Those that are kept in that framework's format come out exactly as they were given, the others are
    written in it: words, calls and their results, media, and what else it has a place for; what each
    crossing keeps is in docs/reference/adapters.md. One message may become several, or several one.
    What nobody said (the role `meta`) and what is damaged is left out. Lazy: holds one reply at a time.

    `openai`: items of the Responses API; `langchain`: dicts for `messages_from_dict`; `pydantic-ai`:
    for `ModelMessagesTypeAdapter.validate_json`, as a list in JSON text; `adk`: for `Event.model_validate`;
    `claude`: entries of Claude Code, in the session `session_id`; `ui`: AI SDK UI messages.
    """
    arguments.several("messages", messages)
    return _written(messages, Crossing(as_, session_id=arguments.string("session_id", session_id)))


def _written(messages: Iterable[object], crossing: Crossing) -> Iterator[Json]:
    for message in messages:
        if not isinstance(message, Message | Damaged):
            raise arguments.refusal("messages", "messages as they were read: Message objects", message)
        yield from crossing.feed(message)
    yield from crossing.end()


def sourced(messages: Iterable[Message | Damaged], as_: As) -> Iterator[tuple[Json, Message]]:
    """The same as `messages_as`, each with the last of the messages that it was made of.

    Several that one message became come one after another with that message; what the `ui` holds back
    for the end of a reply comes with the message that ended it.
    """
    crossing = Crossing(as_)
    for message in messages:
        yield from crossing.take(message)
    yield from crossing.rest()


def _writer(as_: str, session_id: str) -> Writer:
    as_ = arguments.word("as_", as_, NAMES)
    module: Any = importlib.import_module(f"plait.formats.writers.{as_.replace('-', '_')}")
    made: Writer = module.make(session_id)
    return made
