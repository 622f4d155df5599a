"""Asking a server by a connection of one's own, as its upkeep does; the work of sessions goes through pools and plans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol, TypeVar

import psycopg

from plait.store.plan import PlanFactory, Row
from plait.store.postgres import adapt
from plait.store.postgres.homes import Where
from plait.store.postgres.statements import Statement, parse, read

T = TypeVar("T")
ROWS = 200
BYTES = 4 << 20
"""How much of a session is looked at in one transaction."""


class Reader(Protocol):
    """What runs a plan in a snapshot."""

    def read(self, plan: PlanFactory[T]) -> T: ...


@cache
def statements(name: str) -> dict[str, Statement]:
    """The statements of a file, by their names."""
    return parse(read(name))


def rows_of(
    connection: psycopg.Connection[Any], statement: Statement, args: Sequence[Any] = (), where: Where | None = None
) -> list[Row]:
    """The rows of a statement, as plans know them."""
    cursor = connection.execute(statement.query, statement.values(args, where or Where()) or None)
    if cursor.description is None:
        return []
    return [tuple(adapt.shown(v) if type(v) is str else v for v in row) for row in cursor.fetchall()]
