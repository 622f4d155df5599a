"""Lines of standard input for an event loop, which an interrupt need not wait for."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from typing import Final

_PIECE: Final = 1 << 16
_AHEAD: Final = 16


class Lines:
    """The lines that arrive at a descriptor, as text; bytes that are no UTF-8 come as U+FFFD.

    Read by a thread of its own, which nobody waits for: a loop that ends, ends at once, whether or not the other side
    ever says anything again. At most some lines are read ahead.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[str]:
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None](_AHEAD)
        threading.Thread(target=self._read, args=(loop, lines), name="plait-stdin", daemon=True).start()
        while (line := await lines.get()) is not None:
            yield line

    def _read(self, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str | None]) -> None:
        # By the descriptor: a thread within `sys.stdin` would hold its lock when the interpreter ends.
        pieces: list[bytes] = []
        try:
            while piece := os.read(self._descriptor, _PIECE):
                *whole, rest = piece.split(b"\n")
                for end in whole:
                    self._put(loop, lines, b"".join((*pieces, end)))
                    pieces = []
                pieces.append(rest)
            if any(pieces):
                self._put(loop, lines, b"".join(pieces))
            asyncio.run_coroutine_threadsafe(lines.put(None), loop).result()
        except (CancelledError, RuntimeError):
            pass  # the loop has ended

    def _put(self, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str | None], line: bytes) -> None:
        asyncio.run_coroutine_threadsafe(lines.put(line.decode("utf-8", "replace")), loop).result()
