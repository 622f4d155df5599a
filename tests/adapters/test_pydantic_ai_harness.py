"""Memory files and media of Pydantic AI's harness on plait, held against its own stores in memory and on disk."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai_harness.memory", reason="needs the harness: pip install 'plait[pydantic-ai-harness]'")

from pydantic_ai_harness.media import DiskMediaStore, MediaContext
from pydantic_ai_harness.media import MediaStore as MediaProtocol
from pydantic_ai_harness.memory import (
    InMemoryStore,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MetadataMemoryStore,
    SearchableMemoryStore,
)

import plait
from plait.adapters.pydantic_ai_harness import MediaStore, MemoryStore
from tests.dose import dose


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[plait.AsyncSessions]:
    async with plait.open_async(store_at) as opened:
        yield opened


@pytest.fixture
def store(sessions: plait.AsyncSessions) -> MemoryStore:
    return MemoryStore(sessions.session("c"))


def test_the_stores_are_what_the_harness_asks_for(store: MemoryStore, sessions: plait.AsyncSessions) -> None:
    assert isinstance(store, MetadataMemoryStore) and isinstance(store, SearchableMemoryStore)
    assert isinstance(MediaStore(sessions.session("media")), MediaProtocol)


PATHS = ["notes/a.md", "notes/b.md", "notes/deep/c.md", "top.md", "../up", "", "a/./b", "x y"]
WORDS = ["tea", "coffee", "Tea tea", "", "日本", "tea and coffee, " * 20]
METADATA: list[Any] = [None, None, {}, {"by": "ada"}, {"k": 1}, {"k": "\x00"}, {"k": "x" * 5000}]


async def outcome(work: Any) -> Any:
    try:
        return await work
    except (MemoryConflictError, MemoryOperationConflictError, ValueError, TypeError) as error:
        kind = type(error)
        return next(known for known in (ValueError, TypeError, kind) if issubclass(kind, known))


@pytest.mark.parametrize("seed", range(dose(short=3, soak=300)))
async def test_random_operations_have_the_answers_and_the_conflicts_of_the_store_in_memory(
    store: MemoryStore, seed: int
) -> None:
    rng, theirs = random.Random(seed), InMemoryStore()
    all_versions: dict[str, dict[str | None, str | None]] = {}
    for _ in range(60):
        path, content, metadata = rng.choice(PATHS), rng.choice(WORDS), rng.choice(METADATA)
        operation = rng.choice([None, MemoryOperation(f"o{rng.randrange(8)}", rng.choice(["f", "f", "g"]))])
        versions = all_versions.setdefault(path, {None: None, "999": "999", "odd": "odd"})
        now = await outcome(theirs.read(path, max_chars=10))
        stands = getattr(now, "version", None)
        expected = rng.choice([stands, stands, stands, *versions])
        ours_expected = versions.get(expected, "999")
        match rng.choice(["write", "write", "metadata", "delete", "read", "list", "search", "operation"]):
            case "write":
                calls = [
                    s.write(path, content, expected_version=e, operation=operation)
                    for s, e in two(theirs, store, expected, ours_expected)
                ]
            case "metadata":
                calls = [
                    s.write_with_metadata(path, content, expected_version=e, metadata=metadata, operation=operation)
                    for s, e in two(theirs, store, expected, ours_expected)
                ]
            case "delete":
                calls = [
                    s.delete(path, expected_version=e, operation=operation)
                    for s, e in two(theirs, store, expected, ours_expected)
                ]
            case "read":
                calls = [s.read(path, max_chars=rng_chars) for s, rng_chars in two(theirs, store, 5, 5)]
            case "list":
                calls = [s.list_paths("notes/", limit=n) for s, n in two(theirs, store, 2, 2)]
            case "search":
                bounds = {"limit": 2, "max_files": 3, "max_chars": 40, "max_file_chars": 100}
                calls = [s.search("notes/", "tea coffee", **bounds) for s in (theirs, store)]
            case _:
                op = operation or MemoryOperation("o0", "f")
                calls = [s.get_operation(op) for s in (theirs, store)]
        one, other = [await outcome(call) for call in calls]
        if hasattr(one, "version") and one is not None and other is not None:
            if not getattr(one, "replayed", False):
                assert versions.setdefault(one.version, other.version) == other.version
            one, other = (without_version(found) for found in (one, other))
        assert one == other
    assert await store.list_paths(limit=100) == await theirs.list_paths(limit=100)


def two(theirs: Any, ours: Any, one: Any, other: Any) -> list[tuple[Any, Any]]:
    return [(theirs, one), (ours, other)]


def without_version(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__dataclass_fields__ if name != "version"}


async def test_an_operation_repeated_after_a_lost_answer_is_done_once(
    sessions: plait.AsyncSessions, store: MemoryStore
) -> None:
    operation = MemoryOperation("o", "f")
    done = await store.write("a.md", "one", expected_version=None, operation=operation)
    again = await MemoryStore(sessions.session("c")).write("a.md", "one", expected_version=None, operation=operation)
    assert (again.version, again.replayed, again.existed) == (done.version, True, False)
    await store.write("a.md", "two", expected_version=done.version)
    assert (await store.write("a.md", "one", expected_version=None, operation=operation)).replayed
    assert (await store.read("a.md", max_chars=9)).content == "two"  # type: ignore[union-attr]


async def test_a_deletion_repeated_after_a_lost_answer_is_done_once(
    sessions: plait.AsyncSessions, store: MemoryStore
) -> None:
    first = await store.write("a.md", "one", expected_version=None)
    operation = MemoryOperation("o", "f")
    gone = await store.delete("a.md", expected_version=first.version, operation=operation)
    again = MemoryStore(sessions.session("c"))
    repeated = await again.delete("a.md", expected_version=first.version, operation=operation)
    assert (repeated.version, repeated.replayed, repeated.existed) == (gone.version, True, True) == (None, True, True)
    assert await again.get_operation(operation) == repeated
    await store.write("a.md", "two", expected_version=None)
    assert (await again.delete("a.md", expected_version=first.version, operation=operation)).replayed
    assert await again.list_paths(limit=9) == ["a.md"]


async def test_of_writers_at_once_one_wins(store: MemoryStore) -> None:
    first = await store.write("a.md", "0", expected_version=None)
    writes = [store.write("a.md", str(n), expected_version=first.version) for n in range(1, 9)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(one, MemoryConflictError) for one in outcomes) == 7


async def test_memory_files_are_documents_of_the_sessions_context(
    sessions: plait.AsyncSessions, store: MemoryStore
) -> None:
    await store.write("notes/tea.md", "Dark, no sugar.", expected_version=None)
    chat = sessions.session("c")
    assert await chat.context.load("memories", "notes/tea.md") == "Dark, no sugar."
    assert "notes/tea.md" in await chat.freeze_system_prompt()
    assert "operation" not in await chat.freeze_system_prompt()


@pytest.mark.parametrize("media_type", ["image/png", "text/plain", None])
async def test_media_is_there_once_and_comes_back_as_from_a_disk(
    sessions: plait.AsyncSessions, tmp_path: Path, media_type: str | None
) -> None:
    ours, theirs = MediaStore(sessions.session("media")), DiskMediaStore(tmp_path / "media")
    context = MediaContext(media_type=media_type, filename="a", metadata={"by": "ada"})
    for data in (b"", b"\xff\xfe" * 9, b"text"):
        uris = [await store.put(data, context=context) for store in (ours, theirs, ours)]
        assert len(set(uris)) == 1
        assert await ours.get(uris[0]) == await theirs.get(uris[0]) == data
        assert await ours.get_metadata(uris[0]) == await theirs.get_metadata(uris[0]) == {"by": "ada"}
        assert await ours.exists(uris[0]) and await ours.public_url(uris[0]) is None
    absent = "media+sha256://" + "0" * 64
    assert not await ours.exists(absent)
    for store in (ours, theirs):
        with pytest.raises(FileNotFoundError):
            await store.get(absent)
        with pytest.raises(FileNotFoundError):
            await store.get_metadata(absent)
        with pytest.raises(ValueError):
            await store.get("media+sha256://x")


async def test_a_url_is_what_the_caller_says(sessions: plait.AsyncSessions) -> None:
    async def later(uri: str, context: MediaContext) -> str:
        return f"https://cdn/{uri[-4:]}"

    store = MediaStore(sessions.session("media"), public_url=later)
    uri = await store.put(b"x")
    assert await store.public_url(uri) == f"https://cdn/{uri[-4:]}"
