"""`plait mcp`: a server of MCP for a scope's memory and its sessions."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Final

import plait
from plait.cli import blocks, failure
from plait.cli.blocks import Declared
from plait.cli.failure import USAGE, Failure
from plait.cli.place import Place, find
from plait.logic import ids

_DEFAULT: Final = "memory=Facts worth knowing in later conversations"


@dataclass(frozen=True, slots=True)
class Serving:
    """How it is served: on a loopback port, or (`None`) stdio; whose blocks; whether anything may be written."""

    http_port: int | None = None
    session: str | None = None
    read_only: bool = False


def mcp(place: Place, declared: Declared, serving: Serving) -> int:
    """Serve until the client goes away (stdio) or until interrupted (HTTP)."""
    if find_spec("mcp") is None:
        raise Failure("a server of MCP needs the mcp package; install it with: pip install 'plait[mcp]'")
    if serving.session is not None and declared.shared:
        raise Failure("--shared and --session exclude each other", USAGE)
    declared.check()
    from plait import mcp as server  # an edge beside this one: only this command sees it

    with place.opened(write=not serving.read_only, create=not serving.read_only) as sessions:
        session = _session(sessions, place, declared, serving)
        memory = server.Memory(sessions, session, read_only=serving.read_only)
        made = server.make_server(memory, server.Library(sessions, memory))
        if serving.http_port is None:
            if sys.stdin.isatty():
                failure.note(
                    "an MCP client is to start this and speak to it here; --http PORT serves one (Ctrl-C ends it)"
                )
            asyncio.run(server.serve_stdio(made))
        else:
            asyncio.run(server.serve_http(made, port=serving.http_port, ready=_tell))
    return failure.OK


def _session(sessions: plait.Sessions, place: Place, declared: Declared, serving: Serving) -> plait.Session:
    """The handle with the blocks: those named, else those that are stored, and one to begin with."""
    shared = serving.session is None
    session = sessions.session(None if shared else find(sessions, place, serving.session).id)
    if declared.names_any:
        return replace(declared, shared=shared).onto(session)
    stored = blocks.texts_of(sessions, ids.SHARED_SESSION if shared else session.id)
    default = _DEFAULT.partition("=")[0]
    Declared(texts=[_DEFAULT, *(label for label in stored if label != default)], shared=shared).onto(session)
    return session


def _tell(port: int) -> None:
    failure.note(f"MCP at http://127.0.0.1:{port}/mcp (Ctrl-C ends it)")
