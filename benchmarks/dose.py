"""How much is measured: enough to trust, or just enough to see that the harness works."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Dose:
    """Counts of everything that is repeated."""

    rounds: int = 5
    warm: int = 4_000
    """Messages in every store before its appends are timed: their log has then grown to its usual size."""
    lone: int = 200
    """Timed appends of one caller, a round and store."""
    callers: tuple[int, ...] = (1, 4, 16, 64, 256)
    crowd: int = 64
    """Callers that the goals are about."""
    per_caller: int = 20
    per_caller_peers: int = 3
    slow_fsync_s: float = 0.005
    lengths: tuple[int, ...] = (1_000, 10_000, 100_000)
    length_samples: int = 100
    load: int = 10_000
    last: int = 20
    streams: tuple[int, ...] = (8 << 20, 128 << 20)
    """Sizes of the sessions that are streamed under a memory meter, in bytes."""
    largest: int = 4 << 20
    """The largest message in them."""
    sizes: int = 10_000
    """Messages in the files whose size is taken."""
    searched: int = 100_000
    """Messages in the session that is searched."""
    searches: int = 50
    """Searches of each kind, in a round."""
    imports: int = 5
    turns: int = 800
    """Turns of the long session: at the vendor's 800 its figures can be compared."""
    gate: int = 5_000
    """Messages below the appends whose gate is timed: it must not matter how many."""
    overlay_reads: int = 20
    peers: bool = True


FULL = Dose(lengths=(1_000, 10_000, 100_000, 1_000_000), searched=1_000_000, streams=(8 << 20, 1 << 30))
NORMAL = Dose()
QUICK = Dose(
    rounds=2, warm=1_200, lone=100, callers=(1, 4, 64), per_caller=5, per_caller_peers=1, lengths=(1_000, 5_000),
    length_samples=40, load=2_000, streams=(8 << 20, 32 << 20), searched=20_000, searches=20, imports=2, overlay_reads=8,
)  # fmt: skip
TINY = replace(
    QUICK, rounds=1, warm=30, lone=5, callers=(1, 3), crowd=3, per_caller=2, lengths=(30, 60), length_samples=4,
    load=60, streams=(1 << 20, 2 << 20), largest=256 << 10, sizes=60, searched=200, searches=2, imports=1, slow_fsync_s=0.0, peers=False,
    turns=40, gate=100, overlay_reads=1,
)  # fmt: skip
