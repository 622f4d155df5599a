"""The habits of this repository that no linter holds: change fragments, first lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name != "README.md")


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_change_fragment_has_a_kind_and_a_text(path: Path) -> None:
    assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed|security)\.md", path.name)
    assert path.read_text(encoding="utf-8").strip()


def test_every_module_says_on_line_one_what_it_owns() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert re.match(r'[rR]?"""\S', path.read_text(encoding="utf-8")), f"{path}: line 1 is no docstring"
