"""Tells decoded JSON's objects and lists from the rest, in a way that type checkers follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

from plait.model import Json

Value: TypeAlias = Json | list[Any] | str | float | None
"""Any decoded JSON value."""


def is_object(value: object) -> TypeGuard[Json]:
    """Whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value can be read as an object, a `dict` or not; its keys are still to be checked."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded JSON value is a list."""
    return isinstance(value, list)


def list_of(value: object) -> list[Any]:
    """The items of an array; none for anything else."""
    return value if is_list(value) else []
