"""Generated from tests/behaviour/_async/test_many_words.py by tools/unasync.py: edit that file. Queries of very many different words, wherever a query is taken: answers, of what holds them all, and soon."""

from __future__ import annotations

import pytest

import plait
from plait import Session, Sessions
from plait.logic import words
from tests.dose import dose

pytestmark = pytest.mark.timeout(dose(short=120, soak=1800))  # a million words take some ten seconds a search

MANY = dose(short=10_000, soak=words.MOST_WORDS)
WORDS = [f"w{n}" for n in range(MANY)]  # no two with the same stem
ALL = " ".join(WORDS)
PAIRS = " ".join(f"{one}-{other}" for one, other in zip(WORDS[::2], WORDS[1::2], strict=True))
SHORT_OF = " ".join(WORDS[:-1])
"""All but the last: the index, asked for the first ones, cannot tell it from what has them all."""

REVERSED = " ".join(reversed(WORDS))
"""All of them, no two as the pairs want them."""

TEXTS = {"all": ALL, "short": SHORT_OF, "reversed": REVERSED, "few": "w0 w1 w2"}
EXPECTED = {ALL: {"all", "reversed"}, PAIRS: {"all"}, f'"{ALL}"': {"all"}, f"{ALL} absent": set[str]()}
if words.MOST_WORDS == MANY:
    EXPECTED[f"{ALL} absent"] = EXPECTED[ALL]  # it is one word too many to be looked for

few_queries = pytest.mark.parametrize("query", [ALL, f"{ALL} absent"], ids=["words", "absent"])
queries = pytest.mark.parametrize("query", list(EXPECTED), ids=["words", "pairs", "phrase", "absent"])


def say(chat: Session, suffix: str = "") -> None:
    chat.append_many([plait.user(text, id=id + suffix) for id, text in TEXTS.items()])


@queries
def test_messages_that_hold_very_many_words_are_found(
    chat: Session, sessions: Sessions, query: str
) -> None:
    """In either order, of one session and of a scope."""
    say(chat)
    chat.search("w0")
    found = chat.search(query, newest_first=True)
    assert {hit.id for hit in found} == EXPECTED[query]
    assert [hit.seq for hit in found] == sorted((hit.seq for hit in found), reverse=True)
    assert {hit.id for hit in chat.search(query)} == EXPECTED[query]
    assert {hit.id for hit in sessions.search(query)} == EXPECTED[query]


def test_messages_the_index_does_not_know_are_compared_with_all_of_a_long_query(
    chat: Session, sessions: Sessions, file: object
) -> None:
    say(chat)
    sessions.close()
    with plait.open(str(file), read_only=True) as reading:
        unread = reading.session("chat")
        for query in (ALL, PAIRS):
            assert {hit.id for hit in unread.search(query)} == EXPECTED[query]
        assert {hit.id for hit in reading.search(f'"{ALL}"', newest_first=True)} == {"all"}


@few_queries
def test_entries_that_hold_very_many_words_are_found(chat: Session, query: str) -> None:
    chat.with_context("pile", kind="collection")
    for key, text in TEXTS.items():
        chat.context.put("pile", text, key=key)
    answer = {one.name: one for one in chat.tools()}["search_context"](label="pile", query=query)
    for key in TEXTS:
        assert (f"[{key}]" in answer) == (key in EXPECTED[query]), (key, answer[:200])


@few_queries
def test_a_model_may_ask_for_very_many_words(chat: Session, sessions: Sessions, query: str) -> None:
    say(chat)
    (tool,) = sessions.tools()
    answer = tool(query=query)
    assert answer.count("[user] ") == len(EXPECTED[query]) or (answer == "No results found." and not EXPECTED[query])
