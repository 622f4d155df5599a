"""The frozen prompt: one text until it is refreshed, and what is told of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

import plait
from plait import AsyncSession, AsyncSessions, BlockSpec
from plait.logic.blocks import PROMPT_LABEL
from tests.behaviour._async.helpers import chain
from tests.behaviour.providers import Fixed, Labelled, Notes
from tests.dose import dose
from tests.unit.hostile import RULE

SOUL = BlockSpec("soul", description="Identity", provider=Fixed("Be kind."))
MEMORY = BlockSpec("memory", description="Facts", max_tokens=100)


def section(header: str, content: str) -> str:
    return f"{RULE}\n{header}\n{RULE}\n{content}"


async def test_a_frozen_prompt_is_the_blocks_in_their_order(sessions: AsyncSessions) -> None:
    session = sessions.session("s", context=[SOUL, MEMORY])
    expected = [
        section("SOUL (Identity) [readonly]", "Be kind."),
        section("MEMORY (Facts) [0% — 0/100 tokens] [writable]", ""),
    ]
    assert await session.freeze_system_prompt() == "\n\n".join(expected)


async def test_no_blocks_are_an_empty_prompt_which_is_kept_like_any_other(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    assert await chat.with_cached_prompt().freeze_system_prompt() == ""
    chat.with_context("soul", provider=Fixed("Be kind."))
    assert await chat.freeze_system_prompt() == ""
    async with reopened() as again:
        assert await again.session("chat", context=[SOUL], cached_prompt=True).freeze_system_prompt() == ""


@pytest.mark.parametrize("cached", [True, False])
async def test_writes_do_not_change_it_and_a_refresh_does(sessions: AsyncSessions, cached: bool) -> None:
    """B-126"""
    session = sessions.session("s", context=[SOUL, MEMORY], cached_prompt=cached)
    before = await session.freeze_system_prompt()
    await session.context.replace("memory", "User likes tea.")
    (tool,) = await session.tools()
    await tool.call({"label": "memory", "content": "User likes coffee.", "action": "append"})
    await chain(session, 3)
    assert await session.freeze_system_prompt() == before
    after = await session.refresh_system_prompt()
    assert "User likes tea.\nUser likes coffee." in after
    assert await session.freeze_system_prompt() == after


async def test_what_is_stored_wins_over_everything(
    sessions: AsyncSessions, reopened: Callable[[], AsyncSessions]
) -> None:
    session = sessions.session("s", context=[MEMORY], cached_prompt=True)
    before = await session.freeze_system_prompt()
    async with reopened() as again:
        other = again.session("s", context=[SOUL], cached_prompt=True)
        assert await other.freeze_system_prompt() == before
        refreshed = await other.refresh_system_prompt()
    assert await session.freeze_system_prompt() == refreshed != before


async def test_without_a_store_it_lives_as_long_as_the_handle(
    sessions: AsyncSessions, reopened: Callable[[], AsyncSessions]
) -> None:
    session = sessions.session("s", context=[MEMORY])
    before = await session.freeze_system_prompt()
    await session.context.replace("memory", "tea")
    async with reopened() as again:
        assert "tea" in await again.session("s", context=[MEMORY]).freeze_system_prompt()
    assert await session.freeze_system_prompt() == before


async def test_a_prompt_frozen_before_it_was_to_be_kept_is_kept(
    sessions: AsyncSessions, reopened: Callable[[], AsyncSessions]
) -> None:
    session = sessions.session("s", context=[MEMORY])
    before = await session.freeze_system_prompt()
    await session.context.replace("memory", "tea")
    assert await session.with_cached_prompt().freeze_system_prompt() == before
    async with reopened() as again:
        assert await again.session("s", cached_prompt=True).freeze_system_prompt() == before


async def test_it_can_be_kept_in_a_store_of_ones_own(sessions: AsyncSessions) -> None:
    kept = Notes()
    session = sessions.session("s", context=[SOUL], cached_prompt=kept)
    before = await session.freeze_system_prompt()
    assert kept.text == before
    kept.text = ""
    assert await session.freeze_system_prompt() == ""
    assert await session.refresh_system_prompt() == kept.text == before
    for bad in (5, Fixed(), "x"):
        with pytest.raises(plait.UsageError):
            session.with_cached_prompt(bad)  # type: ignore[arg-type]


async def test_a_prompt_belongs_to_its_session(sessions: AsyncSessions) -> None:
    one = sessions.session("one", context=[SOUL], cached_prompt=True)
    two = sessions.session("two", context=[MEMORY], cached_prompt=True)
    assert await one.freeze_system_prompt() != await two.freeze_system_prompt()
    assert await one.freeze_system_prompt() != await two.refresh_system_prompt()


async def test_a_prompt_outlives_a_clear(sessions: AsyncSessions) -> None:
    session = sessions.session("s", context=[MEMORY], cached_prompt=True)
    await session.append(plait.user("hello"))
    before = await session.freeze_system_prompt()
    await session.context.replace("memory", "tea")
    await session.clear()
    assert await session.freeze_system_prompt() == before


async def test_a_fork_goes_on_with_the_prompt_of_its_source(sessions: AsyncSessions) -> None:
    """Its messages are those of the source, so its prefix is, too."""
    session = sessions.session("s", context=[MEMORY], cached_prompt=True)
    await session.append(plait.user("hello"))
    before = await session.freeze_system_prompt()
    await session.context.replace("memory", "tea")
    fork = (await session.fork("fork")).with_context("memory").with_cached_prompt()
    assert await fork.freeze_system_prompt() == before
    assert "tea" in await fork.refresh_system_prompt()
    assert await session.freeze_system_prompt() == before


async def test_a_long_block_is_rendered_like_a_short_one(sessions: AsyncSessions) -> None:
    text = "word " * dose(short=60_000, soak=2_000_000)
    session = sessions.session("s", context=["memory"])
    await session.context.replace("memory", text)
    assert (await session.freeze_system_prompt()).endswith(f"{RULE}\n{text}")


async def test_a_listener_may_ask_for_the_prompt_that_was_just_frozen_or_refreshed(sessions: AsyncSessions) -> None:
    session = sessions.session("s", context=[MEMORY], cached_prompt=True)
    heard: list[str] = []

    async def listen(change: plait.Change) -> None:
        if change.kind == "context" and len(heard) < 4:
            heard.append(f"{change.label} {change.value_version}")
            await session.freeze_system_prompt()
            await session.refresh_system_prompt()

    session.subscribe(listen)
    await session.freeze_system_prompt()
    assert heard[0] == f"{PROMPT_LABEL} 1"
    await session.context.append("memory", "tea")
    assert "tea" in await session.freeze_system_prompt()


@pytest.mark.parametrize(
    ("method", "ask"), [("get", "freeze"), ("init", "freeze"), ("set", "refresh"), ("get", "refresh")]
)
async def test_a_provider_that_asks_for_the_prompt_it_is_read_for_is_told_so(
    sessions: AsyncSessions, method: str, ask: str
) -> None:
    """It would wait for itself for ever."""
    session = sessions.session("s")
    provider = Asking(session, method, ask)
    session.with_context("notes", provider=provider)
    with pytest.raises(plait.UsageError, match="ask when its method has returned"):
        await session.refresh_system_prompt()
        await session.context.append("notes", "x")
    provider.method = "none"
    await session.context.append("notes", "x")
    assert "x" in await session.refresh_system_prompt()


class Asking:
    """A text whose provider asks for the prompt while it is asked itself."""

    def __init__(self, session: AsyncSession, method: str, ask: str) -> None:
        self.session = session
        self.method = method
        self.ask = ask
        self.text = ""

    async def _asked(self, method: str) -> None:
        if method == self.method:
            session = self.session
            await (session.refresh_system_prompt() if self.ask == "refresh" else session.freeze_system_prompt())

    async def init(self, label: str) -> None:
        await self._asked("init")

    async def get(self) -> str:
        await self._asked("get")
        return self.text

    async def set(self, content: str) -> None:
        await self._asked("set")
        self.text = content


async def test_a_refresh_that_fails_leaves_the_prompt_as_it_was(sessions: AsyncSessions) -> None:
    source = Fixed("one")
    session = sessions.session("s", context=[BlockSpec("a", provider=source)], cached_prompt=True)
    before = await session.freeze_system_prompt()
    source.get = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(ZeroDivisionError):
        await session.refresh_system_prompt()
    assert await session.freeze_system_prompt() == before


async def test_refreshes_are_versions_of_a_value_of_the_session(chat: AsyncSession) -> None:
    start = await chat.cursor()
    chat.with_context("memory").with_cached_prompt()
    await chat.freeze_system_prompt()
    await chat.context.replace("memory", "tea")
    await chat.refresh_system_prompt()
    told = [(change.label, change.value_version) for change in (await chat.changes(after=start)).changes]
    assert told == [(PROMPT_LABEL, 1), ("memory", 1), (PROMPT_LABEL, 2)]


# -- reminders ---------------------------------------------------------------------


def reminding(*blocks: tuple[str, Any]) -> list[BlockSpec]:
    return [BlockSpec(label, provider=provider, remind=True) for label, provider in blocks]


async def test_nothing_is_reminded_of_before_a_prompt_is_frozen(sessions: AsyncSessions) -> None:
    session = sessions.session("s", context=reminding(("a", Fixed("x"))))
    assert await session.reminder() is None
    await session.freeze_system_prompt()
    assert await session.reminder() is None


async def test_a_changed_block_is_shown_until_a_refresh(sessions: AsyncSessions) -> None:
    clock, other = Labelled(), Notes("other")
    notes = Notes("one")
    specs = [*reminding(("clock", clock), ("notes", notes)), BlockSpec("other", provider=other)]
    session = sessions.session("s", context=specs)
    await session.freeze_system_prompt()
    notes.text, other.text = "two", "changed too"
    for _ in range(2):
        text = await session.reminder()
        assert text is not None
        assert text.endswith("\n\n" + section("NOTES [writable]", "two"))
        assert "CLOCK" not in text and "OTHER" not in text
    assert clock.asked.count("init clock") == 1
    await session.refresh_system_prompt()
    assert await session.reminder() is None
    assert clock.asked.count("init clock") == 2


async def test_a_restart_still_sees_the_change(sessions: AsyncSessions, reopened: Callable[[], AsyncSessions]) -> None:
    spec = BlockSpec("memory", remind=True)
    session = sessions.session("s", context=[spec], cached_prompt=True)
    await session.freeze_system_prompt()
    await session.context.replace("memory", "tea")
    async with reopened() as again:
        text = await again.session("s", context=[spec], cached_prompt=True).reminder()
    assert text is not None and text.endswith("tea")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("before", "after"),
    [("abc", "ab"), ("abc\n", "abc"), ("abc", "xabc"), ("abc", None), ("abc", ""), (None, "abc"), ("a\n\nb", "a\n\n")],
)
async def test_every_change_counts_wherever_the_block_stands(
    sessions: AsyncSessions, first: bool, before: str | None, after: str | None
) -> None:
    notes = Notes(before)
    specs = [*reminding(("notes", notes)), SOUL]
    session = sessions.session("s", context=specs if first else specs[::-1])
    await session.freeze_system_prompt()
    assert await session.reminder() is None
    notes.text = after
    text = await session.reminder()
    assert text is not None and text.endswith(section("NOTES [writable]", after or ""))


async def test_a_read_only_block_to_remind_of_is_rendered_when_empty(sessions: AsyncSessions) -> None:
    source = Fixed()
    session = sessions.session("s", context=reminding(("a", source), ("b", Fixed(""))))
    assert "A [readonly]" in await session.freeze_system_prompt()
    assert await session.reminder() is None
    source.text = "now"
    text = await session.reminder()
    assert text is not None and "B [" not in text


# -- the gate of compaction ----------------------------------------------------------


async def test_the_frozen_prompt_counts_for_automatic_compaction(sessions: AsyncSessions) -> None:
    asked: list[int] = []

    def function(messages: list[plait.Message]) -> None:
        asked.append(len(messages))

    soul = Fixed("word " * 200)
    session = sessions.session(
        "s", context=[BlockSpec("soul", provider=soul)], on_compaction=function, compact_after=300
    )
    await chain(session, 3)
    assert asked == []
    assert soul.asked == []  # a prompt that is not frozen is not rendered for this
    await session.freeze_system_prompt()
    await chain(session, 1, "n")
    assert asked == [4]


async def test_a_prompt_that_another_process_froze_counts_too(
    sessions: AsyncSessions, reopened: Callable[[], AsyncSessions]
) -> None:
    asked: list[int] = []
    specs = [BlockSpec("soul", provider=Fixed("word " * 200))]
    await sessions.session("s", context=specs, cached_prompt=True).freeze_system_prompt()
    async with reopened() as again:
        session = again.session("s", context=specs, cached_prompt=True, compact_after=300)
        session.on_compaction(lambda messages: asked.append(len(messages)))
        await chain(session, 1)
    assert asked == [1]


async def test_instructions_count_in_the_place_of_the_frozen_prompt(sessions: AsyncSessions) -> None:
    session = sessions.session("s", context=[BlockSpec("soul", provider=Fixed("word " * 200))])
    session.on_compaction(lambda messages: None).compact_after(600)
    await chain(session, 1)
    prompt = await session.freeze_system_prompt()
    assert (await session.compact_if_needed(instructions=prompt)).reason == "the view is small enough"
    assert (await session.compact_if_needed(instructions=prompt * 2)).reason != "the view is small enough"


# -- the prefix report -----------------------------------------------------------------


async def test_a_report_says_what_stayed_and_names_the_first_change(sessions: AsyncSessions) -> None:
    session = sessions.session("s", context=[SOUL, MEMORY])
    prompt = await session.freeze_system_prompt()
    await chain(session, 3)
    first = await session.prefix_report()
    assert first.intact and first.total_bytes > len(prompt.encode())
    await session.append(plait.assistant("more"))
    grown = await session.prefix_report()
    assert (grown.intact, grown.identical_bytes) == (True, first.total_bytes)
    await session.update({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "changed"}]})
    updated = await session.prefix_report()
    assert (updated.broken_by, updated.message_id) == ("update", "m1")
    await session.context.replace("memory", "tea")
    assert (await session.prefix_report()).intact
    await session.refresh_system_prompt()
    refreshed = await session.prefix_report()
    assert (refreshed.broken_by, refreshed.detail) == ("prompt", "the prompt was refreshed: MEMORY (Facts)")
    assert 0 < refreshed.identical_bytes < len(prompt.encode())
    tools = await session.prefix_report(tools=await session.tools())
    assert tools.broken_by == "tools"


async def test_overlays_deletes_branches_and_compaction_are_told_apart(sessions: AsyncSessions) -> None:
    session = sessions.session("s")
    ids = await chain(session, 6)

    async def cause() -> tuple[str | None, str | None]:
        report = await session.prefix_report()
        return report.broken_by, report.message_id

    await cause()
    await session.omit(ids[1])
    assert await cause() == ("overlay", ids[1])
    await session.delete(ids[2])
    assert await cause() == ("delete", ids[2])
    added = await session.add_overlay(ids[3], ids[4], summary="what was said")
    assert await cause() == ("compaction", plait.OVERLAY_PREFIX + added.overlay.id)
    await session.remove_overlay(added.overlay.id)
    assert await cause() == ("overlay", plait.OVERLAY_PREFIX + added.overlay.id)
    await session.append(plait.user("elsewhere", id="branch"), parent=ids[3])
    assert await cause() == ("branch", "branch")


def _steps() -> dict[str, Callable[[AsyncSession], Any]]:
    """Ways to another branch, each from the leaf `7` of a path `0` to `7` with messages of both sides covered."""

    async def earlier(session: AsyncSession) -> None:
        await session.checkout("1")

    async def within(session: AsyncSession) -> None:
        await session.checkout("3")

    async def sibling(session: AsyncSession) -> None:
        await session.append(plait.user("other", id="x"), parent="1")

    async def covered_sibling(session: AsyncSession) -> None:
        await sibling(session)
        await session.append(plait.user("another", id="y"))
        await session.add_overlay("x", "y", summary="what was said there")

    async def hidden_sibling(session: AsyncSession) -> None:
        await sibling(session)
        await session.append_many([plait.user("another", id="y"), plait.user("last", id="z")])
        await session.archive("x", "y")

    async def nothing(session: AsyncSession) -> None:
        await session.checkout(None)

    async def another_root(session: AsyncSession) -> None:
        await session.append(plait.user("anew", id="r"), parent=None)

    return {
        way.__name__: way for way in (earlier, within, sibling, covered_sibling, hidden_sibling, nothing, another_root)
    }


@pytest.mark.parametrize("way", list(_steps()))
@pytest.mark.parametrize("over", [None, ("2", "4"), ("1", "2"), ("5", "6"), ("hide", "2", "2")], ids=str)
async def test_another_branch_is_called_that_whatever_lies_over_it(
    sessions: AsyncSessions, way: str, over: tuple[str, ...] | None
) -> None:
    session = sessions.session("s")
    await session.append_many([plait.user(str(n), id=str(n)) for n in range(8)])
    if over is not None and over[0] == "hide":
        await session.archive(over[1], over[2])
    elif over is not None:
        await session.add_overlay(over[0], over[1], summary="what was said")
    shown = [message.id async for message in session.history()]
    await session.prefix_report()
    await _steps()[way](session)
    now = [message.id async for message in session.history()]
    report = await session.prefix_report()
    if now != shown:
        assert report.broken_by == "branch", report
        assert report.message_id in {*shown, *now}
    else:  # the leaf went back to a place within the overlay that is shown anyway
        assert report.intact
    await session.checkout("7")
    back = await session.prefix_report()
    if way in ("earlier", "within"):  # the same as if messages had been appended, and then compacted
        assert back.broken_by in ("compaction", None), back
    else:
        assert back.broken_by in ("branch", None), back


async def test_messages_deleted_before_others_are_appended_are_no_branch(sessions: AsyncSessions) -> None:
    session = sessions.session("s")
    await session.append_many([plait.user(str(n), id=str(n)) for n in range(4)])
    await session.prefix_report()
    await session.delete(["2", "3"])
    await session.append(plait.user("anew"))
    report = await session.prefix_report()
    assert (report.broken_by, report.message_id) == ("delete", "2")
    await session.clear()
    await session.append(plait.user("afresh"))
    assert (await session.prefix_report()).broken_by == "delete"


async def test_a_mark_lets_another_handle_go_on(sessions: AsyncSessions, reopened: Callable[[], AsyncSessions]) -> None:
    session = sessions.session("s", context=[MEMORY], cached_prompt=True)
    await session.freeze_system_prompt()
    await chain(session, 2)
    mark = (await session.prefix_report()).mark
    async with reopened() as again:
        other = again.session("s", context=[MEMORY], cached_prompt=True)
        assert (await other.prefix_report(since=mark)).intact
        await other.context.replace("memory", "tea")
        await other.refresh_system_prompt()
        assert (await other.prefix_report(since=mark)).broken_by == "prompt"


# -- the report of what a model is shown ----------------------------------------------

CALLS = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ("c1", "c2")]


def chat_caller(calls: int = 1) -> dict[str, Any]:
    return {"id": "a", "role": "assistant", "content": None, "tool_calls": CALLS[:calls]}


def chat_result(call: str = "c1", **given: Any) -> dict[str, Any]:
    return {"id": f"of {call}", "role": "tool", "tool_call_id": call, "content": "done", **given}


def native_caller(text: str = "x", **given: Any) -> dict[str, Any]:
    call = {"type": "tool-f", "toolCallId": "c1", "state": "input-available", "input": {}, **given}
    return {"id": "a", "role": "assistant", "parts": [{"type": "text", "text": text}, call]}


NATIVE_RESULT = {"id": "of c1", "role": "tool", "parts": [{"type": "tool-result", "toolCallId": "c1", "output": 1}]}
CLAUDE_CALLER = {
    "id": "a",
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}],
}
CLAUDE_RESULT = {
    "id": "of c1",
    "role": "user",
    "content": [{"type": "text", "text": "so"}, {"type": "tool_result", "tool_use_id": "c1", "content": "done"}],
}


async def sent(session: AsyncSession) -> list[str]:
    return [message.to_json() async for message in session.history(for_model=True)]


@pytest.mark.parametrize(
    ("caller", "result"),
    [(chat_caller(), chat_result()), (native_caller(), NATIVE_RESULT), (CLAUDE_CALLER, CLAUDE_RESULT)],
    ids=["chat", "native", "claude"],
)
@pytest.mark.parametrize("later", [False, True])
async def test_a_result_that_comes_for_an_open_call_is_named(
    sessions: AsyncSessions, caller: dict[str, Any], result: dict[str, Any], later: bool
) -> None:
    session = sessions.session("s")
    await session.append_many([plait.user("hi"), caller, *([plait.user("go on")] if later else [])])
    before = await sent(session)
    await session.prefix_report(for_model=True)
    plain = (await session.prefix_report()).mark
    await session.prefix_report(for_model=True)
    await session.append(result)
    report = await session.prefix_report(for_model=True)
    assert (await sent(session))[: len(before)] != before
    assert (report.broken_by, report.message_id) == ("result", "a")
    assert report.detail == "a result came for a call of message 'a' that was open"
    assert (await session.prefix_report(since=plain)).intact, "what is stored grew only"
    await session.prefix_report(for_model=True)
    await session.delete("of c1")
    report = await session.prefix_report(for_model=True)
    assert (report.broken_by, report.message_id) in {("delete", "of c1"), ("result", "a")}, report


async def test_results_of_one_message_that_come_one_by_one_are_named(sessions: AsyncSessions) -> None:
    session = sessions.session("s")
    await session.append_many([plait.user("hi"), chat_caller(2)])
    await session.prefix_report(for_model=True)
    for call in ("c1", "c2"):
        await session.append(chat_result(call))
        report = await session.prefix_report(for_model=True)
        assert (report.broken_by, report.message_id) == ("result", "a")
    await session.append(plait.user("thanks"))
    assert (await session.prefix_report(for_model=True)).intact


async def test_what_becomes_of_an_open_call_is_told_apart(sessions: AsyncSessions) -> None:
    session = sessions.session("s")

    async def cause() -> tuple[str | None, str | None]:
        report = await session.prefix_report(for_model=True)
        return report.broken_by, report.message_id

    await session.append_many([plait.user("hi", id="u"), chat_caller(), plait.user("go on", id="v")])
    await cause()
    await session.append(chat_result(), parent="a")
    assert await cause() == ("branch", "of c1")
    await session.checkout("v")
    assert await cause() == ("branch", "a")
    await session.omit("a")
    assert await cause() == ("overlay", "a")
    await session.clear()
    await session.append_many([plait.user("hi", id="u"), native_caller()])
    await cause()
    await session.update(native_caller("y"))
    assert await cause() == ("update", "a")
    await session.update(native_caller("y", state="output-available", output=1))
    assert await cause() == ("result", "a")
    await session.update(native_caller("z", state="output-available", output=1))
    assert await cause() == ("update", "a")


@pytest.mark.parametrize("for_model", [False, True])
async def test_a_report_is_of_the_path_to_a_leaf(sessions: AsyncSessions, for_model: bool) -> None:
    session = sessions.session("s")
    await session.append_many([plait.user(str(n), id=str(n)) for n in range(4)])
    await session.append(plait.user("elsewhere", id="x"), parent="1")
    whole = await session.prefix_report(leaf="3", for_model=for_model)
    assert whole.total_bytes == sum([len(m.to_json()) async for m in session.history("3")])
    assert (await session.prefix_report(leaf="3", for_model=for_model)).intact
    there = await session.prefix_report(for_model=for_model)
    assert (there.broken_by, there.message_id) == ("branch", "x")
    shorter = await session.prefix_report(leaf="1", for_model=for_model)
    assert (shorter.broken_by, shorter.message_id) == ("branch", "x")
    assert (await session.prefix_report(leaf="3", for_model=for_model)).intact
    nothing = await session.prefix_report(leaf=None, for_model=for_model)
    assert (nothing.broken_by, nothing.total_bytes) == ("branch", 0)
    unknown = await session.prefix_report(leaf="nowhere", for_model=for_model)
    assert unknown.total_bytes == 0, "as history answers"
    with pytest.raises(plait.UsageError):
        await session.prefix_report(for_model="yes")  # type: ignore[arg-type]


async def test_a_report_of_an_empty_session_is_one_of_nothing(chat: AsyncSession) -> None:
    report = await chat.prefix_report()
    assert (report.identical_bytes, report.previous_bytes, report.total_bytes, report.intact) == (0, 0, 0, True)
    assert await chat.info() is None


# -- what must not matter ----------------------------------------------------------------


async def test_time_and_the_order_of_dicts_do_not_matter(
    sessions: AsyncSessions, reopened: Callable[[], AsyncSessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"label": "memory", "description": "Facts", "max_tokens": 100, "kind": "text"}
    session = sessions.session("s", context=[fields])
    await session.context.replace("memory", "tea")
    before = await session.freeze_system_prompt()
    later = dt.datetime(2031, 2, 3, tzinfo=dt.timezone.utc).timestamp()
    monkeypatch.setattr("time.time", lambda: later)
    monkeypatch.setattr("time.time_ns", lambda: int(later * 1e9))
    async with reopened() as again:
        other = again.session("s", context=[dict(reversed(fields.items()))])
        assert await other.freeze_system_prompt() == before
        assert await other.refresh_system_prompt() == before


async def test_a_frozen_prompt_stays_whatever_order_its_blocks_are_named_in(
    sessions: AsyncSessions, reopened: Callable[[], AsyncSessions]
) -> None:
    blocks = {"memory": {"label": "memory"}, "soul": {"label": "soul"}, "todo": {"label": "todo"}}
    session = sessions.session("s", context=list(blocks.values()), cached_prompt=True)
    for label in blocks:
        await session.context.replace(label, f"of {label}")
    before = await session.freeze_system_prompt()
    assert [before.index(f"of {label}") for label in blocks] == sorted(before.index(f"of {label}") for label in blocks)
    async with reopened() as again:
        other = again.session("s", context=list(dict(reversed(blocks.items())).values()), cached_prompt=True)
        assert await other.freeze_system_prompt() == before
        assert (await other.refresh_system_prompt()) != before


async def test_another_leaf_is_no_deleted_message(sessions: AsyncSessions) -> None:
    session = sessions.session("s")
    await session.append_many([plait.user(str(n), id=str(n)) for n in range(4)])
    await session.prefix_report()
    await session.checkout("1")
    report = await session.prefix_report()
    assert (report.broken_by, report.message_id) == ("branch", "2")
    await session.checkout("3")
    await session.prefix_report()
    await session.delete(["3"])
    report = await session.prefix_report()
    assert (report.broken_by, report.message_id) == ("delete", "3")
