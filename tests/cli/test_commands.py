"""What each command answers, on a real database."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import apsw
import pytest

import plait
from plait.cli import escape
from plait.cli.app import command as line
from tests.behaviour.programs import AS_NOBODY
from tests.cli.conftest import CALL, HOSTILE, ODD_IDS, PICTURE, Run
from tests.dose import dose


def rows(out: str) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in out.splitlines()]


def one_line(err: str) -> str:
    """What stderr says, held to be one line and no traceback."""
    assert err.startswith("plait: "), err
    assert err.count("\n") == 1, err
    return err


def damage(db: Path, id: str) -> None:
    """Make the stored text of a message unreadable."""
    connection = apsw.Connection(str(db))
    connection.execute(
        "UPDATE message SET body = 'no json' WHERE key = (SELECT key FROM message_id WHERE id = ?)", (id,)
    )
    assert connection.changes() == 1
    connection.close()


# -- ls ------------------------------------------------------------------------


def test_ls_lists_sessions_with_their_totals(cli: Run, chat: Path) -> None:
    ran = cli("ls")
    head, line = ran.out.splitlines()
    assert head.split() == ["session", "name", "messages", "tokens", "size", "last", "active"]
    assert line.split()[0] == "chat"
    assert "Lyon [bold]trip[/bold] 😀" in line
    assert (ran.code, ran.err) == (0, "")


def test_ls_for_programs_is_one_object_a_line_and_can_be_limited(cli: Run, db: Path) -> None:
    with plait.open(db) as sessions:
        for number in range(5):
            sessions.create(f"s{number}", metadata={"n": 2**70})
    found = rows(cli("ls", "--json").out)
    assert sorted(one["id"] for one in found) == ["s0", "s1", "s2", "s3", "s4"]
    assert found[0]["metadata"] == {"n": 2**70}
    assert rows(cli("ls", "--json", "--limit", "2").out) == found[:2]


def test_ls_of_an_empty_database_says_so_and_is_no_error(cli: Run, db: Path) -> None:
    with plait.open(db) as sessions:
        sessions.list()
        sessions.create("gone")
        sessions.delete("gone")
    ran = cli("ls")
    assert (ran.code, ran.out) == (0, "")
    assert "no sessions in" in one_line(ran.err)


def test_one_scope_neither_lists_nor_reads_another(cli: Run, db: Path) -> None:
    with plait.open(db, scope=("acme", "ann")) as sessions:
        sessions.session("s").append(plait.user("secret"))
    assert cli("ls", "--json").out == ""
    assert rows(cli("ls", "--json", "--tenant", "acme", "--owner", "ann").out)[0]["id"] == "s"
    assert rows(cli("--tenant", "acme", "--owner", "ann", "ls", "--json").out)[0]["id"] == "s"
    assert cli("show", "s", "--tenant", "acme", "--owner", "an%").code == 1
    assert cli("rm", "s", "--tenant", "acme").code == 1


# -- show ----------------------------------------------------------------------


def test_show_prints_the_active_path_in_order(cli: Run, chat: Path) -> None:
    out = cli("show", "chat").out
    places = [out.index(text) for text in ("What is the weather", "getWeather", "17.5 °C", "image/png", "first answer")]
    assert places == sorted(places)
    assert "second answer" not in out


def test_show_of_another_leaf_prints_that_path(cli: Run, chat: Path) -> None:
    out = cli("show", "chat", "--leaf", "a2b").out
    assert "second answer" in out
    assert "first answer" not in out


@pytest.mark.parametrize("last", [0, 1, 2, 4, 99])
@pytest.mark.parametrize("order", [[], ["--reverse"]])
def test_show_last_is_the_end_of_the_path(cli: Run, chat: Path, last: int, order: list[str]) -> None:
    path = ["u1", "a1", "u2", "a2"]
    expected = path[-last:] if last else []
    shown = [one["id"] for one in rows(cli("show", "chat", "--json", "--last", str(last), *order).out)]
    assert shown == (expected[::-1] if order else expected)


def test_show_raw_is_the_stored_message_and_json_holds_it(cli: Run, chat: Path) -> None:
    with plait.open(chat, read_only=True) as sessions:
        stored = [message.to_dict() for message in sessions.session("chat").history()]  # type: ignore[union-attr]
    assert rows(cli("show", "chat", "--raw").out) == stored
    shown = rows(cli("show", "chat", "--json").out)
    assert [one["message"] for one in shown] == stored
    assert [(one["seq"], one["parent_id"]) for one in shown] == [(1, None), (2, "u1"), (3, "a1"), (4, "u2")]


def test_show_without_a_session_takes_the_latest(cli: Run, chat: Path) -> None:
    assert cli("show", "--raw").out == cli("show", "chat", "--raw").out


def test_a_damaged_message_is_shown_in_its_place_and_told_by_the_exit_code(cli: Run, chat: Path) -> None:
    damage(chat, "a1")
    ran = cli("show", "chat")
    assert ran.code == 3
    assert "damaged" in ran.out
    assert "What is the weather" in ran.out
    assert "first answer" in ran.out
    assert [("damaged" in one) for one in rows(cli("show", "chat", "--json").out)] == [False, True, False, False]
    for command in ("tree", "stats", "export"):
        assert cli(command, "chat").code == 3


# -- tree and stats --------------------------------------------------------------


def test_tree_draws_both_branches_and_marks_the_active_leaf(cli: Run, chat: Path) -> None:
    lines = cli("tree", "chat").out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["●", "│ ◉", "├─╯", "●", "●", "●"]
    assert lines[0].endswith("second answer  a2b")
    assert lines[1].endswith("first answer  (active leaf)  a2")


def test_tree_collapses_straight_runs_unless_all_is_asked_for(cli: Run, db: Path) -> None:
    with plait.open(db, durability="relaxed") as sessions:
        sessions.session("long").append_many([plait.user(f"message {number}") for number in range(40)])
    assert [line[0] for line in cli("tree", "long").out.splitlines()] == ["◉", "●", "┆", "●", "●"]
    assert "… 36 messages …" in cli("tree", "long").out
    assert len(cli("tree", "long", "--all").out.splitlines()) == 40


def test_tree_for_programs_names_every_message_and_its_parent(cli: Run, chat: Path) -> None:
    shown = rows(cli("tree", "chat", "--json").out)
    assert [(one["id"], one["parent_id"]) for one in shown] == [
        ("a2b", "u2"),
        ("a2", "u2"),
        ("u2", "a1"),
        ("a1", "u1"),
        ("u1", None),
    ]
    assert [one["id"] for one in shown if one["active"]] == ["a2"]
    assert [one["id"] for one in shown if one["leaf"]] == ["a2b", "a2"]


def test_stats_count_roles_branches_and_sizes(cli: Run, chat: Path) -> None:
    value = json.loads(cli("stats", "chat", "--json").out)
    assert (value["messages"], value["path_messages"]) == (5, 4)
    assert (value["roots"], value["leaves"], value["forks"]) == (1, 2, 1)
    assert {role: one["messages"] for role, one in value["roles"].items()} == {"user": 2, "assistant": 3}
    assert sum(one["bytes"] for one in value["roles"].values()) == value["bytes"]
    sizes = [one["bytes"] for one in value["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    assert "2 leaves, 1 fork, 1 root" in cli("stats", "chat").out


@pytest.fixture
def compacted(db: Path) -> Path:
    """Thirty messages, of which the first twenty are under two summaries, the later over the earlier."""
    with plait.open(db) as sessions:
        chat = sessions.session("long")
        for n in range(15):
            chat.append(plait.user("word " * 200, id=f"m{n}"))
        chat.add_overlay("m0", "m9", summary="ten messages")
        for n in range(15, 30):
            chat.append(plait.user("word " * 200, id=f"m{n}"))
        chat.add_overlay("m0", "m19", summary="twenty messages")
        chat.append(plait.user("the end", id="m30"))
    return db


def test_stats_draw_what_a_model_is_shown_with_compactions_marked(cli: Run, compacted: Path) -> None:
    out = cli("stats", "long").out
    assert "tokens that a model is shown along the active path of 31 messages, 2 compactions marked" in out
    assert out.splitlines()[-1].count("^") + out.splitlines()[-1].count("▲") == 2


@pytest.mark.parametrize(("name", "begins"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("A.SVG", b"<?xml")])
def test_stats_save_a_chart(cli: Run, compacted: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    ran = cli("stats", "long", "--chart", str(tmp_path / name))
    assert (ran.code, ran.err) == (0, "")
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_a_chart_of_another_kind_is_refused_before_anything_is_read(cli: Run, compacted: Path, tmp_path: Path) -> None:
    ran = cli("stats", "long", "--chart", str(tmp_path / "a.txt"))
    assert (ran.code, ran.out) == (2, "")
    assert ".svg or .png" in ran.err
    assert not (tmp_path / "a.txt").exists()


def test_a_chart_names_the_session_whatever_it_is_called(cli: Run, db: Path, tmp_path: Path) -> None:
    with plait.open(db) as sessions:
        sessions.create("s", name=f"$x_{{ {HOSTILE} <b>&")
        sessions.session("s").append(plait.user("one"))
    assert cli("stats", "s", "--chart", str(tmp_path / "a.svg")).code == 0
    ElementTree.parse(tmp_path / "a.svg")


@pytest.mark.parametrize("command", ["show", "tree", "stats"])
def test_a_session_without_messages_is_no_error(cli: Run, db: Path, command: str) -> None:
    with plait.open(db) as sessions:
        sessions.create("empty")
    ran = cli(command, "empty")
    assert (ran.code, ran.err) == (0, "")
    assert cli(command, "empty", "--json").code == 0


# -- ids and hostile content ------------------------------------------------------


@pytest.mark.parametrize("id", ODD_IDS)
def test_any_id_works_as_an_argument_and_is_printed_harmlessly(cli: Run, db: Path, id: str, tmp_path: Path) -> None:
    with plait.open(db, durability="relaxed") as sessions:
        sessions.session(id).append(plait.user("hello", id=id))
        sessions.session("other").append(plait.user("other"))
    for command in (["show", "--ids"], ["tree"], ["stats"], ["export"], ["show", f"--leaf={id}"]):
        for named in ([f"--id={id}"], ["--id", id] if not id.startswith("-") else ["--", id], ["--", id]):
            ran = cli(*command, *named)
            assert (ran.code, ran.err) == (0, ""), (command, named)
            assert "hello" in ran.out or command == ["stats"]
    listed = cli("ls").out
    assert escape.name(id) in listed
    assert len(listed.splitlines()) == 3
    assert cli("show", f"--id={escape.name(id)}").code == 0, "as it was printed"
    assert cli("rm", "--", id).code == 0
    assert [one["id"] for one in rows(cli("ls", "--json").out)] == ["other"]
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()} == {"agents.db"}


def test_an_id_that_no_argument_can_hold_is_given_as_it_is_printed(cli: Run, db: Path) -> None:
    with plait.open(db) as sessions:
        sessions.session("a\0b").append(plait.user("hello"))
    assert cli("ls").out.splitlines()[1].startswith(r"a\x00b ")
    assert "hello" in cli("show", r"a\x00b").out


def test_no_terminal_sequence_in_stored_text_is_passed_through(cli: Run, db: Path) -> None:
    with plait.open(db) as sessions:
        sessions.create("s", name=HOSTILE)
        parts = [
            {"type": "text", "text": HOSTILE},
            {"type": "reasoning", "text": HOSTILE},
            {**CALL, "type": f"tool-{HOSTILE}", "input": {HOSTILE: HOSTILE}, "output": HOSTILE},
            {**PICTURE, "filename": HOSTILE},
            {"type": HOSTILE, HOSTILE: HOSTILE},
        ]
        sessions.session("s").append({"id": HOSTILE, "role": HOSTILE, "parts": parts})
    commands = ["ls", "show", "show --ids --full", "tree", "stats", "show --raw", "show --json", "tree --json"]
    for command in [*commands, "stats --json", "ls --json"]:
        ran = cli(*command.split())
        assert ran.code == 0, command
        assert not set(ran.out + ran.err) & set("\x1b\x9b\x07\x00\u202e\u202c"), command
        assert "[bold]markup[/bold]" in ran.out or command == "ls", command


# -- refusals --------------------------------------------------------------------


@pytest.mark.parametrize("command", ["show nope", "tree nope", "stats nope", "export nope", "rm nope", "show --leaf x"])
def test_what_is_not_there_is_one_line_and_exit_1(cli: Run, chat: Path, command: str) -> None:
    ran = cli(*command.split())
    assert (ran.code, ran.out) == (1, "")
    assert "there is no" in one_line(ran.err)


@pytest.mark.parametrize("command", ["ls", "show", "tree", "stats", "doctor", "vacuum", "backup copy.db", "rm x"])
def test_only_import_makes_a_database(cli: Run, db: Path, command: str) -> None:
    ran = cli(*command.split())
    assert ran.code == 1
    assert "there is no database" in one_line(ran.err)
    assert not db.exists()


@pytest.mark.parametrize(
    "content", [b"", b"not a database, just some text\n" * 500, b"SQLite format 3\0" + b"\0" * 4000]
)
def test_a_file_of_another_kind_is_one_line_and_untouched(cli: Run, db: Path, content: bytes) -> None:
    db.write_bytes(content)
    ran = cli("show", "chat")
    assert ran.code in (1, 3)
    one_line(ran.err)
    assert db.read_bytes() == content


def test_a_database_url_is_named_without_its_password(cli: Run) -> None:
    ran = cli("ls", "--db", "postgresql://ann:s3cret@host.test/db?password=s3cret")
    assert ran.code == 1
    assert "s3cret" not in one_line(ran.err)


@pytest.mark.parametrize(
    "command",
    ["frobnicate", "show --frob", "show --last x", "show --raw --json", "ls --limit 0", "rm", "export", "import",
     "show a --id b", "export chat --format yaml"],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_2(cli: Run, chat: Path, command: str) -> None:
    ran = cli(*command.split())
    assert (ran.code, ran.out) == (2, "")
    one_line(ran.err)


@pytest.mark.parametrize("command", ["", "context", "prompt"])
def test_who_asks_for_nothing_is_shown_how_to_ask(cli: Run, command: str) -> None:
    ran = cli(*command.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == cli(*command.split(), "--help").out


def test_an_unguarded_id_with_a_dash_gets_the_remedy(cli: Run, chat: Path) -> None:
    assert "goes after -- or into --id=" in one_line(cli("show", "-strange").err)


def test_every_command_explains_itself(cli: Run) -> None:
    names = ["import", "export", "ls", "show", "tree", "stats", "doctor", "backup", "vacuum", "rm"]
    listed = cli("--help").out
    for name in names:
        assert f" {name} " in listed
        ran = cli(name, "--help")
        assert ran.code == 0
        assert "--db" in ran.out


def test_every_option_is_in_the_reference(cli: Run) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for name in ["import", "export", "ls", "show", "tree", "stats", "doctor", "backup", "vacuum", "rm"]:
        assert f"## plait {name}" in page
        options = {word.strip(",") for word in cli(name, "--help").out.split() if word.startswith("--")}
        missing = {option for option in options if option.isascii() and f"`{option}" not in page}
        assert not {option for option in missing if option.strip("-").replace("-", "").isalpha()}, name


# -- rm and upkeep -----------------------------------------------------------------


def test_rm_deletes_nothing_if_one_of_the_ids_is_wrong(cli: Run, chat: Path) -> None:
    ran = cli("rm", "chat", "nope")
    assert ran.code == 1
    assert [one["id"] for one in rows(cli("ls", "--json").out)] == ["chat"]


def test_rm_says_what_it_deleted(cli: Run, chat: Path) -> None:
    ran = cli("rm", "chat")
    assert (ran.code, ran.out, ran.err) == (0, "", "plait: chat with 5 messages deleted\n")


def test_a_file_in_a_folder_that_is_not_there_is_told_by_its_folder(cli: Run, chat: Path, tmp_path: Path) -> None:
    ran = cli("export", "chat", "-o", str(tmp_path / "absent" / "x.jsonl"))
    assert ran.code == 1 and f"the folder {tmp_path / 'absent'} does not exist; make it" in ran.err


@pytest.mark.parametrize("command", ["", "rm", "show", "prompt diff", "context set", "import"])
def test_help_is_plain_text_that_fits_a_terminal(
    cli: Run, chat: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = cli(*command.split(), "--help").out
    assert out.isascii() and max(map(len, out.splitlines())) <= 80
    assert "<bool>" not in out and "[[" not in out and "..." not in out.replace("]...", "").replace("}...", "")


def test_doctor_of_a_sound_database_says_so(cli: Run, chat: Path) -> None:
    ran = cli("doctor")
    assert ran.code == 0
    assert ran.out.endswith(": all is well\n")
    assert cli("doctor", "--json").out == ""


def test_doctor_of_a_damaged_database_lists_it_and_exits_3(cli: Run, chat: Path) -> None:
    damage(chat, "a1")
    ran = cli("doctor")
    assert ran.code == 3
    assert "a1" in ran.out
    found = rows(cli("doctor", "--json").out)
    assert found
    assert not any(one["fixed"] for one in found)


def test_backup_is_a_database_with_the_same_sessions(cli: Run, chat: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy of all.db"
    assert cli("backup", copy).code == 0
    assert cli("show", "chat", "--raw", "--db", copy).out == cli("show", "chat", "--raw").out
    again = cli("backup", copy)
    assert again.code == 1
    assert "exists" in one_line(again.err)


@pytest.mark.parametrize("options", [[], ["--purge"]])
def test_vacuum_keeps_what_is_there(cli: Run, chat: Path, options: list[str]) -> None:
    before = cli("show", "chat", "--raw").out
    assert cli("vacuum", *options).code == 0
    assert cli("show", "chat", "--raw").out == before


def overlaid(db: Path) -> str:
    """A session with a summary and an omitted message; the summary's overlay."""
    with plait.open(db) as sessions:
        chat = sessions.session("long")
        chat.append_many([plait.user(f"line {n}", id=f"l{n}") for n in range(8)])
        chat.omit("l6")
        return chat.add_overlay("l1", "l3", summary="One to three.\nIn short.").overlay.id


def test_show_lays_overlays_on_and_can_leave_them_off(db: Path, cli: Run) -> None:
    overlaid(db)
    shown = cli("show", "long").out
    assert "compaction of #2 to #4 (3 messages)" in shown and "In short." in shown
    assert "line 0" in shown and "line 2" not in shown and "line 6" not in shown
    raw = cli("show", "long", "--transcript").out
    assert all(f"line {n}" in raw for n in range(8)) and "One to three" not in raw
    assert raw.count("under compaction of #2 to #4") == 3 and raw.count("under omit of #7") == 1
    last = cli("show", "long", "--last", "4").out
    assert "In short." in last and "line 0" not in last and "line 4" in last
    lines = [json.loads(line) for line in cli("show", "long", "--json").out.splitlines()]
    assert [line.get("overlay", {}).get("kind") for line in lines] == [None, "compaction", None, None, None]


def test_overlays_are_listed_and_taken_away(db: Path, cli: Run) -> None:
    id = overlaid(db)
    listed = cli("overlays", "long")
    assert listed.code == 0 and id in listed.out and "One to three. In short." in listed.out
    found = [json.loads(line) for line in cli("overlays", "long", "--json").out.splitlines()]
    assert [(item["kind"], item["from_seq"], item["to_seq"]) for item in found] == [
        ("omit", 7, 7),
        ("compaction", 2, 4),
    ]
    assert cli("overlays", "long", "--leaf", "l2", "--json").out == ""
    assert len(cli("overlays", "long", "--leaf", "l2", "--all", "--json").out.splitlines()) == 2
    assert cli("overlays", "long", "--remove", "nobody").code == 1
    assert cli("overlays", "long", "--remove", id).code == 0
    assert "line 2" in cli("show", "long").out


# -- search --------------------------------------------------------------------


def test_search_finds_words_in_all_sessions_or_one(cli: Run, tmp_path: Path, chat: Path) -> None:
    with plait.open(chat) as sessions:
        sessions.session("found").append(plait.user("a zebra and 悬空 \U0001f600", id="z"))
    out = cli("search", "zebra").out
    assert "found #1 user" in out and "a zebra and" in out
    (hit,) = rows(cli("search", "空", "--json", "--session", "found").out)
    assert (hit["id"], hit["session"], hit["on_path"], hit["covered"]) == ("z", "found", True, False)
    assert hit["snippet"][hit["highlights"][0][0] : hit["highlights"][0][1]] == "空"
    assert cli("search", "zebra", "--session", "chat").out == ""
    assert cli("search", "zebra", "--role", "assistant", "--newest", "--limit", "1").out == ""
    assert cli("search", '"*(').code == 0
    assert cli("search", "zebra", "--session", "nobody").code == 1


def test_search_needs_no_permission_to_write_the_folder_or_the_file(chat: Path, folder: Path) -> None:
    program = f"""
import os, sys
from plait.cli.run import run
run(["search", "answer"])
{AS_NOBODY}
sys.exit(run(["search", "answer", "--json"]))
"""
    for file, inside in ((0o666, 0o555), (0o444, 0o777), (0o444, 0o555)):
        path = Path(shutil.copy(chat, folder / f"{file:o}-{inside:o}.db"))
        path.chmod(file)
        folder.chmod(inside)
        command = [sys.executable, "-c", program]
        ran = subprocess.run(command, env={**os.environ, "PLAIT_DB": str(path)}, capture_output=True, check=False)
        assert ran.returncode == 0 and ran.stdout.count(b'"id":"a2') == 2, (file, inside, ran)
        folder.chmod(0o755)


@pytest.mark.timeout(dose(short=120, soak=1800))
def test_search_takes_a_query_of_very_many_words(cli: Run, db: Path, chat: Path) -> None:
    many = " ".join(f"w{n}" for n in range(dose(short=30_000, soak=1_000_000)))
    with plait.open(db) as sessions:
        sessions.session("chat").append(plait.user(many, id="many"))
    assert [hit["id"] for hit in rows(cli("search", many, "--json").out)] == ["many"]
    assert cli("search", f"walrus {many}", "--json").out == ""


def test_search_takes_every_filter_that_the_api_takes_and_names_each_hit(cli: Run, chat: Path) -> None:
    for path, expected in (([], ["a2b", "a2"]), (["--active"], ["a2"]), (["--leaf=a2b"], ["a2b"])):
        hits = rows(cli("search", "answer", "--session", "chat", "--newest", "--json", *path).out)
        assert [hit["id"] for hit in hits] == expected
    assert [hit["id"] for hit in rows(cli("search", "answer", "--newest", "--offset=1", "--json").out)] == ["a2"]
    at = hits[0]["created_at"]
    assert len(rows(cli("search", "second", "--since", at, "--json").out)) == 1
    assert cli("search", "second", "--until", at, "--json").out == ""
    out = cli("search", "second", "--since", "2020-01-01").out
    assert out.startswith("chat #5 assistant  20") and "a2b · other branch" in out.splitlines()[0]
    for wrong in (["--leaf=a2"], ["--active"], ["--since=soon"], ["--until="]):
        assert cli("search", "second", *wrong).code == 2, wrong
    assert cli("search", "second", "--session=chat", "--active", "--leaf=a2").code == 2
    assert cli("search", "second", "--session=chat", "--leaf=absent").code == 1


def test_a_hit_is_opened_with_what_stands_around_it(cli: Run, chat: Path) -> None:
    shown = rows(cli("show", "chat", "--around", "u2", "--json").out)
    assert [one["id"] for one in shown] == ["u1", "a1", "u2", "a2"]
    assert [one["id"] for one in rows(cli("show", "chat", "--around=a2b", "--json").out)] == ["u1", "a1", "u2", "a2b"]
    assert cli("show", "chat", "--around", "absent").code == 1
    for other in ("--last=1", "--leaf=a2", "--reverse", "--transcript"):
        assert cli("show", "chat", "--around", "u2", other).code == 2


def test_help_says_of_each_command_whether_it_takes_the_latest_session(cli: Run, chat: Path) -> None:
    named = set()
    for name, one in line().commands.items():
        arguments = [given for given in getattr(one, "params", ()) if given.param_type_name == "argument"]
        said = "".join(str(given.help) for given in arguments if given.name == "session")
        if "else the latest" in said:
            assert "name a session" not in cli(name).err, name
        elif "must be named" in said:
            assert cli(name).code == 2 and "name a session" in cli(name).err, name
            named.add(name)
    assert named == {"export", "compact"}
    assert cli("overlays", "--remove", "x").code == 2


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("search unheard", "has these words"),
        ("search unheard --session chat", "nothing in session chat of"),
        ("search ... --session chat", "there is no word to look for"),
        ("search Lyon --role tool", "pass what narrows the search"),
        ("search Lyon --offset 5", "nothing beyond those left out by --offset in"),
        ("overlays chat", "no overlays on this path; --all"),
        ("overlays chat --all", "no overlays in this session"),
        ("context list", "no blocks in session chat; --session ID"),
        ("context list --shared", "no blocks in the scope's shared blocks; --session ID"),
        ("prompt render chat", "session chat has no blocks; `plait context set`"),
    ],
)
def test_what_finds_nothing_says_so_beside_the_output_but_to_no_program(
    cli: Run, chat: Path, command: str, told: str
) -> None:
    ran = cli(*command.split())
    assert (ran.code, ran.out) == (0, "") and told in ran.err and len(ran.err.splitlines()) == 1
    assert cli(*command.split(), "--json").err == ""


# -- watch ------------------------------------------------------------------------


def test_watch_prints_the_changes_there_are_and_goes_on_after_a_cursor(cli: Run, chat: Path) -> None:
    printed = rows(cli("watch", "chat", "--from-start", "--no-follow", "--json").out)
    assert [one["message"]["id"] for one in printed if one["message"]] == ["u1", "a1", "u2", "a2", "a2b"]
    assert cli("watch", "chat", "--no-follow").out == ""
    assert rows(cli("watch", "chat", "--no-follow", "--json", f"--after={printed[2]['cursor']}").out) == printed[3:]
    ran = cli("watch", "chat", "--no-follow", "--after=nonsense")
    assert (ran.code, ran.out) == (2, "")
    assert "--after: this is not a cursor" in one_line(ran.err) and "`plait watch --json`" in one_line(ran.err)
    ran = cli("watch", "--no-follow", f"--after={printed[0]['cursor']}")
    assert "--after: this is a cursor of something else; pass one that these sessions' changes() gave" in one_line(
        ran.err
    )
