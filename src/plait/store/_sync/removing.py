"""Generated from src/plait/store/_async/removing.py by tools/unasync.py: edit that file. Deleting very many messages: prepared, taken away at once, then removed, each in bounded transactions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from plait.diagnostics import tidying
from plait.store.driver import Driver
from plait.store.plans import change, removal
from plait.store.plans.common import Mark
from plait.store.protocol import SessionRef

TRIES = 3
"""How often what changes meanwhile is prepared anew, before it is all done in one transaction."""


def delete(driver: Driver, session: SessionRef, ids: Sequence[str], mark: Mark) -> list[str]:
    """Delete messages, all at once for whoever reads, without keeping other writers waiting."""
    for _ in range(TRIES):
        doomed = driver.read(partial(removal.find, session, ids))
        if doomed is None or not doomed.keys:
            return []
        if len(doomed.keys) <= removal.ROWS and doomed.bytes_upto[-1] <= change.PURGE_BYTES:
            break
        if _staged(driver, session, doomed, mark):
            return list(doomed.keys)
    return driver.write(partial(change.delete, session, ids, mark)) or []


def _staged(driver: Driver, session: SessionRef, doomed: removal.Doomed, mark: Mark) -> bool:
    """Whether it worked; not if somebody changed one of the messages meanwhile."""
    number = driver.write(partial(removal.begin, session, mark))
    if number is None:
        return False
    try:
        return _noted(driver, number, doomed) and driver.write(
            partial(removal.take_away, session, number, doomed, mark)
        )
    finally:
        with tidying(f"removing the rows of a big delete in session {session.id!r}"):
            purge(driver, number)


def _noted(driver: Driver, number: int, doomed: removal.Doomed) -> bool:
    """Note what is to be deleted; `False` if that was given up meanwhile."""
    for start in range(0, len(doomed.runs), removal.PART):
        if not driver.write(partial(removal.note, number, doomed.runs[start : start + removal.PART])):
            return False
    return True


def purge(driver: Driver, number: int) -> None:
    """Remove what a big delete has taken away, or what it has noted if it was given up."""
    while driver.write(partial(removal.purge_step, number, removal.PART)):
        pass
