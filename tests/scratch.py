"""Where the files of a run are kept: of a short one in memory, if there is room, for these are many and live for a moment.

What is promised about a disk is held to by files that lose what was not synced (`tests/faults`), not by the disk; a soak
is on the disk all the same.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tests import dose

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""More than ten times what a short run has at once."""


def choose() -> None:
    """Let temporary files of this process and its children be made there, unless the environment says where."""
    if not dose.SOAK and "TMPDIR" not in os.environ and _is_fit(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def _is_fit(folder: Path) -> bool:
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        return False
    runs_programs = not os.statvfs(folder).f_flag & os.ST_NOEXEC
    return runs_programs and shutil.disk_usage(folder).free >= ROOM
