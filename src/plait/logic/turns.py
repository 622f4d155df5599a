"""Which messages belong together: a call with all of its results, reasoning with what follows it.

Ids of calls repeat from turn to turn, so a result is paired with a call of the same *turn*: from
where the model speaks to where it speaks again. Whatever cuts a conversation (a limit, a budget,
a compaction) cuts between units, never inside one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from plait import formats
from plait.errors import CorruptError
from plait.logic.shape import is_object
from plait.model import Damaged, Json, Message

HIDDEN_TYPES: Final = ("step-start", "source-url", "source-document")
"""Parts that are for an interface; like `data-*` parts, no model sees them."""

NOBODY: Final = "meta"
"""The role of what stands in a conversation without being said by anybody, which no model sees either."""

_RESULT_STATES: Final = ("output-available", "output-error", "output-denied")
_PENDING_STATES: Final = ("approval-requested", "approval-responded")
_OUTPUTS: Final = ("output", "result", "errorText")
_INPUTS: Final = ("input", "rawInput")


class Call(NamedTuple):
    """A call whose result is not in the same message: its part, and whether it waits for somebody's approval."""

    part: int
    id: str
    pending: bool


class Result(NamedTuple):
    """A result whose call is not in the same message."""

    part: int
    id: str


@dataclass(slots=True, eq=False)
class Entry:
    """A message as it stands among others.

    `says` says that a model sees something in it beside results, `speaks` that a model said or asked
    for that, `thinks` that it is reasoning and nothing more, and `ends` that the message stands for
    earlier ones. `answered` are the calls that have found their results; `answers` tells for each
    result that has found its call the message of that call.
    """

    message: Message
    parts: list[Json]
    calls: list[Call]
    results: list[Result]
    says: bool
    speaks: bool
    thinks: bool
    ends: bool
    piece: bool
    answered: set[int] = field(default_factory=set[int])
    answers: dict[int, Entry] = field(default_factory=dict[int, "Entry"])

    @property
    def aside(self) -> bool:
        """Whether no model sees anything of it."""
        return not self.says and not self.results

    @property
    def dangling(self) -> list[Call]:
        """The calls that have no result and wait for nobody's approval."""
        return [call for call in self.calls if call.part not in self.answered and not call.pending]

    @property
    def orphans(self) -> list[Result]:
        """The results without a call."""
        return [result for result in self.results if result.part not in self.answers]


@dataclass(frozen=True, slots=True)
class Unit:
    """Messages that stand or fall together, in stored order; most units are one message.

    `open` says that a call in it still waits, for its result or for an approval.
    """

    entries: tuple[Entry, ...]
    open: bool

    @property
    def messages(self) -> list[Message]:
        return [entry.message for entry in self.entries]

    @property
    def tokens(self) -> int:
        return sum(entry.message.tokens for entry in self.entries)


def is_tool(part: Json) -> bool:
    """Whether a part is a tool's call, its result, or both: `dynamic-tool`, or `tool-` and its name."""
    kind = part.get("type")
    return isinstance(kind, str) and (kind == "dynamic-tool" or kind.startswith("tool-"))


def has_result(part: Json) -> bool:
    """Whether a tool part holds a result, an error or a refusal."""
    return part.get("state") in _RESULT_STATES or any(part.get(key) is not None for key in _OUTPUTS)


def is_result_alone(part: Json) -> bool:
    """Whether a tool part is the result of a call that stands elsewhere."""
    if not has_result(part) or any(key in part for key in _INPUTS):
        return False
    # The AI SDK's own parts hold both always; what it asked for may be missing when that was the error.
    named = part.get("type") not in ("dynamic-tool", "tool-result")
    return not (named and part.get("state") == "output-error")


def is_hidden(part: Json) -> bool:
    """Whether a part is for an interface only."""
    kind = part.get("type")
    return not isinstance(kind, str) or kind in HIDDEN_TYPES or kind.startswith("data-")


def is_blank(part: Json) -> bool:
    """Whether a part says nothing to a model."""
    if part.get("type") != "text":
        return is_hidden(part)
    text = part.get("text")
    return not (isinstance(text, str) and text.strip())


def look(message: Message) -> Entry | None:
    """What `message` is among others; `None` if its content is damaged."""
    try:
        parts = message.parts
    except CorruptError:
        return None
    if message.role == NOBODY:
        return Entry(message, parts, [], [], says=False, speaks=False, thinks=False, ends=False, piece=False)
    calls, results = _tools(parts)
    alone = {result.part for result in results}
    said = [part for n, part in enumerate(parts) if n not in alone and is_object(part) and not is_blank(part)]
    overlay = None if getattr(message, "whole", False) else getattr(message, "overlay", None)
    return Entry(
        message,
        parts,
        calls,
        results,
        says=bool(said),
        speaks=overlay is None and bool(said) and (message.role == "assistant" or bool(calls)),
        thinks=bool(said) and all(part.get("type") == "reasoning" for part in said) and not results,
        ends=overlay is not None and overlay.kind == "compaction",
        piece=formats.is_piecewise(message.format),
    )


def _tools(parts: list[Json]) -> tuple[list[Call], list[Result]]:
    """The calls and results of a message that have not found one another within it."""
    calls: list[Call] = []
    results: list[Result] = []
    for n, part in enumerate(parts):
        if not (is_object(part) and is_tool(part)):
            continue
        id = part.get("toolCallId")
        name = id if isinstance(id, str) else ""
        if is_result_alone(part):
            call = next((call for call in calls if call.id == name), None)
            if call is None:
                results.append(Result(n, name))
            else:
                calls.remove(call)
        elif not has_result(part):
            calls.append(Call(n, name, part.get("state") in _PENDING_STATES))
    return calls, results


class Units:
    """Reads a path root first: answers each unit as soon as nothing that follows can belong to it.

    Holds one turn at most: from a call without its result to where the model speaks again.
    """

    def __init__(self) -> None:
        self._held: list[Entry] = []
        self._open: dict[str, deque[tuple[Entry, Call]]] = {}
        self._answering = False

    def feed(self, message: Message | Damaged) -> list[Unit]:
        """Take the next message; a damaged one is passed over."""
        entry = None if isinstance(message, Damaged) else look(message)
        return [] if entry is None else self.take(entry)

    def take(self, entry: Entry) -> list[Unit]:
        """Take the next message, looked at already."""
        if entry.ends:
            return [*self.end(), Unit((entry,), open=False)]
        units: list[Unit] = []
        self._pair(entry)
        if self._begins_anew(entry):
            units = self.end()
        self._hold(entry)
        return units if self._waits() else [*units, *self.end()]

    def end(self) -> list[Unit]:
        """Nothing follows that could belong to what is held."""
        units = list(_apart(self._held))
        self._held, self._open, self._answering = [], {}, False
        return units

    def _pair(self, entry: Entry) -> None:
        for result in entry.results:
            waiting = self._open.get(result.id)
            if not waiting:
                continue
            found = next((item for item in waiting if not item[1].pending), waiting[-1])
            waiting.remove(found)
            caller, call = found
            caller.answered.add(call.part)
            entry.answers[result.part] = caller

    def _begins_anew(self, entry: Entry) -> bool:
        """Whether what is held cannot go on with this message."""
        if not self._held or entry.aside:
            return False
        calling = any(self._open.values())
        if entry.speaks and not entry.answers:
            return self._answering or (entry.thinks and entry.piece and not calling and not self._thinking())
        return not calling and not entry.answers and not entry.speaks

    def _hold(self, entry: Entry) -> None:
        self._held.append(entry)
        for call in entry.calls:
            self._open.setdefault(call.id, deque()).append((entry, call))
        if not entry.aside and (entry.results or not entry.speaks):
            self._answering = True

    def _waits(self) -> bool:
        if any(self._open.values()):
            return True
        reasoned = any(entry.thinks and entry.piece for entry in self._held)
        return self._thinking() or (reasoned and not self._answering)

    def _thinking(self) -> bool:
        last = next((entry for entry in reversed(self._held) if not entry.aside), None)
        return last is not None and last.speaks and last.thinks


def _apart(held: list[Entry]) -> Iterator[Unit]:
    """The units of one turn."""
    reach = _reach(held)
    start = 0
    while start < len(held):
        end = reach[start]
        at = start
        while at <= end:
            end = max(end, reach[at])
            at += 1
        entries = tuple(held[start : end + 1])
        yield Unit(entries, any(call.part not in entry.answered for entry in entries for call in entry.calls))
        start = end + 1


def _reach(held: list[Entry]) -> list[int]:
    """For each message of a turn, the last one that it cannot be parted from."""
    place = {id(entry): n for n, entry in enumerate(held)}
    reach = list(range(len(held)))
    thought: int | None = None  # where reasoning began that what follows belongs to
    fresh = False  # whether nothing has followed it yet
    for n, entry in enumerate(held):
        for caller in entry.answers.values():
            for m in range(place[id(caller)], n):
                reach[m] = n
        if entry.aside:
            continue
        if not entry.speaks:
            thought = None
        elif entry.thinks:
            thought, fresh = (thought if fresh and thought is not None else n), True
        elif thought is not None:
            reach[thought] = max(reach[thought], n)
            thought, fresh = (thought if entry.piece and held[thought].piece else None), False
    return reach


class UnitsBackward:
    """Reads a path newest first: answers the same units in the opposite order."""

    def __init__(self) -> None:
        self._held: list[Entry] = []
        self._results = False
        self._next: Entry | None = None

    def feed(self, message: Message | Damaged) -> list[Unit]:
        """Take the message before those taken so far; a damaged one is passed over."""
        entry = None if isinstance(message, Damaged) else look(message)
        if entry is None:
            return []
        units = self.end() if self._parted(entry) else []
        self._held.append(entry)
        self._results = self._results or bool(entry.results)
        self._next = self._next if entry.aside else entry
        return units

    def end(self) -> list[Unit]:
        """Nothing comes before what is held."""
        forward = Units()
        units = [unit for entry in reversed(self._held) for unit in forward.take(entry)]
        units += forward.end()
        self._held, self._results, self._next = [], False, None
        return units[::-1]

    def _parted(self, older: Entry) -> bool:
        """Whether nothing from `older` back can belong to what is held."""
        after = self._next
        if after is None:  # only what nobody sees is held
            return True
        if older.ends or after.ends:
            return True
        if older.aside:
            return False
        if not self._results:
            return not (older.speaks and after.speaks and (older.thinks or older.piece))
        return after.speaks and not after.results and not older.speaks


def units(messages: Iterable[Message | Damaged]) -> Iterator[Unit]:
    """The units of a path, root first."""
    reader = Units()
    for message in messages:
        yield from reader.feed(message)
    yield from reader.end()
