"""What clients do when answers are lost, late, refused or strange. Both clients, the same cases."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stub import Drop, Stub, accepted, problem

from tenure import AsyncClient, Client, Kind, NewRun, Setup, task
from tenure._codec import opened
from tenure.errors import OutputUnreadable, Protocol, Refused, RunFailed, UnknownOutcome, Unreachable

ECHO: Kind[Any, Any] = Kind("echo", queue="conform", input=object, output=object)
HALF = Drop(b"HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n{")

Submit = Callable[..., str]


def blocking(url: str, **options: Any) -> str:
    with Client(url, "secret-key", **options) as client:
        return client.submit(ECHO, {"n": 1}).id


def asynchronous(url: str, **options: Any) -> str:
    async def submit() -> str:
        async with AsyncClient(url, "secret-key", **options) as client:
            return (await client.submit(ECHO, {"n": 1})).id

    return asyncio.run(submit())


@pytest.fixture(params=[blocking, asynchronous])
def submit(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("lost", [Drop(), HALF], ids=["dropped", "half"])
def test_a_lost_answer_is_asked_for_with_the_same_key_and_bytes(submit: Submit, lost: Drop) -> None:
    """S3-53, S2-115: one run, whatever was lost."""
    with Stub(lost, accepted(replayed=True)) as stub:
        assert submit(stub.url) == "run_1"
        first, second = stub.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body
    assert second.at - first.at >= 0.05


def test_the_pause_that_the_server_asks_for_is_kept(submit: Submit) -> None:
    for status in (503, 429):
        with Stub(problem(status, "overloaded", retryAfterMs=400), accepted()) as stub:
            submit(stub.url)
            first, second = stub.requests
        assert second.at - first.at >= 0.39


def test_a_refusal_is_raised_at_once(submit: Submit) -> None:
    with Stub(problem(400, "invalid_argument", field="queue")) as stub:
        with pytest.raises(Refused) as refused:
            submit(stub.url)
        assert len(stub.requests) == 1
    error = refused.value
    assert (error.code, error.field, error.retryable, error.status) == ("invalid_argument", "queue", False, 400)
    assert error.docs == f"{stub.url}/errors/invalid-argument"
    assert str(error) == f"it is invalid_argument (in `queue`); read {error.docs} [invalid_argument]"


def test_an_unknown_outcome_has_a_class_of_its_own(submit: Submit) -> None:
    with Stub(problem(503, "unknown_outcome")) as stub, pytest.raises(UnknownOutcome, match="same idempotency key"):
        submit(stub.url, retries=1)


def test_tries_are_bounded(submit: Submit) -> None:
    with Stub(Drop()) as stub:
        with pytest.raises(Unreachable, match="did not answer"):
            submit(stub.url, retries=2)
        assert len(stub.requests) == 3


def test_another_address_is_asked_and_kept(submit: Submit) -> None:
    with socket.socket() as nobody, Stub(accepted()) as stub:
        nobody.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        assert submit(f"{closed},{stub.url}") == "run_1"


def test_a_rate_limit_stays_at_its_address(submit: Submit) -> None:
    with Stub(problem(429, "too_many_requests"), accepted()) as first, Stub(accepted("run_2")) as second:
        assert submit(f"{first.url},{second.url}") == "run_1"
        assert second.requests == []


def test_what_is_no_coordinator_is_told_without_the_key(submit: Submit) -> None:
    with Stub((200, b"<html>welcome</html>")) as stub:
        with pytest.raises(Protocol, match="welcome") as told:
            submit(stub.url)
        assert len(stub.requests) == 1
    assert "secret-key" not in str(told.value)


def test_unknown_members_are_ignored(submit: Submit) -> None:
    with Stub(accepted(newer={"a": 1})) as stub:
        assert submit(stub.url) == "run_1"


def test_many_runs_go_in_parts() -> None:
    results = [{"results": [accepted(f"run_{n}") for n in range(many)]} for many in (1000, 1000, 500)]
    with Stub(*results) as stub:
        handles = Client(stub.url, "k").submit_many([NewRun(ECHO, n) for n in range(2500)])
        assert [len(request.json["runs"]) for request in stub.requests] == [1000, 1000, 500]
    keys = {run["idempotencyKey"] for request in stub.requests for run in request.json["runs"]}
    assert len(keys) == 2500
    assert len(handles) == 2500


def test_submissions_at_the_same_time_share_calls() -> None:
    async def together(url: str) -> list[str]:
        async with AsyncClient(url, "k") as client:
            handles = await asyncio.gather(*(client.submit(ECHO, n) for n in range(5)))
            return [handle.id for handle in handles]

    batch = {"results": [accepted(f"run_{n}") for n in range(4)]}
    with Stub(accepted("first"), batch) as stub:
        assert asyncio.run(together(stub.url)) == ["first", "run_0", "run_1", "run_2", "run_3"]
        assert len(stub.requests) == 2


def test_one_bad_run_does_not_spoil_its_neighbours() -> None:
    async def together(url: str) -> list[Any]:
        async with AsyncClient(url, "k") as client:
            ended: list[Any] = await asyncio.gather(*(client.submit(ECHO, n) for n in range(3)), return_exceptions=True)
            return ended

    bad = problem(400, "invalid_argument")
    with Stub(accepted("first"), bad, accepted("second"), bad) as stub:
        ended = asyncio.run(together(stub.url))
    assert [type(each).__name__ for each in ended] == ["AsyncRunHandle", "AsyncRunHandle", "Refused"]


def run_of(state: str, **members: Any) -> dict[str, Any]:
    return {"runId": "run_1", "state": state, "attempt": 2, **members}


def test_a_result_is_waited_for() -> None:
    with Stub(run_of("running"), run_of("running"), run_of("succeeded", output=7)) as stub:
        assert Client(stub.url, "k").run("run_1", int).result() == 7
        assert all("waitMs=30000" in request.path for request in stub.requests)


def test_a_failed_run_says_why() -> None:
    error = {"category": "TIMEOUT", "reason": "DEADLINE", "message": "too late"}
    with Stub(run_of("failed", error=error)) as stub, pytest.raises(RunFailed) as failed:
        Client(stub.url, "k").run("run_1").result()
    told = failed.value
    assert (told.state, told.reason, told.category, told.attempt) == ("failed", "DEADLINE", "TIMEOUT", 2)


def test_an_unreadable_result_names_the_place() -> None:
    with Stub(run_of("succeeded", output={"items": [1, "x"]})) as stub, pytest.raises(OutputUnreadable) as told:
        Client(stub.url, "k").run("run_1", dict[str, list[int]]).result()
    assert told.value.path == ".items[1]"


def test_pages_are_followed_as_needed() -> None:
    pages = [{"runs": [run_of("queued")], "nextCursor": "a"}, {"runs": [run_of("failed")]}]
    with Stub(*pages) as stub:
        runs = Client(stub.url, "k").runs(queue="q")
        assert next(runs)["state"] == "queued"
        assert len(stub.requests) == 1
        assert [run["state"] for run in runs] == ["failed"]
        assert "cursor=a" in stub.requests[1].path


@pytest.mark.parametrize(
    ("url", "key", "field"),
    [("", "k", "url"), ("ftp://x", "k", "url"), ("http://x", "", "api_key"), ("http://x", "ä", "api_key")],
)
def test_settings_are_checked_first(url: str, key: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TENURE_URL", "TENURE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Setup) as told:
        Client(url, key)
    assert told.value.field == field
    assert told.value.next_step


def test_what_cannot_be_submitted_is_told_before_anything_is_sent() -> None:
    @task()
    def several(a: int, b: int = 2) -> int:
        return a + b

    with Stub(accepted()) as stub:
        client: Any = Client(stub.url, "k")
        untyped: Any = several
        wrongs: list[Callable[[], Any]] = [
            lambda: client.submit(several),
            lambda: client.submit(several, 1, c=2),
            lambda: client.submit(several, object()),
            lambda: client.submit("kind", 1),
            lambda: client.submit(print, 1),
            lambda: client.submit(untyped.options(delya=1), 1),
            lambda: client.submit(several.options(idempotency_key="ä"), 1),
        ]
        for wrong in wrongs:
            with pytest.raises(Setup):
                wrong()
        assert stub.requests == []
        client.submit(several, 1)
        assert stub.requests[0].json["input"] == {"a": 1}


class Reversed:
    """A codec that a test can read."""

    name = "reversed"

    def encode(self, plain: bytes) -> bytes:
        return plain[::-1]

    def decode(self, stored: bytes) -> bytes:
        return stored[::-1]

    def digest(self, plain: bytes) -> str:
        return "0" * 64


def test_a_codec_hides_what_is_stored() -> None:
    stored = {"$codec": "reversed", "data": "Ig=="}
    with Stub(accepted(), run_of("succeeded", output={"$codec": "reversed", "data": "Nw=="})) as stub:
        client = Client(stub.url, "k", codec=Reversed())
        handle = client.submit(ECHO, {"secret": 1})
        sent = stub.requests[0].json["input"]
        assert sent["$codec"] == "reversed"
        assert b"secret" not in stub.requests[0].body
        assert opened(Reversed(), sent) == {"secret": 1}
        assert handle.result() == 7
    with pytest.raises(Setup, match="codec `reversed`"):
        opened(None, stored)


def test_every_route_of_the_document_has_a_call() -> None:
    package = Path(__file__).resolve().parents[1] / "src" / "tenure"
    document = json.loads((package.parents[3] / "protocol" / "openapi.json").read_text())
    sources = [path for path in package.glob("*.py") if path.name != "_wire.py"]
    written = "".join(path.read_text() for path in sources)
    single = {"/v1/tasks/{taskId}/completed", "/v1/tasks/{taskId}/started"}  # a worker sends batches
    routes = [path for path in document["paths"] if path.startswith("/v1/") and path not in single]
    missing = [path for path in routes if path.rpartition("}")[2].strip("/") not in written]
    assert missing == []


def test_the_turns_of_a_role_are_taken_kept_returned_and_decided() -> None:
    claim: Any = {"taskId": "task_1", "leaseId": "lease_1", "attempt": 1, "fence": 1}
    with Stub({"turns": [], "versions": [], "serverTime": "", "verdict": "COMMITTED"}) as stub:
        with Client(stub.url, "key") as client:
            deployments = client.deployments
            deployments.take_turns("news", "editor", worker_id="w", max=2, wait=3, known=["v1"])
            deployments.renew_turn("news", "editor", claim, worker_id="w")
            deployments.return_turn("news", "editor", claim, "busy", worker_id="w")
            deployments.propose("news", "editor", None, worker_id="w", claim=claim)
        told = [
            (request.path.removeprefix("/v1/deployments/news/roles/editor/"), request.json) for request in stub.requests
        ]
    assert told == [
        ("turns", {"workerId": "w", "max": 2, "waitMs": 3000, "known": ["v1"]}),
        ("turns/renew", {"claim": claim, "workerId": "w"}),
        ("turns/return", {"claim": claim, "reason": "busy", "workerId": "w"}),
        ("proposals", {"decision": None, "workerId": "w", "claim": claim}),
    ]


def test_a_call_that_makes_something_each_time_is_tried_once() -> None:
    with Stub(Drop()) as stub:
        with Client(stub.url, "key") as client, pytest.raises(Unreachable):
            client.deployments.take_turns("news", "editor", worker_id="w")
        with Client(stub.url, "key") as client, pytest.raises(Unreachable):
            client.keys.rotate_signing()
        assert len(stub.requests) == 2
