"""Generated from tests/behaviour/_async/test_many_words.py by tools/unasync.py: edit that file. Queries of very many different words, wherever a query is taken: answers, of what holds them all, and soon."""

from __future__ import annotations

import pytest

import plait
from plait import Session, Sessions
from plait.logic import words
from tests.dose import dose

pytestmark = pytest.mark.timeout(dose(short=120, soak=1800))  # a million words take some ten seconds a search

MANY = dose(short=10_000, soak=words.MOST_WORDS)
MANY_OF_A_SERVER = 60_000
"""Of a text with more different words a server's index has the first: see docs/howto/postgresql.md."""


class Pile:
    """Texts of very many words, no two with the same stem; queries of them, each with what holds it."""

    def __init__(self, many: int) -> None:
        each = [f"w{n}" for n in range(many)]
        whole = " ".join(each)
        pairs = " ".join(f"{one}-{other}" for one, other in zip(each[::2], each[1::2], strict=True))
        # One lacks the last: the index, asked for the first ones, cannot tell it from what has them all.
        short, turned = " ".join(each[:-1]), " ".join(reversed(each))
        self.texts = {"all": whole, "short": short, "reversed": turned, "few": "w0 w1 w2"}
        one_too_many = many == words.MOST_WORDS  # to be looked for
        self.queries: dict[str, tuple[str, set[str]]] = {
            "words": (whole, {"all", "reversed"}),
            "pairs": (pairs, {"all"}),
            "phrase": (f'"{whole}"', {"all"}),
            "absent": (f"{whole} absent", {"all", "reversed"} if one_too_many else set()),
        }


@pytest.fixture
def pile(store_at: str) -> Pile:
    served = store_at.startswith("postgresql")
    return Pile(min(MANY, MANY_OF_A_SERVER) if served else MANY)


few_queries = pytest.mark.parametrize("which", ["words", "absent"])
queries = pytest.mark.parametrize("which", ["words", "pairs", "phrase", "absent"])


def say(chat: Session, pile: Pile) -> None:
    chat.append_many([plait.user(text, id=id) for id, text in pile.texts.items()])


@queries
def test_messages_that_hold_very_many_words_are_found(
    chat: Session, sessions: Sessions, pile: Pile, which: str
) -> None:
    """In either order, of one session and of a scope."""
    query, expected = pile.queries[which]
    say(chat, pile)
    chat.search("w0")
    found = chat.search(query, newest_first=True)
    assert {hit.id for hit in found} == expected
    assert [hit.seq for hit in found] == sorted((hit.seq for hit in found), reverse=True)
    assert {hit.id for hit in chat.search(query)} == expected
    assert {hit.id for hit in sessions.search(query)} == expected


def test_messages_the_index_does_not_know_are_compared_with_all_of_a_long_query(
    chat: Session, sessions: Sessions, pile: Pile, file: object
) -> None:
    say(chat, pile)
    sessions.close()
    with plait.open(str(file), read_only=True) as reading:
        unread = reading.session("chat")
        for query, expected in (pile.queries["words"], pile.queries["pairs"]):
            assert {hit.id for hit in unread.search(query)} == expected
        phrase, expected = pile.queries["phrase"]
        assert {hit.id for hit in reading.search(phrase, newest_first=True)} == expected


@few_queries
def test_entries_that_hold_very_many_words_are_found(chat: Session, pile: Pile, which: str) -> None:
    query, expected = pile.queries[which]
    chat.with_context("pile", kind="collection")
    for key, text in pile.texts.items():
        chat.context.put("pile", text, key=key)
    answer = {one.name: one for one in chat.tools()}["search_context"](label="pile", query=query)
    for key in pile.texts:
        assert (f"[{key}]" in answer) == (key in expected), (key, answer[:200])


@few_queries
def test_a_model_may_ask_for_very_many_words(
    chat: Session, sessions: Sessions, pile: Pile, which: str
) -> None:
    query, expected = pile.queries[which]
    say(chat, pile)
    (tool,) = sessions.tools()
    answer = tool(query=query)
    assert answer.count("[user] ") == len(expected) or (answer == "No results found." and not expected)
