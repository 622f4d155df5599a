"""A disk that fails when told to, and remembers what it would hold after a power cut."""

from __future__ import annotations

import os
import random
import threading
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

Call: TypeAlias = Literal[
    "xOpen", "xDelete", "xAccess", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock", "xUnlock"
]
Error: TypeAlias = Literal["IOERR", "FULL", "CANTOPEN", "BUSY", "NOMEM"]

_IO_ERRORS: dict[Call, int] = {
    "xOpen": apsw.SQLITE_CANTOPEN,
    "xDelete": apsw.SQLITE_IOERR_DELETE,
    "xAccess": apsw.SQLITE_IOERR_ACCESS,
    "xRead": apsw.SQLITE_IOERR_READ,
    "xWrite": apsw.SQLITE_IOERR_WRITE,
    "xTruncate": apsw.SQLITE_IOERR_TRUNCATE,
    "xSync": apsw.SQLITE_IOERR_FSYNC,
    "xFileSize": apsw.SQLITE_IOERR_FSTAT,
    "xLock": apsw.SQLITE_IOERR_LOCK,
    "xUnlock": apsw.SQLITE_IOERR_UNLOCK,
}
_OTHER_ERRORS: dict[Error, int] = {
    "FULL": apsw.SQLITE_FULL,
    "CANTOPEN": apsw.SQLITE_CANTOPEN,
    "BUSY": apsw.SQLITE_BUSY,
    "NOMEM": apsw.SQLITE_NOMEM,
}
_LASTING = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


@dataclass
class _Fault:
    """What to do at which call: count `left` down to 0, then act, `times` times."""

    call: Call
    left: int
    times: int
    suffix: str
    act: Callable[[], None]
    torn: bool = False


@dataclass
class _Write:
    """A write, or with no data a truncation, that no sync has followed yet."""

    offset: int
    data: bytes | None

    def apply(self, content: bytearray, *, torn: bool = False) -> None:
        if self.data is None:
            del content[self.offset :]
            content.extend(bytes(self.offset - len(content)))
            return
        data = self.data[: len(self.data) // 2] if torn else self.data
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(data)] = data


@dataclass
class _Disk:
    """One file as the platters hold it, and what only the cache holds."""

    synced: bytearray
    pending: list[_Write] = field(default_factory=list[_Write])

    def sync(self) -> None:
        for write in self.pending:
            write.apply(self.synced)
        self.pending.clear()

    def after_power_cut(self, dice: random.Random) -> bytes:
        """What was synced, then an arbitrary prefix of later writes, the last of them perhaps torn."""
        content = bytearray(self.synced)
        survive = dice.randint(0, len(self.pending))
        for n, write in enumerate(self.pending[:survive], 1):
            write.apply(content, torn=n == survive and dice.random() < 0.5)
        return bytes(content)


class FaultVFS(apsw.VFS):
    """A SQLite VFS over the default one that fails, tears or acts at chosen calls, and counts them.

    Inside `with FaultVFS() as vfs:` it is the process's default VFS, so every database that is
    opened in the block goes through it, with no hook in the code under test. Close them before the
    block ends. It sees the writes of this process alone, and not shared memory: the WAL index
    (`xShmMap`, `xShmLock`) is handled below Python.
    """

    def __init__(self, name: str = "plait-faults") -> None:
        self.base = apsw.vfs_names()[0]
        self.name = name
        self.counts: Counter[str] = Counter()
        """How often each call was made, failed calls included."""
        self.fired = 0
        """How many faults have happened since the last `reset`."""
        self._faults: list[_Fault] = []
        self._disks: dict[str, _Disk] = {}
        self._lock = threading.RLock()
        self._acting = threading.RLock()
        super().__init__(name, self.base, makedefault=True)

    def __enter__(self) -> FaultVFS:
        return self

    def __exit__(self, *exc: object) -> None:
        self.reset()
        self.unregister()

    # -- what tests say

    def fail(
        self, call: Call, *, nth: int = 1, error: Error = "IOERR", times: int = 1, suffix: str = "", torn: bool = False
    ) -> None:
        """Let the `nth` such call from now fail, and those after it until `times` have failed.

        `suffix` restricts this to files whose names end so: `-wal`, `.db`. With `torn` a write
        leaves its first half behind.
        """
        code = _OTHER_ERRORS.get(error, _IO_ERRORS[call])

        def act() -> None:
            raise apsw.exception_for(code)

        self._arm(_Fault(call, nth, times, suffix, act, torn))

    def on(self, call: Call, action: Callable[[], None], *, nth: int = 1, times: int = 1, suffix: str = "") -> None:
        """Run `action` just before the `nth` such call from now, and those after it until `times` are reached.

        What it raises becomes the call's error; otherwise the call goes on.

        `lambda: os.kill(os.getpid(), signal.SIGKILL)` dies there; `lambda: vfs.power_cut(folder, seed=1)`
        keeps what the disk holds at that moment.
        """
        self._arm(_Fault(call, nth, times, suffix, action))

    def reset(self) -> None:
        """Forget every fault that has not happened, and all counts."""
        with self._lock:
            self._faults.clear()
            self.counts.clear()
            self.fired = 0

    def power_cut(self, folder: Path, *, seed: int) -> None:
        """Write into `folder` what the disk would hold had the power gone now.

        Each file has what was synced and an arbitrary prefix of its later writes. The files in use
        are left alone: go on with them, or open the copy.
        """
        dice = random.Random(seed)
        with self._lock:
            for path, disk in self._disks.items():
                (folder / Path(path).name).write_bytes(disk.after_power_cut(dice))

    # -- what SQLite calls

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        """Open a file, whose calls are steps as well."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.step("xOpen", path)
        file = FaultFile(self, name, flags)
        if path is not None and flags[0] & _LASTING:
            with self._lock:
                if path not in self._disks:
                    self._disks[path] = _Disk(bytearray(Path(path).read_bytes()))
                file.disk = self._disks[path]
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Remove a file, also what a power cut would leave of it."""
        self.step("xDelete", filename)
        super().xDelete(filename, syncdir)
        with self._lock:
            self._disks.pop(filename, None)

    def xAccess(self, pathname: str, flags: int) -> bool:
        """Say whether a file is there."""
        self.step("xAccess", pathname)
        return super().xAccess(pathname, flags)

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: types.TracebackType | None,
    ) -> bool:
        """Keep quiet about errors that were asked for."""
        return True

    # -- helpers

    def _arm(self, fault: _Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def step(self, call: Call, path: str | None) -> None:
        """Count a call and let it fail if it is to."""
        fault = self.due(call, path)
        if fault is not None:
            self.act(fault)

    def act(self, fault: _Fault) -> None:
        """Do what is to be done at a call, one after another, whichever threads call."""
        with self._acting:
            fault.act()

    def due(self, call: Call, path: str | None) -> _Fault | None:
        """Count a call; the fault that happens at it, if any."""
        with self._lock:
            self.counts[call] += 1
            due = [fault for fault in self._faults if fault.call == call and (path or "").endswith(fault.suffix)]
            for fault in due:
                fault.left -= 1
            ready = next((fault for fault in due if fault.left <= 0), None)
            if ready is not None:
                self.fired += 1
                ready.times -= 1
                if not ready.times:
                    self._faults.remove(ready)
            return ready


class FaultFile(apsw.VFSFile):
    """A file of `FaultVFS`."""

    def __init__(self, vfs: FaultVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self.vfs = vfs
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.disk: _Disk | None = None
        super().__init__(vfs.base, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self.vfs.step("xRead", self.path)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        fault = self.vfs.due("xWrite", self.path)
        if fault is not None and fault.torn:
            self._write(data[: len(data) // 2], offset)
        if fault is not None:
            self.vfs.act(fault)
        self._write(data, offset)

    def _write(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self.disk is not None:
            self.disk.pending.append(_Write(offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self.vfs.step("xTruncate", self.path)
        super().xTruncate(newsize)
        if self.disk is not None:
            self.disk.pending.append(_Write(newsize, None))

    def xSync(self, flags: int) -> None:
        self.vfs.step("xSync", self.path)
        super().xSync(flags)
        if self.disk is not None:
            self.disk.sync()

    def xFileSize(self) -> int:
        self.vfs.step("xFileSize", self.path)
        return super().xFileSize()

    def xLock(self, level: int) -> None:
        self.vfs.step("xLock", self.path)
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # A file opened to read cannot be locked to write. SQLite tries when it closes a log, and
            # shrugs; but apsw would raise at last what Python was told on the way, unless it is this.
            raise apsw.BusyError from error

    def xUnlock(self, level: int) -> None:
        self.vfs.step("xUnlock", self.path)
        super().xUnlock(level)

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: types.TracebackType | None,
    ) -> bool:
        """Keep quiet about errors that were asked for."""
        return True


def die() -> None:
    """End this process as a kill or a crash would: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), 9)
