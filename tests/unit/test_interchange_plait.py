from __future__ import annotations

import datetime as dt
import io
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from plait import formats, jsontext
from plait.errors import NotFoundError, UsageError
from plait.interchange import (
    ImportReport,
    Transcript,
    import_file,
    read,
    whole_file,
    write_jsonl,
    write_markdown,
)
from plait.interchange import lines as json_lines
from plait.model import LEAF, Damaged, Json, Message, Parent, SessionInfo, Totals

AT = dt.datetime(2025, 5, 4, 3, 2, 1, 123456, tzinfo=dt.timezone.utc)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def message(id: str, parent: str | None, seq: int, format: str = "plait", **more: Any) -> Message:
    content = {"id": id, "role": "user", "parts": [{"type": "text", "text": f"This is {id}"}], **more}
    text = jsontext.encode(content)
    return Message(id, "user", seq, parent, 1_700_000_000_123_456 + seq, len(text), 1, formats.stored(format), text)


@dataclass
class Stored:
    """A session as an export sees it."""

    messages: list[Message | Damaged]
    leaf_id: str | None = None
    id: str = "s1"
    name: str | None = "Name"
    gone: bool = False
    kept_state: Json = field(default_factory=lambda: {"step": 3})

    def info(self) -> SessionInfo | None:
        if self.gone:
            return None
        return SessionInfo(self.id, self.name, "owner", "from", True, {"k": [1]}, AT, AT, 7, Totals())

    def leaf(self) -> Message | Damaged | None:
        return next((entry for entry in self.messages if entry.id == self.leaf_id), None)

    def state(self) -> Json:
        return self.kept_state

    def everything(self, *, after_seq: int | None = None) -> Iterator[Message | Damaged]:
        return (entry for entry in self.messages if entry.seq > (after_seq or 0))

    def transcript(self, leaf: Parent = LEAF) -> Iterator[Message | Damaged]:
        return iter(self.messages)


TREE: list[Message | Damaged] = [
    message("a", None, 1),
    message("b", "a", 4),
    message("c", "a", 5, n=9007199254740993, odd="\ud83d\0é"),
    message("d", "b", 9, "openai"),
]


def exported(session: Stored, **options: Any) -> bytes:
    file = io.BytesIO()
    write_jsonl(session, file, **options)
    return file.getvalue()


def saved(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "export.jsonl"
    path.write_bytes(data)
    return path


def error_of(tmp_path: Path, data: bytes) -> UsageError:
    with pytest.raises(UsageError) as caught:
        for transcript in read(saved(tmp_path, data), format="plait"):
            list(transcript.entries)
    assert f"line {caught.value.line}" in str(caught.value)  # type: ignore[attr-defined]
    return caught.value


def check_equal(transcript: Transcript, messages: list[Message]) -> None:
    entries = list(transcript.entries)
    assert [(entry.id, entry.parent) for entry in entries] == [(kept.id, kept.parent_id) for kept in messages]
    assert [entry.message for entry in entries] == [kept.to_dict() for kept in messages]
    assert [entry.created_at for entry in entries] == [kept.created_at for kept in messages]
    assert [entry.format for entry in entries] == [kept.format for kept in messages]


def test_an_export_is_read_back_whole(tmp_path: Path) -> None:
    [transcript] = read(saved(tmp_path, exported(Stored(TREE, "c"))))
    check_equal(transcript, [kept for kept in TREE if isinstance(kept, Message)])
    assert (transcript.id, transcript.name, transcript.owner, transcript.leaf) == ("s1", "Name", "owner", "c")
    assert (transcript.metadata, transcript.state, transcript.pinned) == ({"k": [1]}, {"step": 3}, True)
    assert (transcript.created_at, transcript.after_seq, transcript.count) == (AT, 0, 4)
    assert (transcript.parent_id, transcript.active_at) == ("from", AT)


def test_an_export_has_one_line_for_each_message_in_valid_utf_8() -> None:
    lines = exported(Stored(TREE, "c")).decode("utf-8").splitlines()
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["session", "message", "message", "message", "message", "end"]
    assert json.loads(lines[-1]) == {"type": "end", "leaf": "c", "count": 4}


@given(st.data())
def test_any_tree_survives_the_file(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 8))
    ids = data.draw(
        st.lists(
            st.text("ab é𝄞-/.", min_size=1, max_size=4).filter(str.strip), min_size=count, max_size=count, unique=True
        )
    )
    tree: list[Message | Damaged] = []
    for n, id in enumerate(ids):
        parent = data.draw(st.sampled_from([None, *ids[:n]]))
        tree.append(message(id, parent, n * 3 + 1, extra=data.draw(JSON_VALUES)))
    lines = exported(Stored(tree, ids[-1] if ids else None)).splitlines(keepends=True)
    body = data.draw(st.permutations(lines[1:-1]))
    with tempfile.TemporaryDirectory() as folder:  # a fixture's folder would be shared by all examples
        [transcript] = read(saved(Path(folder), b"".join([lines[0], *body, lines[-1]])))
        check_equal(transcript, [kept for kept in tree if isinstance(kept, Message)])
        assert transcript.leaf == (ids[-1] if ids else None)


def test_several_sessions_can_follow_each_other(tmp_path: Path) -> None:
    data = exported(Stored(TREE, "c")) + exported(Stored([], id="empty")) + exported(Stored(TREE[:1], "a", id="s3"))
    transcripts = list(read(saved(tmp_path, data)))
    assert [(transcript.id, transcript.count) for transcript in transcripts] == [("s1", 4), ("empty", 0), ("s3", 1)]
    check_equal(transcripts[2], [kept for kept in TREE[:1] if isinstance(kept, Message)])


def test_a_continuation_names_parents_that_came_before(tmp_path: Path) -> None:
    [transcript] = read(saved(tmp_path, exported(Stored(TREE, "a"), after_seq=4)))
    assert [(entry.id, entry.parent) for entry in transcript.entries] == [("c", "a"), ("d", "b")]
    assert (transcript.after_seq, transcript.leaf) == (4, "a")


def test_every_cut_of_a_file_is_noticed(tmp_path: Path) -> None:
    data = exported(Stored(TREE[:2], "b"))
    for end in range(len(data) - 1):
        with pytest.raises(UsageError):
            list(read(saved(tmp_path, data[:end]), format="plait"))


def test_damage_is_an_error_with_its_line(tmp_path: Path) -> None:
    lines = exported(Stored(TREE, "c")).splitlines(keepends=True)

    def error(number: int, change: tuple[bytes, bytes]) -> UsageError:
        changed = [line.replace(*change) if n == number - 1 else line for n, line in enumerate(lines)]
        return error_of(tmp_path, b"".join(changed))

    assert error(3, (b'"parent":"a"', b'"parent":"x"')).line == 3  # type: ignore[attr-defined]
    assert "'x'" in str(error(3, (b'"parent":"a"', b'"parent":"x"')))
    assert "earlier" in str(error(3, (b'"id":"b"', b'"id":"a"')))
    assert "seq" in str(error(3, (b'"seq":4', b'"seq":"4"')))
    assert "same seq" in str(error(3, (b'"seq":4', b'"seq":5')))
    assert "parent" in str(error(3, (b'"parent":"a"', b'"parent":4')))
    assert "neither" in str(error(3, (b'"type":"message"', b'"type":"massage"')))
    assert "UTF-8" in str(error(4, (b'"odd"', b'"\xff"')))
    assert "counts 5" in str(error(6, (b'"count":4', b'"count":5')))
    assert "header" in str(error(1, (b'"plait":1', b'"plait":"1"')))
    assert "up to 4" in str(error(1, (b'"plait":1', b'"plait":5')))
    assert "ancestor" in str(error(2, (b'"parent":null', b'"parent":"d"')))
    assert "twice" in str(error(3, (b'"parent":"a"', b'"parent":"x","parent":"a"')))


def test_a_message_of_any_size_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on the lines of others' files is none for what plait has written itself."""
    monkeypatch.setattr(json_lines, "MAX_LINE", 50)
    [transcript] = read(saved(tmp_path, exported(Stored(TREE, "c"))), format="plait")
    check_equal(transcript, TREE)


def test_a_session_id_that_is_none_is_refused(tmp_path: Path) -> None:
    data = exported(Stored([])).replace(b'"id":"s1"', b'"id":""')
    with pytest.raises(UsageError, match="session's id"):
        list(read(saved(tmp_path, data)))


def test_a_message_that_was_damaged_in_the_store_is_told_on_both_ways(tmp_path: Path) -> None:
    tree: list[Message | Damaged] = [
        message("a", None, 1),
        Damaged("x", 2, "user", "a", "slice is gone"),
        message("b", "x", 3),
    ]
    file = io.BytesIO()
    done = write_jsonl(Stored(tree, "b"), file)
    assert (done.messages, done.last_seq, [entry.id for entry in done.damaged]) == (2, 3, ["x"])
    [transcript] = read(saved(tmp_path, file.getvalue()))
    assert [(entry.id, entry.parent) for entry in transcript.entries] == [("a", None), ("b", "a")]
    assert [(problem.line, problem.lost) for problem in transcript.report.problems] == [(3, True)]


def test_a_leaf_that_is_not_in_the_file_is_reported(tmp_path: Path) -> None:
    data = exported(Stored(TREE, "c")).replace(b'"leaf":"c"', b'"leaf":"q"')
    [transcript] = read(saved(tmp_path, data))
    assert transcript.leaf is None
    assert transcript.report.count == 1


def test_exporting_an_unknown_session_is_an_error() -> None:
    for write in (write_jsonl, write_markdown):
        with pytest.raises(NotFoundError, match="s1"):
            write(Stored([], gone=True), io.BytesIO())


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]
    assert path.read_bytes() == b"before"
    with whole_file(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"


def test_a_link_keeps_pointing_at_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to("real")
    with whole_file(tmp_path / "link") as file:
        file.write(b"2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"2"


class Sink:
    """Takes transcripts as a store would."""

    def __init__(self) -> None:
        self.got: dict[str, list[str]] = {}

    def import_transcript(self, transcript: Transcript, /) -> int:
        self.got[transcript.id] = [entry.id for entry in transcript.entries]
        return len(self.got[transcript.id])


def test_importing_a_file_hands_over_every_session(tmp_path: Path) -> None:
    path, sink = saved(tmp_path, exported(Stored(TREE, "c")) + exported(Stored(TREE[:1], id="s2"))), Sink()
    reports = import_file(sink, path)
    assert sink.got == {"s1": ["a", "b", "c", "d"], "s2": ["a"]}
    assert [(report.session_id, report.messages, report.result, report.format) for report in reports] == [
        ("s1", 4, 4, "plait"),
        ("s2", 1, 1, "plait"),
    ]
    assert all(isinstance(report, ImportReport) and report.report.count == 0 for report in reports)


def test_a_session_id_names_the_only_session_of_a_file(tmp_path: Path) -> None:
    sink = Sink()
    import_file(sink, saved(tmp_path, exported(Stored(TREE[:1], "a"))), session_id="mine")
    assert sink.got == {"mine": ["a"]}
    with pytest.raises(UsageError, match="several"):
        import_file(sink, saved(tmp_path, exported(Stored([])) + exported(Stored([], id="2"))), session_id="x")
    assert list(sink.got) == ["mine"]


def markdown(*parts: Json, name: str | None = "Name") -> str:
    file = io.BytesIO()
    write_markdown(Stored([message("a", None, 1, parts=list(parts))], name=name), file)
    return file.getvalue().decode("utf-8")


def test_markdown_is_readable() -> None:
    text = markdown(
        {"type": "step-start"},
        {"type": "text", "text": "Hello\n\n- *you*"},
        {"type": "reasoning", "text": "think\ntwice"},
        {"type": "tool-weather", "toolCallId": "c1", "input": {"city": "Lyon"}, "output": "sun"},
        {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": "data:image/png;base64,AAAA"},
        {"type": "dynamic-tool", "toolName": "f", "toolCallId": "c2", "state": "approval-requested"},
    )
    assert text == (
        "# Name\n\n## user · 2023-11-14 22:13:20 UTC\n\nHello\n\n- *you*\n\n> think\n> twice\n\n"
        '**weather** c1 (call)\n\n```json\n{"city":"Lyon"}\n```\n\n**weather** c1 (result)\n\n```\nsun\n```\n\n'
        "*[image/png a.png, 1 KiB inline]*\n\n**f** c2 (approval-requested)\n"
    )


def test_no_content_can_close_its_fence_or_break_a_heading() -> None:
    text = markdown({"type": "tool-x", "output": "a\n````\nb"}, name="My\n# *title*")
    assert "`````\na\n````\nb\n`````" in text
    assert text.startswith("# My \\# \\*title\\*\n")


HEADING = "user · 2023-11-14 22:13:20 UTC"
FORGERIES = [
    *(f"before\n{mark}{HEADING}\nafter" for mark in ("## ", "# ", "   ###### ", "- ## ", "> ## ", "1. ## ")),
    *(f"before{end}## {HEADING}{end}after" for end in ("\r", "\r\n")),
    *(f"before\n\n{HEADING}\n{under}\nafter" for under in ("---", "===", "   -")),
    *(f"before\n## {role}\nafter" for role in ("user", "Assistant", "tool ##", "system")),
    *(f"before\n- {HEADING}\n  ---\n", "- ## assistant", "> 1. ## user"),
    *("```", "~~~~ python", "```\n``", "````\n```", "```\n``` x", "~~~\n```", "```\n    ```"),
    *("<!-- open", "<?open", "<![CDATA[", "<!DOCTYPE", "<pre>", "a\n  <SCRIPT>", "<style>", "- <textarea>"),
]


def headings(text: str) -> list[str]:
    """What a reader of Markdown takes for headings of messages."""
    tokens = MarkdownIt().parse(text)
    return [after.content for token, after in pairwise(tokens) if token.type == "heading_open" and token.tag != "h1"]


@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.parametrize("kind", ["text", "reasoning"])
def test_no_message_speaks_for_another(kind: str, forgery: str) -> None:
    file = io.BytesIO()
    forged = message("a", None, 1, parts=[{"type": kind, "text": forgery}])
    write_markdown(Stored([forged, message("b", "a", 2)]), file)
    text = file.getvalue().decode()
    assert headings(text) == [HEADING, HEADING]
    assert [line for line in re.split(r"\r\n?|\n", text) if line.startswith("## ")] == [f"## {HEADING}"] * 2


@given(
    st.lists(
        st.sampled_from([HEADING, "```", "~~~", "##", "# user", "---", "<!--", "<pre>", " ", ">", "-", "\n", "\r", "x"])
    )
)
def test_no_message_speaks_for_another_whatever_it_is_made_of(pieces: list[str]) -> None:
    file = io.BytesIO()
    forged = message("a", None, 1, parts=[{"type": "text", "text": "".join(pieces)}])
    write_markdown(Stored([forged, message("b", "a", 2)]), file)
    found = headings(file.getvalue().decode())
    assert [text for text in found if HEADING in text or text == "user"] == [HEADING] * 2
    assert found[-1] == HEADING


def test_text_that_imitates_nothing_stays_as_it_is() -> None:
    text = "# Title\n\nuser\n---\n\n<b>bold</b>\n\n```html\n<script>\n## x\n```\n\n## Users\n\n<details>\n\n| a |"
    assert text in markdown({"type": "text", "text": text})


def test_markdown_is_valid_utf_8_whatever_the_text() -> None:
    assert "\\ud83d" in markdown({"type": "text", "text": "half \ud83d"})


def test_a_damaged_message_is_shown_as_damaged() -> None:
    file = io.BytesIO()
    done = write_markdown(Stored([Damaged("x", 2, "user", None, "slice is gone")]), file)
    assert "slice is gone" in file.getvalue().decode()
    assert len(done.damaged) == 1
