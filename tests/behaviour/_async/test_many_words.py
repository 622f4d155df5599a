"""Queries of very many different words, wherever a query is taken: answers, of what holds them all, and soon."""

from __future__ import annotations

import pytest

import plait
from plait import AsyncSession, AsyncSessions
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


async def say(chat: AsyncSession, suffix: str = "") -> None:
    await chat.append_many([plait.user(text, id=id + suffix) for id, text in TEXTS.items()])


@queries
async def test_messages_that_hold_very_many_words_are_found(
    chat: AsyncSession, sessions: AsyncSessions, query: str
) -> None:
    """In either order, of one session and of a scope."""
    await say(chat)
    await chat.search("w0")
    found = await chat.search(query, newest_first=True)
    assert {hit.id for hit in found} == EXPECTED[query]
    assert [hit.seq for hit in found] == sorted((hit.seq for hit in found), reverse=True)
    assert {hit.id for hit in await chat.search(query)} == EXPECTED[query]
    assert {hit.id for hit in await sessions.search(query)} == EXPECTED[query]


async def test_messages_the_index_does_not_know_are_compared_with_all_of_a_long_query(
    chat: AsyncSession, sessions: AsyncSessions, file: object
) -> None:
    await say(chat)
    await sessions.close()
    async with plait.open_async(str(file), read_only=True) as reading:
        unread = reading.session("chat")
        for query in (ALL, PAIRS):
            assert {hit.id for hit in await unread.search(query)} == EXPECTED[query]
        assert {hit.id for hit in await reading.search(f'"{ALL}"', newest_first=True)} == {"all"}


@few_queries
async def test_entries_that_hold_very_many_words_are_found(chat: AsyncSession, query: str) -> None:
    chat.with_context("pile", kind="collection")
    for key, text in TEXTS.items():
        await chat.context.put("pile", text, key=key)
    answer = await {one.name: one for one in await chat.tools()}["search_context"](label="pile", query=query)
    for key in TEXTS:
        assert (f"[{key}]" in answer) == (key in EXPECTED[query]), (key, answer[:200])


@few_queries
async def test_a_model_may_ask_for_very_many_words(chat: AsyncSession, sessions: AsyncSessions, query: str) -> None:
    await say(chat)
    (tool,) = await sessions.tools()
    answer = await tool(query=query)
    assert answer.count("[user] ") == len(EXPECTED[query]) or (answer == "No results found." and not EXPECTED[query])
