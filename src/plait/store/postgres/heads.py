"""Session rows on their way to the database, and what is remembered of them between transactions."""

from __future__ import annotations

from msgspec import Struct

from plait.store.plan import Head
from plait.store.postgres.homes import Where
from plait.store.protocol import SessionRef

HeadKey = tuple[str, str, str]
MAX_KNOWN = 4096


def key_of(ref: SessionRef) -> HeadKey:
    return ref.scope.tenant, ref.scope.owner, ref.id


class Last(Struct, frozen=True):
    """A session's row as the last write of ours left it; `alone`: nobody else was seen to write to it."""

    head: Head
    where: Where
    alone: bool


class Known:
    """What the last writes left behind: it holds as long as the session's version is the same.

    Heads in it are never changed; whoever changes one takes a copy.
    """

    def __init__(self) -> None:
        self.tick = 0
        self._last: dict[HeadKey, Last] = {}

    def note(self, key: HeadKey, head: Head, where: Where, *, alone: bool) -> None:
        """Remember what a committed write left."""
        self.tick = max(self.tick, head.tick)
        if not head.located:
            self.forget(key)
            return
        if len(self._last) >= MAX_KNOWN:
            self._last.clear()
        self._last[key] = Last(head, where, alone)

    def recall(self, key: HeadKey, head: Head) -> bool:
        """Tell a row just read what is known of its leaf; `False` if somebody else has written since."""
        last = self._last.get(key)
        if last is None:
            return True
        known = last.head
        if (known.incarnation, known.version, known.leaf) != (head.incarnation, head.version, head.leaf):
            return False
        head.leaf_id, head.tip, head.located = known.leaf_id, known.tip, True
        return (known.epoch, known.to_mark) == (head.epoch, head.to_mark)

    def last(self, key: HeadKey) -> Last | None:
        """What is believed of a session that nobody else seems to write to."""
        found = self._last.get(key)
        return found if found is not None and found.alone else None

    def doubt(self, key: HeadKey) -> None:
        """Believe nothing of a session until it has been looked at."""
        found = self._last.get(key)
        if found is not None:
            self._last[key] = Last(found.head, found.where, alone=False)

    def forget(self, key: HeadKey) -> None:
        self._last.pop(key, None)
