"""Media as short markers, for whoever reads a message as text: only what is media, everything beside it stays.

What is media: a data URL in base64, alone or within a text, and base64 under a key for it in an object that
declares another media type than text or is a part of a known kind. Text that was spelled in base64 is shown as text.
"""

from __future__ import annotations

import binascii
import re
from typing import Any, Final

from plait.logic.shape import is_list, is_object
from plait.model import Json

TYPE_KEYS: Final = ("mediaType", "media_type", "mimeType", "mime_type")
DATA_KEYS: Final = ("data", "bytes", "blob", "image", "audio", "file")
NAMED_KEYS: Final = ("b64_json", "file_data", "fileData", "image_base64", "base64")
KINDS: Final = (
    *("audio", "base64", "document", "file", "file-data", "image", "image-data", "input_audio", "input_file"),
    *("input_image", "media", "video"),
)
STANDARD: Final = str.maketrans("-_", "+/")
_CHARS: Final = 256  # a shorter value, or one within a text, is not worth a marker
_NAME: Final = r"[\w.+-]{1,127}"
_TYPE: Final = re.compile(r"[\w.+/;= -]{1,127}", re.ASCII)
"""What can be shown as a media type; whatever else is declared stands beside the marker as it is."""

_HEADER: Final = rf"data:({_NAME}/{_NAME})(?:;{_NAME}=[^;,\s]{{0,256}}){{0,4}};base64,"  # bounded, so that it is linear
_URL: Final = re.compile(rf"{_HEADER}([a-z0-9+/_-]*={{0,2}})", re.IGNORECASE | re.ASCII)
_LINES: Final = r"[\r\n]*[A-Za-z0-9+/_-]+(?:[\r\n]+[A-Za-z0-9+/_-]+)*={0,2}\s*"
"""Base64, perhaps in lines; what is a line's end can be read in one way only, so that this is linear, too."""

_WHOLE_URL: Final = re.compile(rf"{_HEADER}((?:{_LINES})?)", re.IGNORECASE | re.ASCII)
BASE64: Final = re.compile(_LINES, re.ASCII)


def marked(value: Any) -> Any:
    """`value`, with a marker in the place of each payload; the same strings where there is none."""
    if isinstance(value, str):
        return marked_text(value)
    if is_list(value):
        return [marked(item) for item in value]
    if not is_object(value):
        return value
    declared = next((item for key in TYPE_KEYS if isinstance(item := value.get(key), str)), None)
    return {key: _marker(value, key, item, declared) or marked(item) for key, item in value.items()}


def marked_text(text: str, *, over: int = _CHARS) -> str:
    """`text`, with a marker in the place of each data URL over some length, or of the one that it is."""
    whole = _WHOLE_URL.fullmatch(text)
    if whole is not None:
        return _shown(whole)
    return _URL.sub(lambda found: _shown(found) if len(found[2]) > over else found[0], text)


def _shown(url: re.Match[str]) -> str:
    media_type, payload = url[1], url[2]
    if media_type.lower().startswith("text/"):
        try:
            return binascii.a2b_base64(payload.translate(STANDARD)).decode("utf-8")
        except ValueError:  # what it is spelled as is no text
            pass
    return of(media_type, payload)


def _marker(holder: Json, key: str, value: Any, declared: str | None) -> str | None:
    """The marker of a payload without a header, `None` if the value is none."""
    if not isinstance(value, str) or len(value) <= _CHARS:
        return None
    if declared is not None and declared.lower().startswith("text/"):
        return None
    said = declared is not None or holder.get("type") in KINDS or "format" in holder
    if not (key in NAMED_KEYS or (key in DATA_KEYS and said)) or not BASE64.fullmatch(value):
        return None
    return of(declared, value)


def of(media_type: str | None, payload: str) -> str:
    """The marker of a payload in base64: what it is declared to be, and how large it is."""
    shown = media_type if media_type is not None and _TYPE.fullmatch(media_type) else "media"
    spelled = len(payload) - payload.count("\n") - payload.count("\r") - payload.count("=")
    return f"[{shown}, {spelled * 3 // 4} bytes]"
