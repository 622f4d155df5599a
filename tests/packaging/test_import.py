"""What `import plait` brings along, and what it shows."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

import plait


def modules_of(statement: str) -> set[str]:
    """The top-level modules that a statement loads in a fresh interpreter."""
    return {name.partition(".")[0] for name in loaded_by(statement)}


def loaded_by(statement: str) -> set[str]:
    """All modules that a statement loads in a fresh interpreter without OpenTelemetry."""
    program = f"""
import sys
sys.modules["opentelemetry.trace"] = None
before = set(sys.modules)
{statement}
print(*(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_nothing_but_the_two_core_dependencies() -> None:
    """And what these load themselves: msgspec looks for typing_extensions."""
    core = modules_of("import apsw, msgspec")
    assert {"apsw", "msgspec"} <= core
    assert modules_of("import plait; plait.user('Hello')") - core - sys.stdlib_module_names == {"plait"}
    assert modules_of("import plait; plait.open(':memory:')") - core - sys.stdlib_module_names == {"plait"}


SLOW = {"asyncio", "importlib.resources", "logging", "pathlib", "urllib.parse", "json", "secrets"}


def test_import_loads_no_face_and_nothing_slow() -> None:
    """What only `open` needs waits for it: a goal of the benchmarks, held here by what is there and not by the clock."""
    loaded = loaded_by("import plait; plait.user('Hello'); plait.LEAF; plait.NotFoundError")
    assert not loaded & {*SLOW, "apsw", "plait._sync", "plait._async", "plait.store"}
    assert "msgspec" not in loaded_by("import plait; plait.open; plait.NotFoundError")


def test_a_face_loads_without_the_other() -> None:
    append = "import plait; plait.open(':memory:').session().append(plait.user('Hello'))"
    assert not loaded_by(append) & {"asyncio", "plait._async", "plait.store._async", "importlib.resources", "pathlib"}
    assert not loaded_by("import plait; plait.open_async(':memory:')") & {"plait._sync", "plait.store._sync"}


def test_a_star_import_and_dir_show_every_name_at_once() -> None:
    """Also of what is loaded later."""
    program = "import plait; print(*dir(plait)); from plait import *; print(*sorted(globals()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        assert set(plait.__all__) <= set(line.split())


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        plait.Sesion  # type: ignore[attr-defined]  # noqa: B018


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
