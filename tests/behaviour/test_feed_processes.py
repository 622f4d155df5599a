"""One process follows a session's feed while others append, update, delete and compact."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.testing.faults import invariants
from tests.behaviour.programs import finished, run, run_together, start
from tests.dose import dose

WRITERS = 4
APPENDS = dose(short=40, soak=1000)
"""Of each writer; it updates every fifth message a little later, and deletes every seventh."""

WORKER = f"""
LONG = "words of a turn that go on for a while " * 4
n, path = sys.argv[1], sys.argv[2]

def write(chat):
    updated, deleted = [], []
    for m in range({APPENDS}):
        chat.append(note(f"{{n}}-{{m}}", LONG))
        if m % 5 == 4 and m % 7 != 0:  # a message that is still there
            assert chat.update(note(f"{{n}}-{{m - 3}}", f"{{LONG}} updated")) is not None
            updated.append(f"{{n}}-{{m - 3}}")
        if m % 7 == 6:
            assert chat.delete(f"{{n}}-{{m - 2}}") == [f"{{n}}-{{m - 2}}"]
            deleted.append(f"{{n}}-{{m - 2}}")
    assert chat.update(note(f"{{n}}-0", f"{{LONG}} updated")) is not None  # it is covered by now, as a rule
    updated.append(f"{{n}}-0")
    chat.append(note(f"done-{{n}}"))
    print(json.dumps([updated, deleted]))

def compact(chat):
    chat.on_compaction(plait.compact_function(
        lambda prompt: "what was said until now", keep_recent_tokens=1500, protect_head=1, min_tail=2))
    added, over = [], False
    while not over:
        over = all(chat.get(f"done-{{w}}") for w in range({WRITERS}))
        done = chat.compact()  # given up if what it covers was changed meanwhile; the last one is not
        if done.overlay is not None:
            added.append(done.overlay.id)
    chat.append(note("end"))
    print(json.dumps(added))

with plait.open(path, durability="process") as sessions:
    chat = sessions.session("chat")
    chat.totals()
    ready()
    compact(chat) if n == "{WRITERS}" else write(chat)
"""

TAIL = """
path, steps = sys.argv[1], int(sys.argv[2])
cursor, ended = None, False
while not ended:  # each time as a program that was started anew, and has kept nothing but a cursor
    with plait.open(path, durability="process", read_only=True) as sessions:
        for n, change in enumerate(sessions.session("chat").watch(after=cursor)):
            message, overlay = change.message, change.overlay
            print(json.dumps({
                "version": change.version, "kind": change.kind, "ids": list(change.ids), "parent": change.parent_id,
                "text": message.text if message else None, "seq": message.seq if message else None,
                "moved": change.leaf_moved, "leaf": change.leaf_id,
                "overlay": overlay.id if overlay else None, "stale": overlay.stale if overlay else None,
                "cursor": change.cursor,
            }), flush=True)
            cursor, ended = change.cursor, change.ids == ("end",)
            if ended or n == steps:
                break
"""


@dataclass
class Happened:
    """What each process says that it did, and what was delivered to the one that followed."""

    path: Path
    updated: list[str] = field(default_factory=list[str])
    deleted: list[str] = field(default_factory=list[str])
    compacted: list[str] = field(default_factory=list[str])
    delivered: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [change for change in self.delivered if change["kind"] in kinds]


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> Happened:
    """Four processes append, one compacts, one follows; the last change is the append of `end`."""
    path = tmp_path_factory.mktemp("feed") / "a.db"
    with plait.open(path) as sessions:
        sessions.session("chat").append(plait.user("first", id="first"))
    tail = start(TAIL, path, dose(short=37, soak=499))
    try:
        *wrote, compacted = run_together(WORKER, WRITERS + 1, path)
        lines = finished(tail).splitlines()
    finally:
        tail.kill()
    assert invariants(path) == []
    found = Happened(path, compacted=json.loads(compacted), delivered=[json.loads(line) for line in lines])
    for updated, deleted in map(json.loads, wrote):
        found.updated += updated
        found.deleted += deleted
    return found


def anew(path: Path) -> list[plait.Change]:
    """The feed read from its start, when all is over."""
    changes: list[plait.Change] = []
    with plait.open(path) as sessions:
        page = plait.Changes([], "", True)
        while page.more:
            page = sessions.session("chat").changes(after=page.cursor or None)
            changes += page.changes
    return changes


def test_each_change_is_delivered_once_in_session_order(happened: Happened) -> None:
    """Whatever was not deleted before it could be read: that is what a gap in the versions says, and nothing else."""
    versions = [change["version"] for change in happened.delivered]
    assert versions == sorted(set(versions))
    seqs = [change["seq"] for change in happened.of("append")]
    assert seqs == sorted(set(seqs))
    appended = {id for change in happened.of("append") for id in change["ids"]}
    written = {f"{n}-{m}" for n in range(WRITERS) for m in range(APPENDS)}
    written |= {"first", "end", *(f"done-{n}" for n in range(WRITERS))}
    assert appended <= written and written - appended <= set(happened.deleted)
    assert versions[-1] - len(versions) == len(written - appended), "a change was skipped"


def test_every_record_is_delivered_as_a_reader_finds_it_later(happened: Happened) -> None:
    later = anew(happened.path)
    kept = {(change.version, change.kind, tuple(change.ids)) for change in later}
    seen = {(change["version"], change["kind"], tuple(change["ids"])) for change in happened.delivered}
    assert kept <= seen
    assert {item for item in seen - kept if item[1] != "append"} == set()
    assert {id for _, _, ids in seen - kept for id in ids} <= set(happened.deleted)


def test_updates_and_deletes_come_after_the_append_they_change(happened: Happened) -> None:
    """An append that was updated before it was read comes as it is by then, its update all the same."""
    first: dict[str, int] = {}
    for change in happened.of("append"):
        first[change["ids"][0]] = change["version"]
        assert change["text"] is not None
    updates, deletes = happened.of("update"), happened.of("delete")
    assert Counter(id for change in updates for id in change["ids"]) == Counter(happened.updated)
    assert Counter(id for change in deletes for id in change["ids"]) == Counter(happened.deleted)
    for change in updates:
        assert change["text"] is None or change["text"].endswith("updated")
    for change in [*updates, *deletes]:
        assert all(first.get(id, 0) < change["version"] for id in change["ids"])


def test_each_compaction_is_delivered_with_its_overlay(happened: Happened) -> None:
    compactions = happened.of("compact")
    assert [id for change in compactions for id in change["ids"]] == happened.compacted != []
    assert [change["overlay"] for change in compactions] == happened.compacted
    stale = [change["ids"][0] for change in happened.of("overlay")]
    assert len(stale) == len(set(stale)) and set(stale) <= set(happened.compacted), "each becomes stale at most once"


def test_what_was_delivered_rebuilds_the_session(happened: Happened) -> None:
    parents: dict[str, str | None] = {}
    leaf = None
    for change in happened.delivered:
        if change["kind"] == "append":
            parents[change["ids"][0]] = change["parent"]
        for id in change["ids"] if change["kind"] == "delete" else ():
            above = parents.pop(id, None)
            parents = {child: above if up == id else up for child, up in parents.items()}
        leaf = change["leaf"] if change["moved"] else leaf
    with plait.open(happened.path) as sessions:
        chat = sessions.session("chat")
        assert parents == {message.id: message.parent_id for message in chat.everything()}
        assert (newest := chat.leaf()) is not None and newest.id == leaf == "end"
        assert {overlay.id for overlay in chat.overlays(all=True)} == set(happened.compacted)


def test_every_cursor_goes_on_right_after_its_change(happened: Happened) -> None:
    later = [change.version for change in anew(happened.path)]
    with plait.open(happened.path) as sessions:
        for change in happened.delivered[:: dose(short=5, soak=50)]:
            page = sessions.session("chat").changes(after=change["cursor"], limit=3)
            assert [found.version for found in page.changes] == [v for v in later if v > change["version"]][:3]


EXPIRED = """
path, cursor = sys.argv[1:]
with plait.open(path, read_only=True) as sessions:
    chat = sessions.session("chat")
    for read in (lambda: chat.changes(after=cursor), lambda: next(iter(chat.watch(after=cursor)))):
        try:
            read()
        except plait.CursorExpiredError as error:
            print(error)
"""


def test_a_cursor_that_has_expired_says_so_to_whoever_goes_on_from_it(happened: Happened, tmp_path: Path) -> None:
    path = tmp_path / "pruned.db"
    records = [change for change in happened.delivered if change["kind"] != "append"]
    with plait.open(happened.path) as sessions:
        sessions.backup(path)
    with plait.open(path) as sessions:
        assert sessions.prune_changes(max_age=dt.timedelta(days=1)) == 0
        assert sessions.prune_changes(max_count=5) == len(records) - 5
        kept = sessions.session("chat").changes(after=records[-6]["cursor"]).changes
        assert [change.version for change in kept if change.kind != "append"] == [r["version"] for r in records[-5:]]
    lines = run(EXPIRED, path, records[-7]["cursor"]).splitlines()
    assert len(lines) == 2 and all("pruned up to version" in line and "cursor()" in line for line in lines)
