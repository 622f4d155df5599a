"""Which database and scope a command works on, and how it finds a session there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

import plait
from plait.cli import escape
from plait.cli.failure import Failure

DEFAULT_DB: Final = "agents.db"
_UNDECODED: Final = re.compile("[\udc80-\udcff]+")
_UTF8: Final = ("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Place:
    """A database (a path or URL) and the scope in it."""

    db: str
    tenant: str = ""
    owner: str = ""

    @property
    def shown(self) -> str:
        """The database as messages name it: never with a password."""
        if "://" not in self.db:
            return escape.name(given_text(self.db))
        url = urlsplit(self.db)
        return escape.name(f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}")

    @property
    def named_db(self) -> str:
        """The path of the database if it has to be named to be found again; never a URL, which may hold a password."""
        return "" if "://" in self.db or self.db == (os.environ.get("PLAIT_DB") or DEFAULT_DB) else self.db

    @property
    def described(self) -> str:
        """The database with the scope, if one was named."""
        scope = [(what, value) for what, value in (("tenant", self.tenant), ("owner", self.owner)) if value]
        named = " and ".join(f"{what} {escape.name(value)}" for what, value in scope)
        return f"{self.shown} for {named}" if named else self.shown

    @contextmanager
    def opened(
        self, *, write: bool = False, create: bool = False, durability: Literal["strict", "process"] = "strict"
    ) -> Generator[plait.Sessions]:
        """The sessions of this place, for as long as the block runs; `create` allows a new file."""
        if not create:
            self._must_exist()
        scope = (self.tenant, self.owner)
        with plait.open(self.db, durability=durability, read_only=not write, scope=scope) as sessions:
            yield sessions

    @property
    def writable(self) -> bool:
        """Whether the file may be written, and its folder, where SQLite keeps what is not in it yet."""
        return all(os.access(path, os.W_OK) for path in (self.db, os.path.dirname(os.path.abspath(self.db))))

    def _must_exist(self) -> None:
        if "://" in self.db or self.db == ":memory:" or os.path.exists(self.db):
            return
        remedy = "name one with --db PATH or PLAIT_DB, or make one with `plait import`"
        raise Failure(f"there is no database {self.shown}; {remedy}")


def find(sessions: plait.Sessions, place: Place, id: str | None) -> plait.SessionInfo:
    """The session with this id, given as it is or as it is printed; without an id, the latest one."""
    if id is None:
        return _latest(sessions, place)
    info = sessions.get(id)
    if info is None and "\\" in id:
        info = sessions.get(escape.plain_name(id))
    if info is None:
        remedy = "`plait ls` lists those there are"
        raise Failure(f"there is no session {escape.name(id) or 'of an empty name'} in {place.described}; {remedy}")
    return info


def find_message(session: plait.Session, id: str) -> str:
    """The id of an existing message, given as it is or as it is printed."""
    for candidate in (id, escape.plain_name(id)):
        if session.get(candidate) is not None:
            return candidate
    remedy = "`plait tree --ids` shows those there are"
    raise Failure(f"there is no message {escape.name(id)} in session {escape.name(session.id)}; {remedy}")


def given_text(argument: str) -> str:
    """A command-line argument as text, also where the locale could not decode its UTF-8."""
    return _UNDECODED.sub(lambda found: found[0].encode("ascii", "surrogateescape").decode(*_UTF8), argument)


def _latest(sessions: plait.Sessions, place: Place) -> plait.SessionInfo:
    page = sessions.list(limit=1)
    if not page.sessions:
        raise Failure(f"there are no sessions in {place.described}")
    info = page.sessions[0]
    if sys.stderr.isatty():
        sys.stderr.write(f"plait: the latest session, {escape.name(info.id)}\n")
    return info
