"""Every field of every line of a plait file, given any JSON value: kept as it is, or refused naming line and field."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import plait
from plait import interchange
from plait.interchange.plait_jsonl import DAMAGED, END, HEADER, MESSAGE

CORNERS = [
    None, True, False, 0, 1, 5, -1, 1.5, 1e300, 10**30, -(10**30), 2**63, 2**32, "", " ", "5", "\ud800", "\x00", "x" * 600,
    [], [1], {}, {"a": None}, {"": {}}, "2026-13-01", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", 1e11,
    "plait:default", "plait:stage:1",
]  # fmt: skip
VALUES = st.sampled_from(CORNERS) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
PLACES = [
    *((0, (field,)) for field in ("plait", "type", *HEADER)),
    *((1, (field,)) for field in ("type", *MESSAGE)),
    *((1, ("message", field)) for field in ("id", "role", "parts")),
    *((2, (field,)) for field in ("type", *DAMAGED)),
    *((3, (field,)) for field in ("type", *END)),
]
"""Which line, and where in it."""

KEPT = ("id", "name", "owner", "parentId", "pinned", "metadata", "state")
DEFAULTS: dict[str, Any] = {"pinned": False, "metadata": {}, "state": {}}


def lines() -> list[dict[str, Any]]:
    """A small file with a line of every kind."""
    file = io.BytesIO()
    with plait.open(":memory:") as sessions:
        sessions.create("s", name="n", owner="o", metadata={"k": 1})
        sessions.session("s").append(plait.user("hello", id="a"))
        interchange.write_jsonl(sessions.session("s"), file)
    header, message, end = [json.loads(line) for line in file.getvalue().splitlines()]
    damaged = {"type": "damaged", "id": "d", "parent": "a", "seq": 2, "role": "user", "reason": "gone"}
    return [header, message, damaged, end]


LINES = lines()


def changed(number: int, path: tuple[str, ...], value: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(LINES))
    *above, last = path
    box = found[number]
    for key in above:
        box = box[key]
    box[last] = value
    return found


def check(number: int, path: tuple[str, ...], value: Any) -> None:
    """Import the file with one value in it; it is kept as it is, or refused whole."""
    given = changed(number, path, value)
    with tempfile.TemporaryDirectory() as folder, plait.open(":memory:") as sessions:
        file = Path(folder) / "file.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in given))
        try:
            [done] = interchange.import_file(sessions, file, format="plait")
        except plait.PlaitError as error:
            check_told(str(error), str(file), number, path)
            assert list(sessions.all()) == []
        else:
            check_kept(sessions.session(done.session_id), given)


def check_told(text: str, file: str, number: int, path: tuple[str, ...]) -> None:
    assert isinstance(text, str) and text.startswith(f"{file}: "), text
    assert "\n" not in text, text
    if path == ("id",) and number == 0 and "reserved" in text:
        return  # true of the session, not of the line
    rest = text.removeprefix(f"{file}: ")
    assert rest.startswith("line "), text
    if path[-1] not in ("plait", "type"):  # what a line is, is said of the whole line
        # An id that changed is missed by the line that names it as its parent; an empty message lacks its role.
        also = {"id": "parent", "message": "role"}.get(path[-1], path[-1])
        assert path[-1] in rest or also in rest, text


def check_kept(session: plait.Session, given: list[dict[str, Any]]) -> None:
    """What is exported again says what the file said."""
    file = io.BytesIO()
    interchange.write_jsonl(session, file)
    header, message, *_ = [json.loads(line) for line in file.getvalue().splitlines()]
    for field in KEPT:
        said = given[0][field]
        wanted = DEFAULTS.get(field) if said is None else said
        if field in ("metadata", "state"):
            wanted = {key: item for key, item in wanted.items() if item is not None}
        assert header[field] == wanted and type(header[field]) is type(wanted), field
    said = given[1]["message"]
    assert message["message"] == {**said, "id": said["id"] or given[1]["id"]}
    assert message["format"] == (given[1]["format"] or "plait")


@pytest.mark.parametrize(("number", "path"), PLACES)
def test_a_corner_value_in_a_field_is_kept_or_refused(number: int, path: tuple[str, ...]) -> None:
    for value in CORNERS:
        check(number, path, value)


@given(place=st.sampled_from(PLACES), value=VALUES)
@example(place=(0, ("name",)), value=5)
@example(place=(0, ("state",)), value=5)
@example(place=(1, ("seq",)), value=10**30)
def test_any_value_in_a_field_is_kept_or_refused(place: tuple[int, tuple[str, ...]], value: Any) -> None:
    check(*place, value)


@pytest.mark.parametrize("number", range(4))
def test_a_field_nobody_knows_is_reported_as_lost(number: int, tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in changed(number, ("mood",), "good")))
    with plait.open(":memory:") as sessions:
        [done] = interchange.import_file(sessions, file, format="plait")
        told = [problem for problem in done.report.problems if "mood" in problem.reason]
        assert [(problem.line, problem.lost) for problem in told] == [(number + 1, True)]
