"""The claim of a compaction while its summarizer takes its time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import plait
from plait._sync import compacting


def test_a_claim_is_renewed_while_the_summarizer_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "RENEW_SECONDS", 0.001)
    untils: list[int] = []
    renewed = threading.Event()
    before = set(threading.enumerate())
    with plait.open(tmp_path / "store.db") as sessions:
        chat = sessions.session("chat")
        chat.append_many([plait.user(f"message {n} with some words in it") for n in range(14)])
        store: Any = sessions.store
        claim = store.claim_compaction

        def noted(session: Any, token: str, *, until_us: int) -> bool:
            untils.append(until_us)
            if len(untils) == 3:
                renewed.set()
            return bool(claim(session, token, until_us=until_us))

        def summarize(prompt: str) -> str:
            assert renewed.wait(30)
            return "S"

        monkeypatch.setattr(store, "claim_compaction", noted)
        chat.on_compaction(plait.compact_function(summarize, keep_recent_tokens=0))
        assert chat.compact().done
        asked = len(untils)
        assert untils == sorted(untils) and asked >= 3
        assert not {thread for thread in set(threading.enumerate()) - before if thread.name == "plait-repeated"}
        assert len(untils) == asked
        monkeypatch.undo()
        assert claim(chat._ref, "another", until_us=untils[-1])  # the claim was given back
