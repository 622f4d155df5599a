"""What a tsvector and a tsquery do not take: texts and queries of very many words, which are searched all the same."""

from __future__ import annotations

import pytest

import plait
from plait import Sessions

LONG = " ".join(f"word{n:060x}" for n in range(20_000))
"""More bytes of words than a tsvector takes, 1,048,575."""

MANY = " ".join(f"w{n:x}" for n in range(20_000))
"""More words than the server can join one after the other: its stack would be too deep."""


def test_a_text_of_very_many_words_is_found_by_its_first_and_keeps_nothing_else_from_being_found(
    sessions: Sessions,
) -> None:
    chat = sessions.session("chat").with_context("facts", kind="collection")
    chat.append_many([plait.user(f"tea and {LONG}", id="big"), plait.user("tea", id="small")])
    chat.context.put("facts", f"tea and {LONG}", key="big")
    chat.context.put("facts", "tea", key="small")
    assert {hit.id for hit in chat.search("tea")} == {"big", "small"}
    assert [hit.id for hit in chat.search(f"{LONG[:64]} {LONG[650:714]}")] == ["big"]
    assert "small" in (chat.context.search("facts", "tea") or "")
    assert "big" in (chat.context.search("facts", f"{LONG[:64]} {LONG[650:714]}") or "")
    assert sessions.doctor() == []


@pytest.mark.parametrize(
    ("query", "found"),
    [(LONG, []), (MANY, ["a", "b"]), (f'"{MANY}"', ["a", "b"]), ("悬空" * 10_000, [])],
    ids=["long", "many", "phrase", "spaceless"],
)
def test_a_query_of_very_many_words_is_an_answer(sessions: Sessions, query: str, found: list[str]) -> None:
    chat = sessions.session("chat")
    chat.append(plait.user(f"tea {MANY}", id="a"))
    assert [hit.id for hit in chat.search("tea")] == ["a"]
    chat.append(plait.user(f"tea {MANY}", id="b"))
    assert sorted(hit.id for hit in chat.search(query)) == found
