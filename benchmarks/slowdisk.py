"""A disk whose every fsync takes longer, as on a network or a busy cloud volume."""

from __future__ import annotations

import time
from types import TracebackType

import apsw


class SlowDisk(apsw.VFS):
    """Inside `with SlowDisk(0.005):` databases that apsw opens wait 5 ms more in every fsync."""

    def __init__(self, wait_s: float, name: str = "plait-slow-disk") -> None:
        self.wait_s = wait_s
        self.base = apsw.vfs_names()[0]
        super().__init__(name, self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _SlowFile(self, name, flags)

    def __enter__(self) -> SlowDisk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unregister()


class _SlowFile(apsw.VFSFile):
    def __init__(self, disk: SlowDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._wait_s = disk.wait_s
        super().__init__(disk.base, name, flags)

    def xSync(self, flags: int) -> None:
        time.sleep(self._wait_s)
        super().xSync(flags)
