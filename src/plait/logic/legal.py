"""Making a conversation one that providers take: what a view shows may be only part of what is stored.

A call without a result gets a marked one, a result without a call is left out, reasoning stays
with what it belongs to, and a turn that says nothing is not shown. What is stored is never
touched, and an approval that is still pending stays pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from plait import formats, jsontext, times
from plait.logic import estimate
from plait.logic.turns import Entry, Unit, is_blank, units
from plait.model import Damaged, Format, Json, Message

NO_RESULT: Final = "No result of this call was recorded."
"""What stands as the error of a call that nobody has answered."""

RESULT_PREFIX: Final = "plait:result:"
"""How the id of a message begins that stands for a missing result; the id of the caller follows."""


@dataclass(slots=True, eq=False)
class _Shown:
    """An entry as it is shown, and messages made to follow it."""

    entry: Entry
    message: Message
    made: list[Message]
    thinks: bool


def legal_view(messages: Iterable[Message | Damaged]) -> Iterator[Message]:
    """`messages` (a path or a piece of one, root first) as a conversation that providers take.

    A call without its result is followed by one that says `NO_RESULT`, a result without its call
    is left out, results come right after their calls; what no provider takes (a turn without
    content, reasoning that nothing follows) or no model sees is left out, and so is what is
    damaged. Pending approvals stay pending. Messages that need no change are the same objects.
    Lazy: holds one turn at a time.
    """
    for unit in units(messages):
        yield from legal(unit)


def legal(unit: Unit) -> list[Message]:
    """What is shown of a unit, in the order in which a model is to see it."""
    shown = [shape for entry in unit.entries if not entry.aside and (shape := _shape(entry)) is not None]
    if _is_torn(unit, shown):
        shown = [item for item in shown if not (item.entry.piece and item.entry.speaks) and not _answers_piece(item)]
    return _followed(list(_ordered(shown)))


def _shape(entry: Entry) -> _Shown | None:
    """The entry with its calls answered and without orphans, `None` if nothing is left to show."""
    gone = {result.part for result in entry.orphans}
    dangling = [call.part for call in entry.dangling]
    if not gone and not dangling:
        return _Shown(entry, entry.message, [], entry.thinks)
    format = formats.stored(entry.message.format)
    content: Json = entry.message.content
    made: list[Message] = []
    answers = formats.answered(format, content, dangling, NO_RESULT) if dangling else None
    if answers is not None:
        content = answers.content
        made = [_made(entry.message, n, answers, item) for n, item in enumerate(answers.following)]
    else:
        gone.update(dangling)
    if gone:
        left = formats.without(format, content, gone)
        if left is None:
            return None
        content, format = left
    parts = format.parts(content)
    if all(map(is_blank, parts)):
        return None
    thinks = all(is_blank(part) or part.get("type") == "reasoning" for part in parts)
    return _Shown(entry, _changed(entry.message, content, format), made, thinks)


def _changed(message: Message, content: Json, format: Format) -> Message:
    if content == message.content:
        return message
    return message.with_content(content, tokens=estimate.estimate_message(content, format), format=format)


def _made(caller: Message, n: int, answers: formats.Answers, content: Json) -> Message:
    """A message that stands for missing results."""
    format, id = answers.format, f"{RESULT_PREFIX}{caller.id}:{n}"
    content = {"id": id, **content} if format is formats.NATIVE else content
    text = jsontext.encode(content)
    tokens = estimate.estimate_message(content, format)
    at = times.to_us(caller.created_at)
    return Message(id, format.role(content), caller.seq, caller.id, at, len(text.encode()), tokens, format, text)


def _is_torn(unit: Unit, shown: list[_Shown]) -> bool:
    """Whether a call had to be left out that stands among pieces with their reasoning.

    They were said at once and are taken back by a provider as a whole only.
    """
    pieces = [entry for entry in unit.entries if entry.piece and entry.speaks]
    kept = {id(item.entry) for item in shown}
    return any(entry.thinks for entry in pieces) and any(id(entry) not in kept for entry in pieces)


def _answers_piece(item: _Shown) -> bool:
    return any(caller.piece for caller in item.entry.callers)


def _followed(ordered: list[tuple[Message, _Shown | None]]) -> list[Message]:
    """The messages without reasoning that nothing said comes right after."""
    kept: list[Message] = []
    said = False
    for message, item in reversed(ordered):
        entry = item.entry if item else None
        if item and entry and entry.speaks and item.thinks and not said:
            continue
        said = entry is not None and entry.speaks and not entry.callers
        kept.append(message)
    return kept[::-1]


def _ordered(shown: list[_Shown]) -> Iterator[tuple[Message, _Shown | None]]:
    """What was said, each call followed by its results; then what others said meanwhile.

    A message made for a missing result comes with `None`.
    """
    speaking = [item for item in shown if item.entry.speaks]
    ends = _ends(speaking)
    after: dict[int, list[_Shown]] = {}
    for item in shown:
        if item.entry.callers and not item.entry.speaks:
            last = max(ends.get(id(caller), 0) for caller in item.entry.callers)
            after.setdefault(last, []).append(item)
    made: list[Message] = []
    for n, item in enumerate(speaking):
        yield item.message, item
        made += item.made
        if ends[id(item.entry)] == n:
            yield from ((message, None) for message in made)
            yield from ((result.message, result) for result in after.get(n, ()))
            made = []
    yield from ((item.message, item) for item in shown if not item.entry.speaks and not item.entry.callers)


def _ends(speaking: list[_Shown]) -> dict[int, int]:
    """For each message where what was said at once ends: itself, or the last of some pieces in a row."""
    ends: dict[int, int] = {}
    end = 0
    for n, item in reversed(list(enumerate(speaking))):
        follows = n + 1 < len(speaking) and item.entry.piece and speaking[n + 1].entry.piece
        end = end if follows else n
        ends[id(item.entry)] = end
    return ends
