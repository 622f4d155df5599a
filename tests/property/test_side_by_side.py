"""Sessions of everything on a file and on a server at once: each answer, refusal and export of the one is the other's."""

from __future__ import annotations

import datetime as dt
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import plait
from plait import Message, Session
from plait.errors import PlaitError
from tests.behaviour.values import LONE, TEXTS, VALUES, note, picture
from tests.beside import Beside, Both, Moment, exported, imported, told
from tests.dose import dose
from tests.postgres_server import database
from tests.property.test_long_machine import SESSIONS, LongMachine, names, places

PAYLOADS = [b"", b"one picture", bytes(range(256)) * 8]
OWNERS = st.sampled_from([None, "o", "p\0", LONE])
patches = st.dictionaries(
    st.sampled_from(["a", "b", "\0", LONE]), st.sampled_from([None, *VALUES.values()]), max_size=2
)
anything = st.sampled_from([*TEXTS.values()])
queries = st.sampled_from(
    [
        "river",
        '"cloud river"',
        "文",
        "悬空",
        "e\u0301",
        "W\0s",
        LONE,
        "🧵",
        "don't",
        "*",
        "a:b",
        '"',
        "",
        "it's POL-358",
        "(river",
    ]
)


def read_on(sessions: plait.Sessions, after: str | None, limit: int) -> tuple[dict[Any, str], str]:
    """The changes of a scope after a cursor, each once, and where they end."""
    found: dict[Any, str] = {}
    while True:
        page = sessions.changes(after=after, limit=limit)
        found |= {(change.session_id, change.version): repr(told(change)) for change in page.changes}
        after = page.cursor
        if not page.more:
            return found, after


class SideBySideMachine(LongMachine):
    """What a long conversation does, and all else that a session and a catalogue are for."""

    @initialize()
    def begin(self) -> None:
        super().begin()
        self.sessions.close()
        self.ends = ExitStack()
        self.url = self.ends.enter_context(database())
        self.moment = Moment()
        self.ends.callback(self.moment.end)
        self.page: str | None = None
        self.scope_cursor: str | None = None
        self.open()

    def open(self) -> None:
        one, other = plait.open(self.file, durability="process"), plait.open(self.url)
        self.sessions: Any = Beside(one, other, self.moment)
        self.sessions.open()

    def teardown(self) -> None:
        try:
            if hasattr(self, "sessions"):
                for name in SESSIONS:
                    self.the_same_file(name)
                super().teardown()
        finally:
            if hasattr(self, "ends"):
                self.sessions.other.close()
                self.ends.close()

    def chat(self, name: str) -> Any:
        return self.sessions.session(name)

    def the_same_file(self, name: str) -> None:
        if self.sessions.get(name) is not None:
            exported(self.chat(name))

    # -- what the long machine does with one store alone

    @rule(name=names, into=st.sampled_from(SESSIONS))
    def merge(self, name: str, into: str) -> None:
        if into != name and self.sessions.get(name) is not None:
            path = self.folder / "export.jsonl"
            path.write_bytes(exported(self.chat(name)))
            imported(self.sessions, path, session_id=into)
            self.written[into] = self.written[name] | self.written[into]

    @rule()
    def reopen(self) -> None:
        self.sessions.close()
        self.open()
        self.checked = {}

    # -- content

    @rule(name=names, text=anything, value=st.sampled_from([*VALUES.values()]), own=st.booleans())
    def say_anything(self, name: str, text: str, value: Any, own: bool) -> None:
        message = note(
            self.new_id(), text, metadata={"value": value, "text": text}, **({text or "x": value} if own else {})
        )
        try:
            self.keep(name, self.chat(name).append(message))
        except PlaitError:  # a key that is one of plait's, or the like: refused by both
            return

    @rule(name=names, payload=st.sampled_from(PAYLOADS), ahead=st.booleans())
    def show(self, name: str, payload: bytes, ahead: bool) -> None:
        """A picture in its message, or put ahead of it; read back as a stream."""
        id = self.new_id()
        if ahead:
            put = self.sessions.put_attachment(payload, media_type="image/png")
            message: Any = note(id, parts=[{"type": "file", "mediaType": "image/png", "url": put}])
        else:
            message = picture(id, payload)
        self.keep(name, self.chat(name).append(message))
        assert b"".join(self.chat(name).read_attachment(id)) == payload

    @rule(name=names, id=st.sampled_from(["", " ", "\0", "a" * 513, LONE, "é" * 256, "%", "a_b"]), text=anything)
    def name_anything(self, name: str, id: str, text: str) -> None:
        """Ids that are refused, and ids that look like patterns; what is written goes at once."""
        try:
            self.chat(name).append(note(id, text))
        except PlaitError:
            return
        self.chat(name).get(id)
        assert self.chat(name).delete([id]) == [id]

    @rule(name=names, place=places, newer=st.booleans(), branch=st.booleans())
    def expect(self, name: str, place: int, newer: bool, branch: bool) -> None:
        """An append that holds only as long as nobody has written, or branches off."""
        leaf = self.chat(name).leaf()
        expected = self.pick(name, place) if newer or leaf is None else leaf.id
        try:
            done = self.chat(name).append(
                note(self.new_id()), expect_leaf=expected, on_moved="branch" if branch else "raise"
            )
        except PlaitError:
            return
        self.keep(name, done)

    @rule(name=names, place=places, differs=st.booleans(), loud=st.booleans())
    def say_again(self, name: str, place: int, differs: bool, loud: bool) -> None:
        id = self.pick(name, place)
        stored = None if id is None else self.chat(name).get(id)
        if isinstance(stored, Message):
            try:
                content = note(stored.id, "otherwise") if differs else stored
                done = self.chat(name).append(content, on_conflict="raise" if loud else "keep")
            except PlaitError:
                return
            assert not done.inserted

    @rule(
        name=names,
        query=queries,
        newest=st.booleans(),
        limit=st.sampled_from([1, 3, 50]),
        role=st.sampled_from([None, "user"]),
    )
    def look_for(self, name: str, query: str, newest: bool, limit: int, role: str | None) -> None:
        limit = limit if newest else 10_000
        self.chat(name).search(query, newest_first=newest, limit=limit, role=role)
        self.sessions.search(query, newest_first=newest, limit=limit, role=role)

    @rule(name=names, place=places)
    def look_around(self, name: str, place: int) -> None:
        for id in [self.pick(name, place) or "nobody", "nobody"]:
            for question in ("around", "children", "get"):
                try:
                    getattr(self.chat(name), question)(id)
                except PlaitError:
                    continue
        self.chat(name).roots()
        self.chat(name).newest()

    # -- the catalogue

    @rule(name=names, patch=patches, text=anything, owner=OWNERS, what=st.integers(0, 5))
    def describe(self, name: str, patch: dict[str, Any], text: str, owner: str | None, what: int) -> None:
        calls = [
            lambda: self.sessions.create(name, name=text, owner=owner, metadata=patch),
            lambda: self.sessions.get_or_create(name, name=text, owner=owner, metadata=patch),
            lambda: self.sessions.rename(name, text),
            lambda: self.sessions.merge_metadata(name, patch),
            lambda: self.sessions.add_usage(name, input_tokens=len(text), cost=0.25),
            lambda: self.sessions.pin(name, len(text) % 2 == 0),
        ]
        try:
            calls[what]()
        except PlaitError:
            return

    @rule(limit=st.integers(1, 3), anew=st.booleans())
    def go_through(self, limit: int, anew: bool) -> None:
        """A page after the last one, whatever was touched since."""
        page = self.sessions.list(limit=limit, cursor=None if anew else self.page)
        self.page = page.cursor
        assert [info.id for info in self.sessions.all()] == [i.id for i in self.sessions.list(limit=100).sessions]

    @rule(seconds=st.integers(1, 3000), count=st.one_of(st.none(), st.integers(0, 4)), dry=st.booleans())
    def retain(self, seconds: int, count: int | None, dry: bool) -> None:
        plan = self.sessions.retain(max_age=dt.timedelta(seconds=seconds), max_count=count, dry_run=dry)
        for id, _ in () if dry else plan.sessions:
            self.written[id] = {}

    @rule(name=names, patch=patches, check=st.booleans(), older=st.integers(0, 1))
    def remember(self, name: str, patch: dict[str, Any], check: bool, older: int) -> None:
        info = self.sessions.get(name)
        version = max((info.version if info else 0) - older, 0) if check else None
        try:
            self.chat(name).update_state(patch, expect_version=version)
        except PlaitError:
            return
        finally:
            self.chat(name).state()

    @rule(name=names, ended=st.booleans())
    def work_alone(self, name: str, ended: bool) -> None:
        """A lease, what it keeps out, and what is left of it."""
        message = note(self.new_id(), "river")

        def work(session: Session, _: Any) -> Any:
            with session.lease(holder="w") as turn:
                said: list[Any] = [turn.append(message)]
                try:
                    session.append(note("kept out"))
                except PlaitError as error:
                    said.append(type(error))  # its text says until when
                said += [turn.get("kept out"), session.lease_info()]
                if ended:
                    said.append(session.break_lease())
                    try:
                        turn.append(note("kept out"))
                    except PlaitError as error:
                        said.append(told(error))
            return [*said, session.lease_info()]

        self.keep(name, self.chat(name).ask(work)[0])

    # -- what is written beside the messages

    @rule(
        name=names,
        text=anything,
        key=st.sampled_from(["", "k", "é", "a\0", LONE]),
        what=st.integers(0, 6),
        shared=st.booleans(),
    )
    def keep_values(self, name: str, text: str, key: str, what: int, shared: bool) -> None:
        chat = self.chat(name)
        chat.with_context("memory", shared=shared).with_context("facts", kind="collection").with_context(
            "how", kind="documents"
        )
        context = chat.context
        calls = [
            lambda: context.replace("memory", text),
            lambda: context.append("memory", text),
            lambda: context.put("facts", text, key=key),
            lambda: context.put("how", text, title="a title", description=text),
            lambda: context.write_entry("facts", key, None if what % 2 else text, metadata={"text": text}),
            lambda: context.restore("memory", 1),
            lambda: context.search("facts", text),
        ]
        try:
            calls[what]()
        except PlaitError:
            pass
        context.blocks()
        context.entries("facts")
        context.entries("how")
        context.history("memory")
        chat.refresh_system_prompt()

    @rule(
        name=names,
        keys=st.lists(st.binary(min_size=1, max_size=2), max_size=3),
        body=st.sampled_from([b"", b"\0", b"b" * 5000]),
    )
    def write_records(self, name: str, keys: list[bytes], body: bytes) -> None:
        chat = self.chat(name)
        id = self.new_id()
        done = chat.write_records(dict.fromkeys(keys, body), delete=[b"\0"], append=[(None, [(id, note(id))])])
        self.keep(name, *done.appended)
        chat.records(last_first=len(keys) % 2 == 0)
        chat.records(b"\x10", b"\x80", limit=2)

    # -- what others are told

    @rule(limit=st.sampled_from([1, 5, 500]))
    def follow(self, limit: int) -> None:
        """The changes of all sessions: the same ones, to whoever reads to the end."""
        after = self.scope_cursor
        one, cursor = read_on(self.sessions.one, after, limit)
        other, others = read_on(self.sessions.other, getattr(after, "other", None), limit)
        assert one == other
        self.scope_cursor = Both.of(cursor, others)

    @rule(count=st.integers(0, 30))
    def prune(self, count: int) -> None:
        self.sessions.prune_values(max_count=max(count, 1))


TestSideBySideMachine = SideBySideMachine.TestCase
TestSideBySideMachine.settings = settings(
    max_examples=dose(short=2, soak=100), stateful_step_count=dose(short=10, soak=50), deadline=None
)


def test_a_difference_is_seen(tmp_path: Path) -> None:
    """The control: what one store was told alone, every question that it bears on brings out."""
    moment = Moment()
    try:
        sessions = Beside(plait.open(tmp_path / "one.db"), plait.open(tmp_path / "other.db"), moment)
        chat = sessions.session("chat")
        chat.append(note("a"))
        chat.one.append(note("b", "one"))
        moment.pass_on()
        chat.other.append(note("b", "one"))
        for question in ("transcript", "newest", "info", "path_stats"):
            with pytest.raises(AssertionError):
                getattr(chat, question)()
        with pytest.raises(AssertionError):
            exported(chat)
        assert chat.state() == {} and chat.get("a").text == "words"
        sessions.close()
    finally:
        moment.end()
