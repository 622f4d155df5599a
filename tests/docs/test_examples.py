"""Every example of the docs runs as it stands, and prints what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs import runner
from tests.docs.pages import DOCS, ROOT, blocks, name_of, pages

PAGES = [page for page in pages() if any(block.language == "python" for block in blocks(page))]
NEEDS = {
    "docs/howto/observe.md": "opentelemetry.sdk",
    "docs/howto/google-adk.md": "google.adk",
    "docs/howto/openai-agents.md": "agents",
    "docs/howto/pydantic-ai.md": "pydantic_ai.conversation_store",
    "docs/howto/claude-agent-sdk.md": "claude_agent_sdk",
    "docs/howto/langgraph.md": "langchain",
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    needed = NEEDS.get(name_of(page), "plait")
    if not _is_there(needed):
        pytest.skip(f"needs {needed}: make .venv, or install the extra that the page names")
    result = _run(tmp_path, page)
    assert result.returncode == 0, f"{name_of(page)}:\n{result.stdout}\n{result.stderr}"


def test_the_guides_can_be_followed_one_after_another_in_one_folder(tmp_path: Path) -> None:
    first = [ROOT / "README.md", DOCS / "tutorial.md"]
    guides = [page for page in PAGES if page.parent == DOCS / "howto" and '"agents.db"' in page.read_text("utf-8")]
    guides = [page for page in guides if name_of(page) not in NEEDS]
    result = _run(tmp_path, *first, *guides)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


def test_a_file_that_an_example_imports_is_named_where_a_reader_sees_it() -> None:
    unnamed = [
        (name_of(page), block.value)
        for page in pages()
        for block in blocks(page)
        if block.mark == "file" and f"`{block.value}`" not in page.read_text(encoding="utf-8")
    ]
    assert unnamed == []


def test_a_block_is_skipped_only_for_a_reason() -> None:
    bare = [name_of(page) for page in pages() if "<!-- not run -->" in page.read_text(encoding="utf-8")]
    assert bare == []


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _run(folder: Path, *run: Path) -> subprocess.CompletedProcess[str]:
    """The pages in a process and a folder of its own, warnings being errors as in all tests."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PLAIT_", "COV_", "PYTEST_"))}
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    unset = "ignore:The configuration option"  # of pytest-asyncio, by a page that runs pytest where there is no configuration
    command = [sys.executable, "-W", "error", "-W", unset, "-m", "tests.docs.runner", *map(str, run)]
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
