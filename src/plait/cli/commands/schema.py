"""`plait schema`: the SQL of a PostgreSQL store, to be read, changed or run by somebody else."""

from __future__ import annotations

import sys

from plait.cli import escape, failure
from plait.errors import UsageError
from plait.store.postgres import schema as postgres


def schema(distributed: str | None, partitions: int | None, row_security: str | None) -> int:
    """Print it; nothing is opened."""
    if sum(option is not None for option in (distributed, partitions, row_security)) > 1:
        raise failure.Failure("--distributed, --partitions and --row-security exclude each other", failure.USAGE)
    if distributed is not None and distributed not in postgres.DISTRIBUTED:
        known = ", ".join(postgres.DISTRIBUTED)
        raise failure.Failure(f"--distributed must be {known}, not {escape.name(distributed)}", failure.USAGE)
    try:
        sys.stdout.write(_asked_for(distributed, partitions, row_security))
    except UsageError as error:
        raise failure.Failure(str(error), failure.USAGE) from error
    return failure.OK


def _asked_for(distributed: str | None, partitions: int | None, row_security: str | None) -> str:
    if distributed is not None:
        return postgres.distributed(distributed)
    return postgres.whole(partitions) if row_security is None else postgres.secured(row_security)
