"""Where skills come from: a folder, a bucket, stored documents, a manifest in code, or anything with two methods."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias, cast

from plait.errors import UsageError
from plait.providers import places
from plait.providers.places import Place, Where

MAX_SKILL_BYTES: Final = 1 << 20
"""The largest `SKILL.md` and the largest resource that are read unless another limit is given."""

Files: TypeAlias = "Iterable[tuple[str, int | None]] | Iterable[str]"
"""Paths, each with its size in bytes if it is known."""


class SkillSource(Protocol):
    """Files of skills, `<skill>/SKILL.md` and what lies beside it; either method may be a coroutine function.

    What they raise is a diagnostic: the skills that were read from the source before stay.
    """

    @property
    def id(self) -> str:
        """What it is called in diagnostics."""
        ...

    def files(self) -> Files | Awaitable[Files]:
        """The path of every file, relative to the root of the skills, with its size if that is known."""
        ...

    def read(self, path: str, /) -> bytes | str | Awaitable[bytes | str | None] | None:
        """A file; `None` if it is absent."""
        ...


class PlaceSkills:
    """Skills in a folder or bucket; made by `skill_source`. Its methods block."""

    def __init__(self, place: Place, *, id: str | None = None, max_bytes: int = MAX_SKILL_BYTES) -> None:
        self._place = place
        self._max_bytes = max_bytes
        self.id = place.name if id is None else id

    def files(self) -> list[tuple[str, int | None]]:
        """Every file below the root; `NotFoundError` if the root is absent."""
        return [(entry.path, entry.size) for entry in self._place.entries().entries]

    def read(self, path: str) -> bytes | None:
        """A file; `LimitError` if it is too large."""
        return self._place.read(path, max_bytes=self._max_bytes)


class ManifestSkills:
    """Skills that stand in code: for each directory its `SKILL.md`, or its files by path."""

    def __init__(self, skills: Mapping[str, str | Mapping[str, str | bytes]], *, id: str = "manifest") -> None:
        self.id = id
        self._files: dict[str, str | bytes] = {}
        for directory, given in skills.items():
            files: Mapping[str, str | bytes] = {"SKILL.md": given} if isinstance(given, str) else given
            if not isinstance(files, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
                raise UsageError(f"the skill {directory!r} must be the text of its SKILL.md, or its files by path")
            for path, content in files.items():
                if not isinstance(content, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - likewise
                    raise UsageError(f"{directory}/{path} must be text or bytes, not {type(content).__name__}")
                self._files[f"{directory}/{path}"] = content

    def files(self) -> list[tuple[str, int | None]]:
        """Every file."""
        return [
            (path, len(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content))
            for path, content in self._files.items()
        ]

    def read(self, path: str) -> str | bytes | None:
        """A file."""
        return self._files.get(path)


class Documented(Protocol):
    """Documents by key, as `documents` makes them and stored ones are; either method may be a coroutine function."""

    def keys(self) -> Iterable[str] | Awaitable[Iterable[str]]:
        """The key of every document."""
        ...

    def load(self, key: str, /) -> str | Awaitable[str | None] | None:
        """A document."""
        ...


class DocumentSkills:
    """Skills kept as documents whose keys are paths: `pirate/SKILL.md`, `pirate/references/words.md`."""

    def __init__(self, documents: Documented, *, id: str | None = None) -> None:
        self.id = str(getattr(documents, "name", "documents")) if id is None else id
        # The documents' own methods, so that a coroutine function is seen to be one.
        self.files: Any = documents.keys
        self.read: Any = documents.load


def skill_source(
    where: Where | Mapping[str, Any] | Documented | SkillSource,
    *,
    prefix: str = "",
    id: str | None = None,
    max_bytes: int = MAX_SKILL_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> SkillSource:
    """A source of skills.

    A path, a URL or an fsspec file system (`prefix` is a folder in it) holds `<skill>/SKILL.md` and what belongs
    to it; a mapping is a manifest, `{"pirate": "---\\nname: pirate…"}` or `{"pirate": {"SKILL.md": …}}`; an object
    with `keys` and `load` holds documents with such paths as keys; one with `files` and `read` is a source already.
    `id` is what it is called in diagnostics. Larger files than `max_bytes` are not read.
    """
    if not isinstance(where, str | os.PathLike):
        if isinstance(where, Mapping):
            return ManifestSkills(cast("Mapping[str, Any]", where), id="manifest" if id is None else id)
        if _has(where, "files", "read"):
            return cast("SkillSource", where)
        if _has(where, "keys", "load"):
            return DocumentSkills(cast("Documented", where), id=id)
    place = places.find(cast("Any", where), prefix=prefix, storage_options=storage_options)
    return PlaceSkills(place, id=id, max_bytes=max_bytes)


def _has(value: object, *methods: str) -> bool:
    return all(callable(getattr(value, method, None)) for method in methods)
