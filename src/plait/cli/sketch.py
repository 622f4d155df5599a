"""Numbers as small pictures in text: sizes in words, bars, sparklines and columns over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_UNITS: Final = ("kB", "MB", "GB", "TB")


def size(count: int) -> str:
    """A number of bytes for people, in powers of 1000: `0 bytes`, `12.3 kB`, `1.0 GB`."""
    if count < 1000:
        return f"{count} byte" if count == 1 else f"{count} bytes"
    value, at = count / 1000, 0
    while value >= 999.95 and at < len(_UNITS) - 1:
        value, at = value / 1000, at + 1
    return f"{value:.1f} {_UNITS[at]}"


def count(number: int) -> str:
    """A number with thousands set apart: `1,234,567`."""
    return f"{number:,}"


def short(number: float) -> str:
    """A number in at most five characters, for the side of a chart: `980`, `12k`, `3.4M`."""
    for limit, divisor, unit in ((1e4, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e13, 1e9, "G")):
        if number < limit * 0.9995:
            value = number / divisor
            return f"{value:.1f}{unit}" if unit and value < 9.95 else f"{value:.0f}{unit}"
    return f"{number:.0e}"


def bar(value: float, largest: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar of up to `width` characters; anything above zero leaves a mark."""
    if value <= 0 or largest <= 0:
        return ""
    if ascii_only:
        return "#" * max(1, round(value / largest * width))
    eighths = max(1, round(value / largest * width * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def samples(values: Sequence[int], width: int) -> list[int]:
    """`values` at up to `width` places an equal way apart, the last one included."""
    parts = min(width, len(values))
    return [values[len(values) * at // parts - 1] for at in range(1, parts + 1)]


def marks(places: Iterable[int], length: int, width: int, *, ascii_only: bool = False) -> str:
    """A line of `width` with a mark at each of some places, counted from 1, of `length`."""
    at = {min(width - 1, max(0, place - 1) * width // max(length, 1)) for place in places}
    sign = "^" if ascii_only else "▲"
    return "".join(sign if n in at else " " for n in range(width)).rstrip()


def columns(values: Sequence[float], height: int, *, ascii_only: bool = False) -> list[str]:
    """`values` as columns, `height` lines from the top; anything above zero leaves a mark."""
    top = max(values, default=0)
    steps = 1 if ascii_only else 8
    levels = [max(1, round(value / top * height * steps)) if value > 0 else 0 for value in values]
    ramp = " #" if ascii_only else _HEIGHTS
    return ["".join(ramp[min(steps, max(0, level - floor * steps))] for level in levels) for floor in range(height)][
        ::-1
    ]


def chart(values: Sequence[float], height: int, *, ascii_only: bool = False) -> list[str]:
    """Columns with their scale at the side and a base line."""
    lines = columns(values, height, ascii_only=ascii_only)
    side, base, corner = ("|", "-", "+") if ascii_only else ("│", "─", "└")
    top = max(values, default=0)
    labels = {0: short(top), height // 2: short(top * (height - height // 2) / height)}
    drawn = [f"{labels.get(at, ''):>5} {side}{line.rstrip()}" for at, line in enumerate(lines)]
    return [*drawn, f"{0:>5} {corner}{base * len(values)}"]
