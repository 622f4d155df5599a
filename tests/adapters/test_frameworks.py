"""A conversation begun under one framework, killed in the middle or not, goes on under itself and under every other."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import plait
from tests.adapters.frameworks import (
    FRAMEWORKS,
    ID,
    MEMORY,
    SUMMARY,
    Shown,
    Turn,
    chat_of,
    have,
    is_there,
    user_of,
    weather_in,
)
from tests.dose import SOAK

ROOT = Path(__file__).parents[2]
NAMES = list(FRAMEWORKS)
PATIENCE_S = 250

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)


def needs(*names: str) -> None:
    for name in names:
        if not is_there(name):
            pytest.skip(f"{FRAMEWORKS[name][0]} is not installed: make adapters")


def both(*cities: str) -> list[Shown]:
    """Two calls, and their results after both."""
    return [*(("call", f"weather {city}") for city in cities), *(("result", f"sun in {city}") for city in cities)]


def in_turns(shown: list[Shown]) -> list[Shown]:
    """Calls and results that stand together with the calls first, for providers take call, result, call, result as well."""
    found: list[Shown] = []
    for is_tools, run in itertools.groupby(shown, key=lambda one: one[0] in ("call", "result")):
        together = list(run)
        found += sorted(together, key=lambda one: one[0]) if is_tools else together
    return found


async def said(messages: AsyncIterator[plait.Message | plait.Damaged]) -> list[str]:
    """As they are stored: without Claude Code's notes, beside which another framework may go on."""
    return [
        message.to_json() async for message in messages if isinstance(message, plait.Message) and message.role != "meta"
    ]


async def roles(sessions: plait.AsyncSessions) -> list[str]:
    return [message.role async for message in chat_of(sessions).history() if isinstance(message, plait.Message)]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(NAMES, 2)))
async def test_a_conversation_goes_on_under_another_framework_and_comes_back(
    first: str, second: str, tmp_path: Path
) -> None:
    """B-068: calls and results of a turn are what the next turn begins with, whichever framework asks."""
    needs(first, second)
    async with plait.open_async(tmp_path / "store.db", durability="process") as sessions:
        await have(sessions, first, "Lyon, Oslo?", weather_in("Lyon", "Oslo"), "Sun.")
        before = await said(chat_of(sessions).history())
        other = await have(sessions, second, "Rome, Nice?", weather_in("Rome", "Nice"), "Sun too.", stream=True)
        begun = [("user", "Lyon, Oslo?"), *both("Lyon", "Oslo"), ("model", "Sun."), ("user", "Rome, Nice?")]
        gone_on = [*begun, *both("Rome", "Nice")]
        assert list(map(in_turns, other.shown)) == [begun, gone_on]
        back = await have(sessions, first, "Thanks.", "Welcome.")
        assert list(map(in_turns, back.shown)) == [[*gone_on, ("model", "Sun too."), ("user", "Thanks.")]]
        known = back.shown[-1]
        other = await have(sessions, second, "Bye.", "Goodbye.")
        assert list(map(in_turns, other.shown)) == [[*in_turns(known), ("model", "Welcome."), ("user", "Bye.")]]
        assert other.prompts == back.prompts, "one frozen prompt"
        after = await said(chat_of(sessions).history())
        assert after[: len(before)] == before
        assert [hit.role for hit in await chat_of(sessions).search("Welcome")] == ["assistant"]
        assert await said(chat_of(sessions).everything()) == after, "nothing is stored twice, on this branch or another"
        assert await sessions.doctor() == []


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(NAMES, 2)))
async def test_a_compacted_conversation_goes_on_under_another_framework_and_comes_back(
    first: str, second: str, tmp_path: Path
) -> None:
    """The summary is shown once and in its place, whoever asks, and is nobody's message; Claude Code is sent the whole."""
    needs(first, second)
    async with plait.open_async(tmp_path / "store.db", durability="process") as sessions:
        chat = chat_of(sessions)
        await have(sessions, first, "Lyon, Oslo?", weather_in("Lyon", "Oslo"), "Sun.")
        _, covered, *_, last = [message async for message in chat.history() if message.role != "meta"]
        await chat.add_overlay(covered.id, last.id, summary="They spoke of sun.")
        hidden = [words for _, words in [*both("Lyon", "Oslo"), ("model", "Sun.")]]
        gone_on: list[Shown] = []
        turns = [(second, "Rome, Nice?", "Sun too."), (first, "Thanks.", "Welcome."), (second, "Bye.", "Goodbye.")]
        for name, asked, answer in turns:
            turn = await have(sessions, name, asked, answer)
            gone_on.append(("user", asked))
            question, *covering = in_turns(turn.shown[-1])[: -len(gone_on)]
            assert question == ("user", "Lyon, Oslo?") and turn.shown[-1][-len(gone_on) :] == gone_on
            whole = name == "claude"
            assert [words.splitlines()[-1] for _, words in covering] == (hidden if whole else ["They spoke of sun."])
            gone_on.append(("model", answer))
        path = [message async for message in chat.transcript()]
        everything = await said(chat.everything())
        assert everything == await said(chat.transcript()), "nothing is stored twice, nor on a branch of its own"
        assert "They spoke of sun." not in [m.text for m in path if isinstance(m, plait.Message)]
        assert await sessions.doctor() == []


@pytest.mark.parametrize("how", ["whole", "streamed"])
@pytest.mark.parametrize("first", NAMES)
async def test_a_run_killed_between_call_and_result_goes_on_in_another_process_under_every_framework(
    first: str, how: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """B-068, in a new process, streamed and not."""
    needs(first)
    file = tmp_path / "store.db"
    (prompt, *_) = killed(file, first, how)
    async with plait.open_async(file) as sessions:
        cut = await said(chat_of(sessions).history())
        block = await user_of(sessions).session(ID, context=[MEMORY]).context.block("memory")
        assert block is not None and block.content == "Likes sun."
    everyone = how == "whole" or SOAK  # what is stored is the same: once is enough in short
    for name in filter(is_there, NAMES if everyone else [first]):
        copied = (
            shutil.copytree(tmp_path, tmp_path_factory.mktemp(name) / "copy", ignore=shutil.ignore_patterns("tmp"))
            / "store.db"
        )
        async with plait.open_async(copied, durability="process") as sessions:
            again = await have(sessions, name, "Again?", weather_in("Lyon", "Oslo"), "Sun.", stream=how == "streamed")
            assert set(again.prompts) == {prompt}, "the prompt stays frozen in every process and framework"
            check(again)
            kept = await said(chat_of(sessions).history())
            assert kept[: len(cut)] == cut
            assert [r for r in (await roles(sessions)) if r in ("user", "assistant")][-1] == "assistant"
            legal = [message async for message in chat_of(sessions).history(for_model=True)]
            assert plait.NO_RESULT not in legal[-1].to_json()  # type: ignore[union-attr]


@pytest.mark.parametrize("first", [name for name in NAMES if SOAK or name in ("openai", "pydantic-ai")])
async def test_a_long_conversation_that_was_killed_in_mid_turn_goes_on_within_the_window(
    first: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A call without a result stands in what no summary covers; each framework drops it, or closes it, in its own way."""
    needs(first)
    killed(tmp_path / "store.db", first, "long")
    for name in filter(is_there, (name for name in NAMES if name != "claude")):  # which compacts by itself
        copied = shutil.copytree(tmp_path, tmp_path_factory.mktemp(name) / "copy") / "store.db"
        async with plait.open_async(copied, durability="process") as sessions:
            turn = await have(sessions, name, "Again?", weather_in("Lyon", "Oslo"), "Sun.", window=1500)
            for n, shown in enumerate(turn.shown):
                assert sum(SUMMARY in words for _, words in shown) == 1, name
                assert sum(len(words) for _, words in shown) < 4 * 1500, name
                asked = [("user", "Again?"), *(both("Lyon", "Oslo") if n else ())]
                assert in_turns(shown)[-len(asked) :] == asked
            assert len(await chat_of(sessions).overlays()) == 1
            assert ("user", "Lyon, Oslo?") in turn.shown[-1], "what was asked when it was killed"


def check(turn: Turn) -> None:
    """What was said before the kill is shown, and after it the calls with their results."""
    shown = in_turns(turn.shown[-1])
    hello = [("user", "Hello."), ("call", "set_context Likes sun.")]
    assert shown[:2] == hello and shown[3] == ("model", "Hi.")
    assert shown[-5:] == [("user", "Again?"), *both("Lyon", "Oslo")]


def killed(file: Path, name: str, how: str) -> list[str]:
    """Have the turns of `frameworks` in a process that does not survive the second; the prompts of the first."""
    (left := file.parent / "tmp").mkdir()
    with (
        (left / "stderr").open("w+") as told,
        subprocess.Popen(
            [sys.executable, "-m", "tests.adapters.frameworks", str(file), name, how],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
                "OPENAI_API_KEY": "none",
                "TMPDIR": str(left),
            },
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=told,
            start_new_session=True,
        ) as run,
    ):
        try:
            said, _ = run.communicate(timeout=PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):  # Claude Code outlives who started it, and waits for its tool
                os.killpg(run.pid, signal.SIGKILL)
        told.seek(0)
        assert run.returncode == -signal.SIGKILL, told.read()
    found: list[str] = json.loads(said)
    return found
