"""Everything of a coordinator but runs (asynchronous; `_resources.py` is generated from this file by `tools/make_sync.py`).

Each method is one call. Answers are dicts with the members of the protocol; their types are in `_wire`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from . import _calls, _json
from ._codec import Codec, sealed_submission
from ._http import AsyncTransport
from ._span import Span, milliseconds
from .options import Retry, TaskOptions
from .schedule import Cron, Every
from .task import Kind, Plan, Task, submission_of

if TYPE_CHECKING:
    from . import _wire

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741


def _said(**members: Any) -> dict[str, Any]:
    """A body without the members that were not given."""
    return {name: value for name, value in members.items() if value is not None}


def _ms(span: Span | None, field: str) -> int | None:
    return None if span is None else milliseconds(span, field)


def _pauses(retry: Retry | None) -> dict[str, Any] | None:
    if retry is None:
        return None
    return {"baseMs": milliseconds(retry.base, "retry"), "capMs": milliseconds(retry.cap, "retry")}


class AsyncResource:
    """Calls below one path."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return await self._transport.call(_calls.get(path, query))

    async def _post(self, path: str, body: Any) -> Any:
        return await self._transport.call(_calls.post(path, body))

    async def _items(self, path: str, member: str, query: Mapping[str, Any] | None = None) -> AsyncIterator[Any]:
        """All items of a list that comes in pages."""
        cursor: str | None = None
        while True:
            page = await self._get(path, {**(query or {}), "cursor": cursor})
            for item in page[member]:
                yield item
            cursor = page.get("cursor")
            if not cursor:
                return

    async def _before(self, path: str, limit: int | None) -> AsyncIterator[Any]:
        """All entries of a log, newest first."""
        before: int | None = None
        while True:
            page = await self._get(path, {"before": before, "limit": limit})
            for entry in page["entries"]:
                yield entry
            before = page.get("nextBefore")
            if before is None:
                return


class AsyncSchedules(AsyncResource):
    """Runs that are submitted at certain times."""

    def __init__(self, transport: AsyncTransport, codec: Codec | None) -> None:
        super().__init__(transport)
        self._codec = codec

    @overload
    async def create(
        self, name: str, when: Cron | Every, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> _wire.ScheduleView: ...
    @overload
    async def create(self, name: str, when: Cron | Every, task: Kind[I, T], input: I, /) -> _wire.ScheduleView: ...
    @overload
    async def create(self, name: str, when: Cron | Every, task: Plan, /) -> _wire.ScheduleView: ...
    @overload
    async def create(
        self,
        name: str,
        when: Cron | Every,
        task: str,
        input: object = ...,
        /,
        *,
        queue: str,
        **options: Unpack[TaskOptions],
    ) -> _wire.ScheduleView: ...
    async def create(
        self, name: str, when: Cron | Every, task: Any, /, *args: Any, **kwargs: Any
    ) -> _wire.ScheduleView:
        """Creates a schedule that submits this run."""
        run = sealed_submission(self._codec, submission_of(task, args, kwargs).wire)
        answer: _wire.ScheduleView = await self._post("/v1/schedules", {"name": name, **when.to_json(), "run": run})
        return answer

    @overload
    async def update(self, name: str, when: Cron | Every | None = ..., /) -> _wire.ScheduleView: ...
    @overload
    async def update(
        self, name: str, when: Cron | Every | None, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> _wire.ScheduleView: ...
    async def update(
        self, name: str, when: Cron | Every | None = None, task: Any = None, /, *args: Any, **kwargs: Any
    ) -> _wire.ScheduleView:
        """Changes when a schedule submits, or what."""
        body = when.to_json() if when else {}
        if task is not None:
            body["run"] = sealed_submission(self._codec, submission_of(task, args, kwargs).wire)
        answer: _wire.ScheduleView = await self._post(self._path(name, "/update"), body)
        return answer

    async def list(self, *, state: _wire.ScheduleState | None = None) -> AsyncIterator[_wire.ScheduleView]:
        """All schedules."""
        async for schedule in self._items("/v1/schedules", "schedules", {"state": state}):
            yield schedule

    async def get(self, name: str) -> _wire.ScheduleView:
        """One schedule."""
        answer: _wire.ScheduleView = await self._get(self._path(name))
        return answer

    async def delete(self, name: str) -> _wire.ScheduleView:
        """Deletes a schedule. Runs that it has submitted stay."""
        answer: _wire.ScheduleView = await self._post(self._path(name, "/delete"), {})
        return answer

    async def pause(self, name: str) -> _wire.ScheduleView:
        """Submits nothing until `resume`."""
        answer: _wire.ScheduleView = await self._post(self._path(name, "/pause"), {})
        return answer

    async def resume(self, name: str) -> _wire.ScheduleView:
        """Goes on."""
        answer: _wire.ScheduleView = await self._post(self._path(name, "/resume"), {})
        return answer

    async def trigger(self, name: str) -> _wire.ScheduleTriggered:
        """Submits its run now."""
        answer: _wire.ScheduleTriggered = await self._post(self._path(name, "/trigger"), {})
        return answer

    async def backfill(self, name: str, since: datetime, until: datetime) -> _wire.ScheduleView:
        """Submits the runs of a time that is past."""
        body = {"from": _json.write_time(since), "to": _json.write_time(until)}
        answer: _wire.ScheduleView = await self._post(self._path(name, "/backfill"), body)
        return answer

    async def preview(self, name: str, count: int | None = None) -> Sequence[str]:
        """The next times."""
        answer: Sequence[str] = (await self._get(self._path(name, "/preview"), {"count": count}))["instants"]
        return answer

    async def history(self, name: str, *, limit: int | None = None) -> AsyncIterator[_wire.ScheduleEntry]:
        """Every change, newest first."""
        async for entry in self._before(self._path(name, "/history"), limit):
            yield entry

    def _path(self, name: str, rest: str = "") -> str:
        return f"/v1/schedules/{_calls.segment(name)}{rest}"


class AsyncEndpoints(AsyncResource):
    """Receivers of webhooks and of pushed work."""

    async def create(
        self,
        name: str,
        url: str,
        *,
        queues: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        concurrency: int | None = None,
        rate_per_second: int | None = None,
        idempotent: bool | None = None,
        max_tries: int | None = None,
        on_dead: _wire.OnDead | None = None,
        retry: Retry | None = None,
    ) -> _wire.EndpointSecret:
        """Registers an endpoint. The answer has its secret, which is shown once."""
        settings = _endpoint(queues, types, concurrency, rate_per_second, idempotent, max_tries, on_dead, retry)
        answer: _wire.EndpointSecret = await self._post("/v1/endpoints", {"name": name, "url": url, **settings})
        return answer

    async def update(
        self,
        name: str,
        *,
        url: str | None = None,
        enabled: bool | None = None,
        queues: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        concurrency: int | None = None,
        rate_per_second: int | None = None,
        idempotent: bool | None = None,
        max_tries: int | None = None,
        on_dead: _wire.OnDead | None = None,
        retry: Retry | None = None,
    ) -> _wire.EndpointView:
        """Changes what is given."""
        settings = _endpoint(queues, types, concurrency, rate_per_second, idempotent, max_tries, on_dead, retry)
        answer: _wire.EndpointView = await self._post(self._path(name), {**_said(url=url, enabled=enabled), **settings})
        return answer

    async def list(self) -> Sequence[_wire.EndpointView]:
        """All endpoints."""
        answer: Sequence[_wire.EndpointView] = (await self._get("/v1/endpoints"))["endpoints"]
        return answer

    async def get(self, name: str) -> _wire.EndpointView:
        """One endpoint."""
        answer: _wire.EndpointView = await self._get(self._path(name))
        return answer

    async def delete(self, name: str) -> _wire.EndpointView:
        """Deletes it. What has not been delivered is given up."""
        answer: _wire.EndpointView = await self._post(self._path(name, "/delete"), {})
        return answer

    async def pause(self, name: str) -> _wire.EndpointView:
        """Sends nothing until `resume`."""
        return await self.update(name, enabled=False)

    async def resume(self, name: str) -> _wire.EndpointView:
        """Goes on."""
        return await self.update(name, enabled=True)

    async def rotate(self, name: str, *, overlap: Span | None = None) -> _wire.EndpointSecret:
        """Makes a new secret. Both sign while they overlap."""
        body = _said(overlapMs=_ms(overlap, "overlap"))
        answer: _wire.EndpointSecret = await self._post(self._path(name, "/rotate"), body)
        return answer

    def _path(self, name: str, rest: str = "") -> str:
        return f"/v1/endpoints/{_calls.segment(name)}{rest}"


def _endpoint(
    queues: Sequence[str] | None,
    types: Sequence[str] | None,
    concurrency: int | None,
    rate_per_second: int | None,
    idempotent: bool | None,
    max_tries: int | None,
    on_dead: str | None,
    retry: Retry | None,
) -> dict[str, Any]:
    return _said(
        queues=None if queues is None else [*queues],
        types=None if types is None else [*types],
        concurrency=concurrency,
        ratePerSecond=rate_per_second,
        idempotent=idempotent,
        maxTries=max_tries,
        onDead=on_dead,
        retry=_pauses(retry),
    )


class AsyncEffects(AsyncResource):
    """What was sent, or is to be sent, to endpoints."""

    async def list(
        self, *, run_id: str | None = None, endpoint: str | None = None, state: _wire.EffectState | None = None
    ) -> AsyncIterator[_wire.EffectView]:
        """Effects that match."""
        query = {"runId": run_id, "endpoint": endpoint, "state": state}
        async for effect in self._items("/v1/effects", "effects", query):
            yield effect

    async def get(self, effect_id: str) -> _wire.EffectView:
        """One effect, with every try."""
        answer: _wire.EffectView = await self._get(self._path(effect_id))
        return answer

    async def redrive(self, effect_id: str) -> _wire.EffectView:
        """New tries for a dead effect."""
        answer: _wire.EffectView = await self._post(self._path(effect_id, "/redrive"), {})
        return answer

    async def redrive_all(
        self, *, endpoint: str | None = None, run_id: str | None = None, since: datetime | None = None
    ) -> _wire.Redriven:
        """New tries for all dead effects that match."""
        body = _said(endpoint=endpoint, runId=run_id, since=since and _json.write_time(since))
        answer: _wire.Redriven = await self._post("/v1/effects/redrive", body)
        return answer

    async def reconcile(self, effect_id: str, *, arrived: bool) -> _wire.EffectView:
        """A person found out what became of an unknown effect."""
        answer: _wire.EffectView = await self._post(self._path(effect_id, "/reconcile"), {"arrived": arrived})
        return answer

    async def release(self, effect_id: str) -> _wire.EffectView:
        """Its aggregate goes on without it."""
        answer: _wire.EffectView = await self._post(self._path(effect_id, "/release"), {})
        return answer

    def _path(self, effect_id: str, rest: str = "") -> str:
        return f"/v1/effects/{_calls.segment(effect_id)}{rest}"


class AsyncApprovals(AsyncResource):
    """Questions to people."""

    async def list(self, *, state: _wire.ApprovalState | None = None) -> AsyncIterator[_wire.ApprovalView]:
        """Approvals that match."""
        async for approval in self._items("/v1/approvals", "approvals", {"state": state}):
            yield approval

    async def get(self, approval_id: str) -> _wire.ApprovalView:
        """One approval, with its votes."""
        answer: _wire.ApprovalView = await self._get(f"/v1/approvals/{_calls.segment(approval_id)}")
        return answer

    async def decide(
        self,
        approval_id: str,
        decision: _wire.ApprovalDecision,
        *,
        digest: str | None = None,
        comment: str | None = None,
    ) -> _wire.ApprovalDecided:
        """Votes. `digest` is that of what was looked at, if the question names one."""
        body = _said(decision=decision, digest=digest, comment=comment)
        path = f"/v1/approvals/{_calls.segment(approval_id)}/decide"
        answer: _wire.ApprovalDecided = await self._post(path, body)
        return answer


class AsyncDeployments(AsyncResource):
    """Topologies that are deployed."""

    async def list(self) -> AsyncIterator[_wire.DeploymentView]:
        """All deployments."""
        async for deployment in self._items("/v1/deployments", "deployments"):
            yield deployment

    async def get(self, name: str) -> _wire.DeploymentView:
        """One deployment."""
        answer: _wire.DeploymentView = await self._get(self._path(name))
        return answer

    async def plan(self, name: str, topology: Mapping[str, Any]) -> _wire.TopologyPlan:
        """What `apply` would change."""
        answer: _wire.TopologyPlan = await self._post(self._path(name, "/plan"), {"topology": topology})
        return answer

    async def apply(self, name: str, topology: Mapping[str, Any]) -> _wire.DeploymentView:
        """Deploys a topology, or its next version."""
        answer: _wire.DeploymentView = await self._post(self._path(name), {"topology": topology})
        return answer

    async def pause(self, name: str) -> _wire.DeploymentView:
        """Begins nothing new until `resume`."""
        answer: _wire.DeploymentView = await self._post(self._path(name, "/pause"), {})
        return answer

    async def resume(self, name: str) -> _wire.DeploymentView:
        """Goes on."""
        answer: _wire.DeploymentView = await self._post(self._path(name, "/resume"), {})
        return answer

    async def delete(self, name: str) -> _wire.DeploymentView:
        """Deletes it."""
        answer: _wire.DeploymentView = await self._post(self._path(name, "/delete"), {})
        return answer

    async def event(self, name: str, type: str, key: str) -> _wire.EventRequested:
        """Asks for an event of the topology, once for each key."""
        answer: _wire.EventRequested = await self._post(self._path(name, "/events"), {"type": type, "key": key})
        return answer

    async def work_orders(
        self, name: str, *, state: _wire.WorkOrderState | None = None
    ) -> AsyncIterator[_wire.WorkOrderView]:
        """Work orders that match."""
        async for order in self._items(self._path(name, "/workorders"), "workOrders", {"state": state}):
            yield order

    async def claims(self, name: str) -> Sequence[_wire.ClaimView]:
        """Who holds what."""
        answer: Sequence[_wire.ClaimView] = (await self._get(self._path(name, "/claims")))["claims"]
        return answer

    async def pause_states(
        self, name: str, *, state: _wire.PauseStateState | None = None
    ) -> AsyncIterator[_wire.PauseStateView]:
        """What waits for a person."""
        async for pause in self._items(self._path(name, "/pause-states"), "pauseStates", {"state": state}):
            yield pause

    async def close_pause_state(self, name: str, pause_state: str) -> _wire.PauseStateView:
        """A person has dealt with it."""
        path = self._path(name, "/pause-states/close")
        answer: _wire.PauseStateView = await self._post(path, {"id": pause_state})
        return answer

    async def take_turns(
        self,
        name: str,
        role: str,
        *,
        worker_id: str,
        max: int = 1,
        wait: Span | None = None,
        known: Sequence[str] | None = None,
    ) -> _wire.Turns:
        """Takes turns of a role that a process outside decides, waiting at most `wait` for one.

        Needs a worker's key that names the role, or one that is an administrator's as well. It is tried once: turns whose
        answer is lost come again when their leases end. `known` names versions that need not be sent again.
        """
        wait_ms = _ms(wait, "wait")
        body = _said(workerId=worker_id, max=max, waitMs=wait_ms, known=None if known is None else [*known])
        call = _calls.post(self._role(name, role, "turns"), body, wait_ms=wait_ms or 0)
        answer: _wire.Turns = await self._transport.call_once(call)
        return answer

    async def renew_turn(self, name: str, role: str, claim: _wire.TurnClaim, *, worker_id: str) -> _wire.Turn:
        """Keeps a turn, and reads it again."""
        body = {"claim": claim, "workerId": worker_id}
        answer: _wire.Turn = await self._post(self._role(name, role, "turns/renew"), body)
        return answer

    async def return_turn(
        self, name: str, role: str, claim: _wire.TurnClaim, reason: str, *, worker_id: str
    ) -> _wire.Proposed:
        """Gives a turn back, to be tried again after a pause."""
        body = {"claim": claim, "reason": reason, "workerId": worker_id}
        answer: _wire.Proposed = await self._post(self._role(name, role, "turns/return"), body)
        return answer

    async def propose(
        self, name: str, role: str, decision: Any, *, worker_id: str, claim: _wire.TurnClaim | None = None
    ) -> _wire.Proposed:
        """Decides a turn. The same decision again gets the same answer."""
        body = {"decision": decision, "workerId": worker_id, **_said(claim=claim)}
        answer: _wire.Proposed = await self._post(self._role(name, role, "proposals"), body)
        return answer

    def _role(self, name: str, role: str, rest: str) -> str:
        return self._path(name, f"/roles/{_calls.segment(role)}/{rest}")

    def _path(self, name: str, rest: str = "") -> str:
        return f"/v1/deployments/{_calls.segment(name)}{rest}"


class AsyncArtifacts(AsyncResource):
    """The artifacts of a deployment, which move through the states of their type."""

    async def list(self, deployment: str, type: str, *, status: str | None = None) -> AsyncIterator[_wire.ArtifactView]:
        """Artifacts of a type."""
        async for artifact in self._items(self._path(deployment, type), "artifacts", {"status": status}):
            yield artifact

    async def get(self, deployment: str, type: str, artifact: str) -> _wire.ArtifactView:
        """One artifact."""
        answer: _wire.ArtifactView = await self._get(self._path(deployment, type, artifact))
        return answer

    async def create(
        self, deployment: str, type: str, artifact: str, fields: Mapping[str, Any] | None = None
    ) -> _wire.ArtifactView:
        """A new artifact."""
        body = _said(
            id=artifact,
            fields=None if fields is None else _calls.payload(fields, "what is known of the artifact", "fields"),
        )
        answer: _wire.ArtifactView = await self._post(self._path(deployment, type), body)
        return answer

    async def move(
        self,
        deployment: str,
        type: str,
        artifact: str,
        to: str,
        *,
        fields: Mapping[str, Any] | None = None,
        revision: int | None = None,
    ) -> _wire.ArtifactView:
        """Moves an artifact to another state, if it has not changed since `revision`."""
        return await self._move(deployment, type, artifact, "/transition", to, fields, revision)

    async def approve(
        self,
        deployment: str,
        type: str,
        artifact: str,
        to: str,
        *,
        fields: Mapping[str, Any] | None = None,
        revision: int | None = None,
    ) -> _wire.ArtifactView:
        """Moves an artifact through a transition that people decide."""
        return await self._move(deployment, type, artifact, "/approve", to, fields, revision)

    async def _move(
        self,
        deployment: str,
        type: str,
        artifact: str,
        verb: str,
        to: str,
        fields: Mapping[str, Any] | None,
        revision: int | None,
    ) -> _wire.ArtifactView:
        body = _said(
            to=to,
            fields=None if fields is None else _calls.payload(fields, "what is known of the artifact", "fields"),
            revision=revision,
        )
        path = self._path(deployment, type, artifact) + verb
        answer: _wire.ArtifactView = await self._post(path, body)
        return answer

    def _path(self, deployment: str, *names: str) -> str:
        rest = "".join(f"/{_calls.segment(name)}" for name in names)
        return f"/v1/deployments/{_calls.segment(deployment)}/artifacts{rest}"


class AsyncRecovery(AsyncResource):
    """What is done about failures that repeat."""

    async def list(self, *, state: _wire.CandidateState | None = None) -> AsyncIterator[_wire.CandidateView]:
        """Candidates that match."""
        async for candidate in self._items("/v1/recovery/candidates", "candidates", {"state": state}):
            yield candidate

    async def get(self, candidate: str) -> _wire.CandidateView:
        """One candidate."""
        answer: _wire.CandidateView = await self._get(self._path(candidate))
        return answer

    async def decide(
        self, candidate: str, action: _wire.RecoveryAction, *, comment: str | None = None
    ) -> _wire.CandidateView:
        """A person decides what is done."""
        body = _said(action=action, comment=comment)
        answer: _wire.CandidateView = await self._post(self._path(candidate, "/decide"), body)
        return answer

    async def history(self, candidate: str, *, limit: int | None = None) -> AsyncIterator[_wire.CandidateEntry]:
        """Every change, newest first."""
        async for entry in self._before(self._path(candidate, "/history"), limit):
            yield entry

    async def policies(self) -> Sequence[_wire.RecoveryPolicyView]:
        """All policies."""
        answer: Sequence[_wire.RecoveryPolicyView] = (await self._get("/v1/recovery/policies"))["policies"]
        return answer

    async def set_policy(self, name: str, policy: _wire.SetRecoveryPolicy) -> _wire.RecoveryPolicyView:
        """Creates or replaces a policy."""
        path = f"/v1/recovery/policies/{_calls.segment(name)}"
        answer: _wire.RecoveryPolicyView = await self._post(path, policy)
        return answer

    async def delete_policy(self, name: str) -> _wire.RecoveryPolicyView:
        """Deletes a policy."""
        path = f"/v1/recovery/policies/{_calls.segment(name)}/delete"
        answer: _wire.RecoveryPolicyView = await self._post(path, {})
        return answer

    def _path(self, candidate: str, rest: str = "") -> str:
        return f"/v1/recovery/candidates/{_calls.segment(candidate)}{rest}"


class AsyncBudgets(AsyncResource):
    """What all runs of a workspace or tenant may use together."""

    async def list(self) -> Sequence[_wire.ScopeBudget]:
        """All budgets."""
        answer: Sequence[_wire.ScopeBudget] = (await self._get("/v1/budgets"))["budgets"]
        return answer

    async def set(self, budget: _wire.SetBudget) -> _wire.ScopeBudget:
        """Replaces a budget."""
        answer: _wire.ScopeBudget = await self._post("/v1/budgets", budget)
        return answer


class AsyncKeys(AsyncResource):
    """API keys."""

    async def list(self) -> Sequence[_wire.Key]:
        """All keys, without their secrets."""
        keys: list[_wire.Key] = []
        after: str | None = None
        while True:
            page = await self._get("/v1/keys", {"after": after})
            keys.extend(page["keys"])
            after = page.get("nextAfter")
            if after is None:
                return keys

    async def create(
        self,
        roles: Sequence[_wire.Role],
        *,
        name: str | None = None,
        queues: Sequence[str] | None = None,
        tenant_id: str | None = None,
        workspace_id: str | None = None,
        expires_at: datetime | None = None,
    ) -> _wire.NewKey:
        """A new key. The answer has its secret, which is shown once."""
        body = _said(
            roles=[*roles],
            name=name,
            queues=None if queues is None else [*queues],
            tenantId=tenant_id,
            workspaceId=workspace_id,
            expiresAt=expires_at and _json.write_time(expires_at),
        )
        answer: _wire.NewKey = await self._post("/v1/keys", body)
        return answer

    async def rotate(self, key_id: str, *, overlap: Span | None = None) -> _wire.NewKey:
        """Makes a new secret. Both are accepted while they overlap."""
        body = _said(overlapMs=_ms(overlap, "overlap"))
        answer: _wire.NewKey = await self._post(f"/v1/keys/{_calls.segment(key_id)}/rotate", body)
        return answer

    async def revoke(self, key_id: str) -> _wire.Key:
        """Refuses the key from now on."""
        answer: _wire.Key = await self._post(f"/v1/keys/{_calls.segment(key_id)}/revoke", {})
        return answer

    async def rotate_signing(self, *, emergency: bool = False) -> _wire.SigningRotated:
        """Signs task tokens with a new key from now on. Older tokens stay valid until they expire, except in an emergency.

        It is tried once: each call makes a key.
        """
        call = _calls.post("/v1/signing-keys/rotate", _said(emergency=emergency or None))
        answer: _wire.SigningRotated = await self._transport.call_once(call)
        return answer


class AsyncQueues(AsyncResource):
    """Where runs wait."""

    async def list(self) -> Sequence[_wire.QueueView]:
        """All queues that hold something, or are paused."""
        answer: Sequence[_wire.QueueView] = (await self._get("/v1/queues"))["queues"]
        return answer

    async def pause(self, queue: str, *, reason: str | None = None) -> _wire.QueueStatus:
        """Leases nothing of this queue until `resume`."""
        path = f"/v1/queues/{_calls.segment(queue)}/pause"
        answer: _wire.QueueStatus = await self._post(path, _said(reason=reason))
        return answer

    async def resume(self, queue: str) -> _wire.QueueStatus:
        """Goes on."""
        answer: _wire.QueueStatus = await self._post(f"/v1/queues/{_calls.segment(queue)}/resume", {})
        return answer

    async def flow_keys(self) -> AsyncIterator[_wire.FlowKeyView]:
        """Keys that limit runs, and what they hold."""
        after: str | None = None
        while True:
            page = await self._get("/v1/flow-keys", {"after": after})
            for key in page["flowKeys"]:
                yield key
            after = page.get("nextAfter")
            if after is None:
                return


class AsyncWorkers(AsyncResource):
    """Workers that poll or hold leases."""

    async def list(self) -> AsyncIterator[_wire.WorkerView]:
        """All workers."""
        after: str | None = None
        while True:
            page = await self._get("/v1/workers", {"after": after})
            for worker in page["workers"]:
                yield worker
            after = page.get("nextAfter")
            if after is None:
                return


class AsyncKinds(AsyncResource):
    """Kinds that workers announced."""

    async def list(self, kind: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """All kinds that a worker serves now, or the versions of one kind with their schemas."""
        after: str | None = None
        while True:
            page = await self._get("/v1/kinds", {"kind": kind, "after": after})
            for found in page["kinds"]:
                yield found
            after = page.get("nextAfter")
            if after is None:
                return


class AsyncSetAside(AsyncResource):
    """Tasks that the answering server cannot continue."""

    async def get(self) -> _wire.SetAside:
        """Which they are, and why."""
        answer: _wire.SetAside = await self._get("/v1/set-aside")
        return answer


class AsyncLimits(AsyncResource):
    """Quotas of tenants."""

    async def list(self) -> Sequence[_wire.TenantLimits]:
        """All limits."""
        answer: Sequence[_wire.TenantLimits] = (await self._get("/v1/limits"))["limits"]
        return answer

    async def set(
        self,
        tenant_id: str,
        *,
        unfinished_runs: int | None = None,
        requests_per_second: int | None = None,
        burst: int | None = None,
    ) -> _wire.TenantLimits:
        """Replaces the limits of a tenant."""
        body = _said(
            tenantId=tenant_id, unfinishedRuns=unfinished_runs, requestsPerSecond=requests_per_second, burst=burst
        )
        answer: _wire.TenantLimits = await self._post("/v1/limits", body)
        return answer


class AsyncAudit(AsyncResource):
    """What administrators did."""

    async def list(self, *, limit: int | None = None) -> AsyncIterator[_wire.AuditEntry]:
        """Every entry, newest first."""
        async for entry in self._before("/v1/audit", limit):
            yield entry

    async def verify(self) -> _wire.AuditVerified:
        """Whether the log is whole."""
        answer: _wire.AuditVerified = await self._get("/v1/audit/verify")
        return answer
