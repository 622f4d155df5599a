"""An adapter whose framework is not there says what to install."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from plait.adapters.extras import EXTRAS

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path.name.removesuffix(".py") for path in (ROOT / "src" / "plait" / "adapters").iterdir() if path.name[0] != "_"
)
ADAPTERS = [name for name in MODULES if name in EXTRAS]


def test_every_adapter_is_listed_with_its_extra() -> None:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {extra for _, extra in EXTRAS.values()} <= set(described["optional-dependencies"])
    helpers = set(MODULES) - set(EXTRAS)
    owners = {name for name in EXTRAS if any(helper.startswith(name) for helper in helpers)}
    assert {helper for helper in helpers if not any(helper.startswith(name) for name in owners)} == {"extras", "tails"}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_without_its_framework_names_the_extra(adapter: str) -> None:
    package, extra = EXTRAS[adapter]
    program = f"import sys; sys.modules[{package!r}] = None; import plait.adapters.{adapter}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"ModuleNotFoundError: plait.adapters.{adapter} needs {package}: pip install 'plait[{extra}]'" in done.stderr


def test_langchains_adapter_names_langchain_though_its_core_is_there() -> None:
    pytest.importorskip("langchain_core", reason="needs LangChain: pip install 'plait[langgraph]'")
    program = "import sys; sys.modules['langchain'] = None; import plait.adapters.langchain"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "plait.adapters.langchain needs langchain: pip install 'plait[langgraph]'" in done.stderr
