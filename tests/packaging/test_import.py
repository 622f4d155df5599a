"""What `import plait` brings along, and what it shows."""

from __future__ import annotations

import subprocess
import sys
import types

import plait


def modules_of(statement: str) -> set[str]:
    """The top-level modules that a statement loads in a fresh interpreter."""
    program = f"""
import sys
before = set(sys.modules)
{statement}
print(*{{name.partition(".")[0] for name in set(sys.modules) - before}})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_nothing_but_the_two_core_dependencies() -> None:
    """And what these load themselves: msgspec looks for typing_extensions."""
    core = modules_of("import apsw, msgspec")
    assert {"apsw", "msgspec"} <= core
    assert modules_of("import plait") - core - sys.stdlib_module_names == {"plait"}


def test_the_names_are_listed_once_each() -> None:
    """Their order is the linter's (RUF022)."""
    assert len(plait.__all__) == len(set(plait.__all__))


def test_all_is_what_is_visible() -> None:
    names = {name for name in dir(plait) if not name.startswith("_") and name != "annotations"}
    modules = {name for name in names if isinstance(getattr(plait, name), types.ModuleType)}
    assert set(plait.__all__) == names - modules


def test_every_public_name_is_there() -> None:
    for name in plait.__all__:
        assert getattr(plait, name) is not None
