"""Progress of long work, on stderr and only if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol


class Tick(Protocol):
    """Told how much is done so far, and of how much if that changes."""

    def __call__(self, done: int, total: int | None = None, /) -> None: ...


@contextmanager
def progress(title: str, *, total: int | None = None, beside_output: bool = False) -> Generator[Tick]:
    """A bar while the block runs, or only a sign of life without a `total`; gone when it ends.

    With `beside_output` there is none if stdout is a terminal as well, where the block prints.
    """
    if not sys.stderr.isatty() or (beside_output and sys.stdout.isatty()):
        yield _untold
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    counted = (BarColumn(), TaskProgressColumn()) if total is not None else ()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *counted, TimeElapsedColumn())
    console = Console(file=sys.stderr, markup=False, highlight=False)
    shown = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    with shown:
        task = shown.add_task(title, total=total)

        def tick(done: int, total: int | None = None, /) -> None:
            shown.update(task, completed=done, total=total)

        yield tick


def _untold(done: int, total: int | None = None, /) -> None:
    """Nobody is looking."""
