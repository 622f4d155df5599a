"""A function of the user's, imported by its name."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from plait.cli.failure import Failure


def imported(name: str) -> Callable[[Any], Any]:
    """What `module:name` names, which must be callable; the current directory is looked in first."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise Failure(f"--function takes module:name, not {name}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Failure(f"there is no {name} to import: {error}") from None
    except Exception as error:  # the module's own code runs at import
        raise Failure(f"importing {module} failed: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise Failure(f"{name} is not a function")
    function: Callable[[Any], Any] = found
    return function
