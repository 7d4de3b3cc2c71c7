"""Every public method of both clients against a real server, and every route of the server by one of them.

A new method or a new route fails this test until it is called here. A call whose subject would take a whole program to make
is refused by its route instead: with the code that says what does not exist, never as an unknown path or a wrong body.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure import AsyncClient, Client, Cron, Every, Kind, NewRun, Plan, PlanStep
from tenure import _resources as resources
from tenure._server import Server
from tenure.client import RunHandle
from tenure.errors import Refused, RunFailed

OPENAPI = Path(__file__).resolve().parents[3] / "protocol" / "openapi.json"
PATIENCE = 60.0

#: Routes that are no business of a client, and whose they are.
OTHERS = {
    "GET /errors/{page}": "people",
    "GET /openapi.json": "tools",
    "GET /livez": "operators",
    "GET /readyz": "operators",
    "GET /metrics": "operators",
    "POST /v1/leases": "workers",
    "POST /v1/starts": "workers",
    "POST /v1/heartbeats": "workers",
    "POST /v1/reports": "workers",
    "POST /v1/checkpoints": "workers",
    "GET /v1/tasks/{taskId}/checkpoints": "workers",
    "POST /v1/tasks/{taskId}/checkpoints": "workers",
    "POST /v1/tasks/{taskId}/started": "workers",
    "POST /v1/tasks/{taskId}/heartbeat": "workers",
    "POST /v1/tasks/{taskId}/completed": "workers",
}

TOPOLOGY: dict[str, Any] = {
    "topology": "papers",
    "about": "Papers that people sign.",
    "events": {},
    "workOrders": {},
    "gates": {},
    "roles": {"sender": {"uses": "review", "artifact": "paper", "when": {"path": "artifact.title", "op": "non-empty"}}},
    "artifacts": {
        "paper": {
            "about": "A paper.",
            "schema": {"type": "object", "properties": {"title": {"type": "string"}}},
            "statuses": ["DRAFT", "READ", "SIGNED"],
            "initial": "DRAFT",
            "final": ["SIGNED"],
            "transitions": [
                {"from": "DRAFT", "to": "READ", "by": "person"},
                {"from": "READ", "to": "SIGNED", "by": "approval"},
            ],
        }
    },
}
FAR: Kind[Any, Any] = Kind("far", queue="every-call", input=object, output=object)


class Caller:
    """Calls methods of a client by name, and remembers which ones, and what routes they asked for."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client
        self.called: set[str] = set()
        self.routes: set[str] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._listen(client._transport)

    def _listen(self, transport: Any) -> None:
        once = transport.call_once

        def listening(call: Any) -> Any:
            self.routes.add(f"{call.method} {call.path.partition('?')[0]}")
            return once(call)

        transport.call_once = listening

    def __call__(self, subject: Any, name: str, /, *args: Any, refused: str | None = None, **kwargs: Any) -> Any:
        """The result of a method; a list if it gives an iterator; None if it must be refused with these words, and is."""
        self.called.add(f"{type(subject).__name__.removeprefix('Async')}.{name}")
        if refused is None:
            return self._result(getattr(subject, name), args, kwargs)
        with pytest.raises(Refused) as told:
            self._result(getattr(subject, name), args, kwargs)
        assert refused in str(told.value)
        return None

    def _result(self, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        made = method(*args, **kwargs)
        if isinstance(made, AsyncIterator):
            return self._awaited(_collected(made))
        if inspect.isawaitable(made):
            return self._awaited(_awaited(made))
        return list(made) if isinstance(made, Iterator) else made

    def _awaited(self, made: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(made, self._loop).result(PATIENCE)

    def close(self) -> None:
        self(self.client, "close")
        self._loop.call_soon_threadsafe(self._loop.stop)


async def _collected(made: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in made]


async def _awaited(made: Any) -> Any:
    return await made


@contextmanager
def calling(server: Server, kind: type[Client] | type[AsyncClient]) -> Iterator[Caller]:
    caller = Caller(kind(server.url, server.api_key))
    try:
        yield caller
    finally:
        caller.close()


def public(owner: type) -> set[str]:
    """The methods that a user may call."""
    named = [name for name, each in vars(owner).items() if callable(each) and not name.startswith("_")]
    return {f"{owner.__name__}.{name}" for name in named}


def every_method() -> set[str]:
    owners = [
        each for each in vars(resources).values() if inspect.isclass(each) and issubclass(each, resources.Resource)
    ]
    return set().union(*(public(each) for each in [Client, RunHandle, *owners]))


def every_route() -> dict[str, re.Pattern[str]]:
    document = json.loads(OPENAPI.read_text())
    return {
        f"{method.upper()} {path}": re.compile(f"{method.upper()} " + re.sub(r"\{\w+\}", "[^/]+", path) + "$")
        for path, methods in document["paths"].items()
        for method in methods
        if method in ("get", "post", "put", "patch", "delete")
    }


def the_runs(call: Caller, name: str) -> None:
    client = call.client
    first = call(client, "submit", FAR.options(labels={"test": name}), 1)
    many = call(client, "submit_many", [NewRun(FAR, 1)])
    run = call(client, "run", first.id)
    assert call(run, "status")["state"] == "queued"
    assert first.id in [each["runId"] for each in call(client, "runs", label=f"test={name}")]
    assert call(run, "explain")["runId"] == first.id
    assert call(run, "signal", "go", 1) is True
    call(run, "cancel", "enough", now=True)
    assert call(run, "wait", timeout=PATIENCE)["state"] == "cancelled"
    assert call(run, "record")["state"] == "cancelled"
    assert call(run, "history")
    for listed in ("steps", "logs", "children"):
        assert call(run, listed) == []
    call(run, "retry")
    again = call(run, "fork")
    call(again, "cancel", now=True)
    call(run, "resume", refused="run_already_terminal")
    call(run, "unpin", refused="run_already_terminal")
    with pytest.raises(RunFailed, match="cancel requested: enough"):
        call(run, "result", timeout=PATIENCE)
    call(many[0], "cancel", now=True)


def a_plan_and_what_it_asks(call: Caller, name: str) -> None:
    client = call.client
    steps = [
        PlanStep("ask", approval={"subject": name}),
        PlanStep("again", approval={"subject": f"{name} again"}, depends_on=["ask"]),
    ]
    run = call(client, "submit", Plan(steps))
    assert [stage["key"] for stage in call(run, "plan")] == ["ask", "again"]
    [asked] = [each for each in call(client.approvals, "list", state="pending") if each["subject"] == name]
    question = call(client.approvals, "get", asked["approvalId"])
    call(client.approvals, "decide", asked["approvalId"], "APPROVED", digest=question.get("digest"))
    call(run, "cancel", now=True)


def schedules(call: Caller, name: str) -> None:
    schedules = call.client.schedules
    call(schedules, "create", name, Every(minutes=15), FAR, 1)
    call(schedules, "update", name, Cron("*/5 * * * *"))
    assert name in [each["name"] for each in call(schedules, "list")]
    assert call(schedules, "get", name)["cron"] == "*/5 * * * *"
    call(schedules, "pause", name)
    call(schedules, "resume", name)
    assert call(schedules, "trigger", name)["runId"]
    now = datetime.now(UTC)
    call(schedules, "backfill", name, now - timedelta(hours=2), now - timedelta(minutes=1))
    assert len(call(schedules, "preview", name, 3)) == 3
    assert call(schedules, "history", name, limit=5)
    assert call(schedules, "delete", name)["state"] == "deleted"


def endpoints_and_effects(call: Caller, name: str) -> None:
    endpoints, effects = call.client.endpoints, call.client.effects
    call(endpoints, "create", name, "http://127.0.0.1:9/", types=["run.failed"])
    call(endpoints, "update", name, concurrency=2)
    assert name in [each["name"] for each in call(endpoints, "list")]
    assert call(endpoints, "get", name)["concurrency"] == 2
    for verb in ("pause", "resume", "rotate"):
        call(endpoints, verb, name)
    assert call(effects, "list", endpoint=name) == []
    assert call(effects, "redrive_all", endpoint=name)["redriven"] == 0
    for verb, more in (("get", {}), ("redrive", {}), ("reconcile", {"arrived": True}), ("release", {})):
        call(effects, verb, "eff_00000000000000000000000000", refused="effect_not_found", **more)
    call(endpoints, "delete", name)


def deployments_and_artifacts(call: Caller, name: str) -> None:
    deployments, artifacts = call.client.deployments, call.client.artifacts
    assert call(deployments, "plan", name, TOPOLOGY)
    call(deployments, "apply", name, TOPOLOGY)
    assert name in [each["name"] for each in call(deployments, "list")]
    call(deployments, "get", name)
    call(artifacts, "create", name, "paper", "p-1", {"title": "one"})
    call(artifacts, "move", name, "paper", "p-1", "READ", fields={"title": "two"})
    call(artifacts, "approve", name, "paper", "p-1", "SIGNED")
    assert call(artifacts, "get", name, "paper", "p-1")["status"] == "SIGNED"
    assert len(call(artifacts, "list", name, "paper")) == 1
    for listed in ("work_orders", "claims", "pause_states"):
        assert call(deployments, listed, name) == []
    call(deployments, "close_pause_state", name, "p-1", refused="has no pause state with this id")
    call(deployments, "event", name, "PAPER_READY", "p-1", refused="declares no event `PAPER_READY`")
    claim = {"taskId": "task_1", "leaseId": "lease_1", "attempt": 1, "fence": 1}
    who = {"worker_id": "w", "refused": "role_not_found"}
    call(deployments, "take_turns", name, "reader", **who)
    call(deployments, "renew_turn", name, "reader", claim, **who)
    call(deployments, "return_turn", name, "reader", claim, "no", **who)
    call(deployments, "propose", name, "reader", {}, claim=claim, **who)
    for verb in ("pause", "resume", "delete"):
        call(deployments, verb, name)


def recovery(call: Caller, name: str) -> None:
    recovery = call.client.recovery
    call(recovery, "set_policy", name, {"queue": name, "attempts": 1})
    assert name in [each["name"] for each in call(recovery, "policies")]
    assert call(recovery, "list") == []
    for verb, more in (("get", ()), ("decide", ("retry",)), ("history", ())):
        call(recovery, verb, "rec_00000000000000000000000000", *more, refused="recovery_not_found")
    call(recovery, "delete_policy", name)


def what_operators_ask(call: Caller, name: str) -> None:
    client = call.client
    assert call(client, "version")["version"]
    assert call(client, "session")["roles"]
    assert call(client, "console_code")["path"]
    call(client.budgets, "set", {"workspaceId": name, "tokens": 1000})
    assert call(client.budgets, "list")
    made = call(client.keys, "create", ["reader"], name=name)
    rotated = call(client.keys, "rotate", made["key"]["keyId"])
    call(client.keys, "revoke", rotated["key"]["keyId"])
    assert call(client.keys, "list")
    assert call(client.keys, "rotate_signing")["kid"]
    call(client.queues, "pause", name, reason="test")
    call(client.queues, "resume", name)
    call(client.queues, "list")
    assert call(client.queues, "flow_keys") == []
    call(client.limits, "set", name, unfinished_runs=5)
    assert call(client.limits, "list")
    for resource, verb in ((client.workers, "list"), (client.kinds, "list"), (client.set_aside, "get")):
        call(resource, verb)
    assert call(client.audit, "list", limit=5)
    assert call(client.audit, "verify")["findings"] == []


SCENARIOS = [
    the_runs,
    a_plan_and_what_it_asks,
    schedules,
    endpoints_and_effects,
    deployments_and_artifacts,
    recovery,
    what_operators_ask,
]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_every_method_and_every_route_is_called(kind: type[Client] | type[AsyncClient]) -> None:
    # A server of its own: other tests look at everything that theirs has.
    with Server() as server, calling(server, kind) as call:
        for scenario in SCENARIOS:
            scenario(call, f"every-{kind.__name__.lower()}-{uuid.uuid4().hex[:8]}")
    assert every_method() - call.called == set()
    routes = every_route()
    asked = {route for route, pattern in routes.items() if any(pattern.match(each) for each in call.routes)}
    if kind is Client:
        asked.add("POST /v1/waits")  # many waits of an asynchronous client share this call
    assert routes.keys() - asked - OTHERS.keys() == set(), "a route has no method that asks for it"
    assert asked & OTHERS.keys() == set()
    assert OTHERS.keys() <= routes.keys()
