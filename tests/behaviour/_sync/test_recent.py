"""Generated from tests/behaviour/_async/test_recent.py by tools/unasync.py: edit that file. The newest messages of a path: by count, by bytes, honest about what was left out."""

from __future__ import annotations

import pytest

from plait import Session, Sessions, Message, UsageError
from plait.model import OverlayKind
from tests.behaviour._sync.helpers import chain, readable
from tests.behaviour.values import noise, note, picture


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, []),
        (1, [9]),
        (3, [7, 8, 9]),
        (10, list(range(10))),
        (11, list(range(10))),
        (10**9, list(range(10))),
        (None, list(range(10))),
    ],
)
def test_the_newest_n_are_the_last_ones_oldest_first(
    chat: Session, count: int | None, expected: list[int]
) -> None:
    """B-019: not the first n, not reversed; 0 gives none, more than there are gives all."""
    chain(chat, 10)
    window = chat.recent(count=count)
    assert [message.id for message in window.messages] == [f"m{n}" for n in expected]
    assert window.truncated == (len(expected) < 10)
    assert window.total_messages == 10
    assert [message.id for message in chat.transcript(newest_first=True, limit=count)] == [
        f"m{n}" for n in reversed(expected)
    ]


@pytest.mark.parametrize("count", [-1, -(10**9)])
def test_a_negative_count_is_a_clear_error(chat: Session, count: int) -> None:
    """B-019"""
    chain(chat, 3)
    with pytest.raises(UsageError, match="count must be a whole number of at least 0"):
        chat.recent(count=count)


def test_every_budget_gives_the_longest_suffix_that_fits(chat: Session) -> None:
    sizes = [50, 10, 700, 20, 1, 300, 5]
    chat.append_many([note(f"m{n}", "x" * size) for n, size in enumerate(sizes)])
    bytes = [stat.bytes for stat in chat.path_stats()]
    total = sum(bytes)
    edges = {sum(bytes[n:]) + d for n in range(len(bytes)) for d in (-1, 0, 1)}
    for budget in sorted(edges | {0, -1, -(10**9), 10**12}):
        window = chat.recent(budget_bytes=budget)
        fitting = [n for n in range(len(bytes)) if sum(bytes[n:]) <= budget]
        start = min(fitting, default=len(bytes) - 1)  # the newest is always there
        assert [message.id for message in window.messages] == [f"m{n}" for n in range(start, len(bytes))], budget
        assert (window.truncated, window.total_bytes, window.total_messages) == (start > 0, total, len(bytes))


def test_both_bounds_hold_together(chat: Session) -> None:
    chain(chat, 10)
    size = readable(chat.get("m9")).bytes
    assert len((chat.recent(count=5, budget_bytes=3 * size)).messages) == 3
    assert len((chat.recent(count=2, budget_bytes=3 * size)).messages) == 2
    assert len((chat.recent(count=0, budget_bytes=3 * size)).messages) == 0
    assert len((chat.recent(count=2, budget_bytes=0)).messages) == 1


def test_the_budget_counts_slices_and_media_as_they_are_read(chat: Session) -> None:
    """B-004, B-082: a budget that the first slice would fit does not admit the whole message."""
    chat.append_many([note("a"), note("big", "x" * 4_000_000), picture("p", noise(600_000)), note("z")])
    big, image = readable(chat.get("big")), readable(chat.get("p"))
    assert big.bytes > 4_000_000 and image.bytes > 700_000
    assert [m.id for m in (chat.recent(budget_bytes=700_000)).messages] == ["z"]
    assert [m.id for m in (chat.recent(budget_bytes=1_600_000)).messages] == ["p", "z"]
    assert [m.id for m in (chat.recent(budget_bytes=(chat.totals()).bytes - 1)).messages] == [
        "big",
        "p",
        "z",
    ]
    assert not (chat.recent(budget_bytes=5_000_000)).truncated


def test_a_run_of_images_does_not_exceed_the_budget(chat: Session) -> None:
    chat.append_many([picture(f"p{n}", noise(400_000, n)) for n in range(8)])
    window = chat.recent(budget_bytes=1_500_000)
    assert [message.id for message in window.messages] == ["p6", "p7"]
    assert window.truncated
    assert sum(readable(message).bytes for message in window.messages) <= 1_500_000


def test_the_same_image_twice_in_one_message_is_charged_twice_as_it_is_read_twice(chat: Session) -> None:
    message = picture("p", noise(300_000))
    message["parts"].append(dict(message["parts"][1]))
    chat.append(message)
    stored = readable(chat.get("p"))
    assert stored.bytes == len(stored.to_json().encode()) > 800_000
    assert (chat.totals()).bytes == stored.bytes


def test_a_window_of_a_branch_is_that_of_its_path(chat: Session) -> None:
    chain(chat, 6)
    chat.append_many([note("a"), note("b")], parent="m1")
    window = chat.recent(count=3)
    assert [message.id for message in window.messages] == ["m1", "a", "b"]
    assert (window.total_messages, window.truncated) == (4, True)
    other = chat.recent(count=3, leaf="m5")
    assert [message.id for message in other.messages] == ["m3", "m4", "m5"]
    assert (other.total_messages, other.truncated) == (6, True)
    inner = chat.recent(leaf="m2")
    assert [message.id for message in inner.messages] == ["m0", "m1", "m2"]
    assert (inner.total_messages, inner.truncated) == (3, False)


def test_totals_follow_every_kind_of_write(chat: Session) -> None:
    """The aggregates on the session row are what a count of the rows gives."""

    def check() -> None:
        totals = chat.totals()
        rows = [readable(message) for message in chat.everything()]
        path = [stat for stat in chat.path_stats()]
        assert (totals.messages, totals.bytes, totals.tokens) == (
            len(rows),
            sum(m.bytes for m in rows),
            sum(m.tokens for m in rows),
        )
        assert (totals.path_messages, totals.path_bytes, totals.path_tokens) == (
            len(path),
            sum(stat.bytes for stat in path),
            sum(stat.tokens for stat in path),
        )

    chain(chat, 8)
    check()
    for step in (
        lambda: chat.append(note("b1"), parent="m3"),
        lambda: chat.append(note("b2")),
        lambda: chat.checkout("m7"),
        lambda: chat.update(note("m2", "much longer " * 100)),
        lambda: chat.update(note("b1", "off the path")),
        lambda: chat.delete(["m1", "b1"]),
        lambda: chat.append(picture("p", noise(10_000))),
        lambda: chat.update(note("p", "no picture")),
        lambda: chat.import_message(note("i"), parent="m2", activate=False),
        lambda: chat.append(note("big", "x" * 2_000_000)),
        lambda: chat.delete(["p", "big", "m7", "m6"]),
        lambda: chat.append(note("root"), parent=None),
        lambda: chat.checkout("b2"),
        lambda: chat.clear(),
        lambda: chat.append(note("anew")),
    ):
        step()
        check()


def test_with_many_overlays_every_count_and_budget_gives_the_end_of_the_history(chat: Session) -> None:
    """Only overlays at the end are looked at first: wherever that stops, the window is the same."""
    chain(chat, 160)
    for n in range(40):
        kind: OverlayKind = "archive" if n % 5 == 4 else "compaction"
        summary = None if kind == "archive" else f"S{n}"
        chat.add_overlay(f"m{4 * n + 1}", f"m{4 * n + 2}", summary=summary, kind=kind)
    for n in (20, 25, 30):
        chat.add_overlay(f"m{4 * n}", f"m{4 * n + 7}", summary=f"over {n}")
    chat.append({"id": "aside", "role": "user", "parts": []}, parent="m90")
    for leaf in ("aside", "m159"):
        chat.checkout(leaf)
        history = [message for message in chat.history()]
        totals = chat.totals()
        for count in range(len(history) + 2):
            window = chat.recent(count=count)
            assert window.messages == history[len(history) - min(count, len(history)) :], count
            assert (window.view_messages, window.total_messages) == (totals.view_messages, totals.path_messages)
        for kept in range(1, len(history), 3):
            budget = sum(message.bytes for message in history[-kept:] if isinstance(message, Message))
            assert (chat.recent(budget_bytes=budget)).messages == history[-kept:]
        assert [message for message in chat.history(newest_first=True)] == history[::-1]
        assert (chat.recent()).messages == history
        for at in range(0, 160, 7):
            assert (chat.recent(leaf=f"m{at}", count=9)).messages == [
                message for message in chat.history(f"m{at}")
            ][-9:]


def test_a_path_counted_before_is_counted_anew_when_what_changed_since_was_pruned(
    sessions: Sessions, chat: Session
) -> None:
    chat.append_many([note("m0"), note("m1"), note("m2")])
    chat.append(note("b"), parent="m0")  # another leaf is active: the path to m2 has to be counted
    assert (chat.recent(leaf="m2")).total_messages == 3
    chat.update(note("m1", "many words " * 50))
    sessions.prune_changes(max_count=0)
    found = chat.recent(leaf="m2")
    stats = [row for row in chat.path_stats("m2")]
    assert found.total_messages == len(stats) == 3
    assert found.total_bytes == sum(row.bytes for row in stats)
