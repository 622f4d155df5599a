"""A provider with a real embedding model, which the wheel of `wordllama` carries: no network is needed.

`make adapters` installs it: with what it needs beside our tools it takes 66 MB.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import SearchText

wordllama = pytest.importorskip("wordllama", reason="the embedding model comes with `make adapters`")
numpy = pytest.importorskip("numpy", reason="wordllama needs it")

TALK = {
    "car": "My automobile broke down on the motorway this morning.",
    "garage": "The mechanic says that the engine needs a new gasket.",
    "cat": "The kitten sleeps on the sofa all day.",
    "soup": "Boil the carrots with some onions and add salt.",
    "money": "The bank raised the interest on our mortgage again.",
    "ticket": "Policy POL-358 was renewed in March.",
}
ASKED = {
    "vehicle repair": {"car", "garage"},
    "a small pet animal": {"cat"},
    "cooking recipe": {"soup"},
    "loan rates": {"money"},
}


class Vectors:
    """The vectors of one scope's messages, in memory; the nearest by cosine."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._vectors: dict[tuple[str, str], Any] = {}
        self._cursor: str | None = None

    def cursor(self) -> str | None:
        return self._cursor

    def update(self, changes: Sequence[SearchText], cursor: str) -> None:
        for change in changes:
            if change.id is None:
                self._vectors = {key: row for key, row in self._vectors.items() if key[0] != change.session_id}
            elif change.text is None:
                self._vectors.pop((change.session_id, change.id), None)
            elif change.text.strip():
                self._vectors[change.session_id, change.id] = self._model.embed([change.text], norm=True)[0]
        self._cursor = cursor

    def clear(self) -> None:
        self._vectors, self._cursor = {}, None

    def search(self, query: str, *, session_id: str | None, limit: int) -> list[tuple[str, str]]:
        keys = [key for key in self._vectors if session_id in (None, key[0])]
        if not keys:
            return []
        near = numpy.stack([self._vectors[key] for key in keys]) @ self._model.embed([query], norm=True)[0]
        return [keys[n] for n in numpy.argsort(-near, kind="stable")[:limit]]


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    """The model, loaded where nobody can be reached."""

    def refuse(*_: Any) -> None:
        raise AssertionError("the network was asked for")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        folder = Path(wordllama.__file__).parent  # its own look-up misses the tokenizer that lies there
        yield wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


def test_vectors_find_what_no_word_finds_and_words_what_vectors_rank_low(model: Any) -> None:
    with plait.open(":memory:") as sessions:
        chat, provider = sessions.session("s"), Vectors(model)
        chat.append_many([plait.user(text, id=id) for id, text in TALK.items()])
        for query, expected in ASKED.items():
            assert chat.search(query) == []
            hits = chat.search(query, provider=provider, limit=len(expected))
            assert {hit.id for hit in hits} == expected, query
        (hit,) = chat.search("POL-358", provider=provider, limit=1)
        assert (hit.id, hit.marked("[", "]")) == ("ticket", "Policy [POL-358] was renewed in March.")
        chat.delete("car")
        assert "car" not in {hit.id for hit in chat.search("vehicle repair", provider=provider)}
