"""Where phrases stand among the words of a text, in time for the words of both, however many phrases there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeAlias

Phrase: TypeAlias = tuple[str, ...]
Places: TypeAlias = list[tuple[int, int]]
Token: TypeAlias = tuple[int, int, str]
"""The UTF-8 bytes of the folded text from which to which a word stands, and the word as the index knows it."""

LONG_PHRASE: Final = 64
"""A longer phrase is asked for in parts, each once: the index takes time for its words times their places."""

FEW: Final = 64
"""So many phrases are looked for one after the other, each at C's speed; more in one pass over the text."""

MOST_PLACES: Final = 1_000_000
"""How many places of phrases of several words are told at most, of each its share: phrases of one repeated word
stand nearly everywhere, each of them."""


class Phrases:
    """The phrases of one query, no two alike, looked for in one text after another."""

    def __init__(self, phrases: Sequence[Phrase]) -> None:
        self._phrases = phrases
        self._letters = {word: n for n, word in enumerate(dict.fromkeys(w for one in phrases for w in one), 1)}
        lengths = set(map(len, phrases))
        self._longest = max(lengths, default=0)
        self._lengths = len(lengths)
        self._share = max(MOST_PLACES // max(sum(len(one) > 1 for one in phrases), 1), 1)

    def among(self, tokens: Sequence[Token]) -> list[Places] | None:
        """Where each stands among the words of a text, as (first, last); `None` unless all are there."""
        if not self._may_be_in(len(tokens)):
            return None
        if len(self._phrases) <= FEW and self._longest <= LONG_PHRASE:
            return self._one_by_one(tokens)
        return self._in_one_pass(tokens)

    def _may_be_in(self, length: int) -> bool:
        """Whether so many words can hold them all: there is one place for a phrase of each length at each word.

        So a short text takes no time for a long query.
        """
        room = len(self._letters) <= length and len(self._phrases) <= length * self._lengths
        return room and self._longest <= length

    # -- few

    @cached_property
    def _spelt(self) -> tuple[dict[str, str], list[str]]:
        """A letter for each word, and the phrases in these."""
        letters = {word: chr(n) for word, n in self._letters.items()}
        return letters, ["".join([letters[word] for word in phrase]) for phrase in self._phrases]

    def _one_by_one(self, tokens: Sequence[Token]) -> list[Places] | None:
        letters, wanted = self._spelt
        spelt = "".join([letters.get(word, "\0") for _, _, word in tokens])
        found: list[Places] = []
        for one in wanted:
            places = _stands(one, spelt, self._share if len(one) > 1 else len(spelt))
            if not places:
                return None
            found.append(places)
        return found

    # -- many

    def _in_one_pass(self, tokens: Sequence[Token]) -> list[Places] | None:
        letters = [self._letters.get(word) for _, _, word in tokens]
        if len(set(letters) - {None}) < len(self._letters):
            return None
        found: list[Places] = [[] for _ in self._phrases]
        single = {self._letters[phrase[0]]: found[n] for n, phrase in enumerate(self._phrases) if len(phrase) == 1}
        for n, letter in enumerate(letters):
            if letter in single:
                single[letter].append((n, n))
        if self._longest > 1:
            self._automaton.run(letters, found, self._share)
        return found if all(found) else None

    @cached_property
    def _automaton(self) -> _Automaton:
        several = [(n, [self._letters[word] for word in one]) for n, one in enumerate(self._phrases) if len(one) > 1]
        return _Automaton(several, len(self._letters) + 1)


def _stands(wanted: str, spelt: str, most: int) -> Places:
    """Where a phrase is, also where it overlaps itself: at its first `most` places."""
    more = len(wanted) - 1
    places: Places = []
    at = spelt.find(wanted)
    while at >= 0 and len(places) < most:
        places.append((at, at + more))
        at = spelt.find(wanted, at + 1)
    return places


class _Automaton:
    """All phrases as one machine that reads a text once (Aho, Corasick).

    A state is the longest beginning of a phrase that the words read so far end with; 0 is none.
    """

    def __init__(self, phrases: Sequence[tuple[int, list[int]]], letters: int) -> None:
        self._letters = letters
        self._ahead: dict[int, int] = {}
        """From a state by a letter, as one number, to the next."""
        self._back = [0]
        """From a state to the longest other one that its words end with."""
        self._ends: dict[int, tuple[int, int]] = {}
        """What is complete in a state: the phrase's number, and how many words it has beside the last."""
        self._read(sorted(phrases, key=lambda item: -len(item[1])))
        self._near = [0] * len(self._back)
        """The longest state that a state's words end with and in which a phrase is complete, itself or another."""
        for state in range(1, len(self._back)):
            self._near[state] = state if state in self._ends else self._near[self._back[state]]

    def _read(self, phrases: list[tuple[int, list[int]]]) -> None:
        """Take in the phrases, the first word of each, then the second: what is shorter is then known already."""
        states = [0] * len(phrases)
        depth, left = 0, len(phrases)
        while left:
            for n in range(left):
                states[n] = self._grow(states[n], phrases[n][1][depth])
            depth += 1
            while left and len(phrases[left - 1][1]) == depth:
                left -= 1
                self._ends[states[left]] = phrases[left][0], depth - 1

    def _grow(self, state: int, letter: int) -> int:
        key = state * self._letters + letter
        to = self._ahead.get(key)
        if to is None:
            back = self._step(self._back[state], letter) if state else 0
            to = self._ahead[key] = len(self._back)
            self._back.append(back)
        return to

    def _step(self, state: int, letter: int) -> int:
        to = self._ahead.get(state * self._letters + letter)
        while to is None and state:
            state = self._back[state]
            to = self._ahead.get(state * self._letters + letter)
        return to or 0

    def run(self, letters: Sequence[int | None], found: list[Places], most: int) -> None:
        """Add to what is found of each phrase its first `most` places."""
        full: dict[int, int] = {}  # a phrase with all its places is passed by
        state = 0
        for n, letter in enumerate(letters):
            state = self._step(state, letter) if letter else 0
            at = _beyond(self._near[state], full)
            while at:
                number, more = self._ends[at]
                found[number].append((n - more, n))
                following = self._near[self._back[at]]
                if len(found[number]) == most:
                    full[at] = following
                at = _beyond(following, full)


def _beyond(at: int, full: dict[int, int]) -> int:
    """The first state from this one on whose phrase is not full; the way there is made shorter."""
    while (following := full.get(at)) is not None:
        full[at] = full.get(following, following)
        at = full[at]
    return at
