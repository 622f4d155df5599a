"""Under Patroni: who the primary is changes while writers are at work, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.dose import dose
from tests.postgres.test_failover import AFTER, BEFORE, Ledger, load
from tests.postgres_patroni import Cluster, cluster

pytestmark = [pytest.mark.xdist_group("failover"), pytest.mark.timeout(600)]


def test_nothing_acknowledged_is_lost_whoever_the_primary_is() -> None:
    """Planned changes of the primary and dead machines, one after another, each with both servers there before."""
    ledger = Ledger()
    with cluster() as servers:
        for trouble in ("planned", "dead") * dose(short=1, soak=5):
            ledger.stop = False
            asyncio.run(load(servers.url, ledger, partial(_trouble, servers, trouble), AFTER))
        assert ledger.lost(servers.url) == []
        assert len(ledger.rows) >= BEFORE + AFTER


def _trouble(servers: Cluster, kind: str) -> None:
    if kind == "planned":
        servers.switch_over()
        return
    servers.wait_for_both()
    old = servers.primary()
    assert old is not None
    servers.kill(old)
    servers.wait_for_another(old)
    servers.start(old)
    servers.wait_for_both()
