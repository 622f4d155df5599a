"""What every test gets: the dose of the run, Hypothesis profiles, limits that fit the dose."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import dose as doses
from tests import postgres_server, scratch
from tests.behaviour import programs

SOAK_TEST_LIMIT_S = 4 * 3600

GENERATED = {
    "tests/behaviour/_sync/": 4,
    "tests/conformance/_sync/test_sqlite_store.py::": 3,
    "tests/conformance/_sync/test_postgres_store.py::": 3,
}
"""Of these tests a short run holds one of so many, by the sum of its name: their originals, from which they are made by
replacing words, are run whole. A soak holds all, and so does a run that names their folder."""

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
    scratch.choose()
    postgres_server.begin()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter, which pytest's own are not."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


def pytest_runtest_teardown() -> None:
    programs.end_left()


def pytest_unconfigure() -> None:
    postgres_server.end()


def pytest_report_header() -> str:
    return f"plait dose: {doses.NAME}; files in {tempfile.gettempdir()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a soak every test may take hours, also those that name a limit for the short dose; that leaves some out."""
    if doses.SOAK:
        for item in items:
            item.add_marker(pytest.mark.timeout(SOAK_TEST_LIMIT_S), append=False)
    elif not any("_sync" in argument for argument in config.args):
        left = {item for item in items if _is_left_out(item)}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def _is_left_out(item: pytest.Item) -> bool:
    one_of = next((share for start, share in GENERATED.items() if item.nodeid.startswith(start)), 1)
    return not doses.is_chosen(item.name, one_of)


@pytest.fixture
def dose() -> object:
    """`dose(short=40, soak=1000)`: see `tests/dose.py`, which is imported where a decorator needs it."""
    return doses.dose
