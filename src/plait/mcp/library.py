"""What a client can read: a scope's sessions, newest messages first to come, and the blocks of its memory."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

import plait
from plait import interchange
from plait.mcp.memory import Memory
from plait.mcp.wording import quoted, sayable, unquoted

log = logging.getLogger("plait")
SESSION: Final = "plait://session/"
BLOCK: Final = "plait://context/"
PAGE: Final = 50
WINDOW_BYTES: Final = 1 << 20
"""How much of a session a client gets: the newest messages that fit."""
_NAME_CHARS: Final = 200


class Item(Struct, frozen=True):
    """Something that can be read."""

    uri: str
    name: str
    description: str
    media_type: str


class Page(Struct, frozen=True):
    """Some of it, and the cursor that goes on."""

    items: list[Item]
    cursor: str | None


class Library:
    """The sessions of a scope, as Markdown, and the blocks of a memory, as text. All methods block."""

    def __init__(
        self, sessions: plait.Sessions, memory: Memory | None = None, *, window_bytes: int = WINDOW_BYTES
    ) -> None:
        self._sessions = sessions
        self._memory = memory
        self._window_bytes = window_bytes

    def page(self, cursor: str | None = None) -> Page:
        """The blocks, then the sessions, the most recently active first; `UsageError` for a cursor of nobody's."""
        found = self._sessions.list(limit=PAGE, cursor=cursor or None)
        items = [] if cursor else self._blocks()
        return Page([*items, *map(_session_item, found.sessions)], found.cursor)

    def _blocks(self) -> list[Item]:
        # By what was declared: nothing is read, so one that cannot be read hides no other.
        return [
            Item(BLOCK + quoted(label), label, about or "a block of memory", "text/plain")
            for label, about in (self._memory.listing() if self._memory is not None else ())
        ]

    def read(self, uri: str) -> tuple[str, str]:
        """What stands at an address, and of what media type; `NotFoundError` if nothing does."""
        try:
            if uri.startswith(SESSION):
                return self._session(unquoted(uri.removeprefix(SESSION))), "text/markdown"
            if uri.startswith(BLOCK) and self._memory is not None:
                block = _readable(self._memory, unquoted(uri.removeprefix(BLOCK)))
                if block is not None:
                    return sayable(block.content), "text/plain"
        except (ValueError, plait.NotFoundError):  # an address that names no id, too
            pass
        raise plait.NotFoundError(
            f"there is nothing at {sayable(uri)[:200]!r}; list the resources to see what there is"
        )

    def _session(self, id: str) -> str:
        if self._sessions.get(id) is None:
            raise plait.NotFoundError(f"there is no session {id!r}")
        window = _Window(self._sessions.session(id), self._window_bytes)
        file = io.BytesIO()
        interchange.write_markdown(window, file)
        text = file.getvalue().decode("utf-8", "replace")
        return window.note + sayable(text)


class _Window:
    """The newest messages of a session that fit, as a session to be written."""

    def __init__(self, session: plait.Session, budget_bytes: int) -> None:
        self.id = session.id
        self._session = session
        self._window = session.recent(budget_bytes=budget_bytes)

    @property
    def note(self) -> str:
        """A line that says so if older messages are left out."""
        left_out = self._window.view_messages - len(self._window.messages)
        if not self._window.truncated:
            return ""
        return f"*{left_out:,} older messages are left out; search for what was said in them.*\n\n"

    def info(self) -> plait.SessionInfo | None:
        return self._session.info()

    def transcript(self, leaf: Any = plait.LEAF) -> Iterator[plait.Message | plait.Damaged]:
        return iter(self._window.messages)


def _readable(memory: Memory, label: str) -> plait.Block | None:
    """A block as it is now; what a provider of somebody else's raises is said as an error of plait's."""
    try:
        return memory.block(label)
    except plait.PlaitError:
        raise
    except Exception as error:
        log.warning("block %r cannot be read: %r", label, error, exc_info=error)
        told = f"block {label!r} cannot be read now: {type(error).__name__}: {error}"
        raise plait.StoreUnavailableError(told[:_NAME_CHARS]) from error


def _session_item(info: plait.SessionInfo) -> Item:
    name = sayable(" ".join((info.name or info.id).split()))[:_NAME_CHARS]
    about = f"{info.totals.path_messages:,} messages, last active {info.active_at:%Y-%m-%d %H:%M} UTC"
    return Item(SESSION + quoted(info.id), name or "session", about, "text/markdown")
