"""plait under Google's Agent Development Kit: its session, memory and artifact services, tools, prompt, compaction.

    async with plait.open_async("agents.db") as sessions:
        runner = Runner(
            app_name="shop",
            agent=agent,
            session_service=PlaitSessionService(sessions),
            memory_service=PlaitMemoryService(sessions),
            artifact_service=PlaitArtifactService(sessions),
        )

An app's user is a scope of plait's, and a session of theirs the session of that name in it. See docs/howto/google-adk.md.
"""

from __future__ import annotations

from plait.adapters.extras import missing

try:
    from google.adk import version as _version  # pyright: ignore[reportUnusedImport] # noqa: F401 - to see that it is there
except ImportError as error:
    raise missing("adk", error) from None

from plait.adapters.adk.artifacts import PlaitArtifactService
from plait.adapters.adk.compaction import Compaction, CompactionPlugin
from plait.adapters.adk.context import ContextToolset, PlaitTool, instruction
from plait.adapters.adk.events import events_of, packed
from plait.adapters.adk.memory import PlaitMemoryService
from plait.adapters.adk.sessions import PlaitSessionService
from plait.adapters.adk.uris import ArtifactServiceByUri, MemoryServiceByUri, SessionServiceByUri, register

__all__ = [
    "ArtifactServiceByUri",
    "Compaction",
    "CompactionPlugin",
    "ContextToolset",
    "MemoryServiceByUri",
    "PlaitArtifactService",
    "PlaitMemoryService",
    "PlaitSessionService",
    "PlaitTool",
    "SessionServiceByUri",
    "events_of",
    "instruction",
    "packed",
    "register",
]
