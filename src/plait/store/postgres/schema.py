"""The schema as SQL, for whoever makes it by hand or spreads its tables."""

from __future__ import annotations

from plait.store.postgres.statements import migrations, own, read

DISTRIBUTED = {"citus": "citus.sql"}
"""The databases that tables can be spread in, and what spreads them."""


def whole() -> str:
    """Everything that the first `open` of an empty database makes."""
    statements = own()
    parts = [statements[name].text + ";" for name in ("make_schema", "make_meta", "start_schema")]
    for version, script in migrations():
        parts += [script.strip(), statements["note_schema"].text.replace(":version", str(version)) + ";"]
    return "BEGIN;\n\n" + "\n\n".join(parts) + "\n\nCOMMIT;\n"


def distributed(engine: str) -> str:
    """What spreads the tables of a schema that is there over the nodes of a database."""
    return read(DISTRIBUTED[engine])
