"""An MCP server of a scope's memory: its blocks and the search of its sessions as tools, its sessions as resources."""

from __future__ import annotations

from plait.mcp.library import Library
from plait.mcp.memory import Answer, Memory
from plait.mcp.server import http_app, make_server, serve_http, serve_stdio

__all__ = ["Answer", "Library", "Memory", "http_app", "make_server", "serve_http", "serve_stdio"]
