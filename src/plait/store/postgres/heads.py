"""Session rows on their way to the database, and what is remembered of them between transactions."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from plait.store.plan import Head, Row
from plait.store.protocol import SessionRef

HeadKey = tuple[str, str, str]
MAX_KNOWN = 4096


def key_of(ref: SessionRef) -> HeadKey:
    return ref.scope.tenant, ref.scope.owner, ref.id


class Leaf(Struct, frozen=True):
    """What was found out about the active leaf of a session at a version."""

    incarnation: int
    version: int
    leaf: int
    leaf_id: str | None
    tip: bool


class Known:
    """What the last writes found out about active leaves: it holds as long as the version is the same."""

    def __init__(self) -> None:
        self._leaves: dict[HeadKey, Leaf] = {}

    def note(self, heads: Iterable[tuple[HeadKey, Head]]) -> None:
        """Remember what a committed write knew."""
        for key, head in heads:
            if head.located:
                if len(self._leaves) >= MAX_KNOWN:
                    self._leaves.clear()
                self._leaves[key] = Leaf(head.incarnation, head.version, head.leaf, head.leaf_id, head.tip)

    def recall(self, key: HeadKey, head: Head) -> None:
        """Tell a row just read what is known of its leaf, if nothing has changed since."""
        known = self._leaves.get(key)
        if known is None or (known.incarnation, known.version, known.leaf) != (
            head.incarnation,
            head.version,
            head.leaf,
        ):
            return
        head.leaf_id, head.tip, head.located = known.leaf_id, known.tip, True


def saved(head: Head) -> Row:
    """A head as `save_session` takes it."""
    return (
        head.live,
        head.next_seq,
        head.leaf,
        head.version,
        head.epoch,
        head.messages,
        head.bytes,
        head.tokens,
        head.path_messages,
        head.path_bytes,
        head.path_tokens,
        head.active_at_us,
        head.overlays,
        head.hidden_messages,
        head.hidden_bytes,
        head.hidden_tokens,
        head.session,
    )
