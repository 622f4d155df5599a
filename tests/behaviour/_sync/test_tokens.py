"""Generated from tests/behaviour/_async/test_tokens.py by tools/unasync.py: edit that file. Token estimates: stamped at write, high for every script, media at a fixed cost, the user's counter if it works."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import Session, Sessions, Message, StaleValueError
from plait._sync.stamping import restamping
from plait.testing.faults import invariants
from tests.behaviour._sync.helpers import readable
from tests.behaviour.values import noise, note, picture


def tokens(chat: Session, message: Mapping[str, Any]) -> int:
    result = chat.append(message)
    stored = readable(chat.get(result.id))
    assert stored.tokens == result.message.tokens
    return stored.tokens


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("重" * 1000, 700),
        ("한" * 1000, 700),
        ("あ" * 1000, 700),
        ("word " * 1000, 1000),
        ("🧵" * 1000, 1000),
        ("ก" * 1000, 700),
        ("x" * 1000, 250),
    ],
    ids=["chinese", "korean", "japanese", "latin", "emoji", "thai", "one long word"],
)
def test_no_script_is_counted_low(chat: Session, text: str, least: int) -> None:
    """B-080: four characters to a token holds for Latin text only."""
    assert tokens(chat, note("m", text)) >= least


def test_media_have_a_cost_that_does_not_grow_with_their_size(chat: Session) -> None:
    """B-080: neither nothing, nor their base64 as text; also in a tool's output."""
    small, large = tokens(chat, picture("s", noise(1000))), tokens(chat, picture("l", noise(2_000_000)))
    assert 500 < small == large < 5000
    nested = {
        "id": "n",
        "role": "tool",
        "parts": [
            {
                "type": "tool-x",
                "output": {
                    "content": [
                        {"type": "media", "mediaType": "image/png", "data": base64.b64encode(noise(2_000_000)).decode()}
                    ]
                },
            }
        ],
    }
    assert 500 < tokens(chat, nested) < 5000


def test_base64_that_is_text_is_counted_as_text(chat: Session) -> None:
    """B-080"""
    text = base64.b64encode(noise(2_000_000)).decode()
    assert (
        tokens(chat, {"id": "m", "role": "tool", "parts": [{"type": "tool-x", "output": text}]}) >= len(text) // 4
    )


def test_a_message_without_words_costs_little_and_more_words_cost_more(chat: Session) -> None:
    empty = tokens(chat, {"role": "user", "parts": []})
    few = tokens(chat, note("few", "a few words"))
    many = tokens(chat, note("many", "a few words " * 50))
    assert 0 < empty < 20 and empty <= few < many


def failing(message: Mapping[str, Any]) -> float:
    raise RuntimeError("no counter today")


BAD_COUNTERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "raises": failing,
    "negative": lambda message: -1,
    "nan": lambda message: float("nan"),
    "infinite": lambda message: float("inf"),
    "none": lambda message: None,
    "text": lambda message: "many",
    "changes the message": lambda message: message["parts"].clear() or -1,
}


@pytest.mark.parametrize("counter", BAD_COUNTERS.values(), ids=BAD_COUNTERS)
def test_a_bad_counter_never_breaks_an_append_and_the_estimate_stands_in(tmp_path: Path, counter: Any) -> None:
    """B-080"""
    with plait.open(tmp_path / "plain.db", durability="process") as sessions:
        expected = tokens(sessions.session("chat"), note("m", "some words here"))
    with plait.open(tmp_path / "bad.db", durability="process", counter=counter) as sessions:
        chat = sessions.session("chat")
        stamped = tokens(chat, note("m", "some words here"))
        assert readable(chat.get("m")).to_dict() == note("m", "some words here")
        assert stamped == expected or counter is BAD_COUNTERS["changes the message"]
        assert (chat.totals()).tokens == stamped > 0


def test_a_users_counter_is_stamped_and_follows_updates(tmp_path: Path) -> None:
    with plait.open(
        tmp_path / "a.db", durability="process", counter=lambda message: len(message["parts"]) + 0.5
    ) as sessions:
        chat = sessions.session("chat")
        assert tokens(chat, note("a")) == 2  # rounded up
        assert tokens(chat, {"id": "b", "role": "user", "parts": []}) == 1
        chat.update({**note("a"), "parts": [{"type": "x"}] * 9})
        assert [stat.tokens for stat in chat.path_stats()] == [10, 1]
        assert (chat.totals()).path_tokens == 11


def test_another_counter_counts_what_was_written_before_anew(chat: Session, file: Path) -> None:
    """Stamps and every total that is made of them change; content, version, feed and order stay."""
    for n in range(30):
        chat.append(note(f"m{n}", "word " * (n + 1)))
    chat.append(note("b", "on a branch"), parent="m4")
    chat.checkout("m29")
    chat.add_overlay("m3", "m6", summary="four words are here")
    chat.add_overlay("m2", "m9", summary="two words")
    chat.omit("m20")
    version, cursor = (chat.info()).version, chat.cursor()  # type: ignore[union-attr]
    before = [message.to_json() for message in chat.transcript() if isinstance(message, Message)]
    chat.compact_after(None, counter=lambda message: 100 * len(message["parts"][0]["text"].split()))
    assert chat.restamp_tokens() == 33
    assert chat.restamp_tokens() == 0
    words = [100 * (n + 1) for n in range(30)]
    assert [stat.tokens for stat in chat.path_stats(raw=True)] == words
    shown = [*words[:2], 200, *words[10:20], *words[21:]]
    assert [stat.tokens for stat in chat.path_stats()] == shown
    totals = chat.totals()
    assert (totals.tokens, totals.path_tokens, totals.view_tokens) == (sum(words) + 300, sum(words), sum(shown))
    window = chat.recent(leaf="b")
    assert (window.total_tokens, window.view_tokens) == (sum(words[:5]) + 300,) * 2
    assert [overlay.tokens for overlay in chat.overlays()] == [400, 200, 0]
    assert [overlay.stale for overlay in chat.overlays()] == [False] * 3
    assert (chat.info()).version == version and not (chat.changes(after=cursor)).changes  # type: ignore[union-attr]
    assert [message.to_json() for message in chat.transcript() if isinstance(message, Message)] == before
    for overlay in chat.overlays():
        chat.remove_overlay(overlay.id)
    totals = chat.totals()
    assert totals.view_tokens == totals.path_tokens == sum(words)
    assert invariants(file) == []


def test_a_message_changed_while_it_is_counted_anew_is_counted_again(
    sessions: Sessions, chat: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.append_many([note(f"m{n}") for n in range(3)])
    restamp, tries = restamping(sessions.store).restamp, list[int]()

    def beside(*args: Any, **options: Any) -> int:
        tries.append(1)
        if len(tries) == 1:
            chat.update(note("m1", "one two three"))
        return restamp(*args, **options)

    monkeypatch.setattr(sessions.store, "restamp", beside)
    chat.compact_after(None, counter=lambda message: 10 * len(message["parts"][0]["text"].split()))
    chat.restamp_tokens()
    assert len(tries) == 2
    assert [stat.tokens for stat in chat.path_stats()][1] == 30
    tries.clear()
    monkeypatch.setattr(sessions.store, "restamp", always_stale)
    chat.compact_after(None, counter=lambda message: 7)
    with pytest.raises(StaleValueError):
        chat.restamp_tokens()


def always_stale(*args: Any, **options: Any) -> int:
    raise StaleValueError("it changed again")


def test_counting_anew_finds_nothing_to_do_in_a_session_that_is_not_there(chat: Session) -> None:
    assert chat.restamp_tokens() == 0
    assert chat.info() is None
