"""Generated from src/plait/store/_async/store.py by tools/unasync.py: edit that file. The store that any driver serves: each primitive is a plan, long ones are loops of plans."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Literal

from plait import chance
from plait.diagnostics import tidying
from plait.errors import UnsupportedError
from plait.logic.ids import STAGE_PREFIX
from plait.logic.values import check_operation
from plait.logic.values import prepare as prepare_value
from plait.model import (
    LEAF,
    Changes,
    Damaged,
    Finding,
    Hit,
    Json,
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
from plait.pauses import aside
from plait.store._sync import removing
from plait.store._sync.port import Rest
from plait.store.driver import Driver
from plait.store.plan import Plan
from plait.store.plans import (
    append,
    attachments,
    catalogue,
    change,
    common,
    feed,
    lease,
    merge,
    overlays,
    read,
    records,
    removal,
    stamping,
    values,
)
from plait.store.plans import stage as staging
from plait.store.plans.messages import CHUNK_BYTES
from plait.store.protocol import (
    Creating,
    Described,
    Expect,
    Fence,
    Graft,
    Kind,
    NewMessage,
    NewOverlay,
    NewRecords,
    Path,
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

PURGE_ROWS = 1000
SHARE = 8
"""In how many transactions what removes something of its own also removes what others have left."""

STAGE_LIFE_US = 3600 * 1_000_000
"""A stage that nobody has published for an hour was left behind by a crash."""

Clock = Callable[[], int]


def _hidden(target: SessionRef, token: str | None = None) -> SessionRef:
    """A hidden session that is to become `target`, or a part of it: its id says of which."""
    return SessionRef(target.scope, f"{STAGE_PREFIX}{token or os.urandom(16).hex()}:{target.id}")


def _now_us() -> int:
    return time.time_ns() // 1000


def _even(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one size, as they are kept; only the last may be shorter."""
    rest = bytearray()
    for data in chunks:
        rest += data
        while len(rest) >= CHUNK_BYTES:
            yield bytes(rest[:CHUNK_BYTES])
            del rest[:CHUNK_BYTES]
    if rest:
        yield bytes(rest)


class PlanStore:
    """A `Store` on a driver. `clock` answers the time in microseconds since 1970 UTC."""

    def __init__(self, driver: Driver, *, clock: Clock = _now_us) -> None:
        self.driver = driver
        self._clock = clock
        self._counted = read.Counted()

    def _mark(self, at_us: int | None = None) -> common.Mark:
        return common.Mark(self._clock() if at_us is None else at_us, f"{chance.bits(64):016x}")

    def open(self) -> None:
        aside(self.driver.open)

    def close(self) -> None:
        aside(self.driver.close)

    def flush(self) -> None:
        aside(self.driver.flush)

    # -- messages --------------------------------------------------------------

    def append(
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
        if not messages:
            return []
        plan = partial(
            append.append,
            session,
            messages,
            self._mark(),
            parent=parent,
            expect=expect,
            kind=kind,
            activate=activate,
            refuse_other=refuse_other,
        )
        lone = len(messages) == 1
        weight = messages[0].bytes if lone else sum([message.bytes for message in messages])
        return self.driver.write(plan, weight, light=lone and parent is LEAF)

    def append_with_state(
        self,
        session: SessionRef,
        messages: Sequence[NewMessage],
        patch: Mapping[str, Any],
        *,
        parent: Parent,
        expect: Expect | None = None,
        refuse_other: bool = False,
    ) -> tuple[list[Written], bool]:
        if not messages:
            return [], False
        options: dict[str, Any] = {"parent": parent, "expect": expect, "refuse_other": refuse_other}
        plan = partial(append.append_with_state, session, messages, self._mark(), patch, **options)
        return self.driver.write(plan, sum([message.bytes for message in messages]))

    def update(self, session: SessionRef, message: NewMessage) -> Updated | None:
        return self.driver.write(partial(change.update, session, message, self._mark()), message.bytes)

    def delete(self, session: SessionRef, ids: Sequence[str]) -> list[str]:
        """Delete messages; many or large ones in bounded transactions, of which one takes them all away."""
        mark = self._mark()
        staged = getattr(self.driver, "hides", False)
        if not staged or len(ids) <= removal.ROWS:
            at_most_bytes = change.PURGE_BYTES if staged else None
            gone = self.driver.write(partial(change.delete, session, ids, mark, at_most_bytes))
            if gone is not None:
                return gone
        deleted = removing.delete(self.driver, session, ids, mark)
        self._tidy(session, ())
        return deleted

    def clear(self, session: SessionRef) -> bool:
        old = self.driver.write(partial(change.clear, session, self._mark()))
        if old is None:
            return False
        self._tidy(session, (old,))
        return True

    def checkout(self, session: SessionRef, id: str | None, *, expect: Expect | None = None) -> bool:
        return self.driver.write(partial(change.checkout, session, id, self._mark(), expect))

    def get(self, session: SessionRef, id: str) -> Message | Damaged | None:
        return self.driver.read(partial(read.get, session, id))

    def path(self, session: SessionRef, leaf: Parent, *, raw: bool = False) -> Path | None:
        return self.driver.read(partial(read.path, session, leaf, raw=raw))

    def load(
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
        options: dict[str, Any] = {"after_seq": after_seq, "before_seq": before_seq, "newest_first": newest_first}
        options |= {"limit": limit, "budget_bytes": budget_bytes, "shown": shown}
        return self.driver.read(partial(read.load, session, path, **options))

    def stats(
        self, session: SessionRef, path: Path, *, after_seq: int = 0, before_seq: int | None = None, limit: int = 1000
    ) -> list[Stat]:
        options: dict[str, Any] = {"after_seq": after_seq, "before_seq": before_seq, "limit": limit}
        return self.driver.read(partial(read.stats, session, path, **options))

    def suffix(self, session: SessionRef, path: Path, *, count: int | None, budget_bytes: int | None) -> Suffix:
        bounds: dict[str, Any] = {"count": count, "budget_bytes": budget_bytes, "counted": self._counted}
        return self.driver.read(partial(read.suffix, session, path, **bounds))

    def recent(
        self, session: SessionRef, leaf: Parent, *, count: int | None, budget_bytes: int | None
    ) -> tuple[Path, Suffix] | None:
        bounds: dict[str, Any] = {"count": count, "budget_bytes": budget_bytes, "counted": self._counted}
        return self.driver.read(partial(read.recent, session, leaf, **bounds))

    def leaf(self, session: SessionRef) -> Message | Damaged | None:
        return self.driver.read(partial(read.leaf, session))

    def newest(self, session: SessionRef) -> Message | Damaged | None:
        return self.driver.read(partial(read.newest, session))

    def children(self, session: SessionRef, id: str | None) -> list[Message | Damaged]:
        return self.driver.read(partial(read.children, session, id))

    def leaves(self, session: SessionRef) -> list[Message | Damaged]:
        return self.driver.read(partial(read.leaves, session))

    def everything(
        self, session: SessionRef, *, after_seq: int = 0, limit: int = 50, budget_bytes: int = 4 << 20
    ) -> list[Message | Damaged]:
        options: dict[str, Any] = {"after_seq": after_seq, "limit": limit, "budget_bytes": budget_bytes}
        return self.driver.read(partial(read.everything, session, **options))

    def changed_since(self, session: SessionRef, path: Path) -> bool:
        return self.driver.read(partial(read.changed_since, session, path))

    def totals(self, session: SessionRef) -> Totals:
        return self.driver.read(partial(read.totals, session, self._counted))

    # -- sessions --------------------------------------------------------------

    def info(self, session: SessionRef) -> SessionInfo | None:
        return self.driver.read(partial(catalogue.info, session))

    def put_session(
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
        options: dict[str, Any] = {"create": create, "name": name, "owner": owner, "parent_id": parent_id}
        options |= {"pinned": pinned, "metadata": metadata}
        return self.driver.write(
            partial(catalogue.put_session, session, self._mark(created_at_us), **options)
        )

    def add_usage(self, session: SessionRef, usage: Usage, *, created_at_us: int) -> SessionInfo | None:
        return self.driver.write(partial(catalogue.add_usage, session, usage, self._mark(created_at_us)))

    def state(self, session: SessionRef) -> Json:
        return self.driver.read(partial(catalogue.state, session))

    def update_state(
        self, session: SessionRef, patch: Mapping[str, Any], *, created_at_us: int, version: int | None = None
    ) -> Stated:
        mark = self._mark(created_at_us)
        return self.driver.write(partial(catalogue.update_state, session, patch, mark, version))

    def sessions(self, scope: Scope, *, cursor: str | None, limit: int) -> SessionPage:
        return self.driver.read(partial(catalogue.sessions, scope, cursor, limit))

    def scopes(self, *, after: Scope | None = None, limit: int = 100) -> list[Scope]:
        return self.driver.read(partial(catalogue.scopes, after, limit))

    def delete_session(self, session: SessionRef, *, version: int | None = None) -> bool:
        old = self.driver.write(partial(catalogue.delete_session, session, self._mark(), version))
        if old is None:
            return False
        self._tidy(session, old)
        return True

    # -- overlays --------------------------------------------------------------

    def add_overlay(
        self,
        session: SessionRef,
        overlay: NewOverlay,
        *,
        leaf: Parent = LEAF,
        expect_version: int | None = None,
        span: Span | None = None,
        change: Literal["overlay", "compact"] = "overlay",
    ) -> OverlayAdded:
        options: dict[str, Any] = {"leaf": leaf, "expect_version": expect_version, "span": span, "change": change}
        return self.driver.write(partial(overlays.add, session, overlay, self._mark(), **options))

    def crossing(self, session: SessionRef, span: Span) -> Overlay | None:
        return self.driver.read(partial(overlays.crossing, session, span))

    def overlays(self, session: SessionRef, *, leaf: Parent = LEAF, everywhere: bool = False) -> list[Overlay]:
        return self.driver.read(partial(overlays.listing, session, leaf, everywhere=everywhere))

    def overlay(self, session: SessionRef, id: str) -> Overlay | None:
        return self.driver.read(partial(overlays.get, session, id))

    def remove_overlay(self, session: SessionRef, id: str) -> Overlay | None:
        return self.driver.write(partial(overlays.remove, session, id, self._mark()))

    def covering(self, session: SessionRef, ids: Sequence[str]) -> dict[str, list[str]]:
        return self.driver.read(partial(overlays.covering, session, ids))

    def claim_compaction(self, session: SessionRef, token: str, *, until_us: int) -> bool:
        return self.driver.write(partial(overlays.claim, session, token, self._clock(), until_us))

    def release_compaction(self, session: SessionRef, token: str) -> None:
        self.driver.write(partial(overlays.release, session, token))

    def restamp(
        self,
        session: SessionRef,
        stamps: Sequence[tuple[str, int]],
        *,
        summaries: Sequence[tuple[str, int]] = (),
        since_version: int,
    ) -> int:
        try:
            return self.driver.write(partial(stamping.restamp, session, stamps, summaries, since_version))
        finally:
            self._counted.forget()

    # -- values ----------------------------------------------------------------

    def read_value(self, session: SessionRef, label: str, key: str = "") -> Value | None:
        return self.driver.read(partial(values.read, session, label, key))

    def values(
        self,
        session: SessionRef,
        label: str,
        *,
        after: str | None = None,
        limit: int = 100,
        prefix: str = "",
        budget_bytes: int = 4 << 20,
    ) -> list[Value]:
        plan = partial(values.listing, session, label, after, limit, prefix, budget_bytes)
        return self.driver.read(plan)

    def value_stats(
        self, session: SessionRef, label: str, *, after: str | None = None, limit: int = 1000, prefix: str = ""
    ) -> list[ValueStat]:
        return self.driver.read(partial(values.stats, session, label, after, limit, prefix))

    def write_value(
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
        new = prepare_value(label, key, content, description, metadata, tokens)
        check_operation(operation)
        mark = common.Mark(created_at_us, operation)
        return self.driver.write(
            partial(values.write, session, new, expect, mark, least_version), new.bytes
        )

    def value_history(
        self, session: SessionRef, label: str, key: str = "", *, before: int | None = None, limit: int = 100
    ) -> list[Value]:
        return self.driver.read(partial(values.history, session, label, key, before, limit))

    def count_values(self, session: SessionRef, label: str, prefix: str = "") -> int:
        return self.driver.read(partial(values.count, session, label, prefix))

    def value_names(
        self, session: SessionRef, *, after: tuple[str, str | None] | None = None, limit: int = 100
    ) -> list[tuple[str, str]]:
        return self.driver.read(partial(values.names, session, after, limit))

    def search_values(self, session: SessionRef, label: str, query: str, *, limit: int = 10) -> list[ValueHit]:
        from plait.store._sync import searching

        return searching.find_values(self.driver, session, label, query, limit)

    def prune_values(self, scope: Scope, *, before_us: int | None, keep: int | None) -> int:
        """Forget earlier versions of values, a bounded transaction at a time."""
        count = 0
        for session in self._every_session(scope):
            count += self._prune_values(session, before_us, keep)
        return count

    def _every_session(self, scope: Scope) -> Iterator[SessionRef]:
        """All sessions of a scope, those that are over too.

        Nothing is read after the last: an error then would say of all that was done for them that it failed.
        """
        after, more = "", True
        while more:
            ids, more = self.driver.read(partial(feed.sessions_of, scope, after))
            for after in ids:
                yield SessionRef(scope, after)

    def _prune_values(self, session: SessionRef, before_us: int | None, keep: int | None) -> int:
        count, place = 0, 0
        while True:
            place, gone = self.driver.write(partial(values.prune, session, place, before_us, keep))
            count += gone
            if not place:
                return count

    # -- records ---------------------------------------------------------------

    def read_records(self, session: SessionRef, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return self.driver.read(partial(records.read, session, keys))

    def records(
        self, session: SessionRef, first: bytes, end: bytes, *, limit: int, last_first: bool
    ) -> list[tuple[bytes, bytes]]:
        plan = partial(records.listing, session, first, end, limit, last_first=last_first)
        return self.driver.read(plan)

    def write_records(
        self, session: SessionRef, new: NewRecords, *, created_at_us: int
    ) -> tuple[list[bytes], list[Written], list[str]]:
        weight = sum(len(body) for _, body in (*new.put, *new.keep))
        weight += sum(message.bytes for chain in new.chains for message in chain.messages)
        return self.driver.write(partial(records.write, session, new, self._mark(created_at_us)), weight)

    # -- leases ----------------------------------------------------------------

    def acquire_lease(self, session: SessionRef, token: str, *, ttl_us: int, holder: str) -> Fence:
        options: dict[str, Any] = {"ttl_us": ttl_us, "holder": holder}
        return self.driver.write(partial(lease.acquire, session, token, self._mark(), **options))

    def renew_lease(self, session: SessionRef) -> int:
        return self.driver.write(partial(lease.renew, session))

    def release_lease(self, session: SessionRef) -> bool:
        return self.driver.write(partial(lease.release, session))

    def end_lease(self, session: SessionRef) -> bool:
        return self.driver.write(partial(lease.end, session))

    def lease(self, session: SessionRef) -> LeaseInfo | None:
        return self.driver.read(partial(lease.info, session))

    # -- the feed --------------------------------------------------------------

    def changes(self, session: SessionRef, *, after: str | None, limit: int, budget_bytes: int) -> Changes:
        return self.driver.read(partial(feed.page, session, after, limit, budget_bytes))

    def changes_end(self, session: SessionRef) -> str:
        return self.driver.read(partial(feed.end, session))

    def scope_changes(self, scope: Scope, *, after: str | None, limit: int, budget_bytes: int) -> Changes:
        return self.driver.read(partial(feed.scope_page, scope, after, limit, budget_bytes))

    def scope_changes_end(self, scope: Scope) -> str:
        return self.driver.read(partial(feed.scope_end, scope))

    def prune_changes(self, scope: Scope, *, before_us: int | None, keep: int | None) -> int:
        """Forget old change rows, a bounded transaction at a time."""
        count = 0
        for session in self._every_session(scope):
            count += self._prune_changes(session, before_us, keep)
        if before_us is not None:
            while self.driver.write(partial(feed.prune_pulses, scope, before_us, PURGE_ROWS)):
                pass
        return count

    def _prune_changes(self, session: SessionRef, before_us: int | None, keep: int | None) -> int:
        count, gone = 0, PURGE_ROWS
        while gone == PURGE_ROWS:
            gone = self.driver.write(partial(feed.prune, session, before_us, keep, PURGE_ROWS))
            count += gone
        return count

    def commits(self, place: SessionRef | Scope | None = None) -> int | None:
        """See `Feeding.commits`."""
        commits: Callable[[SessionRef | Scope | None], int | None] | None = getattr(self.driver, "commits", None)
        return None if commits is None else commits(place)

    def rest(self, place: SessionRef | Scope, seen: int | None, at_most_s: float) -> bool:
        """See `Waking.rest`."""
        rest: Rest | None = getattr(self.driver, "rest", None)
        return False if rest is None else rest(place, seen, at_most_s)

    # -- staged work -----------------------------------------------------------

    def stage(
        self, target: SessionRef, *, created_at_us: int | None = None, token: str | None = None
    ) -> SessionRef:
        with tidying("sweeping up what was staged and never published"):
            if self._give_up_stages(self._clock()):
                self._purge(self._clock(), SHARE)
        hidden = _hidden(target, token)
        self.driver.write(partial(staging.begin, hidden, target, self._mark(), created_at_us))
        return hidden

    def publish(
        self,
        stage: SessionRef,
        target: SessionRef,
        *,
        active_at_us: int | None = None,
        note: tuple[SessionRef, Mapping[str, Any]] | None = None,
    ) -> None:
        self.driver.write(partial(staging.publish, stage, target, self._mark(), active_at_us, note))

    def existing(self, session: SessionRef, ids: Sequence[str]) -> set[str]:
        """Which of these message ids the session has."""
        return self.driver.read(partial(merge.existing, session, ids))

    def stage_more(self, target: SessionRef, count: int) -> SessionRef:
        """A hidden session for up to `count` messages that are to be added to `target`, which exists."""
        hidden = _hidden(target)
        self.driver.write(partial(merge.begin, hidden, target, count, self._mark()))
        return hidden

    def merge(self, stage: SessionRef, target: SessionRef, grafts: Sequence[Graft], leaf: str | None) -> int:
        """Add the staged messages to `target`, all at once; answers how many.

        The active leaf moves to `leaf` if the one before is on its path.
        """
        return self.driver.write(partial(merge.publish, stage, target, grafts, leaf, self._mark()))

    def discard(self, stage: SessionRef) -> None:
        old = self.driver.write(partial(staging.discard, stage))
        if old is not None:
            self._tidy(stage, old)

    def fork(
        self, session: SessionRef, target: SessionRef, *, at: str | None, created_at_us: int, name: str | None = None
    ) -> int:
        path = self.path(session, LEAF if at is None else at, raw=True)
        hidden = self.stage(target)
        try:
            copied = self._copy(session, path, hidden) if path is not None else 0
            self._copy_values(session, hidden)
            self.driver.write(
                partial(staging.publish_copy, session, path, hidden, target, name, self._mark(created_at_us))
            )
        except BaseException:
            with tidying(f"giving up a fork of session {session.id!r}"):
                self.discard(hidden)
            raise
        return copied

    def _copy(self, session: SessionRef, path: Path, hidden: SessionRef) -> int:
        """Copy a path into a hidden session, a bounded transaction at a time."""
        if not path.ranges:
            return 0
        strand = self.driver.write(partial(staging.copy_begin, hidden))
        last = count = 0
        while True:
            step = partial(staging.copy_step, session, path, hidden, strand, last)
            last, copied = self.driver.write(step, staging.BATCH_BYTES)
            if not copied:
                return count
            count += copied

    def _copy_values(self, session: SessionRef, hidden: SessionRef) -> None:
        """Copy what the values of a session say into a hidden one, a bounded transaction at a time."""
        place, done = 0, not self.driver.read(partial(values.any_of, session))
        while not done:
            step = partial(values.copy_step, session, hidden, place, self._mark())
            place, done = self.driver.write(step, values.COPY_BYTES)

    def _tidy(self, ref: SessionRef, lives: Sequence[int]) -> None:
        """Remove what lives of a session that are over have left, and some of what others have.

        What they said was taken away by the commit before, which stands whatever becomes of this.
        """
        with tidying(f"removing what was deleted of session {ref.id!r}"):
            for life in lives:
                while self.driver.write(partial(change.purge_step, ref, life, PURGE_ROWS)):
                    pass
            self._purge(self._clock(), SHARE)

    def _purge(self, now_us: int, transactions: float = inf) -> int:
        """Remove what is left to be removed, in at most so many transactions; answers how much there was."""
        left = self._left(now_us)
        for step in left:
            while transactions > 0:
                transactions -= 1
                if not self.driver.write(step):
                    break
        return len(left)

    def _left(self, now_us: int) -> list[Callable[[], Plan[bool]]]:
        """What removes lives that are over, what big deletes took away, and those that a crash left unfinished."""
        lives = self.driver.read(staging.purges)
        numbers = self.driver.read(partial(removal.leftovers, now_us - STAGE_LIFE_US))
        return [
            *(partial(change.purge_step, where, life, PURGE_ROWS) for life, where in lives),
            *(partial(removal.purge_step, number, removal.PART) for number in numbers),
        ]

    def sweep(self) -> int:
        """Finish what crashes left behind: purges, stages nobody published, payloads nobody claimed."""
        now_us = self._clock()
        done = self._purge(now_us)
        stages = self._give_up_stages(now_us)
        if stages:
            self._purge(now_us)
        return done + stages + self.driver.write(partial(attachments.sweep, now_us))

    def _give_up_stages(self, now_us: int) -> int:
        """Leave stages that nobody finished to the purge; answers how many."""
        found = self.driver.read(partial(staging.abandoned, now_us - STAGE_LIFE_US))
        for tenant, owner, id in found:
            self.driver.write(partial(staging.discard, SessionRef(Scope(tenant, owner), id)))
        return len(found)

    # -- attachments -----------------------------------------------------------

    def put_attachment(
        self, scope: Scope, chunks: Iterator[bytes], *, upload: str, now_us: int
    ) -> tuple[bytes, int]:
        with tidying("sweeping up attachments that nobody came for"):
            self.driver.write(partial(attachments.sweep, now_us))
        begin = partial(attachments.begin, scope, upload, now_us)
        number: int | None = None  # until the source, which may be none, has given a piece
        digest, size, n = hashlib.sha256(), 0, 0
        for data in _even(chunks):
            number = self.driver.write(begin) if number is None else number
            digest.update(data)
            size += len(data)
            self.driver.write(
                partial(attachments.write, scope, number, n, data, upload, self._clock()), len(data)
            )
            n += 1
        number = self.driver.write(begin) if number is None else number
        hash = digest.digest()
        self.driver.write(partial(attachments.finish, scope, number, hash, size, upload, self._clock()))
        return hash, size

    def read_attachment(self, session: SessionRef, id: str, n: int) -> Iterator[bytes]:
        number, count = self.driver.read(partial(attachments.locate, session, id, n))
        for piece in range(count):
            yield self.driver.read(partial(attachments.piece, session, id, number, piece))

    # -- search ----------------------------------------------------------------

    def search(self, within: SessionRef | Scope, asked: Search) -> list[Hit]:
        from plait.store._sync import searching  # what only a search needs is loaded by the first

        return searching.find(self.driver, within, asked, self._clock())

    def hits(self, within: SessionRef | Scope, keys: Sequence[tuple[str, str]], asked: Search) -> list[Hit]:
        from plait.store._sync import searching

        return searching.shown(self.driver, within, keys, asked)

    def build_search_index(self, *, rebuild: bool, progress: Callable[[int, int], None] | None) -> int:
        from plait.store._sync import searching

        return searching.build(self.driver, self._clock(), rebuild=rebuild, progress=progress)

    # -- upkeep ----------------------------------------------------------------

    def backup(self, path: str) -> None:
        """See `Sessions.backup`."""
        aside(partial(self._ability("backup"), path))

    def doctor(self, fix: bool) -> list[Finding]:
        """See `Sessions.doctor`."""
        swept = self.sweep() if fix else 0
        found: list[Finding] = aside(partial(self._ability("doctor"), fix))
        return found + ([Finding("left over", f"{swept} unfinished operations", fixed=True)] if swept else [])

    def vacuum(self, purge: bool) -> None:
        """See `Sessions.vacuum`."""
        self.sweep()
        if purge:
            from plait.store._sync import searching

            for session in self.driver.read(overlays.with_stale_texts):
                self.driver.write(partial(overlays.erase_stale_texts, session, self._mark()))
            searching.cleanse(self.driver, self._clock())
        aside(partial(self._ability("vacuum"), purge))

    def _ability(self, name: str) -> Callable[..., Any]:
        ability: Callable[..., Any] | None = getattr(self.driver, name, None)
        if ability is None:
            raise UnsupportedError(f"this store's driver has no {name}")
        return ability
