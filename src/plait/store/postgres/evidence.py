"""What a write leaves behind that shows, after a lost connection, whether it was committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plait.store.plan import Row
from plait.store.postgres.homes import Where


class Overtaken(Exception):
    """Somebody else was faster; the plan is to be run again from its first step."""


class Unsure(Exception):
    """The server committed, but did not wait for its standby: whether the write lasts is not known."""


class Evidence:
    """A row that only this write can have made, and how to ask for it.

    What leaves none changes nothing when it is done once more.
    """

    def __init__(self) -> None:
        self.query: str | None = None
        self.where = Where()
        self.args: tuple[Any, ...] = ()
        self.answer: Row = ()

    def of_step(self, name: str, where: Where, rows: Sequence[Row]) -> None:
        """Look at what a plan writes: a change row says it best, or else what it wrote first."""
        row = rows[-1]
        if name == "add_change":
            self._set("change_by_operation", where, (row[4],), (1,))
        elif self.query is not None:
            return
        elif name == "add_message_id":
            self._set("find_key", where, (row[0], row[1]), (row[2],))
        elif name == "create_session":
            self._set("find_life", where, row[3:6], (row[0],))
        elif name == "add_upload":
            self._set("find_upload", where, (row[0],), (row[1],))
        elif name == "add_chunk":
            self._set("find_chunk", where, row[:2], (1,))

    def of_stage(self, where: Where, session: int, stands: Row) -> None:
        """A hidden session, to which nobody else writes, stands where this write has left it."""
        if self.query is None:
            self._set("find_stand", where, (session,), stands)

    def _set(self, query: str, where: Where, args: Sequence[Any], answer: Row) -> None:
        self.query, self.where, self.args, self.answer = query, where, tuple(args), answer
