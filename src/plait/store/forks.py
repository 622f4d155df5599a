"""Forks of the process: a driver is told before one, and after it in the parent and in the child."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forked(Protocol):
    """What has to prepare for a fork, and to begin anew after it."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_told: weakref.WeakSet[Forked] = weakref.WeakSet()
_telling = threading.RLock()
"""Held over a fork: no driver begins in the middle of one."""

LOCK = threading.RLock()
"""For the few steps in memory that threads must take one at a time, whoever they belong to; never held at an `await`.

Held over a fork, or a child might find it taken by a thread that it has not got. A thread may take it twice, for
a finalizer may run anywhere.
"""


def tell(driver: Forked) -> None:
    """Tell a driver of every fork from now on, as long as it is used."""
    with _telling:
        _told.add(driver)


def _before() -> None:
    _telling.acquire()
    try:
        for driver in list(_told):
            driver.before_fork()
    finally:
        LOCK.acquire()  # after them: what they wait for may need it


def _after_in_parent() -> None:
    LOCK.release()
    try:
        for driver in list(_told):
            driver.after_fork_in_parent()
    finally:
        _telling.release()


def _after_in_child() -> None:
    LOCK.release()
    try:
        for driver in list(_told):
            driver.after_fork_in_child()
    finally:
        _telling.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
