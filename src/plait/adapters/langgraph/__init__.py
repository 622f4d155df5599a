"""LangGraph on plait: a checkpointer and a store for long-term memory, both on sessions that you have opened."""

from __future__ import annotations

from plait.adapters import extras

try:
    from plait.adapters.langgraph.memory import PlaitStore
    from plait.adapters.langgraph.saver import PlaitSaver
except ImportError as error:
    raise extras.missing("langgraph", error) from error

__all__ = ["PlaitSaver", "PlaitStore"]
