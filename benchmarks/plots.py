"""Pictures of a run: SVGs with axes and units, the same look for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.cases.lengths import SIZE
from benchmarks.dose import Dose
from benchmarks.ledger import Ledger, median
from benchmarks.peers import PEERS, OpenAISQLite
from benchmarks.subjects import PlaitAsync, PlaitSync, RawInsert, RawTransaction

if TYPE_CHECKING:
    from benchmarks.langgraph_growth import Growth

COLOURS: Final = {
    PlaitSync.name: "#0072b2",
    PlaitAsync.name: "#0072b2",
    RawInsert.name: "#777777",
    RawTransaction.name: "#777777",
    OpenAISQLite.name: "#d55e00",
    "OpenAI SQLAlchemySession": "#e69f00",
    "LangChain SQLChatMessageHistory": "#009e73",
    "ADK DatabaseSessionService": "#cc79a7",
    "SqliteSaver": "#d55e00",
}
NAMES: Final = {RawInsert.name: "SQLite alone, bare INSERT", RawTransaction.name: "SQLite alone, same statements"}


def draw_all(folder: Path, ledger: Ledger, dose: Dose) -> list[Path]:
    """Draw what was measured; the files written. Raises `ImportError` without matplotlib."""
    _begin()
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _append_by_length(folder / "append-by-length.svg", ledger, dose),
        _rate_by_callers(folder / "rate-by-callers.svg", ledger, dose),
        _load_time(folder / "load-time.svg", ledger, dose),
        _bytes_on_disk(folder / "bytes-on-disk.svg", ledger),
    ]


def growth(path: Path, growths: Mapping[str, Growth], text: int) -> Path:
    """How savers grow on disk over the turns of a thread with so many bytes of text in each, and what a put costs."""
    _begin()
    from matplotlib import pyplot

    figure, (sizes, puts) = pyplot.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    figure.suptitle(f"A LangGraph thread, {text // 2 // 1024} KB asked and as much answered in each turn", fontsize=12)
    for name, found in growths.items():
        turns, window = range(1, len(found.sizes) + 1), max(1, len(found.sizes) // 20)
        sizes.plot(turns, [size / 1e6 for size in found.sizes], color=COLOURS[name], label=name)
        middles = [found.cpu[at : at + window] for at in range(0, len(turns) - window + 1, window)]
        xs = [(n + 0.5) * window for n in range(len(middles))]
        puts.plot(xs, [median(times) * 1e3 for times in middles], color=COLOURS[name], label=name)
    longest = max(len(found.sizes) for found in growths.values())
    turns = range(1, longest + 1)
    sizes.plot(turns, [turn * text / 1e6 for turn in turns], color="#777777", ls="--", label="the text itself")
    sizes.set_yscale("log")
    sizes.set_ylabel("bytes on disk (MB, logarithmic)")
    puts.set_ylim(bottom=0)
    puts.set_ylabel("CPU time of a put (ms)")
    for axes in (sizes, puts):
        axes.set_xlabel("turns")
        axes.legend()
    return _save(figure, path)


def _begin() -> None:
    """The same look for each."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "plait",  # the same file for the same figures
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#e4e4e4",
            "axes.axisbelow": True,
            "legend.frameon": False,
        }
    )


def _axes(title: str) -> tuple[Any, Any]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.2), layout="constrained")
    axes.set_title(title, loc="left", fontsize=12)
    return figure, axes


def _save(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot

    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)
    return path


def _line(axes: Any, points: Sequence[tuple[float, Any]], label: str, colour: str, style: str = "-o") -> None:
    """Medians, joined, with the rounds' spread around them."""
    known = [(x, spread) for x, spread in points if spread is not None]
    if not known:
        return
    xs, ys = [x for x, _ in known], [spread.median for _, spread in known]
    axes.plot(xs, ys, style, color=colour, label=label, markersize=5)
    axes.fill_between(xs, [s.least for _, s in known], [s.most for _, s in known], color=colour, alpha=0.15, lw=0)


def _in_us(ledger: Ledger, measure: str, subject: str) -> Any:
    scaled = Ledger()
    for value in ledger.values(measure, subject):
        scaled.note(measure, subject, value * 1e6)
    return scaled.spread(measure, subject)


def _append_by_length(path: Path, ledger: Ledger, dose: Dose) -> Path:
    figure, axes = _axes(f"One append by session length ({SIZE} B messages, process durability)")
    for measure, label, colour in (("append", "append", "#0072b2"), ("branch", "branch", "#56b4e9"), ("delete", "delete", "#cc79a7")):  # fmt: skip
        points = [(n, _in_us(ledger, f"{measure} at {n}", PlaitSync.name)) for n in dose.lengths]
        _line(axes, points, f"plait, {label}", colour)
    raw = [(n, _in_us(ledger, f"append at {n}", RawInsert.name)) for n in dose.lengths]
    _line(axes, raw, NAMES[RawInsert.name], COLOURS[RawInsert.name], "--o")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("messages in the session")
    axes.set_ylabel("median latency (µs)")
    axes.legend()
    return _save(figure, path)


def _rate_by_callers(path: Path, ledger: Ledger, dose: Dose) -> Path:
    figure, axes = _axes("Appends per second by number of callers (strict durability, one file)")
    for kind in (PlaitAsync, *PEERS):
        points = [(float(n), ledger.spread(f"rate {n}", kind.name)) for n in dose.callers]
        _line(axes, points, "plait" if kind is PlaitAsync else kind.name, COLOURS[kind.name])
    alone = ledger.spread("rate 1", RawInsert.name)
    if alone is not None:
        axes.axhline(alone.median, color=COLOURS[RawInsert.name], ls="--", label=f"{NAMES[RawInsert.name]}, one writer")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(dose.callers, [str(n) for n in dose.callers])
    axes.set_xlabel("callers, each with a session of its own")
    axes.set_ylabel("appends per second")
    axes.legend(fontsize=9)
    return _save(figure, path)


def _load_time(path: Path, ledger: Ledger, dose: Dose) -> Path:
    figure, axes = _axes(f"Reading a history of {dose.load:,} messages to Python values (1.6 KB mean)")
    names = [RawInsert.name, PlaitSync.name, PlaitAsync.name, *(kind.name for kind in PEERS)]
    bars = [(name, spread) for name in names if (spread := ledger.spread("load", name)) is not None]
    for n, (name, spread) in enumerate(bars):
        axes.barh(n, spread.median * 1e3, color=COLOURS[name], height=0.6)
        axes.text(spread.median * 1e3, n, f" {spread.median * 1e3:,.0f} ms", va="center")
    axes.set_yticks(range(len(bars)), [NAMES.get(name, name) for name, _ in bars])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("median time (ms, logarithmic)")
    axes.grid(False, axis="y")
    return _save(figure, path)


def _bytes_on_disk(path: Path, ledger: Ledger) -> Path:
    figure, axes = _axes("File size over the JSON text in it")
    labels = ["1.6 KB", "300 B"]
    names = [name for name in (PlaitSync.name, OpenAISQLite.name, RawInsert.name) if ledger.values("disk 300 B", name)]
    for k, name in enumerate(names):
        for n, label in enumerate(labels):
            (value,) = ledger.values(f"disk {label}", name)
            x = n + (k - (len(names) - 1) / 2) * 0.25
            axes.bar(x, value, 0.22, color=COLOURS[name], label=NAMES.get(name, name) if n == 0 else None)
            axes.text(x, value, f"{value:.2f}", ha="center", va="bottom")
    axes.axhline(1, color="#444444", lw=0.8)
    axes.set_xticks(range(len(labels)), [f"{label} messages" for label in labels])
    axes.set_ylabel("bytes in the file over bytes of JSON (×)")
    axes.grid(False, axis="x")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return _save(figure, path)
