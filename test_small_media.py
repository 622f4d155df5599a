import pytest
from plait.testing import ModelStore, StoreTests
from small_media import SmallMedia


class TestSmallMedia(StoreTests):
    @pytest.fixture
    def store(self):
        store = SmallMedia(ModelStore(), limit_bytes=1 << 30)
        store.open()
        yield store
        store.close()
