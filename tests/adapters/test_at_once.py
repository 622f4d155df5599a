"""Processes that write through an adapter at the same time, into a file that none of them has made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import plait
from tests.adapters.at_once import ADAPTERS, APP, ID, KEY, USER
from tests.dose import dose

N = dose(short=8, soak=200)


@pytest.mark.parametrize("name", ADAPTERS)
def test_two_processes_that_write_through_an_adapter_lose_nothing(name: str, tmp_path: Path) -> None:
    """B-027, B-029: no lock error, no half-made file, every message of both there once and in its order."""
    try:
        ADAPTERS[name]()
    except ImportError as missing:
        pytest.skip(f"needs a framework: {missing}")
    path = tmp_path / "a.db"
    command = [sys.executable, "-m", "tests.adapters.at_once", name, str(path)]
    processes = [
        subprocess.Popen(
            [*command, who, str(N)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for who in "ab"
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    with plait.open(path) as sessions:
        texts = [
            message.text
            for scope in (sessions, sessions.scoped(APP, USER), sessions.scoped("", KEY["project_key"]))
            for found in scope.all()
            if found.id.startswith(ID)
            for message in scope.session(found.id).transcript()
            if isinstance(message, plait.Message)
        ]
        for who in "ab":
            own = [text for text in texts if text.startswith(f"{who}-")]
            assert own == [f"{who}-{k}" for k in range(N)]
        assert sessions.doctor() == []
