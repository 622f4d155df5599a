"""A failing disk, short slices, and a small database for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from plait.logic import slices
from plait.testing.faults import FaultVFS
from tests.faults import operations


@pytest.fixture
def vfs() -> Iterator[FaultVFS]:
    with FaultVFS() as vfs:
        yield vfs


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database of `operations`, whose messages are cut into short slices."""
    for name in ("fits", "cut"):
        monkeypatch.setattr(slices, name, partial(getattr(slices, name), budget_bytes=operations.SLICE_BYTES))
    file = tmp_path / "prepared.db"
    operations.prepare(file)
    return file
