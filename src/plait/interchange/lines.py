"""Reading a file of JSON lines record by record, whatever state it is in.

A line that was torn, glued to the next one, filled with NULs or is not text costs that line only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

import msgspec

from plait import jsontext
from plait.interchange.values import Report
from plait.logic.door import MAX_DEPTH
from plait.logic.shape import list_of
from plait.model import Json

MAX_LINE = 256 << 20
"""Lines of more bytes than this are not read but reported."""

_BLANK = b" \t\r\n\0"
_START = re.compile(r'\{\s*"')
_fast = msgspec.json.Decoder().decode
_MEND_UP_TO = 1 << 20
_MEND_TRIES = 1000
_MEND_OVER = 32
"""How often the places of a torn line may be gone over on the average: each `{"` in it may be where a record begins."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Record:
    """An object found on a line, and the bytes it was read from; `value` is `None` for damage."""

    line: int
    at: int
    raw: bytes
    value: Json | None

    @property
    def size(self) -> int:
        return len(self.raw)


def decode(raw: bytes) -> Json:
    """The object that `raw` says; `ValueError` with a reason if it is not one plait can keep."""
    try:
        value = _value(raw)
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 (byte {error.start + 1})") from None
    except RecursionError:
        raise ValueError("is nested too deep to be read") from None
    except ValueError as error:
        raise ValueError(f"is not JSON ({_short(error)})") from None
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _is_deep(value):
        raise ValueError(f"is nested more than {MAX_DEPTH} deep")
    return cast(Json, value)


def records(file: IO[bytes], report: Report, is_record: Callable[[Json], bool]) -> Iterator[Record]:
    """The records of `file` from where it stands; problems go to `report`.

    Damage is also yielded, without a value, so that what it says of its place can be guessed.
    `is_record` tells a whole record from a piece of one where two are glued together.
    """
    for number, at, raw in _lines(file, report):
        body = raw.strip(_BLANK)
        at += len(raw) - len(raw.lstrip(_BLANK))
        if not body:
            if b"\0" in raw:
                report.add(number, "holds only NUL bytes", raw, lost=True)
            continue
        try:
            record = Record(number, at, body, decode(body))
        except ValueError as error:
            cut = " and is cut off" if not raw.endswith(b"\n") else ""
            yield from _mended(Record(number, at, body, None), f"{error}{cut}", report, is_record)
            continue
        if raw.startswith(b"\0"):
            report.add(number, "has NUL bytes before it", raw)
        yield record
        del raw, body, record  # else a long line is held while the next is read


def _lines(file: IO[bytes], report: Report) -> Iterator[tuple[int, int, bytes]]:
    """Line numbers, offsets and lines; lines over `MAX_LINE` are reported and left out."""
    at, number = file.tell(), 0
    while raw := file.readline(MAX_LINE + 1):
        number += 1
        start, at = at, at + len(raw)
        if len(raw) > MAX_LINE and not raw.endswith(b"\n"):
            at += _skip_line(file)
            report.add(number, f"is longer than {MAX_LINE >> 20} MiB", raw[:200], lost=True)
            continue
        if start == 0 and raw.startswith(_BOM):
            start, raw = len(_BOM), raw[len(_BOM) :]
        yield number, start, raw


def _skip_line(file: IO[bytes]) -> int:
    skipped = 0
    while piece := file.readline(1 << 20):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _mended(damage: Record, reason: str, report: Report, is_record: Callable[[Json], bool]) -> Iterator[Record]:
    """What can be saved of a damaged line: whole records glued to others or to the rest of a torn one."""
    found = list(_glued(damage, is_record))
    at, gaps = damage.at, list[Record]()
    for record in found:
        gaps.append(_gap(damage, at, record.at))
        at = record.at + record.size
    gaps.append(_gap(damage, at, damage.at + damage.size))
    lost = [gap for gap in gaps if gap.raw.strip(_BLANK)]
    if not lost:
        report.add(damage.line, f"holds {len(found)} records in one line", damage.raw)
    for gap in lost:
        report.add(
            damage.line, f"is torn; the record after it was kept ({reason})" if found else reason, gap.raw, lost=True
        )
    yield from sorted([*found, *lost], key=lambda record: record.at)


def _gap(damage: Record, start: int, end: int) -> Record:
    return Record(damage.line, start, damage.raw[start - damage.at : end - damage.at], None)


def _glued(damage: Record, is_record: Callable[[Json], bool]) -> Iterator[Record]:
    if damage.size > _MEND_UP_TO:
        return
    # Latin-1 keeps one character per byte, so that places in it are offsets.
    text, at = damage.raw.decode("latin-1"), 0
    decoder = json.JSONDecoder(parse_constant=_refuse)
    room = _MEND_OVER * len(text)
    for _ in range(_MEND_TRIES):
        found = _START.search(text, at)
        if found is None or room < 0:
            return
        start = found.start()
        at = start + 1
        try:
            end = decoder.raw_decode(text, start)[1]
            room -= end - start
            raw = damage.raw[start:end]
            value = decode(raw)
        except (ValueError, RecursionError) as error:
            room -= getattr(error, "pos", len(text)) - start  # how far it was read
            continue
        if is_record(value):
            yield Record(damage.line, damage.at + start, raw, value)
            at = end


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _value(raw: bytes) -> Any:
    """The value of `raw`, which must be UTF-8; what the fast decoder refuses is looked at closely."""
    try:
        return _fast(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = jsontext.decode(raw.decode("utf-8"))
    if _is_endless(value):
        raise ValueError("a number in it is too large")
    return value


def _is_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [item for box in level for item in _items(box) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _is_endless(value: Any) -> bool:
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return True
        stack.extend(_items(item))
    return False


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast(Json, value).values())
    return list_of(value)


def _short(error: Exception) -> str:
    return str(error).split("\n")[0][:100]
