"""Links between pages lead somewhere, and every page can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, links, name_of, pages


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_between_pages_resolve(page: Path) -> None:
    broken = [f"line {line}: {target}" for line, target in links(page) if not _resolves(page, target)]
    assert broken == []


def _resolves(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    to = (page.parent / path).resolve() if path else page
    return to.exists() and (not anchor or anchor in anchors(to))


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, queue = set[Path](), [DOCS / "index.md"]
    while queue:
        page = queue.pop()
        if page not in reached and page.suffix == ".md" and page.is_file():
            reached.add(page)
            queue += [(page.parent / target.partition("#")[0]).resolve() for _, target in links(page)]
    assert sorted(name_of(page) for page in set(pages()) - reached - {ROOT / "README.md"}) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading\n\n[a](other.md) [b](#a-heading) [c](#nothing) `[d](no.md)`\n", encoding="utf-8")
    assert [target for _, target in links(page) if not _resolves(page, target)] == ["other.md", "#nothing"]
