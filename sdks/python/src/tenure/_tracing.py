"""Spans of attempts, and submissions that continue the caller's trace, if OpenTelemetry is installed and set up."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

from ._attempt import Attempt

try:
    from opentelemetry import propagate, trace
except ImportError:
    trace = None  # type: ignore[assignment,unused-ignore]
    propagate = None  # type: ignore[assignment,unused-ignore]

_NOTHING: AbstractContextManager[Any] = contextlib.nullcontext()


def span(attempt: Attempt) -> AbstractContextManager[Any]:
    """A span `tenure.attempt` around the code, as a child of the run's caller."""
    if trace is None:
        return _NOTHING
    parent = propagate.extract({"traceparent": attempt.envelope.get("traceparent") or ""})
    envelope = attempt.envelope
    attributes = {
        "tenure.run_id": envelope["runId"],
        "tenure.kind": envelope["kind"],
        "tenure.queue": envelope["queue"],
        "tenure.attempt": envelope["attempt"],
    }
    tracer = trace.get_tracer("tenure")
    return _ReportedSpan(attempt, tracer.start_as_current_span("tenure.attempt", context=parent, attributes=attributes))


def carried(run: dict[str, Any]) -> dict[str, Any]:
    """A submission within the caller's trace, unless it names one. It is no part of what makes two submissions the same."""
    if trace is None or "traceparent" in run:
        return run
    context = trace.get_current_span().get_span_context()
    return {**run, "traceparent": _traceparent(context)} if context.is_valid else run


def _traceparent(context: Any) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


class _ReportedSpan:
    """Sends the span's own `traceparent` with the report, so that the run links to it."""

    def __init__(self, attempt: Attempt, inner: Any) -> None:
        self._attempt = attempt
        self._inner = inner

    def __enter__(self) -> Any:
        entered = self._inner.__enter__()
        context = entered.get_span_context()
        if context.is_valid and self._attempt.trace is not None:
            self._attempt.trace = _traceparent(context)
        return entered

    def __exit__(self, *exception: Any) -> Any:
        return self._inner.__exit__(*exception)
