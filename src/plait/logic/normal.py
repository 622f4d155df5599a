"""Unicode's normal forms of text from outside, in time for its length."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Final, Literal

_MARKED: Final = 64
"""How many marks on one character are put in order together; nobody writes as many."""

_RUN: Final = 2 * _MARKED
_SYMBOLS: Final = re.compile(rf"[^\w\s]{{{_RUN},}}")
"""A run of what is no letter, number or space: marks are among that."""


def normalized(form: Literal["NFKD", "NFKC"], text: str) -> str:
    """The text in a normal form; Python puts a run of marks in order in the square of its length."""
    if len(text) < _RUN or not any(map(unicodedata.combining, text[_RUN - 1 :: _RUN])):  # a long run would be hit
        return unicodedata.normalize(form, text)
    runs = _SYMBOLS.finditer(text)
    cuts = [at for run in runs for at in range(run.start() + _MARKED, run.end(), _MARKED)]
    return "".join(unicodedata.normalize(form, text[at:to]) for at, to in pairwise([0, *cuts, len(text)]))
