"""`plait schema`: the SQL of a PostgreSQL store, to be read, changed or run by somebody else."""

from __future__ import annotations

import sys

from plait.cli import escape, failure
from plait.store.postgres import schema as postgres


def schema(distributed: str | None) -> int:
    """Print it; nothing is opened."""
    if distributed is not None and distributed not in postgres.DISTRIBUTED:
        known = ", ".join(postgres.DISTRIBUTED)
        raise failure.Failure(f"--distributed must be {known}, not {escape.name(distributed)}", failure.USAGE)
    sys.stdout.write(postgres.whole() if distributed is None else postgres.distributed(distributed))
    return failure.OK
