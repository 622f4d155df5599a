"""A real coding session under compaction: each view is legal and small enough, the transcript stays byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

import plait
from plait import interchange
from tests.dose import dose
from tests.unit.conversations import faults

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "pi-session-v1.jsonl"
WINDOW = 50_000


def extract(prompt: str) -> str:
    """The first words of what was said: the same for the same prompt."""
    lines = [line[:80] for line in prompt.splitlines() if line and not line.startswith("[")]
    return "Goal: " + " | ".join(lines[-40:])


@pytest.mark.skipif(not DATA.exists(), reason="the recorded session is not here")
def test_a_recorded_session_is_compacted_at_a_window_of_50_000_tokens(file_path: Path) -> None:
    (transcript,) = list(interchange.read(DATA))
    every = dose(short=64, soak=1)
    calls = 0

    def summarize(prompt: str) -> str:
        nonlocal calls
        calls += 1
        return extract(prompt)

    with plait.open(file_path, durability="process") as sessions:
        inserted = sessions.import_transcript(transcript, id="source").inserted
        source = list(sessions.session("source").transcript())
        chat = sessions.session("chat")
        chat.on_compaction(plait.compact_function(summarize))
        chat.compact_after(WINDOW * 85 // 100)  # not by its recorded usage, which is that of the uncompacted original
        for n, message in enumerate(source):
            assert isinstance(message, plait.Message)
            chat.append(message)
            assert chat.compaction_state().paused is None
            assert chat.totals().view_tokens < WINDOW
            if n % every == 0:
                assert faults(shown for shown in chat.history(for_model=True) if isinstance(shown, plait.Message)) == []
        told = [message.to_json() for message in chat.transcript() if isinstance(message, plait.Message)]
        assert told == [message.to_json() for message in source if isinstance(message, plait.Message)]
        assert len(told) == inserted
        assert 3 <= calls <= 60
        assert len(chat.overlays(all=True)) >= 3


@pytest.fixture
def file_path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"
