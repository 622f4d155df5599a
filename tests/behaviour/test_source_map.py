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


def test_every_difference_that_the_map_names_has_a_row() -> None:
    text = DIFFERENCES.read_text(encoding="utf-8")
    named = re.findall(r'difference: "([^"]+)"', MAP)
    assert len(named) > 8
    assert [words for words in named if words not in text] == []


def test_every_line_of_the_map_says_where_it_is_held() -> None:
    rows = [line for line in MAP.splitlines() if line.startswith("| ") and not line.startswith("| fact")]
    assert len(rows) > 60
    for row in rows:
        assert re.search(r"test_\w+|later:|difference|the same|as above|tests/", row.split("|")[2]), row
