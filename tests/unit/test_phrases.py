"""Phrases among words: each is found wherever looking at each place finds it, in time for the words of both."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.logic import phrases, words
from plait.logic.phrases import Phrase, Phrases, Places, Token
from plait.store.tokens import tokenize
from tests.dose import dose

MANY = dose(short=30_000, soak=1_000_000)


def tokens_of(known: Sequence[str]) -> list[Token]:
    return [(n, n + 1, word) for n, word in enumerate(known)]


def naive(wanted: Sequence[Phrase], known: Sequence[str]) -> list[Places] | None:
    """Where phrases stand, by looking at each place for each."""
    found = [
        [(n, n + len(one) - 1) for n in range(len(known)) if tuple(known[n : n + len(one)]) == one] for one in wanted
    ]
    return found if all(found) else None


@st.composite
def texts_and_phrases(draw: st.DrawFn) -> tuple[list[str], list[Phrase]]:
    """A text of few words, so that they repeat, and phrases of which most are pieces of it."""
    known = draw(st.lists(st.sampled_from("ab" if draw(st.booleans()) else "abcdef"), min_size=1, max_size=40))
    pieces = st.tuples(st.integers(0, len(known) - 1), st.integers(1, 9)).map(lambda at: known[at[0] : sum(at)])
    others = st.lists(st.sampled_from("abcdefx"), min_size=1, max_size=4)
    wanted = draw(st.lists(pieces | pieces | pieces | others, min_size=1, max_size=8))
    return known, list(dict.fromkeys(map(tuple, wanted)))


@pytest.mark.parametrize("few", [phrases.FEW, 0], ids=["one by one", "in one pass"])
@given(given=texts_and_phrases())
@settings(deadline=None, max_examples=dose(short=60, soak=20_000))
def test_phrases_are_found_where_looking_at_each_place_finds_them(
    few: int, given: tuple[list[str], list[Phrase]]
) -> None:
    """Repeated words, phrases that overlap themselves and each other, and some that are not there."""
    known, wanted = given
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phrases, "FEW", few)
        assert Phrases(wanted).among(tokens_of(known)) == naive(wanted, known)


@given(given=texts_and_phrases(), most=st.integers(1, 12))
@settings(deadline=None, max_examples=dose(short=60, soak=20_000))
def test_of_phrases_that_stand_everywhere_the_first_places_are_told(
    given: tuple[list[str], list[Phrase]], most: int
) -> None:
    known, wanted = given
    share = max(most // max(sum(len(one) > 1 for one in wanted), 1), 1)
    expected = naive(wanted, known)
    for few in (phrases.FEW, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(phrases, "FEW", few)
            patch.setattr(phrases, "MOST_PLACES", most)
            found = Phrases(wanted).among(tokens_of(known))
        assert found == (
            expected and [one if len(p) == 1 else one[:share] for p, one in zip(wanted, expected, strict=True)]
        )


def test_very_many_words_and_phrases_are_looked_for_in_one_pass() -> None:
    """Single words, pairs, one phrase of all, and every power of one word."""
    known = [f"w{n}" for n in range(MANY)]
    for wanted in (
        [(word,) for word in known],
        [(one, other) for one, other in zip(known[::2], known[1::2], strict=True)],
        [tuple(known)],
        [*((word,) for word in known[:1000]), tuple(known[1000:])],
    ):
        found = Phrases(wanted).among(tokens_of(known))
        assert found is not None and [len(places) for places in found] == [1] * len(wanted)
        assert Phrases(wanted).among(tokens_of([*known[:-1], "x"])) is None
    powers = [("a",) * n for n in range(2, int(MANY**0.5))]
    found = Phrases([*powers, ("y", "z")]).among(tokens_of(["a"] * (MANY // 10) + ["y", "z"]))
    assert found is not None and found[-1] == [(MANY // 10, MANY // 10 + 1)]
    assert sum(map(len, found)) <= phrases.MOST_PLACES


class Unread(list[Token]):
    """The words of a text that nobody may look at."""

    def __iter__(self) -> object:  # type: ignore[override]
        raise AssertionError("read")


def test_a_short_text_is_not_looked_through_for_more_than_it_can_hold() -> None:
    """So that a query of a million words takes no time for each of a million messages."""
    few = Unread(tokens_of("ab"))
    assert Phrases([("a",), ("b",), ("c",)]).among(few) is None
    assert Phrases([("a", "b", "a")]).among(few) is None
    assert Phrases([("a", "a"), ("a", "b"), ("b", "b")]).among(few) is None


# -- what a query asks for -----------------------------------------------------------


def test_the_index_is_asked_for_a_bounded_number_of_words_and_the_rest_compared() -> None:
    """FTS5 takes time for each, and for the square of the phrases."""
    most = words.parse(" ".join(f"w{n}" for n in range(words.ASKED)), tokenize)
    assert not most.loose and most.match.count('"') == 2 * words.ASKED
    more = words.parse(" ".join(f"w{n}" for n in range(MANY)), tokenize)
    assert more.loose and more.match == most.match
    assert len(more.phrases) == len(more.matches) == MANY and len(more.weighed) == words.ASKED
    long = words.parse('"' + " ".join(f"w{n}" for n in range(MANY)) + '" more', tokenize)
    assert long.loose and "more" not in long.match and words.ASKED <= len(tokenize(long.match)) <= words.ASKED + 64
    spread = words.parse(" ".join(f"v{n}-" * 50 for n in range(words.ASKED)), tokenize)
    assert spread.loose and words.ASKED - 50 < len(tokenize(spread.match)) <= words.ASKED


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("a b a c d", [("a",), ("b",), ("c",)]),
        ('a "b c d"', [("a",), ("b", "c")]),
        ('a "b-é-d"', [("a",), ("b", "e")]),
        ("空b悬", [("空", "b", "悬")]),
        ("空b悬空", [("空", "b", "悬")]),
        ('"a b c" d', [("a", "b", "c")]),
    ],
)
def test_of_more_words_than_a_query_may_have_the_first_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, query: str, asked: list[Phrase]
) -> None:
    """Words that are said twice count once; a phrase is cut where the words end, also for the index."""
    monkeypatch.setattr(words, "MOST_WORDS", 3)
    found = words.parse(query, tokenize)
    assert list(found.phrases) == asked
    assert [tuple(word for _, _, word in tokenize(match)) for match in found.matches] == asked
