"""The asynchronous client. `client.py` is generated from this file by `tools/make_sync.py`: change this one.

A client submits runs, waits for their results and acts on them. Every call is repeated where nothing was decided about it;
submissions carry an idempotency key, so a repetition never makes a second run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from . import _calls, _json
from ._codec import Codec, opened, sealed, sealed_submission
from ._http import AsyncTransport
from ._resources_aio import (
    AsyncApprovals,
    AsyncArtifacts,
    AsyncAudit,
    AsyncBudgets,
    AsyncDeployments,
    AsyncEffects,
    AsyncEndpoints,
    AsyncKeys,
    AsyncKinds,
    AsyncLimits,
    AsyncQueues,
    AsyncRecovery,
    AsyncSchedules,
    AsyncSetAside,
    AsyncWorkers,
)
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


class AsyncClient:
    """Talks to a coordinator. Use it in one event loop at a time, and close it, or use it with `async with`.

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
        self._transport = AsyncTransport(self._settings)
        self._codec = codec
        self.endpoints: AsyncEndpoints = AsyncEndpoints(self._transport)
        self.effects: AsyncEffects = AsyncEffects(self._transport)
        self.approvals: AsyncApprovals = AsyncApprovals(self._transport)
        self.deployments: AsyncDeployments = AsyncDeployments(self._transport)
        self.artifacts: AsyncArtifacts = AsyncArtifacts(self._transport)
        self.recovery: AsyncRecovery = AsyncRecovery(self._transport)
        self.budgets: AsyncBudgets = AsyncBudgets(self._transport)
        self.keys: AsyncKeys = AsyncKeys(self._transport)
        self.queues: AsyncQueues = AsyncQueues(self._transport)
        self.workers: AsyncWorkers = AsyncWorkers(self._transport)
        self.kinds: AsyncKinds = AsyncKinds(self._transport)
        self.limits: AsyncLimits = AsyncLimits(self._transport)
        self.set_aside: AsyncSetAside = AsyncSetAside(self._transport)
        self.audit: AsyncAudit = AsyncAudit(self._transport)
        self.schedules: AsyncSchedules = AsyncSchedules(self._transport, codec)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    @overload
    async def submit(self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncRunHandle[T]: ...
    @overload
    async def submit(self, task: Kind[I, T], input: I, /) -> AsyncRunHandle[T]: ...
    @overload
    async def submit(self, task: Plan, /) -> AsyncRunHandle[dict[str, Any]]: ...
    @overload
    async def submit(
        self, task: str, input: object = ..., /, *, queue: str, **options: Unpack[TaskOptions]
    ) -> AsyncRunHandle[Any]: ...
    async def submit(self, task: Any, /, *args: Any, **kwargs: Any) -> AsyncRunHandle[Any]:
        """Submits a run. Options of the run stand in `task.options(…)`.

        A submission without `idempotency_key` gets one of its own, so it can be repeated when an answer is lost.
        """
        submission = submission_of(task, args, kwargs)
        run = carried(sealed_submission(self._codec, submission.wire))
        key = run.pop("idempotencyKey", None) or _calls.new_key()
        _calls.check_key(key)
        return self._handle(await self._transport.submit(run, key), submission)

    async def submit_many(self, runs: Sequence[NewRun[T]]) -> list[AsyncRunHandle[T] | Exception]:
        """Submits many runs: a handle or the refusal of each, in their order.

        They go out in batches of up to 1,000. A batch that cannot be sent fails all of its runs.
        """
        submissions = [run.submission for run in runs]
        wires = [_with_key(carried(sealed_submission(self._codec, each.wire))) for each in submissions]
        results: list[AsyncRunHandle[T] | Exception] = []
        for first, last in _batches(wires):
            answer = await self._transport.call(_calls.post("/v1/runs", {"runs": wires[first:last]}))
            for submission, result in zip(submissions[first:last], answer["results"], strict=True):
                refusal = _calls.run_refused(self._settings.addresses[0], result) if result.get("error") else None
                results.append(refusal or self._handle(result, submission))
        return results

    def _handle(self, accepted: Any, submission: Submission) -> AsyncRunHandle[Any]:
        return AsyncRunHandle(self, accepted["runId"], submission.read_result, accepted)

    @overload
    def run(self, run_id: str) -> AsyncRunHandle[Any]: ...
    @overload
    def run(self, run_id: str, output: type[T]) -> AsyncRunHandle[T]: ...
    def run(self, run_id: str, output: Any = Any) -> AsyncRunHandle[Any]:
        """A handle of a run that exists, with the type of its result."""
        return AsyncRunHandle(self, run_id, lambda value: _json.read(output, value))

    async def runs(
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
    ) -> AsyncIterator[_wire.Run]:
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
            page = await self._transport.call(_calls.get("/v1/runs", {**query, "cursor": cursor}))
            for run in page["runs"]:
                yield run
            cursor = page.get("nextCursor")
            if not cursor:
                return

    async def version(self) -> _wire.Version:
        """The version of the coordinator."""
        answer: _wire.Version = await self._transport.call(_calls.get("/version"))
        return answer

    async def session(self) -> _wire.Session:
        """Whose key this is, and what it may do."""
        answer: _wire.Session = await self._transport.call(_calls.get("/v1/session"))
        return answer

    async def console_code(self) -> _wire.ConsoleCode:
        """A one-time code, with which a browser logs in to the console as this key. An unused one ends by itself."""
        answer: _wire.ConsoleCode = await self._transport.call(_calls.post("/v1/console-codes", {}))
        return answer


class AsyncRunHandle(Generic[T_co]):
    """A run: wait for it, read its result, act on it."""

    def __init__(self, client: AsyncClient, run_id: str, read_result: Any, accepted: Any = None) -> None:
        self._client = client
        self._read_result = read_result
        #: The id of the run.
        self.id: str = run_id
        #: Whether the submission found a run that was there already.
        self.replayed: bool = bool(accepted and accepted.get("replayed"))

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    async def status(self) -> _wire.Run:
        """The run as it is now."""
        answer: _wire.Run = await self._client._transport.call(_calls.get(self._path()))
        return answer

    async def wait(self, timeout: float | None = None) -> _wire.Run:
        """Waits until the run has ended, however it did. Raises `TimedOut` after `timeout` seconds; the run goes on."""
        run = await self._ended(timeout)
        return run if "input" in run else await self.status()

    async def result(self, timeout: float | None = None) -> T_co:
        """What the run returned. Raises `RunFailed` if it did not succeed, and `TimedOut` after `timeout` seconds."""
        run = await self._ended(timeout)
        if run["state"] != "succeeded":
            raise RunFailed(run)
        output = opened(self._client._codec, run.get("output"))
        try:
            value: T_co = self._read_result(output)
        except _json.Unreadable as problem:
            raise OutputUnreadable(self.id, problem.path, str(problem)) from None
        return value

    async def _ended(self, timeout: float | None) -> _wire.Run:
        """The run when it has ended, without its input if the coordinator leaves it out."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else max(0, round(1000 * (end - time.monotonic())))
            run = await self._poll(left, end)
            if run is not None and run["state"] in ENDED:
                return run
            if end is not None and time.monotonic() >= end:
                raise TimedOut(self.id, timeout or 0)

    async def _poll(self, wait_ms: int | None, end: float | None) -> _wire.Run | None:
        """One wait. A coordinator that is away for a moment does not end it."""
        try:
            answer: _wire.Run = await self._client._transport.ended(self.id, wait_ms)
        except Unreachable:
            if end is None or time.monotonic() >= end:
                raise
            await asyncio.sleep(_calls.BACKOFF_SECONDS_FIRST)
            return None
        return answer

    async def cancel(self, reason: str | None = None, now: bool = False) -> _wire.CancelAccepted:
        """Asks the run to stop. With `now` it is over at once, whatever its worker does."""
        body: dict[str, Any] = {"reason": reason, "force": True if now else None}
        answer: _wire.CancelAccepted = await self._act("cancel", body)
        return answer

    async def signal(self, name: str, value: object = None, *, idempotency_key: str | None = None) -> bool:
        """Sends a signal, which is kept until the run takes it. Whether it was new."""
        payload = _calls.payload(value, f"the payload of signal `{name}`", "value")
        body = {"name": name, "payload": sealed(self._client._codec, payload)}
        key = idempotency_key or _calls.new_key()
        call = _calls.post(self._path("/signals"), body, idempotency_key=key)
        return not (await self._client._transport.call(call)).get("replayed")

    async def retry(self, *, idempotency_key: str | None = None) -> AsyncRunHandle[T_co]:
        """Submits a failed run anew."""
        return await self._again("retry", {}, idempotency_key)

    async def fork(
        self, *, budget: Budget | None = None, from_step: str | None = None, idempotency_key: str | None = None
    ) -> AsyncRunHandle[T_co]:
        """A new run that begins with everything that this one has recorded."""
        body = {"budget": budget and budget.to_json(), "fromStep": from_step}
        return await self._again("fork", body, idempotency_key)

    async def resume(self) -> _wire.RunResumed:
        """Lets a diverged run go on, after code was deployed that fits its record."""
        answer: _wire.RunResumed = await self._act("resume", {})
        return answer

    async def unpin(self) -> _wire.RunUnpinned:
        """Lets workers of every build continue a run that is pinned to one."""
        answer: _wire.RunUnpinned = await self._act("unpin", {})
        return answer

    async def steps(self) -> list[_wire.Checkpoint]:
        """Everything that a durable run has recorded."""
        return await self._pages("/steps", "steps")

    async def logs(self) -> list[_wire.LoggedLine]:
        """The lines that workers logged about the run, oldest first, as far as the coordinator keeps them."""
        return await self._pages("/logs", "lines")

    async def plan(self) -> list[_wire.PlanStage]:
        """The steps of a plan, as they are now."""
        return await self._pages("/plan", "steps")

    async def children(self) -> list[_wire.ChildView]:
        """The runs that this one called."""
        return await self._pages("/children", "children")

    async def history(self, *, follow: bool = False) -> AsyncIterator[_wire.HistoryEntry]:
        """What happened to the run, in order. With `follow` until the run has ended."""
        after = 0
        while True:
            is_over = not follow or (await self.status())["state"] in ENDED
            wait_ms = 0 if is_over else _calls.WAIT_MS_MAX
            call = _calls.get(self._path("/history"), {"after": after}, wait_ms=wait_ms)
            page = await self._client._transport.call(call)
            for entry in page["entries"]:
                yield entry
            after = page["nextAfter"]
            if is_over and not page["entries"]:
                return

    async def record(self) -> _wire.Record:
        """The sealed record of a run that has ended."""
        answer: _wire.Record = await self._client._transport.call(_calls.get(self._path("/record")))
        return answer

    async def explain(self) -> _wire.Explanation:
        """Why the run is not further."""
        answer: _wire.Explanation = await self._client._transport.call(_calls.get(self._path("/explain")))
        return answer

    def _path(self, rest: str = "") -> str:
        return f"/v1/runs/{_calls.segment(self.id)}{rest}"

    async def _act(self, verb: str, body: dict[str, Any]) -> Any:
        said = {name: value for name, value in body.items() if value is not None}
        return await self._client._transport.call(_calls.post(self._path(f"/{verb}"), said))

    async def _again(self, verb: str, body: dict[str, Any], key: str | None) -> AsyncRunHandle[T_co]:
        said = {name: value for name, value in body.items() if value is not None}
        call = _calls.post(self._path(f"/{verb}"), said, idempotency_key=key or _calls.new_key())
        accepted = await self._client._transport.call(call)
        return AsyncRunHandle(self._client, accepted["runId"], self._read_result, accepted)

    async def _pages(self, path: str, member: str) -> list[Any]:
        items: list[Any] = []
        after = None
        while True:
            page = await self._client._transport.call(_calls.get(self._path(path), {"after": after}))
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
