"""Generated from src/plait/_async/context.py by tools/unasync.py: edit that file. A session's context as its user sees it: blocks to read, write, add, remove and bring back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from plait._sync.blocks import Blocks, ask, whole
from plait._sync.tools import keyed
from plait.errors import NotFoundError, UnsupportedError, UsageError
from plait.logic import arguments, blocks
from plait.logic.blocks import BlockKind, BlockSpec
from plait.logic.providers import ContextProvider
from plait.model import Block, Value
from plait.pauses import call

if TYPE_CHECKING:
    from plait._sync.stored import Values

HISTORY: Final = 100


class Context:
    """The blocks of one session: `Session.context`.

    Which blocks there are is kept by the handle, what they hold by their providers: the store,
    unless a provider of your own was given. A read answers what is there now. Writes never change
    the frozen prompt.
    """

    def __init__(self, declared: Blocks) -> None:
        self._blocks = declared

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self.labels())}>"

    def labels(self) -> list[str]:
        """The labels of the blocks, in the order in which they are rendered."""
        return [entry.spec.label for entry in self._blocks.entries()]

    def add(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: ContextProvider | None = None,
        kind: BlockKind = "text",
        shared: bool = False,
        remind: bool = False,
    ) -> Block:
        """Add a block and read it; the arguments are those of `Session.with_context`.

        `ConflictError` if there is one with this label. What its provider raises is raised, and the block is not there
        then. The frozen prompt stays as it is until it
        is refreshed.
        """
        spec = BlockSpec(label, description, max_tokens, provider, kind, shared, remind)
        entry = self._blocks.declare(spec, anew=True)
        try:
            return self._blocks.read(entry)
        except BaseException:  # also when it is cancelled
            self._blocks.withdraw(entry)
            raise

    def remove(self, label: str) -> bool:
        """Have this block no longer; what it holds stays where it is. `False` if there is none.

        The frozen prompt stays as it is until it is refreshed.
        """
        return self._blocks.remove(arguments.string("label", label))

    def block(self, label: str) -> Block | None:
        """The block as it is now, or `None` if there is none with this label."""
        entry = self._blocks.find(label)
        return None if entry is None else self._blocks.read(entry)

    def blocks(self) -> list[Block]:
        """All blocks as they are now, in the order in which they are rendered."""
        return [self._blocks.read(entry) for entry in self._blocks.entries()]

    def replace(self, label: str, content: str, *, expect_version: int | None = None) -> Block:
        """Write `content` in the place of what a block holds.

        With `expect_version` (a block's `version`) it is written only if nobody has written since:
        else `StaleValueError`, whose `current` says what stands there. `BlockTooLargeError` if that
        were more than `max_tokens`, unless it is less than before; nothing is ever cut. `UsageError`
        for a read-only block, and for one whose entries go under keys.
        """
        content = arguments.string("content", content)
        expect_version = arguments.maybe(arguments.number, "expect_version", expect_version)
        return self._blocks.change(self._blocks.writable(label), lambda _: content, expect=expect_version)

    def append(self, label: str, content: str) -> Block:
        """Add `content` to a block, on a line of its own.

        Whoever else writes meanwhile, in whichever process: of what the store keeps nothing is
        lost. Errors as of `replace`, and `CorruptError` if what it holds cannot be read whole any more.
        """
        content = arguments.string("content", content)
        return self._blocks.add(self._blocks.writable(label), content)

    def put(
        self,
        label: str,
        content: str,
        *,
        key: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> str:
        """Write an entry of a searchable block, or a document; answers the key it is kept under.

        That is `key`, or made of the title, so that the same title updates it, or of the content.
        `description` is what a listing says of it. `max_tokens` does not hold for entries.
        """
        entry = self._blocks.entry(label)
        if not entry.keyed or not entry.writable:
            raise UsageError(f"block {label!r} takes no entries: its provider has no set, or neither search nor load")
        content = arguments.string("content", content)
        title = arguments.maybe(arguments.string, "title", title)
        description = arguments.maybe(arguments.string, "description", description)
        key = keyed(content, title) if key is None else blocks.check_key(key)
        self._blocks.make_ready(entry)
        call(entry.provider.set, key, content, description)
        return key

    def entry(self, label: str, key: str) -> Value:
        """An entry of a block by its key, as it stands; without content if there is none, of version 0 if there never was.

        `UnsupportedError` if its provider is not the store, `UsageError` for a block without entries.
        """
        return self._entries(label).read(blocks.check_key(key))

    def entries(self, label: str, *, prefix: str = "", after: str = "", limit: int = HISTORY) -> list[Value]:
        """The next entries whose keys begin with `prefix`, in key order, those after a key if given; errors as of `entry`."""
        prefix, after = arguments.string("prefix", prefix), arguments.string("after", after)
        limit = arguments.number("limit", limit)
        return self._entries(label).page(prefix, after, limit) if limit else []

    def write_entry(
        self,
        label: str,
        key: str,
        content: str | None,
        *,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expect_version: int | None = None,
    ) -> Value:
        """Write an entry under a key, or delete it (`None`); answers the version that says so.

        With `expect_version` (an entry's `version`; 0 if there is to be none) it is written only if nobody
        has written since: else `StaleValueError`, whose `current` says what stands there. `metadata` is a
        JSON object of yours that is kept with the version. What stands there already makes no new version.
        Errors as of `entry`.
        """
        values, key = self._entries(label), blocks.check_key(key)
        content = arguments.maybe(arguments.string, "content", content)
        description = arguments.maybe(arguments.string, "description", description)
        metadata = arguments.maybe(arguments.mapping, "metadata", metadata)
        expect = arguments.maybe(arguments.number, "expect_version", expect_version)
        return values.write(key, content, description=description, metadata=metadata, expect=expect)

    def search(self, label: str, query: str) -> str | None:
        """What a searchable block finds for plain words, as a model reads it; `None` for nothing."""
        entry = self._blocks.entry(label)
        if not entry.searchable:
            raise UsageError(f"block {label!r} is not searchable: its provider has no search")
        query = arguments.string("query", query)
        self._blocks.make_ready(entry)
        return ask(entry.provider.search, query)

    def load(self, label: str, key: str) -> str | None:
        """A document of a block by its key; `None` if there is none."""
        entry = self._blocks.entry(label)
        if not entry.skill:
            raise UsageError(f"block {label!r} has no documents to load: its provider has no load")
        key = arguments.string("key", key)
        self._blocks.make_ready(entry)
        return ask(entry.provider.load, key)

    def history(
        self, label: str, *, key: str = "", before: int | None = None, limit: int = HISTORY
    ) -> list[Value]:
        """The versions of a block, or of an entry by its key, newest first, those before a version if given.

        `UnsupportedError` if its provider is not the store.
        """
        key = arguments.string("key", key)
        before = arguments.maybe(arguments.number, "before", before)
        return self._values(label).history(key, before=before, limit=arguments.number("limit", limit))

    def restore(self, label: str, version: int, *, key: str = "") -> Value:
        """Write what a version said once more, as a new version.

        `NotFoundError` if that version is not kept, `CorruptError` if a part of it is gone.

        Limits hold as for `replace`.
        """
        values, entry = self._values(label), self._blocks.entry(label)
        version, key = arguments.number("version", version, least=1), arguments.string("key", key)
        found = values.history(key, before=version + 1, limit=1)
        if not found or found[0].version != version:
            of = f"block {label!r}" + (f", key {key!r}" if key else "")
            raise NotFoundError(f"there is no version {version} of {of}; context.history lists those that are kept")
        old = found[0]
        whole(old)
        if entry.keyed:
            return values.write(key, old.content, description=old.description, metadata=old.metadata)
        self._blocks.change(entry, lambda _: old.content or "")
        return values.read()

    def _entries(self, label: str) -> Values:
        values = self._values(label)
        if not self._blocks.entry(label).keyed:
            raise UsageError(
                f"block {label!r} has no entries: it is one text; declare it as a collection or as documents"
            )
        return values

    def _values(self, label: str) -> Values:
        values = self._blocks.entry(label).values
        if values is None:
            raise UnsupportedError(f"block {label!r} has a provider of its own, which keeps no history here")
        return values
