"""A child process that works, reports what was acknowledged to it, and is killed at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from types import TracebackType


def report(line: str) -> None:
    """In a child: say that `line` (without newlines) was acknowledged; it arrives whole or not at all."""
    os.write(1, line.encode() + b"\n")  # one write below PIPE_BUF is never torn


class Child:
    """A Python program in a process of its own; each `report(line)` in it arrives here.

    `source` is the program's text, `args` its `sys.argv[1:]`. Leaving the `with` block kills it.
    """

    def __init__(self, source: str, *args: str) -> None:
        self.acknowledged: list[str] = []
        """The lines reported so far, in order."""
        self.errors = ""
        """What the child wrote to stderr, once it has ended."""
        self._finished = False
        self._news = threading.Condition()
        self._ended = False
        command = [sys.executable, "-c", source, *args]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - `finish` closes it; not a pipe, which could fill up
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._stderr, env=_environment())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def wait_for(self, count: int, *, timeout_s: float = 60.0) -> None:
        """Return when `count` lines have arrived or the child has ended; `TimeoutError` if neither comes."""
        with self._news:
            if not self._news.wait_for(lambda: self._ended or len(self.acknowledged) >= count, timeout_s):
                raise TimeoutError(f"{len(self.acknowledged)} of {count} lines after {timeout_s} s")

    def kill(self) -> list[str]:
        """Kill -9 the child if it still runs; all that it reported before it died."""
        self._process.kill()
        return self.finish()

    def finish(self) -> list[str]:
        """Wait until the child has ended by itself; all that it reported."""
        if not self._finished:
            self._finished = True
            self._reader.join()
            self._process.wait()
            with self._stderr as file:
                file.seek(0)
                self.errors = file.read().decode(errors="replace")
        return self.acknowledged

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for the signal that ended it; `None` while it runs."""
        return self._process.poll()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    self._add(line[:-1].decode())
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _add(self, line: str) -> None:
        with self._news:
            self.acknowledged.append(line)
            self._news.notify_all()


def _environment() -> dict[str, str]:
    """The child's environment: it finds the modules that this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
