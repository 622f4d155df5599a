"""Generated from src/plait/_async/managing.py by tools/unasync.py: edit that file. What the catalogue notes of a session's running: what it used, whether it has ended, and what goes on from it.

It is kept in the session's metadata, under keys of plait's own, so that copies and listings have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Callable
from typing import Final

from plait import times
from plait._sync.keeping import bring_in
from plait.diagnostics import tidying
from plait.logic.prepare import Given, Rules, prepare
from plait.model import COMPACTION_KEY, ENDED_KEY, USAGE_KEY, Json, SessionInfo, Value, assistant
from plait.store._sync.abilities import contextual
from plait.store._sync.port import Store
from plait.store.protocol import SessionRef

OF_ITS_OWN: Final = (COMPACTION_KEY, ENDED_KEY, USAGE_KEY)
"""What is noted of one session and does not go on with another."""

SUMMARY_LABEL: Final = "Summary of the earlier conversation:"
"""The first line of the message that a session begins with which goes on from another one."""


def go_on(
    store: Store,
    old: SessionRef,
    info: SessionInfo,
    target: SessionRef,
    summary: str,
    name: str | None,
    *,
    rules: Rules,
    now_us: Callable[[], int],
    new_id: Callable[[], str],
) -> None:
    """End a session and make one that begins with a summary of it, with what stands beside its messages, both at once."""
    at_us = now_us()
    first = assistant(f"{SUMMARY_LABEL}\n\n{summary}", id=new_id())
    message = prepare(first, Given(new_id(), at_us, None, None, "server"), rules)
    metadata = {key: value for key, value in info.metadata.items() if key not in OF_ITS_OWN}
    stage = store.stage(target)
    try:
        store.append(stage, [message], parent=None)
        store.put_session(
            stage,
            created_at_us=at_us,
            create="ensure",
            name=name or info.name or "Compacted",
            owner=info.owner,
            parent_id=info.id,
            metadata=metadata,
        )
        bring_in(store, stage, _Carried([value for value in _current(store, old)]), at_us)
        store.publish(stage, target, note=(old, ended("compaction", times.from_us(at_us).isoformat())))
    except BaseException:
        with tidying(f"giving up what was to go on from session {old.id!r}"):
            store.discard(stage)
        raise


class _Carried:
    """The values that go along, as an import is given them."""

    def __init__(self, values: list[Value]) -> None:
        self.values = values

    def unkept(self, value: Value, reason: str) -> None:
        raise AssertionError(f"{value.label!r} was kept, and cannot be kept again: {reason}")


def _current(store: Store, ref: SessionRef) -> Iterator[Value]:
    """What each value of a session says now."""
    if not callable(getattr(store, "value_names", None)):
        return
    after: tuple[str, str | None] | None = None
    while names := contextual(store).value_names(ref, after=after):
        for label, key in names:
            value = contextual(store).read_value(ref, label, key)
            if value is not None:
                yield value
        after = names[-1]


def ended(reason: str | None, at: str) -> Json:
    """What is noted of the end of a session; `None` takes the note away."""
    return {ENDED_KEY: None if reason is None else {"reason": reason, "at": at}}
