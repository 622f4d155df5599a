"""What every test gets: the dose of the run, Hypothesis profiles, limits that fit the dose."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests import dose as doses
from tests import postgres_server

SOAK_TEST_LIMIT_S = 4 * 3600

# No deadline and no complaint about slow examples: how long one takes says how busy the machine is.
settings.register_profile(
    doses.NAME,
    max_examples=doses.dose(short=100, soak=500),
    stateful_step_count=doses.dose(short=50, soak=100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile(doses.NAME)


def pytest_configure() -> None:
    postgres_server.begin()


def pytest_unconfigure() -> None:
    postgres_server.end()


def pytest_report_header() -> str:
    return f"plait dose: {doses.NAME}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a soak every test may take hours, also those that name a limit for the short dose."""
    if doses.SOAK:
        for item in items:
            item.add_marker(pytest.mark.timeout(SOAK_TEST_LIMIT_S), append=False)


@pytest.fixture
def dose() -> object:
    """`dose(short=40, soak=1000)`: see `tests/dose.py`, which is imported where a decorator needs it."""
    return doses.dose
