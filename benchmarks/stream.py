"""A process that streams one session and prints the most memory it ever had: `-m benchmarks.stream FILE SESSION`."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import plait


def peak_bytes() -> int:
    """Linux's own figure where there is one: `ru_maxrss` begins with what the parent had before exec."""
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(path: str, session: str) -> None:
    size = 0
    with plait.open(path, read_only=True) as sessions:
        for message in sessions.session(session).history():
            if isinstance(message, plait.Message):
                size += len(message.to_json())
    if not size:
        raise SystemExit(f"nothing was read from session {session!r}")
    print(peak_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
