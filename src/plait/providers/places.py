"""A place that holds files under a root: what it must be able to do, and how one is found by path, URL or file system."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from plait.errors import UsageError
from plait.providers.paths import OWN_PREFIX

if TYPE_CHECKING:
    from plait.providers.folder import Folder

DESCRIPTIONS: Final = OWN_PREFIX + "descriptions"
"""The folder below a root that holds the descriptions which the store itself has no room for."""

Where: TypeAlias = "str | os.PathLike[str] | Place | Any"
"""A path, a URL that fsspec knows, or an fsspec file system."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")


class Entry(Struct, frozen=True):
    """A file below a root; `size` is in bytes, `None` if the store does not say."""

    path: str
    size: int | None = None


class Listing(Struct, frozen=True):
    """All files below a root, by path, and what was left out, each with the reason."""

    entries: tuple[Entry, ...]
    left_out: tuple[tuple[str, str], ...] = ()


class _Description(Struct):
    key: str
    description: str


class Place(Protocol):
    """Files below one root. All methods block; paths are relative, as `paths.path_problem` has them."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    def entries(self) -> Listing:
        """Every file below the root; `NotFoundError` if the root is absent."""
        ...

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """A file, or `None`; `LimitError` if it is larger than `max_bytes`."""
        ...

    def write(self, path: str, data: bytes, *, description: str | None) -> None:
        """Put a file whole, in the place of one that is there, with its description or without any."""
        ...

    def descriptions(self, paths: Iterable[str]) -> dict[str, str]:
        """The descriptions of those that have one."""
        ...


def find(where: Where, *, prefix: str = "", storage_options: Mapping[str, Any] | None = None) -> Place:
    """The place that a path, a URL or an fsspec file system names, below `prefix` in it.

    What lies on this machine's disks, by a path, a `file://` URL or fsspec's local file system, is served by
    plait's own code, which follows no links and replaces files as a whole; the rest by fsspec.
    """
    if isinstance(where, str | os.PathLike):
        text = _text(cast("os.PathLike[str]", where))
        if _URL.match(text) is None:
            return _folder(text, prefix)
        from plait.providers.bucket import open_url

        filesystem, root = open_url(text, storage_options or {})
    elif callable(getattr(where, "find", None)) and callable(getattr(where, "pipe_file", None)):
        filesystem, root = where, ""
    elif all(callable(getattr(where, name, None)) for name in ("entries", "read", "write", "descriptions")):
        return where
    else:
        raise UsageError(f"where must be a path, a URL or an fsspec file system, not a {type(where).__name__}")

    from plait.providers.bucket import Bucket, is_local

    return _folder(root or os.sep, prefix) if is_local(filesystem) else Bucket(filesystem, root, prefix)


def _text(where: str | os.PathLike[str]) -> str:
    text = os.fspath(where)
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - bytes paths
        raise UsageError("where must be a path, a URL or an fsspec file system, not an empty one or one of bytes")
    return text


def _folder(root: str, prefix: str) -> Folder:
    from plait.providers.folder import Folder

    return Folder(root, prefix)


def description_path(path: str) -> str:
    """Where the description of `path` lies: a name of fixed length, since names have limits and descriptions none."""
    return f"{DESCRIPTIONS}/{hashlib.sha256(path.encode()).hexdigest()}.json"


def description_file(path: str, description: str) -> bytes:
    """What lies there."""
    return msgspec.json.encode(_Description(path, description))


def described(path: str, data: bytes | None) -> str | None:
    """The description in such a file, if it is one of `path`."""
    try:
        value = None if data is None else msgspec.json.decode(data, type=_Description)
    except (ValueError, RecursionError):
        return None
    return value.description if value is not None and value.key == path else None
