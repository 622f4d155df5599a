"""Charts drawn into image files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from plait.cli.failure import USAGE, Failure
from plait.cli.timeline import Timeline

KINDS: Final = (".svg", ".png")


def check(path: str) -> None:
    """Refuse a chart that could not be drawn, before anything is read."""
    if Path(path).suffix.lower() not in KINDS:
        raise Failure(f"{path!r}: a chart is written as .svg or .png; give the file such a name", USAGE)
    if find_spec("matplotlib") is None:
        raise Failure("a chart needs matplotlib; install it with: pip install 'plait[charts]'")


def draw(path: str, title: str, drawn: Timeline) -> None:
    """Write a timeline as a picture; the file's ending says of which kind."""
    _figure(title, drawn).savefig(path, dpi=150, facecolor="white")


def _figure(title: str, drawn: Timeline) -> Any:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=12, parse_math=False)
    axes.set_xlabel("messages on the active path")
    axes.set_ylabel("tokens (estimated)")
    axes.grid(visible=True, color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    _curves(axes, drawn)
    return figure


def _curves(axes: Any, drawn: Timeline) -> None:
    places = range(1, len(drawn.whole) + 1)
    if drawn.shown == drawn.whole:
        axes.plot(places, drawn.whole, color="#0072b2")
    else:
        axes.plot(places, drawn.whole, color="#999999", linestyle="--", label="all that is stored")
        axes.plot(places, drawn.shown, color="#0072b2", label="what a model is shown")
    for n, place in enumerate(drawn.compactions):
        axes.axvline(place, color="#d55e00", linewidth=0.8, alpha=0.7, label="" if n else "compaction")
    axes.set_xlim(1, max(2, len(drawn.whole)))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if drawn.compactions or drawn.shown != drawn.whole:
        axes.legend(frameon=False)
