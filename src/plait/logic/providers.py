"""What stands behind a block of context: the methods that plait looks for, and what it makes of each.

Structural: nobody subclasses. What an object can do is told by which of these methods it has, and
every method may be a coroutine function or a plain one, in either face.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeAlias

Text: TypeAlias = Awaitable[str | None] | str | None
"""What a method answers: text or `None`, at once or to be awaited."""

Done: TypeAlias = Awaitable[object] | object
"""What a method answers whose answer nobody looks at."""


class ContextProvider(Protocol):
    """Where a block's text comes from; with `get` alone the block is read-only.

    A provider may have `init(label)` too: it is called before the first `get`, and before that of
    every refresh of the prompt, so that one object need not be told twice which block it serves.
    """

    def get(self) -> Text:
        """The text that stands in the prompt; `None` for none, which is not an empty text."""
        ...


class WritableProvider(ContextProvider, Protocol):
    """A block that the model may replace and add to (`set_context`)."""

    def set(self, content: str, /) -> Done:
        """Keep `content` in the place of what was there."""
        ...


class SearchableProvider(ContextProvider, Protocol):
    """A collection too large for the prompt, looked through by the model (`search_context`).

    Its `get` answers a line about it, such as `42 entries indexed.` With `set` (of
    `KeyedWriter`) the model may add entries.
    """

    def search(self, query: str, /) -> Text:
        """What is found, as the model is to read it; `None` for nothing. `query` is plain words."""
        ...


class SkillProvider(ContextProvider, Protocol):
    """Documents that the model loads one by one (`load_context`, `unload_context`).

    Its `get` lists them, a line `- key: description` each. With `set` (of `KeyedWriter`) the model
    may add documents.
    """

    def load(self, key: str, /) -> Text:
        """The whole document; `None` if there is none with this key."""
        ...


class KeyedWriter(Protocol):
    """How entries of a searchable provider, and documents of a skill provider, are written."""

    def set(self, key: str, content: str, description: str | None, /) -> Done:
        """Keep an entry, in the place of one with the same key; `description` is for the listing."""
        ...


class AgentSkillProvider(ContextProvider, Protocol):
    """Skills that the model activates by name (`activate_skill`, `read_skill_resource`).

    Its `get` is the catalogue. There is no unloading: what was activated stands in the transcript.
    """

    def skill_names(self) -> Awaitable[Sequence[str]] | Sequence[str]:
        """The names that `activate_skill` offers."""
        ...

    def activate(self, name: str, /) -> Text:
        """The skill as the model is to read it; `None` for an unknown name."""
        ...

    def read_resource(self, name: str | None, path: str, /) -> Text:
        """A file of a skill, as the model is to read it; without a name `path` is `skill/path`. `None` for none."""
        ...


def is_writable(provider: object) -> bool:
    """Whether the model may write to the block: `set` can be called."""
    return _has(provider, "set")


def is_searchable(provider: object) -> bool:
    """Whether the model may search the block: `search` can be called."""
    return _has(provider, "search")


def is_skill(provider: object) -> bool:
    """Whether the model may load documents of the block: `load` can be called."""
    return _has(provider, "load")


def is_keyed(provider: object) -> bool:
    """Whether what is written to the block goes under a key: it is searched, or loaded piece by piece."""
    return is_searchable(provider) or is_skill(provider)


def is_agent_skills(provider: object) -> bool:
    """Whether the block holds skills that are activated by name."""
    return _has(provider, "skill_names") and _has(provider, "activate") and _has(provider, "read_resource")


def _has(provider: object, method: str) -> bool:
    try:
        return callable(getattr(provider, method, None))
    except Exception:  # a property that fails: nothing that a model could use
        return False
