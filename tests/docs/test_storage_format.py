"""The page on the stored format names every table and column that a new file has, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import plait
from plait.store.sqlite import connection
from tests.docs.pages import DOCS, links, name_of, pages

PAGE = DOCS / "explanation" / f"storage-format-{connection.newest_version()}.md"
COLUMN = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def documented() -> dict[str, list[str]]:
    """The columns of each table as the page lists them."""
    sections = re.split(r"^### `(\w+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        name: COLUMN.findall(text.split("\n## ")[0]) for name, text in zip(sections[::2], sections[1::2], strict=True)
    }


@pytest.fixture
def database(tmp_path: Path) -> Iterator[apsw.Connection]:
    path = tmp_path / "new.db"
    with plait.open(path):
        pass
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as opened:
        yield opened


def test_every_table_and_column_is_documented_in_order(database: apsw.Connection) -> None:
    query = """SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
                WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.rowid, c.cid"""
    tables: dict[str, list[str]] = {}
    for table, column in database.execute(query):
        tables.setdefault(str(table), []).append(str(column))
    assert documented() == tables


def test_the_marks_of_the_file_are_those_documented(database: apsw.Connection) -> None:
    text = PAGE.read_text(encoding="utf-8")
    marks = [
        database.execute(f"PRAGMA {name}").fetchall()[0][0] for name in ("application_id", "user_version", "page_size")
    ]
    assert f"| `PRAGMA application_id` | {marks[0]} (`0x{connection.APPLICATION_ID:08X}`" in text
    assert f"| `PRAGMA user_version` | {marks[1]}," in text
    assert f"| page size | {marks[2]}," in text


def test_pages_about_other_things_lead_to_the_current_one() -> None:
    """Only the index lists those of earlier versions, and they each other."""
    others = [page for page in pages() if page != DOCS / "index.md" and not page.name.startswith(PAGE.name[:14])]
    old = [
        f"{name_of(page)}:{line}: {target}"
        for page in others
        for line, target in links(page)
        if "storage-format-" in target and PAGE.name not in target
    ]
    assert old == []
