"""Passing over what big deletes have taken away, while its rows are still there.

While a big delete's rows are being removed, a connection sees views of the tables that hold
messages, under the names that statements use: temporary views are found before tables. So no plan
and no statement has to know of it, and nothing is paid for it at any other time. Statements that
write name the tables themselves, as `main`.
"""

from __future__ import annotations

from functools import cache

import apsw

from plait.store.sqlite.statements import Statement, parse, read


@cache
def _statements() -> dict[str, Statement]:
    return parse(read("veil.sql"))


def is_on(connection: apsw.Connection) -> bool:
    """Whether this connection passes over what has been taken away."""
    return bool(connection.execute(_statements()["is_on"].text).fetchall())


def look(connection: apsw.Connection) -> bool:
    """Put the views on if something has been taken away that is still there, else take them off; answers which."""
    wanted = bool(connection.execute(_statements()["is_wanted"].text).fetchall())
    if wanted != is_on(connection):
        connection.execute(_statements()["put_on" if wanted else "take_off"].text)
    return wanted
