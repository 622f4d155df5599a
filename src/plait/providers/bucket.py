"""Files below a prefix of any store that fsspec knows: S3 and the like, memory, SFTP, and many more."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Final, TypeVar, cast

from plait.errors import LimitError, NotFoundError, PlaitError, StoreUnavailableError, UsageError
from plait.providers import places
from plait.providers.paths import check_path, is_ignored, path_problem
from plait.providers.places import Entry, Listing

T = TypeVar("T")

_METADATA_KEY: Final = "description"
_METADATA_BYTES: Final = 1_800
"""S3 takes 2 KB of metadata in all; a longer description lies beside the object."""
_AT_ONCE: Final = 16
_ABSENT: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def open_url(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
    """The file system and the path that a URL names; `UsageError` if fsspec or what the URL needs is not installed."""
    try:
        opened: tuple[Any, str] = _fsspec().core.url_to_fs(url, **storage_options)
    except (ImportError, ValueError, TypeError) as error:
        raise UsageError(f"{url[:200]!r} cannot be opened: {error}") from error
    return opened


def _fsspec() -> Any:
    try:
        import_module("fsspec.core")
        return import_module("fsspec")
    except ImportError:
        raise UsageError("URLs need fsspec; install plait[files]") from None


def is_local(filesystem: Any) -> bool:
    """Whether the files are on this machine's disks, where there are links to follow and half-written files."""
    return bool({"file", "local"} & set(_protocols(filesystem)))


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = getattr(filesystem, "protocol", ())
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


class Bucket:
    """A `Place` in a store of fsspec's.

    A prefix names a folder: `notes` and `notes/` are one, and `notes-old/a` is in neither. A write is one PUT on
    S3 and other object stores; how whole it is elsewhere is for the file system to say. On S3 a description is
    metadata of its object, written with it; elsewhere, and if it is too long for that, it lies in
    `.plait-descriptions/` below the root. What a listing remembers is dropped before each: changes of others show.
    """

    def __init__(self, filesystem: Any, root: str, prefix: str = "") -> None:
        below = prefix.strip("/")
        if below:
            check_path(below, "prefix")
        self._fs = filesystem
        self._root = "/".join(part for part in (root.rstrip("/"), below) if part)
        self._has_metadata = bool({"s3", "s3a"} & set(_protocols(filesystem)))

    @property
    def name(self) -> str:
        """The store and the root in it."""
        return f"{(_protocols(self._fs) or ('fsspec',))[0]}://{self._root.lstrip('/')}"

    def entries(self) -> Listing:
        """Every file below the root, of all pages of the listing; `NotFoundError` if the root is absent."""
        found: list[Entry] = []
        left_out: list[tuple[str, str]] = []
        for path, info in self._find(self._root):
            if is_ignored(path):
                continue
            if reason := path_problem(path):
                left_out.append((path, reason))
            else:
                size = info.get("size")
                found.append(Entry(path, size if isinstance(size, int) else None))
        return Listing(tuple(sorted(found, key=lambda entry: entry.path)), tuple(sorted(left_out)))

    def _find(self, folder: str) -> list[tuple[str, Mapping[str, Any]]]:
        """The paths in a folder, relative to the root, with what the store says of each."""
        self._fs.invalidate_cache()
        listed = self._ask("list", folder, lambda: self._fs.find(folder, detail=True))
        if listed is None:
            raise NotFoundError(f"there is nothing at {self.name}; put a file there, or name another place")
        start = f"{self._root}/" if self._root else ""
        return [
            (str(name)[len(start) :], cast("Mapping[str, Any]", info))
            for name, info in listed.items()
            if str(name).startswith(start) and len(name) > len(start) and info.get("type") != "directory"
        ]

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """A file's bytes; `None` if it is absent; `LimitError` if it is too large."""
        if path_problem(path) or is_ignored(path):
            return None
        full = self._full(path)
        self._fs.invalidate_cache()
        info = self._ask("read", full, lambda: self._fs.info(full))
        if info is None or info.get("type") == "directory":
            return None
        if (info.get("size") or 0) > max_bytes:
            raise self._too_large(path, max_bytes)
        data = self._ask("read", full, lambda: self._fs.cat_file(full))
        if data is not None and len(data) > max_bytes:  # it has grown, or its size was not known
            raise self._too_large(path, max_bytes)
        return data

    def _too_large(self, path: str, max_bytes: int) -> LimitError:
        return LimitError(f"{path!r} in {self.name} is larger than {max_bytes:,} bytes")

    def write(self, path: str, data: bytes, *, description: str | None) -> None:
        """Put a file with its description, or without one."""
        check_path(path)
        if is_ignored(path):
            raise UsageError(f"{path!r} would not be listed again: choose another key")
        quoted = None if description is None else urllib.parse.quote(description, safe=" ,.:;!?()-/", errors="replace")
        within = self._has_metadata and quoted is not None and len(quoted) <= _METADATA_BYTES
        self._put(path, data, {"Metadata": {_METADATA_KEY: quoted}} if within else {})
        beside = places.description_path(path)
        if description is not None and not within:
            self._put(beside, places.description_file(path, description), {})
        else:
            self._ask("write", beside, lambda: self._fs.rm_file(self._full(beside)))

    def _put(self, path: str, data: bytes, options: Mapping[str, Any]) -> None:
        full = self._full(path)
        if not self._has_metadata:  # where there are folders, they must be there
            self._ask("write", full, lambda: self._fs.makedirs(full.rpartition("/")[0], exist_ok=True))
        done = self._ask("write", full, lambda: (self._fs.pipe_file(full, data, **options), True))
        if done is None:
            raise StoreUnavailableError(f"cannot write {path!r} in {self.name}: there is no such bucket or folder")

    def descriptions(self, paths: Iterable[str]) -> dict[str, str]:
        """The descriptions of those that have one; one request each, several at once."""
        wanted = list(paths)
        beside = self._beside(wanted)
        if self._has_metadata:
            left = [path for path in wanted if path not in beside]
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                within = zip(left, threads.map(self._metadata, left), strict=True)
                beside |= {path: text for path, text in within if text is not None}
        return beside

    def _beside(self, wanted: list[str]) -> dict[str, str]:
        """The descriptions that lie beside, of which only those that exist are asked for."""
        try:
            there = {path for path, _ in self._find(self._full(places.DESCRIPTIONS))}
        except NotFoundError:
            return {}
        files = {path: self._full(beside) for path in wanted if (beside := places.description_path(path)) in there}
        if not files:
            return {}
        data: Any = self._ask("read", self._root, lambda: self._fs.cat(list(files.values()), on_error="omit"))
        texts = {path: places.described(path, data and data.get(full)) for path, full in files.items()}
        return {path: text for path, text in texts.items() if text is not None}

    def _metadata(self, path: str) -> str | None:
        """The description in an object's own metadata; without one if it went away meanwhile."""
        full = self._full(path)
        metadata: Any = self._ask("read", full, lambda: self._fs.metadata(full))
        quoted: Any = metadata and metadata.get(_METADATA_KEY)
        return urllib.parse.unquote(quoted) if isinstance(quoted, str) else None

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if self._root else path

    def _ask(self, what: str, path: str, call: Callable[[], T]) -> T | None:
        """What the store answers; `None` if it says that there is no such thing."""
        try:
            return call()
        except _ABSENT:
            return None
        except PlaitError:
            raise
        except Exception as error:  # each store raises its own: botocore's, asyncssh's, aiohttp's
            raise StoreUnavailableError(f"cannot {what} {path!r} at {self.name}: {error}") from error
