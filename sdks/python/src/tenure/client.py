"""The blocking client. Generated from `aio.py` by `tools/make_sync.py`; do not edit.

A client submits runs, waits for their results and acts on them. Every call is repeated where nothing was decided about it;
submissions carry an idempotency key, so a repetition never makes a second run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from . import _calls, _json
from ._codec import Codec, opened, sealed, sealed_submission
from ._resources import (
    Approvals,
    Artifacts,
    Audit,
    Budgets,
    Deployments,
    Effects,
    Endpoints,
    Keys,
    Kinds,
    Limits,
    Queues,
    Recovery,
    Schedules,
    SetAside,
    Workers,
)
from ._sync_http import Transport
from ._tracing import carried
from .errors import OutputUnreadable, RunFailed, TimedOut, Unreachable
from .options import Budget, TaskOptions
from .task import Kind, NewRun, Plan, Submission, Task, submission_of

if TYPE_CHECKING:
    # A hundred and fifty types that no line of code uses: they would be a third of what importing this package costs.
    from . import _wire

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
T_co = TypeVar("T_co", covariant=True)

#: States in which a run stays.
ENDED = frozenset({"succeeded", "failed", "halted", "cancelled", "skipped"})
#: The coordinator's limit of one batch of submissions.
BATCH_RUNS_MAX = 1000
#: Below the coordinator's limit of 1 MiB on a body.
BATCH_BYTES_MAX = 768 * 1024


class Client:
    """Talks to a coordinator. Safe to use from several threads, and after a fork. Close it, or use it with `with`.

    Without arguments it reads TENURE_URL (several addresses with commas), TENURE_API_KEY and TENURE_CA_FILE.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        ca_file: str | None = None,
        retries: int = _calls.RETRIES,
        codec: Codec | None = None,
    ) -> None:
        self._settings = _calls.Settings.of(url, api_key, ca_file, retries)
        self._transport = Transport(self._settings)
        self._codec = codec
        self.endpoints: Endpoints = Endpoints(self._transport)
        self.effects: Effects = Effects(self._transport)
        self.approvals: Approvals = Approvals(self._transport)
        self.deployments: Deployments = Deployments(self._transport)
        self.artifacts: Artifacts = Artifacts(self._transport)
        self.recovery: Recovery = Recovery(self._transport)
        self.budgets: Budgets = Budgets(self._transport)
        self.keys: Keys = Keys(self._transport)
        self.queues: Queues = Queues(self._transport)
        self.workers: Workers = Workers(self._transport)
        self.kinds: Kinds = Kinds(self._transport)
        self.limits: Limits = Limits(self._transport)
        self.set_aside: SetAside = SetAside(self._transport)
        self.audit: Audit = Audit(self._transport)
        self.schedules: Schedules = Schedules(self._transport, codec)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    @overload
    def submit(self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> RunHandle[T]: ...
    @overload
    def submit(self, task: Kind[I, T], input: I, /) -> RunHandle[T]: ...
    @overload
    def submit(self, task: Plan, /) -> RunHandle[dict[str, Any]]: ...
    @overload
    def submit(
        self, task: str, input: object = ..., /, *, queue: str, **options: Unpack[TaskOptions]
    ) -> RunHandle[Any]: ...
    def submit(self, task: Any, /, *args: Any, **kwargs: Any) -> RunHandle[Any]:
        """Submits a run. Options of the run stand in `task.options(…)`.

        A submission without `idempotency_key` gets one of its own, so it can be repeated when an answer is lost.
        """
        submission = submission_of(task, args, kwargs)
        run = carried(sealed_submission(self._codec, submission.wire))
        key = run.pop("idempotencyKey", None) or _calls.new_key()
        _calls.check_key(key)
        return self._handle(self._transport.submit(run, key), submission)

    def submit_many(self, runs: Sequence[NewRun[T]]) -> list[RunHandle[T] | Exception]:
        """Submits many runs: a handle or the refusal of each, in their order.

        They go out in batches of up to 1,000. A batch that cannot be sent fails all of its runs.
        """
        submissions = [run.submission for run in runs]
        wires = [_with_key(carried(sealed_submission(self._codec, each.wire))) for each in submissions]
        results: list[RunHandle[T] | Exception] = []
        for first, last in _batches(wires):
            answer = self._transport.call(_calls.post("/v1/runs", {"runs": wires[first:last]}))
            for submission, result in zip(submissions[first:last], answer["results"], strict=True):
                refusal = _calls.run_refused(self._settings.addresses[0], result) if result.get("error") else None
                results.append(refusal or self._handle(result, submission))
        return results

    def _handle(self, accepted: Any, submission: Submission) -> RunHandle[Any]:
        return RunHandle(self, accepted["runId"], submission.read_result, accepted)

    @overload
    def run(self, run_id: str) -> RunHandle[Any]: ...
    @overload
    def run(self, run_id: str, output: type[T]) -> RunHandle[T]: ...
    def run(self, run_id: str, output: Any = Any) -> RunHandle[Any]:
        """A handle of a run that exists, with the type of its result."""
        return RunHandle(self, run_id, lambda value: _json.read(output, value))

    def runs(
        self,
        *,
        state: _wire.State | None = None,
        queue: str | None = None,
        kind: str | None = None,
        label: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        worker: str | None = None,
        category: _wire.ErrorCategory | None = None,
        children: bool | None = None,
    ) -> Iterator[_wire.Run]:
        """Runs that match, newest first. Pages are read as you go."""
        query: dict[str, Any] = {
            "state": state,
            "queue": queue,
            "kind": kind,
            "label": label,
            "since": since and _json.write_time(since),
            "until": until and _json.write_time(until),
            "worker": worker,
            "category": category,
            "children": children,
        }
        cursor: str | None = None
        while True:
            page = self._transport.call(_calls.get("/v1/runs", {**query, "cursor": cursor}))
            for run in page["runs"]:
                yield run
            cursor = page.get("nextCursor")
            if not cursor:
                return

    def version(self) -> _wire.Version:
        """The version of the coordinator."""
        answer: _wire.Version = self._transport.call(_calls.get("/version"))
        return answer

    def session(self) -> _wire.Session:
        """Whose key this is, and what it may do."""
        answer: _wire.Session = self._transport.call(_calls.get("/v1/session"))
        return answer

    def console_code(self) -> _wire.ConsoleCode:
        """A one-time code, with which a browser logs in to the console as this key. An unused one ends by itself."""
        answer: _wire.ConsoleCode = self._transport.call(_calls.post("/v1/console-codes", {}))
        return answer


class RunHandle(Generic[T_co]):
    """A run: wait for it, read its result, act on it."""

    def __init__(self, client: Client, run_id: str, read_result: Any, accepted: Any = None) -> None:
        self._client = client
        self._read_result = read_result
        #: The id of the run.
        self.id: str = run_id
        #: Whether the submission found a run that was there already.
        self.replayed: bool = bool(accepted and accepted.get("replayed"))

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def status(self) -> _wire.Run:
        """The run as it is now."""
        answer: _wire.Run = self._client._transport.call(_calls.get(self._path()))
        return answer

    def wait(self, timeout: float | None = None) -> _wire.Run:
        """Waits until the run has ended, however it did. Raises `TimedOut` after `timeout` seconds; the run goes on."""
        run = self._ended(timeout)
        return run if "input" in run else self.status()

    def result(self, timeout: float | None = None) -> T_co:
        """What the run returned. Raises `RunFailed` if it did not succeed, and `TimedOut` after `timeout` seconds."""
        run = self._ended(timeout)
        if run["state"] != "succeeded":
            raise RunFailed(run)
        output = opened(self._client._codec, run.get("output"))
        try:
            value: T_co = self._read_result(output)
        except _json.Unreadable as problem:
            raise OutputUnreadable(self.id, problem.path, str(problem)) from None
        return value

    def _ended(self, timeout: float | None) -> _wire.Run:
        """The run when it has ended, without its input if the coordinator leaves it out."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else max(0, round(1000 * (end - time.monotonic())))
            run = self._poll(left, end)
            if run is not None and run["state"] in ENDED:
                return run
            if end is not None and time.monotonic() >= end:
                raise TimedOut(self.id, timeout or 0)

    def _poll(self, wait_ms: int | None, end: float | None) -> _wire.Run | None:
        """One wait. A coordinator that is away for a moment does not end it."""
        try:
            answer: _wire.Run = self._client._transport.ended(self.id, wait_ms)
        except Unreachable:
            if end is None or time.monotonic() >= end:
                raise
            time.sleep(_calls.BACKOFF_SECONDS_FIRST)
            return None
        return answer

    def cancel(self, reason: str | None = None, now: bool = False) -> _wire.CancelAccepted:
        """Asks the run to stop. With `now` it is over at once, whatever its worker does."""
        body: dict[str, Any] = {"reason": reason, "force": True if now else None}
        answer: _wire.CancelAccepted = self._act("cancel", body)
        return answer

    def signal(self, name: str, value: object = None, *, idempotency_key: str | None = None) -> bool:
        """Sends a signal, which is kept until the run takes it. Whether it was new."""
        payload = _calls.payload(value, f"the payload of signal `{name}`", "value")
        body = {"name": name, "payload": sealed(self._client._codec, payload)}
        key = idempotency_key or _calls.new_key()
        call = _calls.post(self._path("/signals"), body, idempotency_key=key)
        return not (self._client._transport.call(call)).get("replayed")

    def retry(self, *, idempotency_key: str | None = None) -> RunHandle[T_co]:
        """Submits a failed run anew."""
        return self._again("retry", {}, idempotency_key)

    def fork(
        self, *, budget: Budget | None = None, from_step: str | None = None, idempotency_key: str | None = None
    ) -> RunHandle[T_co]:
        """A new run that begins with everything that this one has recorded."""
        body = {"budget": budget and budget.to_json(), "fromStep": from_step}
        return self._again("fork", body, idempotency_key)

    def resume(self) -> _wire.RunResumed:
        """Lets a diverged run go on, after code was deployed that fits its record."""
        answer: _wire.RunResumed = self._act("resume", {})
        return answer

    def unpin(self) -> _wire.RunUnpinned:
        """Lets workers of every build continue a run that is pinned to one."""
        answer: _wire.RunUnpinned = self._act("unpin", {})
        return answer

    def steps(self) -> list[_wire.Checkpoint]:
        """Everything that a durable run has recorded."""
        return self._pages("/steps", "steps")

    def logs(self) -> list[_wire.LoggedLine]:
        """The lines that workers logged about the run, oldest first, as far as the coordinator keeps them."""
        return self._pages("/logs", "lines")

    def plan(self) -> list[_wire.PlanStage]:
        """The steps of a plan, as they are now."""
        return self._pages("/plan", "steps")

    def children(self) -> list[_wire.ChildView]:
        """The runs that this one called."""
        return self._pages("/children", "children")

    def history(self, *, follow: bool = False) -> Iterator[_wire.HistoryEntry]:
        """What happened to the run, in order. With `follow` until the run has ended."""
        after = 0
        while True:
            is_over = not follow or (self.status())["state"] in ENDED
            wait_ms = 0 if is_over else _calls.WAIT_MS_MAX
            call = _calls.get(self._path("/history"), {"after": after}, wait_ms=wait_ms)
            page = self._client._transport.call(call)
            for entry in page["entries"]:
                yield entry
            after = page["nextAfter"]
            if is_over and not page["entries"]:
                return

    def record(self) -> _wire.Record:
        """The sealed record of a run that has ended."""
        answer: _wire.Record = self._client._transport.call(_calls.get(self._path("/record")))
        return answer

    def explain(self) -> _wire.Explanation:
        """Why the run is not further."""
        answer: _wire.Explanation = self._client._transport.call(_calls.get(self._path("/explain")))
        return answer

    def _path(self, rest: str = "") -> str:
        return f"/v1/runs/{_calls.segment(self.id)}{rest}"

    def _act(self, verb: str, body: dict[str, Any]) -> Any:
        said = {name: value for name, value in body.items() if value is not None}
        return self._client._transport.call(_calls.post(self._path(f"/{verb}"), said))

    def _again(self, verb: str, body: dict[str, Any], key: str | None) -> RunHandle[T_co]:
        said = {name: value for name, value in body.items() if value is not None}
        call = _calls.post(self._path(f"/{verb}"), said, idempotency_key=key or _calls.new_key())
        accepted = self._client._transport.call(call)
        return RunHandle(self._client, accepted["runId"], self._read_result, accepted)

    def _pages(self, path: str, member: str) -> list[Any]:
        items: list[Any] = []
        after = None
        while True:
            page = self._client._transport.call(_calls.get(self._path(path), {"after": after}))
            items += page[member]
            after = page.get("nextAfter")
            if after is None:
                return items


def _with_key(wire: dict[str, Any]) -> dict[str, Any]:
    if "idempotencyKey" in wire:
        _calls.check_key(wire["idempotencyKey"])
        return wire
    return {**wire, "idempotencyKey": _calls.new_key()}


def _batches(wires: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Where each batch begins and ends."""
    batches, first, size = [], 0, 0
    for place, wire in enumerate(wires):
        more = len(_calls.body_bytes(wire))
        if place > first and (place - first == BATCH_RUNS_MAX or size + more > BATCH_BYTES_MAX):
            batches.append((first, place))
            first, size = place, 0
        size += more
    return [*batches, (first, len(wires))] if wires else []
