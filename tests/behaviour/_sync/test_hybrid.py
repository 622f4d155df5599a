"""Generated from tests/behaviour/_async/test_hybrid.py by tools/unasync.py: edit that file. Searching with a provider beside the words: kept up to date, filtered, ranked together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

import plait
from plait import LEAF, Session, Sessions, SearchText, UsageError
from plait.testing import ModelStore

MEANINGS = {"automobile": "car", "car": "car", "coupe": "car", "feline": "cat", "cat": "cat", "kitten": "cat"}


class Meanings:
    """Finds messages by what their words mean; ranks by how often, then by id. Keeps all in memory."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self.at: str | None = None
        self.asked: list[int] = []
        self.cleared = 0

    def cursor(self) -> str | None:
        return self.at

    def update(self, changes: Sequence[SearchText], cursor: str) -> None:
        for change in changes:
            if change.id is None:
                self.texts = {key: text for key, text in self.texts.items() if key[0] != change.session_id}
            elif change.text is None:
                self.texts.pop((change.session_id, change.id), None)
            else:
                self.texts[change.session_id, change.id] = change.text
        self.at = cursor

    def clear(self) -> None:
        self.texts, self.at = {}, None
        self.cleared += 1

    def search(self, query: str, *, session_id: str | None, limit: int) -> Sequence[tuple[str, str]]:
        self.asked.append(limit)
        wanted = {MEANINGS.get(word) for word in query.split()} - {None}
        counts = {
            key: sum(MEANINGS.get(word) in wanted for word in text.split())
            for key, text in self.texts.items()
            if session_id in (None, key[0])
        }
        ranked = sorted((key for key, count in counts.items() if count), key=lambda key: (-counts[key], key))
        return ranked[:limit]


def say(chat: Session, **texts: str) -> None:
    chat.append_many([plait.user(text, id=id) for id, text in texts.items()])


def ids(chat: Session | Sessions, query: str, provider: Meanings, **options: object) -> list[str]:
    return [hit.id for hit in chat.search(query, provider=provider, **options)]  # type: ignore[arg-type]


def test_both_ways_of_finding_are_ranked_together(chat: Session) -> None:
    say(chat, a="my automobile", b="the car is a coupe", c="a cat")
    provider = Meanings()
    hits = chat.search("car", provider=provider)
    assert [hit.id for hit in hits] == ["b", "a"], "b is found both ways"
    assert hits[0].highlights and not hits[1].highlights
    assert hits[0].score > hits[1].score > 0
    assert hits[1].snippet == "my automobile"
    assert ids(chat, "kitten", provider) == ["c"], "no word of it is there"
    assert ids(chat, "unheard of", provider) == []
    assert ids(chat, "", provider) == []
    assert ids(chat, "car", provider, limit=0) == []


def test_the_provider_is_brought_every_change_before_it_is_asked(
    chat: Session, sessions: Sessions
) -> None:
    provider = Meanings()
    assert ids(chat, "car", provider) == []
    say(chat, a="automobile", b="coupe", c="automobile")
    assert sorted(ids(chat, "car", provider)) == ["a", "b", "c"]
    chat.update(plait.user("feline", id="a"))
    chat.delete("b")
    assert ids(chat, "car", provider) == ["c"]
    assert ids(chat, "cat", provider) == ["a"]
    fork = chat.fork("copy")
    assert ids(fork, "car", provider) == ["c"]
    chat.clear()
    assert ids(chat, "car", provider) == []
    say(chat, c="coupe")
    sessions.delete("copy")
    assert ids(sessions, "car", provider) == ["c"]
    assert {key[0] for key in provider.texts} == {"chat"}


def test_filters_let_the_provider_look_further(chat: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters come before the limit although the provider knows none of them."""
    monkeypatch.setattr("plait._sync.hybrid.DEPTH", 2)
    chat.append(plait.assistant("automobile", id="z"))
    day = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    chat.import_message(plait.user("automobile", id="y"), parent=None, created_at=day)
    say(chat, **{f"m{n:02}": "automobile coupe" for n in range(40)})
    provider = Meanings()
    assert ids(chat, "car", provider, role="assistant", limit=1) == ["z"]
    assert provider.asked == [2, 8, 32, 128]
    assert ids(chat, "car", provider, until=day + dt.timedelta(1), limit=1) == ["y"]
    chat.append(plait.user("coupe", id="x"), parent="z")
    assert ids(chat, "car", provider, leaf=LEAF) == ["x", "z"]


def test_pages_are_cut_from_one_ranking(chat: Session) -> None:
    say(chat, **{f"m{n:02}": "automobile car" if n % 3 else "coupe" for n in range(50)})
    provider = Meanings()
    whole = ids(chat, "car", provider, limit=50)
    assert len(set(whole)) == 50
    paged = [ids(chat, "car", provider, limit=20, offset=at) for at in (0, 20, 40)]
    assert [id for page in paged for id in page] == whole


def test_a_scope_is_searched_with_its_own_provider(sessions: Sessions) -> None:
    other, mine, theirs = sessions.scoped("acme", "bob"), Meanings(), Meanings()
    say(sessions.session("s"), a="automobile")
    say(other.session("s"), b="automobile")
    assert ids(sessions, "car", mine) == ["a"]
    assert ids(other, "car", theirs) == ["b"]


def test_a_provider_that_was_away_too_long_is_filled_anew(chat: Session, sessions: Sessions) -> None:
    provider = Meanings()
    say(chat, a="automobile")
    assert ids(chat, "car", provider) == ["a"]
    chat.delete("a")
    say(chat, b="coupe", c="feline")
    chat.delete("c")
    sessions.prune_changes(max_count=1)
    assert ids(chat, "car", provider) == ["b"]
    assert provider.cleared == 1
    assert set(provider.texts) == {("chat", "b")}


def test_what_cannot_be_ranked_is_refused(chat: Session) -> None:
    with pytest.raises(UsageError, match="newest_first"):
        chat.search("car", provider=Meanings(), newest_first=True)


def test_a_store_without_a_feed_cannot_keep_a_provider_up_to_date() -> None:
    with Sessions(ModelStore()) as sessions:
        if callable(getattr(sessions.store, "changes", None)):
            pytest.skip("the model store keeps a feed by now")
        with pytest.raises(plait.UnsupportedError, match="no feed"):
            sessions.session("s").search("car", provider=Meanings())
