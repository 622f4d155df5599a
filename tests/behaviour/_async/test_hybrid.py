"""Searching with a provider beside the words: kept up to date, filtered, ranked together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

import plait
from plait import LEAF, AsyncSession, AsyncSessions, SearchText, UsageError
from plait.testing import AsyncModelStore

MEANINGS = {"automobile": "car", "car": "car", "coupe": "car", "feline": "cat", "cat": "cat", "kitten": "cat"}


class AsyncMeanings:
    """Finds messages by what their words mean; ranks by how often, then by id. Keeps all in memory."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self.at: str | None = None
        self.asked: list[int] = []
        self.cleared = 0

    async def cursor(self) -> str | None:
        return self.at

    async def update(self, changes: Sequence[SearchText], cursor: str) -> None:
        for change in changes:
            if change.id is None:
                self.texts = {key: text for key, text in self.texts.items() if key[0] != change.session_id}
            elif change.text is None:
                self.texts.pop((change.session_id, change.id), None)
            else:
                self.texts[change.session_id, change.id] = change.text
        self.at = cursor

    async def clear(self) -> None:
        self.texts, self.at = {}, None
        self.cleared += 1

    async def search(self, query: str, *, session_id: str | None, limit: int) -> Sequence[tuple[str, str]]:
        self.asked.append(limit)
        wanted = {MEANINGS.get(word) for word in query.split()} - {None}
        counts = {
            key: sum(MEANINGS.get(word) in wanted for word in text.split())
            for key, text in self.texts.items()
            if session_id in (None, key[0])
        }
        ranked = sorted((key for key, count in counts.items() if count), key=lambda key: (-counts[key], key))
        return ranked[:limit]


async def say(chat: AsyncSession, **texts: str) -> None:
    await chat.append_many([plait.user(text, id=id) for id, text in texts.items()])


async def ids(chat: AsyncSession | AsyncSessions, query: str, provider: AsyncMeanings, **options: object) -> list[str]:
    return [hit.id for hit in await chat.search(query, provider=provider, **options)]  # type: ignore[arg-type]


async def test_both_ways_of_finding_are_ranked_together(chat: AsyncSession) -> None:
    await say(chat, a="my automobile", b="the car is a coupe", c="a cat")
    provider = AsyncMeanings()
    hits = await chat.search("car", provider=provider)
    assert [hit.id for hit in hits] == ["b", "a"], "b is found both ways"
    assert hits[0].highlights and not hits[1].highlights
    assert hits[0].score > hits[1].score > 0
    assert hits[1].snippet == "my automobile"
    assert await ids(chat, "kitten", provider) == ["c"], "no word of it is there"
    assert await ids(chat, "unheard of", provider) == []
    assert await ids(chat, "", provider) == []
    assert await ids(chat, "car", provider, limit=0) == []


async def test_the_provider_is_brought_every_change_before_it_is_asked(
    chat: AsyncSession, sessions: AsyncSessions
) -> None:
    provider = AsyncMeanings()
    assert await ids(chat, "car", provider) == []
    await say(chat, a="automobile", b="coupe", c="automobile")
    assert sorted(await ids(chat, "car", provider)) == ["a", "b", "c"]
    await chat.update(plait.user("feline", id="a"))
    await chat.delete("b")
    assert await ids(chat, "car", provider) == ["c"]
    assert await ids(chat, "cat", provider) == ["a"]
    fork = await chat.fork("copy")
    assert await ids(fork, "car", provider) == ["c"]
    await chat.clear()
    assert await ids(chat, "car", provider) == []
    await say(chat, c="coupe")
    await sessions.delete("copy")
    assert await ids(sessions, "car", provider) == ["c"]
    assert {key[0] for key in provider.texts} == {"chat"}


async def test_filters_let_the_provider_look_further(chat: AsyncSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters come before the limit although the provider knows none of them."""
    monkeypatch.setattr("plait._async.hybrid.DEPTH", 2)
    await chat.append(plait.assistant("automobile", id="z"))
    day = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    await chat.import_message(plait.user("automobile", id="y"), parent=None, created_at=day)
    await say(chat, **{f"m{n:02}": "automobile coupe" for n in range(40)})
    provider = AsyncMeanings()
    assert await ids(chat, "car", provider, role="assistant", limit=1) == ["z"]
    assert provider.asked == [2, 8, 32, 128]
    assert await ids(chat, "car", provider, until=day + dt.timedelta(1), limit=1) == ["y"]
    await chat.append(plait.user("coupe", id="x"), parent="z")
    assert await ids(chat, "car", provider, leaf=LEAF) == ["x", "z"]


async def test_pages_are_cut_from_one_ranking(chat: AsyncSession) -> None:
    await say(chat, **{f"m{n:02}": "automobile car" if n % 3 else "coupe" for n in range(50)})
    provider = AsyncMeanings()
    whole = await ids(chat, "car", provider, limit=50)
    assert len(set(whole)) == 50
    paged = [await ids(chat, "car", provider, limit=20, offset=at) for at in (0, 20, 40)]
    assert [id for page in paged for id in page] == whole


async def test_a_scope_is_searched_with_its_own_provider(sessions: AsyncSessions) -> None:
    other, mine, theirs = sessions.scoped("acme", "bob"), AsyncMeanings(), AsyncMeanings()
    await say(sessions.session("s"), a="automobile")
    await say(other.session("s"), b="automobile")
    assert await ids(sessions, "car", mine) == ["a"]
    assert await ids(other, "car", theirs) == ["b"]


async def test_a_provider_that_was_away_too_long_is_filled_anew(chat: AsyncSession, sessions: AsyncSessions) -> None:
    provider = AsyncMeanings()
    await say(chat, a="automobile")
    assert await ids(chat, "car", provider) == ["a"]
    await chat.delete("a")
    await say(chat, b="coupe", c="feline")
    await chat.delete("c")
    await sessions.prune_changes(max_count=1)
    assert await ids(chat, "car", provider) == ["b"]
    assert provider.cleared == 1
    assert set(provider.texts) == {("chat", "b")}


async def test_what_cannot_be_ranked_is_refused(chat: AsyncSession) -> None:
    with pytest.raises(UsageError, match="newest_first"):
        await chat.search("car", provider=AsyncMeanings(), newest_first=True)


async def test_a_store_without_a_feed_cannot_keep_a_provider_up_to_date() -> None:
    async with AsyncSessions(AsyncModelStore()) as sessions:
        if callable(getattr(sessions.store, "changes", None)):
            pytest.skip("the model store keeps a feed by now")
        with pytest.raises(plait.UnsupportedError, match="no feed"):
            await sessions.session("s").search("car", provider=AsyncMeanings())
