"""Generated from src/plait/_async/copying.py by tools/unasync.py: edit that file. Copying a session from one store into another: whole, compared with what was read, gone on with after a break."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from plait import jsontext, times
from plait._sync.importing import stage_part
from plait._sync.keeping import Bringing, versions
from plait._sync.recording import Place, listing
from plait.diagnostics import tidying
from plait.errors import ConflictError, CorruptError, NotFoundError, PlaitError, StaleValueError, UsageError, no_session
from plait.logic import media
from plait.logic.chains import Chain
from plait.logic.ids import SHARED_SESSION
from plait.logic.prepare import Given, Rules, prepare
from plait.logic.values import packed
from plait.model import Copied, Damaged, Message, Overlay, SessionInfo, Value
from plait.pauses import call, pause
from plait.store._sync.abilities import contextual, merging, overlaying, recording
from plait.store._sync.port import Store
from plait.store.protocol import Graft, NewMessage, NewOverlay, NewRecords, SessionRef, Span

WINDOW: Final = 200

Progress = Callable[[int, int], None]


class Side:
    """A session of a store that is copied from or to."""

    def __init__(self, store: Store, ref: SessionRef) -> None:
        self.store = store
        self.ref = ref

    def messages(self, upto_seq: int) -> Iterator[Message | Damaged]:
        """Its messages of all branches up to a seq, in the order of their arrival."""
        after = 0
        while after < upto_seq:
            window = self.store.everything(self.ref, after_seq=after, limit=WINDOW)
            for message in window:
                if message.seq > upto_seq:
                    return
                yield message
            if not window:
                return
            after = window[-1].seq
            pause()

    def overlays(self) -> list[Overlay]:
        """All its overlays, in the order they were added."""
        if not callable(getattr(self.store, "overlays", None)):
            return []
        return overlaying(self.store).overlays(self.ref, everywhere=True)

    def records(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """All its records, by key, a page of at most 4 MiB (or of one) at a time."""
        if not callable(getattr(self.store, "records", None)):
            return
        place = Place(self.store, self.ref)
        first = b""
        while page := listing(place, first, None, limit=WINDOW, last_first=False):
            yield page
            first = page[-1][0] + b"\0"
            pause()

    def newest_seq(self) -> int:
        newest = self.store.newest(self.ref)
        return 0 if newest is None else newest.seq


class Reading:
    """What has been read of a session: what it said, as a hash, and what of it cannot be copied."""

    def __init__(self, lost: Sequence[str] = ()) -> None:
        self.lost = list(lost)
        self.messages = 0
        self._passed: dict[str, str | None] = {}
        self._hash = hashlib.sha256()
        self._begun: set[tuple[str, str]] = set()

    @property
    def digest(self) -> bytes:
        return self._hash.digest()

    def _said(self, *facts: object) -> None:
        self._hash.update(jsontext.utf8(facts) + b"\n")

    def nearest(self, id: str | None) -> str | None:
        """The message itself or, if it cannot be copied, the nearest before it that can."""
        while id is not None and id in self._passed:
            id = self._passed[id]
        return id

    def message(self, message: Message | Damaged) -> NewMessage | None:
        """Take in a message; it as the other store takes it, `None` if it is damaged."""
        try:
            if isinstance(message, Damaged):
                raise CorruptError(message.reason)
            carried = _carried(message)
            facts = (message.id, self.nearest(message.parent_id), message.format, carried.created_at_us, message.tokens)
        except (CorruptError, UsageError) as error:
            self._passed[message.id] = message.parent_id
            self.lost.append(f"message {message.id!r} (seq {message.seq}) is damaged: {error}")
            return None
        self._said("message", *facts, message.to_json())
        self.messages += 1
        return carried

    def overlay(self, overlay: Overlay) -> None:
        made, shows = times.to_us(overlay.created_at), (overlay.summary, overlay.tokens, overlay.stale)
        self._said("overlay", overlay.id, overlay.kind, made, *shows)

    def value(self, value: Value) -> None:
        """Take in a version of a value; a store keeps no deletion of what was never there."""
        name = (value.label, value.key)
        if value.content is None and name not in self._begun:
            return
        self._begun.add(name)
        if value.damaged:
            self.lost.append(f"{_version(value)}: it is damaged; what can be read of it is copied")
        content = None if value.content is None else packed(value.content)
        about = None if value.description is None else packed(value.description)
        facts = (about, sorted(value.metadata.items()), value.tokens, times.to_us(value.written_at))
        self._said("value", *name, value.version, content, *facts)

    def unkept(self, value: Value, error: PlaitError | None) -> None:
        """Note a version of a value that could not be kept, if there is something to say of it."""
        if error is not None:
            self.lost.append(f"{_version(value)}: {error}")

    def record(self, key: bytes, body: bytes) -> None:
        self._said("record", key.hex(), hashlib.sha256(body).hexdigest())

    def session(self, info: SessionInfo | None, state: dict[str, object], leaf: str | None) -> None:
        said = (
            None
            if info is None
            else (info.name, info.owner, info.parent_id, info.pinned, sorted(info.metadata.items()))
        )
        self._said("session", said, sorted(state.items()), leaf)


def _version(value: Value) -> str:
    return f"value {value.key!r} of {value.label!r}, version {value.version}"


def _carried(message: Message) -> NewMessage:
    """A message as it is written elsewhere: the same text to the letter, its media apart if that gives them back."""
    at_us = times.to_us(message.created_at)
    given = Given(message.id, at_us, message.id, message.format, verbatim=True)
    new, text = prepare(message, given, Rules()), message.to_json()
    if media.whole_text(new) != text:
        new = replace(new, body=text, media=(), bytes=len(text.encode()))
    return replace(new, tokens=message.tokens, seq=message.seq)


class Copying:
    """The copying of one session: what was fixed of it at the beginning, and how far it is."""

    def __init__(self, source: Side, target: Side, at_us: int, progress: Progress | None) -> None:
        self.source = source
        self.target = target
        self.at_us = at_us
        self.progress = progress
        self.leaf: str | None = None
        self.upto_seq = 0
        self.total = 0

    def run(self) -> Copied:
        """Copy the session, or what its copy lacks."""
        info = self.source.store.info(self.source.ref)
        if info is None:
            id = self.source.ref.id
            raise no_session(id, " to copy")
        leaf = self.source.store.leaf(self.source.ref)
        self.leaf = None if leaf is None else leaf.id
        self.upto_seq, self.total = self.source.newest_seq(), info.totals.messages
        if self.target.store.info(self.target.ref) is not None:
            return self._more(info)
        return self._whole(info) or self._whole(info, resume=False) or self._refuse(info)

    def _refuse(self, info: SessionInfo) -> Copied:
        raise StaleValueError(
            f"session {info.id!r} was changed while it was copied, or cannot be read the same twice; nothing is left of "
            "the copy: copy it again",
            session_id=info.id,
        )

    # -- a session that is not there yet ---------------------------------------

    def _whole(self, info: SessionInfo, *, resume: bool = True) -> Copied | None:
        """Copy it out of sight and publish it if it says what was read; `None`, and nothing left, if it does not."""
        target, created_us = self.target.store, times.to_us(info.created_at)
        token = self._token(info) if resume else None
        hidden = Side(target, target.stage(self.target.ref, created_at_us=created_us, token=token))
        there = hidden.newest_seq()
        reading = Reading()
        for chain in self._chains(reading, after_seq=there):
            target.append(hidden.ref, chain.messages, parent=chain.parent, kind="import")
        leaf = reading.nearest(self.leaf)
        if leaf is not None:
            target.checkout(hidden.ref, leaf)
        left_out = self._lay(reading, partial(self._lay_at, hidden))
        self._bring_values(hidden, reading)
        self._bring_records(hidden)
        self._describe(hidden, info)
        self._read_rest(self.source, reading, info, leaf, left_out)
        if self._read_back(hidden) != reading.digest:
            with tidying(f"giving up a copy of session {info.id!r}"):
                target.discard(hidden.ref)
            return None
        target.publish(hidden.ref, self.target.ref, active_at_us=times.to_us(info.active_at))
        return Copied(info.id, True, reading.messages, reading.messages, tuple(reading.lost), True)

    def _token(self, info: SessionInfo) -> str:
        """What names the hidden session, so that a copy that was broken off is gone on with."""
        scope, origin = self.target.ref.scope, self.source.ref.scope
        facts = (origin.tenant, origin.owner, info.id, times.to_us(info.created_at), scope.tenant, scope.owner)
        return hashlib.sha256(jsontext.utf8((*facts, self.target.ref.id))).hexdigest()[:32]

    def _chains(self, reading: Reading, *, after_seq: int = 0) -> Iterator[Chain]:
        """All messages are read; those after a seq are to be written, in runs."""
        chain: Chain | None = None
        for message in self.source.messages(self.upto_seq):
            new = reading.message(message)
            if new is None or message.seq <= after_seq:
                continue
            parent = reading.nearest(message.parent_id)
            if chain is None or not chain.takes(parent, new):
                if chain is not None:
                    yield chain
                    self._tell(reading)
                chain = Chain(parent)
            chain.add(new)
        if chain is not None:
            yield chain
        self._tell(reading)

    def _tell(self, reading: Reading) -> None:
        if self.progress is not None:
            self.progress(reading.messages, max(reading.messages, self.total))

    def _lay(self, reading: Reading, lay_one: Callable[[Overlay], Awaitable[None] | None]) -> set[str]:
        """Lay on the overlays, each as it is done here; answers those that could not be laid."""
        left_out: set[str] = set()
        for overlay in self.source.overlays():
            try:
                call(lay_one, overlay)
            except (ConflictError, NotFoundError, UsageError) as error:
                left_out.add(overlay.id)
                reading.lost.append(f"overlay {overlay.id!r}: {error}")
        return left_out

    def _lay_at(self, hidden: Side, overlay: Overlay) -> None:
        """Lay an overlay on the places it covers."""
        path = hidden.store.path(hidden.ref, self._leaf_over(overlay), raw=True)
        if path is None:
            raise NotFoundError("there is nothing to lay it on")
        span = Span(path, overlay.from_seq, overlay.to_seq)
        added = overlaying(hidden.store).add_overlay(hidden.ref, _new(overlay), span=span)
        if added.covered:
            raise ConflictError(f"overlay {added.overlay.id!r} covers its range")

    def _leaf_over(self, overlay: Overlay) -> str:
        """A message whose path runs through the place where an overlay ends."""
        store, ref = self.source.store, self.source.ref
        last = store.get(ref, overlay.to_id)
        if last is not None and last.seq == overlay.to_seq:
            return overlay.to_id
        for leaf in store.leaves(ref):
            lying = overlaying(store).overlays(ref, leaf=leaf.id)
            if any(item.id == overlay.id for item in lying):
                return leaf.id
        raise NotFoundError("no message is left on its path")

    def _bring_values(self, side: Side, reading: Reading) -> None:
        bringing: Bringing | None = None
        for value in versions(self.source.store, self.source.ref):
            bringing = bringing or Bringing(contextual(side.store), side.ref, self.at_us)
            reading.unkept(value, bringing.take(value))

    def _bring_records(self, side: Side) -> None:
        for page in self.source.records():
            recording(side.store).write_records(side.ref, NewRecords(put=tuple(page)), created_at_us=self.at_us)

    def _describe(self, side: Side, info: SessionInfo) -> None:
        """Let the copy say of itself what the session does."""
        store, ref = side.store, side.ref
        there, state = store.info(ref), self.source.store.state(self.source.ref)
        gone = dict.fromkeys(there.metadata.keys() - info.metadata.keys()) if there is not None else {}
        store.put_session(
            ref,
            created_at_us=self.at_us,
            create="ensure",
            name=info.name,
            owner=info.owner,
            pinned=info.pinned if there is not None and there.pinned != info.pinned else None,
            parent_id=info.parent_id,
            metadata={**info.metadata, **gone},
        )
        patch = {**state, **dict.fromkeys((store.state(ref)).keys() - state.keys())}
        if patch:
            store.update_state(ref, patch, created_at_us=self.at_us)

    # -- one that is there -----------------------------------------------------

    def _more(self, info: SessionInfo) -> Copied:
        """Add what the copy lacks, all at once, and compare."""
        store, ref, reading = merging(self.target.store), self.target.ref, Reading()
        stage = store.stage_more(ref, self.total)
        grafts: list[Graft] = []
        inserted = 0
        try:
            for chain in self._chains(reading):
                known = store.existing(ref, [message.id for message in chain.messages])
                for part in chain.without(known):
                    inserted += stage_part(store, stage, ref, part, grafts)
            leaf = reading.nearest(self.leaf)
            if inserted:
                store.merge(stage, ref, grafts, leaf)
        finally:
            with tidying(f"giving up what was staged for session {ref.id!r}"):
                store.discard(stage)
        there = {overlay.id for overlay in self.target.overlays()}
        left_out = self._lay(reading, partial(self._lay_by_ids, there))
        self._bring_values(self.target, reading)
        self._bring_records(self.target)
        self._describe(self.target, info)
        self._read_rest(self.source, reading, info, leaf, left_out)
        same = self._read_back(self.target) == reading.digest
        return Copied(info.id, False, inserted, reading.messages, tuple(reading.lost), same)

    def _lay_by_ids(self, there: set[str], overlay: Overlay) -> None:
        """Lay on an overlay that the copy lacks; one whose ends are gone cannot be."""
        if overlay.id not in there:
            new = _new(overlay)
            overlaying(self.target.store).add_overlay(self.target.ref, new, leaf=new.to_id)

    # -- comparing -------------------------------------------------------------

    def _read_rest(
        self, side: Side, reading: Reading, info: SessionInfo | None, leaf: str | None, left_out: set[str]
    ) -> None:
        """Take in what a session says beside its messages."""
        for overlay in side.overlays():
            if overlay.id not in left_out:
                reading.overlay(overlay)
        for value in versions(side.store, side.ref):
            reading.value(value)
        for page in side.records():
            for key, body in page:
                reading.record(key, body)
        reading.session(info, side.store.state(side.ref), leaf)

    def _read_back(self, side: Side) -> bytes:
        """What a copy says, as a hash."""
        reading = Reading()
        for message in side.messages(side.newest_seq()):
            reading.message(message)
        leaf = side.store.leaf(side.ref)
        info = side.store.info(side.ref)
        self._read_rest(side, reading, info, None if leaf is None else leaf.id, set())
        return reading.digest


def copy_shared(source: Side, target: Side, at_us: int) -> Copied | None:
    """Copy the values that the sessions of a scope share, going on with those that are there; `None` if there are none."""
    bringing = Bringing(contextual(target.store), target.ref, at_us)
    reading, back = Reading(), Reading()
    found = False
    for value in versions(source.store, source.ref):
        found = True
        reading.value(value)
        reading.unkept(value, bringing.take(value))
    if not found:
        return None
    for value in versions(target.store, target.ref):
        back.value(value)
    return Copied(SHARED_SESSION, False, 0, 0, tuple(reading.lost), reading.digest == back.digest)


def _new(overlay: Overlay) -> NewOverlay:
    ends = (overlay.from_id, overlay.to_id)
    at_us = times.to_us(overlay.created_at)
    return NewOverlay(overlay.id, overlay.kind, *ends, overlay.summary, overlay.tokens, at_us, overlay.stale)
