"""Generated from src/plait/_async/prompting.py by tools/unasync.py: edit that file. The frozen prompt of a session: rendered once, kept, and the same until it is refreshed."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any, Final, NamedTuple

from plait._sync.blocks import Blocks, Entry, ask
from plait._sync.stored import Values
from plait.errors import StaleValueError, StoreUnavailableError, UsageError
from plait.logic import blocks, prompt, providers
from plait.logic.providers import WritableProvider
from plait.logic.shape import is_object
from plait.model import Change, Value
from plait.pauses import Mutex, aside, call
from plait.store.forks import LOCK

LARGE: Final = 1 << 18
"""From how many characters on a prompt is rendered beside the event loop."""
TRIES: Final = 100
"""How often a refresh is done anew when others refresh at the same time."""
NOTE: Final = "These blocks have changed since the system prompt was written. This is what they hold now:"


_OF_STORES: Final[weakref.WeakValueDictionary[int, Mutex]] = weakref.WeakValueDictionary()
"""The mutexes of the users' own stores by their ids; whoever holds one holds its store, too."""


class Rendered(NamedTuple):
    """A prompt as it was rendered, and the versions of the blocks in it; `None` if they are not known."""

    text: str
    versions: dict[str, int] | None


class Prompt:
    """The prompt of one session, as one handle keeps it."""

    def __init__(self, declared: Blocks) -> None:
        self._blocks = declared
        self._values: Values | None = None
        self._foreign: Any = None
        self._mutex = Mutex()
        self._untold: list[Change] = []
        """What listeners are told when nobody holds the mutex here: they may ask for the prompt."""
        self.frozen: str | None = None
        """What this handle froze or found last."""
        self._complete = False
        """Whether it is known of all blocks in `frozen` at which versions it shows them."""

    def keep_in(self, store: WritableProvider | None) -> None:
        """Keep the frozen prompt in the session, or in a provider of the user's own."""
        if store is None:
            self._values, self._foreign, self._mutex = self._kept(), None, Mutex()
            return
        blocks.check_provider("store", store, "get", "set")
        if providers.is_keyed(store):
            raise UsageError("store must keep one text: give an object with get() and set(content)")
        self._values, self._foreign, self._mutex = None, store, _mutex_of(store)

    def set_up_as(self, other: Prompt) -> None:
        """Keep the prompt where another handle of the session keeps it, and what that froze or found."""
        self.frozen, self._foreign, self._complete = other.frozen, other._foreign, other._complete
        self._mutex = Mutex() if other._foreign is None else other._mutex
        self._values = None if other._values is None else self._kept()

    def _kept(self) -> Values:
        return Values(self._blocks.place._replace(tell=self._later), blocks.PROMPT_LABEL)

    def _later(self, change: Change) -> None:
        self._untold.append(change)

    @property
    def is_used(self) -> bool:
        """Whether there is, or may be, a frozen prompt."""
        return self.frozen is not None or self._values is not None or self._foreign is not None

    def stored(self) -> str | None:
        """The prompt that is frozen now; `None` if none is."""
        if self._values is not None:
            value = self._values.read()
            if value.content is not None:
                self._found(value)
            return value.content
        if self._foreign is not None:
            text = ask(self._foreign.get)
            if text is not None and text != self.frozen:
                self.frozen, self._complete = text, False
        return self.frozen

    def _found(self, value: Value) -> None:
        """Take over what is stored; the model has then been shown the blocks at the versions noted with it."""
        noted = _noted_in(value)
        self.frozen, self._complete = value.content, noted is not None
        self._showed(noted or {})

    def seen(self, entry: Entry) -> int | None:
        """The version of a block that the model was shown last: 0 if the frozen prompt has none, `None` if unknown."""
        self.stored()  # another process may have shown it more
        if entry.seen is None and self._complete:
            entry.seen = 0
        return entry.seen

    def _showed(self, versions: dict[str, Any]) -> None:
        for entry in self._blocks.entries():
            version = versions.get(entry.spec.label)
            if isinstance(version, int):
                entry.seen = max(version, entry.seen or 0)

    def freeze(self) -> str:
        """The frozen prompt; rendered and kept if there is none, one and the same for all who ask at once."""
        found = self.stored()
        if found is not None:
            return found
        with self._mutex:
            found = self.stored()
            text = self._first() if found is None else found
        self._tell()
        return text

    def _tell(self) -> None:
        while True:
            try:
                change = self._untold.pop(0)
            except IndexError:  # also because another thread took the last
                return
            call(self._blocks.place.tell, change)

    def _first(self) -> str:
        rendered = self._render() if self.frozen is None else Rendered(self.frozen, self._shown())
        if self._values is not None:
            try:
                self._values.write("", rendered.text, expect=0, metadata=_noted(rendered.versions))
            except StaleValueError as error:  # somebody else was first
                if error.current is None or error.current.content is None:
                    raise
                self._found(error.current)
                return error.current.content
        elif self._foreign is not None:
            call(self._foreign.set, rendered.text)
        self._stands(rendered)
        return rendered.text

    def _shown(self) -> dict[str, int] | None:
        if not self._complete:
            return None
        return {entry.spec.label: entry.seen for entry in self._blocks.entries() if entry.seen is not None}

    def _stands(self, rendered: Rendered) -> None:
        self._showed(rendered.versions or {})
        self.frozen, self._complete = rendered.text, rendered.versions is not None

    def refresh(self) -> str:
        """Render anew from what all providers hold now, and keep that."""
        with self._mutex:
            text = self._anew()
        self._tell()
        return text

    def _anew(self) -> str:
        for _ in range(TRIES):
            found = None if self._values is None else self._values.read()
            self._blocks.reload()
            rendered = self._render()
            if self._keep(rendered, found):
                self._stands(rendered)
                return rendered.text
        raise StaleValueError("the prompt kept being refreshed by others; refresh it again")

    def _keep(self, rendered: Rendered, found: Value | None) -> bool:
        """Store a prompt in the place of the one found; `False` if another was stored meanwhile."""
        if self._values is None:
            if self._foreign is not None:
                call(self._foreign.set, rendered.text)
            return True
        assert found is not None
        try:
            self._values.write("", rendered.text, expect=found.version, metadata=_noted(rendered.versions))
        except StaleValueError:
            return False
        return True

    def _render(self) -> Rendered:
        entries = self._blocks.entries()
        found = [self._blocks.read(entry) for entry in entries]
        reminding = {entry.spec.label for entry in entries if entry.spec.remind}
        versions = {block.label: block.version for block in found if block.version is not None}
        large = sum(len(block.content) for block in found) > LARGE
        text = aside(lambda: prompt.render(found, always=reminding)) if large else None
        return Rendered(prompt.render(found, always=reminding) if text is None else text, versions)

    def show(self, versions: dict[str, int]) -> None:
        """Note that the model is shown these versions of blocks: here and, for other processes, with the stored prompt."""
        self._showed(versions)
        value = None if self._values is None else self._values.read()
        if self._values is None or value is None or value.content is None:
            return
        before = _noted_in(value) or {}
        after = {**before, **versions}
        if after == before:
            return
        with suppress(StaleValueError, StoreUnavailableError):  # refreshed meanwhile, or only readable
            self._values.write("", value.content, expect=value.version, metadata=_noted(after))
        self._tell()

    def reminder(self) -> str | None:
        """What the blocks to remind of hold now, of those that read otherwise in the frozen prompt."""
        frozen = self.stored()
        if frozen is None:
            return None
        known = set(prompt.sections(frozen))
        found = [self._blocks.read(entry) for entry in self._blocks.entries() if entry.spec.remind]
        changed = {section: block for block in found if (section := prompt.section(block)) not in known}
        if not changed:
            return None
        self.show({block.label: block.version for block in changed.values() if block.version is not None})
        return "\n\n".join([NOTE, *changed])

    def tokens(self) -> int:
        """What the frozen prompt costs; 0 if there is none, which is not rendered for this."""
        if self.frozen is None and self.is_used:
            self.stored()
        return blocks.count(self.frozen or "", self._blocks.place.counter())


def _noted(versions: dict[str, int] | None) -> dict[str, Any]:
    return {} if versions is None else {"versions": versions}


def _noted_in(value: Value) -> dict[str, Any] | None:
    """The versions that are noted with a stored prompt; `None` if none are."""
    versions = value.metadata.get("versions")
    return versions if is_object(versions) else None


def _mutex_of(store: object) -> Mutex:
    """One mutex for all who keep a prompt in the same store: its `get` and `set` cannot tell who was first."""
    with LOCK:
        mutex = _OF_STORES.get(id(store))
        if mutex is None:
            _OF_STORES[id(store)] = mutex = Mutex()
        return mutex
