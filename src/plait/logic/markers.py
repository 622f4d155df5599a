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

_TYPE_KEYS: Final = ("mediaType", "media_type", "mimeType", "mime_type")
_DATA_KEYS: Final = ("data", "bytes", "image", "audio", "file")
_NAMED_KEYS: Final = ("b64_json", "file_data", "fileData", "image_base64", "base64")
_KINDS: Final = (
    *("audio", "base64", "document", "file", "file-data", "image", "image-data", "input_audio", "input_file"),
    *("input_image", "media", "video"),
)
_CHARS: Final = 256  # a shorter value, or one within a text, is not worth a marker
_NAME: Final = r"[\w.+-]{1,127}"
_TYPE: Final = re.compile(r"[\w.+/;= -]{1,127}", re.ASCII)
"""What can be shown as a media type; whatever else is declared stands beside the marker as it is."""

_HEADER: Final = rf"data:({_NAME}/{_NAME})(?:;{_NAME}=[^;,\s]{{0,256}}){{0,4}};base64,"  # bounded, so that it is linear
_URL: Final = re.compile(rf"{_HEADER}([a-z0-9+/_-]*={{0,2}})", re.IGNORECASE | re.ASCII)
_WHOLE_URL: Final = re.compile(rf"{_HEADER}([a-z0-9+/_\r\n-]*={{0,2}}\s*)", re.IGNORECASE | re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\r\n-]+={0,2}\s*", re.ASCII)


def marked(value: Any) -> Any:
    """`value`, with a marker in the place of each payload; the same strings where there is none."""
    if isinstance(value, str):
        return marked_text(value)
    if is_list(value):
        return [marked(item) for item in value]
    if not is_object(value):
        return value
    declared = next((item for key in _TYPE_KEYS if isinstance(item := value.get(key), str)), None)
    return {key: _marker(value, key, item, declared) or marked(item) for key, item in value.items()}


def marked_text(text: str) -> str:
    """`text`, with a marker in the place of each data URL of some length, or of the one that it is."""
    whole = _WHOLE_URL.fullmatch(text)
    if whole is not None:
        return _shown(whole)
    return _URL.sub(lambda found: _shown(found) if len(found[2]) > _CHARS else found[0], text)


def _shown(url: re.Match[str]) -> str:
    media_type, payload = url[1], url[2]
    if media_type.lower().startswith("text/"):
        try:
            return binascii.a2b_base64(payload.replace("-", "+").replace("_", "/")).decode("utf-8")
        except ValueError:  # what it is spelled as is no text
            pass
    return _of(media_type, payload)


def _marker(holder: Json, key: str, value: Any, declared: str | None) -> str | None:
    """The marker of a payload without a header, `None` if the value is none."""
    if not isinstance(value, str) or len(value) <= _CHARS:
        return None
    if declared is not None and declared.lower().startswith("text/"):
        return None
    said = declared is not None or holder.get("type") in _KINDS or "format" in holder
    if not (key in _NAMED_KEYS or (key in _DATA_KEYS and said)) or not _BASE64.fullmatch(value):
        return None
    return _of(declared if declared is not None and _TYPE.fullmatch(declared) else "media", value)


def _of(media_type: str, payload: str) -> str:
    spelled = len(payload) - payload.count("\n") - payload.count("\r") - payload.count("=")
    return f"[{media_type}, {spelled * 3 // 4} bytes]"
