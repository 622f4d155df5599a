"""What a tool gave back as content: blocks of words and media that share one budget, whatever API's they are.

A block stays what its API takes: words are cut, a file is there whole or words stand for it, and what is left
out is said in words of the same kind. Half a file is none: its bytes are never cut.
"""

from __future__ import annotations

import binascii
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

from plait import jsontext
from plait.logic import markers
from plait.logic.shape import is_list, is_object
from plait.model import Attachment, Json

MAX_DEPTH: Final = 8
"""How deep files are looked for; what is nested deeper is shown whole or not at all."""

_WORDS: Final = {
    **dict.fromkeys(("text", "input_text", "output_text", "text-plain", "summary_text"), "text"),
    **dict.fromkeys(("text-content", "structured-content"), "content"),
}
"""The kinds of block that are words, and where they have them."""

_RESPONSES: Final = frozenset({"input_image", "input_file"})
_URLS: Final = ("image_url", "image-url", "audio-url", "video-url", "document-url", "file-url", "resource_link")
_OTHERS: Final = ("resource", "search_result", "tool_reference", "uploaded-file", "file-id", "image-file-id")
_KINDS: Final = frozenset((*_WORDS, *markers.KINDS, "file", "binary", *_URLS, *_OTHERS))
_HOLDERS: Final = ("source", "image_url", "input_audio", "file", "resource", "image", "audio", "video", "inlineData")
"""Where APIs put the file of a block one level down."""

_GENAI: Final = ("inlineData", "inline_data", "fileData", "file_data")
_REFERENCES: Final = ("url", "uri", "fileUri", "file_uri", "file_url", "image_url", "file_id", "fileId")
_FIELDS: Final = (*markers.DATA_KEYS, *markers.NAMED_KEYS)
_CHARS: Final = 256


def is_content(value: object) -> bool:
    """Whether a value is a list of content blocks: each a text or of a kind, some of a kind that APIs know."""
    if not is_list(value):
        return False
    kinds = [kind_of(item) if is_object(item) else None for item in value]
    alone = all(isinstance(item, str) or kind for item, kind in zip(value, kinds, strict=True))
    return alone and any(kind in _KINDS for kind in kinds)


def kind_of(block: Mapping[str, Any]) -> str:
    """A block's `type` (Pydantic AI's: `kind`), nothing if it has none."""
    return next((kind for key in ("type", "kind") if isinstance(kind := block.get(key), str)), "")


def suffix(words: str) -> str:
    """What stands at the end of a text that was cut."""
    return f"... [truncated {len(words)} chars]"


def spared(value: Any, depth: int = 0) -> Any:
    """`value` with words in the place of each file in it, of its kind where it is a block; itself if there is none."""
    if isinstance(value, str):
        return markers.marked_text(value, over=0)
    if is_list(value):
        if depth > MAX_DEPTH:
            return value
        say = _speaker(value)
        changed: list[Any] = [_spared(item, depth + 1, say) for item in value]
        return changed if any(new is not old for new, old in zip(changed, value, strict=True)) else value
    return _spared(value, depth, _speaker([value])) if is_object(value) and depth <= MAX_DEPTH else value


def _spared(value: Any, depth: int, say: Json | str) -> Any:
    if not is_object(value):
        return spared(value, depth)
    if depth > MAX_DEPTH:
        return value
    found = _file(value)
    if found is not None:
        words, left = found
        return said(words, say) if kind_of(value) in _KINDS else {**left, "text": words}
    changed = {key: spared(item, depth + 1) for key, item in value.items()}
    return changed if any(changed[key] is not value[key] for key in value) else value


def _speaker(blocks: list[Any]) -> Json | str:
    """The block of words, without them, that stands for something in a list: `""` where a text alone does."""
    kinds = [kind_of(block) for block in blocks if is_object(block)]
    if any("type" not in block and "kind" in block for block in blocks if is_object(block)):
        return ""
    words = next((kind for kind in kinds if _WORDS.get(kind) == "text"), None)
    return {"type": words or ("text" if _RESPONSES.isdisjoint(kinds) else "input_text")}


def said(words: str, say: Json | str) -> Json | str:
    """A block of words."""
    return words if isinstance(say, str) else {**say, "text": words}


def _file(block: Json) -> tuple[str, Json] | None:
    """The words for the file that an object is, and what else is in it; `None` if it is none."""
    found = _payload(block, kind_of(block))
    if found is not None:
        key, words = found
        return words, {name: item for name, item in block.items() if name not in (key, *markers.TYPE_KEYS)}
    for holder in _HOLDERS if kind_of(block) in _KINDS else _GENAI:
        if is_object(inner := block.get(holder)) and (found := _payload(inner, kind_of(block))) is not None:
            return found[1], {name: item for name, item in block.items() if name != holder}
    return None


def referred(value: Json) -> Json | str | None:
    """What stands for an object that says where a file is, if it does: half of an address leads nowhere."""
    kind = kind_of(value)
    holders = [value, *map(value.get, _HOLDERS)] if kind in _KINDS and kind not in _WORDS else map(value.get, _GENAI)
    if not any(isinstance(holder.get(key), str) for holder in holders if is_object(holder) for key in _REFERENCES):
        return None
    words = _omitted(value)
    return said(words, _speaker([value])) if kind in _KINDS else {"text": words}


def _omitted(value: Any) -> str:
    kind = kind_of(value) if is_object(value) else ""
    return f"[{kind[:40] or 'item'} of {_size(value)} chars omitted]"


def _payload(holder: Json, kind: str) -> tuple[str, str] | None:
    """Where in an object a file's bytes (or text) are, and the words for them."""
    declared = next((item for key in markers.TYPE_KEYS if isinstance(item := holder.get(key), str)), None)
    media = declared is not None or kind in markers.KINDS or kind in _URLS or kind == "binary"
    for key, item in holder.items():
        if isinstance(item, Attachment):
            return key, f"[{item.media_type}, {item.size} bytes]"
        if not isinstance(item, str) or not media:
            continue
        if item[:5].lower() == "data:" and "," in item[:4096]:
            return key, _words_of_url(item, declared)
        if key in _FIELDS and (declared is not None or (len(item) > _CHARS and markers.BASE64.fullmatch(item))):
            return key, _words(item, declared, kind_of(holder) == "text")
    return None


def _words_of_url(url: str, declared: str | None) -> str:
    head, _, payload = url[5:].partition(",")
    return _words(payload, declared or head.partition(";")[0] or "text/plain", not head.endswith(";base64"))


def _words(payload: str, declared: str | None, plain: bool) -> str:
    """A text file's text; of any other what it was and how large."""
    if declared is None or not declared.lower().startswith("text/"):
        return markers.of(declared, payload)
    if plain:
        return payload
    try:
        return binascii.a2b_base64(payload.translate(markers.STANDARD), strict_mode=True).decode()
    except ValueError:  # it is spelled out
        return payload


def fitted(blocks: list[Any], limit: int) -> list[Any]:
    """Content blocks in `limit` characters of JSON: whole from the first on, the one on the border cut, then a note.

    At least the note is there, also where the limit has no room for it.
    """
    say = _speaker(blocks)
    kept: list[Any] = []
    left = limit - len("[]") + 1
    for n, block in enumerate(blocks):
        more = len(blocks) - n - 1
        room = left - 1 - (_size(_note(more, say)) + 1 if more else 0)
        short = _short(block, room, say)
        if short is None:
            return [*kept, _note(len(blocks) - n, say)]
        kept.append(short)
        left -= _size(short) + 1
    return kept


def _note(more: int, say: Json | str) -> Json | str:
    return said(f"... [{more} more items truncated]", say)


def _size(value: Any) -> int:
    return len(jsontext.encode(value))


def _short(block: Any, room: int, say: Json | str) -> Any:
    """A block that takes at most so much; `None` if it cannot be that short."""
    if _size(block) <= room:
        return block
    key = _WORDS.get(kind_of(block)) if is_object(block) else None
    words = block if isinstance(block, str) else block.get(key) if key else None
    if not isinstance(words, str):
        marker = said(_omitted(block), say)
        return marker if _size(marker) <= room else None
    around = 0 if isinstance(block, str) else _size({**block, key or "": ""}) - len('""')
    cut = _cut(words, room - around)
    return None if cut is None else cut if isinstance(block, str) else {**block, key or "": cut}


def _cut(words: str, room: int) -> str | None:
    """The beginning of a text that with its suffix takes `room` characters of JSON."""
    end = suffix(words)
    room -= len(end) + len('""')
    if room <= 0:
        return None
    keep = bisect_right(range(min(len(words), room)), room, key=lambda n: _size(words[: n + 1]) - len('""'))
    return words[:keep] + end
