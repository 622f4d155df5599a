from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from plait.errors import UsageError
from plait.interchange import detect, read

PI_HEADER = {"type": "session", "id": "x", "timestamp": "2025-01-01T00:00:00Z"}
CLAUDE_LINE = {"type": "user", "uuid": "u", "parentUuid": None, "message": {"role": "user", "content": "x"}}
UI = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "x"}]}
CHAT = {"role": "user", "content": "x"}
ITEM = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
CASES = [
    (b'{"plait":1,"type":"session","id":"s"}\n', "plait"),
    (json.dumps(PI_HEADER).encode(), "pi"),
    (json.dumps({**PI_HEADER, "type": "message", "message": {}}).encode(), "pi"),
    (b'{"type":"summary","summary":"s","leafUuid":"l"}\n', "claude-code"),
    (b'{"type":"file-history-snapshot","messageId":"m"}\n' + json.dumps(CLAUDE_LINE).encode(), "claude-code"),
    (b"broken {\n" + json.dumps(CLAUDE_LINE).encode(), "claude-code"),
    (json.dumps([{"mapping": {}}]).encode(), "chatgpt"),
    (json.dumps([{"title": "x", "mapping": {"a": {"text": "y" * (2 << 20)}}}], indent=1).encode(), "chatgpt"),
    (json.dumps({"mapping": {}}, indent=1).encode(), "chatgpt"),
    (json.dumps([UI]).encode(), "ui"),
    (b"\xef\xbb\xbf\n " + json.dumps([UI], indent=2).encode(), "ui"),
    (json.dumps(UI).encode() + b"\n" + json.dumps(UI).encode(), "ui"),
    (json.dumps({"id": "c", "messages": [UI]}).encode(), "ui"),
    (json.dumps([CHAT]).encode(), "openai"),
    (json.dumps([ITEM]).encode(), "openai"),
    (json.dumps(CHAT).encode() + b"\n", "openai"),
    (json.dumps({"model": "m", "messages": [CHAT]}, indent=2).encode(), "openai"),
    (json.dumps({"messages": [{"role": "user", "content": "y" * (2 << 20)}]}).encode(), "openai"),
    (json.dumps({"input": [ITEM]}).encode(), "openai"),
]


@pytest.mark.parametrize(("content", "name"), CASES)
def test_a_file_is_known_by_its_content(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / "no-extension"
    path.write_bytes(content)
    assert detect(path) == name


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b" \n\0\0", "empty"),
        (b"\x89PNG\r\n\x1a\n\0\0", "not a transcript"),
        (b"Dear diary,\n", "not a transcript"),
        (b"[1, 2, 3]", "not a transcript"),
        (b'{"some": "thing"}', "not a transcript"),
        (b"[" * 5000, "not a transcript"),
        ("hello".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_known(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=word) as caught:
        detect(path)
    assert word == "UTF-16" or "claude-code" in str(caught.value)


def test_a_database_without_sessions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t (a)")
    db.close()
    with pytest.raises(UsageError, match="without Cloudflare sessions"):
        detect(path)


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 3000)
    with pytest.raises(UsageError):
        detect(path)


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        list(read(path, **options))
    return str(caught.value)


def test_what_cannot_be_opened_is_a_usage_error(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "gone")
    assert str(tmp_path) in refused(tmp_path)


def test_an_unknown_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("{}")
    assert "chatgpt" in refused(path, format="msn-messenger")
