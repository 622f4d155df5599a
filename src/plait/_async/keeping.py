"""The named values of a session as a whole: going through all that is kept, and bringing in what was."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

from plait import times
from plait.errors import PlaitError, StoreError
from plait.logic.chains import VALUE, KeptValue, Valued, each
from plait.model import Value
from plait.pauses import pause_async
from plait.store._async.abilities import contextual
from plait.store._async.port import AsyncContextual, AsyncStore
from plait.store.protocol import SessionRef

PAGE = 100


async def versions(store: AsyncStore, ref: SessionRef) -> AsyncIterator[Value]:
    """Every version that is kept of every value, by label and key, the oldest first; none where a store has none."""
    if not callable(getattr(store, "value_names", None)):
        return
    keeping = contextual(store)
    after: tuple[str, str | None] | None = None
    while names := await keeping.value_names(ref, after=after, limit=PAGE):
        for label, key in names:
            async for value in _oldest_first(keeping, ref, label, key):
                yield value
        after = names[-1]
        await pause_async()


async def _oldest_first(keeping: AsyncContextual, ref: SessionRef, label: str, key: str) -> AsyncIterator[Value]:
    """The versions of a value, each read by itself: one is held at a time, however long they are."""
    last, before = 0, None
    numbers: list[int] = []
    while page := await keeping.value_history(ref, label, key, before=before, limit=1):
        before = page[0].version
        numbers.append(before)
    for number in reversed(numbers):
        for value in await keeping.value_history(ref, label, key, before=number + 1, limit=1):
            if value.version > last:  # another may have been pruned meanwhile
                last = value.version
                yield value


async def bring_in(store: AsyncStore, ref: SessionRef, transcript: object, at_us: int) -> None:
    """Write the values that a transcript brings after those that are there already; see `Bringing`."""
    brought: Iterable[KeptValue] = each(transcript, "values", VALUE)
    bringing: Bringing | None = None
    for value in brought:
        if not callable(getattr(store, "write_value", None)):
            cast("Valued", transcript).unkept(value, "this store keeps no values")
            continue
        bringing = bringing or Bringing(contextual(store), ref, at_us)
        error = await bringing.take(value)
        if error is not None:
            cast("Valued", transcript).unkept(value, str(error))


class Bringing:
    """Writing versions of values, each value's together and oldest first, after those that are there already.

    A value that goes on from the newest version there gets the further ones; one that says something
    else is left as it is.
    """

    def __init__(self, keeping: AsyncContextual, ref: SessionRef, at_us: int) -> None:
        self._keeping = keeping
        self._ref = ref
        self._at_us = at_us
        self._name: tuple[str, str] | None = None
        self._newest: Value | None = None
        self._going_on = True

    async def take(self, value: KeptValue) -> PlaitError | None:
        """Write one version if it goes on; answers why it could not be kept."""
        if self._name != (value.label, value.key):
            self._name = (value.label, value.key)
            found = await self._keeping.value_history(self._ref, *self._name, limit=1)
            self._newest, self._going_on = (found[0], False) if found else (None, True)
        if self._going_on:
            return await self._write(value)
        self._going_on = self._newest is not None and _is_that(self._newest, value)
        return None

    async def _write(self, value: KeptValue) -> PlaitError | None:
        about: dict[str, Any] = {"description": value.description, "metadata": value.metadata}
        at = self._at_us if value.written_at is None else times.to_us(value.written_at)
        size = len((value.content or "").encode("utf-8", "replace"))
        try:
            await self._keeping.write_value(
                self._ref,
                value.label,
                value.key,
                value.content,
                **about,
                tokens=size // 4 if value.tokens is None else value.tokens,
                operation=os.urandom(8).hex(),
                created_at_us=at,
                least_version=value.version,
            )
        except StoreError:  # it says nothing of the value: a full disk, a lock
            raise
        except PlaitError as error:
            return error
        return None


def _is_that(newest: Value, value: KeptValue) -> bool:
    """Whether a brought version is the newest one there."""
    same = (newest.content, newest.description, newest.metadata) == (value.content, value.description, value.metadata)
    return same and value.written_at in (None, newest.written_at)
