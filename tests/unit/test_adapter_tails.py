"""Where the tail begins in what a framework is about to send: whatever it dropped or closed, and never in what is not covered."""

from __future__ import annotations

from random import Random

from plait.adapters.tails import Piece, tail_at
from tests.dose import dose

SUMMARY = Piece("summary")


def conversation(random: Random, name: str) -> list[Piece]:
    """Turns with calls, some of which nobody has answered, thoughts, and words that others said before."""
    pieces: list[Piece] = []
    for n in range(random.randrange(1, 6)):
        pieces.append(Piece(random.choice([f"{name} {n}", "ok"])))
        if random.random() < 0.4:
            pieces.append(Piece(f"thought {name} {n}", "thought"))
        calls = [f"{name} {n} {m}" for m in range(random.randrange(3))]
        pieces += [Piece(f"call {call}", "call", call) for call in calls]
        pieces += [Piece(f"result {call}", "result", call) for call in calls if random.random() < 0.7]
    return pieces


def given_of(random: Random, pieces: list[Piece]) -> list[Piece]:
    """The same as a framework sends it: calls without a result are dropped with their thoughts, or closed, or left."""
    answered = {piece.call for piece in pieces if piece.kind == "result"}
    how = random.choice(["drop", "close", "leave"])
    given: list[Piece] = []
    for n, piece in enumerate(pieces):
        is_open = piece.kind == "call" and piece.call not in answered
        if is_open and how == "drop":
            while given and given[-1].kind == "thought":
                given.pop()
            continue
        given.append(piece)
        last = n + 1 == len(pieces) or pieces[n + 1].kind not in ("call", "result")
        if last and how == "close":
            shown = {piece.call for piece in given if piece.kind == "result"}
            missing = [one.call for one in given if one.kind == "call" and one.call not in shown]
            given += [Piece(f"no result {call}", "result", call) for call in missing]
    return given


def test_the_tail_is_all_that_is_given_after_what_is_covered() -> None:
    for seed in range(dose(short=150, soak=20_000)):
        random = Random(seed)
        covered = [*conversation(random, "c"), Piece("covered last")]
        tail = [Piece("tail first"), *conversation(random, "t")]
        before, after = given_of(random, covered), given_of(random, tail)
        more = random.choice([[], [Piece("not stored yet")]])
        assert tail_at([*before, *after, *more], covered, SUMMARY, tail) == len(before), seed
        assert tail_at([Piece("head"), SUMMARY, *after, *more], covered, SUMMARY, tail) == 2, seed


def test_nothing_is_found_where_something_stands_between_that_is_not_covered() -> None:
    for seed in range(dose(short=50, soak=2_000)):
        random = Random(seed)
        covered = [*conversation(random, "c"), Piece("covered last")]
        tail = [Piece("tail first"), *conversation(random, "t")]
        before, after = given_of(random, covered), given_of(random, tail)
        assert tail_at([*before, Piece("somebody else's"), *after], covered, SUMMARY, tail) is None, seed
        assert tail_at([*before[:-1], *after], covered, SUMMARY, tail) is None, seed
        assert tail_at([*before, *after[1:]], covered, SUMMARY, tail) is None, seed


def test_a_call_that_ends_what_is_covered_may_be_missing_or_closed() -> None:
    covered, tail = [Piece("a"), Piece("thought", "thought"), Piece("call", "call", 1)], [Piece("b")]
    closed = [Piece("call", "call", 1), Piece("no result", "result", 1)]
    for given in ([Piece("a")], covered, [Piece("a"), *closed]):
        assert tail_at([*given, *tail], covered, SUMMARY, tail) == len(given)


def test_what_is_said_again_is_found_where_it_was_said_last() -> None:
    said = [Piece("ok")] * 4
    assert tail_at(said, said[:2], SUMMARY, said[2:]) == 2
    assert tail_at(said, said[:3], SUMMARY, said[3:]) == 3


def test_nothing_given_and_nothing_stored_after_the_summary() -> None:
    assert tail_at([], [Piece("a")], SUMMARY, []) is None
    assert tail_at([Piece("a")], [Piece("a")], SUMMARY, []) == 1
    assert tail_at([Piece("a"), Piece("new")], [Piece("a")], SUMMARY, []) == 1
