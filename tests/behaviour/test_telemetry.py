"""What OpenTelemetry is told, where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import plait
from plait import diagnostics
from tests.behaviour.values import note

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the otel extra is not installed")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The exporter of spans and the reader of counters that stores made from now on report to."""
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(diagnostics, "_one", None)
    monkeypatch.setattr(trace, "get_tracer", tracers.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", meters.get_meter)
    yield exporter, reader
    meters.shutdown()
    tracers.shutdown()


def counts(reader: Any) -> dict[tuple[str, str], int]:
    data = reader.get_metrics_data()
    points = [
        point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    return {(point.attributes["operation"], point.attributes["outcome"]): point.value for point in points}


def test_operations_are_spans_and_counters_that_name_the_session_and_the_outcome(tmp_path: Path, told: Any) -> None:
    exporter, reader = told
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        chat.append(note("a", "the secret words"))
        chat.append_many([note("b"), note("c")])
        chat.update(note("b", "new"))
        chat.delete(["c"])
        with pytest.raises(plait.NotFoundError):
            chat.append(note("d"), parent="absent")
        chat.clear()
        sessions.delete("chat")
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "plait.append",
        "plait.append",
        "plait.update",
        "plait.delete",
        "plait.append",
        "plait.clear",
        "plait.delete_session",
    ]
    assert all(span.attributes["plait.session_id"] == "chat" for span in spans)
    assert [span.status.is_ok for span in spans].count(False) == 1
    assert "secret" not in repr([span.to_json() for span in spans])
    found = counts(reader)
    assert found["append", "ok"] == 3 and found["append", "error"] == 1
    assert found["update", "ok"] == found["delete", "ok"] == found["clear", "ok"] == 1


def test_without_opentelemetry_nothing_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in list(sys.modules):
        if name.split(".")[0] == "opentelemetry":
            monkeypatch.setitem(sys.modules, name, None)
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        sessions.session("chat").append(note("a"))
        with pytest.raises(plait.NotFoundError):
            sessions.session("chat").append(note("b"), parent="absent")
