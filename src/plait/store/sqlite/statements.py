"""The statements of `queries.sql`, by name; the only SQL there is beside the migrations."""

from __future__ import annotations

import os
import re
from functools import cache, cached_property

from plait.store import scripts

_NAMED = re.compile(r"(?<![:a-z]):([a-z_]+)")
_VALUES = re.compile(r"VALUES\s*\(([^()]*)\)")
_TABLES = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)")

_FOLDER = os.path.dirname(__file__)

BATCH_SIZES = (64, 16, 4, 1)
"""How many rows a multi-row insert takes: few texts, so that the statement cache keeps them."""


class Statement:
    """One named statement: its text, its parameters in the order they are given."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.parameters = list(dict.fromkeys(_NAMED.findall(text)))
        tables = set(_TABLES.findall(text))
        self.batches = (1,) if tables & {"message_words", "value_words"} else BATCH_SIZES
        """In how many rows at a time it is sent; FTS5 takes them one by one half as fast again."""
        self.on_sessions = "session" in tables
        """Whether it reads or writes the rows of sessions."""

    @cached_property
    def many(self) -> dict[int, str]:
        """The statement for each batch size, its VALUES row repeated that often."""
        row = _VALUES.search(self.text)
        if row is None:
            raise ValueError(f"{self.name} has no VALUES row to repeat")
        plain = "(" + _NAMED.sub("?", row[1]) + ")"
        head, tail = self.text[: row.start()], self.text[row.end() :]
        return {size: f"{head}VALUES {','.join([plain] * size)}{tail}" for size in BATCH_SIZES}


def parse(text: str) -> dict[str, Statement]:
    """The statements of a file."""
    return {name: Statement(name, statement) for name, statement in scripts.named(text).items()}


@cache
def load() -> dict[str, Statement]:
    """The driver's statements, read once."""
    return parse(read("queries.sql"))


def migrations() -> list[tuple[int, str]]:
    """The migrations in order: (version, script)."""
    return scripts.numbered(os.path.join(_FOLDER, "migrations"))


def bridges() -> list[tuple[int, str]]:
    """What a connection that may not migrate does instead, so that statements find what they name."""
    return scripts.numbered(os.path.join(_FOLDER, "bridges"))


def read(*path: str) -> str:
    """The text of a file beside this module."""
    return scripts.read(_FOLDER, *path)
