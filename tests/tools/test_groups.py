"""Tests that share something dear, or cannot bear each other, are run by one worker."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("alone")
def test_a_group_is_kept_together(request: pytest.FixtureRequest) -> None:
    """pytest 9.2 has no place for the names that pytest-xdist 3.8 gives to groups, which then do nothing."""
    if not request.config.getoption("loadgroup", False):
        pytest.skip("needs pytest-xdist with --dist loadgroup")
    assert request.node.nodeid.endswith("@alone")
