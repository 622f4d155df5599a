"""Which blocks of context a command works with: those that the store holds, and those that are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import plait
from plait.cli import escape, failure
from plait.cli.failure import USAGE, Failure
from plait.cli.importing import imported
from plait.logic import ids
from plait.logic.blocks import BlockKind, check_label
from plait.store.protocol import Scope, SessionRef

if TYPE_CHECKING:
    from plait.providers.sources import Files

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Declared:
    """What the command line says of blocks: `LABEL` or `LABEL=DESCRIPTION` of each kind, sources of skills, a function."""

    texts: Sequence[str] = ()
    collections: Sequence[str] = ()
    documents: Sequence[str] = ()
    skills: Sequence[str] = ()
    function: str | None = None
    shared: bool = False

    @property
    def names_any(self) -> bool:
        """Whether any block is named at all."""
        return bool(self.texts or self.collections or self.documents or self.skills or self.function)

    def check(self) -> None:
        """Refuse what cannot be meant, before anything is opened or written: a block named twice, skills that are not there."""
        self._check_apart()
        if self.skills:
            _check_skills(self.skills)

    def onto(self, session: plait.Session) -> plait.Session:
        """Declare them on a handle, in this order: texts, collections, documents, skills, what the function does."""
        kinds: tuple[tuple[BlockKind, Sequence[str]], ...]
        kinds = (("text", self.texts), ("collection", self.collections), ("documents", self.documents))
        for kind, given in kinds:
            for one in given:
                label, _, description = one.partition("=")
                session.with_context(label, description=description or None, kind=kind, shared=self.shared)
        if self.skills:
            session.with_context("skills", provider=_skills(self.skills))
        if self.function is not None:
            self._declare_by_function(self.function, session)
        return session

    def _check_apart(self) -> None:
        """Refuse a label that is named twice: the second would take the first one's place."""
        labels = [one.partition("=")[0] for given in (self.texts, self.collections, self.documents) for one in given]
        labels += ["skills"] if self.skills else []
        for label in labels:
            if labels.count(label) > 1:
                raise Failure(f"block {escape.name(label)} is named twice; name each once, as one kind", USAGE)

    def _declare_by_function(self, name: str, session: plait.Session) -> None:
        function = imported(name)
        try:
            function(session)
        except plait.PlaitError:
            raise
        except Exception as error:
            raise Failure(f"{name} failed: {type(error).__name__}: {error}; it is called with the session") from error


def _skills(sources: Sequence[str]) -> plait.ContextProvider:
    from plait.providers import Skills  # an edge beside this one: only the command that needs it sees it

    return Skills(*sources)


def _check_skills(given: Sequence[str]) -> None:
    """Refuse a source that cannot be read, which a program may do without; say so of one that holds no skill."""
    from plait.providers import skill_source  # likewise

    for one in given:
        source = skill_source(one)
        try:
            files = [file if isinstance(file, str) else file[0] for file in cast("Files", source.files())]
        except Exception as error:
            raise Failure(
                f"--skills {escape.name(one)} cannot be read: {type(error).__name__}: {error};"
                " give a folder or URL with NAME/SKILL.md in it"
            ) from error
        if not any(file.endswith("/SKILL.md") and file.count("/") == 1 for file in files):
            failure.note(f"--skills {escape.name(one)} holds no skill: there is no NAME/SKILL.md in it")


def stored(sessions: plait.Sessions, id: str, *, deleted: bool = False) -> Iterator[tuple[str, str]]:
    """The labels and keys of what the store holds for a session, in order; nothing of plait's own."""
    names = getattr(sessions.store, "value_names", None)
    if names is None:
        raise Failure("this store keeps no blocks of context")
    ref, after = _ref(sessions, id), None
    while page := names(ref, after=after, limit=_PAGE):
        for label, key in page:
            if not label.startswith(ids.RESERVED_PREFIX) and (deleted or value(sessions, id, label, key) is not None):
                yield label, key
        after = page[-1]


def keys_of(sessions: plait.Sessions, id: str, label: str) -> Iterator[str]:
    """The keys under which a session has entries of a label."""
    names, ref, after = getattr(sessions.store, "value_names", None), _ref(sessions, id), (label, "")
    while page := names(ref, after=after, limit=_PAGE) if names is not None else ():
        for found, key in page:
            if found != label:
                return
            if value(sessions, id, label, key) is not None:
                yield key
        after = page[-1]


def value(sessions: plait.Sessions, id: str, label: str, key: str = "") -> plait.Value | None:
    """What the store holds under a label and a key of a session."""
    found: plait.Value | None = sessions.store.read_value(_ref(sessions, id), label, key)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    return found  # pyright: ignore[reportUnknownVariableType]


def texts_of(sessions: plait.Sessions, id: str) -> list[str]:
    """The labels of the blocks of one text that the store holds for a session."""
    return [label for label, key in stored(sessions, id) if not key and _is_label(label)]


def _is_label(label: str) -> bool:
    try:
        check_label(label)
    except plait.UsageError:
        return False
    return True


def _ref(sessions: plait.Sessions, id: str) -> SessionRef:
    return SessionRef(Scope(*sessions.scope), id)


def where(id: str, *, shared: bool) -> str:
    """Whose blocks are meant, as messages say it."""
    return "the scope's shared blocks" if shared else f"session {escape.name(id)}"


def one_kind(*given: bool) -> None:
    """Refuse options that exclude each other."""
    if sum(given) > 1:
        raise Failure("--shared and --session exclude each other", USAGE)
