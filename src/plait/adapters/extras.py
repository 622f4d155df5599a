"""Which extra brings the framework of each adapter, and what is said where it is not installed."""

from __future__ import annotations

from typing import Final

EXTRAS: Final = {
    "adk": ("google.adk", "adk"),
    "claude": ("claude_agent_sdk", "claude"),
    "langchain": ("langchain", "langgraph"),
    "langgraph": ("langgraph", "langgraph"),
    "openai_agents": ("agents", "openai"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "pydantic_ai_harness": ("pydantic_ai_harness", "pydantic-ai-harness"),
}
"""By the name of a module here: the framework's package as it is imported, and the extra that brings it."""


def missing(adapter: str, error: ImportError) -> ModuleNotFoundError:
    """What an adapter raises instead of `error`, which importing its framework raised."""
    package, extra = EXTRAS[adapter]
    return ModuleNotFoundError(
        f"plait.adapters.{adapter} needs {package}: pip install 'plait[{extra}]' ({error})", name=error.name
    )
