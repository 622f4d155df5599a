"""What a backend is held to, and what tests lean on: the contract as tests, a model store, faults.

Needs the extra `testing`.
"""

from __future__ import annotations

try:
    import pytest
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("plait.testing needs pytest: pip install 'plait[testing]'", name=error.name) from error

# Before they are imported, so that a failure shows the values: hence the imports below this line.
for face in ("_async", "_sync"):
    pytest.register_assert_rewrite(f"plait.testing.{face}.contract")
del face

# After that line: pytest rewrites only what is not imported yet.
from plait.testing._async.model_store import AsyncModelStore  # noqa: E402
from plait.testing._async.store_tests import AsyncStoreTests  # noqa: E402
from plait.testing._sync.model_store import ModelStore  # noqa: E402
from plait.testing._sync.store_tests import StoreTests  # noqa: E402

__all__ = ["AsyncModelStore", "AsyncStoreTests", "ModelStore", "StoreTests"]
