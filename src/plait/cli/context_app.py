"""The commands of `plait context` and `plait prompt`, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from plait.cli.blocks import Declared
from plait.cli.commands import context, prompt
from plait.cli.commands.context import Target, Written
from plait.cli.options import Db, Id, Json, Named, Owner, Tenant, at_most, end, place_of, session_of, text_of
from plait.cli.place import given_text
from plait.logic.arguments import MOST

context_app = typer.Typer(help="Read and write what sessions remember, and what it was before.", no_args_is_help=True)
prompt_app = typer.Typer(help="Render, freeze, refresh and compare a session's system prompt.", no_args_is_help=True)

Session = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="Whose; reading, the latest session if left out.")
]
Shared = Annotated[bool, typer.Option("--shared", help="What all sessions of the scope share.")]
Label = Annotated[str, typer.Argument(metavar="LABEL", help="The block.")]
Key = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="The entry or document, in a block that holds several.")
]
Text = Annotated[str | None, typer.Argument(metavar="TEXT", help="The text; else --file.")]
File = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="Take the text from here; - is standard input.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", metavar="N", min=0, help="Refuse what would make it larger.")
]
Texts = Annotated[
    list[str] | None,
    typer.Option("--block", metavar="LABEL[=ABOUT]", help="A block of one text; may be repeated."),
]
Collections = Annotated[
    list[str] | None,
    typer.Option("--collection", metavar="LABEL[=ABOUT]", help="A block whose entries are searched; may be repeated."),
]
Documents = Annotated[
    list[str] | None,
    typer.Option("--documents", metavar="LABEL[=ABOUT]", help="A block of documents to load; may be repeated."),
]
Skills = Annotated[
    list[str] | None,
    typer.Option("--skills", metavar="WHERE", help="A folder or URL with Agent Skills; may be repeated."),
]
Function = Annotated[
    str | None,
    typer.Option(
        "--function", metavar="MODULE:NAME", help="A Python function that is given the session and declares blocks."
    ),
]
SharedBlocks = Annotated[bool, typer.Option("--shared", help="The named blocks are those that all sessions share.")]


@context_app.command("list")
def list_(
    ctx: typer.Context,
    session: Session = None,
    shared: Shared = False,
    deleted: Annotated[bool, typer.Option("--all", "-a", help="Those that were deleted, too.")] = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """List the blocks and entries that the store holds."""
    end(context.list_(place_of(ctx, db, tenant, owner), _target(session, shared, json), deleted=deleted))


@context_app.command()
def show(
    ctx: typer.Context,
    label: Label,
    session: Session = None,
    shared: Shared = False,
    key: Key = None,
    version: Annotated[int | None, typer.Option(metavar="N", min=1, help="As it was at this version.")] = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Print a block, exactly."""
    place, version = place_of(ctx, db, tenant, owner), at_most(version, MOST)
    end(context.show(place, _target(session, shared, json), given_text(label), key=text_of(key), version=version))


@context_app.command("set")
def set_(
    ctx: typer.Context,
    label: Label,
    text: Text = None,
    file: File = None,
    session: Session = None,
    shared: Shared = False,
    key: Key = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What a listing says of the entry under --key.")
    ] = None,
    max_tokens: MaxTokens = None,
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="VERSION", min=0, help="Only if nobody has written since.")
    ] = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Write a block, in the place of what it holds."""
    written = Written(
        text_of(text),
        text_of(file),
        text_of(key),
        text_of(description),
        at_most(max_tokens, MOST),
        at_most(expect, MOST),
    )
    end(context.set_(place_of(ctx, db, tenant, owner), _target(session, shared, json), given_text(label), written))


@context_app.command()
def append(
    ctx: typer.Context,
    label: Label,
    text: Text = None,
    file: File = None,
    session: Session = None,
    shared: Shared = False,
    max_tokens: MaxTokens = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Add to a block, on a line of its own; what others add meanwhile stays."""
    written = Written(text_of(text), text_of(file), max_tokens=at_most(max_tokens, MOST))
    end(context.append(place_of(ctx, db, tenant, owner), _target(session, shared, json), given_text(label), written))


@context_app.command()
def history(
    ctx: typer.Context,
    label: Label,
    session: Session = None,
    shared: Shared = False,
    key: Key = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 20,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """List what a block said before, the newest version first."""
    place, most = place_of(ctx, db, tenant, owner), min(limit, MOST)
    end(context.history(place, _target(session, shared, json), given_text(label), key=text_of(key), limit=most))


@context_app.command()
def restore(
    ctx: typer.Context,
    label: Label,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="What it said at this version.")],
    session: Session = None,
    shared: Shared = False,
    key: Key = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Write what an earlier version said once more, as a new version."""
    place, version = place_of(ctx, db, tenant, owner), min(version, MOST)
    end(context.restore(place, _target(session, shared, json), given_text(label), version, key=text_of(key)))


@prompt_app.command()
def render(
    ctx: typer.Context,
    session: Named = None,
    id: Id = None,
    block: Texts = None,
    collection: Collections = None,
    documents: Documents = None,
    skills: Skills = None,
    function: Function = None,
    shared: SharedBlocks = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Print the prompt that the blocks make now; nothing is kept."""
    declared = declared_by(block, collection, documents, skills, function, shared)
    end(prompt.render(place_of(ctx, db, tenant, owner), session_of(session, id), declared, json=json))


@prompt_app.command()
def freeze(
    ctx: typer.Context,
    session: Named = None,
    id: Id = None,
    block: Texts = None,
    collection: Collections = None,
    documents: Documents = None,
    skills: Skills = None,
    function: Function = None,
    shared: SharedBlocks = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Print the frozen prompt; without one, render it and keep it."""
    declared = declared_by(block, collection, documents, skills, function, shared)
    end(prompt.freeze(place_of(ctx, db, tenant, owner), session_of(session, id, needed=True), declared, json=json))


@prompt_app.command()
def refresh(
    ctx: typer.Context,
    session: Named = None,
    id: Id = None,
    block: Texts = None,
    collection: Collections = None,
    documents: Documents = None,
    skills: Skills = None,
    function: Function = None,
    shared: SharedBlocks = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Render the prompt anew and keep that."""
    declared = declared_by(block, collection, documents, skills, function, shared)
    end(prompt.refresh(place_of(ctx, db, tenant, owner), session_of(session, id, needed=True), declared, json=json))


@prompt_app.command()
def diff(
    ctx: typer.Context,
    session: Named = None,
    id: Id = None,
    block: Texts = None,
    collection: Collections = None,
    documents: Documents = None,
    skills: Skills = None,
    function: Function = None,
    shared: SharedBlocks = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Show how the frozen prompt differs from one rendered now."""
    declared = declared_by(block, collection, documents, skills, function, shared)
    end(prompt.diff(place_of(ctx, db, tenant, owner), session_of(session, id), declared, json=json))


def _target(session: str | None, shared: bool, json: bool) -> Target:
    return Target(text_of(session), shared, json)


def declared_by(
    texts: list[str] | None,
    collections: list[str] | None,
    documents: list[str] | None,
    skills: list[str] | None,
    function: str | None,
    shared: bool,
) -> Declared:
    """What the options say of blocks."""
    texts, collections, documents, skills = (
        [given_text(one) for one in given or ()] for given in (texts, collections, documents, skills)
    )
    return Declared(texts, collections, documents, skills, text_of(function), shared)
