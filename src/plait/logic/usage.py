"""What was used: read as any provider spells it, and added up in the text of a session's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


_READ: Final = ("input_tokens", "inputTokens", "prompt_tokens", "promptTokens", "promptTokenCount")
_WRITTEN: Final = ("output_tokens", "outputTokens", "completion_tokens", "completionTokens", "candidatesTokenCount")
_APART: Final = {
    "input_tokens": ("cache_read_input_tokens", "cache_creation_input_tokens"),
    "inputTokens": ("cacheReadInputTokens", "cacheWriteInputTokens"),
    "input": ("cacheRead", "cacheWrite"),
    "promptTokenCount": ("toolUsePromptTokenCount",),
    "prompt_token_count": ("tool_use_prompt_token_count",),
    "candidatesTokenCount": ("thoughtsTokenCount",),
    "candidates_token_count": ("thoughts_token_count",),
}
"""What is counted beside a count and not in it: by Anthropic, Bedrock and Pi what was cached, by Google thoughts.

Others name some of these too, but have them in a count of another name (`prompt_tokens`).
"""


def tokens_used(usage: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """Tokens in, with those from a cache, and out, of a usage as any provider spells it; `None` if it says neither."""
    if usage is None:
        return None
    read = _counted(usage, (*_READ, "prompt_token_count", "input"))
    written = _counted(usage, (*_WRITTEN, "candidates_token_count", "output"))
    return None if read is None and written is None else (read or 0, written or 0)


def usage_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """How many tokens a conversation had up to a message, as the model reported it; `None` if it does not say."""
    if usage is None:
        return None
    found = (usage.get(key) for key in ("totalTokens", "total_tokens", "totalTokenCount", "total_token_count"))
    total = next((value for value in found if type(value) is int), 0)
    return total or sum(tokens_used(usage) or ()) or None


def _counted(usage: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    """The first of these counts that is there, with what is counted beside it."""
    for key in keys:
        if type(count := usage.get(key)) is int:
            beside = (usage.get(more) for more in _APART.get(key, ()))
            return count + sum(more for more in beside if type(more) is int)
    return None
