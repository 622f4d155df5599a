"""Telling the outside what happened: the `plait` logger, and OpenTelemetry where it is installed."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

log = logging.getLogger("plait")


class Telemetry:
    """Spans and counters named after the operation; does nothing without `plait[otel]`."""

    def __init__(self) -> None:
        self._tracer: Any = None
        self._counter: Any = None
        try:
            trace, metrics = import_module("opentelemetry.trace"), import_module("opentelemetry.metrics")
        except ImportError:
            return
        self._tracer = trace.get_tracer("plait")
        self._counter = metrics.get_meter("plait").create_counter(
            "plait.operations", unit="1", description="Operations of plait sessions, by name and outcome"
        )

    @contextmanager
    def operation(self, name: str, session_id: str, count: int = 1) -> Generator[None]:
        """One operation on a session: a span around it, a count after it, also when it fails."""
        if self._tracer is None:
            try:
                yield
            except Exception as error:
                log.debug("%s on session %r failed: %s", name, session_id, error)
                raise
            return
        with self._traced(name, session_id, count):
            yield

    @contextmanager
    def _traced(self, name: str, session_id: str, count: int) -> Generator[None]:
        outcome = "ok"
        with self._tracer.start_as_current_span(f"plait.{name}", attributes={"plait.session_id": session_id}):
            try:
                yield
            except BaseException:
                outcome = "error"
                raise
            finally:
                self._counter.add(count, {"operation": name, "outcome": outcome})
