"""A Ctrl-C at the worst moment of a write: nobody is kept waiting for ever."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.testing.faults import invariants
from tests.behaviour.values import note


class Interrupted:
    """A lock during whose taking an interrupt arrives, before or just after it is taken."""

    def __init__(self, lock: Any, *, taken: bool) -> None:
        self._lock = lock
        self._taken = taken
        self.release = lock.release

    def acquire(self, blocking: bool = True) -> bool:
        if self._taken:
            self._lock.acquire(blocking)
        raise KeyboardInterrupt


def free(lock: Any) -> bool:
    """Whether another thread gets the lock."""
    got: list[bool] = []

    def take() -> None:
        got.append(lock.acquire(timeout=20))
        lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return got == [True]


@pytest.mark.parametrize("taken", [True, False])
def test_an_interrupt_while_the_gate_is_taken_leaves_it_free(tmp_path: Path, taken: bool) -> None:
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        chat.append(note("a"))
        writer: Any = sessions.store.driver._writer  # type: ignore[attr-defined]
        gate = writer.gate
        writer.gate = Interrupted(gate, taken=taken)
        with pytest.raises(KeyboardInterrupt):
            chat.append(note("lost"))
        writer.gate = gate
        assert free(gate)
        chat.append(note("b"))
        assert [message.id for message in chat.history()] == ["a", "b"]
    assert invariants(tmp_path / "a.db") == []


@pytest.mark.parametrize("step", ["begin", "run", "flush", "commit"])
def test_an_interrupt_within_a_write_undoes_it_whole(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a second one interrupts the undoing: the next write finds the transaction open, and ends it."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        chat.append(note("a"))
        writer: Any = sessions.store.driver._writer  # type: ignore[attr-defined]
        writing = writer.writing
        with monkeypatch.context() as patch:
            begin = writing.begin
            patch.setattr(writing, step, (lambda: (begin(), interrupt())) if step == "begin" else interrupt)
            patch.setattr(writing, "rollback", interrupt)
            with pytest.raises(KeyboardInterrupt):
                chat.append(note("lost"))
        assert free(writer.gate)
        assert chat.append(note("b")).parent_id == "a"
    assert invariants(tmp_path / "a.db") == []
