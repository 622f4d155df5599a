"""Times are UTC instants whatever zone the process or its session at the server is in."""

from __future__ import annotations

import datetime as dt
import json
from urllib.parse import quote

import psycopg
import pytest

import plait
from tests.behaviour.programs import run
from tests.behaviour.test_time_zones import PROGRAM
from tests.dose import dose

ZONES = dose(
    short=[("America/New_York", "Asia/Kolkata")],
    soak=[("America/New_York", "Asia/Kolkata"), ("Asia/Kolkata", "Pacific/Apia"), ("UTC", "America/New_York")],
)
SERVED = PROGRAM.replace(', durability="process"', "")


def in_zone(url: str, zone: str) -> str:
    """The URL by which the server takes its sessions to be in a zone."""
    return f"{url}?options={quote(f'-c TimeZone={zone}')}"


@pytest.mark.parametrize(("here", "there"), ZONES)
def test_instants_survive_the_zones_of_the_process_and_of_the_server(url: str, here: str, there: str) -> None:
    """B-020: also in the hour that a clock repeats or skips; read in another zone at either end."""
    with psycopg.connect(in_zone(url, there)) as connection:
        assert connection.execute("SHOW TimeZone").fetchone() == (there,)
    written = json.loads(run(SERVED, in_zone(url, there), here, env={"TZ": here}))
    for zone in (there, here, "UTC"):
        with plait.open(in_zone(url, zone)) as sessions:
            found = {message.id: message.created_at for message in sessions.session(here).history()}  # type: ignore[union-attr]
            assert found == {id: dt.datetime.fromisoformat(text) for id, text in written.items()}
            assert all(at.utcoffset() == dt.timedelta(0) for at in found.values())
            assert not sessions.retain(max_age=dt.timedelta(minutes=50), dry_run=True).sessions
    given = dt.datetime(2024, 11, 3, 5, 30, 0, 123456, tzinfo=dt.timezone.utc)
    with psycopg.connect(in_zone(url, there)) as connection:
        shown = connection.execute("SELECT time FROM plait.messages WHERE id = 'given'").fetchall()
    assert shown == [(given,)]


def test_the_clock_of_a_lease_is_the_database_s_in_whatever_zone(url: str) -> None:
    """B-020: when it ends is told as the same instant to everybody."""
    with plait.open(in_zone(url, "Asia/Kolkata")) as one, plait.open(in_zone(url, "America/New_York")) as other:
        one.session("chat").append(plait.user("words"))
        with one.session("chat").lease(ttl_s=60) as lease, psycopg.connect(url) as connection:
            ((now,),) = connection.execute("SELECT now()").fetchall()
            seen = other.session("chat").lease_info()
            assert seen is not None and seen == one.session("chat").lease_info()
            assert dt.timedelta(0) < seen.until - now <= dt.timedelta(seconds=61)
            assert lease.append(plait.user("more")).inserted


def test_a_naive_time_is_refused_before_anything_is_written(url: str) -> None:
    """B-020"""
    with plait.open(in_zone(url, "Asia/Kolkata")) as sessions:
        with pytest.raises(plait.UsageError):
            sessions.session("chat").import_message(
                plait.user("words", id="m"), parent=None, created_at=dt.datetime(2026, 1, 1)
            )
        assert sessions.get("chat") is None
