"""The contract of a store as tests: subclass, give a `store` fixture, and pytest does the rest."""

from __future__ import annotations

from plait.testing._async.contract.appending import AsyncAppendTests
from plait.testing._async.contract.cataloguing import AsyncCatalogueTests
from plait.testing._async.contract.changing import AsyncChangeTests
from plait.testing._async.contract.content import AsyncContentTests
from plait.testing._async.contract.copying import AsyncCopyTests
from plait.testing._async.contract.feeding import AsyncFeedTests
from plait.testing._async.contract.keeping import AsyncValueTests
from plait.testing._async.contract.leasing import AsyncLeaseTests
from plait.testing._async.contract.lives import AsyncLifeTests
from plait.testing._async.contract.overlaying import AsyncOverlayTests
from plait.testing._async.contract.reading import AsyncReadTests
from plait.testing._async.contract.recording import AsyncRecordTests
from plait.testing._async.contract.searching import AsyncSearchTests


class AsyncStoreTests(
    AsyncAppendTests,
    AsyncChangeTests,
    AsyncReadTests,
    AsyncLifeTests,
    AsyncCopyTests,
    AsyncOverlayTests,
    AsyncFeedTests,
    AsyncSearchTests,
    AsyncCatalogueTests,
    AsyncContentTests,
    AsyncValueTests,
    AsyncLeaseTests,
    AsyncRecordTests,
):
    """What every store must do, as a test class to inherit from.

    A subclass gives a pytest fixture named `store` that yields an opened, empty store and closes
    it afterwards. It may override `payload_count` if the store can say how many attachment
    payloads it holds.
    """
