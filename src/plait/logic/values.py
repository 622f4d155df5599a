"""What a named value of a session may be, and how its text is written into a column and read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from plait import jsontext
from plait.errors import UsageError
from plait.logic.ids import MAX_ID_BYTES, check_id, check_text
from plait.model import Json

MAX_SCALAR: Final = "\U0010ffff"
MAX_KEY_CHARACTERS: Final = MAX_ID_BYTES
_ODD: Final = re.compile("[\x00\ud800-\udfff]")
"""What not every database keeps in a text: NUL, and halves of surrogate pairs."""


class NewValue(Struct, frozen=True):
    """A value that passed the door: its text as a column can hold it, and what goes with it.

    `body` is `None` for a deletion. `bytes` is the UTF-8 size of the content, three for a half of a
    surrogate pair. `about` is the JSON text of description and metadata.
    """

    label: str
    key: str
    content: str | None
    body: str | None
    escaped: bool
    about: str
    bytes: int
    tokens: int

    @property
    def description(self) -> str | None:
        found: str | None = jsontext.decode(self.about).get("description")
        return found

    @property
    def metadata(self) -> Json:
        found: Json = jsontext.decode(self.about).get("metadata", {})
        return found


def prepare(
    label: str,
    key: str,
    content: str | None,
    description: str | None,
    metadata: Mapping[str, Any] | None,
    tokens: int,
) -> NewValue:
    """A value as it is stored, or `UsageError` if one of its fields cannot be kept exactly."""
    check_label(label)
    check_key(key)
    _check_count(tokens, f"tokens of {label!r}")
    about = _about(label, description, metadata or {})
    if content is None:  # what is said of a deletion is kept with it
        return NewValue(label, key, None, None, False, about, 0, 0)
    _check_string(content, f"the content of {label!r}")
    body, escaped = packed(content)
    return NewValue(label, key, content, body, escaped, about, size_of(content), tokens)


def size_of(text: str) -> int:
    """The UTF-8 size of a text, three for a half of a surrogate pair."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def check_operation(value: object) -> None:
    """Raise `UsageError` unless `value` can be the id of an operation."""
    check_text(value, "operation")


def check_label(value: object) -> str:
    """`value` as the label of values: an id, as those of messages."""
    return check_id(value, "label")


def check_key(value: object) -> str:
    """`value` as the key of one value among those of a label: an id, or `""` where there is only one."""
    return "" if value == "" else check_id(value, "key")


def _about(label: str, description: str | None, metadata: Mapping[str, Any]) -> str:
    about: Json = {}
    if description is not None:
        _check_string(description, f"the description of {label!r}")
        about["description"] = description
    try:
        if metadata:
            about["metadata"] = dict(metadata)
        text = jsontext.encode(about)
        if jsontext.decode(text) == about:
            return text
        why = "it reads back as something else"
    except (TypeError, ValueError, RecursionError) as error:
        why = str(error)
    raise UsageError(
        f"description and metadata of {label!r} must be what JSON can say (a string, and an object with string "
        f"keys and finite numbers): {why}"
    )


def _check_string(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a string, not {type(value).__name__}")


def _check_count(value: object, what: str) -> None:
    if not isinstance(value, int) or value < 0:
        raise UsageError(f"{what} must be a whole number from 0 on, not {value!r}")


def packed(text: str) -> tuple[str, bool]:
    """`text` as every database keeps it, and whether it had to be escaped for that."""
    if not _ODD.search(text):
        return text, False
    return text.encode("unicode_escape").decode("ascii"), True


def joined(pieces: Iterable[str | bytes], *, damaged: str = "strict") -> str:
    """The text of a body's pieces; `ValueError` for one that is no UTF-8, unless what is damaged is replaced."""
    return "".join([piece.decode("utf-8", damaged) if isinstance(piece, bytes) else piece for piece in pieces])


def unpacked(body: str, escaped: bool) -> str:
    """The text that was packed; `ValueError` if an escaped one was damaged."""
    return body.encode("ascii").decode("unicode_escape") if escaped else body


def unpacked_in_part(body: str) -> str:
    """What can be read of an escaped text that was damaged; the rest is replaced."""
    return body.encode("ascii", "replace").decode("unicode_escape", "replace")


def after_prefix(prefix: str) -> str | None:
    """The first text after all those that begin with `prefix`, in the order of code points; `None`: there is none."""
    stem = prefix.rstrip(MAX_SCALAR)
    if not stem:
        return None
    code = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)
