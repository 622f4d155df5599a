"""The tokens of a conversation over its messages."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from plait import Covered, Overlay, RowStat
from plait.cli.timeline import timeline

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


def minute(n: float) -> dt.datetime:
    return START + dt.timedelta(minutes=n)


def rows(count: int) -> list[RowStat]:
    """Messages of ten tokens, one a minute."""
    return [RowStat(f"m{n}", n, "user", 100, 10, minute(n)) for n in range(1, count + 1)]


def overlay(
    first: int, last: int, at: float, *, tokens: int = 5, kind: Literal["compaction", "archive"] = "compaction"
) -> Overlay:
    covers = Covered(last - first + 1, 100 * (last - first + 1), 10 * (last - first + 1))
    summary = None if kind == "archive" else "summary"
    return Overlay(
        "o", kind, summary, f"m{first}", f"m{last}", first, last, minute(at), covers, covers.messages, tokens, False
    )


def test_without_overlays_a_model_is_shown_all() -> None:
    drawn = timeline(rows(4), [])
    assert drawn.whole == drawn.shown == [10, 20, 30, 40]
    assert drawn.compactions == []


def test_an_overlay_takes_off_from_when_it_was_added() -> None:
    drawn = timeline(rows(6), [overlay(1, 2, 4.5)])
    assert drawn.whole == [10, 20, 30, 40, 50, 60]
    assert drawn.shown == [10, 20, 30, 25, 35, 45]
    assert drawn.compactions == [4]


def test_an_overlay_over_an_earlier_one_takes_off_only_the_rest() -> None:
    drawn = timeline(rows(6), [overlay(1, 2, 3.5), overlay(1, 4, 5.5)])
    assert drawn.shown == [10, 20, 15, 25, 15, 25]
    assert drawn.compactions == [3, 5]


def test_an_archive_is_no_compaction() -> None:
    drawn = timeline(rows(3), [overlay(1, 1, 9, tokens=0, kind="archive")])
    assert drawn.shown == [10, 20, 20]
    assert drawn.compactions == []


def test_messages_imported_with_later_times_do_not_come_before_what_covers_them() -> None:
    late = [RowStat(f"m{n}", n, "user", 100, 10, minute(100 - n)) for n in range(1, 5)]
    assert timeline(late, [overlay(1, 3, 1)]).shown == [10, 20, 5, 15]


def test_a_path_of_nothing_has_no_timeline() -> None:
    assert timeline([], [overlay(1, 2, 3)]).whole == []
