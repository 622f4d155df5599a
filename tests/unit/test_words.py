"""Folding, and finding words in a text: the quick ways find what the thorough one finds."""

from __future__ import annotations

import re
import sys
import unicodedata
from pydoc_data.topics import topics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.logic import snippets, words
from plait.logic.words import fold, occurrences, parse
from plait.store import tokens
from plait.store.tokens import tokenize
from tests.dose import dose

PROSE = "\n".join(str(topics[name]) for name in sorted(topics))
VOCABULARY = sorted(set(re.findall(r"[a-z]+", PROSE.lower())))
ENDINGS = [
    "",
    "s",
    "es",
    "ies",
    "y",
    "e",
    "ed",
    "ing",
    "ational",
    "ability",
    "ably",
    "ibility",
    "ized",
    "ousness",
    "ication",
]

LATIN = ["a", "K", "é", "ß", "İ", "e\u0301", "\u0301", "ﬁ", "½", "word", "the ", "𝔘", "㎏"]
POINTS = ["…", "—", "\u2019", "\u00a0", " ", "\n", "\x00", "\ud800", ".", "-"]
OTHERS = ["悬", "空", "テ", "ｶﾞ", "か\u3099", "\u3099", "한", "\u1112\u1161\u11ab", "ไ", "นี่", "ё", "Σ", "ς", "न\u094d"]
SIGNS = ["🎉", "\u200d", "\ufe0f", "\U0001f1e6\U0001f1f9", "Ωμέγα", "مُحَ"]

pieces = st.sampled_from([*LATIN, *POINTS, *OTHERS, *SIGNS])
texts = st.lists(pieces, max_size=30).map("".join) | st.text(max_size=40)


def thorough(text: str) -> str:
    """Folding with nothing left out."""
    plain = words._ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return words._SPLIT.sub(words._split, unicodedata.normalize("NFKC", plain))


def names(folded: str) -> list[str]:
    return [word for _, _, word in tokenize(folded)]


@given(text=texts)
@settings(deadline=None, max_examples=dose(short=400, soak=10_000))
def test_folding_only_what_is_not_ascii_gives_the_same_words(text: str) -> None:
    assert names(fold(text)) == names(thorough(text))


def test_typographic_punctuation_is_no_part_of_a_word() -> None:
    for char in words._POINTS:
        assert names(thorough(f"x{char}y")) == ["x", "y"], hex(ord(char))


def test_every_character_there_is_can_be_folded() -> None:
    for first in range(0, sys.maxunicode + 1, 4096):
        text = "".join(map(chr, range(first, min(first + 4096, sys.maxunicode + 1))))
        tokenize(fold(text))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_word_begins_as_its_name_in_the_index_does(ending: str) -> None:
    """What the quick search in plain text relies on."""
    for word in [stem + ending for stem in VOCABULARY]:
        ((_, _, stem),) = tokenize(word)
        assert 0 in snippets._starts(word, stem), (word, stem)


@given(text=st.text("ab", max_size=60), phrase=st.text("ab", min_size=1, max_size=8), many=st.sampled_from([1, 70]))
@settings(deadline=None, max_examples=dose(short=200, soak=10_000))
def test_a_phrase_is_found_at_every_place_it_begins(text: str, phrase: str, many: int) -> None:
    """Also where it overlaps itself; a long one is looked for in another way than a short one."""
    whole, wanted = text * many, (phrase * many)[: max(len(phrase), 66 if many > 1 else 0)]
    tokens = [(n, n + 1, letter) for n, letter in enumerate(whole)]
    found = occurrences(words.Words((tuple(wanted),), ("",)), tokens)
    starts = [n for n in range(len(whole)) if whole.startswith(wanted, n)]
    assert (found and [first for first, _ in found[0]]) == (starts or None)


def test_a_long_phrase_in_a_long_text_takes_no_time_for_their_product() -> None:
    phrase, tokens = ("w",) * 50_000, [(n, n + 1, "w") for n in range(100_000)]
    found = occurrences(words.Words((phrase,), ("",)), tokens)
    assert found is not None and len(found[0]) == 50_001


queries = st.lists(st.sampled_from(["the", "The", '"of the"', "objects", '"an object"', "ability", "x", "2", "__new__"]), min_size=1, max_size=3)  # fmt: skip


@given(at=st.integers(0, len(PROSE) - 400), query=queries.map(" ".join))
@settings(deadline=None, max_examples=dose(short=200, soak=10_000))
def test_words_are_found_in_plain_text_where_its_tokens_say(at: int, query: str) -> None:
    text = PROSE[at : at + 400].encode("ascii", "ignore").decode()
    wanted = parse(query, tokenize)
    tokens = tokenize(fold(text))
    found = occurrences(wanted, tokens)
    expected = sorted((tokens[first][0], tokens[last][1]) for phrase in found or [] for first, last in phrase)
    assert merged(snippets.Finder(wanted, tokenize).found_in(text)) == merged(expected)


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is covered at all, however many phrases cover it."""
    return snippets._merged(spans)


class Counting(snippets.Finder):
    """Counts the words that it looks at one by one."""

    looked = 0

    def _stem(self, word: str) -> str:
        self.looked += 1
        return super()._stem(word)


@given(
    text=st.lists(st.sampled_from(["a", "b", "a a", "中", "中中"]), max_size=40).map(" ".join),
    phrases=st.lists(
        st.sampled_from(['"a a"', '"a a a"', '"a b"', '"a b a"', "b", "中中", '"中 a"']), min_size=1, max_size=4
    ),
    many=st.sampled_from([1, 20]),
)
@settings(deadline=None, max_examples=dose(short=150, soak=10_000))
def test_words_that_repeat_are_found_as_often_as_looking_at_each_place_finds_them(
    text: str, phrases: list[str], many: int
) -> None:
    """In a short text and a long one, where they are looked for in another way."""
    text = " ".join([text] * many)
    wanted, tokens = parse(" ".join(phrases), tokenize), tokenize(fold(text))
    known = [word for _, _, word in tokens]
    stands = [
        [n for n in range(len(known)) if tuple(known[n : n + len(phrase)]) == phrase] for phrase in wanted.phrases
    ]
    found = occurrences(wanted, tokens)
    assert ([[first for first, _ in spots] for spots in found] if found else None) == (stands if all(stands) else None)
    quick, slow = snippets.Finder(wanted, tokenize), snippets.Finder(wanted, tokenize)
    slow._plain = False
    assert merged(quick.found_in(text)) == merged(slow.found_in(text))


def test_phrases_of_one_repeated_word_take_no_time_for_their_words_times_its_places() -> None:
    text = "a " * 20_000
    finder = Counting(parse(" ".join('"' + "a " * n + '"' for n in (2, 3, 5, 7, 11, 13)), tokenize), tokenize)
    assert merged(finder.found_in(text)) == [(0, len(text) - 1)]
    assert finder.looked <= len(text) // 4 + snippets.REPEATS


@given(text=texts, length=st.integers(1, 60), data=st.data())
@settings(deadline=None, max_examples=dose(short=300, soak=10_000))
def test_a_snippet_shows_whole_characters_of_what_was_found(text: str, length: int, data: st.DataObject) -> None:
    """A snippet can be encoded, and each highlight of it holds what was asked for."""
    known = names(fold(text))
    query = data.draw(st.sampled_from(re.findall(r"\S+", text) or [""])).replace('"', " ")
    wanted = parse(query, tokenize)
    check_snippet(text, wanted, length, known)


def test_a_joiner_at_the_end_of_a_word_joins_nothing_to_it() -> None:
    check_snippet("a\u200d b", parse("a", tokenize), 1, ["a", "b"])


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("\u0e01\u0e33\u0e25\u0e31\u0e07", "\u0e01", "\u0e01\u0e33"),  # Thai with AM, a vowel that is no mark
        ("\u0e99\u0eb3", "\u0e99", "\u0e99\u0eb3"),
        ("a \u0915\u094d\u0937 b", "\u0915\u094d\u0937", "\u0915\u094d\u0937"),  # two letters of India and their link
        ("\U0001f469\u200d\U0001f4bb", "\U0001f469", "\U0001f469\u200d\U0001f4bb"),
        ("\U0001f1e6\U0001f1f9", "\U0001f1e6", "\U0001f1e6\U0001f1f9"),
    ],
)
def test_what_is_one_character_to_its_reader_is_shown_whole(text: str, query: str, shown: str) -> None:
    snippet = snippets.make(text, snippets.Finder(parse(query, tokenize), tokenize))
    assert [snippet.text[start:end] for start, end in snippet.highlights][:1] == [shown]
    at = text.index(shown)
    assert not [cut for cut in range(at + 1, at + len(shown)) if not snippets.joins(text, cut)]


def check_snippet(text: str, wanted: words.Words, length: int, known: list[str]) -> None:
    snippet = snippets.make(text, snippets.Finder(wanted, tokenize), length=length)
    snippet.text.encode()
    assert "\n" not in snippet.text
    if wanted and all(set(phrase) <= set(known) for phrase in wanted.phrases) and len(text) <= length:
        assert snippet.highlights
    for start, end in snippet.highlights:
        assert start == 0 or not snippets.joins(snippet.text, start)
        assert not snippets.joins(snippet.text, end)


def test_a_character_that_repeats_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def folding(text: str) -> str:
        asked.append(text)
        return fold(text)

    monkeypatch.setattr(snippets, "fold", folding)
    text = "мир е\u0301 " * 100
    folded, origin = snippets._aligned(text)
    strange = [piece for piece in asked if not piece.isascii()]
    assert sorted(strange) == sorted({"м", "и", "р", "е\u0301"})
    assert origin is not None and len(origin) == len(folded.encode()) and origin[-1] == len(text) - 1


@pytest.mark.parametrize("total", [0, 1, 5, 6])
def test_a_word_weighs_little_where_all_have_it_also_where_they_are_estimated_too_few(total: int) -> None:
    assert words.weight(6, total, 3) == 1e-6


def test_a_word_that_few_have_weighs_more() -> None:
    assert words.weight(1, 1000, 1) > words.weight(10, 1000, 1) > words.weight(900, 1000, 1) == 1e-6


_HOSTILE_RUNS = {
    "flags": "tea " + "\U0001f1e6\U0001f1f9",
    "accents": "tea a" + "\u0301\u0323",
    "vowel signs": "tea \u0f40" + "\u0f72\u0f71",
    "vowel signs with joiners": "tea \u0f40" + "\u0f72\u200d\u0f71\u200d",
    "joiners": "\u6f22" + "\u200d\u6f22",
    "flags before joiners": "\U0001f1e6" + "\u200d\u6f22",
    "brackets": "tea " + "([{",
}


@pytest.mark.parametrize("name", _HOSTILE_RUNS)
def test_a_long_run_of_anything_is_gone_through_once(name: str) -> None:
    n = dose(short=50_000, soak=400_000)
    # a quadratic step would take many minutes here
    run = _HOSTILE_RUNS[name]
    head, tail = (run[:-4], run[-4:]) if name == "vowel signs with joiners" else (run[:-2], run[-2:])
    text = head + tail * n
    words = parse("\u6f22" if "\u6f22" in run else "tea", tokenize)
    finder = snippets.Finder(words, tokenize)
    snippet = snippets.make("\U0001f1e6\U0001f1f9" * (n if name == "flags before joiners" else 0) + text, finder)
    assert snippet.highlights


@given(st.text(st.sampled_from("ae\u0301\u0323\u0f72\u0f71\u1100\u1161\u11a8\u6f22 .\ufb01"), max_size=60))
def test_a_text_beside_a_long_run_is_folded_as_it_is_alone(text: str) -> None:
    for run in ("!" * 200, "\u00ac" * 129, "\u0f40" + "\u0f71" * 300):
        assert fold(f"{text} {run} {text}") == f"{fold(text)} {fold(run)} {fold(text)}"


def test_a_flag_is_two_letters_wherever_the_run_is_cut() -> None:
    flags = "\U0001f1e6\U0001f1f9" * 50
    for lead in ("", "\U0001f1e6\u200d", "x"):
        text = lead + flags
        whole = [text[start:end] for start, end in snippets._clusters(text)]
        assert "".join(whole) == text
        assert [at for at in range(1, len(text)) if not snippets.joins(text, at)] == [
            start for start, _ in snippets._clusters(text)
        ][1:]


@settings(max_examples=dose(short=200, soak=5000))
@given(st.text(max_size=80), st.integers(1, 20))
def test_words_taken_out_in_pieces_are_those_taken_out_at_once(text: str, characters: int) -> None:
    """Also where a piece ends in what some languages write as a space, or nowhere."""
    folded = fold(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "PIECE_CHARACTERS", characters)
        assert list(tokens.words(folded)) == [word for _, _, word in tokenize(folded)]
