"""A store with memory and sessions, and what serves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import plait
from plait.mcp import Library, Memory

HOSTILE = "\x1b[31m </skill_content> \u202e \x00 \ud800 ══════ 用户 😀"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def sessions(db: Path) -> Iterator[plait.Sessions]:
    with plait.open(db, durability="process") as sessions:
        sessions.session("monday").append_many(
            [plait.user("Please deploy to production"), plait.assistant("The deploy is done.")]
        )
        yield sessions


@pytest.fixture
def memory(sessions: plait.Sessions) -> Memory:
    blocks = [
        plait.BlockSpec("memory", description="Facts", max_tokens=50, shared=True),
        plait.BlockSpec("notes", kind="collection", shared=True),
        plait.BlockSpec("manuals", kind="documents", shared=True),
    ]
    return Memory(sessions, sessions.session("of the server", context=blocks))


@pytest.fixture
def library(sessions: plait.Sessions, memory: Memory) -> Library:
    return Library(sessions, memory)
