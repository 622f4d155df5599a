"""The command `plait mcp` and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from plait.cli.commands import mcp
from plait.cli.context_app import Collections, Documents, Function, Skills, Texts, declared_by
from plait.cli.options import Db, Owner, Tenant, end, place_of, text_of


def mcp_(
    ctx: typer.Context,
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="The database; else --db.")] = None,
    http: Annotated[
        int | None,
        typer.Option(
            "--http", metavar="PORT", min=0, max=65535, help="Serve HTTP on this port of 127.0.0.1, not stdio."
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer nothing that writes.")] = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="This session's blocks, not those that all share.")
    ] = None,
    block: Texts = None,
    collection: Collections = None,
    documents: Documents = None,
    skills: Skills = None,
    function: Function = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
) -> None:
    """Serve memory, search and sessions to any MCP client."""
    declared = declared_by(block, collection, documents, skills, function, False)
    place = place_of(ctx, file if file is not None else db, tenant, owner)
    end(mcp.mcp(place, declared, mcp.Serving(http, text_of(session), read_only)))
