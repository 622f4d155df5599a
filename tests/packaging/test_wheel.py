"""The wheel: what is in it, and that it works in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# One worker builds for all of these.
pytestmark = pytest.mark.xdist_group("wheel")


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that has to succeed."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target, cwd=ROOT)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def empty_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and what it requires, from the package index."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=False)
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "-qq", wheel, cwd=home)
    return python


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = (path for path in (ROOT / "src/plait").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert packed == {path.relative_to(ROOT / "src").as_posix() for path in package}
    assert "plait/py.typed" in packed


def test_the_wheel_requires_apsw_and_msgspec_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
        assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())
    core = [need for need in metadata.get_all("Requires-Dist", []) if "extra ==" not in need]
    assert sorted(need.split(">")[0] for need in core) == ["apsw", "msgspec"]


def test_the_wheel_works_in_an_empty_environment(empty_python: Path, tmp_path: Path) -> None:
    program = """
import plait
with plait.open("a.db") as sessions:
    sessions.session("s").append(plait.user("hello"))
with plait.open("a.db") as sessions:
    print([message.text for message in sessions.session("s").history()])
"""
    assert run(empty_python, "-I", "-c", program, cwd=tmp_path) == "['hello']\n"


def test_the_command_without_its_extra_says_how_to_install_it(empty_python: Path, tmp_path: Path) -> None:
    command = empty_python.with_name("plait.exe" if sys.platform == "win32" else "plait")
    done = subprocess.run([command, "ls", "a.db"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "plait[cli]" in done.stderr
    assert "Traceback" not in done.stderr
