"""Several programs on one file: merging, late writers, clocks that differ."""

from __future__ import annotations

from pathlib import Path

import plait
from plait.testing.faults import invariants
from tests.behaviour.programs import run_together
from tests.behaviour.values import note
from tests.dose import dose

PROCESSES = 6
KEYS = dose(short=15, soak=300)

MERGES = f"""
n, path = sys.argv[1], sys.argv[2]
with plait.open(path, durability="process") as sessions:
    chat = sessions.session("chat")
    chat.state()
    ready()
    for m in range({KEYS}):
        chat.update_state({{f"{{n}}-{{m}}": m, "last": n}})
        sessions.merge_metadata("chat", {{f"{{n}}-{{m}}": m, "last": n}})
        chat.update(note("shared", f"{{n}} {{m}}"))
"""


def test_state_and_metadata_merged_by_many_processes_keep_every_key(tmp_path: Path) -> None:
    """B-025"""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        sessions.create("chat")
        sessions.session("chat").append(note("shared"))
    run_together(MERGES, PROCESSES, path)
    expected = {f"{n}-{m}": m for n in range(PROCESSES) for m in range(KEYS)}
    with plait.open(path) as sessions:
        info, state = sessions.get("chat"), sessions.session("chat").state()
        assert info is not None
        assert {key: value for key, value in state.items() if key != "last"} == expected
        assert {key: value for key, value in info.metadata.items() if key != "last"} == expected
        assert len(list(sessions.session("chat").history())) == 1
    assert invariants(path) == []


TURNS = """
n, path = sys.argv[1], sys.argv[2]
with plait.open(path, durability="process") as sessions:
    chat = sessions.session("chat")
    leaf = chat.leaf().id
    ready()
    won = 0
    for m in range(20):
        try:
            chat.append_many([note(f"{n}-{m}-call"), note(f"{n}-{m}-result")], expect_leaf=leaf)
            leaf = f"{n}-{m}-result"
            won += 1
        except plait.LeafMovedError as moved:
            leaf = moved.leaf_id
    print(won)
"""


def test_pairs_written_under_an_expectation_never_interleave(tmp_path: Path) -> None:
    """B-031: two runners; the loser is told, never merged in between."""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        sessions.session("chat").append(note("root"))
    won = sum(int(out.split()[-1]) for out in run_together(TURNS, 3, path))
    with plait.open(path) as sessions:
        ids = [message.id for message in sessions.session("chat").history()][1:]
        assert len(sessions.session("chat").leaves()) == 1
    assert len(ids) == 2 * won > 0
    for call, result in zip(ids[::2], ids[1::2], strict=True):
        assert result == call.removesuffix("call") + "result"


LATE = """
n, path = sys.argv[1], sys.argv[2]
refused = written = 0
with plait.open(path, durability="process") as sessions:
    chat = sessions.session("chat")
    chat.append(note(f"early-{n}"))
    ready()
    if n == "0":
        for round in range(15):
            sessions.delete("chat")
            sessions.session("chat").append(note(f"life-{round}"))
    for m in range(60 if n != "0" else 0):
        try:
            chat.append_many([note(f"late-{n}-{m}-a"), note(f"late-{n}-{m}-b")])
            written += 1
        except plait.SessionDeletedError:
            refused += 1
            if m % 10 == 9:  # a writer that notices takes a fresh handle
                chat = sessions.session("chat")
print(refused, written)
"""


def test_late_writers_never_reach_the_life_after_theirs(tmp_path: Path) -> None:
    """A session deleted and made again, fifteen times, while writers of each life are still running."""
    path = tmp_path / "a.db"
    run_together(LATE, 4, path)
    with plait.open(path) as sessions:
        chat = sessions.session("chat")
        messages = list(chat.everything())
        ids = [message.id for message in messages]
        assert not any(id.startswith("early") for id in ids)
        assert ids.count("life-14") == 1 and not any(f"life-{n}" in ids for n in range(14))
        pairs = [id for id in ids if id.startswith("late")]
        assert len(pairs) % 2 == 0
        for one, other in zip(pairs[::2], pairs[1::2], strict=True):
            assert one[:-1] == other[:-1]
        assert len(chat.leaves()) == 1
        assert messages[0].seq > 15, "a seq of an earlier life is not used again"
        assert sessions.doctor() == []
    assert invariants(path) == []


READS_WHILE = """
n, path = sys.argv[1], sys.argv[2]
with plait.open(path, durability="process") as sessions:
    ready()
    chat = sessions.session("chat")
    for m in range(40):
        if n == "0":
            chat.append(note(f"m{m}"))
            chat.append(note(f"side{m}"), parent=f"m{m}")
            chat.checkout(f"m{m}")
            if m % 5 == 4:
                chat.delete([f"m{m - 2}"])
        else:
            window = chat.recent()
            assert len(window.messages) == window.total_messages, (len(window.messages), window.total_messages)
            totals = chat.totals()
            assert totals.path_messages <= totals.messages
            parents = {message.id: message.parent_id for message in window.messages}
            assert all(parent is None or parent in parents for parent in parents.values())
            assert [m.id for m in chat.children(window.messages[0].id)] if len(window.messages) > 1 else True
"""


def test_each_answer_is_of_one_state_while_others_write(tmp_path: Path) -> None:
    """B-023, B-054: totals and messages of a window, parents and children, never of two states."""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        sessions.session("chat").append(note("root"))
    run_together(READS_WHILE, 4, path)
    assert invariants(path) == []
