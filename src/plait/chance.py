"""Random bits for ids: from a generator of this process, for asking the system each time costs more than the rest."""

from __future__ import annotations

import os
from _random import Random  # the generator below `random`, which takes long to import and which others may seed

_generator = Random(int.from_bytes(os.urandom(32), "big"))


def bits(count: int) -> int:
    """A number of so many random bits; not for secrets."""
    return _generator.getrandbits(count)


def _begin_anew() -> None:
    """A forked child must not go on with the numbers of its parent."""
    _generator.seed(int.from_bytes(os.urandom(32), "big"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
