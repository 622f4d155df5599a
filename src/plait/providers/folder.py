"""Files below one folder of this machine: no path leads out of it, and what is written is whole or not there."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

from plait.errors import LimitError, NotFoundError, StoreUnavailableError, UsageError
from plait.providers import places
from plait.providers.paths import OWN_PREFIX, check_path, is_ignored, path_problem
from plait.providers.places import Entry, Listing

BY_HANDLE: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether the system opens names within a folder that is held open: then no rename meanwhile leads outside."""

_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_ABSENT: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENXIO))
_LINK: Final = "a link, which is not followed"
_MAX_DESCRIPTION_BYTES: Final = 1 << 20


class Folder:
    """A `Place` on this machine's disks.

    The root itself may be a link; nothing below it may. Only regular files are listed and read: no link, no device,
    no pipe. A write makes missing folders, lands as a whole (a file beside it, fsync, rename) and keeps the
    permissions of what it replaces.
    """

    def __init__(self, root: str, prefix: str = "") -> None:
        below = prefix.strip("/")
        if below:
            check_path(below, "prefix")
        whole = os.path.abspath(os.path.expanduser(root))
        self.root = os.path.join(whole, *below.split("/")) if below else whole

    @property
    def name(self) -> str:
        """The root."""
        return self.root

    def entries(self) -> Listing:
        """Every regular file below the root, by path; `NotFoundError` if the root is absent."""
        if not os.path.isdir(self.root):
            raise NotFoundError(f"there is no folder {self.root!r}; make it, or name another")
        found: list[Entry] = []
        left_out: list[tuple[str, str]] = []
        folders = [""]
        while folders:
            self._look(folders.pop(), folders, found, left_out)
        return Listing(tuple(sorted(found, key=lambda entry: entry.path)), tuple(sorted(left_out)))

    def _look(self, folder: str, folders: list[str], found: list[Entry], left_out: list[tuple[str, str]]) -> None:
        """One folder: what is in it goes to one of the lists."""
        try:
            with os.scandir(os.path.join(self.root, folder)) as inside:
                for one in inside:
                    path = f"{folder}/{one.name}" if folder else one.name
                    if is_ignored(path):
                        continue
                    reason = path_problem(path) or self._place(one, path, folders, found)
                    if reason:
                        left_out.append((path, reason))
        except FileNotFoundError:
            pass  # removed meanwhile
        except OSError as error:
            if not folder:
                raise _failed("list", self.root, error) from error
            left_out.append((folder, error.strerror or str(error)))

    def _place(self, one: os.DirEntry[str], path: str, folders: list[str], found: list[Entry]) -> str | None:
        if one.is_symlink():
            return _LINK
        if one.is_dir(follow_symlinks=False):
            folders.append(path)
        elif one.is_file(follow_symlinks=False):
            try:
                found.append(Entry(path, one.stat(follow_symlinks=False).st_size))
            except FileNotFoundError:
                pass  # removed meanwhile
        else:
            return "not a regular file"
        return None

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """A file's bytes; `None` if it is absent, a folder, a link or behind one; `LimitError` if it is too large."""
        if path_problem(path) or is_ignored(path):
            return None
        return self._read(path, max_bytes)

    def _read(self, path: str, max_bytes: int) -> bytes | None:
        try:
            with self._parent(path) as (name, handle):
                file = os.open(name, _READ, dir_fd=handle)
                with open(file, "rb") as opened:
                    if not stat.S_ISREG(os.fstat(file).st_mode) or (handle is None and os.path.islink(name)):
                        return None
                    data = opened.read(max_bytes + 1)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise _failed("read", os.path.join(self.root, path), error) from error
        if len(data) > max_bytes:
            raise LimitError(f"{path!r} in {self.root!r} is larger than {max_bytes:,} bytes")
        return data

    def write(self, path: str, data: bytes, *, description: str | None) -> None:
        """Put a file, then its description (or take away the one there was)."""
        check_path(path)
        if is_ignored(path):
            raise UsageError(f"{path!r} would not be listed again: choose another key")
        self._write(path, data)
        beside = places.description_path(path)
        if description is not None:
            self._write(beside, places.description_file(path, description))
        else:
            self._remove(beside)

    def _write(self, path: str, data: bytes) -> None:
        try:
            os.makedirs(self.root, exist_ok=True)
            with self._parent(path, make=True) as (name, handle):
                mode = self._mode(path, name, handle)
                temporary = os.path.join(os.path.dirname(name), f"{OWN_PREFIX}{secrets.token_hex(8)}.tmp")
                try:
                    _put(temporary, data, mode, handle)
                    os.replace(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
                except BaseException:
                    _unlink(temporary, handle)
                    raise
                if handle is not None:
                    os.fsync(handle)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UsageError(
                    f"{path!r} cannot be written in {self.root!r}: a link or file is in its way"
                ) from error
            raise _failed("write", os.path.join(self.root, path), error) from error

    def _mode(self, path: str, name: str, handle: int | None) -> int | None:
        """The permissions of what will be replaced, `None` without; refuses what is no regular file."""
        try:
            mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(mode):
            raise UsageError(f"{path!r} in {self.root!r} is not a regular file: choose another key, or remove it")
        return stat.S_IMODE(mode)

    def _remove(self, path: str) -> None:
        try:
            with self._parent(path) as (name, handle):
                _unlink(name, handle)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise _failed("write", os.path.join(self.root, path), error) from error

    def descriptions(self, paths: Iterable[str]) -> dict[str, str]:
        """The descriptions that were written with the files."""
        if not os.path.isdir(os.path.join(self.root, places.DESCRIPTIONS)):
            return {}
        found = ((path, self._described(path)) for path in paths)
        return {path: text for path, text in found if text is not None}

    def _described(self, path: str) -> str | None:
        try:
            return places.described(path, self._read(places.description_path(path), _MAX_DESCRIPTION_BYTES))
        except LimitError:
            return None

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Generator[tuple[str, int | None]]:
        """The name of a file within its folder, held open; or where that cannot be, its whole path."""
        *folders, name = path.split("/")
        if not BY_HANDLE:
            yield os.path.join(self._checked(folders, make), name), None
            return
        handle = os.open(self.root, _FOLDER)
        try:
            for folder in folders:
                if make:
                    _make(folder, handle)
                deeper = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = deeper
            yield name, handle
        finally:
            os.close(handle)

    def _checked(self, folders: list[str], make: bool) -> str:
        """The path of a folder of which no step is a link."""
        at = self.root
        for folder in folders:
            at = os.path.join(at, folder)
            if make:
                _make(at, None)
            if os.path.islink(at) or getattr(os.path, "isjunction", os.path.islink)(at):
                raise OSError(errno.ELOOP, "a link is in the way", at)
        return at


def _make(name: str, handle: int | None) -> None:
    try:
        os.mkdir(name, dir_fd=handle)
    except FileExistsError:
        pass  # a folder, or what opening it will refuse


def _put(name: str, data: bytes, mode: int | None, handle: int | None) -> None:
    with open(os.open(name, _NEW, 0o666, dir_fd=handle), "wb") as file:
        file.write(data)
        file.flush()
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _unlink(name: str, handle: int | None) -> None:
    try:
        os.unlink(name, dir_fd=handle)
    except FileNotFoundError:
        pass


def _failed(what: str, path: str, error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(f"cannot {what} {path!r}: {error.strerror or error}")
