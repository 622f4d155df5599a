"""Generated from src/plait/_async/blocks.py by tools/unasync.py: edit that file. The blocks of a session: which were declared, reading and writing what stands behind them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from plait._sync.stored import StoredBlock, StoredCollection, StoredDocuments, Values, Place
from plait.errors import ConflictError, CorruptError, NotFoundError, StaleValueError, UnsupportedError, UsageError
from plait.logic import arguments, blocks, ids, providers
from plait.logic.blocks import BlockSpec
from plait.model import Block, Value
from plait.pauses import Mutex, call
from plait.store.forks import LOCK
from plait.store.protocol import SessionRef

STORED: Final = {"text": StoredBlock, "collection": StoredCollection, "documents": StoredDocuments}
Noting = Callable[[Value], Mapping[str, Any]]
_KINDS: Final = (StoredBlock, StoredCollection, StoredDocuments)


class Entry:
    """A block that was declared, and its provider once that is needed."""

    def __init__(self, spec: BlockSpec, place: Place) -> None:
        self.spec = spec
        self.provider: Any = spec.provider
        if self.provider is None:
            self.provider = STORED[spec.kind](place, spec.label)
        self.ready = False
        self.mutex = Mutex()
        """One of its own: what a provider does with other blocks meanwhile is not to wait for itself."""
        self.seen: int | None = None
        """The version that a model was shown last, by the prompt or by its own write; `None` if none was."""

    @property
    def writable(self) -> bool:
        return providers.is_writable(self.provider)

    @property
    def searchable(self) -> bool:
        return providers.is_searchable(self.provider)

    @property
    def skill(self) -> bool:
        return providers.is_skill(self.provider)

    @property
    def keyed(self) -> bool:
        return self.searchable or self.skill

    @property
    def values(self) -> Values | None:
        """What the store keeps of it; `None` with a provider of somebody else's."""
        return self.provider.values if isinstance(self.provider, _KINDS) else None


class Blocks:
    """The blocks of one session, as one handle declares them.

    Nothing is read before it is needed, and nothing is kept in between: a read answers what is
    there now.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._entries: dict[str, Entry] = {}

    # -- which there are -------------------------------------------------------

    def declare(self, spec: BlockSpec, *, anew: bool = False) -> Entry:
        """Have this block, in the place of one with the same label; `anew`: `ConflictError` if there is one."""
        entry = Entry(blocks.checked(spec), self._where(spec))
        with LOCK:
            before = self._entries.get(spec.label)
            if anew and before is not None:
                raise ConflictError(
                    f"there is a block {spec.label!r} already; remove it first, or choose another label"
                )
            blocks.check_apart(spec, (other.spec for other in self._entries.values() if other is not before))
            if before is not None:
                entry.seen, entry.mutex = before.seen, before.mutex
            self._entries[spec.label] = entry
        return entry

    def _where(self, spec: BlockSpec) -> Place:
        if not spec.shared:
            return self.place
        return self.place._replace(ref=SessionRef(self.place.ref.scope, ids.SHARED_SESSION))

    def remove(self, label: str) -> bool:
        """Have this block no longer; `False` if there is none."""
        return self._entries.pop(label, None) is not None

    def withdraw(self, entry: Entry) -> None:
        """Have this block no longer, unless another one was put in its place meanwhile."""
        with LOCK:
            if self._entries.get(entry.spec.label) is entry:
                del self._entries[entry.spec.label]

    def entries(self) -> list[Entry]:
        """What was declared, in the order in which it is rendered."""
        return list(self._entries.values())

    def find(self, label: object) -> Entry | None:
        """What was declared under a label."""
        return self._entries.get(arguments.string("label", label))

    def entry(self, label: object) -> Entry:
        """What was declared under a label; `NotFoundError` if nothing was."""
        found = self.find(label)
        if found is None:
            known = ", ".join(map(repr, self._entries)) or "none"
            raise NotFoundError(
                f"there is no block {arguments.shown(label)} in this session's context (there are: {known})"
            )
        return found

    # -- reading ---------------------------------------------------------------

    def read(self, entry: Entry) -> Block:
        """What a block holds now."""
        self.make_ready(entry)
        values = entry.values
        if values is not None and not entry.keyed:
            value = values.read()
            return self._block(entry, value.content, value.version)
        return self._block(entry, ask(entry.provider.get), None)

    def _block(self, entry: Entry, content: str | None, version: int | None) -> Block:
        spec, text = entry.spec, content or ""
        return Block(
            spec.label,
            text,
            blocks.count(text, self.place.counter()),
            description=spec.description,
            max_tokens=spec.max_tokens,
            writable=entry.writable,
            is_skill=entry.skill,
            is_searchable=entry.searchable,
            version=version,
        )

    def make_ready(self, entry: Entry) -> None:
        """Tell a provider its label, once per load and before anything else is asked of it."""
        if entry.ready:
            return
        with entry.mutex:
            self._begin(entry)

    def _begin(self, entry: Entry) -> None:
        if entry.ready:  # somebody else was waiting for the same
            return
        begin = getattr(entry.provider, "init", None)
        if callable(begin):
            call(begin, entry.spec.label)
        entry.ready = True

    def reload(self) -> None:
        """Let every provider be told its label again before it is read next."""
        for entry in self.entries():
            entry.ready = False

    # -- writing ---------------------------------------------------------------

    def writable(self, label: object) -> Entry:
        """The block under a label, if it is one text that can be written; `UsageError` if not."""
        entry = self.entry(label)
        if not entry.writable:
            raise UsageError(f"block {label!r} is readonly: its provider has no set")
        if entry.keyed:
            raise UsageError(f"block {label!r} holds entries under keys; write them with context.put")
        return entry

    def change(
        self,
        entry: Entry,
        make: Callable[[str], str],
        *,
        expect: int | None = None,
        metadata: Noting | None = None,
        check: Callable[[Value], Awaitable[None] | None] | None = None,
    ) -> Block:
        """Read, make the new text, see that it fits, write if nobody has written meanwhile, else once more.

        `check` is given what stands there; what it raises ends it. `metadata` makes of that what is noted with the new.
        """
        self.make_ready(entry)
        values = entry.values
        if values is None:
            if expect is not None:
                raise UnsupportedError(f"block {entry.spec.label!r} keeps no versions: leave expect_version out")
            return self._change_foreign(entry, make)
        while True:
            value = values.read()
            if expect is not None and expect != value.version:
                raise stale(value, f"is at version {value.version}, not {expect}")
            if check is not None:
                call(check, value)
            before = value.content or ""
            after = make(before)
            self._check_fits(entry, before, after)
            if after == before and value.content is not None and not value.damaged:
                return self._block(entry, after, value.version)
            try:
                written = values.write("", after, expect=value.version, metadata=metadata and metadata(value))
            except StaleValueError:
                continue
            return self._block(entry, after, written.version)

    def add(self, entry: Entry, content: str, *, metadata: Noting | None = None) -> Block:
        """Put `content` after what a block says; `CorruptError` if that cannot be read whole any more."""
        return self.change(entry, lambda before: blocks.joined(before, content), metadata=metadata, check=whole)

    def _change_foreign(self, entry: Entry, make: Callable[[str], str]) -> Block:
        """The same with a provider that has no versions: one at a time in this handle."""
        with entry.mutex:
            before = ask(entry.provider.get) or ""
            after = make(before)
            self._check_fits(entry, before, after)
            call(entry.provider.set, after)
        return self._block(entry, after, None)

    def _check_fits(self, entry: Entry, before: str, after: str) -> None:
        counter = self.place.counter()
        sizes = blocks.count(before, counter), blocks.count(after, counter)
        blocks.check_fits(entry.spec.label, before, *sizes, entry.spec.max_tokens)


def ask(function: Any, *given: object) -> str | None:
    """What a provider's method answers, which is text or nothing."""
    answer = call(function, *given)
    if answer is not None and not isinstance(answer, str):
        name = getattr(function, "__qualname__", "a provider's method")
        raise UsageError(f"{name} answered {type(answer).__name__}; a provider answers text or None")
    return answer


def whole(value: Value) -> None:
    """Refuse to go on from a value of which a part is gone."""
    if value.damaged:
        raise CorruptError(
            f"version {value.version} of block {value.label!r} is damaged: a part of it is gone, and nothing was written; "
            "restore an earlier version, or replace it"
        )


def stale(value: Value, why: str) -> StaleValueError:
    """The refusal of a write that goes by an older version than the one that stands there."""
    cause = "somebody has written it since" if value.version else "it was never written"
    return StaleValueError(
        f"block {value.label!r} {why}: {cause}; nothing was written. Read it again. "
        f"Current content:\n{value.content or ''}",
        current=value,
    )
