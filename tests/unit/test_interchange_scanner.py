from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.interchange import scanner
from plait.interchange.scanner import Scanner
from tests.dose import dose

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


def pieces(text: bytes) -> list[bytes]:
    return [text[child.at : child.at + child.size] for child in Scanner(io.BytesIO(text)).children()]


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 2]), st.integers(1, 9))
def test_elements_are_found_whatever_is_in_them_and_wherever_chunks_end(
    values: list[Any], indent: int | None, chunk: int
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "_CHUNK", chunk)
        assert [json.loads(piece) for piece in pieces(text)] == values


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5), st.integers(1, 9))
def test_members_of_an_object_come_with_their_keys(value: dict[str, Any], chunk: int) -> None:
    text = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "_CHUNK", max(chunk, 64))
        children = list(Scanner(io.BytesIO(text)).children())
    found = {json.loads(b'"' + child.key + b'"'): text[child.at : child.at + child.size] for child in children}
    assert {key: json.loads(raw) for key, raw in found.items()} == value


def test_elements_know_their_lines() -> None:
    text = b'[\n {"a": "x\\n"},\n\n  {"b":\n 2}\n, 3]'
    assert [child.line for child in Scanner(io.BytesIO(text)).children()] == [2, 4, 6]


def test_a_list_that_is_cut_off_gives_its_last_element_as_not_whole() -> None:
    scan = Scanner(io.BytesIO(b'[{"a": 1}, {"b": "half'))
    assert [child.whole for child in scan.children()] == [True, False]
    assert scan.end is None


def test_the_end_of_the_list_is_known() -> None:
    scan = Scanner(io.BytesIO(b"  [1, 2] rest"), 2)
    assert len(list(scan.children())) == 2
    assert scan.end == 8


def test_a_scanner_shares_its_file() -> None:
    file = io.BytesIO(b"[" + b",".join(b'{"n":%d}' % n for n in range(100)) + b"]")
    found: list[bytes] = []
    for child in Scanner(file).children():
        file.seek(child.at)
        found.append(file.read(child.size))
    assert found == [b'{"n":%d}' % n for n in range(100)]


def test_any_number_of_blanks_may_stand_between_elements() -> None:
    blanks = b" \n" * dose(short=1 << 20, soak=1 << 23)
    text = b"[" + blanks + b"1" + blanks + b"," + blanks + b'{"a": 2}' + blanks + b"]"
    children = list(Scanner(io.BytesIO(text)).children())
    assert [text[child.at : child.at + child.size] for child in children] == [b"1", b'{"a": 2}']
    assert [child.line for child in children] == [1 + len(blanks) // 2, 1 + 3 * len(blanks) // 2]
