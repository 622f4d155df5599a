"""What of the contract a short run holds: all of it in asyncio's face; of the generated one a part."""

from __future__ import annotations

import pytest

from tests.dose import dose, is_chosen

ONE_OF = dose(short=3, soak=1)
"""One of so many tests, by the sum of its name, where both faces would ask a database the same."""

REPEATED = tuple(f"tests/conformance/_sync/test_{store}_store.py::" for store in ("sqlite", "postgres"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the short dose has no time for."""
    left = {item for item in items if item.nodeid.startswith(REPEATED) and not is_chosen(item.name, ONE_OF)}
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
