"""Deleting very many messages: prepared, taken away at once, then removed, each in bounded transactions."""

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


async def delete(driver: Driver, session: SessionRef, ids: Sequence[str], mark: Mark) -> list[str]:
    """Delete messages, all at once for whoever reads, without keeping other writers waiting."""
    for _ in range(TRIES):
        doomed = await driver.read_async(partial(removal.find, session, ids))
        if doomed is None or not doomed.keys:
            return []
        if len(doomed.keys) <= removal.ROWS and doomed.bytes_upto[-1] <= change.PURGE_BYTES:
            break
        if await _staged(driver, session, doomed, mark):
            return list(doomed.keys)
    return await driver.write_async(partial(change.delete, session, ids, mark)) or []


async def _staged(driver: Driver, session: SessionRef, doomed: removal.Doomed, mark: Mark) -> bool:
    """Whether it worked; not if somebody changed one of the messages meanwhile."""
    number = await driver.write_async(partial(removal.begin, session, mark))
    if number is None:
        return False
    try:
        return await _noted(driver, number, doomed) and await driver.write_async(
            partial(removal.take_away, session, number, doomed, mark)
        )
    finally:
        with tidying(f"removing the rows of a big delete in session {session.id!r}"):
            await purge(driver, number)


async def _noted(driver: Driver, number: int, doomed: removal.Doomed) -> bool:
    """Note what is to be deleted; `False` if that was given up meanwhile."""
    for start in range(0, len(doomed.runs), removal.PART):
        if not await driver.write_async(partial(removal.note, number, doomed.runs[start : start + removal.PART])):
            return False
    return True


async def purge(driver: Driver, number: int) -> None:
    """Remove what a big delete has taken away, or what it has noted if it was given up."""
    while await driver.write_async(partial(removal.purge_step, number, removal.PART)):
        pass
