"""Telling the outside what happened: the `plait` logger, and OpenTelemetry where it is installed."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any

from plait.store.forks import LOCK

log = logging.getLogger("plait")


@contextmanager
def tidying(what: str) -> Generator[None]:
    """Around what tidies up after something is done, or has failed: a failure of its own changes neither.

    It is logged, and what is left is found by the next sweep. An interrupt or a cancellation goes out.
    """
    try:
        yield
    except Exception as error:
        log.warning("%s failed, and is left to the next sweep: %s: %s", what, type(error).__name__, error)


class Telemetry:
    """Spans and counters named after the operation; does nothing without `plait[otel]`."""

    def __init__(self) -> None:
        self._tracer: Any = None
        self._counter: Any = None
        self._failed: Any = None
        try:
            trace, metrics = import_module("opentelemetry.trace"), import_module("opentelemetry.metrics")
        except ImportError:
            return
        self._tracer = trace.get_tracer("plait")
        self._failed = trace.Status(trace.StatusCode.ERROR)
        self._counter = metrics.get_meter("plait").create_counter(
            "plait.operations", unit="1", description="Operations of plait sessions, by name and outcome"
        )

    def operation(self, name: str, session_id: str, count: int = 1) -> AbstractContextManager[None]:
        """One operation on a session: a span around it, a count after it, also when it fails."""
        if self._tracer is None:
            return _Logged(name, session_id)
        return _Traced(self, name, session_id, count)

    def start(self, name: str, session_id: str) -> Any:
        """A span; not the current one: nothing of ours starts spans below it.

        And a task that is dropped with its loop ends in another context, of which OpenTelemetry would complain.
        """
        return self._tracer.start_span(f"plait.{name}", attributes={"plait.session_id": session_id})

    def end(self, span: Any, name: str, count: int, error: BaseException | None) -> None:
        """End a span and count the operation."""
        if error is not None:
            span.record_exception(error)
            span.set_status(self._failed)
        span.end()
        self._counter.add(count, {"operation": name, "outcome": "ok" if error is None else "error"})


_one: Telemetry | None = None


def telemetry() -> Telemetry:
    """That of this process: OpenTelemetry keeps for ever what it is asked for, under a lock that is not made for forks."""
    global _one
    with LOCK:
        if _one is None:
            _one = Telemetry()
        return _one


class _Traced(AbstractContextManager[None]):
    """An operation that OpenTelemetry is told of."""

    __slots__ = ("_count", "_name", "_session_id", "_span", "_telemetry")

    def __init__(self, telemetry: Telemetry, name: str, session_id: str, count: int) -> None:
        self._telemetry = telemetry
        self._name = name
        self._session_id = session_id
        self._count = count

    def __enter__(self) -> None:
        self._span = self._telemetry.start(self._name, self._session_id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._telemetry.end(self._span, self._name, self._count, error)


class _Logged(AbstractContextManager[None]):
    """An operation of which only a failure is told; a class, because a generator takes three times as long."""

    __slots__ = ("_name", "_session_id")

    def __init__(self, name: str, session_id: str) -> None:
        self._name = name
        self._session_id = session_id

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            log.debug("%s on session %r failed: %s", self._name, self._session_id, error)
