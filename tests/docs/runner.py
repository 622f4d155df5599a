"""Runs the Python blocks of pages in order, in this process and folder: `python runner.py PAGE...`.

What a line prints is compared with the comments beside and directly below it:

    print("a")  # -> a

`...` in such a comment stands for anything. A block with `await` outside functions runs under asyncio.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import io
import re
import sys
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.docs.pages import Block, blocks

_EXPECTED = re.compile(r"^# -> ?(?P<text>.*)$")


class Mismatch(AssertionError):
    """A line of a page prints something else than the page says."""


def run(page: Path) -> None:
    """Run the page's blocks, each seeing what those before it made."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.mark == "file":
            Path(block.value).write_text(block.code, encoding="utf-8")
        elif block.language == "python" and block.mark != "not run":
            _run_block(page, block, space)


def _run_block(page: Path, block: Block, space: dict[str, Any]) -> None:
    source = "\n" * (block.line - 1) + block.code  # so that tracebacks name the lines of the page
    expected = _expectations(block)
    printed: defaultdict[int, list[str]] = defaultdict(list)

    def tell(*values: object, **options: Any) -> None:
        if options.get("file") is not None:
            builtins.print(*values, **options)
            return
        out = io.StringIO()
        builtins.print(*values, **{**options, "file": out})
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        if frame.f_back.f_code.co_filename == str(page):
            printed[frame.f_back.f_lineno] += out.getvalue().splitlines()

    space["print"] = tell
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, space))
    else:
        exec(code, space)
    for line, texts in expected.items():
        _compare(page, line, texts, printed[line])


def _expectations(block: Block) -> dict[int, list[str]]:
    """What the lines of a block are to print, by line of the page."""
    lines = block.code.splitlines()
    expected: dict[int, list[str]] = {}
    beside = set[int]()
    owner = 0
    for token in tokenize.generate_tokens(io.StringIO(block.code).readline):
        found = _EXPECTED.match(token.string) if token.type == tokenize.COMMENT else None
        if found is None:
            continue
        line = token.start[0] + block.line - 1
        if token.line[: token.start[1]].strip():
            owner = line
        elif not owner or line != owner + len(expected[owner]) + (owner not in beside):
            owner = line - 1
        if "print(" not in lines[owner - block.line]:
            raise Mismatch(f"line {line}: `# ->` stands beside or below no line that prints")
        if owner == line:
            beside.add(owner)
        expected.setdefault(owner, []).append(found["text"])
    return expected


def _compare(page: Path, line: int, expected: list[str], printed: list[str]) -> None:
    if len(expected) != len(printed) or not all(map(_fits, expected, printed)):
        told, seen = "\n    ".join(expected), "\n    ".join(printed) or "(nothing)"
        raise Mismatch(f"{page.name} line {line} is to print\n    {told}\nand prints\n    {seen}")


def _fits(expected: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(piece) for piece in expected.split("..."))
    return re.fullmatch(pattern, printed.rstrip()) is not None


if __name__ == "__main__":
    for given in sys.argv[1:]:
        run(Path(given))
