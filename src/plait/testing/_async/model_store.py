"""A store in plain dicts and lists: the oracle that real stores are compared with, and a test double.

As dumb as possible on purpose: messages hold their parent's id, every answer is computed anew by
walking them, nothing is cached, and nothing outlives the object.
"""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Literal

from msgspec import structs

from plait import formats, jsontext, times
from plait.errors import (
    ClosedError,
    ConflictError,
    LeafMovedError,
    NotFoundError,
    SessionDeletedError,
    StaleValueError,
    UsageError,
    no_session,
)
from plait.logic.ids import STAGE_PREFIX, is_hidden
from plait.logic.media import whole_text
from plait.logic.usage import added as added_usage
from plait.logic.values import check_operation
from plait.logic.values import prepare as prepare_value
from plait.logic.view import body as overlay_text
from plait.model import (
    LEAF,
    Change,
    Changes,
    Covered,
    Damaged,
    Hit,
    Json,
    Leaf,
    LeaseInfo,
    Message,
    Overlay,
    OverlayAdded,
    Parent,
    SessionInfo,
    SessionPage,
    Totals,
    Usage,
    Value,
    ValueHit,
)
from plait.store.protocol import (
    Creating,
    Described,
    Expect,
    Fence,
    Graft,
    Kind,
    Laid,
    NewMessage,
    NewOverlay,
    NewRecords,
    Path,
    Range,
    Scope,
    Search,
    SessionRef,
    Span,
    Stat,
    Stated,
    Suffix,
    Updated,
    ValueStat,
    Written,
)
from plait.testing import brute
from plait.testing.log import (
    INSERTIONS,
    Event,
    Log,
    Place,
    read_scope_cursor,
    read_session_cursor,
    scope_cursor,
    session_cursor,
)
from plait.testing.shelf import Shelf
from plait.testing.turns import Turns

_PIECE = 1 << 20


_Trail = tuple[tuple[int, int], ...]
"""Places, each a strand and a seq."""


@dataclass
class _Laid:
    """An overlay: what was given, the places it covers, the messages that were there."""

    new: NewOverlay
    places: _Trail
    covers: Covered
    role: str
    version: int
    stale: bool = False


@dataclass
class _Row:
    """A stored message: what was given, its place, and its parent as a plain id."""

    new: NewMessage
    seq: int
    parent: str | None
    created_at_us: int
    trail: _Trail
    """The places of all messages that ever were on the path to it, root first, and its own."""
    kind: Kind = "append"

    @property
    def strand(self) -> int:
        return self.trail[-1][0]


@dataclass
class _Life:
    """One life of a session id, from its creation to its deletion or to the next `clear`."""

    incarnation: int
    created_at_us: int
    active_at_us: int
    rows: dict[str, _Row] = field(default_factory=dict[str, _Row])
    leaf: str | None = None
    place: _Trail = ()
    """The trail of the leaf, also when the message there has been deleted."""
    ends: dict[int, _Trail] = field(default_factory=dict[int, _Trail])
    """The trail of the last message that was ever put into each strand."""
    overlays: dict[str, _Laid] = field(default_factory=dict[str, _Laid])
    claim: tuple[str, int] | None = None
    name: str | None = None
    owner: str | None = None
    parent_id: str | None = None
    pinned: bool = False
    metadata: Json = field(default_factory=dict[str, Any])
    state: Json = field(default_factory=dict[str, Any])
    records: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    shelf: Shelf = field(default_factory=Shelf)
    altered: list[tuple[int, tuple[int, int]]] = field(default_factory=list[tuple[int, tuple[int, int]]])
    """Places of rows that were updated or deleted, and ends of overlays that changed, each with its version."""


@dataclass
class _Counters:
    """The numbers of a session id that are never used again, whatever happens to its lives."""

    seq: int = 0
    version: int = 0
    incarnation: int = 0
    strand: int = 0
    values: int = 0
    """Versions of values come after this."""


_Key = tuple[Scope, str]


class AsyncModelStore:
    """An in-memory store that follows the `AsyncStore` contract by the most obvious means.

    Everything in it is lost when the object is. It is slow on long sessions: use it as a double
    in tests, and as the model that another store is compared with.
    """

    def __init__(self) -> None:
        self._lives: dict[_Key, _Life] = {}
        self._counters: dict[_Key, _Counters] = {}
        self._blobs: dict[tuple[Scope, bytes], bytes] = {}
        self._uploads: dict[tuple[Scope, str], bytes] = {}
        self._log = Log()
        self._turns = Turns()
        self._latest_us = 0
        self._stages = 0
        self._closed = False

    async def open(self) -> None:
        """Make ready; a closed model store may be opened again and still holds what it held."""
        self._closed = False

    async def close(self) -> None:
        """Refuse further calls until opened again."""
        self._closed = True

    async def flush(self) -> None:
        """Do nothing: there is no disk."""
        self._check_open()

    # -- writes

    async def append(
        self,
        session: SessionRef,
        messages: Sequence[NewMessage],
        *,
        parent: Parent,
        expect: Expect | None = None,
        kind: Kind = "append",
        activate: bool = True,
        refuse_other: bool = False,
    ) -> list[Written]:
        """Add a chain of messages after `parent`, all or none; an id that is there is left as it is."""
        self._fence(session)
        life = self._look(session)
        counters = self._counters.get(_key(session)) or _Counters()
        branched = _moved(expect, life, counters, messages)
        if branched and expect is not None:
            parent, activate = expect.leaf_id, False
        if not messages:
            return []
        after, trail = _start(life, parent, messages[0].id)
        for message in messages:
            if life is None or message.id not in life.rows:
                self._check_media(session.scope, message)
            elif refuse_other and _differs(life.rows[message.id].new, message):
                raise ConflictError(f"message {message.id!r} is there already, with other content")
        life = life or self._begin(session, self._now_us())
        written: list[Written] = []
        for message in messages:
            new = message.id not in life.rows
            differs = not new and _differs(life.rows[message.id].new, message)
            if new:
                event = self._insert(session, life, message, after, trail, kind)
                if activate:
                    life.leaf, life.place = message.id, life.rows[message.id].trail
                    event.moved, event.leaf = True, message.id
            stored = _message(life.rows[message.id], self._media(session.scope))
            written.append(Written(stored, new, differs, new and branched))
            after, trail = message.id, life.rows[message.id].trail
        session.incarnation = life.incarnation
        return written

    async def append_with_state(
        self,
        session: SessionRef,
        messages: Sequence[NewMessage],
        patch: Mapping[str, Any],
        *,
        parent: Parent,
        expect: Expect | None = None,
        refuse_other: bool = False,
    ) -> tuple[list[Written], bool]:
        """`append`, and the state merged with `patch` if anything was inserted that is no branch beside the leaf."""
        written = await self.append(session, messages, parent=parent, expect=expect, refuse_other=refuse_other)
        if not any(item.inserted and not item.branched for item in written):
            return written, False
        stated = await self.update_state(session, patch, created_at_us=self._now_us())
        return written, stated.changed

    async def update(self, session: SessionRef, message: NewMessage) -> Updated | None:
        """Replace the content of the message with this id; its seq, parent and time stay."""
        self._fence(session)
        life = self._look(session)
        row = life.rows.get(message.id) if life else None
        if life is not None and row is not None:
            self._check_media(session.scope, message)
        self._find(session)
        if life is None or row is None:
            return None
        changed = _differs(row.new, message)
        if changed:
            self._keep_media(session.scope, message)
            row.new = message
            self._touch(session, life, "update", (message.id,), row)
            life.altered.append((self._counters[_key(session)].version, row.trail[-1]))
            self._mark_stale(session, life, [row])
            self._drop_unused(session.scope)
        return Updated(_message(row, self._media(session.scope)), changed)

    async def delete(self, session: SessionRef, ids: Sequence[str]) -> list[str]:
        """Remove these messages, their children going to the nearest surviving ancestor."""
        self._fence(session)
        life = self._find(session)
        if life is None:
            return []
        removed = [id for id in dict.fromkeys(ids) if id in life.rows]
        if removed:
            gone = set(removed)
            for row in life.rows.values():
                row.parent = _surviving(life, row.parent, gone)
            leaf = _surviving(life, life.leaf, gone)
            event = self._touch(session, life, "delete", tuple(removed))
            event.moved = life.leaf in gone
            gone_rows = [life.rows.pop(id) for id in removed]
            life.altered += [(self._counters[_key(session)].version, row.trail[-1]) for row in gone_rows]
            self._mark_stale(session, life, gone_rows)
            if leaf is None and life.leaf is not None:
                leaf = _newest(life)
                life.place = life.rows[leaf].trail if leaf is not None else ()
            life.leaf = leaf
            event.leaf = leaf if event.moved else None
            self._drop_unused(session.scope)
        return removed

    async def clear(self, session: SessionRef) -> bool:
        """Remove every message and begin a new incarnation, to which `session` is then bound."""
        self._fence(session)
        life = self._find(session)
        if life is None or not life.rows:
            return False
        counters = self._counters[_key(session)]
        counters.incarnation += 1
        life.incarnation = session.incarnation = counters.incarnation
        life.rows, life.altered, life.leaf, life.place = {}, [], None, ()
        life.overlays, life.ends, life.claim, life.records = {}, {}, None, {}
        self._touch(session, life, "clear").moved = True
        self._drop_unused(session.scope)
        return True

    async def checkout(self, session: SessionRef, id: str | None, *, expect: Expect | None = None) -> bool:
        """Make this message the active leaf, or none; `False` if it is so already; `NotFoundError` if absent."""
        self._fence(session)
        life = self._look(session)
        if id is not None and (life is None or id not in life.rows):
            raise NotFoundError(f"checkout: there is no message {id!r} in session {session.id!r}")
        leaf = None if life is None else life.leaf
        if expect is not None and expect.check_leaf and expect.leaf_id != leaf:
            raise LeafMovedError(f"checkout: the leaf is {leaf!r}, not {expect.leaf_id!r}", leaf_id=leaf)
        if life is None:
            return False
        self._find(session)
        if life.leaf == id:
            return False
        life.leaf, life.place = id, () if id is None else life.rows[id].trail
        event = self._touch(session, life, "checkout", () if id is None else (id,))
        event.moved, event.leaf = True, id
        return True

    async def fork(
        self, session: SessionRef, target: SessionRef, *, at: str | None, created_at_us: int, name: str | None = None
    ) -> int:
        """Copy the path to `at` (the active leaf by default) into the new session `target`."""
        life = self._find(session)
        hidden = await self.stage(target)
        copied = self._lives[_key(hidden)]
        copied.name, copied.parent_id = name, session.id if life is not None else None
        for row in _path_rows(life, life.leaf if at is None else at) if life else []:
            trail = (*copied.place, (0, row.seq))
            copied.rows[row.new.id] = _Row(row.new, row.seq, copied.leaf, row.created_at_us, trail, row.kind)
            copied.leaf, copied.place, copied.ends[0] = row.new.id, trail, trail
            event = self._record(hidden, row.kind, (row.new.id,), copied.rows[row.new.id])
            event.moved, event.leaf = True, row.new.id
            self._counters[_key(hidden)].seq = max(self._counters[_key(hidden)].seq, row.seq)
        for laid in _lying_on(life, life.place if at is None else _trail(life, at)) if life else []:
            if life and _left(life, laid):
                places = tuple(place for place in copied.place if laid.places[0][1] <= place[1] <= laid.places[-1][1])
                event = self._record(hidden, "overlay", (laid.new.id,))
                copied.overlays[laid.new.id] = replace(laid, places=places, version=event.version)
                event.subject = copied.overlays[laid.new.id]
        if life is not None:
            copied.shelf = life.shelf.copied(copied.shelf.base)
            for kept in copied.shelf.values.values():
                self._record(hidden, "context").subject = kept[-1].value
        await self.publish(hidden, target)
        copied.created_at_us = copied.active_at_us = created_at_us
        return len(copied.rows)

    async def stage(
        self, target: SessionRef, *, created_at_us: int | None = None, token: str | None = None
    ) -> SessionRef:
        """A hidden, empty session that can be written like any other and published as `target`."""
        if self._look(target) is not None:
            raise ConflictError(f"session {target.id!r} exists; choose another id")
        self._stages += 1
        hidden = SessionRef(target.scope, f"{STAGE_PREFIX}{token or self._stages}")
        if self._look(hidden) is not None:
            return hidden
        counters = self._counters.get(_key(target)) or _Counters()
        self._counters[_key(hidden)] = copy.copy(counters)
        self._begin(hidden, self._now_us() if created_at_us is None else created_at_us)
        return hidden

    async def publish(
        self,
        stage: SessionRef,
        target: SessionRef,
        *,
        active_at_us: int | None = None,
        note: tuple[SessionRef, Mapping[str, Any]] | None = None,
    ) -> None:
        """Make a staged session the session `target`, at once; `ConflictError` if that exists."""
        if self._look(target) is not None:
            raise ConflictError(f"session {target.id!r} exists; choose another id")
        life = self._look(stage)
        if life is None:
            raise NotFoundError(f"publish: there is no stage {stage.id!r}")
        if note is not None:
            await self._note(*note)
        staged, old = self._counters.pop(_key(stage)), self._counters.get(_key(target)) or _Counters()
        if any(event.version <= old.version for event in self._log.events.get(_key(stage), ())):
            self._log.move(_key(stage), _key(target), old.version)  # the target had another life meanwhile
            staged.version += old.version
        else:
            self._log.move(_key(stage), _key(target), 0)
        counters = [max(pair) for pair in zip(astuple(staged), astuple(old), strict=True)]
        self._counters[_key(target)] = _Counters(*counters)
        self._counters[_key(target)].incarnation += 1
        life.incarnation = target.incarnation = self._counters[_key(target)].incarnation
        life.shelf = life.shelf.raised(self._counters[_key(target)].values)
        self._lives[_key(target)] = self._lives.pop(_key(stage))
        self._touch(target, life, "session")
        if active_at_us is not None:
            life.active_at_us = min(active_at_us, life.active_at_us)

    async def _note(self, session: SessionRef, metadata: Mapping[str, Any]) -> None:
        if await self.put_session(session, created_at_us=0, create="never", metadata=metadata) is None:
            raise NotFoundError(f"publish: there is no session {session.id!r} to note something of")

    async def discard(self, stage: SessionRef) -> None:
        """Give up a staged session; harmless when it was published or given up already."""
        self._lives.pop(_key(stage), None)
        self._counters.pop(_key(stage), None)
        self._log.events.pop(_key(stage), None)
        self._drop_unused(stage.scope)

    async def existing(self, session: SessionRef, ids: Sequence[str]) -> set[str]:
        """Which of these message ids the session has."""
        life = self._find(session)
        return {id for id in ids if life is not None and id in life.rows}

    async def stage_more(self, target: SessionRef, count: int) -> SessionRef:
        """A hidden session for up to `count` messages that are to be added to `target`, which exists."""
        self._fence(target)
        if self._find(target) is None:
            raise no_session(target.id, " to add to")
        self._stages += 1
        hidden = SessionRef(target.scope, f"{STAGE_PREFIX}{self._stages}")
        counters = self._counters[_key(target)]
        self._counters[_key(hidden)] = _Counters(seq=counters.seq)
        counters.seq += count
        self._begin(hidden, self._now_us())
        return hidden

    async def merge(self, stage: SessionRef, target: SessionRef, grafts: Sequence[Graft], leaf: str | None) -> int:
        """Add the staged messages to `target`, all at once, its roots below the messages that `grafts` say."""
        self._fence(target)
        source, life = self._look(stage), self._find(target)
        if source is None or life is None:
            raise NotFoundError(f"session {target.id!r} was deleted while it was added to")
        _refuse_doubles(life, source)
        roots = {source.rows[graft.root].trail[0]: _grafted(life, source, graft) for graft in grafts}
        counters, staged = self._counters[_key(target)], self._counters.pop(_key(stage))
        _take_over(life, source, roots, counters.strand, counters.version + staged.version + 1)
        events = self._log.events.pop(_key(stage), [])
        self._take_over_events(target, [event for event in events if event.kind in INSERTIONS], counters.version)
        counters.strand += staged.strand
        moved = _goes_on(life, leaf)
        if leaf is not None and moved:
            life.leaf, life.place = leaf, life.rows[leaf].trail
        counters.version += staged.version
        event = self._touch(target, life, "checkout" if moved else "session", (leaf,) if leaf and moved else ())
        event.moved, event.leaf = moved, leaf if moved else None
        if source.overlays:
            laid = [event for event in events if event.kind in ("overlay", "compact")]
            self._take_over_events(target, laid, counters.version)
            counters.version += staged.version
        del self._lives[_key(stage)]
        self._drop_unused(target.scope)
        return len(source.rows)

    def _take_over_events(self, target: SessionRef, events: list[Event], shift: int) -> None:
        """Make changes of a hidden session those of another one, in which they move no leaf."""
        for event in events:
            event.version, event.moved, event.leaf = event.version + shift, False, None
            self._log.add(_key(target), event)

    # -- reads

    async def get(self, session: SessionRef, id: str) -> Message | None:
        """One message by id."""
        life = self._find(session)
        row = life.rows.get(id) if life else None
        return None if row is None else _message(row, self._media(session.scope))

    async def path(self, session: SessionRef, leaf: Parent, *, raw: bool = False) -> Path | None:
        """The path to `leaf`, `LEAF` for the active one; `None` if there is no such session."""
        life = self._find(session)
        if life is None:
            return None
        rows = _path_rows(life, life.leaf if isinstance(leaf, Leaf) else leaf)
        trail = life.place if isinstance(leaf, Leaf) else _trail(life, leaf)
        version = self._counters[_key(session)].version
        laid = () if raw else _laid(life, trail)
        return Path(life.incarnation, version, rows[-1].new.id if rows else None, _ranges(trail), laid)

    async def load(
        self,
        session: SessionRef,
        path: Path,
        *,
        after_seq: int | None = None,
        before_seq: int | None = None,
        newest_first: bool = False,
        limit: int = 50,
        budget_bytes: int = 4 << 20,
        shown: bool = False,
    ) -> list[Message | Damaged]:
        """The next rows of `path` between two seqs (both excluded), in the order asked for."""
        hidden = [(laid.overlay.from_seq, laid.overlay.to_seq) for laid in path.laid] if shown else []
        rows = [
            row
            for row in self._rows_on(session, path)
            if (after_seq is None or row.seq > after_seq)
            and (before_seq is None or row.seq < before_seq)
            and not any(first <= row.seq <= last for first, last in hidden)
        ]
        window = _window(rows[::-1] if newest_first else rows, limit, budget_bytes)
        return [_message(row, self._media(session.scope)) for row in window]

    async def stats(
        self, session: SessionRef, path: Path, *, after_seq: int = 0, before_seq: int | None = None, limit: int = 1000
    ) -> list[Stat]:
        """Rows of `path` between two seqs (both excluded) without their content, root first."""
        rows = [row for row in self._rows_on(session, path) if row.seq > after_seq]
        rows = [row for row in rows if before_seq is None or row.seq < before_seq]
        return [_stat(row) for row in rows[:limit]]

    async def suffix(self, session: SessionRef, path: Path, *, count: int | None, budget_bytes: int | None) -> Suffix:
        """Where the longest suffix of `path` within both bounds begins, and what the whole path holds."""
        rows = self._rows_on(session, path)
        first = size = taken = 0
        for seq, more in reversed(_shown(rows, path)):
            taken, size = taken + 1, size + more
            if count is not None and taken > count:
                break
            if budget_bytes is not None and size > budget_bytes and taken > 1:
                break
            first = seq
        return Suffix(first, *_sums(rows), hidden=_hidden(path.laid))

    async def recent(
        self, session: SessionRef, leaf: Parent, *, count: int | None, budget_bytes: int | None
    ) -> tuple[Path, Suffix] | None:
        """The path to `leaf` with its suffix."""
        path = await self.path(session, leaf)
        if path is None:
            return None
        return path, await self.suffix(session, path, count=count, budget_bytes=budget_bytes)

    async def leaf(self, session: SessionRef) -> Message | None:
        """The active leaf."""
        life = self._find(session)
        return None if life is None or life.leaf is None else _message(life.rows[life.leaf], self._media(session.scope))

    async def everything(
        self, session: SessionRef, *, after_seq: int = 0, limit: int = 50, budget_bytes: int = 4 << 20
    ) -> list[Message | Damaged]:
        """The next messages of all branches after a seq, in seq order, bounded as `load` is."""
        life = self._find(session)
        rows = [row for row in life.rows.values() if row.seq > after_seq] if life else []
        return self._messages(session, _window(sorted(rows, key=lambda row: row.seq), limit, budget_bytes))

    async def changed_since(self, session: SessionRef, path: Path) -> bool:
        """Whether a message of `path` was updated or deleted since the path was fixed."""
        life = self._find(session)
        if life is None or life.incarnation != path.incarnation:
            return True
        return any(
            version > path.version and _within(place, range) for version, place in life.altered for range in path.ranges
        )

    async def newest(self, session: SessionRef) -> Message | None:
        """The message of highest seq, on whichever branch."""
        life = self._find(session)
        id = _newest(life) if life else None
        return None if life is None or id is None else _message(life.rows[id], self._media(session.scope))

    async def children(self, session: SessionRef, id: str | None) -> list[Message | Damaged]:
        """The messages whose parent is `id`, in seq order; `None` for the roots."""
        life = self._find(session)
        if life is None:
            return []
        return self._messages(session, [row for row in life.rows.values() if row.parent == id])

    async def leaves(self, session: SessionRef) -> list[Message | Damaged]:
        """The messages without children, in seq order."""
        life = self._find(session)
        if life is None:
            return []
        parents = {row.parent for row in life.rows.values()}
        return self._messages(session, [row for row in life.rows.values() if row.new.id not in parents])

    async def totals(self, session: SessionRef) -> Totals:
        """Counts and sizes of the session and its active path; zeros if absent."""
        life = self._find(session)
        return _totals(life) if life else Totals()

    # -- overlays

    async def add_overlay(
        self,
        session: SessionRef,
        overlay: NewOverlay,
        *,
        leaf: Parent = LEAF,
        expect_version: int | None = None,
        span: Span | None = None,
        change: Literal["overlay", "compact"] = "overlay",
    ) -> OverlayAdded:
        """Lay an overlay on the messages of the path to `leaf` from `from_id` to `to_id`, or on a span."""
        self._fence(session)
        life = self._look(session)
        if life is None:
            raise no_session(session.id, " to lay an overlay on")
        if overlay.id in life.overlays:
            self._find(session)
            return OverlayAdded(_overlay(life, life.overlays[overlay.id]), inserted=False)
        if span is not None:
            if span.path.incarnation != life.incarnation:
                raise StaleValueError(f"session {session.id!r} has been cleared; read it again")
            trail, places = _spanned(life, span)
            expect_version = span.path.version
        else:
            trail = life.place if isinstance(leaf, Leaf) else _trail(life, leaf)
            moved = expect_version is not None and expect_version < self._counters[_key(session)].version
            last = _end(life, overlay.to_id, trail, moved)
            first = _end(life, overlay.from_id, trail, moved)
            places = tuple(place for place in trail if first.seq <= place[1] <= last.seq)
        if not places:
            raise UsageError(f"message {overlay.to_id!r} comes before {overlay.from_id!r}")
        self._refuse_changed(session, life, places, expect_version)
        over = _over(life, overlay, trail, places)
        self._find(session)
        if over is not None:
            return OverlayAdded(_overlay(life, over), inserted=False, covered=True)
        event = self._touch(session, life, change, (overlay.id,))
        version = event.version
        covers = Covered(*_sums([row for row in life.rows.values() if row.trail[-1] in places]))
        roles = [row.new.role for row in life.rows.values() if row.trail[-1] == places[-1]]
        keeps = overlay.kind in ("replace", "unload") and roles and roles[0] in ("user", "system")
        stale = overlay.stale or (overlay.summary is not None and _shows_stale(life, places))
        laid = _Laid(overlay, places, covers, roles[0] if keeps else "assistant", version, stale)
        life.overlays[overlay.id] = event.subject = laid
        life.altered.append((version, places[-1]))
        return OverlayAdded(_overlay(life, laid))

    async def crossing(self, session: SessionRef, span: Span) -> Overlay | None:
        """An overlay on whichever branch that a summary of `span` would cross."""
        life = self._find(session)
        if life is None or life.incarnation != span.path.incarnation:
            return None
        places = _spanned(life, span)[1]
        return next((_overlay(life, laid) for laid in life.overlays.values() if _crosses(laid, places)), None)

    async def overlays(self, session: SessionRef, *, leaf: Parent = LEAF, everywhere: bool = False) -> list[Overlay]:
        """The overlays that lie on the path to `leaf`, or all of the session, in the order they were added."""
        life = self._find(session)
        if life is None:
            return []
        trail = life.place if isinstance(leaf, Leaf) else _trail(life, leaf)
        found = list(life.overlays.values()) if everywhere else _lying_on(life, trail)
        return [_overlay(life, laid) for laid in sorted(found, key=lambda laid: laid.version)]

    async def overlay(self, session: SessionRef, id: str) -> Overlay | None:
        """One overlay by its id."""
        life = self._find(session)
        return _overlay(life, life.overlays[id]) if life and id in life.overlays else None

    async def remove_overlay(self, session: SessionRef, id: str) -> Overlay | None:
        """Take an overlay away, unless a newer summary over it was made without what it hides; `None` if absent."""
        self._fence(session)
        life = self._look(session)
        if life is None or id not in life.overlays:
            self._find(session)
            return None
        laid = life.overlays[id]
        for outer in life.overlays.values():
            inside = outer.version > laid.version and set(laid.places) <= set(outer.places)
            if inside and outer.new.kind == "compaction" != laid.new.kind:
                raise ConflictError(f"overlay {id!r} lies inside summary {outer.new.id!r}, made without what it hides")
        self._find(session)
        removed = _overlay(life, life.overlays.pop(id))
        event = self._touch(session, life, "overlay", (id,))
        event.removed = True
        life.altered.append((event.version, laid.places[-1]))
        return removed

    async def covering(self, session: SessionRef, ids: Sequence[str]) -> dict[str, list[str]]:
        """The ids of the overlays that cover each of these messages; messages that none covers are left out."""
        life = self._find(session)
        found: dict[str, list[str]] = {}
        for id in ids:
            if life is not None and id in life.rows:
                laid = [item for item in life.overlays.values() if life.rows[id].trail[-1] in item.places]
                found[id] = [item.new.id for item in sorted(laid, key=lambda item: item.version)]
        return {id: over for id, over in found.items() if over}

    async def claim_compaction(self, session: SessionRef, token: str, *, until_us: int) -> bool:
        """Take the right to compact this session until a time, unless somebody else has it."""
        self._fence(session)
        life = self._find(session)
        if life is None or (life.claim and life.claim[0] != token and life.claim[1] > self._now_us()):
            return False
        life.claim = (token, until_us)
        return True

    async def release_compaction(self, session: SessionRef, token: str) -> None:
        """Give the right back; harmless if it is not held any more."""
        life = self._find(session)
        if life is not None and life.claim and life.claim[0] == token:
            life.claim = None

    def _refuse_changed(self, session: SessionRef, life: _Life, places: _Trail, version: int | None) -> None:
        if version is not None and version > self._counters[_key(session)].version:
            raise UsageError(f"the session has not come to version {version} yet")
        if version is not None and any(at > version and place in places for at, place in life.altered):
            raise StaleValueError(f"the range was changed since version {version}; read it again")

    def _mark_stale(self, session: SessionRef, life: _Life, rows: list[_Row]) -> None:
        """These rows were updated or deleted: so say the overlays over them, and each that says so first is a change."""
        for laid in life.overlays.values():
            if not laid.stale and any(row.trail[-1] in laid.places for row in rows):
                laid.stale = True
                event = self._record(session, "overlay", (laid.new.id,), laid)
                life.altered.append((event.version, laid.places[-1]))

    # -- leases

    async def acquire_lease(self, session: SessionRef, token: str, *, ttl_us: int, holder: str) -> Fence:
        """Begin a lease, creating the session if it is absent; `LeaseHeldError` if another is in force."""
        if self._look(session) is None:
            self._begin(session, self._now_us())
            self._record(session, "session")
        self._find(session)
        return self._turns.acquire(_key(session), token, ttl_us, holder, self._now_us())

    async def renew_lease(self, session: SessionRef) -> int:
        """Keep the ref's lease for as long again; answers until when. `LeaseLostError` if it is over."""
        self._check_open()
        return self._turns.renew(_key(session), session, self._now_us())

    async def release_lease(self, session: SessionRef) -> bool:
        """End the ref's lease; `False` if it was over already."""
        self._check_open()
        return self._turns.release(_key(session), session)

    async def end_lease(self, session: SessionRef) -> bool:
        """End whoever's lease; `False` if there is none."""
        return self._find(session) is not None and self._turns.end(_key(session))

    async def lease(self, session: SessionRef) -> LeaseInfo | None:
        """Who holds a lease that is in force."""
        return self._turns.info(_key(session), self._now_us()) if self._find(session) is not None else None

    def _fence(self, session: SessionRef) -> None:
        """Refuse a write that a lease is in the way of."""
        if self._look(session) is not None:
            self._turns.check(_key(session), session, self._now_us())

    # -- search

    async def search(self, within: SessionRef | Scope, asked: Search) -> list[Hit]:
        """The messages of a session, or of all sessions of a scope, that hold every word asked for."""
        return brute.search(self._searched(within, asked), asked)

    async def hits(self, within: SessionRef | Scope, keys: Sequence[tuple[str, str]], asked: Search) -> list[Hit]:
        """Those of these messages that are there and pass the filters, in the order given."""
        return brute.hits(self._searched(within, asked), keys, asked)

    async def build_search_index(self, *, rebuild: bool, progress: Callable[[int, int], None] | None) -> int:
        """Nothing to do: every search reads everything."""
        self._check_open()
        return 0

    def _searched(self, within: SessionRef | Scope, asked: Search) -> list[brute.Candidate]:
        self._check_open()
        lives = [(key[1], life) for key, life in self._lives.items() if key[0] == within]
        if isinstance(within, SessionRef):
            life = self._find(within)
            lives = [(within.id, life)] if life else []
        shown = [(id, life) for id, life in lives if not id.startswith(STAGE_PREFIX)]
        return [item for id, life in shown for item in _candidates(id, life, asked)]

    # -- catalogue

    async def info(self, session: SessionRef) -> SessionInfo | None:
        """The session as the catalogue knows it."""
        life = self._find(session)
        return None if life is None else self._info(_key(session), life)

    async def put_session(
        self,
        session: SessionRef,
        *,
        created_at_us: int,
        create: Creating,
        name: str | None = None,
        owner: str | None = None,
        parent_id: str | None = None,
        pinned: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Described | None:
        """Create or change a session's catalogue entry."""
        life = self._look(session)
        if life is not None and create == "new":
            raise ConflictError(f"session {session.id!r} exists; get it, or choose another id")
        if life is None and create == "never":
            return None
        if life is not None and owner is not None and life.owner not in (None, owner):
            raise ConflictError(f"session {session.id!r} belongs to {life.owner!r}; an owner is set once")
        self._find(session)
        created = life is None
        life = life or self._begin(session, created_at_us)
        if create == "once" and not created:
            name = parent_id = pinned = metadata = None
        before = _texts(life)
        life.name = life.name if name is None else name
        life.owner = life.owner if owner is None else owner
        life.parent_id = life.parent_id if parent_id is None else parent_id
        life.pinned = life.pinned if pinned is None else pinned
        life.metadata = _merged(life.metadata, metadata or {})
        changed = created or _texts(life) != before
        if changed:
            self._record(session, "session")
        return Described(self._info(_key(session), life), changed)

    async def add_usage(self, session: SessionRef, usage: Usage, *, created_at_us: int) -> SessionInfo | None:
        """Add to what a session's metadata says under `plait:usage`; `None` if there is no such session."""
        life = self._find(session)
        if life is None:
            return None
        metadata = jsontext.decode(added_usage(jsontext.encode(life.metadata), usage))
        if metadata != life.metadata:
            life.metadata = metadata
            self._record(session, "session")
        return self._info(_key(session), life)

    async def state(self, session: SessionRef) -> Json:
        """The session's small JSON state; `{}` if absent."""
        life = self._find(session)
        return copy.deepcopy(life.state) if life else {}

    async def update_state(
        self, session: SessionRef, patch: Mapping[str, Any], *, created_at_us: int, version: int | None = None
    ) -> Stated:
        """Merge `patch` into the state per key (a `None` value removes its key), if the session stands at `version`."""
        self._fence(session)
        life = self._look(session)
        self._refuse_moved(session, life, version)
        life = life or self._begin(session, created_at_us)
        session.incarnation = life.incarnation
        merged = _merged(life.state, patch)
        changed = jsontext.encode(merged) != jsontext.encode(life.state)  # as text: 1, 1.0 and true differ
        if changed:
            life.state = merged
            self._record(session, "session")
        return Stated(copy.deepcopy(merged), changed)

    def _refuse_moved(self, session: SessionRef, life: _Life | None, version: int | None) -> None:
        stands = 0 if life is None else self._counters[_key(session)].version
        if version is not None and (life is None or version != stands):
            leaf = None if life is None else life.leaf
            raise LeafMovedError(f"the session has moved on: it is at version {stands}", leaf_id=leaf, version=stands)

    async def sessions(self, scope: Scope, *, cursor: str | None, limit: int) -> SessionPage:
        """Sessions of a scope, most recently active first; a foreign cursor raises `UsageError`."""
        self._check_open()
        keys = [key for key in self._lives if key[0] == scope and not is_hidden(key[1])]
        keys.sort(key=self._place, reverse=True)
        if cursor is not None:
            place = _read_cursor(scope, cursor)
            keys = [key for key in keys if self._place(key) < place]
        infos = [self._info(key, self._lives[key]) for key in keys[:limit]]
        more = len(keys) > limit
        return SessionPage(infos, _write_cursor(scope, self._place(keys[limit - 1])) if more else None)

    async def scopes(self, *, after: Scope | None = None, limit: int = 100) -> list[Scope]:
        """The next scopes that have sessions."""
        self._check_open()
        found = {(k[0].tenant, k[0].owner) for k in self._lives if not k[1].startswith(STAGE_PREFIX)}
        last = None if after is None else (after.tenant, after.owner)
        return [Scope(*names) for names in sorted(found) if last is None or names > last][:limit]

    async def delete_session(self, session: SessionRef, *, version: int | None = None) -> bool:
        """Remove the session with all it holds; `False` if there is none, or if it has left `version`."""
        self._fence(session)
        if self._find(session) is None:
            return False
        if version not in (None, self._counters[_key(session)].version):
            return False
        if self._lives.pop(_key(session)).shelf.values:
            self._counters[_key(session)].values = self._counters[_key(session)].version
        self._turns.end(_key(session))
        self._record(session, "delete session").moved = True
        self._drop_unused(session.scope)
        return True

    # -- records

    async def read_records(self, session: SessionRef, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those of the records under these keys that are there."""
        life = self._find(session)
        return {key: life.records[key] for key in keys if key in life.records} if life else {}

    async def records(
        self, session: SessionRef, first: bytes, end: bytes, *, limit: int, last_first: bool
    ) -> list[tuple[bytes, bytes]]:
        """The next records with `first` <= key < `end`, by key, rising or falling."""
        life = self._find(session)
        found: list[tuple[bytes, bytes]] = []
        size = 0
        for key in sorted(life.records if life else (), reverse=last_first):
            if life and first <= key < end and len(found) < limit and size < 4 << 20:
                found.append((key, life.records[key]))
                size += len(life.records[key])
        return found

    async def write_records(
        self, session: SessionRef, new: NewRecords, *, created_at_us: int
    ) -> tuple[list[bytes], list[Written], list[str]]:
        """Write records and messages, all or nothing, creating the session; see `NewRecords`."""
        self._fence(session)
        life = self._look(session)
        self._refuse_moved(session, life, new.expect_version)
        if any((life.records.get(key) if life else None) != body for key, body in new.expect):
            raise StaleValueError("a record is not what was expected")
        if life is None and not (new.put or new.keep or new.chains or new.state):
            return [], [], []
        known = set(life.rows) if life else set[str]()
        for chain in new.chains:
            for message in chain.messages:
                if message.id in known:
                    raise ConflictError(f"message {message.id!r} is there already", message_id=message.id)
                if message is chain.messages[0] and chain.parent is not None and chain.parent not in known:
                    raise NotFoundError(f"there is no message {chain.parent!r} to append to")
                known.add(message.id)
        if new.leaf is not None and new.leaf not in known:
            raise NotFoundError(f"there is no message {new.leaf!r} to be the leaf")
        life = life or self._begin(session, created_at_us)
        session.incarnation = life.incarnation
        written: list[Written] = []
        for chain in new.chains:
            activate = chain.messages[-1].id == new.leaf
            added = await self.append(session, chain.messages, parent=chain.parent, activate=activate)
            written += added if activate else [structs.replace(result, branched=True) for result in added]
        if new.leaf is not None:
            await self.checkout(session, new.leaf)
        removed = await self.delete(session, new.remove)
        there = [key for key, _ in new.keep if key in life.records]
        life.records |= {key: body for key, body in new.keep if key not in life.records}
        life.records |= dict(new.put)
        for key in new.drop:
            life.records.pop(key, None)
        if new.state is not None:
            await self.update_state(session, new.state, created_at_us=created_at_us)
        return there, written, removed

    # -- values

    async def read_value(self, session: SessionRef, label: str, key: str = "") -> Value | None:
        """The newest version; `None` if there is none, or if it says that the value was deleted."""
        life = self._find(session)
        return life.shelf.current(label, key) if life else None

    async def values(
        self,
        session: SessionRef,
        label: str,
        *,
        after: str | None = None,
        limit: int = 100,
        prefix: str = "",
        budget_bytes: int = 4 << 20,
    ) -> list[Value]:
        """The next values of a label whose keys come after one and begin with `prefix`, in key order."""
        life = self._find(session)
        return life.shelf.listing(label, after, limit, prefix, budget_bytes) if life else []

    async def value_stats(
        self, session: SessionRef, label: str, *, after: str | None = None, limit: int = 1000, prefix: str = ""
    ) -> list[ValueStat]:
        """The same without their content."""
        life = self._find(session)
        return life.shelf.stats(label, after, limit, prefix) if life else []

    async def write_value(
        self,
        session: SessionRef,
        label: str,
        key: str,
        content: str | None,
        *,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tokens: int = 0,
        expect: int | None = None,
        operation: str,
        created_at_us: int,
        least_version: int = 0,
    ) -> Value:
        """Write the next version, or (`None`) one that says the value is deleted; answers it."""
        self._fence(session)
        new = prepare_value(label, key, content, description, metadata, tokens)
        check_operation(operation)
        life = self._look(session)
        counters = self._counters.get(_key(session)) or _Counters()
        shelf = life.shelf if life else Shelf(counters.values)
        value, written = shelf.write(new, expect, operation, created_at_us, least_version)
        if written:
            life = life or self._begin(session, created_at_us)
            life.shelf = shelf
            event = self._record(session, "context")
            event.removed, event.subject = content is None, value
        self._find(session)
        return value

    async def value_history(
        self, session: SessionRef, label: str, key: str = "", *, before: int | None = None, limit: int = 100
    ) -> list[Value]:
        """The versions that are kept, newest first, those before a version only if that is given."""
        life = self._find(session)
        return life.shelf.history(label, key, before, limit) if life else []

    async def count_values(self, session: SessionRef, label: str, prefix: str = "") -> int:
        """How many values of a label are there whose keys begin with `prefix`."""
        life = self._find(session)
        return life.shelf.count(label, prefix) if life else 0

    async def value_names(
        self, session: SessionRef, *, after: tuple[str, str | None] | None = None, limit: int = 100
    ) -> list[tuple[str, str]]:
        """The labels and keys of the session's next values, in order, also of those that were deleted."""
        life = self._find(session)
        return life.shelf.names(after, limit) if life else []

    async def search_values(self, session: SessionRef, label: str, query: str, *, limit: int = 10) -> list[ValueHit]:
        """The values of a label that hold every word of `query`, the best match first."""
        life = self._find(session)
        return life.shelf.search(label, query, limit) if life else []

    async def prune_values(self, scope: Scope, *, before_us: int | None, keep: int | None) -> int:
        """Forget versions written before a time, or more than `keep` beside the newest; answers how many."""
        self._check_open()
        return sum(life.shelf.prune(before_us, keep) for key, life in self._lives.items() if key[0] == scope)

    # -- the feed

    async def changes(self, session: SessionRef, *, after: str | None, limit: int, budget_bytes: int) -> Changes:
        """The next changes of a session id after a cursor, over all its lives."""
        self._check_open()
        key = _key(session)
        place = self._log.start(key) if after is None else read_session_cursor(key, after)
        changes = self._next_changes(key, place, limit, budget_bytes)
        return Changes(changes, session_cursor(key, place), bool(self._next_changes(key, copy.copy(place), 1, 1)))

    async def changes_end(self, session: SessionRef) -> str:
        """The cursor after the last change of a session."""
        self._check_open()
        return session_cursor(_key(session), Place(self._version(_key(session))))

    async def scope_changes(self, scope: Scope, *, after: str | None, limit: int, budget_bytes: int) -> Changes:
        """The next changes of a scope's sessions after a cursor, in order for each session."""
        self._check_open()
        keys = self._fed(scope)
        begun = {id: self._log.start((owner, id)) for owner, id in keys}
        places = begun if after is None else read_scope_cursor(scope, after)
        found: list[Change] = []
        for key in keys:
            place = places.setdefault(key[1], Place())
            size = sum(change.message.bytes for change in found if change.message)
            if len(found) < limit and (size < budget_bytes or not found):
                start = scope_cursor(scope, places)
                found += [
                    structs.replace(change, cursor=start)
                    for change in self._next_changes(key, place, limit - len(found), budget_bytes - size)
                ]
        cursor = scope_cursor(scope, places)
        if found:
            found[-1] = structs.replace(found[-1], cursor=cursor)
        return Changes(found, cursor, any(self._next_changes(key, copy.copy(places[key[1]]), 1, 1) for key in keys))

    async def scope_changes_end(self, scope: Scope) -> str:
        """The cursor after the last change of a scope."""
        self._check_open()
        return scope_cursor(scope, {key[1]: Place(self._version(key)) for key in self._fed(scope)})

    async def prune_changes(self, scope: Scope, *, before_us: int | None, keep: int | None) -> int:
        """Forget changes made before a time, or more than `keep` of a session; answers how many."""
        self._check_open()
        return sum(self._log.prune(key, before_us, keep) for key in self._fed(scope))

    async def commits(self, place: SessionRef | Scope | None = None) -> int | None:
        """A number that is another one once anything has been changed."""
        self._check_open()
        return self._log.written

    def _fed(self, scope: Scope) -> list[_Key]:
        """The sessions of a scope that ever were, but for hidden ones."""
        return [key for key in self._counters if key[0] == scope and not key[1].startswith(STAGE_PREFIX)]

    def _version(self, key: _Key) -> int:
        return self._counters[key].version if key in self._counters else 0

    def _next_changes(self, key: _Key, place: Place, limit: int, budget_bytes: int) -> list[Change]:
        """The next changes after a place, which goes on with them."""
        changes: list[Change] = []
        for event in self._log.after(key, place, self._version(key)):
            if len(changes) >= limit or budget_bytes <= 0:
                return changes
            change = self._change(key, event)
            if change is not None:
                cursor = session_cursor(key, Place(event.version, place.kept))
                changes.append(structs.replace(change, cursor=cursor))
                budget_bytes -= change.message.bytes if change.message else 0
            place.version = event.version
        place.version = self._version(key)
        return changes

    def _change(self, key: _Key, event: Event) -> Change | None:
        """A change as it is told now; `None` for an insertion of what is gone."""
        life = self._lives.get(key)
        message = overlay = None
        if life and isinstance(event.subject, _Row) and life.rows.get(event.subject.new.id) is event.subject:
            message = _message(event.subject, self._media(key[0]))
        elif life and isinstance(event.subject, _Laid) and life.overlays.get(event.subject.new.id) is event.subject:
            overlay = _overlay(life, event.subject)
        value = event.subject if isinstance(event.subject, Value) else None
        inserted = event.kind in INSERTIONS
        if inserted and message is None:
            return None
        return Change(
            event.kind,
            key[1],
            message,
            message.parent_id if inserted and message else None,
            ids=event.ids,
            overlay=overlay,
            removed=event.removed,
            leaf_moved=event.moved,
            leaf_id=event.leaf,
            version=event.version,
            at=message.created_at if inserted and message else times.from_us(event.at_us),
            label=value.label if value else None,
            key=value.key if value else None,
            value_version=value.version if value else None,
        )

    # -- attachments

    async def put_attachment(
        self, scope: Scope, chunks: AsyncIterator[bytes], *, upload: str, now_us: int
    ) -> tuple[bytes, int]:
        """Keep a payload ahead of its message under the claim `upload`; answers its sha256 and size."""
        self._check_open()
        data = b""
        async for chunk in chunks:
            data += chunk
        hash = hashlib.sha256(data).digest()
        self._blobs[scope, hash] = data
        self._uploads[scope, upload] = hash
        return hash, len(data)

    async def read_attachment(self, session: SessionRef, id: str, n: int) -> AsyncIterator[bytes]:
        """The bytes of the `n`-th payload of a message, in pieces of at most 1 MiB."""
        life = self._look(session)
        row = life.rows.get(id) if life else None
        if row is None or not 0 <= n < len(row.new.media):
            raise NotFoundError(f"message {id!r} of session {session.id!r} has no attachment {n}")
        self._find(session)
        data = self._blobs[session.scope, row.new.media[n].hash]
        for start in range(0, len(data), _PIECE):
            yield data[start : start + _PIECE]

    def payload_count(self) -> int:
        """How many attachment payloads are held, over all scopes."""
        return len(self._blobs)

    # -- helpers

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError

    def _look(self, session: SessionRef) -> _Life | None:
        """The session's current life; refuses a ref bound to another one."""
        self._check_open()
        life = self._lives.get(_key(session))
        if session.incarnation is not None and (life is None or life.incarnation != session.incarnation):
            session.over = True
            raise SessionDeletedError(f"session {session.id!r} was deleted or cleared; take a fresh handle")
        return life

    def _find(self, session: SessionRef) -> _Life | None:
        """The session's current life, the ref bound to it, for calls that cannot fail any more."""
        life = self._look(session)
        if life is not None:
            session.incarnation = life.incarnation
        return life

    def _begin(self, session: SessionRef, created_at_us: int) -> _Life:
        counters = self._counters.setdefault(_key(session), _Counters())
        counters.incarnation += 1
        life = _Life(counters.incarnation, created_at_us, created_at_us, shelf=Shelf(counters.values))
        self._lives[_key(session)] = life
        session.incarnation = life.incarnation
        return life

    def _touch(
        self, session: SessionRef, life: _Life, kind: str, ids: tuple[str, ...] = (), subject: object = None
    ) -> Event:
        """Record a change of the messages, which is what activity means."""
        life.active_at_us = self._now_us()
        return self._record(session, kind, ids, subject)

    def _record(self, session: SessionRef, kind: str, ids: tuple[str, ...] = (), subject: object = None) -> Event:
        """Count a change, and remember it for the feed."""
        counters = self._counters[_key(session)]
        counters.version += 1
        return self._log.add(_key(session), Event(counters.version, kind, self._now_us(), ids, subject))

    def _now_us(self) -> int:
        """The time, never the same twice."""
        self._latest_us = max(self._latest_us + 1, time.time_ns() // 1000)
        return self._latest_us

    def _insert(
        self, session: SessionRef, life: _Life, new: NewMessage, parent: str | None, trail: _Trail, kind: Kind
    ) -> Event:
        counters = self._counters[_key(session)]
        counters.seq = max(counters.seq + 1, new.seq)
        self._keep_media(session.scope, new)
        if trail and _is_tip(life, trail[-1]):
            strand = trail[-1][0]
            trail = life.ends[strand]
        else:
            counters.strand += 1
            strand = counters.strand
        life.ends[strand] = (*trail, (strand, counters.seq))
        life.rows[new.id] = _Row(new, counters.seq, parent, new.created_at_us, life.ends[strand], kind)
        return self._touch(session, life, kind, (new.id,), life.rows[new.id])

    def _rows_on(self, session: SessionRef, path: Path) -> list[_Row]:
        life = self._look(session)
        if life is None or life.incarnation != path.incarnation:
            raise SessionDeletedError(f"session {session.id!r} was deleted or cleared while it was read")
        self._find(session)
        on = [row for row in life.rows.values() if any(_within(row.trail[-1], range) for range in path.ranges)]
        return sorted(on, key=lambda row: row.seq)

    def _messages(self, session: SessionRef, rows: Iterable[_Row]) -> list[Message | Damaged]:
        return [_message(row, self._media(session.scope)) for row in sorted(rows, key=lambda row: row.seq)]

    def _place(self, key: _Key) -> tuple[int, str]:
        return self._lives[key].active_at_us, key[1]

    def _info(self, key: _Key, life: _Life) -> SessionInfo:
        return SessionInfo(
            id=key[1],
            name=life.name,
            owner=life.owner,
            parent_id=life.parent_id,
            pinned=life.pinned,
            metadata=copy.deepcopy(life.metadata),
            created_at=times.from_us(life.created_at_us),
            active_at=times.from_us(life.active_at_us),
            version=self._counters[key].version,
            totals=_totals(life),
        )

    def _media(self, scope: Scope) -> dict[bytes, bytes]:
        return {hash: data for (owner, hash), data in self._blobs.items() if owner == scope}

    def _check_media(self, scope: Scope, message: NewMessage) -> None:
        for media in message.media:
            if media.data is None and (scope, media.hash) not in self._blobs:
                raise NotFoundError(
                    f"message {message.id!r}: its attachment is not in the store; call put_attachment again"
                )

    def _keep_media(self, scope: Scope, message: NewMessage) -> None:
        for media in message.media:
            if media.data is not None:
                self._blobs[scope, media.hash] = media.data
            else:
                self._uploads.pop((scope, media.upload or ""), None)

    def _drop_unused(self, scope: Scope) -> None:
        used = {hash for (owner, _), hash in self._uploads.items() if owner == scope}
        for (owner, _), life in self._lives.items():
            if owner == scope:
                used.update(media.hash for row in life.rows.values() for media in row.new.media)
        for key in [key for key in self._blobs if key[0] == scope and key[1] not in used]:
            del self._blobs[key]


def _key(session: SessionRef) -> _Key:
    return session.scope, session.id


def _moved(expect: Expect | None, life: _Life | None, counters: _Counters, messages: Sequence[NewMessage]) -> bool:
    """Whether to append beside the active leaf, because it moved and the caller would rather branch."""
    if expect is None:
        return False
    leaf = life.leaf if life else None
    leaf_ok = not expect.check_leaf or leaf == expect.leaf_id
    if leaf_ok and expect.version in (None, counters.version):
        return False
    if life is not None and all(message.id in life.rows for message in messages):
        return False  # a repeat of a write that landed: it moved the leaf itself
    if expect.branch and expect.check_leaf:
        return True
    raise LeafMovedError(
        f"the session moved on: its leaf is {leaf!r} at version {counters.version}; read it again",
        leaf_id=leaf,
        version=counters.version,
    )


def _end(life: _Life, id: str, trail: _Trail, moved: bool) -> _Row:
    """The message at an end of a range, which is on the path; if the session `moved` on, it may have been once."""
    row = life.rows.get(id)
    if moved and (row is None or row.trail[-1] not in trail):
        raise StaleValueError(f"message {id!r} is not on that path any more")
    if row is None:
        raise NotFoundError(f"there is no message {id!r} in this session to lay an overlay on")
    if row.trail[-1] not in trail:
        raise UsageError(f"message {id!r} is on another branch; name a leaf of its path with leaf=")
    return row


def _spanned(life: _Life, span: Span) -> tuple[_Trail, _Trail]:
    """The places of the path of a span, and those of the span."""
    ranges = span.path.ranges
    whole = life.ends[ranges[-1].strand] if ranges else ()
    trail = tuple(place for place in whole if any(r.strand == place[0] and r.lo <= place[1] <= r.hi for r in ranges))
    return trail, tuple(place for place in trail if span.from_seq <= place[1] <= span.to_seq)


def _shows_stale(life: _Life, places: _Trail) -> bool:
    """Whether a stale text lies in these places."""
    texts = [laid for laid in life.overlays.values() if laid.stale and laid.new.summary is not None]
    return any(set(laid.places) <= set(places) for laid in texts)


def _crosses(laid: _Laid, places: _Trail) -> bool:
    """Whether an overlay has some of these places and not all, nor they all of its, on a path of both."""
    theirs, ours = set(laid.places), set(places)
    on_one_path = bool(ours) and (laid.places[-1] in ours or places[-1] in theirs)
    return on_one_path and not (theirs <= ours or ours <= theirs)


def _over(life: _Life, new: NewOverlay, trail: _Trail, places: _Trail) -> _Laid | None:
    """The outermost overlay of this path that covers the places already; raises if any crosses them."""
    around = [laid for laid in _lying_on(life, trail) if set(places) <= set(laid.places)]
    if around and new.kind != "compaction":
        return max(around, key=lambda laid: (len(laid.places), laid.version))
    for laid in life.overlays.values():
        if _crosses(laid, places):
            raise ConflictError(f"the range crosses overlay {laid.new.id!r}")
    if any(set(places) < set(laid.places) for laid in around):
        raise ConflictError("the range lies inside another overlay")
    return None


def _refuse_doubles(life: _Life, source: _Life) -> None:
    for ids in (life.rows.keys() & source.rows.keys(), life.overlays.keys() & source.overlays.keys()):
        if ids:
            raise ConflictError(f"{min(ids)!r} was added to the session meanwhile; try again")


def _grafted(life: _Life, source: _Life, graft: Graft) -> _Row:
    """The message that a root of staged messages goes below."""
    parent = life.rows.get(graft.parent)
    if parent is None:
        raise NotFoundError(f"message {graft.parent!r} was deleted while messages were added after it")
    if parent.seq >= source.rows[graft.root].seq:
        raise ConflictError(f"message {graft.parent!r} was added while these were staged; try again")
    return parent


def _take_over(life: _Life, source: _Life, roots: Mapping[tuple[int, int], _Row], shift: int, later: int) -> None:
    """Move the messages and overlays of a hidden life into another one, on strands of their own."""

    def moved(trail: _Trail) -> _Trail:
        return tuple((strand + shift, seq) for strand, seq in trail)

    def below(trail: _Trail) -> _Trail:
        return (*(roots[trail[0]].trail if trail[0] in roots else ()), *moved(trail))

    for row in source.rows.values():
        above = roots.get(row.trail[0])
        row.parent = above.new.id if row.parent is None and above is not None else row.parent
        row.trail = below(row.trail)
    life.rows |= source.rows
    life.ends |= {strand + shift: below(trail) for strand, trail in source.ends.items()}
    for laid in source.overlays.values():
        laid.places, laid.version = moved(laid.places), laid.version + later
    life.overlays |= source.overlays


def _goes_on(life: _Life, leaf: str | None) -> bool:
    """Whether a message is further on along the path of the active leaf."""
    if leaf is None or leaf not in life.rows or life.place == life.rows[leaf].trail:
        return False
    return set(life.place) <= set(life.rows[leaf].trail)


def _start(life: _Life | None, parent: Parent, first: str) -> tuple[str | None, _Trail]:
    """After what a chain begins, and the places of the path there; its first message may be there, and hang elsewhere."""
    if isinstance(parent, Leaf):
        return (life.leaf, life.place) if life else (None, ())
    if parent is None or (life is not None and first in life.rows):
        return None, ()
    if life is None or parent not in life.rows:
        raise NotFoundError(f"append: there is no message {parent!r} to append after")
    return parent, life.rows[parent].trail


def _surviving(life: _Life, id: str | None, gone: set[str]) -> str | None:
    """`id`, or its nearest ancestor that is not gone."""
    while id is not None and id in gone:
        id = life.rows[id].parent
    return id


def _newest(life: _Life) -> str | None:
    return max(life.rows, key=lambda id: life.rows[id].seq, default=None)


def _path_rows(life: _Life, leaf: str | None) -> list[_Row]:
    """The rows from the root to `leaf`; none if it is absent."""
    rows: list[_Row] = []
    while leaf is not None and leaf in life.rows:
        rows.insert(0, life.rows[leaf])
        leaf = life.rows[leaf].parent
    return rows


def _trail(life: _Life, id: str | None) -> _Trail:
    """The places of the path to a message; none if it is absent."""
    return life.rows[id].trail if id in life.rows else ()


def _is_tip(life: _Life, place: tuple[int, int]) -> bool:
    """Whether no message, and no end of an overlay, comes after a place in its strand."""
    ends = [row.trail[-1] for row in life.rows.values()] + [laid.places[-1] for laid in life.overlays.values()]
    return all(strand != place[0] or seq <= place[1] for strand, seq in ends)


def _ranges(trail: _Trail) -> tuple[Range, ...]:
    """Places of a path as runs of one strand each."""
    ranges: list[Range] = []
    for strand, seq in trail:
        if ranges and ranges[-1].strand == strand:
            ranges[-1] = Range(strand, ranges[-1].lo, seq)
        else:
            ranges.append(Range(strand, seq, seq))
    return tuple(ranges)


def _lying_on(life: _Life, trail: _Trail) -> list[_Laid]:
    """The overlays all of whose places are on a path, in the order they were added."""
    found = [laid for laid in life.overlays.values() if set(laid.places) <= set(trail)]
    return sorted(found, key=lambda laid: laid.version)


def _left(life: _Life, laid: _Laid) -> list[_Row]:
    """What is left of the messages that an overlay covers."""
    return [row for row in life.rows.values() if row.trail[-1] in laid.places]


def _overlay(life: _Life, laid: _Laid) -> Overlay:
    new = laid.new
    return Overlay(
        new.id,
        new.kind,
        new.summary,
        new.from_id,
        new.to_id,
        laid.places[0][1],
        laid.places[-1][1],
        times.from_us(new.created_at_us),
        laid.covers,
        len(_left(life, laid)),
        new.tokens,
        laid.stale,
    )


def _laid(life: _Life, trail: _Trail) -> tuple[Laid, ...]:
    """The overlays that lie on a path and in no other, if anything is left below them."""
    lying = [laid for laid in _lying_on(life, trail) if _left(life, laid)]
    found: list[Laid] = []
    for laid in sorted(lying, key=lambda laid: laid.places[0][1]):
        over = [o for o in lying if set(laid.places) < set(o.places)]
        over += [o for o in lying if set(laid.places) == set(o.places) and o.version > laid.version]
        if over:
            continue
        above = [row for row in life.rows.values() if row.trail[-1] in trail and row.seq < laid.places[0][1]]
        parent = max(above, key=lambda row: row.seq).new.id if above and laid.new.summary is not None else None
        size = len(_shown_text(laid).encode()) if laid.new.summary is not None else 0
        hides = Covered(*_sums(_left(life, laid)))
        found.append(Laid(_overlay(life, laid), laid.role, parent, size, hides))
    return tuple(found)


def _shown_text(laid: _Laid) -> str:
    return overlay_text(laid.new.id, laid.new.kind, laid.role, laid.new.summary or "")


def _hidden(laid: Sequence[Laid]) -> tuple[int, int, int]:
    """What overlays take off a path's messages, bytes and tokens: what lies below them less what they show."""
    count = size = tokens = 0
    for item in laid:
        shows = item.overlay.summary is not None
        count += item.hides.messages - shows
        size += item.hides.bytes - item.bytes * shows
        tokens += item.hides.tokens - item.overlay.tokens * shows
    return count, size, tokens


def _shown(rows: list[_Row], path: Path) -> list[tuple[int, int]]:
    """What a path shows: the seq that each message begins at, and its size."""
    spans = [(laid.overlay.from_seq, laid.overlay.to_seq) for laid in path.laid]
    seen = [(row.seq, row.new.bytes) for row in rows if not any(lo <= row.seq <= hi for lo, hi in spans)]
    seen += [(laid.overlay.from_seq, laid.bytes) for laid in path.laid if laid.overlay.summary is not None]
    return sorted(seen)


def _window(rows: Sequence[_Row], limit: int, budget_bytes: int) -> list[_Row]:
    """The first rows, up to `limit`, and none after their sizes reach the budget."""
    taken: list[_Row] = []
    for row in rows:
        if len(taken) >= limit or (taken and sum(other.new.bytes for other in taken) >= budget_bytes):
            break
        taken.append(row)
    return taken


def _sums(rows: Sequence[_Row]) -> tuple[int, int, int]:
    """How many rows, their bytes, their tokens."""
    return len(rows), sum(row.new.bytes for row in rows), sum(row.new.tokens for row in rows)


def _within(place: tuple[int, int], range: Range) -> bool:
    return place[0] == range.strand and range.lo <= place[1] <= range.hi


def _differs(stored: NewMessage, new: NewMessage) -> bool:
    """Whether two messages say different things; which of their media is kept beside the text does not count."""
    if _content(stored) == _content(new):
        return False
    text = whole_text(new)
    return stored.format != new.format or text is None or whole_text(stored) != text


def _content(new: NewMessage) -> object:
    return new.format, new.body, new.bytes, new.tokens, [(media.at, media.hash) for media in new.media]


def _text(new: NewMessage, blobs: Mapping[bytes, bytes]) -> str:
    """The message's JSON text with its media put back."""
    pieces: list[str] = []
    start = 0
    for media in new.media:
        pieces += new.body[start : media.at], base64.b64encode(blobs[media.hash]).decode()
        start = media.at
    return "".join(pieces) + new.body[start:]


def _message(row: _Row, blobs: Mapping[bytes, bytes]) -> Message:
    new = row.new
    return Message(
        new.id,
        new.role,
        row.seq,
        row.parent,
        row.created_at_us,
        new.bytes,
        new.tokens,
        formats.named(new.format),
        _text(new, blobs),
    )


def _stat(row: _Row) -> Stat:
    return Stat(row.new.id, row.seq, row.new.role, row.new.bytes, row.new.tokens, row.created_at_us)


def _texts(life: _Life) -> object:
    """What `put_session` may change, with metadata as text: 1, 1.0 and true differ."""
    return life.name, life.owner, life.parent_id, life.pinned, jsontext.encode(life.metadata)


def _candidates(session: str, life: _Life, asked: Search) -> list[brute.Candidate]:
    """The messages that are searched, with what a hit says of each."""
    rows = list(life.rows.values())
    if not asked.branches:
        rows = _path_rows(life, life.leaf if isinstance(asked.leaf, Leaf) else asked.leaf)
    return [
        brute.Candidate(
            session=session,
            id=row.new.id,
            seq=row.seq,
            role=row.new.role,
            created_at_us=row.created_at_us,
            active_at_us=life.active_at_us,
            text=brute.text_of(row.new.format, row.new.body),
            on_path=row.trail[-1] in life.place,
            covered=_is_covered(life, row),
            leaf_id=_branch_end(life, row),
        )
        for row in rows
    ]


def _is_covered(life: _Life, row: _Row) -> bool:
    """Whether an overlay hides a message on the active path, or if it is not there, on the path to its branch's end."""
    place = row.trail[-1]
    trail = life.place if place in life.place else life.rows[_branch_end(life, row)].trail
    return any(place in laid.places for laid in _lying_on(life, trail))


def _branch_end(life: _Life, row: _Row) -> str:
    """The last message of the active path if this one is on it, else of its own strand."""
    if row.trail[-1] in life.place:
        return life.leaf or ""
    return max((other for other in life.rows.values() if other.strand == row.strand), key=lambda o: o.seq).new.id


def _totals(life: _Life) -> Totals:
    path = _sums(_path_rows(life, life.leaf))
    view = [whole - less for whole, less in zip(path, _hidden(_laid(life, life.place)), strict=True)]
    return Totals(*_sums(list(life.rows.values())), *path, *view)


def _merged(old: Json, patch: Mapping[str, Any]) -> Json:
    merged = {**old, **copy.deepcopy(dict(patch))}
    return {key: value for key, value in merged.items() if value is not None}


def _write_cursor(scope: Scope, place: tuple[int, str]) -> str:
    text = jsontext.encode([scope.tenant, scope.owner, *place])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _read_cursor(scope: Scope, cursor: str) -> tuple[int, str]:
    try:
        tenant, owner, at_us, id = jsontext.decode(base64.urlsafe_b64decode(cursor.encode()))
        if (tenant, owner) == (scope.tenant, scope.owner):
            return int(at_us), str(id)
    except (ValueError, TypeError, binascii.Error):
        pass
    raise UsageError("sessions: the cursor is not one of this listing; begin without a cursor")
