"""Every example of the docs runs as it stands, and prints what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs import runner
from tests.docs.pages import ROOT, blocks, name_of, pages

PAGES = [page for page in pages() if any(block.language == "python" for block in blocks(page))]
NEEDS = {"docs/howto/observe.md": "opentelemetry.sdk"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    needed = NEEDS.get(name_of(page), "plait")
    if find_spec(needed.partition(".")[0]) is None:
        pytest.skip(f"needs {needed}: pip install 'plait[otel]' opentelemetry-sdk")
    result = _run(page, tmp_path)
    assert result.returncode == 0, f"{name_of(page)}:\n{result.stdout}\n{result.stderr}"


def test_a_block_is_skipped_only_for_a_reason() -> None:
    bare = [name_of(page) for page in pages() if "<!-- not run -->" in page.read_text(encoding="utf-8")]
    assert bare == []


def _run(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The page in a process and a folder of its own, warnings being errors as in all tests."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PLAIT_", "COV_", "PYTEST_"))}
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    command = [sys.executable, "-W", "error", "-m", "tests.docs.runner", str(page)]
    return subprocess.run(
        command, cwd=folder, env={**known, "PYTHONPATH": path}, capture_output=True, text=True, timeout=100
    )


# -- the runner itself


def _page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_an_example_that_prints_something_else_fails(tmp_path: Path) -> None:
    page = _page(tmp_path, "```python\nprint(1 + 1)  # -> 3\n```\n")
    with pytest.raises(runner.Mismatch, match="line 2 is to print"):
        runner.run(page)


def test_an_example_that_is_to_print_and_does_not_fails(tmp_path: Path) -> None:
    page = _page(tmp_path, "```python\nif False:\n    print(1)  # -> 1\n```\n")
    with pytest.raises(runner.Mismatch):
        runner.run(page)


def test_a_line_that_prints_twice_says_so_below(tmp_path: Path) -> None:
    page = _page(tmp_path, '```python\nfor n in "ab":\n    print(n, "x")  # -> a x\n    # -> b ...\n```\n')
    runner.run(page)


def test_an_expectation_below_no_print_fails(tmp_path: Path) -> None:
    page = _page(tmp_path, "```python\nx = 1\n\n# -> 1\n```\n")
    with pytest.raises(runner.Mismatch, match="beside or below no line"):
        runner.run(page)


def test_blocks_of_a_page_see_the_ones_before_and_may_await(tmp_path: Path) -> None:
    page = _page(
        tmp_path,
        "```python\nimport asyncio\nx = 1\n```\n\n```text\nnot code\n```\n\n"
        "<!-- not run: it cannot -->\n```python\nraise SystemExit\n```\n\n"
        "```python\nawait asyncio.sleep(0)\nprint(x)  # -> 1\n```\n",
    )
    runner.run(page)


def test_an_example_that_raises_fails(tmp_path: Path) -> None:
    page = _page(tmp_path, "```python\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError):
        runner.run(page)
