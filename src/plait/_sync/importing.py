"""Generated from src/plait/_async/importing.py by tools/unasync.py: edit that file. Importing a transcript into a session: all of it or nothing, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, cast

from plait import times
from plait._sync import keeping, recording
from plait.diagnostics import tidying
from plait.errors import ConflictError, NotFoundError, UsageError
from plait.logic import arguments, overlays
from plait.logic.chains import ENTRY, OVERLAY, Chain, Dated, Overlaid, Transcript, chains, each
from plait.logic.prepare import Rules
from plait.model import Imported
from plait.store._sync.abilities import merging, overlaying
from plait.store._sync.port import Merging, Store
from plait.store.protocol import Graft, SessionRef

FIELDS: Final[dict[str, Callable[[str, object], object]]] = {
    "id": arguments.text,
    "name": partial(arguments.maybe, arguments.text),
    "owner": partial(arguments.maybe, arguments.text),
    "pinned": arguments.flag,
    "parent_id": partial(arguments.maybe, arguments.text),
    "metadata": arguments.mapping,
    "state": arguments.mapping,
    "created_at": partial(arguments.maybe, arguments.moment),
    "active_at": partial(arguments.maybe, arguments.moment),
    "leaf": partial(arguments.maybe, arguments.id_asked),
    "count": arguments.number,
    "entries": arguments.several,
}
"""What a transcript must say, and what each field must be."""


def check_transcript(transcript: Transcript) -> None:
    """Raise `UsageError` naming the field unless all that a transcript says of its session can be kept."""
    for name in ("overlays", "values", "records"):
        arguments.several(f"transcript.{name}", getattr(transcript, name, ()))
    for name, check in FIELDS.items():
        if not hasattr(transcript, name):
            raise arguments.refusal("transcript", f"one that plait.interchange read, with {name}", transcript)
        check(f"transcript.{name}", getattr(transcript, name))


def import_transcript(
    store: Store, target: SessionRef, transcript: Transcript, rules: Rules, at_us: int
) -> Imported:
    """Write a transcript into `target`; see `Sessions.import_transcript`."""
    entries = Dated(each(transcript, "entries", ENTRY))
    grouped = chains(entries, rules, at_us)
    if store.info(target) is None:
        return _into_new(store, target, transcript, grouped, entries, rules, at_us)
    result = _into_existing(merging(store), target, transcript, grouped)
    _lay_on(store, target, transcript, rules, at_us)
    _bring_in(store, target, transcript, at_us)
    return result


def _into_new(
    store: Store,
    target: SessionRef,
    transcript: Transcript,
    grouped: Iterator[Chain],
    entries: Dated,
    rules: Rules,
    at_us: int,
) -> Imported:
    created = transcript.created_at
    stage = store.stage(target, created_at_us=None if created is None else times.to_us(created))
    try:
        inserted = 0
        for chain in grouped:
            written = store.append(stage, chain.messages, parent=chain.parent, kind="import")
            inserted += sum(item.inserted for item in written)
        _lay_on(store, stage, transcript, rules, at_us)
        _bring_in(store, stage, transcript, at_us)
        _describe(store, stage, transcript, at_us)
        store.publish(stage, target, active_at_us=_last_active(transcript, entries))
    except BaseException:
        with tidying(f"giving up an import into session {target.id!r}"):
            store.discard(stage)
        raise
    return Imported(target.id, True, inserted, 0)


def _bring_in(store: Store, ref: SessionRef, transcript: Transcript, at_us: int) -> None:
    """Write what stands beside the messages."""
    keeping.bring_in(store, ref, transcript, at_us)
    recording.bring_in(store, ref, transcript, at_us)


def _last_active(transcript: Transcript, entries: Dated) -> int | None:
    """When the session was last active where it comes from: listings and retention go by that."""
    said = transcript.active_at
    if said is None and entries.latest_us is None:
        said = transcript.created_at
    return entries.latest_us if said is None else times.to_us(said)


def _describe(store: Store, stage: SessionRef, transcript: Transcript, at_us: int) -> None:
    store.put_session(
        stage,
        created_at_us=at_us,
        create="ensure",
        name=transcript.name,
        owner=transcript.owner,
        pinned=transcript.pinned or None,
        parent_id=transcript.parent_id,
        metadata=transcript.metadata,
    )
    if transcript.state:
        store.update_state(stage, transcript.state, created_at_us=at_us)
    if transcript.leaf is not None:
        store.checkout(stage, transcript.leaf)


def _lay_on(store: Store, target: SessionRef, transcript: Transcript, rules: Rules, at_us: int) -> None:
    """Lay the transcript's overlays on its messages; it is told of those whose range cannot be had."""
    for brought in each(transcript, "overlays", OVERLAY):
        try:
            new = overlays.brought(brought, at_us, rules.counter)
            added = overlaying(store).add_overlay(target, new, leaf=new.to_id)
        except (ConflictError, NotFoundError, UsageError) as error:
            cast("Overlaid", transcript).unplaced(brought, str(error))
            continue
        if added.covered:
            cast("Overlaid", transcript).unplaced(brought, f"overlay {added.overlay.id!r} covers its range already")


def _into_existing(
    store: Merging, target: SessionRef, transcript: Transcript, grouped: Iterator[Chain]
) -> Imported:
    """Stage the messages that `target` lacks, then graft them on; it shows none of them before."""
    stage = store.stage_more(target, transcript.count)
    grafts: list[Graft] = []
    inserted = existing = 0
    try:
        for chain in grouped:
            known = store.existing(target, [message.id for message in chain.messages])
            existing += len(known)
            for part in chain.without(known):
                inserted += stage_part(store, stage, target, part, grafts)
        if inserted:
            store.merge(stage, target, grafts, transcript.leaf)
    finally:
        with tidying(f"giving up what was staged for session {target.id!r}"):
            store.discard(stage)  # nothing is left of it after a merge
    return Imported(target.id, False, inserted, existing)


def stage_part(
    store: Merging, stage: SessionRef, target: SessionRef, part: Chain, grafts: list[Graft]
) -> int:
    """Write messages that `target` lacks into `stage`, noting which of its messages they answer; answers how many."""
    parent = part.parent
    if parent is not None and store.existing(target, [parent]):
        grafts.append(Graft(part.messages[0].id, parent))
        parent = None
    written = store.append(stage, part.messages, parent=parent, kind="import")
    return sum(item.inserted for item in written)
