"""Reading a file of JSON lines record by record, whatever state it is in.

A line that was torn, glued to the next one, filled with NULs or is not text costs that line only.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
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
"""Lines of more bytes than this are not read but reported: others' files do not say how much memory they take."""

_BLANK = b" \t\r\n\0"
_SPACED = re.compile(rb'"[ \t\r\n]+:')
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


def checked(raw: bytes, line: int, report: Report) -> Json:
    """What `decode` says; a key that one object has twice is reported, for only what it says last is kept."""
    value = decode(raw)
    key = _doubled(raw, value)
    if key is not None:
        report.add(line, f"has the key {key!r:.80} twice in one object; what it says last was kept", raw, lost=True)
    return value


def _doubled(raw: bytes, value: Json) -> str | None:
    """A key that an object has twice; looked for closely where the text may have more keys than its value."""
    is_plain = b'\\":' not in raw and _SPACED.search(raw) is None
    if is_plain and raw.count(b'":') == _keys(value):
        return None
    doubled: list[str] = []

    def count(pairs: list[tuple[str, Any]]) -> None:
        doubled.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)

    json.loads(raw, object_pairs_hook=count)
    return doubled[0] if doubled else None


def _keys(value: Any) -> int:
    """How many keys all objects in `value` have."""
    count, stack = 0, [value]
    while stack:
        item = stack.pop()
        count += len(cast(Json, item)) if isinstance(item, dict) else 0
        stack.extend(_items(item))
    return count


def records(
    file: IO[bytes], report: Report, is_record: Callable[[Json], bool], *, longest: int | None = None
) -> Iterator[Record]:
    """The records of `file` from where it stands; problems go to `report`, lines over `longest` (`MAX_LINE`) among them.

    Damage is also yielded, without a value, so that what it says of its place can be guessed.
    `is_record` tells a whole record from a piece of one where two are glued together.
    """
    for number, at, raw in _lines(file, report, longest or MAX_LINE):
        body = raw.strip(_BLANK)
        at += len(raw) - len(raw.lstrip(_BLANK))
        if not body:
            if b"\0" in raw:
                report.add(number, "holds only NUL bytes", raw, lost=True)
            continue
        try:
            record = Record(number, at, body, checked(body, number, report))
        except ValueError as error:
            cut = " and is cut off" if not raw.endswith(b"\n") else ""
            yield from _mended(Record(number, at, body, None), f"{error}{cut}", report, is_record)
            continue
        if raw.startswith(b"\0"):
            report.add(number, "has NUL bytes before it", raw)
        yield record
        del raw, body, record  # else a long line is held while the next is read


def _lines(file: IO[bytes], report: Report, longest: int) -> Iterator[tuple[int, int, bytes]]:
    """Line numbers, offsets and lines; lines over `longest` bytes are reported and left out."""
    at, number = file.tell(), 0
    while raw := file.readline(longest + 1):
        number += 1
        start, at = at, at + len(raw)
        if len(raw) > longest and not raw.endswith(b"\n"):
            at += _skip_line(file)
            report.add(number, f"is longer than {longest >> 20} MiB", raw[:200], lost=True)
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
