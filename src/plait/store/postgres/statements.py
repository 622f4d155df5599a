"""The statements of this folder's SQL files, by name; numbered for the server, told of the session they are in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

from plait.store import scripts
from plait.store.plan import Row
from plait.store.postgres import adapt
from plait.store.postgres.homes import Where

_NAMED = re.compile(r"(?<![:a-z]):([a-z_]+)")
_VALUES = re.compile(r"VALUES\s*\(([^()]*)\)")
_FOLDER = os.path.dirname(__file__)

GIVEN: dict[str, Callable[[Where], Any]] = {
    "home": lambda where: where.home,
    "scope": lambda where: where.scope,
    "number": lambda where: where.number,
    "other_home": lambda where: where.other_home,
    "here": lambda where: adapt.home_word(where.home),
    "around": lambda where: adapt.scope_word(where.scope),
    "budget": lambda where: where.budget,
}
"""Parameters that no plan passes: the executor knows them from the session that a plan has taken."""

BATCH_SIZES = (64, 16, 4, 1)
"""How many rows a multi-row insert takes: few texts, so that few are prepared."""


class Statement:
    """One named statement: its text, and its parameters in the order they are given."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        found = dict.fromkeys(_NAMED.findall(text))
        self.parameters = [name for name in found if name not in GIVEN]
        self.given = {name for name in found if name in GIVEN}
        self.answers = text.lstrip().upper().startswith("SELECT") or "RETURNING" in text
        self.must_answer = name == "create_session"
        self.on_sessions = self.names_table("session")
        self._given = [GIVEN[name] for name in found if name in GIVEN]
        self._numbers = {name: n for n, name in enumerate([*(n for n in found if n in GIVEN), *self.parameters], 1)}
        self._adapters = [
            adapt.PARAMETERS.get((self.name, p)) or adapt.PARAMETERS.get(("", p)) for p in self.parameters
        ]
        self._plain = not any(self._adapters)
        self.text_columns = tuple(n for n, column in enumerate(_columns(text)) if column.endswith("body_text"))
        self.query = _NAMED.sub(lambda match: f"${self._numbers[match[1]]}", text).encode()

    def names_table(self, table: str) -> bool:
        """Whether the statement reads or writes a table."""
        return re.search(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+plait\.{table}\b", self.text) is not None

    def values(self, args: Sequence[Any], where: Where) -> list[Any]:
        """The parameters as the server is sent them."""
        return [*[given(where) for given in self._given], *self._adapted(args, where)]

    def many_values(self, rows: Sequence[Row], where: Where) -> list[Any]:
        """The parameters of as many rows."""
        values = [given(where) for given in self._given]
        for row in rows:
            values += self._adapted(row, where)
        return values

    def _adapted(self, args: Sequence[Any], where: Where) -> list[Any]:
        if self._plain:
            return [adapt.stored(value) if type(value) is str else value for value in args]
        return [
            adapter(value, where) if adapter is not None else adapt.stored(value) if type(value) is str else value
            for adapter, value in zip(self._adapters, args, strict=True)
        ]

    @cached_property
    def many(self) -> dict[int, bytes]:
        """The statement for each batch size, its VALUES row repeated that often."""
        row = _VALUES.search(self.text)
        if row is None:
            raise ValueError(f"{self.name} has no VALUES row to repeat")
        head, tail = self.text[: row.start()], self.text[row.end() :]
        texts: dict[int, bytes] = {}
        for size in BATCH_SIZES:
            rows = ", ".join(f"({self._numbered(row[1], n)})" for n in range(size))
            texts[size] = f"{head}VALUES {rows}{self._numbered(tail, 0)}".encode()
        return texts

    def _numbered(self, text: str, n: int) -> str:
        step, given = n * len(self.parameters), len(self._given)

        def number(match: re.Match[str]) -> str:
            found = self._numbers[match[1]]
            return f"${found + step if found > given else found}"

        return _NAMED.sub(number, text)


def _columns(text: str) -> list[str]:
    """The columns that a SELECT answers, as far as they are plain."""
    found = re.match(r"\s*SELECT\s+(.*?)\s+FROM\s", text, flags=re.DOTALL)
    return [column.strip() for column in found[1].split(",")] if found and "body_text" in found[1] else []


def parse(text: str) -> dict[str, Statement]:
    """The statements of a file."""
    return {name: Statement(name, statement) for name, statement in scripts.named(text).items()}


@cache
def load() -> dict[str, Statement]:
    """The statements that plans name."""
    return parse(read("queries.sql"))


@cache
def own() -> dict[str, Statement]:
    """The statements of the driver itself."""
    return parse(read("own.sql"))


def migrations() -> list[tuple[int, str]]:
    """The migrations in order: (version, script)."""
    return scripts.numbered(os.path.join(_FOLDER, "migrations"))


def read(*path: str) -> str:
    """The text of a file beside this module."""
    return scripts.read(_FOLDER, *path)
