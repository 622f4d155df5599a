"""The pages of the docs as their tests see them: blocks of code, headings, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<info>.*)$")
_MARK = re.compile(r"^ *<!-- (?P<kind>not run|file): (?P<value>\S.*?) -->$")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.*?) *$")
_LINK = re.compile(r"\[[^\]\[]*\]\((?P<target>[^()\s]+)\)")
_REFERENCE = re.compile(r"^\[[^\]]+\]: +(?P<target>\S+)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is that of its first line of code, from 1.

    `mark` and `value` are those of the comment just above it: `<!-- not run: reason -->` or
    `<!-- file: name -->`, which writes the block to that file.
    """

    language: str
    code: str
    line: int
    mark: str = ""
    value: str = ""


def pages() -> list[Path]:
    """Every page: the README and all below `docs`."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """A page as a test names it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        end = _end_of(lines, at, fence)
        indent = len(fence["indent"])
        code = "".join(line[indent:] + "\n" for line in lines[at + 1 : end])
        mark = _MARK.match(lines[at - 1]) if at else None
        kind, value = (mark["kind"], mark["value"]) if mark else ("", "")
        yield Block(fence["info"].strip(), code, at + 2, kind, value)
        at = end + 1


def _end_of(lines: list[str], at: int, fence: re.Match[str]) -> int:
    closing = fence["indent"] + fence["fence"]
    for end in range(at + 1, len(lines)):
        if lines[end].rstrip() == closing:
            return end
    raise ValueError(f"line {at + 1}: the block that begins here has no end")


def prose(page: Path) -> list[str]:
    """The lines of a page outside its blocks, those of blocks left empty."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks(page):
        for at in range(block.line - 2, block.line + block.code.count("\n")):
            lines[at] = ""
    return lines


def headings(page: Path) -> list[str]:
    """The headings of a page, without their marks."""
    return [found["text"] for line in prose(page) if (found := _HEADING.match(line))]


def anchors(page: Path) -> set[str]:
    """What a link can name on a page, as GitHub makes it from the headings."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for text in headings(page):
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = found[slug] = found.get(slug, -1) + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names


def links(page: Path) -> Iterator[tuple[int, str]]:
    """The targets of a page's links, with their lines; not those to other sites."""
    for number, line in enumerate(prose(page), 1):
        plain = re.sub(r"`[^`]*`", "", line)
        targets = [found["target"] for found in (*_LINK.finditer(plain), *_REFERENCE.finditer(plain))]
        yield from ((number, target) for target in targets if "://" not in target)
