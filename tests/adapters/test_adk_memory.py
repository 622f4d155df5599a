"""ADK's memory and artifact services on plait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs google-adk: pip install 'plait[adk]'")

from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

import plait
from plait.adapters.adk import PlaitArtifactService, PlaitMemoryService, PlaitSessionService

ANN: dict[str, str] = {"app_name": "shop", "user_id": "ann"}
PIXELS = b"\xff\xfe\xfb" * 1000


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[plait.AsyncSessions]:
    async with plait.open_async(store_at, durability="process") as opened:
        yield opened


def event(text: str, id: str = "", author: str = "agent") -> Event:
    return Event(
        id=id, invocation_id="i", author=author, content=types.Content(role="model", parts=[types.Part(text=text)])
    )


async def talk(sessions: plait.AsyncSessions, id: str, *texts: str, user: str = "ann") -> Session:
    service = PlaitSessionService(sessions)
    session = await service.create_session(app_name="shop", user_id=user, session_id=id)
    for n, text in enumerate(texts):
        await service.append_event(session, event(text, f"{id}{n}"))
    return session


async def found(memory: PlaitMemoryService, query: str, **names: Any) -> list[str | None]:
    response = await memory.search_memory(**{**ANN, **names}, query=query)
    return [entry.content.parts[0].text if entry.content.parts else None for entry in response.memories]


async def test_what_was_added_is_found_and_nothing_else(sessions: plait.AsyncSessions) -> None:
    memory = PlaitMemoryService(sessions)
    old = await talk(sessions, "old", "The cat is called Schnurr.", "It likes fish.")
    await talk(sessions, "now", "What is the cat called?")
    await talk(sessions, "his", "My cat is called Tom.", user="bob")
    assert await found(memory, "cat") == []
    await memory.add_session_to_memory(old)
    assert await found(memory, "cat") == ["The cat is called Schnurr."]
    assert await found(memory, "What is the cat called?") == ["The cat is called Schnurr."]
    assert await found(memory, "cat", user_id="bob") == [] and await found(memory, "cat", app_name="other") == []
    (entry,) = (await memory.search_memory(**ANN, query="Schnurr")).memories
    assert (entry.author, entry.custom_metadata) == ("agent", {"session_id": "old", "event_id": "old0"})
    assert entry.timestamp is not None and entry.timestamp.endswith("+00:00")
    totals = await sessions.scoped("shop", "ann").session("old").totals()
    assert totals.messages == 2 and await sessions.scoped("shop", "ann").get("adk:memory") is None, "nothing is copied"


async def test_adding_again_adds_what_came_since(sessions: plait.AsyncSessions) -> None:
    memory, service = PlaitMemoryService(sessions), PlaitSessionService(sessions)
    session = await talk(sessions, "s", "A cat.", "A dog.")
    await memory.add_session_to_memory(session)
    await service.append_event(session, event("Another cat."))
    assert await found(memory, "cat") == ["A cat."]
    await memory.add_session_to_memory(session)
    assert sorted(await found(memory, "cat")) == ["A cat.", "Another cat."]  # type: ignore[type-var]
    await memory.add_session_to_memory(Session(id="s", app_name="shop", user_id="ann"))


async def test_only_what_is_on_the_path_of_the_session_is_remembered(sessions: plait.AsyncSessions) -> None:
    memory, service = PlaitMemoryService(sessions), PlaitSessionService(sessions, on_stale="branch")
    main = await talk(sessions, "s", "cat start")
    branch = await service.get_session(**ANN, session_id="s")
    assert branch is not None
    await service.append_event(main, event("cat main", "m1"))
    await service.append_event(branch, event("cat beside", "b1"))
    await service.append_event(main, event("cat end", "m2"))
    await memory.add_session_to_memory(main)
    assert sorted(map(str, await found(memory, "cat"))) == ["cat end", "cat main", "cat start"]
    assert await found(memory, "beside") == []
    await service.append_event(branch, event("cat later", "b2"))
    await memory.add_events_to_memory(**ANN, events=branch.events[-1:], session_id="s")
    assert sorted(map(str, await found(memory, "cat"))) == ["cat end", "cat later", "cat main", "cat start"]
    await memory.add_session_to_memory(branch)
    assert sorted(map(str, await found(memory, "cat"))) == ["cat beside", "cat later", "cat start"], "as ADK's own does"


async def test_events_on_another_branch_take_nothing_out_of_the_memory(sessions: plait.AsyncSessions) -> None:
    memory, service = PlaitMemoryService(sessions), PlaitSessionService(sessions)
    session = await talk(sessions, "s", "cat start", "cat main")
    await memory.add_session_to_memory(session)
    handle = service.handle(session)
    await handle.checkout("s0")
    there = await service.get_session(**ANN, session_id="s")
    assert there is not None
    await service.append_event(there, event("cat branch", "b1"))
    await memory.add_events_to_memory(**ANN, events=there.events[-1:], session_id="s")
    assert sorted(map(str, await found(memory, "cat"))) == ["cat branch", "cat main", "cat start"]


async def test_a_time_beyond_the_calendar_hides_no_memory(sessions: plait.AsyncSessions) -> None:
    memory, service = PlaitMemoryService(sessions), PlaitSessionService(sessions)
    session = await talk(sessions, "s", "cat one")
    await service.append_event(session, event("cat two").model_copy(update={"timestamp": 1e300}))
    await memory.add_session_to_memory(session)
    assert sorted(map(str, await found(memory, "cat"))) == ["cat one", "cat two"]


async def test_some_events_only(sessions: plait.AsyncSessions) -> None:
    memory = PlaitMemoryService(sessions)
    session = await talk(sessions, "s", "cat one", "cat two", "cat three", "cat four")
    await memory.add_events_to_memory(**ANN, events=session.events[2:3], session_id="s")
    assert await found(memory, "cat") == ["cat three"]
    await memory.add_events_to_memory(**ANN, events=session.events[:2], session_id="s")
    assert await sessions.scoped("shop", "ann").session("s").state() == {
        "adk": "s0",
        "adk.memory": 2,
        "adk.memory:s2": True,
    }
    assert sorted(await found(memory, "cat")) == ["cat one", "cat three", "cat two"]  # type: ignore[type-var]
    elsewhere = [event("cat elsewhere", "x"), event("", "empty")]
    for _ in range(2):
        await memory.add_events_to_memory(**ANN, events=elsewhere, session_id="s", custom_metadata={"ttl": 1})
        await memory.add_events_to_memory(**ANN, events=elsewhere)
    assert await found(memory, "elsewhere") == ["cat elsewhere"]
    (entry,) = (await memory.search_memory(**ANN, query="elsewhere")).memories
    assert entry.custom_metadata["ttl"] == 1
    await memory.add_events_to_memory(**ANN, events=[], session_id="nobody")


async def test_what_is_forgotten_stays_forgotten(sessions: plait.AsyncSessions) -> None:
    memory = PlaitMemoryService(sessions)
    session = await talk(sessions, "s", "A cat.", "A dog.")
    await memory.add_session_to_memory(session)
    await memory.add_memory(
        **ANN, memories=[MemoryEntry(content=types.Content(parts=[types.Part(text="A third cat.")]), author="me")]
    )
    for entry in (await memory.search_memory(**ANN, query="cat")).memories:
        await memory.delete_memory(**ANN, memory_id=entry.id)
    for bad in (None, "", "x", "[1]", '["s","nobody"]', '["nobody","x"]', "{", '["a","b","c"]'):
        await memory.delete_memory(**ANN, memory_id=bad)
    await memory.add_session_to_memory(session)
    await memory.add_events_to_memory(**ANN, events=session.events, session_id="s")
    assert await found(memory, "cat") == [] and await found(memory, "dog") == ["A dog."]
    assert (await sessions.scoped("shop", "ann").session("s").totals()).messages == 2, "the session keeps it"


async def test_texts_of_the_apps_own(sessions: plait.AsyncSessions) -> None:
    memory = PlaitMemoryService(sessions, max_results=3)
    entries = [
        MemoryEntry(id=f"m{n}", content=types.Content(parts=[types.Part(text=f"Tea {n}")]), timestamp="2026-01-01")
        for n in range(5)
    ]
    await memory.add_memory(**ANN, memories=entries, custom_metadata={"a": b"\x00"})
    await memory.add_memory(**ANN, memories=entries)
    response = await memory.search_memory(**ANN, query="tea")
    assert len(response.memories) == 3 and {entry.timestamp for entry in response.memories} == {"2026-01-01"}
    service = PlaitSessionService(sessions)
    assert (await service.list_sessions(app_name="shop", user_id="ann")).sessions == []
    assert await service.get_session(**ANN, session_id="adk:memory") is None


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", None),
        (" ", None),
        ("\x00", None),
        ("a" * 5000, None),
        ('"', None),
        ("NOT AND OR", "Say NOT AND OR twice."),
        ('"red" bike', 'It is a "red" bike.'),
        ("don't (", "I don't (ever) go."),
        ("text:bike", "See text:bike there."),
        ("bik*", "The word bik* has a star."),
        ("half-way^2", "It is half-way^2 done."),
        ("x " * 500, "x marks it"),
        ("'; DROP TABLE message; --", "Type '; DROP TABLE message; -- now."),
    ],
)
async def test_any_query_is_text(sessions: plait.AsyncSessions, query: str, text: str | None) -> None:
    memory = PlaitMemoryService(sessions)
    said = ["Nothing of the kind.", *([text] if text else [])]
    await memory.add_session_to_memory(await talk(sessions, "s", *said))
    assert await found(memory, query) == said[1:]


async def test_a_long_question_finds_what_shares_most_words(sessions: plait.AsyncSessions) -> None:
    memory = PlaitMemoryService(sessions)
    said = ["重跑gen-itgc后50条悬空引用清零", "The red bicycle is in the garage.", "A bicycle has two wheels."]
    await memory.add_session_to_memory(await talk(sessions, "s", *said))
    assert (await found(memory, "tell me where did I leave my red bicycle, please"))[0] == said[1]
    assert await found(memory, "悬空") == [said[0]]


# -- artifacts


async def test_artifacts_answer_as_adks_own_do(sessions: plait.AsyncSessions) -> None:
    assert await script(PlaitArtifactService(sessions)) == await script(InMemoryArtifactService())


async def script(service: Any) -> list[Any]:
    seen: list[Any] = []
    one, two = {**ANN, "session_id": "one"}, {**ANN, "session_id": "two"}
    image = types.Part(inline_data=types.Blob(mime_type="image/png", data=PIXELS, display_name="dot"))
    parts = [
        image,
        types.Part(text="words"),
        {"inlineData": {"mimeType": "text/plain", "data": "aGk="}},
        types.Part(file_data=types.FileData(file_uri="gs://b/x", mime_type="video/mp4")),
    ]
    for n, part in enumerate(parts):
        seen.append(await service.save_artifact(**one, filename="a/b.png", artifact=part, custom_metadata={"n": n}))
        seen.append(await service.save_artifact(**two, filename=f"user:{n}", artifact=part))
    for names in (one, two, ANN):
        seen.append(await service.list_artifact_keys(**names))
    for version in (None, 0, 1, 2, 3, 4, -1, 99):
        for names, filename in ((one, "a/b.png"), (two, "a/b.png"), (one, "user:0"), (two, "user:2")):
            seen.append(await service.load_artifact(**names, filename=filename, version=version))
            about = await service.get_artifact_version(**names, filename=filename, version=version)
            seen.append(about and (about.version, about.mime_type, about.custom_metadata))
    for names, filename in ((one, "a/b.png"), (two, "a/b.png"), (two, "user:0")):
        seen.append(await service.list_versions(**names, filename=filename))
        versions = await service.list_artifact_versions(**names, filename=filename)
        seen.append([(about.version, about.mime_type, about.custom_metadata) for about in versions])
    reference = "artifact://apps/shop/users/ann/sessions/one/artifacts/a/b.png/versions/0"
    seen.append(
        await service.save_artifact(
            **one, filename="ref", artifact=types.Part(file_data=types.FileData(file_uri=reference))
        )
    )
    seen.append(await service.load_artifact(**one, filename="ref"))
    for bad in (types.Part(), types.Part(file_data=types.FileData(file_uri="artifact://nowhere"))):
        with pytest.raises(InputValidationError):
            await service.save_artifact(**one, filename="bad", artifact=bad)
    gone = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
    await service.save_artifact(**one, filename="rewound", artifact=gone)
    seen.append(await service.load_artifact(**one, filename="rewound"))
    for filename in ("a/b.png", "a/b.png", "nothing", "ref"):
        await service.delete_artifact(**one, filename=filename)
    seen.append(await service.list_artifact_keys(**one))
    seen.append(await service.load_artifact(**one, filename="a/b.png"))
    seen.append(await service.save_artifact(**one, filename="a/b.png", artifact=image))
    return seen


async def test_savers_at_once_get_versions_of_their_own(sessions: plait.AsyncSessions) -> None:
    service = PlaitArtifactService(sessions)
    names: dict[str, Any] = {**ANN, "session_id": "s", "filename": "f"}
    saves = (service.save_artifact(**names, artifact=types.Part(text=f"{n}")) for n in range(12))
    assert sorted(await asyncio.gather(*saves)) == list(range(12)) == await service.list_versions(**names)


async def test_the_same_bytes_are_kept_once_and_go_with_their_last_version(tmp_path: Path) -> None:
    data = bytes(range(256)) * 8000
    async with plait.open_async(tmp_path / "s.db") as sessions:
        service = PlaitArtifactService(sessions)
        part = types.Part(inline_data=types.Blob(mime_type="application/pdf", data=data))
        for n in range(6):
            await service.save_artifact(**ANN, session_id="s", filename=f"f{n % 2}", artifact=part)
        assert await service.load_artifact(**ANN, session_id="s", filename="f1", version=0) == part
        await sessions.vacuum()
        assert (tmp_path / "s.db").stat().st_size < 2 * len(data)
        for filename in ("f0", "f1"):
            await service.delete_artifact(**ANN, session_id="s", filename=filename)
        await sessions.vacuum()
    assert (tmp_path / "s.db").stat().st_size < len(data)


async def test_references_that_go_in_a_circle_are_refused(sessions: plait.AsyncSessions) -> None:
    service = PlaitArtifactService(sessions)
    for here, there in (("a", "b"), ("b", "a")):
        uri = f"artifact://apps/shop/users/ann/artifacts/user:{there}/versions/0"
        await service.save_artifact(
            **ANN, filename=f"user:{here}", artifact=types.Part(file_data=types.FileData(file_uri=uri))
        )
    with pytest.raises(InputValidationError, match="refer to one another"):
        await service.load_artifact(**ANN, filename="user:a")
    other = types.Part(file_data=types.FileData(file_uri="artifact://apps/shop/users/bob/artifacts/x/versions/0"))
    with pytest.raises(InputValidationError):
        await service.save_artifact(**ANN, filename="user:c", artifact=other)


async def test_names_of_artifacts_are_data(sessions: plait.AsyncSessions, tmp_path: Path) -> None:
    service = PlaitArtifactService(sessions)
    names = ["../../etc/x", "/etc/x", "..\\x", "%", "_", "CON", "日本.png", '["x"]', "versions/0"]
    for name in names:
        await service.save_artifact(**ANN, session_id="s", filename=name, artifact=types.Part(text=name))
    assert await service.list_artifact_keys(**ANN, session_id="s") == sorted(names)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("store.db")] == []
    for blank in ("", " "):
        with pytest.raises(InputValidationError):
            await service.save_artifact(**ANN, session_id="s", filename=blank, artifact=types.Part(text="x"))


NOBODY = ["", " ", "plait:default", "\ud800", "é" * 300]


@pytest.mark.parametrize("nobody", NOBODY)
async def test_names_that_nobody_can_have_hold_no_memories(sessions: plait.AsyncSessions, nobody: str) -> None:
    memory = PlaitMemoryService(sessions)
    names = {"app_name": "shop", "user_id": nobody}
    entry = MemoryEntry(id="m", content=types.Content(parts=[types.Part(text="Tea")]))
    with pytest.raises(InputValidationError):
        await memory.add_memory(**names, memories=[entry])
    assert await found(memory, "Tea", **names) == []
    await memory.delete_memory(**names, memory_id='["s", "m"]')
    await memory.delete_memory(**ANN, memory_id=json.dumps([nobody, "m"]))
    await memory.delete_memory(**ANN, memory_id=json.dumps(["s", nobody]))
    await memory.add_events_to_memory(**ANN, session_id=nobody, events=[event("Milk")])
    await memory.add_session_to_memory(Session(id=nobody, **ANN, events=[event("Sugar")]))
    assert await found(memory, "Milk") == ["Milk"] and await found(memory, "Sugar") == ["Sugar"]


@pytest.mark.parametrize("nobody", NOBODY)
async def test_names_that_nobody_can_have_hold_no_artifacts(sessions: plait.AsyncSessions, nobody: str) -> None:
    service = PlaitArtifactService(sessions)
    part = types.Part(text="x")
    with pytest.raises(InputValidationError):
        await service.save_artifact(app_name="shop", user_id=nobody, session_id="s", filename="f", artifact=part)
    for names in ({"user_id": nobody, "filename": "f"}, {"user_id": "ann", "filename": nobody}):
        at = {"app_name": "shop", "session_id": "s", **names}
        assert await service.load_artifact(**at) is None and await service.get_artifact_version(**at) is None
        assert await service.list_versions(**at) == [] and await service.list_artifact_versions(**at) == []
        await service.delete_artifact(**at)
    assert await service.list_artifact_keys(app_name="shop", user_id=nobody) == []
    assert await service.list_artifact_keys(**ANN, session_id=nobody) == []


async def test_a_memory_that_was_forgotten_can_be_added_again(sessions: plait.AsyncSessions) -> None:
    memory = PlaitMemoryService(sessions)

    async def add(text: str) -> None:
        entry = MemoryEntry(id="m", content=types.Content(parts=[types.Part(text=text)]))
        await memory.add_memory(**ANN, memories=[entry])

    for n in range(3):
        await add(f"Likes tea {n}")
        (entry,) = (await memory.search_memory(**ANN, query="tea")).memories
        assert entry.content.parts and entry.content.parts[0].text == f"Likes tea {n}"
        await memory.delete_memory(**ANN, memory_id=entry.id)
        assert await found(memory, "tea") == []
    # Whoever forgets it is killed in the middle: it is noted, and not deleted yet.
    await add("Likes coffee")
    await sessions.scoped("shop", "ann").session("adk:memory").update_state({"adk.memory:m": False})
    await add("Likes milk")
    assert await found(memory, "Likes") == ["Likes milk"]


async def test_custom_metadata_comes_back_exactly(sessions: plait.AsyncSessions) -> None:
    memory = PlaitMemoryService(sessions)
    custom: dict[str, Any] = {"raw": b"\x00\xff", "far": float("inf"), "deep": {"list": [b"x", 1.5, None]}}
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="Tea")]), custom_metadata={"own": b"y"})
    await memory.add_memory(**ANN, memories=[entry], custom_metadata=custom)
    await memory.add_events_to_memory(**ANN, events=[event("Tea too")], custom_metadata=custom)
    for _ in range(2):
        entries = (await memory.search_memory(**ANN, query="Tea")).memories
        kept = [
            {key: value for key, value in one.custom_metadata.items() if key in {*custom, "own"}} for one in entries
        ]
        assert sorted(kept, key=len) == [custom, {**custom, "own": b"y"}]
