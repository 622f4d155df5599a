"""The process gone at every step of every operation: whole or absent, and the rest swept up."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from plait.store._sync import store as stores
from plait.store.plans import removal, stage
from plait.testing.faults import FaultVFS, invariants
from plait.testing.faults.vfs import Call
from tests.dose import dose
from tests.faults.operations import OPERATIONS, everything, outcomes, sweep
from tests.stores import open_sqlite

STEPS: tuple[Call, ...] = ("xWrite", "xSync", "xTruncate", "xDelete")
HARMLESS = {"stale overlays"}
RESERVING = {"import into a session", "import a branch that others had begun"}
"""They take their numbers first, so that a second try has higher ones."""
"""What the doctor tells of that need not come of a fault."""


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_process_that_dies_at_any_step_leaves_all_or_nothing(
    name: str, vfs: FaultVFS, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "BATCH_ROWS", 1)  # so that long operations have many steps
    monkeypatch.setattr(stores, "PURGE_ROWS", 1)
    monkeypatch.setattr(removal, "PART", 1)
    before, after = outcomes(OPERATIONS[name], prepared, tmp_path)
    kept = step_by_step(name, vfs, prepared, tmp_path)
    assert len(kept) > 2
    for folder in kept[:: dose(short=max(1, len(kept) // 5), soak=1)]:
        check(name, folder / "work.db", before, after)


def step_by_step(name: str, vfs: FaultVFS, prepared: Path, tmp_path: Path) -> list[Path]:
    """The files as they are just before each step of an operation, which is what a killed process leaves."""
    file, kept = tmp_path / "work.db", list[Path]()
    shutil.copyfile(prepared, file)

    def keep() -> None:
        folder = tmp_path / f"step{len(kept)}"
        folder.mkdir()
        for path in file, tmp_path / "work.db-wal":
            if path.exists():
                shutil.copyfile(path, folder / path.name)
        kept.append(folder)

    store = open_sqlite(file, durability="strict")
    for call in STEPS:
        vfs.on(call, keep, times=1_000_000)
    OPERATIONS[name](store)
    vfs.reset()
    store.close()
    return kept


def check(name: str, file: Path, before: Any, after: Any) -> None:
    """Hold that a file left behind is sound, whole or untouched, and that the work can be done again."""
    assert invariants(file) == []
    store = open_sqlite(file)
    found = everything(store)
    assert found in (before, after)
    assert {finding.kind for finding in store.doctor(fix=False)} <= HARMLESS
    store.close()
    sweep(file)
    store = open_sqlite(file)
    assert everything(store) == found
    if found == before and before != after:
        OPERATIONS[name](store)
        again = everything(store)
        assert again == after or (name in RESERVING and leaf_ids(again) == leaf_ids(after))
    store.close()
    assert invariants(file) == []


def leaf_ids(told: list[Any]) -> list[str]:
    """The ids of the session's leaves in what `everything` told."""
    return [leaf[0] for leaf in told[4]]
