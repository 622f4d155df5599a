"""Programs run in processes of their own, and what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

PRELUDE = "import json, os, sys, threading, asyncio, time\nimport plait\ndef note(id, text='words'): return plait.user(text, id=id)\n"
NOBODY = 65534
AS_NOBODY = f"""
if os.getuid() == 0:
    os.setgid({NOBODY})
    os.setuid({NOBODY})
"""
"""From here on a program may write only what everybody may: first it loads what is imported late."""

started: list[subprocess.Popen[str]] = []
"""What a test has started so far."""


def start(program: str, *args: object, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a program; `plait` and a few modules are imported, `note` makes a message."""
    path = os.pathsep.join(item for item in sys.path if item)
    started.append(
        process := subprocess.Popen(
            [sys.executable, "-c", PRELUDE + program, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {}), "PYTHONPATH": path},
        )
    )
    return process


def end_left() -> None:
    """End what a test started and did not see to its end, for it failed before: it is no matter of the next test's."""
    while started:
        with started.pop() as process:
            process.kill()


def finished(process: subprocess.Popen[str], timeout_s: float = 100) -> str:
    """Wait for a program that must succeed without a word on stderr; what it printed."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"did not end in {timeout_s} s: {out[-500:]} {err[-2000:]}") from None
    assert process.returncode == 0, f"exit {process.returncode}: {out[-500:]} {err[-3000:]}"
    assert err == "", err
    return out


def run(program: str, *args: object, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end."""
    return finished(start(program, *args, env=env))


def run_together(program: str, count: int, *args: object) -> list[str]:
    """Run a program `count` times at once, each with its number as first argument; they begin together.

    Each is to call `ready()`, which waits for all.
    """
    gate = "def ready():\n    print('ready', flush=True)\n    sys.stdin.readline()\n"
    processes = [start(gate + program, n, *args) for n in range(count)]
    for process in processes:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n" or finished(process) is None, line
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [finished(process) for process in processes]
