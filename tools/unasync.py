"""Writes the sync twin of every `_async` directory: the same files in `_sync`, line for line.

    python tools/unasync.py            write what changed
    python tools/unasync.py --check    write nothing, fail if a twin is not what it should be

Only words are replaced, so line numbers stay equal and a traceback of one face can be read in the
other. What differs by more than words belongs in a module outside, written once for each face.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOTS = ("src", "tests")

# Whole words only. A class named `AsyncThing` becomes `Thing` without an entry here.
WORDS = {
    "async def": "def",
    "async for": "for",
    "async with": "with",
    "await ": "",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "may_listen_async": "may_listen",
    "open_async": "open",
    "aside_async": "aside",
    "aside_if_async": "aside_if",
    "call_async": "call",
    "pause_async": "pause",
    "pieces_async": "pieces",
    "read_async": "read",
    "rest_async": "rest",
    "settle_async": "settle",
    "write_async": "write",
    "_async": "_sync",
}

HEADER = "Generated from {source} by tools/unasync.py: edit that file. "
DOCSTRING = re.compile(r'[rR]?"""')
GENERATED = re.compile(DOCSTRING.pattern + HEADER.replace(".", r"\.").format(source=r"\S+"))


def pattern(words: dict[str, str]) -> re.Pattern[str]:
    """One expression for all of `words`, and for the prefix of a class name."""
    alternatives = (re.escape(word) + (r"\b" if word[-1] != " " else "") for word in words)
    return re.compile(rf"\b(?:{'|'.join(alternatives)}|Async(?=[A-Z]))")


def convert(text: str, words: dict[str, str], used: Counter[str]) -> str:
    """`text` with every word replaced; `used` counts them."""

    def replace(match: re.Match[str]) -> str:
        used[match[0]] += 1
        return words.get(match[0], "")

    return pattern(words).sub(replace, text)


def generate(source: Path, words: dict[str, str], used: Counter[str], root: Path = ROOT) -> str:
    """The text of the twin of `source`, whose docstring then begins by saying where it comes from."""
    name = source.relative_to(root).as_posix()
    text = convert(source.read_text(encoding="utf-8"), words, used)
    opening = DOCSTRING.match(text)
    if opening is None:
        raise ValueError(f"{name}: line 1 must be the docstring of the module: it takes the generated header")
    return opening[0] + HEADER.format(source=name) + text[opening.end() :]


def sources(root: Path) -> Iterator[Path]:
    """Every Python file in a directory `_async`."""
    for base in ROOTS:
        yield from sorted((root / base).rglob("_async/**/*.py"))


def target(source: Path) -> Path:
    """Where the twin of `source` lies."""
    return Path(*("_sync" if part == "_async" else part for part in source.parts))


def plan(root: Path, words: dict[str, str]) -> tuple[dict[Path, str], list[str]]:
    """What each generated file should hold, and what is wrong with the sources, the table or the twins."""
    used: Counter[str] = Counter()
    wanted: dict[Path, str] = {}
    problems: list[str] = []
    for source in sources(root):
        try:
            wanted[target(source)] = generate(source, words, used, root)
        except ValueError as error:
            problems.append(str(error))
    problems += [f"tools/unasync.py: no source uses {word!r}: remove it" for word in words if not used[word]]
    problems += stray(root, wanted)
    return wanted, problems


def stray(root: Path, wanted: dict[Path, str]) -> Iterator[str]:
    """Files in a generated directory that nobody generates, or that somebody wrote."""
    for base in ROOTS:
        for path in sorted((root / base).rglob("_sync/**/*.py")):
            name = path.relative_to(root).as_posix()
            if path not in wanted:
                yield f"{name}: has no source in _async: delete it, or move it out if it was written by hand"
            elif not GENERATED.match(path.read_text(encoding="utf-8")):
                yield f"{name}: has no generated header, but a source: move it out, or delete it and run tools/unasync.py"


def outdated(wanted: dict[Path, str]) -> list[Path]:
    """Generated files that are absent or hold something else."""
    return [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def write(path: Path, text: str) -> None:
    """Write a generated file, never over one that somebody wrote."""
    if path.exists() and not GENERATED.match(path.read_text(encoding="utf-8")):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(argv: list[str], root: Path = ROOT, words: dict[str, str] = WORDS) -> int:
    if argv not in ([], ["--check"]):
        print("usage: unasync.py [--check]", file=sys.stderr)
        return 2
    wanted, problems = plan(root, words)
    if not argv:
        for path in outdated(wanted):
            write(path, wanted[path])
    problems += [f"{p.relative_to(root).as_posix()}: drifted: run tools/unasync.py" for p in outdated(wanted)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
