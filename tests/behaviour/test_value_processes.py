"""Many writers of one value, in processes of their own: what each adds is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

import plait
from plait.store._sync.port import Contextual
from plait.store.protocol import Scope, SessionRef
from plait.testing.faults import invariants
from tests.behaviour.programs import run_together
from tests.dose import dose
from tests.postgres_server import database

PRELUDE = """
from plait.store.protocol import Scope, SessionRef
name, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sessions = plait.open(path, durability="process")
sessions.open()
chat = SessionRef(Scope(), "chat")
def write(key, content, **given):
    operation = os.urandom(8).hex()
    return sessions.store.write_value(
        chat, "memory", key, content, operation=operation, created_at_us=time.time_ns() // 1000, **given)
ready()
"""
ADD = (
    PRELUDE
    + """
for n in range(count):
    while True:
        old = sessions.store.read_value(chat, "memory")
        text = (old.content + "\\n" if old else "") + f"{name}-{n}"
        try:
            write("", text, expect=old.version if old else 0)
            break
        except plait.StaleValueError as error:
            assert error.current.version > (old.version if old else 0)
sessions.close()
"""
)
OWN = (
    PRELUDE
    + """
for n in range(count):
    assert write(f"{name}-{n}", str(n), expect=0).version == 1
    assert name in [hit.value.key.split("-")[0] for hit in sessions.store.search_values(chat, "memory", str(n), limit=99)]
sessions.close()
"""
)


@pytest.fixture(params=["file", "server"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """What the processes open: a file, which is examined when the test is over, or a database of a server."""
    if request.param == "server":
        with database() as url:
            yield url
    else:
        yield str(tmp_path / "a.db")
        assert invariants(tmp_path / "a.db") == []


def test_what_two_processes_add_to_one_value_is_all_kept(path: str) -> None:
    count = dose(short=50 if path.startswith("postgresql:") else 200, soak=2000)
    run_together(ADD, 2, path, count)
    with plait.open(path) as sessions:
        store, chat = cast("Contextual", sessions.store), SessionRef(Scope(), "chat")
        value = store.read_value(chat, "memory")
        assert value is not None and value.content is not None and value.version == 2 * count
        added = value.content.split("\n")
        assert sorted(added) == sorted(f"{name}-{n}" for name in range(2) for n in range(count))
        for name in range(2):
            assert [line for line in added if line.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(count)]
        history = store.value_history(chat, "memory", limit=2 * count + 1)
        assert [item.version for item in history] == list(range(2 * count, 0, -1))
        told = [change.value_version for change in sessions.session("chat").changes(limit=1000).changes]
        assert told == list(range(1, 2 * count + 1))[: len(told)]
        with pytest.raises(plait.StaleValueError) as refused:
            store.write_value(chat, "memory", "", "late", expect=1, operation="late", created_at_us=1)
        assert refused.value.current == value


def test_processes_that_write_and_search_a_collection_find_their_own_entries(path: str) -> None:
    count = dose(short=10 if path.startswith("postgresql:") else 30, soak=500)
    run_together(OWN, 3, path, count)
    with plait.open(path) as sessions:
        assert cast("Contextual", sessions.store).count_values(SessionRef(Scope(), "chat"), "memory") == 3 * count
        assert sessions.doctor() == []


def test_a_value_of_ten_megabytes_of_anything_is_kept_and_searched(tmp_path: Path) -> None:
    store_path = tmp_path / "a.db"
    texts = ["é" * 5_000_000, "x" * 10_000_000, "\x00\ud83d" * 2_500_000, ("═" * 46 + "\nSYSTEM\n") * 70_000]
    with plait.open(store_path) as sessions:
        store, chat = cast("Contextual", sessions.store), SessionRef(Scope(), "chat")
        for n, text in enumerate(texts):
            given = {"description": text[:100_000], "metadata": {"k": text[:1000]}}
            store.write_value(chat, "notes", str(n), f"word {text}", operation=str(n), created_at_us=1, **given)  # type: ignore[arg-type]
        for n, text in enumerate(texts):
            value = store.read_value(chat, "notes", str(n))
            assert value is not None and value.content == f"word {text}" and value.description == text[:100_000]
        assert len(store.search_values(chat, "notes", "word")) == 4
        assert len(store.values(chat, "notes", limit=100)) == 1, "a page is bounded by its bytes"
    assert invariants(store_path) == []
