"""The providers that keep their text in the store: a block, a searchable collection, documents by key."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from plait import times
from plait.errors import UnsupportedError, UsageError
from plait.logic import blocks, prompt
from plait.logic.estimate import Counter
from plait.model import Change, Value, ValueHit
from plait.pauses import call_async
from plait.store._async.abilities import contextual
from plait.store.protocol import SessionRef, ValueStat

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from plait.store._async.port import AsyncStore

FOUND: Final = 10
"""How many entries a search of a collection shows."""
PAGE: Final = 200


class Place(NamedTuple):
    """Where a handle keeps its values, and what it needs to write them."""

    store: AsyncStore
    ref: SessionRef
    counter: Callable[[], Counter | None]
    tell: Callable[[Change], Awaitable[None] | None]
    now_us: Callable[[], int]
    new_id: Callable[[], str]


class AsyncValues:
    """The values under one label, each write told to the listeners."""

    def __init__(self, place: Place, label: str) -> None:
        self.place = place
        self.label = label

    async def read(self, key: str = "") -> Value:
        """The value; one without content and of version 0 where there is none."""
        found = await contextual(self.place.store).read_value(self.place.ref, self.label, key)
        return self._absent(key) if found is None else found

    def _absent(self, key: str) -> Value:
        return Value(self.label, key, None, None, 0, 0, times.from_us(0), {})

    async def write(
        self,
        key: str,
        content: str | None,
        *,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expect: int | None = None,
    ) -> Value:
        """Write it, and tell the listeners; `StaleValueError` if another version than `expect` stands there."""
        place = self.place
        written = await contextual(place.store).write_value(
            place.ref,
            self.label,
            key,
            content,
            description=description,
            metadata=metadata,
            tokens=0 if content is None else blocks.count(content, place.counter()),
            expect=expect,
            operation=place.new_id(),
            created_at_us=place.now_us(),
        )
        if written.version != expect:
            told = Change("context", place.ref.id, removed=content is None, label=self.label, key=key)
            await call_async(place.tell, replace(told, value_version=written.version))
        return written

    async def history(self, key: str, *, before: int | None, limit: int) -> list[Value]:
        """Its versions, newest first."""
        store = contextual(self.place.store)
        return await store.value_history(self.place.ref, self.label, key, before=before, limit=limit)

    async def search(self, query: str, *, limit: int) -> list[ValueHit]:
        """The values that hold all words of a query, best first."""
        search: Any = getattr(self.place.store, "search_values", None)
        if search is None:
            raise UnsupportedError("this store cannot search the entries of a block; give it a provider of your own")
        found: list[ValueHit] = await search(self.place.ref, self.label, query, limit=limit)
        return found

    async def count(self) -> int:
        """How many there are under keys, none of them read."""
        count = await contextual(self.place.store).count_values(self.place.ref, self.label)
        return count - ((await self.read()).content is not None) if count else 0

    async def stats(self) -> AsyncIterator[ValueStat]:
        """All values under keys without their content, in key order, a page at a time."""
        after = ""
        while page := await contextual(self.place.store).value_stats(self.place.ref, self.label, after=after):
            for stat in page:
                yield stat
            after = page[-1].key

    async def page(self, prefix: str, after: str, limit: int) -> list[Value]:
        """The next values under keys, in key order."""
        store = contextual(self.place.store)
        return await store.values(self.place.ref, self.label, after=after, limit=limit, prefix=prefix)

    async def all(self, prefix: str = "") -> AsyncIterator[Value]:
        """All values under keys, in key order, a page at a time; not a text that was a block under this label once."""
        after = ""
        while page := await self.page(prefix, after, PAGE):
            for value in page:
                yield value
            after = page[-1].key


class AsyncStoredBlock:
    """One text."""

    def __init__(self, place: Place, label: str) -> None:
        self.values = AsyncValues(place, label)

    async def get(self) -> str | None:
        """The text."""
        return (await self.values.read()).content

    async def set(self, content: str, /) -> None:
        """Replace the text."""
        await self.values.write("", content)


class AsyncStoredDocuments:
    """Documents under keys, which the model loads one by one."""

    def __init__(self, place: Place, label: str) -> None:
        self.values = AsyncValues(place, label)

    async def get(self) -> str | None:
        """A line for each document; `None` if there are none."""
        lines = [listed(stat.key, stat.description) async for stat in self.values.stats()]
        return "\n".join(lines) or None

    async def load(self, key: str, /) -> str | None:
        """The document; a key that nothing can have is one that nothing has."""
        try:
            blocks.check_key(key)
        except UsageError:
            return None
        return (await self.values.read(key)).content

    async def set(self, key: str, content: str, description: str | None, /) -> None:
        """Write a document; without a description it keeps the one it had."""
        await _put(self.values, key, content, description)


class AsyncStoredCollection:
    """Entries under keys, which the model searches by their words."""

    def __init__(self, place: Place, label: str) -> None:
        self.values = AsyncValues(place, label)

    async def get(self) -> str | None:
        """How many entries there are; `None` if none."""
        count = await self.values.count()
        return f"{count} entries indexed." if count else None

    async def search(self, query: str, /) -> str | None:
        """The entries that hold all words of `query`, best first; `None` if none does."""
        hits = [hit for hit in await self.values.search(query, limit=FOUND + 1) if hit.value.key][:FOUND]
        return "\n\n".join(shown(hit.value.key, hit.value.content or "") for hit in hits) or None

    async def set(self, key: str, content: str, description: str | None, /) -> None:
        """Write an entry."""
        await _put(self.values, key, content, description)


async def _put(values: AsyncValues, key: str, content: str, description: str | None) -> None:
    if description is None:
        description = (await values.read(key)).description
    await values.write(blocks.check_key(key), content, description=description)


_BREAK: Final = "\n\r\x85\u2028\u2029"
_QUOTED: Final = re.compile(
    rf"(?:(?<=[{_BREAK}])|\A)(?=[^\S{_BREAK}]*(?:> )*[^\S{_BREAK}]*\[[^{_BREAK}\]]*\][^\S{_BREAK}]*(?:[{_BREAK}]|\Z))"
)


def shown(key: str, content: str) -> str:
    """An entry as a search shows it; a line of its content that reads as another entry's key is quoted."""
    return f"[{prompt.one_line(key)}]\n{_QUOTED.sub(prompt.MARK, prompt.defused(content))}"


def listed(key: str, description: str | None) -> str:
    """A document's line in a listing: one line, whatever it is called."""
    line = f"- {prompt.one_line(key)}"
    return f"{line}: {prompt.one_line(description)}" if description and description.strip() else line
