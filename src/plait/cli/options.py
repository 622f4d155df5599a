"""Options that many commands share, and what is made of them."""

from __future__ import annotations

import datetime as dt
import os
from typing import Annotated, NoReturn, overload

import typer

from plait.cli.failure import Failure
from plait.cli.place import DEFAULT_DB, Place, given_text

Db = Annotated[
    str | None, typer.Option("--db", metavar="PATH", help=f"The database; else PLAIT_DB, else {DEFAULT_DB}.")
]
Tenant = Annotated[str | None, typer.Option(metavar="TEXT", help="The tenant whose sessions are meant.")]
Owner = Annotated[str | None, typer.Option(metavar="TEXT", help="The owner whose sessions are meant.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Named = Annotated[str | None, typer.Argument(metavar="SESSION", help="The session's id; else the latest session.")]
Written = Annotated[
    str | None, typer.Argument(metavar="SESSION", help="The session's id, which must be named; plait ls lists them.")
]
Id = Annotated[
    str | None, typer.Option("--id", metavar="SESSION", help="The session's id, also one that begins with -.")
]
LeafId = Annotated[
    str | None, typer.Option("--leaf", metavar="ID", help="The path to this message, not to the active leaf.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def place_of(ctx: typer.Context, db: str | None, tenant: str | None, owner: str | None) -> Place:
    """The database and scope: of the command's own options, else of those before it, else of the environment."""
    root_db, root_tenant, root_owner = ctx.obj or (None, None, None)
    path = next((path for path in (db, root_db, os.environ.get("PLAIT_DB")) if path), DEFAULT_DB)
    whose = (tenant if tenant is not None else root_tenant, owner if owner is not None else root_owner)
    return Place(path, *(given_text(value or "") for value in whose))


def session_of(given: str | None, option: str | None, *, needed: bool = False) -> str | None:
    """The id that names a session, given in either of two ways; `None` if it may be left out and was."""
    if given is not None and option is not None:
        raise Failure("name the session once, as an argument or with --id", 2)
    named = text_of(given if given is not None else option)
    if needed and named is None:
        raise Failure("name a session; `plait ls` lists those there are", 2)
    return named


def text_of(value: str | None) -> str | None:
    """An argument as text, if it was given."""
    return None if value is None else given_text(value)


@overload
def at_most(value: int, most: int) -> int: ...


@overload
def at_most(value: int | None, most: int) -> int | None: ...


def at_most(value: int | None, most: int) -> int | None:
    """A number that says "at most": one that is too large for the system means all."""
    return None if value is None else min(value, most)


def time_of(name: str, value: str | None) -> dt.datetime | None:
    """A time as people type it: a date or a date with a time, in the reader's own zone unless it names one."""
    if value is None:
        return None
    try:
        return dt.datetime.fromisoformat(given_text(value)).astimezone()
    except (ValueError, OverflowError, OSError):
        raise Failure(f"{name} takes a date or time such as 2026-07-01, 2026-07-01T18:30 or ...T18:30Z", 2) from None


def end(code: int) -> NoReturn:
    """End the command with this exit code."""
    raise typer.Exit(code)
