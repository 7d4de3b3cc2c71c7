"""Many coroutines wait for results with few calls, and with one each where the coordinator knows no other way."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from stub import Request, Stub, problem

from tenure import AsyncClient, AsyncRunHandle, Client, TimedOut
from tenure._results import CALLS_WITH_ROOM_MAX
from tenure.errors import Refused

PATIENCE = 60.0
NOW = "2026-01-01T00:00:00.000Z"


class Coordinator:
    """Runs that end when a test says so."""

    def __init__(self, *, knows_waits: bool = True) -> None:
        self._changed = threading.Condition()
        self._ended: set[str] = set()
        self._knows_waits = knows_waits
        #: The runs of each shared wait that is open.
        self.open: list[list[str]] = []

    def end(self, *runs: str) -> None:
        with self._changed:
            self._ended.update(runs)
            self._changed.notify_all()

    def until_open(self, count: int) -> None:
        """Waits until so many shared waits are open."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.open) >= count, PATIENCE)

    def __call__(self, request: Request) -> Any:
        if request.path == "/v1/waits":
            return self._wait(request.json["runIds"]) if self._knows_waits else problem(404, "not_found")
        run_id = request.path.split("/")[3].partition("?")[0]
        if run_id == "run_none":
            return problem(404, "run_not_found")
        with self._changed:
            if "waitMs" in request.path:
                assert self._changed.wait_for(lambda: run_id in self._ended, PATIENCE)
            return self._run(run_id)

    def _wait(self, runs: list[str]) -> Any:
        none = [run for run in runs if run == "run_none"]
        with self._changed:
            self.open.append(runs)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: none or self._ended.intersection(runs), PATIENCE)
            ended = [self._run(run) for run in runs if run in self._ended]
            pending = [run for run in runs if run not in self._ended and run not in none]
        return {"ended": ended, "pending": pending, "notFound": none, "serverTime": NOW}

    def _run(self, run_id: str) -> dict[str, Any]:
        if run_id not in self._ended:
            return {"runId": run_id, "state": "running"}
        return {"runId": run_id, "state": "succeeded", "output": run_id.upper()}


def handle(client: AsyncClient, run_id: str) -> AsyncRunHandle[Any]:
    return client.run(run_id, object)


def test_many_coroutines_share_few_calls() -> None:
    coordinator = Coordinator()
    runs = [f"run_{n}" for n in range(300)]

    async def all_of_them(url: str) -> list[Any]:
        async with AsyncClient(url, "key") as client:
            waits = asyncio.gather(*(handle(client, run).result(PATIENCE) for run in runs))
            await asyncio.to_thread(coordinator.until_open, 2)
            coordinator.end(*runs[:10])
            await asyncio.to_thread(coordinator.until_open, 3)
            coordinator.end(*runs[10:])
            return await waits

    with Stub(coordinator) as stub:
        assert asyncio.run(all_of_them(stub.url)) == [run.upper() for run in runs]
        assert {request.path for request in stub.requests} == {"/v1/waits"}
    assert len(stub.requests) <= 6
    assert {len(each) for each in coordinator.open[:2]} == {256, 44}, "two calls, which may arrive in either order"
    assert len(coordinator.open[2]) == 246, "those that have not ended are asked for again"


def test_a_wait_that_begins_later_does_not_wait_for_those_that_are_open() -> None:
    """Also when no further call may be opened: the oldest is dropped, and its run is not forgotten."""
    coordinator = Coordinator()
    slow = [f"run_{n}" for n in range(CALLS_WITH_ROOM_MAX)]

    async def late(url: str) -> None:
        async with AsyncClient(url, "key") as client:
            waits = []
            for place, run in enumerate(slow):
                waits.append(asyncio.create_task(handle(client, run).result(PATIENCE)))
                await asyncio.to_thread(coordinator.until_open, place + 1)
            coordinator.end("run_late")
            assert await handle(client, "run_late").result(PATIENCE) == "RUN_LATE"
            assert sorted(coordinator.open[CALLS_WITH_ROOM_MAX]) == ["run_0", "run_late"]
            coordinator.end(*slow)
            assert await asyncio.gather(*waits) == [run.upper() for run in slow]

    with Stub(coordinator) as stub:
        asyncio.run(late(stub.url))


def test_an_older_coordinator_is_asked_for_each_run() -> None:
    coordinator = Coordinator(knows_waits=False)
    coordinator.end("run_1", "run_2", "run_3")

    async def three(url: str) -> list[Any]:
        async with AsyncClient(url, "key") as client:
            first = await asyncio.gather(*(handle(client, run).result(PATIENCE) for run in ("run_1", "run_2")))
            return [*first, await handle(client, "run_3").result(PATIENCE)]

    with Stub(coordinator) as stub:
        assert asyncio.run(three(stub.url)) == ["RUN_1", "RUN_2", "RUN_3"]
        paths = [request.path.partition("?")[0] for request in stub.requests]
    assert paths.count("/v1/waits") == 1, "it is not asked twice for what it does not know"
    assert sorted(paths[1:]) == ["/v1/runs/run_1", "/v1/runs/run_2", "/v1/runs/run_3"]


def test_a_run_that_does_not_exist_is_refused_and_others_are_not() -> None:
    coordinator = Coordinator()

    async def both(url: str) -> list[Any]:
        async with AsyncClient(url, "key") as client:
            waits = [asyncio.create_task(handle(client, run).result(PATIENCE)) for run in ("run_1", "run_none")]
            refused, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            assert refused == {waits[1]}
            coordinator.end("run_1")
            return await asyncio.gather(*waits, return_exceptions=True)

    with Stub(coordinator) as stub:
        output, error = asyncio.run(both(stub.url))
    assert output == "RUN_1"
    assert isinstance(error, Refused)
    assert error.code == "run_not_found"


def test_a_wait_ends_at_its_time_with_a_last_look() -> None:
    coordinator = Coordinator()

    async def waits(url: str) -> None:
        async with AsyncClient(url, "key") as client:
            for seconds in (0.0, 0.05):
                with pytest.raises(TimedOut):
                    await handle(client, "run_1").result(seconds)
            coordinator.end("run_1")
            assert await handle(client, "run_1").result(0) == "RUN_1"
            assert (await handle(client, "run_1").wait(PATIENCE))["state"] == "succeeded"

    with Stub(coordinator) as stub:
        asyncio.run(waits(stub.url))


def test_the_blocking_client_asks_for_its_run() -> None:
    coordinator = Coordinator()
    coordinator.end("run_1")
    with Stub(coordinator) as stub, Client(stub.url, "key") as client:
        assert client.run("run_1", object).result(PATIENCE) == "RUN_1"
        assert [request.path for request in stub.requests] == ["/v1/runs/run_1?waitMs=30000"]
