"""Adding up what a session used, in the text of its metadata."""

from __future__ import annotations

from msgspec.structs import asdict

from plait import jsontext
from plait.model import USAGE_KEY, Json, Usage, usage_of


def added(metadata: str, more: Usage) -> str:
    """The JSON text of a session's metadata with more usage added up in it."""
    if more == Usage():
        return metadata
    found: Json = jsontext.decode(metadata)
    old = usage_of(found)
    total = Usage(old.input_tokens + more.input_tokens, old.output_tokens + more.output_tokens, old.cost + more.cost)
    return jsontext.encode({**found, USAGE_KEY: asdict(total)})
