"""The services by a URI, for `services.yaml` and `services.py` of ADK's command line.

`plait:///agents.db` is a file beside where the command runs, `plait:////srv/agents.db` one by its whole path, and
`plait+postgresql://user@host/database` a database. Services of one URI share what it opens.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import plait
from plait import AsyncSessions, UsageError
from plait.adapters.adk.artifacts import PlaitArtifactService
from plait.adapters.adk.memory import PlaitMemoryService
from plait.adapters.adk.sessions import PlaitSessionService

SCHEMES: Final = ("plait", "plait+postgresql")
_OF_COMMAND: Final = ("agents_dir", "per_agent")
_opened: weakref.WeakValueDictionary[str, AsyncSessions] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def opened(uri: str) -> AsyncSessions:
    """The sessions at a URI: the same as long as somebody has them."""
    with _lock:
        found = _opened.get(uri)
        if found is None:
            found = _opened[uri] = plait.open_async(_place(uri))
        return found


def _place(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    if scheme == "plait" and "?" in rest:
        raise UsageError(
            f"a {scheme}:// URI takes no options, and {uri!r} has some: give them to the service where you make it, "
            "in a services.py, say"
        )
    if scheme == "plait" and rest.startswith("/") and rest != "/":
        return rest.removeprefix("/")
    if scheme == "plait+postgresql":
        return f"postgresql://{rest}"
    raise UsageError(
        f"{scheme}:// is no URI of a plait store here; use plait:///file.db or plait+postgresql://user@host/database"
    )


class SessionServiceByUri(PlaitSessionService):
    """A `PlaitSessionService` on what its URI names, with its options: `on_stale`, `compaction`, `agent`."""

    def __init__(self, uri: str, **kwargs: Any) -> None:
        super().__init__(opened(uri), **_own(kwargs, "on_stale", "compaction", "agent"))


class MemoryServiceByUri(PlaitMemoryService):
    """A `PlaitMemoryService` on what its URI names, with its option `max_results`."""

    def __init__(self, uri: str, **kwargs: Any) -> None:
        super().__init__(opened(uri), **_own(kwargs, "max_results"))


class ArtifactServiceByUri(PlaitArtifactService):
    """A `PlaitArtifactService` on what its URI names; it has no options."""

    def __init__(self, uri: str, **kwargs: Any) -> None:
        _own(kwargs)
        super().__init__(opened(uri))


def _own(given: dict[str, Any], *known: str) -> dict[str, Any]:
    """The options that are the service's, without what ADK's command line says of itself; others are refused."""
    unknown = sorted(given.keys() - {*known, *_OF_COMMAND})
    if unknown:
        has = f"has {', '.join(known)}" if known else "has none"
        raise UsageError(f"this service of plait knows no option {unknown[0]!r}; it {has}")
    return {key: value for key, value in given.items() if key in known}


def register() -> None:
    """Have ADK's command line know the schemes, from a `services.py` beside the agents."""
    from google.adk.cli.service_registry import get_service_registry  # the command line alone has it loaded

    registry = get_service_registry()
    for scheme in SCHEMES:
        registry.register_session_service(scheme, SessionServiceByUri)
        registry.register_memory_service(scheme, MemoryServiceByUri)
        registry.register_artifact_service(scheme, ArtifactServiceByUri)
