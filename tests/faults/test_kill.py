"""Writers killed at random moments: what was acknowledged is there, and nothing is there by half."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.testing.faults import Child, invariants
from tests.dose import dose

WRITERS = 4
ROUNDS = dose(short=10, soak=250)  # of four kills each

# Each line says what was acknowledged: kind, session, message id, and the digest of what was written.
SOURCE = """
import base64, hashlib, json, os, random, sys
import plait

def report(*facts):
    os.write(1, json.dumps(facts).encode() + b"\\n")

def text_of(dice):
    return dice.choice(["small", "é💡" * dice.randrange(500), "s" * 20_000, "x" * 1_700_000 if dice.random() < 0.1 else "y"])

def message(dice, id):
    parts = [{"type": "text", "text": text_of(dice)}]
    if dice.random() < 0.3:
        data = dice.choice([b"shared by all", dice.randbytes(dice.randrange(1, 300_000))])
        parts.append({"type": "file", "mediaType": "image/png", "url": "data:image/png;base64," + base64.b64encode(data).decode()})
    return {"id": id, "role": "user", "parts": parts}

def digest(message):
    return hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()

path, worker, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
dice, mine = random.Random(seed), []
with plait.open(path) as sessions:
    report("ready")
    for n in range(1_000_000):
        name = dice.choice(["shared", f"own-{worker}"])
        chat = sessions.session(name)
        move, id = dice.random(), f"{worker}-{n}"
        if move < 0.55 or not mine:
            new = message(dice, id)
            chat.append(new)
            report("append", name, id, digest(new))
            mine.append((name, id))
        elif move < 0.7:
            batch = [message(dice, f"{id}.{k}of3") for k in range(3)]
            chat.append_many(batch)
            for new in batch:
                report("append", name, new["id"], digest(new))
        elif move < 0.8:
            name, id = dice.choice(mine)
            report("updating", name, id, "")
            new = message(dice, id)
            sessions.session(name).update(new)
            report("append", name, id, digest(new))
        elif move < 0.9:
            name, id = mine.pop(dice.randrange(len(mine)))
            report("deleting", name, id, "")
            sessions.session(name).delete([id])
            report("delete", name, id, "")
        elif move < 0.95:
            try:
                chat.fork(f"fork-{worker}-{n}")
                report("fork", f"fork-{worker}-{n}", "", "")
            except plait.StaleValueError:
                pass  # another writer changed what was being copied
        else:
            report("forgetting", f"fork-{worker}-{n - 20}", "", "")
            sessions.delete(f"fork-{worker}-{n - 20}")
            chat.update_state({worker: n})
            report("state", name, worker, n)
"""


@pytest.mark.parametrize("round", range(ROUNDS))
def test_a_killed_writer_keeps_what_it_acknowledged(round: int, tmp_path: Path) -> None:
    dice, file = random.Random(round), tmp_path / "killed.db"
    children = [Child(SOURCE, str(file), str(n), str(round * WRITERS + n)) for n in range(WRITERS)]
    try:
        for child in dice.sample(children, WRITERS):
            child.wait_for(dice.choice([1, 2, 5, 20, 40, 60]))
            child.kill()
    finally:
        reports = [child.kill() for child in children]
    assert [child.exit_code for child in children] == [-9] * WRITERS, [child.errors for child in children]
    assert invariants(file) == []
    with plait.open(file) as sessions:
        assert sessions.doctor() == []
        check(sessions, [json.loads(line) for lines in reports for line in lines])
        stored = sessions.session("shared").append(plait.user("life goes on"))
        assert sessions.session("shared").leaf() == stored.message
    assert invariants(file) == []


def check(sessions: plait.Sessions, facts: list[Any]) -> None:
    """Hold that every acknowledged write is there, and every batch whole or absent."""
    messages: dict[tuple[str, str], set[str]] = {}
    states: dict[tuple[str, str], int] = {}
    forks: set[str] = set()
    for kind, *rest in facts:
        if kind in ("append", "delete", "updating", "deleting"):
            name, id, digest = rest
            under_way = {"updating": {"any"}, "deleting": {"none"}}.get(kind)  # when the writer died: either is right
            messages[name, id] = messages[name, id] | under_way if under_way else {digest or "none"}
        elif kind == "state":
            states[rest[0], rest[1]] = rest[2]
        elif kind == "fork":
            forks.add(rest[0])
        elif kind == "forgetting":
            forks.discard(rest[0])
    for (name, id), digests in messages.items():
        message = sessions.session(name).get(id)
        found = "none" if message is None else digest_of(message.to_dict())
        assert found in digests or (found != "none" and "any" in digests), (name, id)
    for (name, worker), n in states.items():
        assert sessions.session(name).state()[worker] >= n
    for info in sessions.all():
        forks.discard(info.id)
        check_batches(sessions.session(info.id))
    assert forks == set()


def check_batches(session: plait.Session) -> None:
    """Hold that of three messages appended together three are there or none, in one chain."""
    batches: defaultdict[str, list[str]] = defaultdict(list)
    for id in ids_of(session):
        batch, dot, place = id.partition(".")
        if dot:
            batches[batch].append(place)
    for batch, places in batches.items():
        assert places == ["0of3", "1of3", "2of3"], batch


def ids_of(session: plait.Session) -> Iterator[str]:
    seen = set[str]()
    for leaf in session.leaves():
        for row in session.path_stats(leaf.id):
            if row.id not in seen:
                seen.add(row.id)
                yield row.id


def digest_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
