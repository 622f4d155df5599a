"""A short tour of plait on the terminal: `python -m plait.demo`; each step checks what it shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any, Final

import plait
from plait.cli import require_extra

DOT: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

TRANSCRIPT: Final[list[dict[str, Any]]] = [
    plait.user("We have one free day in Lyon. What should we do?", id="u1"),
    {
        "id": "a1",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "The weather decides; look it up first.", "state": "done"},
            {
                "type": "tool-getWeather",
                "toolCallId": "call_1",
                "state": "output-available",
                "input": {"city": "Lyon", "days": 1},
                "output": {"sky": "clear", "high": 24.5, "low": 13, "station": 9007199254740993},
            },
            {
                "type": "text",
                "text": "Clear and up to 24.5 °C: walk up to Fourvière in the morning, see the old town after.",
            },
        ],
        "metadata": {"model": "example-1", "usage": {"inputTokens": 412, "outputTokens": 58}},
    },
    {
        "id": "u2",
        "role": "user",
        "parts": [
            {"type": "text", "text": "Lovely. What is this place on our photo? 📷"},
            {
                "type": "file",
                "mediaType": "image/png",
                "filename": "photo.png",
                "url": f"data:image/png;base64,{DOT}",
            },
        ],
    },
    plait.assistant("That is the old opera house, in the first arrondissement.", id="a2"),
    plait.user("And where do we have dinner?", id="u3"),
    plait.assistant("In a bouchon in the rue Mercière, at eight.", id="a3"),
]

KILLED_AFTER: Final = 200
TURNS: Final = 200
WINDOW: Final = 4000
SESSIONS: Final = ["killed", "long", "lyon"]


def main() -> int:
    """Run the tour in a temporary folder; answers the exit code, 0 if every check held."""
    require_extra()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="plait-demo-") as folder:
        tour = _Tour(Path(folder))
        try:
            for step in (tour.write, tour.look, tour.copy, tour.go_on, tour.remember, tour.kill, tour.look_after):
                step()
        except _FailedCheck as failed:
            tour.say((f"  FAILED: {failed}", "error"))
            return 1
        tour.say()
        tour.say(("All checks held", "user"), f", in {time.monotonic() - started:.1f} seconds.")
    return 0


class _FailedCheck(Exception):
    """Something that the tour promises is not so."""


class _Tour:
    def __init__(self, folder: Path) -> None:
        self._db = folder / "agents.db"
        self._folder = folder
        from plait.cli.screen import Screen

        self._screen = Screen(sys.stdout)
        self.say = self._screen.line
        self._after_command = False

    def write(self) -> None:
        """Import a transcript, then give one question a second answer."""
        self._title("A conversation, imported from AI SDK messages, and a branch beside it")
        file = self._folder / "lyon.json"
        file.write_text(json.dumps(TRANSCRIPT, ensure_ascii=False), encoding="utf-8")
        self._plait("import", "lyon.json", "--session", "lyon")
        with plait.open(self._db) as sessions:
            chat = sessions.session("lyon")
            self._check("every message reads back exactly as it was", _contents(chat) == TRANSCRIPT)
            other = chat.append(plait.assistant("At home: the market has everything.", id="a3b"), parent="u3")
            self._check("a second answer stands beside the first", len(chat.children("u3")) == 2)
            self._check("and is the active leaf now", _id(chat.leaf()) == other.id)
            self.say()
            for message in chat.history():
                text = message.text if isinstance(message, plait.Message) else "(damaged)"
                self.say(f"  {message.role:>9}: {text}")

    def look(self) -> None:
        """Read it with the command line."""
        self._title("The same from the command line")
        for line in ("ls", "show lyon --last 5", "tree lyon", "stats lyon"):
            self._plait(*line.split())

    def copy(self) -> None:
        """Export everything, import it elsewhere, compare."""
        self._title("Out and in again, nothing lost")
        self._plait("export", "lyon", "-o", "lyon.jsonl")
        self._plait("import", "lyon.jsonl", "--db", "copy.db")
        with plait.open(self._db) as one, plait.open(self._folder / "copy.db") as two:
            before, after = (
                [_stored(entry) for entry in sessions.session("lyon").everything()] for sessions in (one, two)
            )
        what = f"all {len(before)} messages of both branches are equal, picture and big number included"
        self._check(what, before == after and len(before) == len(TRANSCRIPT) + 1)

    def go_on(self) -> None:
        """Let a conversation outgrow a model's window, and find what is under its summary."""
        self._title("A long conversation in a small window")
        with plait.open(self._db) as sessions:
            chat = sessions.session("long")
            chat.on_compaction(plait.compact_function(_summary, keep_recent_tokens=1000))
            chat.compact_after(WINDOW)
            for n in range(TURNS):
                chat.append(plait.user(f"How do I open locker {n} if I have lost its key?"))
                chat.append(plait.assistant(f"Ask the desk for key {n}: they keep a second one for each locker."))
            totals = chat.totals()
            shown = f"{TURNS} turns have {totals.path_tokens:,} tokens, a model is shown {totals.view_tokens:,}"
            self._check(f"{shown}: never more than {WINDOW:,}", totals.view_tokens <= WINDOW < totals.path_tokens)
            self._check("every message is still there", sum(1 for _ in chat.transcript()) == 2 * TURNS)
            (hit,) = chat.search('"locker 17"')
            self._check("and what the summary covers is found", hit.covered)
        self._plait("search", '"key 17"')
        self._plait("stats", "long")

    def remember(self) -> None:
        """Let a model keep a fact, in a prompt that stays as it is until it is refreshed."""
        self._title("Memory, and a prompt that stays cached")
        blocks: list[plait.BlockSpec] = [plait.BlockSpec("memory", description="About the traveller", max_tokens=100)]
        with plait.open(self._db) as sessions:
            chat = sessions.session("lyon", context=blocks, cached_prompt=True)
            prompt = chat.freeze_system_prompt()
            (tool,) = chat.tools()
            self.say(
                f"  the model's tool {tool.name} answers: ", (tool(label="memory", content="Eats no meat."), "user")
            )
            self._check("the prompt is the same, byte for byte", chat.freeze_system_prompt() == prompt)
        with plait.open(self._db) as sessions:  # as another process would
            chat = sessions.session("lyon", context=blocks, cached_prompt=True)
            self._check("so it is for another program", chat.freeze_system_prompt() == prompt)
            self.say()
            for line in chat.refresh_system_prompt().splitlines():
                self.say("  ", (line, "dim"))
            self._check("a refreshed prompt has the fact", "Eats no meat." in chat.freeze_system_prompt())

    def kill(self) -> None:
        """Kill a process in the middle of writing, and look for what it was told is safe."""
        self._title("kill -9 in the middle of writing")
        told = _killed_writer(self._db)
        with plait.open(self._db) as sessions:
            path = [message.id for message in sessions.session("killed").history()]
        self.say()
        self.say(f"  A process wrote until it was killed; {len(told)} appends had been acknowledged.")
        self._check("every acknowledged message is there, in order", path[: len(told)] == told)
        self._check("and at most the one under way is there besides", len(path) - len(told) <= 1)

    def look_after(self) -> None:
        """Back up and check."""
        self._title("Looking after the file")
        self._plait("backup", "copy-of-all.db")
        self._plait("doctor", "--db", "copy-of-all.db")
        self._plait("doctor")
        with plait.open(self._folder / "copy-of-all.db", read_only=True) as sessions:
            self._check("the backup holds every session", sorted(i.id for i in sessions.all()) == SESSIONS)

    def _title(self, text: str) -> None:
        self._after_command = False
        self.say()
        self.say((text, "bold"))

    def _plait(self, *arguments: str) -> None:
        """One command, shown as it would be typed, run in the tour's folder."""
        from plait.cli.run import run

        self.say()
        self.say(("  $ plait " + " ".join(arguments), "active"))
        self._screen.flush()
        before, environment = os.getcwd(), os.environ.get("PLAIT_DB")
        os.chdir(self._folder)
        os.environ["PLAIT_DB"] = self._db.name
        try:
            code = run(arguments)
        finally:
            os.chdir(before)
            _restore("PLAIT_DB", environment)
        self._after_command = True
        if code != 0:
            raise _FailedCheck(f"plait {' '.join(arguments)} ended with {code}")

    def _check(self, what: str, holds: bool) -> None:
        if not holds:
            raise _FailedCheck(f"not so: {what}")
        if self._after_command:
            self.say()
        self._after_command = False
        self.say(("  ok  ", "user"), what)


def _summary(prompt: str) -> str:
    """What a model would be asked for; here it says little."""
    return "The user asks for locker after locker how to open it; each time the desk has a second key."


def _killed_writer(db: Path) -> list[str]:
    """The ids that a writing process was told are safe before it was killed without warning."""
    command = [sys.executable, "-m", "plait.demo", "--write", str(db)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [line.strip() for line in islice(writer.stdout, KILLED_AFTER)]
        writer.kill()
        told += [line.strip() for line in writer.stdout if line.endswith("\n")]
    return told


def _write_until_killed(db: str) -> int:
    with plait.open(db) as sessions:
        chat = sessions.session("killed")
        while True:
            print(chat.append(plait.user("Are you still there?")).id, flush=True)


def _contents(chat: plait.Session) -> list[dict[str, Any]]:
    return [message.to_dict() for message in chat.history() if isinstance(message, plait.Message)]


def _id(entry: plait.Message | plait.Damaged | None) -> str | None:
    return None if entry is None else entry.id


def _stored(entry: plait.Message | plait.Damaged) -> tuple[str, str | None, int]:
    """All that a copy has to keep of a message."""
    return (entry.to_json() if isinstance(entry, plait.Message) else "(damaged)", entry.parent_id, entry.seq)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        del os.environ[name]
    else:
        os.environ[name] = value


if __name__ == "__main__":
    raise SystemExit(_write_until_killed(sys.argv[2]) if sys.argv[1:2] == ["--write"] else main())
