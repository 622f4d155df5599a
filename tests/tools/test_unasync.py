"""The conversion of async sources to their sync twins, and what its check refuses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tools import unasync

# A table of the tests' own: the real one holds just what the real sources use.
WORDS = {
    "async def": "def",
    "async for": "for",
    "async with": "with",
    "await ": "",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "aclose": "close",
    "aclosing": "closing",
    "aiter": "iter",
    "anext": "next",
    "asynccontextmanager": "contextmanager",
    "open_async": "open",
    "_async": "_sync",
}

SOURCE = '''"""Reads things.

Use it with `async with` and `async for`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from plait._async.other import AsyncOther


@asynccontextmanager
async def opened(other: AsyncOther) -> AsyncIterator[int]:
    async with other as o, o:
        yield (await o.read()).size + await o.read()
        await o.aclose()


class AsyncThing:
    async def __aenter__(self) -> AsyncThing:
        return self

    async def __anext__(self) -> int:
        if [x async for x in self.parts() if await x.ok()]:
            raise StopAsyncIteration
        return await anext(aiter(self.others))

    async def __aexit__(self, *_: object) -> None: ...

    def __aiter__(self) -> AsyncThing:
        return plait.open_async(self, aclosing)
'''

TWIN = '''"""Generated from src/p/_async/a.py by tools/unasync.py: edit that file. Reads things.

Use it with `with` and `for`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plait._sync.other import Other


@contextmanager
def opened(other: Other) -> Iterator[int]:
    with other as o, o:
        yield (o.read()).size + o.read()
        o.close()


class Thing:
    def __enter__(self) -> Thing:
        return self

    def __next__(self) -> int:
        if [x for x in self.parts() if x.ok()]:
            raise StopIteration
        return next(iter(self.others))

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Thing:
        return plait.open(self, closing)
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one source that uses every word of the table, and its twin."""
    source = tmp_path / "src/p/_async/a.py"
    source.parent.mkdir(parents=True)
    source.write_text(SOURCE, encoding="utf-8")
    assert unasync.main([], tmp_path, WORDS) == 0
    return tmp_path


def check(tree: Path, capsys: pytest.CaptureFixture[str], words: dict[str, str] = WORDS) -> str:
    """The one complaint of a check, which fails; `""` when it passes."""
    capsys.readouterr()
    status = unasync.main(["--check"], tree, words)
    complaints = capsys.readouterr().err.splitlines()
    assert status == (1 if complaints else 0)
    assert len(complaints) < 2
    return "".join(complaints)


def test_the_twin_is_the_source_with_words_replaced(tree: Path) -> None:
    assert (tree / "src/p/_sync/a.py").read_text(encoding="utf-8") == TWIN


def test_line_numbers_stay_equal(tree: Path) -> None:
    assert len(TWIN.splitlines()) == len(SOURCE.splitlines())


def test_an_untouched_twin_passes_the_check(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tree, capsys) == ""


def test_writing_again_changes_nothing(tree: Path) -> None:
    twin = tree / "src/p/_sync/a.py"
    before = twin.stat().st_mtime_ns
    assert unasync.main([], tree, WORDS) == 0
    assert twin.stat().st_mtime_ns == before


def test_words_inside_other_words_are_left_alone() -> None:
    text = "my_async awaited Asynchronous_x asyncio __aiter aclosed raiser reopen_async MyAsyncThing"
    assert unasync.convert(text, WORDS, Counter()) == text


def test_an_edited_twin_is_drift(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twin = tree / "src/p/_sync/a.py"
    twin.write_text(TWIN + "\n", encoding="utf-8")
    assert check(tree, capsys).startswith("src/p/_sync/a.py: drifted")


def test_an_edited_source_is_drift_until_it_is_converted(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tree / "src/p/_async/a.py"
    source.write_text(SOURCE.replace("parts", "pieces"), encoding="utf-8")
    assert "drifted" in check(tree, capsys)
    assert unasync.main([], tree, WORDS) == 0
    assert check(tree, capsys) == ""


def test_a_missing_twin_is_drift(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "src/p/_sync/a.py").unlink()
    assert "drifted" in check(tree, capsys)


def test_a_word_nobody_uses_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'AbstractAsyncThing'" in check(tree, capsys, WORDS | {"AbstractAsyncThing": "AbstractThing"})


def test_a_generated_file_without_a_source_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "src/p/_sync/b.py").write_text(TWIN, encoding="utf-8")
    assert check(tree, capsys).startswith("src/p/_sync/b.py: has no source")


def test_a_file_written_by_hand_is_refused_and_never_overwritten(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tree / "src/p/_sync/a.py"
    mine.write_text('"""Mine."""\n', encoding="utf-8")
    assert unasync.main([], tree, WORDS) == 1
    assert "src/p/_sync/a.py: has no generated header" in capsys.readouterr().err
    assert mine.read_text(encoding="utf-8") == '"""Mine."""\n'


def test_a_source_without_a_docstring_on_line_one_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "src/p/_async/b.py").write_text("x = 1\n", encoding="utf-8")
    assert check(tree, capsys).startswith("src/p/_async/b.py: line 1 must be the docstring")


def test_an_unknown_argument_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert unasync.main(["--chekc"], tree, WORDS) == 2
    assert capsys.readouterr().err.startswith("usage:")
