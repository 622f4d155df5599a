from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.interchange import lines
from plait.interchange.values import Report
from tests.dose import dose


def scan(data: bytes) -> tuple[list[Any], Report]:
    report = Report()
    found = lines.records(io.BytesIO(data), report, lambda value: "id" in value)
    return [(record.line, record.value) for record in found if record.value is not None], report


def test_each_line_is_a_record_with_its_number_and_place() -> None:
    data = b'{"id":1}\n\n  {"id":2}  \r\n{"id":3}'
    report = Report()
    found = list(lines.records(io.BytesIO(data), report, lambda _: True))
    assert [(record.line, record.value) for record in found] == [(1, {"id": 1}), (3, {"id": 2}), (4, {"id": 3})]
    assert [data[record.at : record.at + record.size] for record in found] == [b'{"id":1}', b'{"id":2}', b'{"id":3}']
    assert report.count == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"id":NaN}', "not JSON"),
        (b'{"id":1e999}', "too large"),
        (b'{"id":"\xff"}', "not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b'{"id":', "not JSON"),
        (b"\0\0\0\0", "NUL"),
        (b'{"id":' + b"[" * 250 + b"]" * 250 + b"}", "deep"),
        (b'{"id":' + b"[" * 100_000, ""),
    ],
)
def test_a_damaged_line_is_reported_and_the_others_are_kept(bad: bytes, reason: str) -> None:
    found, report = scan(b'{"id":"a"}\n' + bad + b'\n{"id":"b"}\n')
    assert found == [(1, {"id": "a"}), (3, {"id": "b"})]
    assert [(problem.line, problem.lost) for problem in report.problems] == [(2, True)]
    assert reason in report.problems[0].reason


def test_a_line_that_was_cut_off_says_so() -> None:
    _, report = scan(b'{"id":"a"}\n{"id":"b","te')
    assert report.problems[0].line == 2
    assert report.problems[0].reason.endswith("cut off")


def test_a_last_line_without_a_newline_is_whole() -> None:
    found, report = scan(b'{"id":"a"}')
    assert found == [(1, {"id": "a"})]
    assert report.count == 0


def test_two_records_glued_on_a_line_are_both_kept() -> None:
    found, report = scan('{"id":"ä"}{"id":"b"}\n'.encode())
    assert found == [(1, {"id": "ä"}), (1, {"id": "b"})]
    assert report.lost == 0
    assert "2 records" in report.problems[0].reason


def test_a_record_after_a_torn_one_is_kept() -> None:
    found, report = scan(b'{"id":"a","text":"bro{"id":"b"}\n{"id":"c"}\n')
    assert found == [(1, {"id": "b"}), (2, {"id": "c"})]
    assert report.lost == 1
    assert report.problems[0].snippet == '{"id":"a","text":"bro'


def test_a_piece_of_a_torn_record_is_not_taken_for_a_record() -> None:
    found, report = scan(b'{"id":"a","inner":{"type":"text","text":"x"}\n')
    assert found == []
    assert report.lost == 1


def test_nul_bytes_before_a_record_cost_nothing_but_a_word() -> None:
    found, report = scan(b'{"id":"a"}\n\0\0\0\0{"id":"b"}\n')
    assert found == [(1, {"id": "a"}), (2, {"id": "b"})]
    assert (report.count, report.lost) == (1, 0)


def test_a_byte_order_mark_is_not_content() -> None:
    found, report = scan(b'\xef\xbb\xbf{"id":"a"}\n')
    assert found == [(1, {"id": "a"})]
    assert report.count == 0


def test_an_endless_line_is_skipped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 50)
    found, report = scan(b'{"id":"' + b"x" * 5000 + b'"}\n{"id":"b"}\n')
    assert found == [(2, {"id": "b"})]
    assert report.problems[0].line == 1


def test_odd_content_is_kept() -> None:
    found, report = scan(b'{"id":"a\\u0000\\ud83d","n":1180591620717411303424,"f":1.10}\n')
    assert found == [(1, {"id": "a\0\ud83d", "n": 1180591620717411303424, "f": 1.1})]
    assert report.count == 0


def test_a_report_keeps_the_first_problems_and_counts_all() -> None:
    report = Report()
    for n in range(1500):
        report.add(n, "odd", "\x1b[31m\ud83d" + "x" * 500, lost=n % 2 == 0)
    assert (len(report.problems), report.count, report.lost) == (1000, 1500, 750)
    assert report.problems[0].snippet.startswith("\\x1b[31m\\ud83d")
    assert len(report.problems[0].snippet) < 100


def test_a_torn_line_of_many_beginnings_is_given_up_in_time_for_its_length() -> None:
    """Each of its objects may be where a whole record begins, and each is read to the end of the line before that fails."""
    nested = b'{"a": ' * 900 + b"[" + b"0," * dose(short=100_000, soak=450_000)
    found, report = scan(b'{"id":"a"}\n' + (nested + b"\n") * 3 + b'{"id":"b"}\n')
    assert found == [(1, {"id": "a"}), (5, {"id": "b"})]
    assert report.lost == 3


def test_a_record_behind_a_long_torn_one_is_kept() -> None:
    torn = b'{"id":"torn","list":[' + b'{"x": 1},' * 900 + b'"bro'
    found, report = scan(torn + b'{"id":"b"}\n')
    assert found == [(1, {"id": "b"})]
    assert report.lost == 1


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"id":1,"id":2}', "id"),
        ('{"id":1,"content":[{"a":1,"b":2,"a":3}]}', "a"),
        ('{"id":1,"a" : 1,"a"  :2}', "a"),
        (r'{"id":1,"a":"\":","a":2}', "a"),
        (r'{"id":1,"\u0061":1,"a":2}', "a"),
        ('{"id":1,"a" :1,"a":2}', "a"),
        (r'{"id":1,"b\\":1,"a":1,"a":2}', "a"),
        ('{"id":1,"":1,"":1}', ""),
    ],
)
def test_a_key_that_comes_twice_is_reported_for_json_keeps_only_the_last(text: str, key: str) -> None:
    [(_, value)], report = scan(text.encode())
    assert value == json.loads(text)
    assert [(problem.line, problem.lost) for problem in report.problems] == [(1, True)]
    assert f"has the key {key!r} twice" in report.problems[0].reason


@settings(max_examples=dose(short=100, soak=3_000))
@given(
    st.recursive(
        st.none() | st.text('":\\a ') | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text('":\\ab'), x)
    ),
    st.sampled_from([None, 1]),
)
def test_no_key_of_what_was_written_whole_is_taken_for_a_second_one(value: Any, indent: int | None) -> None:
    raw = json.dumps({"id": 1, "value": value}, indent=indent).encode()
    report = Report()
    assert lines.checked(raw, 1, report) == {"id": 1, "value": value}
    assert report.count == 0
