"""The map from the source system's behaviour to tests names tests, and differences, that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
MAP = (Path(__file__).parent / "SOURCE.md").read_text(encoding="utf-8")
DIFFERENCES = TESTS.parent / "docs" / "explanation" / "deliberate-differences.md"


def test_every_test_that_the_map_names_exists() -> None:
    defined = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", MAP))
    assert len(named) > 50
    assert named - defined == set()


def _rows() -> list[tuple[str, str]]:
    """The facts of the map, each with where it is held."""
    lines = [line for line in MAP.splitlines() if line.startswith("| ") and not line.startswith("| fact")]
    cells = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines]
    assert all(len(row) == 2 for row in cells), [row for row in cells if len(row) != 2]
    return [(fact, held) for fact, held in cells]


def test_every_difference_that_the_map_names_has_a_row() -> None:
    text = DIFFERENCES.read_text(encoding="utf-8")
    named = re.findall(r'difference: "([^"]+)"', MAP)
    assert len(named) > 8
    assert [words for words in named if words not in text] == []


def test_every_line_of_the_map_says_where_it_is_held() -> None:
    """By a test, by a file of tests that is there, or by a difference that is quoted."""
    rows = _rows()
    assert len(rows) > 180
    before = ""
    for fact, held in rows:
        same = re.match(r"(the same|as above)$", held)
        found = re.findall(r'`test_\w+`|difference: "[^"]+"|tests/\w+', before if same else held)
        assert found, (fact, held)
        before = before if same else held


def test_nothing_of_the_map_is_put_off_or_said_without_its_row() -> None:
    for fact, held in _rows():
        assert "later:" not in held, fact
        assert held.count("difference") == len(re.findall(r'difference: "[^"]+"', held)), (fact, held)


def test_every_file_that_the_map_names_exists() -> None:
    for path in set(re.findall(r"tests/[\w/]+(?:\.py)?", MAP)):
        assert (TESTS.parent / path).exists(), path


def test_no_fact_stands_in_the_map_twice() -> None:
    sections = re.split(r"^## ", MAP, flags=re.MULTILINE)
    for section in sections:
        facts = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)
        assert len(facts) == len(set(facts)), section[:40]
