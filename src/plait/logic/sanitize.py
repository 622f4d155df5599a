"""What is taken off a message before it is stored: references that must not be replayed, reserved metadata."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any, Final

from plait.logic.shape import is_list, is_object
from plait.model import Json, Source

_CARRIERS: Final = ("providerMetadata", "callProviderMetadata")
_EPHEMERAL: Final = ("itemId", "reasoningEncryptedContent")
# What JavaScript's trim() takes away; str.strip() alone knows U+001C-U+001F and U+0085 but not U+FEFF.
_BLANK: Final = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def sanitize(
    message: Mapping[str, Any], *, source: Source, reserved_metadata_keys: Collection[str] = ()
) -> Mapping[str, Any]:
    """`message` as it may be stored: a native message without OpenAI's server-side references.

    `itemId` and `reasoningEncryptedContent` point at things OpenAI forgets; replayed later they make
    it refuse the request. A reasoning part left without words and without metadata goes as well. From
    a `client`, metadata keys that the application reserved for itself are dropped.

    The given message is never changed, and returned itself when there is nothing to take off.
    """
    parts = message.get("parts")
    kept = _clean_parts(parts) if is_list(parts) else parts
    reserved = source == "client" and bool(reserved_metadata_keys) and _holds(message, reserved_metadata_keys)
    if kept is parts and not reserved:
        return message
    cleaned = {**message, "parts": kept} if kept is not parts else dict(message)
    if reserved:
        _drop_reserved(cleaned, reserved_metadata_keys)
    return cleaned


def _clean_parts(parts: list[Any]) -> list[Any]:
    """The parts that stay, cleaned; `parts` itself if all stay as they are."""
    for part in parts:
        if is_object(part) and (
            part.get("type") == "reasoning" or "providerMetadata" in part or "callProviderMetadata" in part
        ):
            break
    else:  # by far the most messages
        return parts
    cleaned = [_clean_part(part) if is_object(part) else part for part in parts]
    kept = [part for part in cleaned if not (is_object(part) and _is_hollow(part))]
    if len(kept) == len(parts) and all(map(operator.is_, kept, parts)):
        return parts
    return kept


def _clean_part(part: Json) -> Json:
    for key in _CARRIERS:
        carrier = part.get(key)
        if is_object(carrier):
            cleaned = _clean_carrier(carrier)
            if cleaned is not carrier:
                part = _with(part, key, cleaned)
    return part


def _clean_carrier(carrier: Json) -> Json:
    openai = carrier.get("openai")
    if not is_object(openai) or (openai and not any(key in openai for key in _EPHEMERAL)):
        return carrier
    return _with(carrier, "openai", {key: value for key, value in openai.items() if key not in _EPHEMERAL})


def _with(mapping: Json, key: str, value: Json) -> Json:
    """A copy with `value` under `key`, in its place, or without `key` if `value` is empty."""
    if value:
        return {**mapping, key: value}
    return {name: kept for name, kept in mapping.items() if name != key}


def _is_hollow(part: Json) -> bool:
    """Whether this is reasoning without words or metadata (a signature alone is worth keeping)."""
    if part.get("type") != "reasoning" or part.get("providerMetadata"):
        return False
    return not (_has_words(part.get("text")) or _has_words(part.get("reasoning")))


def _has_words(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip(_BLANK))


def _holds(message: Mapping[str, Any], keys: Collection[str]) -> bool:
    metadata = message.get("metadata")
    return is_object(metadata) and any(key in metadata for key in keys)


def _drop_reserved(message: Json, keys: Collection[str]) -> None:
    left = {key: value for key, value in message["metadata"].items() if key not in keys}
    if left:
        message["metadata"] = left
    else:
        del message["metadata"]
