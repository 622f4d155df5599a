"""The commands of `plait` and their options; each body is in `plait.cli.commands`."""

from __future__ import annotations

import functools
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import plait
from plait.cli.commands import (
    compact,
    copying,
    listing,
    overlays,
    reading,
    schema,
    searching,
    stats,
    transfer,
    tree,
    upkeep,
)
from plait.cli.commands import watch as watching
from plait.cli.context_app import context_app, prompt_app
from plait.cli.failure import Failure
from plait.cli.mcp_app import mcp_
from plait.cli.options import (
    Db,
    Id,
    Json,
    LeafId,
    Named,
    Owner,
    Tenant,
    Written,
    Yes,
    at_most,
    end,
    place_of,
    session_of,
    text_of,
    time_of,
)
from plait.cli.place import given_text
from plait.logic.arguments import MOST
from plait.logic.strands import MAX_SEQ


class Passed(Exception):
    """Carries an error past the command-line library, which would answer it in its own way."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            raise Passed(error) from None


app = typer.Typer(
    cls=_Group,
    help="Look at, move and look after agent conversations kept by plait.",
    epilog="Exit codes: 0 done, 1 refused or not found, 2 wrong usage, 3 damage was met, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@functools.cache  # making it takes longer than most commands
def command() -> Any:
    """The whole command line, ready to be run."""
    return get_command(app)


def _version(asked: bool) -> None:
    if not asked:
        return
    try:
        sys.stdout.write(f"plait {version('plait')}\n")
    except PackageNotFoundError:
        sys.stdout.write("plait, run from its source without being installed\n")
    raise typer.Exit()


@app.callback()
def root(
    ctx: typer.Context,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    ctx.obj = (db, tenant, owner)


@app.command("import")
def import_(
    ctx: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Transcripts, or databases that hold some.")],
    format: Annotated[str | None, typer.Option(help="The files' format; else it is told from their content.")] = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION", help="The session to import into.")] = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Copy transcripts of other tools (or of plait) into the database."""
    end(transfer.import_files(place_of(ctx, db, tenant, owner), files, format, text_of(session), json))


@app.command()
def export(
    ctx: typer.Context,
    session: Written = None,
    id: Id = None,
    format: Annotated[str, typer.Option(help="jsonl (everything, exactly) or markdown (one path, to read).")] = "jsonl",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this new file, not to stdout.")
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(metavar="SEQ", min=0, help="Only messages after this seq; with --output, added to the file."),
    ] = None,
    leaf: LeafId = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")] = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
) -> None:
    """Write a session as plait JSONL (lossless) or Markdown."""
    wanted = transfer.Export(
        format=format, output=output, after=at_most(after, MAX_SEQ), leaf=text_of(leaf), force=force
    )
    end(transfer.export(place_of(ctx, db, tenant, owner), session_of(session, id, needed=True), wanted))


@app.command()
def ls(
    ctx: typer.Context,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most so many; else all.")] = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """List sessions, the most recently active first."""
    end(listing.ls(place_of(ctx, db, tenant, owner), at_most(limit, MOST), json))


@app.command()
def show(
    ctx: typer.Context,
    session: Named = None,
    id: Id = None,
    leaf: LeafId = None,
    last: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the newest N messages.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="Newest first.")] = False,
    around: Annotated[
        str | None, typer.Option(metavar="ID", help="This message with what stands around it, nothing hidden.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Tool input and output uncut.")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Message ids too.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Each message's JSON as it is stored, one a line.")] = False,
    transcript: Annotated[
        bool, typer.Option("--transcript", "-t", help="With nothing hidden by overlays, marking what they cover.")
    ] = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Read one path of a session, from its root to the active leaf."""
    if raw and json:
        raise Failure("--raw and --json exclude each other (see plait show --help)", 2)
    if around is not None and (leaf is not None or last is not None or reverse or transcript):
        raise Failure("--around goes without --leaf, --last, --reverse and --transcript (see plait show --help)", 2)
    wanted = reading.Show(
        leaf=text_of(leaf),
        last=at_most(last, MOST),
        around=text_of(around),
        reverse=reverse,
        full=full,
        ids=ids,
        form="raw" if raw else "json" if json else "text",
        transcript=transcript,
    )
    end(reading.show(place_of(ctx, db, tenant, owner), session_of(session, id), wanted))


@app.command("search")
def search_(
    ctx: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="All must be there; '\"so\"' together.")],
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Only in this session.")] = None,
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="Only such; may be repeated.")
    ] = None,
    leaf: Annotated[
        str | None, typer.Option("--leaf", metavar="ID", help="Only on the path to this message of the --session.")
    ] = None,
    active: Annotated[bool, typer.Option("--active", help="Only on the active path of the --session.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only from then on: a date, or 2026-07-01T18:30.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only from before then.")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Newest first, not best match first.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 20,
    offset: Annotated[int, typer.Option(min=0, metavar="N", help="Leave out the first N.")] = 0,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Find messages by their words, in one session or all."""
    paths = (leaf is not None) + active
    if paths > 1 or (paths and session is None):
        raise Failure("--leaf or --active, one of them, goes with --session ID (see plait search --help)", 2)
    wanted = searching.Wanted(
        words=[given_text(word) for word in words],
        session=text_of(session),
        leaf=plait.LEAF if active else text_of(leaf),
        roles=[given_text(one) for one in role or ()],
        since=time_of("--since", since),
        until=time_of("--until", until),
        newest=newest,
        limit=at_most(limit, MOST // 2),
        offset=at_most(offset, MOST // 2),
        json=json,
    )
    end(searching.search(place_of(ctx, db, tenant, owner), wanted))


@app.command("overlays")
def overlays_(
    ctx: typer.Context,
    session: Named = None,
    id: Id = None,
    leaf: LeafId = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Those of every branch.")] = False,
    remove: Annotated[
        str | None,
        typer.Option("--remove", metavar="ID", help="Take this one away, of the session named; it is shown again."),
    ] = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """List what is shown in place of messages, or take one of it away."""
    wanted = overlays.Wanted(leaf=text_of(leaf), all=all, remove=text_of(remove), json=json)
    named = session_of(session, id, needed=remove is not None)
    end(overlays.overlays(place_of(ctx, db, tenant, owner), named, wanted))


@app.command("tree")
def tree_(
    ctx: typer.Context,
    session: Named = None,
    id: Id = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every message, long straight runs too.")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Every message's id, not only those of leaves.")] = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Draw a session's branches, newest message first."""
    end(tree.tree(place_of(ctx, db, tenant, owner), session_of(session, id), every=all, ids=ids, json=json))


@app.command("stats")
def stats_(
    ctx: typer.Context,
    session: Named = None,
    id: Id = None,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    chart: Annotated[
        str | None, typer.Option("--chart", metavar="FILE", help="Draw the tokens over the conversation (.svg, .png).")
    ] = None,
    json: Json = False,
) -> None:
    """Count a session: messages by role, sizes, tokens, branches."""
    end(stats.stats(place_of(ctx, db, tenant, owner), session_of(session, id), chart=chart, json=json))


@app.command("watch")
def watch_(
    ctx: typer.Context,
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="The session's id; else all sessions of the scope.")
    ] = None,
    id: Id = None,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Go on after this cursor, which --json printed.")
    ] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="Begin with what there is, not now.")] = False,
    no_follow: Annotated[bool, typer.Option("--no-follow", help="Print the changes there are, then end.")] = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Follow what happens in a session, or in all, until interrupted."""
    if after is not None and from_start:
        raise Failure("--after and --from-start exclude each other (see plait watch --help)", 2)
    wanted = watching.Watch(after=after, from_start=from_start, follow=not no_follow, json=json)
    end(watching.watch(place_of(ctx, db, tenant, owner), session_of(session, id), wanted))


@app.command("compact")
def compact_(
    ctx: typer.Context,
    session: Written = None,
    id: Id = None,
    command: Annotated[
        str | None,
        typer.Option(metavar="CMD", help="Summarize with this command: prompt on its stdin, summary on its stdout."),
    ] = None,
    function: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="Summarize with this Python function.")
    ] = None,
    keep_recent_tokens: Annotated[
        int, typer.Option(metavar="N", min=0, help="Keep the newest messages within so many tokens.")
    ] = compact.KEEP_RECENT_TOKENS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be covered; ask and change nothing.")
    ] = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Lay a summary over the middle of a session; every message stays."""
    place, name = place_of(ctx, db, tenant, owner), session_of(session, id, needed=True)
    summarizer = compact.Summarizer(command, function, keep_recent_tokens)
    end(compact.compact(place, name, summarizer, dry_run=dry_run, json=json))


@app.command()
def doctor(
    ctx: typer.Context,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what can be repaired.")] = False,
    db: Db = None,
    json: Json = False,
) -> None:
    """Check the whole database; exit code 3 if something is wrong."""
    end(upkeep.doctor(place_of(ctx, db, None, None), fix=fix, json=json))


@app.command()
def backup(
    ctx: typer.Context,
    path: Annotated[str, typer.Argument(metavar="FILE", help="The copy to write; it must not exist.")],
    db: Db = None,
) -> None:
    """Copy the database into one file, while others go on using it."""
    end(upkeep.backup(place_of(ctx, db, None, None), path))


@app.command()
def vacuum(
    ctx: typer.Context,
    purge: Annotated[bool, typer.Option("--purge", help="Make deleted content unrecoverable as well.")] = False,
    db: Db = None,
) -> None:
    """Give the space of deleted content back to the file system."""
    end(upkeep.vacuum(place_of(ctx, db, None, None), purge=purge))


@app.command("copy")
def copy_(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SRC", help="The database to copy from: a path or a URL.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="The database to copy into; made if it is not there.")],
    session: Annotated[
        list[str] | None, typer.Option("--session", metavar="ID", help="Only this session; may be repeated.")
    ] = None,
    tenant: Tenant = None,
    owner: Owner = None,
    json: Json = False,
) -> None:
    """Copy sessions between databases; again, what has come since."""
    scoped = any(given is not None for given in (tenant, owner, *(ctx.obj or ())[1:]))
    ids = [given_text(one) for one in session or []]
    places = place_of(ctx, source, tenant, owner), place_of(ctx, target, tenant, owner)
    end(copying.copy(*places, ids, whole=not scoped and not ids, json=json))


@app.command("schema")
def schema_(
    distributed: Annotated[
        str | None, typer.Option(metavar="ENGINE", help="Only what spreads the tables there are over nodes: citus.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", help="Make the tables that grow in so many parts each.")
    ] = None,
    row_security: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Only what shows the members of a role their own scopes alone.")
    ] = None,
) -> None:
    """Print the SQL that makes a store in PostgreSQL."""
    end(schema.schema(text_of(distributed), partitions, text_of(row_security)))


@app.command()
def rm(
    ctx: typer.Context,
    sessions: Annotated[list[str] | None, typer.Argument(metavar="SESSION", help="Ids of sessions.")] = None,
    id: Annotated[
        list[str] | None, typer.Option("--id", metavar="SESSION", help="An id, also one that begins with -.")
    ] = None,
    yes: Yes = False,
    db: Db = None,
    tenant: Tenant = None,
    owner: Owner = None,
) -> None:
    """Delete sessions with all they hold. On a terminal it asks first."""
    ids = [given_text(one) for one in [*(sessions or []), *(id or [])]]
    if not ids:
        raise Failure("rm needs the id of a session (see plait rm --help)", 2)
    end(upkeep.rm(place_of(ctx, db, tenant, owner), ids, ask=not yes))


app.add_typer(context_app, name="context")
app.add_typer(prompt_app, name="prompt")
app.command("mcp")(mcp_)
