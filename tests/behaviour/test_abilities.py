"""A store that lacks an ability says so to whoever asks for it, by name, and does the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.interchange.values import ImportEntry, Report, Transcript
from tests.behaviour.values import note


class Lacking:
    """A store without some of its methods."""

    def __init__(self, store: plait.Store, *names: str) -> None:
        self._store = store
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            raise AttributeError(name)
        return getattr(self._store, name)


def transcript() -> Transcript:
    return Transcript("c", "plait", iter([ImportEntry("b", None, note("b"), None, None, 1)]), Report(), count=1)


ASKED: dict[str, tuple[tuple[str, ...], Callable[[plait.Sessions], object]]] = {
    "backup": (("backup",), lambda sessions: sessions.backup("copy.db")),
    "doctor": (("doctor",), lambda sessions: sessions.doctor()),
    "vacuum": (("vacuum",), lambda sessions: sessions.vacuum()),
    "merge": (("merge", "stage_more", "existing"), lambda sessions: sessions.import_transcript(transcript())),
    "restamp": (("restamp",), lambda sessions: sessions.session("c").restamp_tokens()),
    "overlays": (
        ("add_overlay", "overlays", "remove_overlay"),
        lambda sessions: sessions.session("c").archive("a", "a"),
    ),
}


@pytest.mark.parametrize("ability", ASKED)
def test_an_ability_that_a_store_lacks_is_an_error_of_its_own(tmp_path: Path, ability: str) -> None:
    names, ask = ASKED[ability]
    with plait.open(tmp_path / "a.db") as whole:
        store: Any = Lacking(whole.store, *names)
        sessions = plait.Sessions(store)
        sessions.session("c").append(note("a"))
        before = list(sessions.all())
        with pytest.raises(plait.UnsupportedError):
            ask(sessions)
        assert list(sessions.all()) == before
