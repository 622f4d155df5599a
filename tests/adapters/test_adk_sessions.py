"""ADK's session service on plait: sessions, states, stale objects, branches, limits, many writers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs google-adk: pip install 'plait[adk]'")

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

import plait
from plait.adapters.adk import Compaction, PlaitMemoryService, PlaitSessionService, packed
from plait.adapters.adk.sessions import OnStale

APP, USER = "shop", "ann"


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[plait.AsyncSessions]:
    async with plait.open_async(store_at, durability="process") as opened:
        yield opened


@pytest.fixture
def service(sessions: plait.AsyncSessions) -> PlaitSessionService:
    return PlaitSessionService(sessions)


def event(text: str = "", author: str = "agent", id: str = "", **delta: Any) -> Event:
    content = types.Content(role="model", parts=[types.Part(text=text)]) if text else None
    return Event(id=id, invocation_id="i", author=author, content=content, actions=EventActions(state_delta=delta))


async def read(service: PlaitSessionService, id: str = "s", **config: Any) -> Session:
    asked = GetSessionConfig(**config) if config else None
    found = await service.get_session(app_name=APP, user_id=USER, session_id=id, config=asked)
    assert found is not None
    return found


def texts(session: Session) -> list[str | None]:
    return [event.content.parts[0].text if event.content and event.content.parts else None for event in session.events]


async def test_a_session_comes_back_as_it_was(service: PlaitSessionService) -> None:
    made = await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"k": [1], "none": None})
    assert (made.id, made.app_name, made.user_id, made.state) == ("s", APP, USER, {"k": [1], "none": None})
    said = [await service.append_event(made, event(f"line {n}", k=n)) for n in range(5)]
    found = await read(service)
    assert found.events == said == made.events
    assert found.state == made.state == {"k": 4, "none": None}
    assert found.last_update_time == made.last_update_time == said[-1].timestamp


async def test_a_made_id_and_a_taken_one(service: PlaitSessionService) -> None:
    first = await service.create_session(app_name=APP, user_id=USER)
    blank = await service.create_session(app_name=APP, user_id=USER, session_id="  ")
    assert first.id != blank.id and blank.id.strip()
    with pytest.raises(AlreadyExistsError):
        await service.create_session(app_name=APP, user_id=USER, session_id=first.id)
    await service.create_session(app_name=APP, user_id="bob", session_id=first.id)
    await service.create_session(app_name="other", user_id=USER, session_id=first.id)
    for absent in ("nobody", "", " ", "../../etc/x", "%", "x" * 300):
        assert await service.get_session(app_name=APP, user_id=USER, session_id=absent) is None


async def test_states_are_of_the_app_the_user_and_the_session(service: PlaitSessionService) -> None:
    state = {"app:a": 1, "user:u": {"x": None}, "s": 3, "temp:t": 4}
    one = await service.create_session(app_name=APP, user_id=USER, session_id="one", state=state)
    two = await service.create_session(app_name=APP, user_id=USER, session_id="two")
    bob = await service.create_session(app_name=APP, user_id="bob", session_id="two")
    assert one.state == {"app:a": 1, "user:u": {"x": None}, "s": 3}
    assert two.state == {"app:a": 1, "user:u": {"x": None}} and bob.state == {"app:a": 1}
    delta: dict[str, Any] = {"app:a": 2, "user:v": b"\x00", "s": None, "temp:t": 5}
    stored = await service.append_event(one, event("Hi", **delta))
    assert "temp:t" not in stored.actions.state_delta
    assert one.state == {"app:a": 2, "user:u": {"x": None}, "user:v": b"\x00", "s": None, "temp:t": 5}
    assert (await read(service, "one")).state == {"app:a": 2, "user:u": {"x": None}, "user:v": b"\x00", "s": None}
    assert (await read(service, "two")).state == {"app:a": 2, "user:u": {"x": None}, "user:v": b"\x00"}
    assert await service.get_user_state(app_name=APP, user_id=USER) == {"u": {"x": None}, "v": b"\x00"}
    assert await service.get_user_state(app_name=APP, user_id="nobody") == {}
    assert await service.get_user_state(app_name="other", user_id=USER) == {}


@pytest.mark.parametrize(
    "strange",
    [
        {"author": "agent", "content": {"role": "model", "parts": [{"text": "Hi"}]}},
        {"author": "agent", "invocationId": "i", "timestamp": None, "content": {"parts": [{"text": "Hi"}]}},
        {"author": "agent", "timestamp": 10**400, "content": {"parts": [{"text": "Hi"}]}},
        {"author": "agent", "timestamp": "noon", "id": None, "content": {"parts": [{"text": "Hi"}]}},
        {"timestamp": [], "actions": None, "content": {"parts": [{"text": "Hi"}]}},
        {"author": 7, "actions": {"stateDelta": [1], "artifactDelta": 3}, "content": {"parts": [{"text": "Hi"}]}},
        event("Hi", k=1).model_dump(mode="json"),
    ],
    ids=["bare", "null", "huge", "words", "no author", "malformed", "snake case"],
)
async def test_an_event_without_what_adk_writes_hides_no_session(
    sessions: plait.AsyncSessions, strange: dict[str, Any]
) -> None:
    service = PlaitSessionService(sessions, compaction=Compaction(tokens=10**9, summary_model="none"))
    await service.create_session(app_name=APP, user_id=USER, session_id="plain")
    handle = sessions.scoped(APP, USER).session("s")
    stored = await handle.append(strange, format="adk", id="m")
    message = await handle.get(stored.id)
    assert isinstance(message, plait.Message)
    session = await read(service)
    assert texts(session) == ["Hi"] and session.events == (await read(service)).events
    if not isinstance(strange.get("timestamp"), float):
        assert session.events[0].timestamp == session.last_update_time == message.created_at.timestamp()
    assert session.state == ({"k": 1} if "invocation_id" in strange else {})
    assert len((await service.list_sessions(app_name=APP, user_id=USER)).sessions) == 2
    assert texts(await read(service, after_timestamp=1.0)) == ["Hi"]
    await service.append_event(session, event("More", id="more"))
    await handle.add_overlay(stored.id, stored.id, summary="They met.")
    assert texts(await read(service)) == ["They met.", "More"]


async def test_users_whose_sessions_began_elsewhere_are_listed(
    sessions: plait.AsyncSessions, service: PlaitSessionService
) -> None:
    await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"app:a": 1})
    for of, user in ((APP, "bob"), (APP, USER), ("other", "eve"), (f"{APP}2", "eve"), ("", "eve")):
        await sessions.scoped(of, user).session("elsewhere").append(plait.user("Hello"))
    await sessions.session("default").append(plait.user("Hello"))
    found = (await service.list_sessions(app_name=APP)).sessions
    assert sorted((one.user_id, one.id) for one in found) == [(USER, "elsewhere"), (USER, "s"), ("bob", "elsewhere")]
    below = PlaitSessionService(sessions.scoped("tenant", "owner"))
    await below.create_session(app_name=APP, user_id="zoe", session_id="s")
    assert [one.user_id for one in (await below.list_sessions(app_name=APP)).sessions] == ["zoe"]


async def test_a_state_that_is_no_json_is_kept_by_its_repr(
    service: PlaitSessionService, caplog: pytest.LogCaptureFixture
) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"f": print})
    await service.append_event(session, event("Hi", g=print))
    assert (await read(service)).state == {"f": repr(print), "g": repr(print)}
    assert "repr is stored" in caplog.text


async def test_partial_events_are_not_stored(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    part = event("Hel").model_copy(update={"partial": True})
    assert await service.append_event(session, part) is part
    assert session.events == [] and (await read(service)).events == []


async def test_a_repeat_is_stored_once_and_another_with_its_id_is_refused(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    first = event("One", id="e1", n=1)
    await service.append_event(session, first)
    await service.append_event(session, event("Two", n=2))
    copy = await read(service)
    await service.append_event(copy, first.model_copy(deep=True))
    assert texts(await read(service)) == ["One", "Two"] and (await read(service)).state == {"n": 2}
    with pytest.raises(AlreadyExistsError):
        await service.append_event(await read(service), event("Other", id="e1"))
    other = await service.create_session(app_name=APP, user_id=USER, session_id="other")
    await service.append_event(other, event("Other", id="e1"))


# -- stale objects


async def test_a_stale_session_is_refused(service: PlaitSessionService) -> None:
    await service.create_session(app_name=APP, user_id=USER, session_id="s")
    one, two = await read(service), await read(service)
    await service.append_event(one, event("One", n=1))
    for _ in range(2):
        with pytest.raises(StaleSessionError, match="read it again"):
            await service.append_event(two, event("Two", n=2, **{"user:n": 2}))
    assert texts(two) == [] and two.state == {}
    found = await read(service)
    assert texts(found) == ["One"] and found.state == {"n": 1}
    await service.append_event(found, event("Three"))
    with pytest.raises(StaleSessionError):
        await service.append_event(one, event("Four"))


async def test_a_session_object_made_by_hand_is_held_to_its_events(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    await service.append_event(session, event("One"))
    sent = Session.model_validate_json(session.model_dump_json())  # over the wire: private marks are gone
    await service.append_event(sent, event("Two"))
    with pytest.raises(StaleSessionError):
        await service.append_event(Session(id="s", app_name=APP, user_id=USER), event("Three"))


async def test_writes_of_plaits_own_make_no_session_stale(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    await service.append_event(session, event("One", id="e1"))
    handle = service.handle(session)
    handle.with_context("memory")
    await handle.context.append("memory", "Likes tea.")
    await handle.update_state({"mine": 1})
    await service.sessions.scoped(APP, USER).rename("s", "A name")
    await handle.add_overlay("e1", "e1", summary="Said one.")
    await service.append_event(session, event("Two", n=2))
    found = await read(service)
    assert texts(found) == ["Said one.", "Two"] and found.state == {"n": 2}


async def test_merging_brings_the_object_up_to_date(sessions: plait.AsyncSessions) -> None:
    service = PlaitSessionService(sessions, on_stale="merge")
    await service.create_session(app_name=APP, user_id=USER, session_id="s")
    one, two = await read(service), await read(service)
    await service.append_event(one, event("One", a=1, **{"user:u": 1}))
    await service.append_event(two, event("Two", b=2))
    assert texts(two) == ["One", "Two"] and two.state == {"a": 1, "b": 2, "user:u": 1}
    await service.append_event(one, event("Three"))
    assert texts(one) == ["One", "Two", "Three"] and one.state == two.state
    assert (await read(service)).events == one.events


async def test_a_branch_goes_on_beside_the_one_that_is_read(sessions: plait.AsyncSessions) -> None:
    service = PlaitSessionService(sessions, on_stale="branch")
    await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"n": 0})
    first = await read(service)
    await service.append_event(first, event("Start", n=1))
    one, two = await read(service), await read(service)
    await service.append_event(one, event("One", n=2))
    await service.append_event(two, event("Two", n=3))
    await service.append_event(two, event("Two more", m=4, **{"user:u": 1}))
    assert texts(two) == ["Start", "Two", "Two more"] and two.state == {"n": 3, "m": 4} | {"user:u": 1}
    found = await read(service)
    assert texts(found) == ["Start", "One"] and found.state == {"n": 2, "user:u": 1}
    leaves = [leaf.id for leaf in await service.handle(found).leaves()]
    assert leaves == [one.events[-1].id, two.events[-1].id]
    at = {"app_name": APP, "user_id": USER, "session_id": "s"}
    beside = await service.get_session_at(**at, leaf=leaves[1])
    assert beside is not None and beside.events == two.events and beside.state == two.state
    await service.handle(found).checkout(leaves[1])
    moved = await read(service)
    assert moved.events == two.events and moved.state == {"n": 3, "m": 4, "user:u": 1}
    await service.append_event(moved, event("On", n=5))
    assert (await read(service)).state == {"n": 5, "m": 4, "user:u": 1}
    assert (await read(service, num_recent_events=1)).state == {"n": 5, "m": 4, "user:u": 1}


async def test_parallel_appends_of_one_object_are_all_stored(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    await asyncio.gather(*(service.append_event(session, event(f"{n}", **{f"k{n}": n})) for n in range(30)))
    found = await read(service)
    assert len(found.events) == 30 and found.events == session.events
    assert found.state == {f"k{n}": n for n in range(30)}


async def test_many_that_merge_lose_nothing(sessions: plait.AsyncSessions) -> None:
    services = [PlaitSessionService(sessions, on_stale="merge") for _ in range(4)]
    await services[0].create_session(app_name=APP, user_id=USER, session_id="s")

    async def talk(n: int) -> None:
        session = await read(services[n])
        for m in range(10):
            await services[n].append_event(session, event(f"{n} {m}", **{f"{n} {m}": 1, "user:last": n}))

    await asyncio.gather(*map(talk, range(4)))
    found = await read(services[0])
    assert sorted(texts(found)) == sorted(f"{n} {m}" for n in range(4) for m in range(10))  # type: ignore[type-var]
    assert {key for key in found.state if key != "user:last"} == set(texts(found))
    assert len(await services[0].handle(found).leaves()) == 1


# -- reading


@pytest.mark.parametrize("recent", [0, 1, 3, 10, 99, None])
async def test_the_newest_events_come_in_order(service: PlaitSessionService, recent: int | None) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    for n in range(10):
        await service.append_event(session, event(f"{n}", n=n).model_copy(update={"timestamp": 100.0 + n // 2}))
    found = await read(service, num_recent_events=recent)
    assert texts(found) == [f"{n}" for n in range(10)][(0 if recent is None else 10 - min(recent, 10)) :]
    assert found.state == {"n": 9}
    await service.append_event(found, event("more").model_copy(update={"timestamp": 200.0}))
    assert texts(await read(service, after_timestamp=103.0)) == ["6", "7", "8", "9", "more"]
    assert texts(await read(service, after_timestamp=103.0, num_recent_events=2)) == ["9", "more"]


async def test_order_is_that_of_arrival_whatever_the_clock_says(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    for n in range(50):
        await service.append_event(session, event(f"{n}").model_copy(update={"timestamp": 100.0 - n % 3}))
    assert texts(await read(service)) == [f"{n}" for n in range(50)]


async def test_a_list_is_by_last_update_and_has_the_states(service: PlaitSessionService) -> None:
    for user in (USER, "bob"):
        for n in range(4):
            made = await service.create_session(
                app_name=APP, user_id=user, session_id=f"s{n}", state={"n": n, "user:who": user, "app:a": 1}
            )
            stamped = event("Hi", m=n).model_copy(update={"timestamp": 1000.0 + (3 * n) % 4})
            await service.append_event(made, stamped)
    await service.create_session(app_name="other", user_id=USER, session_id="x")
    own = (await service.list_sessions(app_name=APP, user_id=USER)).sessions
    assert [session.id for session in own] == ["s0", "s3", "s2", "s1"]
    assert own[1].state == {"n": 3, "m": 3, "user:who": USER, "app:a": 1}
    assert all(session.events == [] for session in own)
    everybody = (await service.list_sessions(app_name=APP)).sessions
    assert [(session.user_id, session.id) for session in everybody] == [
        (user, id) for id in ("s0", "s3", "s2", "s1") for user in (USER, "bob")
    ]
    assert (await service.list_sessions(app_name="nobody")).sessions == []
    assert (await service.list_sessions(app_name=APP, user_id="nobody")).sessions == []


async def test_a_deleted_session_stays_deleted(service: PlaitSessionService) -> None:
    empty = await service.create_session(app_name=APP, user_id=USER, session_id="empty")
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"k": 1, "user:u": 1})
    await service.append_event(session, event("One", k=2))
    held = await read(service)
    for id in ("s", "empty", "s", "nobody"):
        await service.delete_session(app_name=APP, user_id=USER, session_id=id)
    assert await service.get_session(app_name=APP, user_id=USER, session_id="s") is None
    for late in (held, session, empty):
        with pytest.raises(SessionNotFoundError):
            await service.append_event(late, event("Late"))
    assert (await service.list_sessions(app_name=APP, user_id=USER)).sessions == []
    again = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    assert again.state == {"user:u": 1} and again.events == []
    with pytest.raises((StaleSessionError, SessionNotFoundError)):
        await service.append_event(held, event("Late"))
    with pytest.raises(SessionNotFoundError):
        await service.append_event(Session(id="nobody", app_name=APP, user_id=USER), event("Hi"))


async def test_names_are_data(service: PlaitSessionService) -> None:
    names = ["a_b", "aXb", "%", "A_B", "a/b", '["x"]', "../../etc/x", "adk", "日本"]
    for app in names:
        for user in names[:4]:
            session = await service.create_session(app_name=app, user_id=user, session_id="s", state={"user:x": app})
            await service.append_event(session, event(f"{app} {user}"))
    for app in names:
        found = (await service.list_sessions(app_name=app)).sessions
        assert sorted(session.user_id for session in found) == sorted(names[:4])
        for user in names[:4]:
            one = await service.get_session(app_name=app, user_id=user, session_id="s")
            assert one is not None and texts(one) == [f"{app} {user}"]
    with pytest.raises(ValueError, match="user_id"):
        await service.create_session(app_name=APP, user_id="")


async def test_a_scope_of_the_callers_own_keeps_its_apps_apart(sessions: plait.AsyncSessions) -> None:
    tenants = [PlaitSessionService(sessions.scoped(*scope)) for scope in (("", ""), ("acme", ""), ("acme", "x"))]
    for n, service in enumerate(tenants):
        session = await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"app:n": n})
        await service.append_event(session, event(f"{n}"))
    for n, service in enumerate(tenants):
        found = await read(service)
        assert texts(found) == [f"{n}"] and found.state == {"app:n": n}
        assert len((await service.list_sessions(app_name=APP)).sessions) == 1


async def test_what_was_noted_of_other_states_is_done_by_whoever_comes_next(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    killed = packed(event("One", id="e1", n=1, **{"user:u": 1, "app:a": None}))
    noted = {"adk.pending:e1": {"app": {"adk:a": [None]}, "user": {"adk:u": [1]}}}
    await service.handle(session).append(killed, state={"adk": "e1", "adk:n": [1], **noted})
    for _ in range(2):
        assert (await read(service)).state == {"n": 1, "user:u": 1, "app:a": None}
    assert await service.handle(session).state() == {"adk": "e1", "adk:n": [1]}


async def test_a_fork_has_the_state_of_its_path(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    for n in range(4):
        await service.append_event(session, event(f"{n}", id=f"e{n}", n=n))
    await service.handle(session).fork("half", at="e1")
    half = await read(service, "half")
    assert texts(half) == ["0", "1"] and half.state == {"n": 1}
    await service.append_event(half, event("On", m=1))
    assert (await read(service, "half")).state == {"n": 1, "m": 1}
    assert (await read(service)).state == {"n": 3}


async def test_messages_of_others_are_events_too(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    handle = service.handle(session)
    await handle.append(plait.user("Hello"))
    await handle.append({"role": "assistant", "content": "Hi!"})
    found = await read(service)
    assert texts(found) == ["Hello", "Hi!"] and [event.author for event in found.events] == ["user", "agent"]
    await service.append_event(found, event("Go on", k=1))
    assert texts(await read(service)) == ["Hello", "Hi!", "Go on"] and (await read(service)).state == {"k": 1}


async def test_adks_own_service_answers_the_same(service: PlaitSessionService) -> None:
    """One script of creations, appends, reads and deletions on both, the answers compared."""
    oracle = InMemorySessionService()
    assert await script(service) == await script(oracle)


async def script(service: Any) -> list[Any]:
    seen: list[Any] = []
    names = {"app_name": APP, "user_id": USER}
    for n in range(6):
        session = await service.create_session(**names, session_id=f"s{n % 4}x{n}", state={"n": n, f"app:{n}": n})
        for m in range(n):
            delta = {"n": m, f"user:{m}": n, "temp:x": 1, "gone": None if m % 2 else m}
            said = event(f"{n} {m}", id=f"e{n}{m}", **delta).model_copy(update={"timestamp": 50.0 + m})
            await service.append_event(session, said)
        seen.append((session.state, session.events))
        if n % 3 == 2:
            await service.delete_session(**names, session_id=f"s{(n - 1) % 4}x{n - 1}")
        for id in ("s0x0", "s1x1", "s2x2", "s3x3"):
            for config in (None, GetSessionConfig(num_recent_events=2), GetSessionConfig(after_timestamp=51.0)):
                found = await service.get_session(**names, session_id=id, config=config)
                seen.append(None if found is None else (found.id, found.state, found.events))
        listed = (await service.list_sessions(**names)).sessions
        seen.append(sorted((found.id, str(found.state)) for found in listed))
    seen.append(await service.get_user_state(**names))
    return seen


async def test_the_state_holds_nothing_of_each_event(service: PlaitSessionService) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"n": 0})
    for _ in range(60):
        await service.append_event(session, event("x" * 100))
    assert list(await service.handle(session).state()) == ["adk"]


# -- names that nobody has


@pytest.mark.parametrize("nobody", ["", " ", "plait:default", "plait:shared", "plait:stage:x", "\ud800", "é" * 300])
async def test_names_that_nobody_can_have_are_refused_and_read_as_nothing(
    service: PlaitSessionService, nobody: str
) -> None:
    await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"app:secret": 1})
    with pytest.raises(InputValidationError):
        await service.create_session(app_name=APP, user_id=nobody, session_id="s", state={"user:secret": 2})
    for names in ({"app_name": APP, "user_id": nobody}, {"app_name": "plait:x" if nobody else "", "user_id": USER}):
        assert await service.get_user_state(**names) == {}
        assert await service.get_session(**names, session_id="s") is None
        assert (await service.list_sessions(**names)).sessions == []
        await service.delete_session(**names, session_id="s")
    own = {"app_name": APP, "user_id": USER}
    assert await service.get_session(**own, session_id=nobody) is None
    assert await service.get_session_at(**own, session_id=nobody, leaf="x") is None
    await service.delete_session(**own, session_id=nobody)
    for names in ({"user_id": nobody, "id": "s"}, {"user_id": USER, "id": nobody}):
        with pytest.raises(SessionNotFoundError):
            await service.append_event(Session(app_name=APP, **names), event("Hi", **{"user:secret": 3}))
    assert (await read(service)).state == {"app:secret": 1}


async def test_an_app_without_a_name_is_not_the_store_itself(sessions: plait.AsyncSessions) -> None:
    service = PlaitSessionService(sessions)
    session = await service.create_session(app_name="", user_id="mine", session_id="s", state={"user:u": 1})
    await service.append_event(session, event("Hi", **{"app:a": 1}))
    assert [info.id async for info in sessions.all()] == []
    found = await service.get_session(app_name="", user_id="mine", session_id="s")
    assert found is not None and found.state == {"user:u": 1, "app:a": 1}


# -- the state of the path


@pytest.mark.parametrize("on_stale", ["raise", "merge", "branch"])
@pytest.mark.parametrize("how", ["checkout", "clear"])
async def test_the_state_begins_anew_with_the_conversation(
    sessions: plait.AsyncSessions, on_stale: OnStale, how: str
) -> None:
    service = PlaitSessionService(sessions, on_stale=on_stale)
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s", state={"n": 0, "m": 0})
    await service.append_event(session, event("One", id="e1", n=1, k=1))
    await service.handle(session).update_state({"mine": 1})
    await (service.handle(session).checkout(None) if how == "checkout" else service.handle(session).clear())
    anew = await read(service)
    assert anew.state == {"n": 0, "m": 0} and anew.events == []
    await service.append_event(anew, event("Anew"))
    assert (await read(service)).state == {"n": 0, "m": 0}
    await service.append_event(anew, event("More", m=2))
    assert (await read(service)).state == {"n": 0, "m": 2}
    assert (await service.handle(anew).state())["mine"] == 1
    if how == "checkout":
        first = await service.get_session_at(app_name=APP, user_id=USER, session_id="s", leaf="e1")
        assert first is not None and first.state == {"n": 1, "m": 0, "k": 1}


async def test_a_branch_from_after_the_last_change_has_a_state_of_its_own(sessions: plait.AsyncSessions) -> None:
    service = PlaitSessionService(sessions, on_stale="branch")
    await service.create_session(app_name=APP, user_id=USER, session_id="s")
    await service.append_event(await read(service), event("Start", n=1))
    one, two = await read(service), await read(service)
    await service.append_event(one, event("One"))
    await service.append_event(two, event("Two", id="two", n=2))
    at = {"app_name": APP, "user_id": USER, "session_id": "s"}
    beside = await service.get_session_at(**at, leaf="two")
    assert beside is not None and beside.state == two.state == {"n": 2}
    assert (await read(service)).state == {"n": 1}
    await service.append_event(one, event("On", m=1))
    assert (await read(service)).state == {"n": 1, "m": 1}
    beside = await service.get_session_at(**at, leaf="two")
    assert beside is not None and beside.state == {"n": 2}
    await service.handle(one).checkout("two")
    assert (await read(service)).state == {"n": 2}


# -- repeats


@pytest.mark.parametrize("on_stale", ["raise", "merge", "branch"])
async def test_a_repeat_from_before_the_end_moves_nothing(sessions: plait.AsyncSessions, on_stale: OnStale) -> None:
    service = PlaitSessionService(sessions, on_stale=on_stale)
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    said = [event(f"{n}", id=f"e{n}", n=n, **{"user:u": n}) for n in range(3)]
    for one in said:
        await service.append_event(session, one)
    for n in (0, 1, 2):
        await service.append_event(session, said[n].model_copy(deep=True))
        assert session.last_update_time == said[2].timestamp and session.events == said
        assert session.state == {"n": 2, "user:u": 2}
    await service.append_event(session, event("On", id="on", m=1))
    found = await read(service)
    assert texts(found) == ["0", "1", "2", "On"] and found.state == {"n": 2, "m": 1, "user:u": 2}


@pytest.mark.parametrize("on_stale", ["raise", "merge", "branch"])
async def test_a_repeat_of_what_got_lost_on_the_way_goes_on(sessions: plait.AsyncSessions, on_stale: OnStale) -> None:
    service = PlaitSessionService(sessions, on_stale=on_stale)
    await service.create_session(app_name=APP, user_id=USER, session_id="s")
    one, two = await read(service), await read(service)
    said = event("One", id="e1", n=1)
    await service.append_event(one, said)
    await service.append_event(two, said.model_copy(deep=True))
    assert two.events == one.events and two.last_update_time == said.timestamp
    await service.append_event(two, event("Two"))
    assert texts(await read(service)) == ["One", "Two"]


async def test_a_repeat_of_anothers_event_hides_nothing_between(sessions: plait.AsyncSessions) -> None:
    service = PlaitSessionService(sessions)
    await service.create_session(app_name=APP, user_id=USER, session_id="s")
    one, two = await read(service), await read(service)
    await service.append_event(one, event("One", id="e1"))
    await service.append_event(one, event("Two", id="e2"))
    await service.append_event(two, one.events[1].model_copy(deep=True))
    with pytest.raises(StaleSessionError):
        await service.append_event(two, event("Three"))
    merging = PlaitSessionService(sessions, on_stale="merge")
    await merging.append_event(two, one.events[1].model_copy(deep=True))
    assert two.events == one.events


# -- the states of app and user


class Killed(Exception):
    pass


async def killed(*_: Any, **__: Any) -> Any:
    raise Killed


@pytest.mark.parametrize("on_stale", ["raise", "merge", "branch"])
async def test_whoever_is_killed_in_the_middle_loses_no_state(
    sessions: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch, on_stale: OnStale
) -> None:
    service = PlaitSessionService(sessions, on_stale=on_stale)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(plait.AsyncSession, "update_state", killed)
        state = {"n": 1, "user:u": 1, "app:a": 1}
        await service.create_session(app_name=APP, user_id=USER, session_id="s", state=state)
    one, two = await read(service), await read(service)
    assert one.state == {"n": 1, "user:u": 1, "app:a": 1}
    await service.append_event(one, event("One", id="e1"))
    if on_stale != "raise":
        one = two  # what it appends goes after the other's, or beside it
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(plait.AsyncSession, "update_state", killed)
        await service.append_event(one, event("Two", id="e2", **{"user:u": 2, "app:b": b"2"}))
    assert (await read(service)).state == {"n": 1, "user:u": 2, "app:a": 1, "app:b": b"2"}
    info = await service.handle(one).info()
    assert info is not None and not [key for key in info.metadata if key.startswith("adk.pending")]
    assert not [key for key in await service.handle(one).state() if key.startswith("adk.pending")]


@pytest.mark.parametrize("after", ["repeat", "delete"])
async def test_what_is_noted_is_done_by_a_repeat_and_before_a_deletion(
    service: PlaitSessionService, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    said = event("One", id="e1", **{"user:u": 1})
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(plait.AsyncSession, "update_state", killed)
        await service.append_event(session, said)
    if after == "repeat":
        await service.append_event(session, said)
        assert session.events == [said] and session.state == {"user:u": 1}
    else:
        await service.delete_session(app_name=APP, user_id=USER, session_id="s")
    assert await service.get_user_state(app_name=APP, user_id=USER) == {"u": 1}


async def test_what_is_done_late_replaces_nothing_newer(
    service: PlaitSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await service.create_session(app_name=APP, user_id=USER, session_id="old")
    new = await service.create_session(app_name=APP, user_id=USER, session_id="new")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(plait.AsyncSession, "update_state", killed)
        await service.append_event(old, event("Old", **{"user:u": "old", "app:a": "old", "user:only": 1}))
    await service.append_event(new, event("New", **{"user:u": "new", "app:a": "new"}))
    newest = {"user:u": "new", "app:a": "new", "user:only": 1}
    for id in ("old", "new", "old"):
        assert (await read(service, id)).state == newest
    await service.handle(old).fork("fork")
    await service.append_event(await read(service, "new"), event("Newer", **{"user:only": 2}))
    assert (await read(service, "fork")).state == {**newest, "user:only": 2}


@pytest.mark.parametrize("first", ["one", "two"])
async def test_of_several_that_were_killed_the_last_one_counts(
    sessions: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    service = PlaitSessionService(sessions, on_stale="merge")
    one, two = [await service.create_session(app_name=APP, user_id=USER, session_id=id) for id in ("one", "two")]
    for n, session in enumerate((one, two, one, two, one)):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(plait.AsyncSession, "update_state", killed)
            await service.append_event(session, event("Hi", id=f"{9 - n}", **{"user:u": n}))
    await read(service, first)
    for id in ("one", "two"):
        assert (await read(service, id)).state == {"user:u": 4}


async def test_changes_at_once_are_all_done_whatever_the_clock_says(
    sessions: plait.AsyncSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = PlaitSessionService(sessions)
    made = [await service.create_session(app_name=APP, user_id=USER, session_id=f"{n}") for n in range(8)]
    said = [service.append_event(one, event("Hi", **{f"user:{n}": n})) for n, one in enumerate(made)]
    await asyncio.gather(*said)
    assert await service.get_user_state(app_name=APP, user_id=USER) == {f"{n}": n for n in range(8)}
    for n, at in enumerate((2_000, 1_000, 1_500)):
        monkeypatch.setattr("time.time_ns", lambda at=at: at)
        await service.append_event(await read(service, "0"), event("Hi", id=f"x{9 - n}", **{"user:0": f"at {at}"}))
        assert (await service.get_user_state(app_name=APP, user_id=USER))["0"] == f"at {at}"


async def test_somebodys_lease_stops_no_reading(service: PlaitSessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(plait.AsyncSession, "update_state", killed)
        await service.append_event(session, event("One", **{"user:u": 1}))
    async with service.handle(session).lease():
        found = await read(service)
        assert found.state == {"user:u": 1}
        with pytest.raises(plait.LeaseHeldError):
            await service.append_event(found, event("Two"))
    await service.append_event(found, event("Two"))
    assert texts(await read(service)) == ["One", "Two"]


# -- beside other processes


async def test_what_others_delete_is_gone_and_what_they_make_anew_is_there(store_at: str) -> None:
    async with plait.open_async(store_at) as here, plait.open_async(store_at) as there:
        service, elsewhere = PlaitSessionService(here), PlaitSessionService(there)
        memory = PlaitMemoryService(here)
        names = {"app_name": APP, "user_id": USER}
        for n in range(3):
            held = await service.create_session(**names, session_id="s")
            await service.append_event(held, event("One", id="e1", n=n))
            handle = service.handle(held)
            await memory.add_session_to_memory(held)
            assert len((await memory.search_memory(**names, query="One")).memories) == 1
            await elsewhere.delete_session(**names, session_id="s")
            match n:
                case 0:
                    assert await service.get_session(**names, session_id="s") is None
                case 1:
                    assert (await service.list_sessions(**names)).sessions == []
                case _:
                    with pytest.raises(SessionNotFoundError):
                        await service.append_event(held, event("Two", k=1))
            anew = await elsewhere.create_session(**names, session_id="s", state={"anew": n})
            await elsewhere.append_event(anew, event("Anew"))
            assert texts(await read(service)) == ["Anew"] and (await read(service)).state == {"anew": n}
            assert (await memory.search_memory(**names, query="Anew")).memories == []
            await elsewhere.delete_session(**names, session_id="s")
            again = await service.create_session(**names, session_id="s")
            assert again.events == [] and again.state == {} and handle.is_over
            await service.delete_session(**names, session_id="s")


@pytest.mark.parametrize("on_stale", ["raise", "merge", "branch"])
async def test_no_event_makes_a_deleted_session_anew(sessions: plait.AsyncSessions, on_stale: OnStale) -> None:
    service = PlaitSessionService(sessions, on_stale=on_stale)
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    await service.append_event(session, event("One"))
    await service.delete_session(app_name=APP, user_id=USER, session_id="s")
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, event("Late", k=1, **{"user:u": 1}))
    assert await service.get_session(app_name=APP, user_id=USER, session_id="s") is None


async def test_a_branch_from_what_was_deleted_is_stale(sessions: plait.AsyncSessions) -> None:
    service = PlaitSessionService(sessions, on_stale="branch")
    session = await service.create_session(app_name=APP, user_id=USER, session_id="s")
    await service.append_event(session, event("One", id="e1"))
    await service.append_event(session, event("Two", id="e2"))
    await service.handle(session).delete("e2")
    with pytest.raises(StaleSessionError):
        await service.append_event(session, event("Three"))
