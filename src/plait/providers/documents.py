"""Documents by key that a model loads one by one, and texts by path, from a folder or a bucket."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, overload

from plait.errors import NotFoundError, UsageError
from plait.providers import places
from plait.providers.paths import check_path, is_ignored, one_line, path_problem
from plait.providers.places import Place, Where

MAX_BYTES: Final = 16 << 20
"""The largest document that is loaded unless another limit is given."""


class Documents:
    """Keyed documents as a block: `get` lists them for the prompt, `load` reads one.

    A key is the path below the root. The listing is a line `- key: description` each, in key order, `None` without
    any. With `keys` only these are listed and loaded. Files that no key can name, links and hidden folders
    (`.git`, `node_modules`) are left out; `problems` says which of them the last listing met, and why.

    All methods block: the face of asyncio calls them in a thread.
    """

    def __init__(self, place: Place, *, keys: Iterable[str] = (), max_bytes: int = MAX_BYTES) -> None:
        if isinstance(keys, str):
            raise UsageError("keys must be some keys, not one text: write keys=['a.md']")
        self._place = place
        self._only = frozenset(keys)
        self._max_bytes = max_bytes
        self.problems: tuple[str, ...] = ()
        """What the last listing left out, and why."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self._place.name}>"

    @property
    def name(self) -> str:
        """Where they are."""
        return self._place.name

    def keys(self) -> list[str]:
        """The keys of all documents, sorted; none if the root is absent."""
        try:
            listing = self._place.entries()
        except NotFoundError:
            self.problems = ()
            return []
        self.problems = tuple(f"{path!r} was left out: {reason}" for path, reason in listing.left_out)
        return [entry.path for entry in listing.entries if self._may(entry.path)]

    def get(self) -> str | None:
        """The listing."""
        keys = self.keys()
        described = self._place.descriptions(keys) if keys else {}
        return "\n".join(_line(key, described.get(key)) for key in keys) or None

    def load(self, key: str) -> str | None:
        """A document; `None` if there is none with this key or it is not among `keys`; `LimitError` if too large."""
        if path_problem(key) or not self._may(key):
            return None
        data = self._place.read(key, max_bytes=self._max_bytes)
        return None if data is None else decoded(data)

    def _may(self, key: str) -> bool:
        return not self._only or key in self._only


class WritableDocuments(Documents):
    """The same, where `set` writes: a model may add and replace documents.

    `keys` limits what is listed and loaded, not what is written.
    """

    def set(self, key: str, content: str, description: str | None = None) -> None:
        """Keep a document whole, in the place of one with the same key; its description goes with it.

        Raises `UsageError` for a key that cannot be used, before anything is written.
        """
        check_path(key)
        if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise UsageError(f"content must be text, not {type(content).__name__}")
        shown = one_line(description) if description else None
        self._place.write(key, encoded(content), description=shown or None)


class TextFile:
    """One file as a read-only block; `get` answers its text, `None` if it is absent."""

    def __init__(self, place: Place, path: str, *, max_bytes: int = MAX_BYTES) -> None:
        check_path(path, "the file's name")
        if is_ignored(path):
            raise UsageError(f"{path!r} is never read: .git, node_modules and .DS_Store are left out")
        self._place = place
        self._path = path
        self._max_bytes = max_bytes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path} in {self._place.name}>"

    def get(self) -> str | None:
        """The text; `LimitError` if the file is too large."""
        data = self._place.read(self._path, max_bytes=self._max_bytes)
        return None if data is None else decoded(data)


class WritableTextFile(TextFile):
    """One file as a block that the model may write."""

    def set(self, content: str) -> None:
        """Put the text in the place of what was there, as a whole."""
        if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise UsageError(f"content must be text, not {type(content).__name__}")
        self._place.write(self._path, encoded(content), description=None)


@overload
def documents(
    where: Where,
    *,
    prefix: str = "",
    keys: Iterable[str] = (),
    read_only: Literal[False] = False,
    max_bytes: int = MAX_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> WritableDocuments: ...


@overload
def documents(
    where: Where,
    *,
    prefix: str = "",
    keys: Iterable[str] = (),
    read_only: bool,
    max_bytes: int = MAX_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> Documents: ...


def documents(
    where: Where,
    *,
    prefix: str = "",
    keys: Iterable[str] = (),
    read_only: bool = False,
    max_bytes: int = MAX_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> Documents:
    """Keyed documents in a folder or a bucket, as a block whose documents the model loads one by one.

    `where` is a path, a URL that fsspec knows (`s3://bucket/notes`, `memory://notes`) or an fsspec file system;
    `prefix` a folder in it. `keys` (relative to the prefix) limits what is listed and loaded; none means all.
    With `read_only` the model gets no way to write. `storage_options` go to fsspec with a URL.
    """
    place = places.find(where, prefix=prefix, storage_options=storage_options)
    kind = Documents if read_only else WritableDocuments
    return kind(place, keys=keys, max_bytes=max_bytes)


def text_file(
    where: str | os.PathLike[str],
    *,
    read_only: bool = True,
    max_bytes: int = MAX_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> TextFile:
    """One file as the text of a block: `text_file("SOUL.md")`, `text_file("s3://bucket/soul.md")`.

    Read-only unless told otherwise. The folder it lies in may be a link, the file itself may not.
    """
    folder, _, name = os.fspath(where).replace(os.sep, "/").rpartition("/")
    if not folder:
        folder = "/" if os.fspath(where).startswith(("/", os.sep)) else "."
    place = places.find(folder, storage_options=storage_options)
    return (TextFile if read_only else WritableTextFile)(place, name, max_bytes=max_bytes)


def encoded(text: str) -> bytes:
    """Text as bytes; lone surrogates, which UTF-8 has no form for, in the form it would have."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """The text that `encoded` made these bytes of; bytes that are no text come as U+FFFD."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _line(key: str, description: str | None) -> str:
    return f"- {key}: {one_line(description)}" if description else f"- {key}"
