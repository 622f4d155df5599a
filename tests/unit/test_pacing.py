"""When a session is compacted by itself, and how long it waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.logic.pacing import Reported, Waiting, policy

TOKENS = st.integers(0, 10**6)


@given(TOKENS, st.integers(1, 10**6), TOKENS)
def test_what_is_expected_is_between_what_shares_and_differences_say(tokens: int, view: int, now: int) -> None:
    """Nobody can tell from one report whether the model counts more of everything or was given something besides."""
    report = Reported(tokens, view, None)
    assert report.expects(view) == tokens
    if now >= view or tokens >= view:
        assert report.expects(now) == tokens + now - view
    else:
        assert max(tokens + now - view, 0) <= report.expects(now) <= min(tokens, now)


@pytest.mark.parametrize(
    ("report", "view", "expected"),
    [
        (Reported(7_000, 3_000, None), 1_000, 5_000),  # what is beside the view stays
        (Reported(4_000, 8_000, None), 2_000, 1_000),  # the estimate errs high: in proportion
        (Reported(4_000, 8_000, None), 9_000, 5_000),  # what is added counts as estimated
        (Reported(4_000, 8_000, None), 0, 0),
    ],
)
def test_expectations(report: Reported, view: int, expected: int) -> None:
    assert report.expects(view) == expected


@given(st.integers(100, 10**6), st.integers(0, 50), st.lists(st.integers(0, 3), max_size=60))
def test_each_wait_is_for_something_that_has_not_come_yet(window: int, percent: int, grown: list[int]) -> None:
    """Whatever the sizes: directly after a try in vain there is none, and the wait grows to the whole limit."""
    pace = policy(None, window, 0.85, 0, 0, False)
    assert pace is not None
    waiting, size, messages = Waiting(), window * percent // 10, 10
    for more in grown:
        waiting = waiting.longer("no", pace, size, 0, messages)
        assert waiting.paused == "no" and waiting.stood == size
        assert not waiting.is_over(size, messages)
        assert waiting.is_over(size + 2 * pace.limit + 1, messages + 16)
        size, messages = size + more * window // 10, messages + more


def test_a_wait_does_not_go_beyond_the_window_while_it_can_be_kept_below() -> None:
    pace = policy(None, 8_000, 0.85, 500, 0, False)
    assert pace is not None
    waiting = Waiting(attempts=9)
    assert waiting.longer("", pace, 7_400, 0, 10).resumes_above_tokens == 7_500
    assert waiting.longer("", pace, 7_500, 0, 10).resumes_above_tokens == 7_500 + pace.limit
    assert waiting.longer("", pace, 7_000, 450, 10).resumes_above_tokens == 7_050
