"""Generated from src/plait/testing/_async/store_tests.py by tools/unasync.py: edit that file. The contract of a store as tests: subclass, give a `store` fixture, and pytest does the rest."""

from __future__ import annotations

from plait.testing._sync.contract.appending import AppendTests
from plait.testing._sync.contract.cataloguing import CatalogueTests
from plait.testing._sync.contract.changing import ChangeTests
from plait.testing._sync.contract.content import ContentTests
from plait.testing._sync.contract.copying import CopyTests
from plait.testing._sync.contract.feeding import FeedTests
from plait.testing._sync.contract.keeping import ValueTests
from plait.testing._sync.contract.leasing import LeaseTests
from plait.testing._sync.contract.lives import LifeTests
from plait.testing._sync.contract.overlaying import OverlayTests
from plait.testing._sync.contract.reading import ReadTests
from plait.testing._sync.contract.recording import RecordTests
from plait.testing._sync.contract.searching import SearchTests


class StoreTests(
    AppendTests,
    ChangeTests,
    ReadTests,
    LifeTests,
    CopyTests,
    OverlayTests,
    FeedTests,
    SearchTests,
    CatalogueTests,
    ContentTests,
    ValueTests,
    LeaseTests,
    RecordTests,
):
    """What every store must do, as a test class to inherit from.

    A subclass gives a pytest fixture named `store` that yields an opened, empty store and closes
    it afterwards. It may override `payload_count` if the store can say how many attachment
    payloads it holds.
    """
