"""Tells decoded JSON's objects and lists from the rest, in a way that type checkers follow."""

from __future__ import annotations

from typing import Any, TypeGuard

from plait.model import Json


def is_object(value: object) -> TypeGuard[Json]:
    """Whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded JSON value is a list."""
    return isinstance(value, list)


def list_of(value: object) -> list[Any]:
    """The items of an array; none for anything else."""
    return value if is_list(value) else []
