"""PostgreSQL beside the model store, and beside SQLite, driven as SQLite and the model are: all three answer the same."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis.stateful import initialize, rule

from plait.errors import PlaitError
from plait.store._sync.port import Store
from plait.store._sync.store import PlanStore
from plait.store.postgres.driver import PostgresDriver
from plait.store.postgres.settings import Settings
from plait.testing import ModelStore
from tests.dose import dose
from tests.postgres_server import database
from tests.property.test_tree_machine import SESSIONS, Pair, TreeMachine
from tests.stores import open_sqlite


def open_postgres(url: str) -> PlanStore:
    store = PlanStore(PostgresDriver(Settings(url)))
    store.open()
    return store


class ServedTreeMachine(TreeMachine):
    """The same random operations, on a server."""

    @initialize()
    def begin(self) -> None:
        self.ends = ExitStack()
        self.url = self.ends.enter_context(database())
        self.clock = itertools.count(1_700_000_000_000_000, 1_000_000)
        self.kept = {name: Pair(name) for name in SESSIONS}
        self.real: Store = open_postgres(self.url)
        self.model: Store = ModelStore()

    def teardown(self) -> None:
        if not hasattr(self, "real"):
            return
        try:
            for name in SESSIONS:
                self.same_session(name)
        finally:
            self.real.close()
            self.ends.close()

    @rule()
    def reopen(self) -> None:
        self.real.close()
        self.real = open_postgres(self.url)

    @rule()
    def crash(self) -> None:
        """Go on beside a store that nobody closes."""
        self.ends.callback(self.real.close)
        self.real = open_postgres(self.url)


class SideBySideMachine(ServedTreeMachine):
    """A server beside a file, in the model's place: what the one answers, or refuses in so many words, does the other."""

    @initialize()
    def begin(self) -> None:
        super().begin()
        self.folder = Path(self.ends.enter_context(TemporaryDirectory(prefix="plait-machine-")))
        self.model = open_sqlite(self.folder / "a.db")
        self.ends.callback(self.model.close)

    def refusal(self, error: PlaitError) -> Any:
        return type(error), str(error)


TestServedTreeMachine = ServedTreeMachine.TestCase
TestServedTreeMachine.settings = settings(
    max_examples=dose(short=1, soak=100), stateful_step_count=dose(short=12, soak=50), deadline=None
)
TestSideBySideMachine = SideBySideMachine.TestCase
TestSideBySideMachine.settings = settings(
    max_examples=dose(short=2, soak=100), stateful_step_count=dose(short=12, soak=50), deadline=None
)
