"""What an object can do is told by its methods, not by what it inherits from."""

from __future__ import annotations

import pytest

from plait.logic import providers


class ReadOnly:
    def get(self) -> str | None:
        return None


class Writable(ReadOnly):
    async def set(self, content: str, /) -> None: ...


class Searchable(ReadOnly):
    async def search(self, query: str, /) -> str | None:
        return query


class Skills(ReadOnly):
    def load(self, key: str, /) -> str | None:
        return key

    def set(self, key: str, content: str, description: str | None, /) -> None: ...


class NotCallable(ReadOnly):
    set = search = load = "a value"


@pytest.mark.parametrize(
    ("provider", "writable", "searchable", "skill"),
    [
        (ReadOnly(), False, False, False),
        (Writable(), True, False, False),
        (Searchable(), False, True, False),
        (Skills(), True, False, True),
        (NotCallable(), False, False, False),
    ],
)
def test_abilities_are_told_by_methods_that_can_be_called(
    provider: object, writable: bool, searchable: bool, skill: bool
) -> None:
    found = (providers.is_writable(provider), providers.is_searchable(provider), providers.is_skill(provider))
    assert found == (writable, searchable, skill)
    assert providers.is_keyed(provider) == (searchable or skill)


def test_plain_and_coroutine_methods_fit_the_protocols() -> None:
    fits: tuple[providers.ContextProvider, providers.WritableProvider, providers.SearchableProvider] = (
        ReadOnly(),
        Writable(),
        Searchable(),
    )
    keyed: tuple[providers.SkillProvider, providers.KeyedWriter] = (Skills(), Skills())
    assert all(map(callable, (one.get for one in (*fits, keyed[0]))))


def test_a_method_that_cannot_be_looked_up_is_none() -> None:
    class Failing:
        def get(self) -> str:
            return "x"

        @property
        def set(self) -> None:
            raise RuntimeError("down")

    assert not providers.is_writable(Failing()) and not providers.is_searchable(Failing())
