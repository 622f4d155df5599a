"""The schema as SQL, for whoever makes it by hand, parts or spreads its tables, or hides a scope's rows from other roles."""

from __future__ import annotations

import re

from plait.errors import UsageError
from plait.store.postgres.statements import migrations, own, read

DISTRIBUTED = {"citus": "citus.sql"}
"""The databases that tables can be spread in, and what spreads them."""

PARTED = frozenset(
    [
        "message",
        "message_id",
        "slice",
        "attachment_ref",
        "change",
        "message_words",
        "value_text",
        "value_slice",
        "value_words",
        "record",
        "chunk",
    ]
)
"""The tables that grow with what is said, each parted by the first column of its key."""

MAX_PARTITIONS = 1024

_TABLE = re.compile(r"(CREATE TABLE plait\.(\w+) \(\n\s*(\w+).*?\n\))([^;\n]*);", re.DOTALL)
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def whole(partitions: int | None = None) -> str:
    """Everything that the first `open` of an empty database makes, the tables that grow in so many parts."""
    statements = own()
    parts = [statements[name].text + ";" for name in ("make_schema", "make_meta", "start_schema")]
    for version, script in migrations():
        script = script if partitions is None else parted(script, partitions)
        parts += [script.strip(), statements["note_schema"].text.replace(":version", str(version)) + ";"]
    return "BEGIN;\n\n" + "\n\n".join(parts) + "\n\nCOMMIT;\n"


def parted(script: str, partitions: int) -> str:
    """A migration that makes tables in parts."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise UsageError(f"partitions must be between 1 and {MAX_PARTITIONS}, not {partitions}")

    def part(match: re.Match[str]) -> str:
        made, table, first, _ = match.groups()
        if table not in PARTED:
            return match[0]
        parts = [
            f"CREATE TABLE plait.{table}_{n} PARTITION OF plait.{table} FOR VALUES WITH (MODULUS {partitions}, REMAINDER {n});"
            for n in range(partitions)
        ]
        return "\n".join([f"{made} PARTITION BY HASH ({first});", *parts])

    return _TABLE.sub(part, script)


def distributed(engine: str) -> str:
    """What spreads the tables of a schema that is there over the nodes of a database."""
    return read(DISTRIBUTED[engine])


def secured(role: str) -> str:
    """What lets the members of a role see and write their own scopes only, in a schema that is there."""
    if not _ROLE.fullmatch(role):
        raise UsageError("a role is named by letters, digits and _, not beginning with a digit")
    return read("row_security.sql").replace("{role}", f'"{role}"')
