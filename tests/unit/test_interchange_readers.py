from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pytest

from plait.errors import UsageError
from plait.interchange import ImportEntry, Transcript, read
from plait.interchange.index import Index

UTC = dt.timezone.utc
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

PI: list[dict[str, Any]] = [
    {"type": "session", "version": 3, "id": "s1", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/w"},
    {
        "type": "message",
        "id": "a",
        "parentId": None,
        "timestamp": "2025-01-01T00:00:01.000Z",
        "message": {"role": "user", "content": "hi"},
    },
    {
        "type": "model_change",
        "id": "b",
        "parentId": "a",
        "timestamp": "2025-01-01T00:00:02.000Z",
        "provider": "p",
        "modelId": "m",
    },
    {
        "type": "message",
        "id": "c",
        "parentId": "b",
        "timestamp": "2025-01-01T00:00:03.000Z",
        "message": {"role": "assistant", "content": []},
    },
    {
        "type": "message",
        "id": "d",
        "parentId": "a",
        "timestamp": "2025-01-01T00:00:04.000Z",
        "message": {"role": "user", "content": "ho"},
    },
    {"type": "session_info", "id": "e", "parentId": "d", "timestamp": "2025-01-01T00:00:05.000Z", "name": "Greetings"},
]
CLAUDE: list[dict[str, Any]] = [
    {"type": "summary", "summary": "Old title", "leafUuid": "zz"},
    {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": "cc",
        "timestamp": "2025-06-14T10:00:00Z",
        "message": {"role": "user", "content": "go"},
    },
    {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {"files": {}}},
    {
        "type": "assistant",
        "uuid": "a1",
        "parentUuid": "u1",
        "sessionId": "cc",
        "timestamp": "2025-06-14T10:00:01Z",
        "message": {"role": "assistant", "content": []},
    },
    {
        "type": "user",
        "uuid": "s1",
        "parentUuid": "a1",
        "isSidechain": True,
        "sessionId": "cc",
        "message": {"role": "user", "content": "sub"},
    },
    {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "k1",
        "parentUuid": None,
        "logicalParentUuid": "a1",
        "sessionId": "cc",
        "content": "Conversation compacted",
    },
    {
        "type": "user",
        "uuid": "k2",
        "parentUuid": "k1",
        "isCompactSummary": True,
        "sessionId": "cc",
        "message": {"role": "user", "content": "So far"},
    },
    {
        "type": "user",
        "uuid": "s2",
        "parentUuid": "s1",
        "isSidechain": True,
        "sessionId": "cc",
        "message": {"role": "user", "content": "sub 2"},
    },
]


def jsonl(tmp_path: Path, values: list[Any], name: str = "file.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def one(path: Path, **options: Any) -> tuple[Transcript, list[ImportEntry]]:
    [transcript] = read(path, **options)
    return transcript, list(transcript.entries)


def tree(entries: list[ImportEntry]) -> list[tuple[str, str | None]]:
    return [(entry.id, entry.parent) for entry in entries]


def test_pi_entries_keep_their_tree_and_every_field(tmp_path: Path) -> None:
    transcript, entries = one(jsonl(tmp_path, PI))
    assert (transcript.id, transcript.name, transcript.leaf, transcript.count) == ("s1", "Greetings", "e", 5)
    assert tree(entries) == [("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d")]
    assert [entry.message for entry in entries] == PI[1:]
    assert transcript.metadata == {"imported": {"from": "pi", "header": PI[0]}}
    assert entries[0].created_at == dt.datetime(2025, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert {entry.format for entry in entries} == {"pi"}
    assert transcript.report.count == 0


def test_pi_version_1_is_a_chain_with_ids_that_are_made_again(tmp_path: Path) -> None:
    old = [{key: item for key, item in line.items() if key not in ("id", "parentId", "version")} for line in PI[1:]]
    path = jsonl(tmp_path, [PI[0], *old])
    entries, again = one(path)[1], one(path)[1]
    assert [entry.message for entry in entries] == old
    assert tree(entries) == tree(again)
    assert [entry.parent for entry in entries] == [None, *[entry.id for entry in entries[:-1]]]
    grown = one(jsonl(tmp_path, [PI[0], *old, old[0]]))[1]
    assert tree(grown)[: len(entries)] == tree(entries)


def test_a_compaction_of_pi_is_noted_in_the_metadata(tmp_path: Path) -> None:
    line = {"type": "compaction", "id": "f", "parentId": "e", "timestamp": "2025-01-01T00:00:06Z", "summary": "S"}
    transcript, _ = one(jsonl(tmp_path, [*PI, line]))
    assert transcript.metadata["imported"]["compactions"] == ["f"]


def test_a_torn_line_of_pi_does_not_cut_the_conversation(tmp_path: Path) -> None:
    path = jsonl(tmp_path, PI)
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2][:-9]
    path.write_bytes(b"\n".join(lines))
    transcript, entries = one(path)
    assert tree(entries) == [("a", None), ("c", "a"), ("d", "a"), ("e", "d")]
    assert [(problem.line, problem.lost) for problem in transcript.report.problems] == [(3, True)]


def test_shuffled_lines_give_the_same_tree(tmp_path: Path) -> None:
    body = PI[1:]
    random.Random(7).shuffle(body)
    _, entries = one(jsonl(tmp_path, [PI[0], *body]))
    assert sorted(tree(entries), key=str) == [("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d")]


def test_bad_links_are_reported_and_all_entries_kept(tmp_path: Path) -> None:
    def entry(id: object, parent: object) -> dict[str, Any]:
        return {"type": "label", "id": id, "parentId": parent, "timestamp": "2025-01-01T00:00:00Z"}

    odd = [
        entry("self", "self"),
        entry("x", "y"),
        entry("y", "x"),
        entry("z", "gone"),
        entry("z", "x"),
        entry(" ", "x"),
    ]
    odd += [entry("child", " "), entry("\ud83d", "x"), entry("under", "\ud83d"), entry("l" * 600, "x"), entry(7, "x")]
    transcript, entries = one(jsonl(tmp_path, [PI[0], *odd]))
    assert sorted((entry.message for entry in entries), key=str) == sorted(odd, key=str)
    assert {problem.line for problem in transcript.report.problems} == {2, 3, 5, 6, 7, 9, 11}
    assert transcript.report.lost == 0
    ids = {json.dumps(entry.message["id"]): entry.id for entry in entries if entry.message["id"] != "z"}
    parents = {json.dumps(entry.message["id"]): entry.parent for entry in entries}
    assert ids["7"] == "7"
    assert parents['"child"'] == ids['" "']
    assert parents['"under"'] == ids['"\\ud83d"']
    assert len({entry.id for entry in entries}) == len(odd)


def test_claude_code_lines_keep_their_tree_and_the_others_their_order(tmp_path: Path) -> None:
    transcript, entries = one(jsonl(tmp_path, CLAUDE))
    by_id = dict(tree(entries))
    apart = [entry.id for entry in entries if "uuid" not in entry.message]
    assert [entry.message for entry in entries] == CLAUDE
    assert {id: parent for id, parent in by_id.items() if id not in apart} == {
        "u1": None,
        "a1": "u1",
        "s1": "a1",
        "k1": "a1",
        "k2": "k1",
        "s2": "s1",
    }
    assert [by_id[id] for id in apart] == [None, apart[0]]
    assert (transcript.id, transcript.name, transcript.leaf) == ("cc", "Old title", "k2")
    assert transcript.metadata["imported"]["compactions"] == [
        {"id": "k1", "kind": "compact_boundary"},
        {"id": "k2", "kind": "summary"},
    ]
    assert transcript.report.count == 0


def test_a_torn_line_of_claude_code_does_not_cut_the_conversation(tmp_path: Path) -> None:
    path = jsonl(tmp_path, CLAUDE)
    path.write_bytes(path.read_bytes().replace(b'"message": {"role": "assistant", "content": []}}', b'"message": {"ro'))
    transcript, entries = one(path)
    assert dict(tree(entries))["s1"] == "u1"
    assert transcript.report.lost == 1


def test_claude_code_lines_without_any_parent_are_taken_in_order(tmp_path: Path) -> None:
    lines = [{**CLAUDE[1], "uuid": f"m{n}"} for n in range(4)]
    transcript, entries = one(jsonl(tmp_path, [*lines, CLAUDE[0]]))
    assert tree(entries)[:4] == [("m0", None), ("m1", "m0"), ("m2", "m1"), ("m3", "m2")]
    assert entries[4].parent is None
    assert transcript.leaf == "m3"
    assert transcript.report.count == 1


def conversation(**more: Any) -> dict[str, Any]:
    def node(id: str, parent: str | None, text: str | None) -> dict[str, Any]:
        said = {
            "id": id,
            "author": {"role": "user"},
            "create_time": 1.5e9,
            "content": {"content_type": "text", "parts": [text]},
        }
        return {"id": id, "parent": parent, "children": [], "message": said if text else None}

    nodes = [
        node("child", "a", "2"),
        node("root", None, None),
        node("a", "root", "1"),
        node("gap", "a", None),
        node("b", "gap", "3"),
    ]
    return {
        "title": "T",
        "create_time": 1e9,
        "mapping": {n["id"]: n for n in nodes},
        "current_node": "gap",
        "id": "conv",
        **more,
    }


def test_chatgpt_nodes_without_a_message_are_looked_through(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([conversation(), conversation(id="two", mapping={}, current_node=None)]))
    first, second = read(path)
    entries = list(first.entries)
    assert tree(entries) == [("a", None), ("child", "a"), ("b", "a")]
    assert (first.id, first.name, first.leaf) == ("conv", "T", "a")
    assert entries[0].created_at == dt.datetime.fromtimestamp(1.5e9, UTC)
    rebuilt = {entry.id: entry.message for entry in entries} | first.metadata["imported"]["nodes"]
    assert {**first.metadata["imported"]["header"], "mapping": rebuilt} == conversation()
    assert (second.id, second.count, list(second.entries), second.leaf) == ("two", 0, [], None)


def test_a_single_conversation_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(conversation(), indent=1))
    assert len(one(path)[1]) == 3


def test_damaged_conversations_are_reported_and_the_others_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    good = json.dumps(conversation())
    path.write_text(f'[{good},\n{{"mapping": NaN}},\n{{"title": "no mapping"}},\n{good[:200]}')
    transcripts = list(read(path))
    assert [transcript.id for transcript in transcripts] == ["conv"]
    report = transcripts[0].report
    assert [problem.line for problem in report.problems] == [2, 3, 4, 0]
    assert report.lost == 3


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "1.10"},
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
]


@pytest.mark.parametrize("shape", ["array", "pretty", "lines", "object", "pretty object"])
def test_a_list_of_chat_messages_is_a_chain_in_any_wrapping(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "chat"
    value = {"model": "m", "messages": CHAT, "n": 1} if "object" in shape else CHAT
    text = json.dumps(value, indent=2 if "pretty" in shape else None)
    path.write_text("\n".join(map(json.dumps, CHAT)) if shape == "lines" else text)
    transcript, entries = one(path)
    assert transcript.format == "openai"
    assert [entry.message for entry in entries] == CHAT
    assert [entry.parent for entry in entries] == [None, *[entry.id for entry in entries[:-1]]]
    assert transcript.metadata["imported"]["header"] == ({"model": "m", "n": 1} if "object" in shape else {})
    assert transcript.id.startswith("chat-")
    assert transcript.id == one(path)[0].id


def test_each_line_with_a_list_is_a_session(tmp_path: Path) -> None:
    path = jsonl(tmp_path, [{"messages": CHAT}, {"messages": CHAT[:2], "id": "named"}, {"other": 1}, {"messages": [1]}])
    transcripts = [(transcript, list(transcript.entries)) for transcript in read(path)]
    assert [len(entries) for _, entries in transcripts] == [5, 2, 0]
    assert transcripts[1][0].id == "named"
    assert [(problem.line, problem.lost) for problem in transcripts[2][0].report.problems] == [(3, True), (4, True)]


def test_items_that_are_no_messages_are_reported_by_line(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[{"role": "user", "content": "a"},\n {"what": "?"},\n 17,\n{"role": "user", "content": "b"}]')
    transcript, entries = one(path)
    assert len(entries) == 2
    assert [(problem.line, problem.lost) for problem in transcript.report.problems] == [(2, True), (3, True)]


def test_a_key_that_comes_twice_in_a_list_or_beside_it_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('{"model":"a","messages":[\n{"role":"user","content":"a","content":"b"}],\n"model":"b"}')
    transcript, entries = one(path)
    assert [entry.message["content"] for entry in entries] == ["b"]
    assert transcript.metadata["imported"]["header"] == {"model": "b"}
    assert sorted((problem.line, problem.lost) for problem in transcript.report.problems) == [(2, True), (3, True)]


def test_a_list_that_is_cut_off_keeps_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT)[:-20])
    transcript, entries = one(path)
    assert [entry.message for entry in entries] == CHAT[:4]
    assert any("cut off" in problem.reason for problem in transcript.report.problems)


def test_ui_messages_keep_their_ids_and_repeated_ones_are_kept_beside(tmp_path: Path) -> None:
    path = tmp_path / "ui.json"
    message = {
        "id": "m1",
        "role": "user",
        "parts": [{"type": "text", "text": "hi"}],
        "createdAt": "2025-01-01T00:00:00Z",
    }
    path.write_text(json.dumps([message, {**message, "parts": []}, {**message, "id": ""}]))
    transcript, entries = one(path)
    assert (transcript.format, entries[0].id, entries[0].message) == ("ui", "m1", message)
    assert entries[0].created_at == dt.datetime(2025, 1, 1, tzinfo=UTC)
    for entry, old in zip(entries[1:], ["m1", ""], strict=True):
        assert entry.message["id"] == entry.id
        assert entry.message["importedId"] == old
    assert [problem.line for problem in transcript.report.problems] == [1]


def test_messages_that_say_the_same_on_one_line_are_placed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their made ids are the same but for a number, which is not looked for from the start each time."""
    tried: list[str] = []
    add = Index.add

    def counting(self: Index, key: str, parent: str | None, **place: Any) -> bool:
        tried.append(key)
        return add(self, key, parent, **place)

    monkeypatch.setattr(Index, "add", counting)
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "yes"}, {"role": "assistant", "content": "no"}] * 500))
    _, entries = one(path)
    ids = [entry.id for entry in entries]
    assert len(ids) == len(set(ids)) == 1000
    assert len(tried) <= 1002
    assert [entry.id for entry in one(path)[1]] == ids


def test_progress_reaches_its_total(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    one(jsonl(tmp_path, PI), progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    assert told == sorted(told)


def test_a_file_that_changes_between_the_passes_is_an_error(tmp_path: Path) -> None:
    path = jsonl(tmp_path, PI)
    [transcript] = read(path)
    path.write_text("x" * path.stat().st_size)
    with pytest.raises(UsageError, match="changed"):
        list(transcript.entries)


@pytest.mark.parametrize("name", ["pi-session-v1.jsonl", "claude-code-representative.jsonl", "claude-code-todos.jsonl"])
def test_a_real_transcript_comes_back_line_by_line(name: str) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip("the sample transcripts are not here")
    transcript, entries = one(path)
    header = transcript.metadata["imported"]["header"]
    found = ([header] if header else []) + [entry.message for entry in entries]
    assert found == [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert transcript.report.lost == 0


@pytest.mark.parametrize("name", ["openai-responses-items.json", "ui-messages.json"])
def test_a_real_list_comes_back_item_by_item(name: str) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip("the sample transcripts are not here")
    transcript, entries = one(path)
    assert [entry.message for entry in entries] == json.loads(path.read_text(encoding="utf-8"))
    assert transcript.report.count == 0


def test_a_real_chatgpt_export_comes_back_field_by_field() -> None:
    path = DATA / "chatgpt-conversations.json"
    if not path.exists():
        pytest.skip("the sample transcripts are not here")
    rebuilt: list[dict[str, Any]] = []
    for transcript in read(path):
        kept = transcript.metadata["imported"]
        nodes = {entry.id: entry.message for entry in transcript.entries} | kept.get("nodes", {})
        rebuilt.append({**kept["header"], "mapping": nodes})
        assert transcript.report.count == 0
    assert rebuilt == json.loads(path.read_text(encoding="utf-8"))
