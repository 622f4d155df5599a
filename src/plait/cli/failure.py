"""What ends a command early, and the exit codes it can end with."""

from __future__ import annotations

import sys
from typing import Final

OK: Final = 0
REFUSED: Final = 1
"""Not found, refused, or the database or system said no."""
USAGE: Final = 2
"""The command line itself is wrong."""
DAMAGED: Final = 3
"""Done as far as it goes, but something was damaged or could not be placed."""
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""The reader of the output went away, as `head` does: no error, but not all was written."""


class Failure(Exception):
    """A command's own refusal: one line that says what is wrong and what to do."""

    def __init__(self, text: str, code: int = REFUSED) -> None:
        super().__init__(text)
        self.code = code


def note(text: str) -> None:
    """Say something beside the output: what was done, or that there is nothing to print."""
    sys.stderr.write(f"plait: {text}\n")
    sys.stderr.flush()
