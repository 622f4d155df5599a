"""Making a conversation one that providers take: what a view shows may be only part of what is stored.

A call without a result gets a marked one, a result without a call is left out, reasoning stays
with what it belongs to, and a turn that says nothing is not shown. What is stored is never
touched, and an approval that is still pending stays pending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from plait import formats, jsontext, times
from plait.logic import arguments, estimate
from plait.logic.turns import Entry, Unit, is_blank, is_hidden, units
from plait.model import Damaged, Format, Json, Message

NO_RESULT: Final = "No result of this call was recorded."
"""What stands as the error of a call that nobody has answered."""

RESULT_PREFIX: Final = "plait:result:"
"""How the id of a message begins that stands for a missing result, or for some of the results of a message.

The id of that caller or message follows, and a number.
"""

_ID_KEYS: Final = ("id", "uuid")
"""Where a message's own id stands; a part of it must not go under the same."""


@dataclass(slots=True, eq=False)
class _Shown:
    """An entry as it is shown, messages made for what is missing, and the results in it by message of their calls."""

    entry: Entry
    message: Message
    made: list[Message]
    thinks: bool
    answers: dict[int, Entry]

    @property
    def speaks(self) -> bool:
        return self.entry.speaks


def legal_view(messages: Iterable[Message | Damaged]) -> Iterator[Message]:
    """`messages` (a path or a piece of one, root first) as a conversation that providers take.

    A call without its result is followed by one that says `NO_RESULT`, a result without its call
    is left out, and so is a call that the provider ran and of which it gave no result: only it could. All results of what was said at once come right after it and before any words: a
    message that holds results of several, or words before a result, is shown in parts. What no
    provider takes (a turn without content, reasoning that nothing follows) or no model sees (a
    message of the role `meta`) is left out, and so is what is damaged. Pending approvals stay pending. Messages that need no change are the same objects, and
    the view of a view is the same. Lazy: holds one turn at a time.
    """
    arguments.several("messages", messages)
    return _legal_view(messages)


def shows_no_result(message: Message) -> bool:
    """Whether a message of such a view says of a call that it has no result: one made for it, or the call's own."""
    text = message.to_json()
    return NO_RESULT in text and (message.id.startswith(RESULT_PREFIX) or f'"errorText":"{NO_RESULT}"' in text)


def source_of(id: str) -> str:
    """The id of the message that a message of such a view was made for, or of; a stored one's is its own."""
    return id[len(RESULT_PREFIX) :].rpartition(":")[0] if id.startswith(RESULT_PREFIX) else id


def _legal_view(messages: Iterable[Message | Damaged]) -> Iterator[Message]:
    for unit in units(map(_read, messages)):
        yield from legal(unit)


def _read(message: object) -> Message | Damaged:
    if not isinstance(message, Message | Damaged):
        raise arguments.refusal("messages", "messages as they were read: Message objects", message)
    return message


def legal(unit: Unit) -> list[Message]:
    """What is shown of a unit, in the order in which a model is to see it."""
    shown = _shapes(unit.entries)
    if _is_torn(unit, shown):
        shown = _shapes(entry for entry in unit.entries if not (entry.piece and entry.speaks))
    return _followed(list(_ordered(shown)))


def _shapes(entries: Iterable[Entry]) -> list[_Shown]:
    """The entries of which something is left to show; results of other messages are not."""
    shown: list[_Shown] = []
    callers: set[int] = set()
    for entry in entries:
        if entry.aside:
            continue
        item = _shape(entry, {part for part, caller in entry.answers.items() if id(caller) not in callers})
        if item is not None:
            shown.append(item)
            callers.add(id(entry))
    return shown


def _shape(entry: Entry, less: set[int]) -> _Shown | None:
    """The entry with its calls answered, without orphans and the results `less`; `None` if nothing is left to show."""
    gone = less.union(result.part for result in entry.orphans)
    dangling = [call.part for call in entry.dangling]
    gone |= {n for n in dangling if entry.parts[n].get("providerExecuted") is True}
    dangling = [n for n in dangling if n not in gone]
    if not gone and not dangling:
        return _Shown(entry, entry.message, [], entry.thinks, entry.answers)
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
    left_over = {part: caller for part, caller in entry.answers.items() if part not in gone}
    return _Shown(entry, _changed(entry.message, content, format), made, thinks, left_over)


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


def _taken_out(item: _Shown, parts: set[int], n: int) -> Message:
    """A message of these results alone."""
    entry, id = item.entry, f"{RESULT_PREFIX}{item.entry.message.id}:{n}"
    others = set(range(len(entry.parts))) - parts
    left = formats.without(formats.stored(entry.message.format), entry.message.content, others)
    assert left is not None
    content, format = left
    content = {key: id if key in _ID_KEYS else value for key, value in content.items()}
    tokens = estimate.estimate_message(content, format)
    message = entry.message.with_content(content, tokens=tokens, format=format)
    message.id, message.role = id, format.role(content)
    return message


def _is_torn(unit: Unit, shown: list[_Shown]) -> bool:
    """Whether a call had to be left out that stands among pieces with their reasoning.

    They were said at once and are taken back by a provider as a whole only.
    """
    pieces = [entry for entry in unit.entries if entry.piece and entry.speaks]
    kept = {id(item.entry) for item in shown}
    return any(entry.thinks for entry in pieces) and any(id(entry) not in kept for entry in pieces)


def _followed(ordered: list[tuple[Message, _Shown | None]]) -> list[Message]:
    """The messages without reasoning that nothing said comes right after."""
    kept: list[Message] = []
    said = False
    for message, item in reversed(ordered):
        if item and item.speaks and item.thinks and not said:
            continue
        said = item is not None and item.speaks and not item.answers
        kept.append(message)
    return kept[::-1]


def _ordered(shown: list[_Shown]) -> Iterator[tuple[Message, _Shown | None]]:
    """What was said, each call followed by its results; then what others said meanwhile.

    A message made for missing results, or of some results of another, comes with `None`.
    """
    placed = _Placed(shown)
    made: list[Message] = []
    for n, item in enumerate(placed.speaking):
        if item is not None:
            yield item.message, item
            made += item.made
        if n in placed.ends.values():
            yield from ((message, None) for message in made)
            yield from placed.results.get(n, ())
            yield from ((said.message, said) for said in placed.words.get(n, ()))
            made = []
    yield from ((item.message, item) for item in placed.others)


class _Placed:
    """Where the results of a unit are shown: all that belong to what was said at once come right after it.

    Places are counted by what was said. `results` and `words` come after a place: messages of
    results alone, then at most one in which words follow results, then words.
    """

    def __init__(self, shown: list[_Shown]) -> None:
        self.ends = _ends([item for item in shown if item.speaks])
        self.results: dict[int, list[tuple[Message, _Shown | None]]] = {}
        self.words: dict[int, list[_Shown]] = {}
        self.others: list[_Shown] = []
        for item in shown:
            if item.answers and not item.speaks:
                self._answer(item)
            elif not item.speaks:
                self.others.append(item)
        self.speaking = [self._speak(item, n) for n, item in enumerate(item for item in shown if item.speaks)]

    def _answer(self, item: _Shown) -> None:
        """Place a message of results in which a model says nothing."""
        after = self._by_place(item)
        last = max(after)
        mixed = item.entry.says
        parted = (mixed and last in self.words) or _begins_with_words(item)
        rest = self._moved(item, after, () if parted else (last,))
        if rest is not None and mixed:
            self.words.setdefault(last, []).append(rest)
        elif rest is not None:
            self.results.setdefault(last, []).append((rest.message, rest))

    def _speak(self, item: _Shown, n: int) -> _Shown | None:
        """What is left of what a model said when results beside it are at their places, if anything."""
        if not item.answers:
            return item
        own = self.ends[id(item.entry)]
        return self._moved(item, self._by_place(item), (own,) if n - 1 in self.words else (own, n - 1))

    def _by_place(self, item: _Shown) -> dict[int, set[int]]:
        after: dict[int, set[int]] = {}
        for part, caller in item.answers.items():
            after.setdefault(self.ends[id(caller)], set()).add(part)
        return after

    def _moved(self, item: _Shown, after: dict[int, set[int]], stay: Collection[int]) -> _Shown | None:
        """Put the results of a message at their places but for those that stay; what is left of it, if anything."""
        moved = sorted((place, parts) for place, parts in after.items() if place not in stay)
        if not moved:
            return item
        for n, (place, parts) in enumerate(moved, len(item.made)):
            self.results.setdefault(place, []).append((_taken_out(item, parts, n), None))
        left = {part for place in stay for part in after.get(place, ())}
        return _shape(item.entry, set(item.entry.answers) - left)


def _begins_with_words(item: _Shown) -> bool:
    """Whether something stands before a result in its message; providers take results first."""
    results = {result.part for result in item.entry.results}
    before = item.entry.parts[: max(item.answers)]
    return any(n not in results and not is_hidden(part) for n, part in enumerate(before))


def _ends(speaking: list[_Shown]) -> dict[int, int]:
    """For each message where what was said at once ends: itself, or the last of some pieces in a row."""
    ends: dict[int, int] = {}
    end = 0
    for n, item in reversed(list(enumerate(speaking))):
        follows = n + 1 < len(speaking) and item.entry.piece and speaking[n + 1].entry.piece
        end = end if follows else n
        ends[id(item.entry)] = end
    return ends
