"""A long conversation under everything at once: what is shown, found and told of it always agrees with what is stored."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import plait
from plait import LEAF, Message, Overlay
from plait.interchange import import_file, write_jsonl
from plait.model import Parent
from plait.testing.faults import invariants
from tests.dose import dose
from tests.mirror import Mirror
from tests.unit import conversations as talk

WORDS = ["river", "stone", "cloud", "注文", "жар"]
SOUGHT = {"river": "river", "STONE": "stone", '"cloud river"': "cloud river", "文": "文", "жар": "жар"}
"""Queries, and the text that a message must hold to be found by each."""

SESSIONS = ["a", "b", "c"]
KINDS = ["compaction", "compaction", "compaction", "archive", "archive", "omit", "replace", "unload"]

names = st.sampled_from([*"aaaa", "b", "c"])
places = st.integers(0, 10**6)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
turns = st.lists(st.sampled_from(talk.ANY), min_size=1, max_size=4)
call_ids = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)


def readable(messages: Iterator[Message | plait.Damaged]) -> list[Message]:
    """All of them; none is damaged here."""
    found = list(messages)
    assert all(isinstance(message, Message) for message in found)
    return found  # type: ignore[return-value]


def ids(messages: Sequence[Message | plait.Damaged]) -> list[str]:
    return [message.id for message in messages]


def exact(messages: Sequence[Message]) -> list[tuple[str, int, str | None, str]]:
    return [(message.id, message.seq, message.parent_id, message.to_json()) for message in messages]


def sums(messages: Sequence[Message]) -> tuple[int, int, int]:
    return len(messages), sum(m.bytes for m in messages), sum(m.tokens for m in messages)


def laid_over(rows: Sequence[Message], overlays: Sequence[Overlay]) -> list[str]:
    """The ids that a view must show, found the slow way: by laying each overlay that is in no other on the rows."""
    below = {o.id: [n for n, row in enumerate(rows) if o.from_seq <= row.seq <= o.to_seq] for o in overlays}
    outer: dict[int, Overlay] = {}
    for overlay in sorted(overlays, key=lambda o: o.to_seq - o.from_seq):  # stable: of equals the one added last
        outer |= dict.fromkeys(below[overlay.id], overlay)
    shown: list[str] = []
    for n, row in enumerate(rows):
        over = outer.get(n)
        if over is None:
            shown.append(row.id)
        elif over.summary is not None and n == below[over.id][0]:
            shown.append(plait.OVERLAY_PREFIX + over.id)
    return shown


class LongMachine(RuleBasedStateMachine):
    """Sessions that are talked in, branched, cut, compacted, overlaid and copied, on one SQLite file."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="plait-long-"))
        self.file = self.folder / "a.db"
        self.sessions = plait.open(self.file, durability="process")
        self.mirrors = {name: Mirror() for name in SESSIONS}
        self.cursors: dict[str, str | None] = dict.fromkeys(SESSIONS)
        self.written: dict[str, dict[str, str]] = {name: {} for name in SESSIONS}
        self.checked: dict[str, int] = {}
        self.n = 0

    def teardown(self) -> None:
        if not hasattr(self, "sessions"):
            return
        try:
            assert [finding for finding in self.sessions.doctor() if finding.kind != "stale overlays"] == []
            self.sessions.close()
            assert invariants(self.file) == []
        finally:
            self.sessions.close()
            shutil.rmtree(self.folder)

    # -- what is there

    def alive(self, name: str) -> list[str]:
        return list(self.written[name])

    def pick(self, name: str, place: int) -> str | None:
        """A message of a session, if it has any."""
        alive = self.alive(name)
        return alive[place % len(alive)] if alive else None

    def new_id(self) -> str:
        self.n += 1
        return f"m{self.n}"

    def keep(self, name: str, *appended: plait.Appended) -> None:
        self.written[name] |= {result.id: result.message.to_json() for result in appended}

    # -- writing

    @rule(name=names, contents=turns)
    def converse(self, name: str, contents: list[dict[str, Any]]) -> None:
        """Messages of several formats in any order: calls, results, reasoning, nothing at all."""
        for content in contents:
            self.keep(name, self.sessions.session(name).append(content, id=self.new_id()))

    @rule(name=names, text=texts, role=st.sampled_from(["user", "assistant"]), count=st.integers(1, 4))
    def say(self, name: str, text: str, role: str, count: int) -> None:
        new = [{**talk.text(text, role), "id": self.new_id()} for _ in range(count)]
        self.keep(name, *self.sessions.session(name).append_many(new))

    @rule(name=names, calls=call_ids, left=st.integers(0, 3), kind=st.sampled_from(["ours", "chat", "item"]))
    def turn(self, name: str, calls: list[str], left: int, kind: str) -> None:
        """A turn with parallel calls whose ids come again, and results of some in another order."""
        results: list[Any]
        if kind == "ours":
            new = [talk.said(talk.THOUGHT, *talk.call(*calls)["parts"])]
            results = [talk.result(id) for id in calls]
        elif kind == "chat":
            new, results = [talk.chat_call(*calls)], [talk.chat_result(id) for id in calls]
        else:
            new = [talk.ITEM_THOUGHT, *(talk.item_call(id) for id in calls)]
            results = [talk.item_result(id) for id in calls]
        for content in [talk.user(), *new, *results[::-1][:left]]:
            self.keep(name, self.sessions.session(name).append(content, id=self.new_id()))

    @rule(name=names, place=places, content=st.sampled_from(talk.ANY))
    def branch(self, name: str, place: int, content: dict[str, Any]) -> None:
        parent = self.pick(name, place)
        self.keep(name, self.sessions.session(name).append(content, id=self.new_id(), parent=parent))

    @rule(name=names, place=places, text=texts)
    def bring_in(self, name: str, place: int, text: str) -> None:
        """An import beside the active leaf."""
        chat, parent = self.sessions.session(name), self.pick(name, place)
        self.keep(name, chat.import_message(talk.user(text), id=self.new_id(), parent=parent, activate=False))

    @rule(name=names, place=places)
    def checkout(self, name: str, place: int) -> None:
        if (id := self.pick(name, place)) is not None:
            self.sessions.session(name).checkout(id)

    @rule(name=names, place=places, more=st.integers(0, 3))
    def delete(self, name: str, place: int, more: int) -> None:
        if (id := self.pick(name, place)) is not None:
            gone = self.sessions.session(name).delete([id, *self.alive(name)[place % 7 : place % 7 + more]])
            for id in gone:
                del self.written[name][id]

    @rule(name=names, place=places, content=st.one_of(texts.map(talk.user), st.sampled_from(talk.ANY)))
    def update(self, name: str, place: int, content: dict[str, Any]) -> None:
        if (id := self.pick(name, place)) is not None:
            stored = self.sessions.session(name).update(content, id=id)
            assert stored is not None
            self.written[name][id] = stored.to_json()

    @rule(name=names)
    def clear(self, name: str) -> None:
        self.sessions.session(name).clear()
        self.written[name] = {}

    # -- overlays

    @rule(
        name=names,
        place=st.one_of(st.none(), places),
        keep=st.sampled_from([0, 10, 40]),
        head=st.integers(0, 2),
        tail=st.integers(1, 2),
    )
    def compact(self, name: str, place: int | None, keep: int, head: int, tail: int) -> None:
        chat = self.sessions.session(name)
        leaf: Parent = LEAF if place is None else self.pick(name, place)
        options = {"keep_recent_tokens": keep, "protect_head": head, "min_tail": tail}
        chat.on_compaction(plait.compact_function(lambda prompt: "river", **options))
        before = list(chat.history(leaf))
        try:
            done = chat.compact(leaf)
        except plait.CompactionError:  # a summary that is longer than what it is of
            return
        after = list(chat.history(leaf))
        assert (len(after) < len(before) or done.messages == 1) if done.done else exact(after) == exact(before)  # type: ignore[arg-type]

    @rule(name=names, place=st.one_of(st.none(), places), ends=st.tuples(places, places), kind=st.sampled_from(KINDS))
    def lay(self, name: str, place: int | None, ends: tuple[int, int], kind: Any) -> None:
        chat = self.sessions.session(name)
        leaf: Parent = LEAF if place is None else self.pick(name, place)
        path = [row.id for row in chat.transcript(leaf)]
        if not path:
            return
        first, last = sorted(end % len(path) for end in ends)
        last = last if kind in ("compaction", "archive") else first
        summary = None if kind in ("archive", "omit") else "stone"
        try:
            chat.add_overlay(path[first], path[last], summary=summary, kind=kind, leaf=leaf)
        except plait.ConflictError:  # it crosses another, or a summary would lie inside one
            pass

    @rule(name=names, place=places)
    def uncover(self, name: str, place: int) -> None:
        overlays = self.sessions.session(name).overlays(all=True)
        if overlays:
            one = overlays[place % len(overlays)]
            try:
                assert self.sessions.session(name).remove_overlay(one.id)
            except plait.ConflictError:  # a newer summary was made without what it hides
                assert one.kind != "compaction"

    # -- copies

    @rule(name=names, copy=st.sampled_from(["b", "c"]), place=st.one_of(st.none(), places))
    def fork(self, name: str, copy: str, place: int | None) -> None:
        if copy == name or self.sessions.get(name) is None:
            return
        self.sessions.delete(copy)
        at = None if place is None else self.pick(name, place)
        path = [row.id for row in self.sessions.session(name).transcript(LEAF if at is None else at)]
        view = exact(readable(self.sessions.session(name).history(LEAF if at is None else at)))
        fork = self.sessions.session(name).fork(copy, at=at)
        self.written[copy] = {id: self.written[name][id] for id in path}
        assert exact(readable(fork.history())) == view

    @rule(name=names, into=st.sampled_from(SESSIONS))
    def merge(self, name: str, into: str) -> None:
        """All of a session into another one, which takes what it lacks, overlays too."""
        if into == name or self.sessions.get(name) is None:
            return
        path = self.folder / "export.jsonl"
        with path.open("wb") as file:
            write_jsonl(self.sessions.session(name), file)
        import_file(self.sessions, path, session_id=into)
        self.written[into] = self.written[name] | self.written[into]

    @rule(name=st.sampled_from(["b", "c"]))
    def delete_session(self, name: str) -> None:
        self.sessions.delete(name)
        self.written[name] = {}

    @rule()
    def reopen(self) -> None:
        self.sessions.close()
        self.sessions = plait.open(self.file, durability="process")
        self.checked = {}

    # -- what always holds

    @invariant()
    def each_session_agrees_with_itself(self) -> None:
        for name in SESSIONS if hasattr(self, "sessions") else ():
            chat = self.sessions.session(name)
            info = chat.info()
            if (info.version if info else 0) == self.checked.get(name):
                continue  # nothing has happened to it
            self.checked[name] = info.version if info else 0
            stored = {message.id: message.to_json() for message in readable(chat.everything())}
            assert stored == self.written[name], "what was written is there, to the letter"
            leaves = [LEAF, *(leaf.id for leaf in chat.leaves()[-2:]), *self.alive(name)[self.n % 5 :: 7][:2]]
            for leaf in leaves:
                self.same_both_ways(chat, leaf)
                self.legal(chat, leaf)
            self.counted(chat)
            self.found(chat)
            self.told(chat)

    def same_both_ways(self, chat: plait.Session, leaf: Parent) -> None:
        """A path and its view, forward as backward, by batches, with sizes, and nothing hidden without a cover."""
        rows, view = readable(chat.transcript(leaf)), readable(chat.history(leaf))
        assert ids(view) == laid_over(rows, chat.overlays(leaf))
        assert exact([row for row in view if row.overlay is None]) == exact([r for r in rows if r.id in ids(view)])
        assert exact(readable(chat.transcript(leaf, newest_first=True)))[::-1] == exact(rows)
        assert exact(readable(chat.history(leaf, newest_first=True)))[::-1] == exact(view)
        assert ids([message for batch in chat.batches(leaf, count=3) for message in batch]) == ids(view)
        for raw, shown in ((False, view), (True, rows)):
            stats = [(stat.id, stat.bytes, stat.tokens) for stat in chat.path_stats(leaf, raw=raw)]
            assert stats == [(message.id, message.bytes, message.tokens) for message in shown]
        self.recent(chat, leaf, rows, view)

    def recent(self, chat: plait.Session, leaf: Parent, rows: list[Message], view: list[Message]) -> None:
        for count in (0, 1, 3, None):
            window = chat.recent(count=count, leaf=leaf)
            newest = view if count is None else view[len(view) - min(count, len(view)) :]
            assert exact(window.messages) == exact(newest)  # type: ignore[arg-type]
            assert window.truncated == (len(newest) < len(view))
            assert (window.total_messages, window.total_bytes, window.total_tokens) == sums(rows)
            assert (window.view_messages, window.view_bytes, window.view_tokens) == sums(view)
        budget = sums(view[-3:])[1]
        newest = readable(iter(chat.recent(budget_bytes=budget, leaf=leaf).messages))
        assert exact(newest) == exact(view[-len(newest) :] if newest else [])
        assert sums(newest)[1] <= budget and (len(newest) >= 3 or newest == view)

    def legal(self, chat: plait.Session, leaf: Parent) -> None:
        view = readable(chat.history(leaf, for_model=True))
        assert talk.faults(view) == []
        assert exact(view) == exact(list(plait.legal_view(chat.history(leaf))))
        assert exact(readable(chat.history(leaf, for_model=True, newest_first=True)))[::-1] == exact(view)
        for bounds in ({"count": 1}, {"count": 4}, {"budget_bytes": 300}):
            part = readable(iter(chat.recent(leaf=leaf, for_model=True, **bounds).messages))  # type: ignore[arg-type]
            assert talk.faults(part) == []
            assert exact(part) == exact(view[-len(part) :] if part else [])

    def counted(self, chat: plait.Session) -> None:
        totals = chat.totals()
        assert (totals.messages, totals.bytes, totals.tokens) == sums(readable(chat.everything()))
        assert (totals.path_messages, totals.path_bytes, totals.path_tokens) == sums(readable(chat.transcript()))
        assert (totals.view_messages, totals.view_bytes, totals.view_tokens) == sums(readable(chat.history()))

    def found(self, chat: plait.Session) -> None:
        """A search finds exactly the messages that hold the words, and knows where they are."""
        rows, path = readable(chat.everything()), set(ids(readable(chat.transcript())))
        shown: dict[Parent, set[str]] = {}
        for query, held in SOUGHT.items():
            hits = chat.search(query, limit=10_000, newest_first=True)
            holding = [row.id for row in rows if held in row.text]
            assert [hit.id for hit in hits] == holding[::-1]
            assert [hit.id for hit in hits if hit.on_path] == [id for id in holding[::-1] if id in path]
            for hit in hits:
                # The active path goes on below its last message where others were deleted, and so may an overlay.
                leaf = LEAF if hit.on_path else hit.leaf_id
                if leaf not in shown:
                    shown[leaf] = set(ids(readable(chat.history(leaf))))
                assert hit.covered == (hit.id not in shown[leaf])
            on_path = chat.search(query, limit=10_000, leaf=LEAF)
            assert {hit.id for hit in on_path} == {id for id in holding if id in path}

    def told(self, chat: plait.Session) -> None:
        """A mirror that is built from the feed alone equals the session."""
        mirror = self.mirrors[chat.id]
        while True:
            page = chat.changes(after=self.cursors[chat.id], limit=1 + self.n % 5)
            for change in page.changes:
                mirror.apply(change)
                if change.kind in ("append", "import", "update") and change.message is not None:
                    now = chat.get(change.message.id)
                    assert isinstance(now, Message) and now == change.message
            self.cursors[chat.id] = page.cursor
            if not page.more:
                break
        mirror.check(chat)


TestLongMachine = LongMachine.TestCase
TestLongMachine.settings = settings(
    max_examples=dose(short=12, soak=300), stateful_step_count=dose(short=25, soak=60), deadline=None
)
