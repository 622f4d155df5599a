"""What a backend is held to, and what tests lean on: the contract as tests, a model store, faults.

Needs the extra `testing`.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("plait.testing._async.store_tests", "plait.testing._sync.store_tests")

from plait.testing._async.model_store import AsyncModelStore
from plait.testing._async.store_tests import AsyncStoreTests
from plait.testing._sync.model_store import ModelStore
from plait.testing._sync.store_tests import StoreTests

__all__ = ["AsyncModelStore", "AsyncStoreTests", "ModelStore", "StoreTests"]
