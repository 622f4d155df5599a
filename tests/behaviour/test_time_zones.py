"""Times are UTC instants whatever zone the process, or a change of clocks, is in."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

import plait
from tests.behaviour.programs import run

PROGRAM = """
import datetime as dt
path, zone = sys.argv[1:]
with plait.open(path, durability="process") as sessions:
    chat = sessions.session(zone)
    before = time.time()
    appended = chat.append(note("now")).message.created_at
    after = time.time()
    given = dt.datetime.fromisoformat("2024-11-03T01:30:00.123456-04:00")
    chat.import_message(note("given"), parent="now", created_at=given)
    local = dt.datetime(2024, 3, 10, 2, 30).astimezone()
    chat.import_message(note("local"), parent="given", created_at=local)
    rows = {message.id: message.created_at for message in chat.history()}
    info = sessions.get(zone)
    assert before - 0.001 <= rows["now"].timestamp() <= after + 0.001
    assert rows["now"] == appended and rows["given"] == given and rows["local"] == local
    assert all(at.utcoffset() == dt.timedelta(0) for at in [*rows.values(), info.created_at, info.active_at])
    assert before - 0.001 <= info.active_at.timestamp() <= time.time() + 0.001
    print(json.dumps({id: at.isoformat() for id, at in rows.items()}))
"""


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia"])
def test_instants_survive_the_zone_they_were_written_in(tmp_path: Path, zone: str) -> None:
    """B-020: written in one zone, read in this process' own; also in the hour a clock repeats or skips."""
    written = json.loads(run(PROGRAM, tmp_path / "a.db", zone, env={"TZ": zone}))
    with plait.open(tmp_path / "a.db") as sessions:
        for id, text in written.items():
            message = sessions.session(zone).get(id)
            assert isinstance(message, plait.Message)
            assert message.created_at == dt.datetime.fromisoformat(text)
        given = sessions.session(zone).get("given")
        assert isinstance(given, plait.Message)
        assert given.created_at == dt.datetime(2024, 11, 3, 5, 30, 0, 123456, tzinfo=dt.timezone.utc)
        assert not sessions.retain(max_age=dt.timedelta(minutes=50)).sessions


@pytest.mark.parametrize("year", [1, 1600, 1969, 1970, 2038, 9999])
def test_any_year_a_datetime_can_say_is_kept(tmp_path: Path, year: int) -> None:
    at = dt.datetime(year, 6, 1, 12, 30, 15, 999999, tzinfo=dt.timezone.utc)
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        chat.import_message(note_at("m"), parent=None, created_at=at)
        (stat,) = chat.path_stats()
        (message,) = chat.history()
        assert isinstance(message, plait.Message)
        assert stat.created_at == message.created_at == at


def note_at(id: str) -> dict[str, object]:
    return plait.user("words", id=id)
