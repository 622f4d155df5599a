"""A disk that fails, and a process that ends, at every step of what the search index does: no hit is lost or left over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from plait.errors import StoreError
from plait.model import LEAF
from plait.store._sync.port import Searchable, Store
from plait.store.plans import indexing
from plait.store.protocol import Search
from plait.testing.faults import FaultVFS, invariants
from plait.testing.faults.vfs import Call, Error
from tests.dose import dose
from tests.faults.operations import SCOPE, new, ref
from tests.faults.test_every_step import HARMLESS
from tests.stores import open_sqlite

EVERY = dose(short=4, soak=100_000)
"""How many steps of an operation fail one by one before the rest is sampled."""

FAULTS: list[tuple[Call, Error, int, bool]] = [
    ("xWrite", "FULL", 1_000_000, False),
    ("xWrite", "IOERR", 1_000_000, True),
    ("xSync", "IOERR", 1, False),
    ("xRead", "IOERR", 1, False),
    ("xWrite", "IOERR", 1, False),
]
WORDS = ("text", "late", "changed", "空")


def find(store: Store) -> list[list[str]]:
    """The messages that a search finds for each of some words, in all sessions."""
    searched = cast("Searchable", store)
    return [
        [f"{hit.session_id}/{hit.id}" for hit in searched.search(SCOPE, Search(word, limit=100, newest_first=True))]
        for word in WORDS
    ]


def build(store: Store, *, rebuild: bool) -> int:
    return cast("Searchable", store).build_search_index(rebuild=rebuild, progress=None)


OPERATIONS: dict[str, Callable[[Store], Any]] = {
    "catch up": find,
    "build": lambda store: build(store, rebuild=False),
    "rebuild": lambda store: build(store, rebuild=True),
    "append": lambda store: store.append(ref(), [new("x", "late text")], parent=LEAF),
    "append to a new session": lambda store: store.append(ref("new"), [new("x", "late 悬空")], parent=LEAF),
    "update": lambda store: store.update(ref(), new("b", "changed")),
    "update what is behind": lambda store: store.update(ref(), new("late", "changed")),
    "delete": lambda store: store.delete(ref(), ["b", "late"]),
    "clear": lambda store: store.clear(ref()),
    "delete session": lambda store: store.delete_session(ref()),
    "fork": lambda store: store.fork(ref(), ref("copy"), at=None, created_at_us=10),
}


@pytest.fixture
def behind(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database of `operations`, indexed, with messages since that are not."""
    monkeypatch.setattr(indexing, "STEP_ROWS", 2)
    store = open_sqlite(prepared)
    find(store)
    store.append(ref(), [new("late", "late text"), new("空", "悬空 text")], parent=LEAF)
    store.update(ref(), new("c", "changed text"))
    store.delete(ref(), ["a"])
    store.close()
    return prepared


@pytest.mark.parametrize(("call", "error", "times", "torn"), FAULTS[: dose(short=2, soak=len(FAULTS))])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_search_is_right_whatever_step_failed(
    name: str, call: Call, error: Error, times: int, torn: bool, vfs: FaultVFS, behind: Path, tmp_path: Path
) -> None:
    expected = outcomes(OPERATIONS[name], behind, tmp_path)
    nth, fired = 1, True
    while fired:
        file = tmp_path / f"{nth}.db"
        shutil.copyfile(behind, file)
        store = open_sqlite(file, durability="strict")
        store.get(ref(), "b")
        vfs.fail(call, error=error, nth=nth, times=times, torn=torn)
        failed = attempt(store, OPERATIONS[name])
        fired = vfs.fired > 0
        vfs.reset()
        check(store, file, expected[1:] if not failed else expected)
        nth += 1 if nth < EVERY else nth // 2
    assert not failed


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_search_is_right_whatever_step_a_process_died_at(
    name: str, vfs: FaultVFS, behind: Path, tmp_path: Path
) -> None:
    expected = outcomes(OPERATIONS[name], behind, tmp_path)
    file, kept = tmp_path / "work.db", list[Path]()
    shutil.copyfile(behind, file)

    def keep() -> None:
        folder = tmp_path / f"step{len(kept)}"
        folder.mkdir()
        for path in file, tmp_path / "work.db-wal":
            if path.exists():
                shutil.copyfile(path, folder / path.name)
        kept.append(folder)

    store = open_sqlite(file, durability="strict")
    for call in ("xWrite", "xSync"):
        vfs.on(call, keep, times=1_000_000)
    OPERATIONS[name](store)
    vfs.reset()
    store.close()
    assert len(kept) > 2
    for folder in kept[:: dose(short=max(1, len(kept) // 6), soak=1)]:
        check(open_sqlite(folder / "work.db"), folder / "work.db", expected)


def outcomes(operation: Callable[[Store], Any], behind: Path, folder: Path) -> list[list[list[str]]]:
    """What searches find before and after an operation on which nothing fails."""
    shutil.copyfile(behind, folder / "before.db")
    shutil.copyfile(behind, folder / "after.db")
    store = open_sqlite(folder / "before.db")
    found = [find(store)]
    store.close()
    store = open_sqlite(folder / "after.db")
    operation(store)
    found.append(find(store))
    store.close()
    return found


def attempt(store: Store, operation: Callable[[Store], Any]) -> bool:
    """Whether the operation failed; with an error of plait's, as it must."""
    try:
        operation(store)
    except StoreError:
        return True
    return False


def check(store: Any, file: Path, expected: list[list[list[str]]]) -> None:
    """Hold that searches find one of what is expected, at once and anew, and that the index is sound."""
    found = find(store)
    assert found in expected
    assert {finding.kind for finding in store.doctor(fix=False)} <= HARMLESS
    store.close()
    assert invariants(file) == []
    store = open_sqlite(file)
    assert find(store) == found
    store.close()
    file.unlink()
