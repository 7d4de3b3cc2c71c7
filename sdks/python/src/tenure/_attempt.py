"""One attempt: its envelope, its lease, and the report that ends it.

What the code returned or raised becomes exactly one report, or none if the lease is lost. The rules are here and nowhere
else, for threads, the loop, isolated processes and pushed work alike.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable
from typing import Any, Literal

from . import _json
from ._codec import Codec, sealed
from ._lease import Lease
from ._log import BUFFER_BYTES_MAX
from .failure import STACK_TRACE_BYTES_MAX, Failure, cut, of_exception
from .task import Task

_quoted = _json.dumps


class Batch:
    """Leases that came with one poll: if all end soon, the worker may hold more at once."""

    __slots__ = ("granted_at", "is_full", "left")

    def __init__(self, count: int, is_full: bool, granted_at: float) -> None:
        self.left: int = count
        self.is_full: bool = is_full
        self.granted_at: float = granted_at


class Attempt:
    """One lease in this worker."""

    __slots__ = (
        "batch",
        "begun_at",
        "envelope",
        "forced_at",
        "has_entered",
        "is_begun",
        "is_ended",
        "is_next_stage",
        "is_start_implied",
        "is_starting",
        "is_stuck",
        "lease",
        "lines_sent",
        "needs_start",
        "number",
        "on_stop",
        "start_sent",
        "start_tries",
        "task",
        "task_id",
        "timeout_at",
        "trace",
        "was_told",
    )

    def __init__(self, envelope: Any, lease: Lease, task: Task[..., Any] | None, is_next_stage: bool = False) -> None:
        self.envelope: Any = envelope
        self.task_id: str = envelope["taskId"]
        #: From 1.
        self.number: int = envelope["attempt"]
        self.lease: Lease = lease
        #: The number of the last line that is on its way with a heartbeat.
        self.lines_sent: int = 0
        self.task: Task[..., Any] | None = task
        self.is_next_stage: bool = is_next_stage
        #: A later attempt may follow a crash: its code begins after the coordinator knows that it does.
        self.needs_start: bool = self.number > 1 and not is_next_stage
        self.start_sent: bool = False
        #: A start is on its way. No other call overtakes it.
        self.is_starting: bool = False
        #: A checkpoint was sent, which says that the attempt has started.
        self.is_start_implied: bool = False
        self.start_tries: int = 0
        self.is_begun: bool = False
        #: The code runs. Between `is_begun` and this it waits for its thread, or for the loop.
        self.has_entered: bool = False
        self.is_ended: bool = False
        self.is_stuck: bool = False
        self.was_told: bool = False
        self.begun_at: float = 0.0
        self.batch: Batch | None = None
        #: When code that was told to stop has had its time.
        self.forced_at: float | None = None
        resources = envelope.get("resources")
        limit = resources.get("timeoutMs") if resources else None
        self.timeout_at: float | None = None if limit is None else limit / 1000
        #: Called on the loop of the user's code when it must stop.
        self.on_stop: Callable[[], object] | None = None
        caller = envelope.get("traceparent")
        self.trace: str | None = None if caller is None else child_trace(caller)

    @property
    def kind(self) -> str:
        """The name of the task on the wire."""
        return str(self.envelope["kind"])


def child_trace(traceparent: str) -> str | None:
    """The `traceparent` of a span below the caller's."""
    parts = traceparent.split("-")
    if len(parts) != 4 or len(parts[1]) != 32:
        return None
    return f"{parts[0]}-{parts[1]}-{random.getrandbits(64) | 1:016x}-{parts[3]}"


Outcome = Literal["SUCCEEDED", "FAILED", "CANCELLED", "RELEASED"]


class Report:
    """One report, as the text that every repetition sends."""

    __slots__ = ("attempt", "bare", "error", "has_riders", "outcome", "text", "tries", "wants_next")

    def __init__(self, attempt: Attempt, outcome: Outcome, text: str, error: str | None = None) -> None:
        self.attempt = attempt
        self.outcome: Outcome = outcome
        self.text = text
        #: The same without lines, for a coordinator that does not know of them; None if there are none.
        self.bare: str | None = None
        self.error = error
        self.tries = 0
        self.wants_next = False
        self.has_riders = False


def succeeded(attempt: Attempt, worker_id: str, value: Any, codec: Codec | None, takes_next: bool) -> Report:
    """The report of a result. One that cannot be sent is a failure for good."""
    try:
        assert attempt.task is not None, "only the code of a task returns"
        signature = attempt.task.signature
        text = signature.output_text_of(value) if codec is None else _quoted(sealed(codec, signature.output_of(value)))
    except _json.Unwritable as problem:
        return failed(attempt, worker_id, of_exception(problem))
    return _written(Report(attempt, "SUCCEEDED", ""), worker_id, f',"output":{text}', takes_next)


def raised(attempt: Attempt, worker_id: str, error: BaseException, takes_next: bool = False) -> Report:
    """The report of an exception, with what the code was told taken into account."""
    reason = attempt.lease.stop_reason
    failure = error if isinstance(error, Failure) else None
    if reason == "ShuttingDown" or (failure is not None and failure.is_hand_back and reason != "CancelRequested"):
        return released(attempt, worker_id)
    if reason == "CancelRequested":
        return cancelled(attempt, worker_id, failure)
    if reason == "TimedOut":
        text = "dropped after its time limit" if isinstance(error, asyncio.CancelledError) else str(error)
        return failed(attempt, worker_id, Failure(f"its time limit passed: {text}", category="TIMEOUT"))
    return failed(attempt, worker_id, _with_stack(error), takes_next)


def _with_stack(error: BaseException) -> Failure:
    failure = of_exception(error)
    if failure is not error:
        trace = "".join(traceback.format_exception(error))
        failure.stack_trace = cut(trace, STACK_TRACE_BYTES_MAX)
    return failure


def failed(attempt: Attempt, worker_id: str, failure: Failure, takes_next: bool = False) -> Report:
    """The report of a failure."""
    report = Report(attempt, "FAILED", "", failure.message)
    return _written(report, worker_id, f',"error":{_quoted(reported(failure))}', takes_next)


def reported(failure: Failure) -> dict[str, Any]:
    """A failure in a report."""
    message = f"{failure.reason}: {failure.message}" if failure.reason else failure.message
    category = "USER_CODE" if failure.category == "CANCELLED" else failure.category
    error: dict[str, Any] = {"category": category, "message": message}
    if failure.retryable is not None:
        error["retryable"] = failure.retryable
    if failure.stack_trace:
        error["stackTrace"] = failure.stack_trace
    return error


def cancelled(attempt: Attempt, worker_id: str, failure: Failure | None = None) -> Report:
    """The code stopped because the run was cancelled."""
    members = ""
    if failure is not None and failure.phase is not None:
        members += f',"cancelledDuringPhase":{_quoted(failure.phase)}'
    if failure is not None and failure.partial_progress is not None:
        try:
            members += f',"partialProgress":{_quoted(_json.payload(failure.partial_progress))}'
        except _json.Unwritable:
            pass  # it is optional, the report is not
    return _written(Report(attempt, "CANCELLED", ""), worker_id, members)


def released(attempt: Attempt, worker_id: str) -> Report:
    """The attempt is handed back: another worker gets the task, and it loses none of its attempts."""
    return _written(Report(attempt, "RELEASED", ""), worker_id, "")


def returned(attempt: Attempt, worker_id: str, complete: Any, riding: dict[str, Any], takes_next: bool) -> Report:
    """The report of a durable function, with what rides along."""
    members = "".join(f',"{name}":{_quoted(items)}' for name, items in riding.items())
    report = Report(attempt, complete.outcome, "", None)
    if complete.error is None:
        members += f',"output":{_quoted(complete.output)}'
    else:
        members += f',"error":{_quoted(_durable_error(complete))}'
        report.error = complete.error.message
    report.has_riders = bool(riding)
    return _written(report, worker_id, members, takes_next)


def _durable_error(complete: Any) -> dict[str, Any]:
    """A failure repeats itself in every replay, so it is not retried; a bug waits for another deploy."""
    failure: Failure = complete.error
    if complete.bug is not None:
        failure = _with_stack(complete.bug)
        failure.retryable = True
        return reported(failure)
    error = reported(failure)
    error.setdefault("retryable", False)
    return error


def _written(report: Report, worker_id: str, members: str, takes_next: bool = False) -> Report:
    attempt = report.attempt
    lease = attempt.lease
    if lease.spent is not None:
        members += f',"spend":{_quoted(lease.spent.to_json())}'
    if attempt.trace is not None:
        members += f',"traceparent":"{attempt.trace}"'
    if takes_next and attempt.envelope.get("stage") is not None and report.outcome in ("SUCCEEDED", "FAILED"):
        report.wants_next = True
        members += ',"next":true'
    text = (
        f'{{"taskId":"{attempt.task_id}","taskToken":"{lease.token}","attempt":{attempt.number},'
        f'"workerId":{worker_id},"outcome":"{report.outcome}"{members}'
    )
    log = lease.log.member(BUFFER_BYTES_MAX)[0] if lease.log.has_more() else ""
    report.text = f"{text}{log}}}"
    if log:
        report.bare = f"{text}}}"
    return report
