"""What a write leaves behind that shows, after a lost connection, whether it was committed.

What is there may be another writer's, under the same id and in the same place, or may have been removed by
somebody since: so a look says yes or no only where nothing else is possible, and otherwise nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from msgspec import Struct

from plait import jsontext
from plait.logic.strands import seq_of
from plait.store.plan import Head, Row
from plait.store.postgres import adapt
from plait.store.postgres.homes import Where

Answers: TypeAlias = Sequence[Sequence[Row]]
Question: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement and its parameters."""

MAX_LINES = 8
"""How many of a plan's messages are looked for: all were added or none, but some may have been removed since."""


UNTOLD = "since then it was removed, or another was stored and removed under its id"
"""Why nobody can tell what became of a write, if that is why."""


class Overtaken(Exception):
    """Somebody else was faster; the plan is to be run again from its first step."""


class Unsure(Exception):
    """The server committed, but did not wait for its standby: whether the write lasts is not known."""


class Unknown(Exception):
    """Whether a write whose commit ended in `error` was committed cannot be told, and why not."""

    def __init__(self, error: BaseException, why: object) -> None:
        super().__init__(error, why)
        self.error = error
        self.why = why if isinstance(why, str) else f"{type(why).__name__}: {str(why).strip()}"


class Look(Struct, frozen=True):
    """Questions whose answers tell whether a write was committed; `None`: they do not."""

    where: Where
    questions: tuple[Question, ...]
    says: Callable[[Answers], bool | None]


class Wait(Struct, frozen=True):
    """A statement that is undone at once: it waits until nobody makes the same row any more, which cannot be seen yet."""

    where: Where
    question: Question


class Line(Struct, frozen=True):
    """A message that a write adds, to which session and life; `made`: its id was made for it, and is nobody else's."""

    where: Where
    row: Row
    session: int
    incarnation: int
    made: bool

    def look(self) -> Look:
        """What tells whether the message was added: by this write, and not under its id by another."""
        key, version, size, _, at, _, format, role, id, body = self.row
        questions = (
            ("find_written", (version, at, id, size, format, role, body, key)),
            ("find_version", (self.session,)),
            ("changes_from", (self.session, version)),
            ("pruned_upto", (self.session,)),
            ("find_seq", (seq_of(key), self.incarnation)),
        )
        return Look(self.where, questions, self._says)

    def _says(self, answers: Answers) -> bool | None:
        rows, stands, changes, pruned, elsewhere = answers
        version = self.row[1]
        if rows:
            ((same_place, same_content),) = rows
            if same_place and not same_content and not self._updated(changes):
                return None if _pruned(pruned, version) else False
            return bool(same_place)
        if not stands or stands[0][0] < version or (changes and changes[0][0] == version):
            return False  # its version was never given, or to another change
        return self._removed(changes, elsewhere=bool(elsewhere))

    def _updated(self, changes: Sequence[Row]) -> bool:
        return any(kind == "update" and jsontext.decode(data)["key"] == self.row[0] for _, kind, data in changes)

    def _removed(self, changes: Sequence[Row], *, elsewhere: bool) -> bool | None:
        """What can be told of a message that is not there, though its version was given: who had its seq?"""
        key, id = self.row[0], self.row[8]
        for _, kind, text in changes:
            data = jsontext.decode(adapt.shown(text)) if kind == "delete" else {"keys": (), "ids": ()}
            for gone, name in zip(data["keys"], data["ids"], strict=True):
                if seq_of(gone) == seq_of(key):
                    same = (gone, name) == (key, id)
                    return False if not same else True if self.made else None
        return False if elsewhere else None


def _pruned(rows: Sequence[Row], version: int) -> bool:
    """Whether what a session's changes from a version on said is gone."""
    return bool(rows) and bool(rows[0][0] >= version)


class Evidence:
    """Rows that only this write can have made, and how to ask for them.

    What leaves none changes nothing, and answers the same, when it is done once more.
    """

    def __init__(self) -> None:
        self.wait: Wait | None = None
        self.given: set[str] = set()
        """Ids that came with their messages: others may have used them too."""
        self._lines: list[Line] = []
        self._added: list[tuple[Where, Row]] = []
        self._lives: dict[tuple[UUID | None, int], int] = {}
        self._ended: int | None = None
        self._more = False
        self._found: dict[str, Look] = {}

    def of_step(self, name: str, where: Where, rows: Sequence[Row]) -> None:
        """Note what a plan writes."""
        if name == "drop_lease":
            self._ended = rows[-1][0]
            return
        self._more = True
        if name == "add_change":
            self._found["change"] = _change(where, rows[-1])
        elif name == "add_message_id":
            self._lives.update(((where.home, key), incarnation) for incarnation, _, key in rows[:MAX_LINES])
        elif name == "add_message":
            self._added += [(where, row) for row in rows[: MAX_LINES - len(self._added)]]
        elif name == "create_session":
            self.wait = Wait(where, ("wait_home", ()))
            self._found["life"] = _there(where, "find_life", rows[-1][3:6], rows[-1][:2])
        elif name in ("add_upload", "add_chunk"):
            self._of_payload(name, where, rows[-1])

    def _of_payload(self, name: str, where: Where, row: Row) -> None:
        if "payload" in self._found:
            return
        if name == "add_upload":
            self._found["payload"] = _there(where, "find_upload", row[:1], row[1:2])
            self.wait = self.wait or Wait(where, (name, row))
        else:
            self._found["payload"] = _there(where, "find_chunk", row[:2], (1,))
            self.wait = self.wait or Wait(where, (name, (*row[:2], b"")))

    def of_answer(self, name: str, where: Where, args: Row, rows: Sequence[Row]) -> None:
        """Note what a statement answered that says in which transaction it was."""
        if name == "keep_record" and rows:
            self._found.setdefault("kept", _kept(where, args, rows[0][0]))

    def of_head(self, where: Where, head: Head) -> None:
        """A session stands where this write leaves it."""
        for at, row in self._added:
            if self._lives.get((where.home, row[0])) == head.incarnation and at.home == where.home:
                self.of_line(Line(at, row, head.session, head.incarnation, row[8] not in self.given))
        if head.session == self._ended and not self._more:
            self._found["ended"] = _ended(where, head)

    def of_line(self, line: Line) -> None:
        """A message that is added."""
        self._lines.append(line)

    def of_stage(self, where: Where, session: int, stands: Row) -> None:
        """A hidden session, to which nobody else writes, stands where this write has left it."""
        self._found["stage"] = _there(where, "find_stand", (session,), stands)

    def is_any(self) -> bool:
        """Whether the write leaves anything."""
        return bool(self._found or self._lines)

    def looks(self) -> Iterator[Look]:
        """What tells of the write: the next one where one does not."""
        if "change" not in self._found and self._lines:
            yield from (line.look() for line in self._lines)
            return
        for kind in ("change", "kept", "life", "stage", "payload", "ended"):
            if kind in self._found:
                yield self._found[kind]
                return


def _there(where: Where, query: str, args: Row, answer: Row) -> Look:
    """A row that nobody else makes, or not at the same microsecond."""
    return Look(where, ((query, args),), lambda answers: answers[0][:1] == [answer])


def _change(where: Where, row: Row) -> Look:
    """The change record says it best: it has the operation."""
    session, version, operation = row[0], row[1], row[4]

    def says(answers: Answers) -> bool | None:
        return True if answers[0] else None if _pruned(answers[1], version) else False

    questions = (("change_by_operation", (operation, version)), ("pruned_upto", (session,)))
    return Look(where, questions, says)


def _kept(where: Where, args: Row, transaction: str) -> Look:
    """A record that was not there: it says which transaction made it, as long as nobody removes it."""

    def says(answers: Answers) -> bool | None:
        rows, ended = answers
        return bool(rows[0][0]) if rows else None if ended[0][0] == "committed" else False

    incarnation, key, body = args
    questions = (("find_kept", (transaction, body, incarnation, key)), ("how_ended", (transaction,)))
    return Look(where, questions, says)


def _ended(where: Where, head: Head) -> Look:
    """A lease that was to end, and nothing else, has ended: its epoch is over, and nobody has begun another."""
    session, epoch = head.session, head.epoch

    def says(answers: Answers) -> bool | None:
        rows = answers[0]
        if not rows or rows[0][0] < epoch:
            return False
        return None if rows[0][0] > epoch else not rows[0][1]

    return Look(where, (("find_epoch", (session,)),), says)
