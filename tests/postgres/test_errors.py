"""psycopg's errors: each becomes one of plait's, and says whether trying again helps."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors as theirs

from plait.errors import ConflictError, PlaitError, StoreBusyError, StoreError, StoreUnavailableError
from plait.store.postgres.errors import AGAIN, is_again, is_gone, translate


def below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    yield kind
    for sub in kind.__subclasses__():
        yield from below(sub)


CLASSES = sorted({*below(psycopg.Error), *below(psycopg.Warning)}, key=lambda kind: kind.__qualname__)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_of_psycopgs_is_translated(kind: type[BaseException]) -> None:
    error = kind("it says why")
    translated = translate(error)
    assert isinstance(translated, StoreError) and translated.__cause__ is error
    assert "it says why" in str(translated) and kind.__name__ in str(translated)


def test_other_errors_stay_as_they_are() -> None:
    for error in (ValueError("x"), ConflictError("y"), KeyboardInterrupt()):
        assert translate(error) is error


@pytest.mark.parametrize("error", [OSError("network"), MemoryError()])
def test_what_the_system_lacks_is_unavailable(error: Exception) -> None:
    assert isinstance(translate(error), StoreUnavailableError)


@pytest.mark.parametrize("kind", [theirs.LockNotAvailable, theirs.DeadlockDetected, theirs.SerializationFailure])
def test_what_others_hold_is_busy(kind: type[psycopg.Error]) -> None:
    translated = translate(kind("held"))
    assert isinstance(translated, StoreBusyError) and translated.retryable


def test_what_is_tried_again_is_named_by_its_state() -> None:
    assert {theirs.lookup(state).sqlstate for state in AGAIN} == AGAIN
    assert is_again(theirs.SerializationFailure()) and not is_again(theirs.SyntaxError())
    assert is_gone(psycopg.OperationalError("lost")) and is_gone(theirs.AdminShutdown())
    assert not is_gone(theirs.LockNotAvailable()) and not is_gone(theirs.DiskFull())
    assert not isinstance(translate(theirs.DiskFull("full")), StoreBusyError)
    assert issubclass(StoreError, PlaitError)
