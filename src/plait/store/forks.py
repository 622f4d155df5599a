"""Forks of the process: a driver is told before one, and after it in the parent and in the child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """What has to prepare for a fork, and to begin anew after it."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_told: weakref.WeakSet[Forked] = weakref.WeakSet()


def tell(driver: Forked) -> None:
    """Tell a driver of every fork from now on, as long as it is used."""
    _told.add(driver)


def _before() -> None:
    for driver in list(_told):
        driver.before_fork()


def _after_in_parent() -> None:
    for driver in list(_told):
        driver.after_fork_in_parent()


def _after_in_child() -> None:
    for driver in list(_told):
        driver.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
