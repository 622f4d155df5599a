"""SQL as it lies in a driver's folder: files of named statements, folders of numbered scripts."""

from __future__ import annotations

import os
import re


def named(text: str) -> dict[str, str]:
    """The statements of a file by name: `-- name`, a line of purpose, the statement."""
    found: dict[str, str] = {}
    for block in re.split(r"^(?=-- [a-z_]+$)", text, flags=re.MULTILINE):
        if block.strip():
            name, _purpose, *lines = block.strip().splitlines()
            found[name.removeprefix("-- ")] = "\n".join(lines).strip().removesuffix(";")
    return found


def numbered(folder: str) -> list[tuple[int, str]]:
    """The scripts `NNNN_name.sql` of a folder in order: (number, script)."""
    names = sorted(name for name in os.listdir(folder) if name.endswith(".sql"))
    return [(int(name.split("_")[0]), read(folder, name)) for name in names]


def read(*path: str) -> str:
    """The text of a file. Not by `importlib.resources`, which takes longer to import than a driver."""
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()
