"""What a saver remembers of a thread: where its lists of messages lie, and what has been written lately.

Nothing here is needed to read or to be right; it is what makes a checkpoint cost what is new in it. It is
filled by what is read and what is written, and may be forgotten at any time.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from threading import Lock
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage, ToolMessage

import plait
from plait.adapters.langgraph import layout, rows, values
from plait.adapters.langgraph.rows import Place
from plait.adapters.langgraph.values import Said, Text
from plait.logic.ids import MAX_ID_BYTES
from plait.model import OVERLAY_PREFIX

log = logging.getLogger("plait")
THREADS: Final = 64
RECENT: Final = 64
RECENT_BYTES: Final = 4 << 20
LEAST_BODY_BYTES: Final = 256

_SAID: Final = attrgetter("__dict__")
_EXTRA: Final = attrgetter("__pydantic_extra__")

Chain = tuple[str | None, list[tuple[str, dict[str, Any]]]]
Segment = list[Any]
"""`[seq of the first, id of the last, id of the one before it]`; seq 0: from the root."""


class Listed:
    """A list of messages as it was stored: what each said then, and where it is."""

    def __init__(self) -> None:
        self.types: list[type[BaseMessage]] = []
        self.said: list[dict[str, Any]] = []
        self.extra: list[dict[str, Any] | None] = []
        self.places: list[Place] = []
        self.segments: list[Segment] = []

    def add(self, message: BaseMessage, place: Place, said: dict[str, Any] | None = None) -> None:
        """One more message at the end."""
        self.types.append(type(message))
        self.said.append(rows.snapshot(message) if said is None else said)
        self.extra.append(message.__pydantic_extra__)
        self._extend(place)

    def _extend(self, place: Place) -> None:
        before = self.places[-1] if self.places else None
        if before is not None and place.id == before.id:
            pass  # two messages that one row is: it is read once, and says both
        elif before is not None and place.parent_id == before.id:
            self.segments[-1] = [self.segments[-1][0], place.id, before.id]
        else:
            first = 0 if before is None and place.parent_id is None else place.seq
            self.segments.append([first, place.id, ""])
        self.places.append(place)

    def first(self, count: int) -> Listed:
        """The first of them."""
        part = Listed()
        part.types, part.said, part.extra = self.types[:count], self.said[:count], self.extra[:count]
        if count == len(self.places):
            part.places, part.segments = list(self.places), list(self.segments)
            return part
        for place in self.places[:count]:
            part._extend(place)
        return part

    def common(self, messages: Sequence[BaseMessage]) -> int:
        """How many of these messages are, to the letter, the first of them; each comparison is of all at once."""
        n = min(len(messages), len(self.places))
        head = messages if n == len(messages) else messages[:n]
        known = ((type, self.types), (_SAID, self.said), (_EXTRA, self.extra))
        if all(list(map(of, head)) == (stored if n == len(stored) else stored[:n]) for of, stored in known):
            return n
        return next(i for i in range(n) if not self.is_at(i, messages[i]))

    def is_at(self, n: int, message: BaseMessage) -> bool:
        """Whether the n-th is this message, to the letter."""
        same = self.types[n] is type(message) and self.said[n] == message.__dict__
        return same and self.extra[n] == message.__pydantic_extra__


class Laid:
    """A list of messages as it is to be stored, and the messages that come to the session for it."""

    def __init__(self, listed: Listed) -> None:
        self.listed = listed
        self.chains: list[Chain] = []
        self.fresh: list[tuple[int, str]] = []
        """Which of the list are new, and under which ids."""

    @property
    def leaf(self) -> str:
        return self.listed.places[-1].id

    def is_last(self, place: Place) -> bool:
        """Whether the list ends there so far."""
        return bool(self.listed.places) and self.listed.places[-1].id == place.id


Entry = Callable[[Sequence[Any]], bytes]
"""Makes a record of what stands for each of its values."""


At = tuple[str, str | None]
"""A namespace and the id of a checkpoint in it."""


class Recent(NamedTuple):
    """A record that was written lately, at a checkpoint: what it says is said by messages that come with one after that."""

    at: At
    path: str
    """What a checkpoint's tasks are applied in the order of; of equal texts the first is the first message's."""
    entry: Entry
    said: Sequence[Said]


class Thread:
    """One thread."""

    def __init__(self) -> None:
        self.lists: dict[tuple[str, str], Listed] = {}
        self.newest: Listed | None = None
        self.known: dict[str, tuple[type[BaseMessage], dict[str, Any], Place]] = {}
        self.shared: dict[str, list[str | None]] = {}
        """The ids of the messages that are one place together, by its id."""
        self.taken: set[str] = set()
        """Ids that the write which is being made gives out."""
        self.there: set[str] = set()
        """Ids that others have given out: they are somebody's already."""
        self.leaf: str | None = None
        self.main: str | None = None
        self.recent: OrderedDict[bytes, Recent] = OrderedDict()
        self._lock = Lock()

    def lay(self, namespace: str, channel: str, messages: Sequence[BaseMessage], serde: Any, *, plain: bool) -> Laid:
        """Where the messages of a list are, or are to be: those that are in the session already stay where they are."""
        base = self.lists.get((namespace, channel)) or self.newest or Listed()
        n = base.common(messages)
        while 0 < n < len(base.places) and base.places[n - 1].id == base.places[n].id:
            n -= 1
        laid = Laid(base.first(n))
        cursor = n
        for at, message in enumerate(messages[n:], n):
            place = self._known(messages, at)
            if place is not None and laid.is_last(place) and not self._is_shared(place, messages[at - 1], messages[at]):
                place = None  # the same message once more: one row is read once
            if place is None and message.id is None:
                cursor, place = _found(base, cursor, message)
            if place is None:
                place = self._new(laid, message, serde, plain)
            laid.listed.add(message, place)
        return laid

    def _known(self, messages: Sequence[BaseMessage], at: int) -> Place | None:
        """Where a message is in the session; nowhere, if what is read from there would not be what stands here."""
        place = self._unchanged(messages[at])
        if place is None or not place.foreign:
            return place
        if _is_answer(messages[at]) and not _is_called(messages[:at], messages[at]):
            return None  # the call alone says the tool's name
        ids = self.shared.get(place.id, [messages[at].id])
        first = max(at - ids.index(messages[at].id), 0) if messages[at].id in ids else 0
        together = messages[first : first + len(ids)]
        whole = [message.id for message in together] == ids and all(map(self._unchanged, together))
        return place if whole else None

    def _is_shared(self, place: Place, first: BaseMessage, second: BaseMessage) -> bool:
        """Whether two messages are one place together, the second after the first."""
        return (first.id, second.id) in itertools.pairwise(self.shared.get(place.id, ()))

    def _unchanged(self, message: BaseMessage) -> Place | None:
        found = self.known.get(message.id or "")
        if found is None or found[0] is not type(message) or found[1] != message.__dict__:
            return None
        return found[2]

    def _new(self, laid: Laid, message: BaseMessage, serde: Any, plain: bool) -> Place:
        if message.id and message.id.startswith(OVERLAY_PREFIX):
            log.warning(
                "the summary %r came into a graph's state and is stored as a message of its own: give a run "
                "PlaitSaver.messages(config), which has no summaries, and the agent PlaitCompaction",
                message.id,
            )
        row = rows.row_of(message, serde, plain=plain)
        parent = laid.listed.places[-1].id if laid.listed.places else None
        id = self._id(message, row)
        if laid.chains and laid.chains[-1][1][-1][0] == parent:
            laid.chains[-1][1].append((id, row))
        else:
            laid.chains.append((parent, [(id, row)]))
        laid.fresh.append((len(laid.listed.places), id))
        self.taken.add(id)
        return Place(id, 0, parent)

    def _id(self, message: BaseMessage, row: dict[str, Any]) -> str:
        """The message's own id, if that is one of a session's and not in use; else one made from it, or a new one."""
        own = message.id
        if own and own not in self.taken | self.there and own not in self.known and _can_be(own):
            return own
        if own:
            digest = hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
            other = f"{own}~{digest}"
            if other not in self.taken | self.there and _can_be(other):
                return other
        return str(uuid.uuid4())

    def settle(self, namespace: str, channel: str, laid: Laid, seqs: dict[str, tuple[int, str | None]]) -> None:
        """Remember a list that has been stored, with the seqs that its new messages got."""
        listed = laid.listed
        for n, id in laid.fresh:
            seq, parent_id = seqs[id]
            listed.places[n] = Place(id, seq, parent_id)
        self.remember(namespace, channel, listed)

    def remember(self, namespace: str, channel: str, listed: Listed) -> None:
        """This is what a channel's list is now."""
        before = self.lists.get((namespace, channel))
        start = 0
        if before is not None and len(before.places) <= len(listed.places):
            start = len(before.places) if before.places == listed.places[: len(before.places)] else 0
        for n in range(start, len(listed.places)):
            id = listed.said[n].get("id")
            if id:
                self.known[id] = (listed.types[n], listed.said[n], listed.places[n])
        self._share(
            [(one.get("id"), place) for one, place in zip(listed.said[start:], listed.places[start:], strict=True)]
        )
        self.lists[namespace, channel] = self.newest = listed

    def learn(self, id: str, row: dict[str, Any], message: Any, serde: Any) -> None:
        """A message was found in the session under an id that was to be used."""
        self.there.add(id)
        if isinstance(message, plait.Message) and message.to_dict() == row:
            restored = rows.restore(row, serde)
            own = restored.id
            if own:
                place = Place(message.id, message.seq, message.parent_id)
                self.known[own] = (type(restored), rows.snapshot(restored), place)

    def adopt(self, found: Sequence[tuple[BaseMessage, Place]]) -> None:
        """Know what others wrote to the session, so that a graph which is given it stores nothing of it again."""
        for message, place in found:
            if message.id:
                self.known[message.id] = (type(message), rows.snapshot(message), place)
        self._share([(message.id, place) for message, place in found])

    def _share(self, found: Iterable[tuple[str | None, Place]]) -> None:
        for place, several in itertools.groupby(found, key=lambda one: one[1]):
            ids = [id for id, _ in several]
            if len(ids) > 1:
                self.shared[place.id] = ids

    # -- texts that need not be written twice

    def texts(self, message: BaseMessage) -> list[Text]:
        """The texts of a message that is in the session as it is, as its row there has them."""
        place = self._unchanged(message)
        if place is None or place.foreign or not rows.is_json(message.content):
            return []
        return values.texts_of(place.id, message.content)

    def note(self, key: bytes, record: Recent) -> None:
        """Remember a record that holds much, for when the messages that it says come to the session."""
        if not any(one.lists for one in record.said) or _size(record.said) < LEAST_BODY_BYTES:
            return
        with self._lock:
            self.recent[key] = record
            while len(self.recent) > RECENT or sum(_size(one.said) for one in self.recent.values()) > RECENT_BYTES:
                self.recent.popitem(last=False)

    def again(self, at: At, texts: Mapping[str, Sequence[Text]]) -> dict[bytes, bytes]:
        """The records of a checkpoint, anew, without the texts, by channel, of the messages that come with the next one."""
        if not any(texts.values()):
            return {}
        with self._lock:
            recent = [(key, record) for key, record in self.recent.items() if record.at == at]
        found: dict[bytes, bytes] = {}
        left: dict[bytes, dict[str, list[Text]]] = {}
        for key, (_, _, entry, said) in sorted(recent, key=lambda one: one[1].path):
            kind = key[: layout.KIND_BYTES]  # an input and what is written of it are records of two
            own = left.setdefault(kind, {channel: list(all) for channel, all in texts.items()})
            taken = [one.take(own) for one in said]
            if any(taken):
                found[key] = entry([one.record(more) for one, more in zip(said, taken, strict=True)])
        return found

    def forget(self, keys: Iterable[bytes] | None = None) -> None:
        """These records, or all, need not be written anew."""
        with self._lock:
            for key in list(self.recent if keys is None else keys):
                self.recent.pop(key, None)


class Threads:
    """The threads that were used last."""

    def __init__(self) -> None:
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._lock = Lock()

    def of(self, id: str) -> Thread:
        """What is remembered of a thread."""
        with self._lock:
            thread = self._threads.pop(id, None) or Thread()
            self._threads[id] = thread
            while len(self._threads) > THREADS:
                self._threads.popitem(last=False)
        return thread

    def forget(self, id: str) -> None:
        """Remember nothing of a thread."""
        with self._lock:
            self._threads.pop(id, None)


def _found(base: Listed, start: int, message: BaseMessage) -> tuple[int, Place | None]:
    """A message without an id in the rest of the list that it was in before, and where to go on from."""
    for n in range(start, len(base.places)):
        if base.is_at(n, message):
            return n + 1, base.places[n]
    return start, None


def _is_answer(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage)


def _is_called(before: Sequence[BaseMessage], answer: Any) -> bool:
    called = (call for message in reversed(before) for call in getattr(message, "tool_calls", ()))
    return any(call["id"] == answer.tool_call_id for call in called)


def _can_be(id: str) -> bool:
    """Whether a session takes this as a message's id."""
    data = values.encoded(id)
    return data is not None and 0 < len(data) <= MAX_ID_BYTES and id.isprintable() and not id.isspace()


def _size(said: Sequence[Said]) -> int:
    return sum(len(one.typed[1]) for one in said)


def pack_segments(segments: Sequence[Segment]) -> list[Any]:
    """Segments as a record has them."""
    return [[seq, layout.short(last), layout.short(before) if before else b""] for seq, last, before in segments]


def unpack_segments(stored: Sequence[Any]) -> list[Segment]:
    """Segments again."""
    return [[seq, layout.long(last), layout.long(before) if before else ""] for seq, last, before in stored]
