"""A start and the checkpoints of one attempt: which goes out, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure._attempt import Attempt
from tenure._checkpoint_calls import CheckpointCalls, Recording
from tenure._io import Answers
from tenure._lease import Clock, Lease
from tenure._starts import Starts

ENVELOPE = {
    "taskId": "task_1",
    "runId": "run_1",
    "leaseId": "lease_1",
    "taskToken": "token",
    "kind": "order",
    "queue": "orders",
    "attempt": 1,
    "fence": 1,
    "heartbeatTimeoutMs": 60_000,
    "heartbeatIntervalMs": 20_000,
}
COMMITTED = {"verdict": "COMMITTED", "status": 200}


class Wire:
    """The I/O thread as starts and checkpoints know it: a test answers its calls."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = Clock()
        self.calls: list[tuple[str, asyncio.Future[Any]]] = []
        self.checkpoints: CheckpointCalls = CheckpointCalls(self, None)  # type: ignore[arg-type]
        self.starts = Starts(self)  # type: ignore[arg-type]
        self.lost: list[str] = []
        self._tasks: list[asyncio.Task[Any]] = []

    async def call(self, path: str, _: str, batch: list[Any]) -> Answers:
        answer = self.loop.create_future()
        self.calls.append((path, answer))
        return Answers([await answer] * len(batch), "")

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        self._tasks.append(self.loop.create_task(work))
        return self._tasks[-1]

    def item(self, attempt: Attempt) -> str:
        return f'"taskId":"{attempt.task_id}"'

    def begin_if_ready(self, attempt: Attempt) -> None:
        pass

    def lose(self, attempt: Attempt, why: str) -> None:
        self.lost.append(why)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.calls]

    async def answer(self, place: int) -> None:
        self.calls[place][1].set_result(COMMITTED)
        await settled()


async def settled() -> None:
    """Lets everything run that is ready to."""
    for _ in range(5):
        await asyncio.sleep(0)


def attempt_of(wire: Wire) -> Attempt:
    return Attempt(ENVELOPE, Lease(wire.clock, ENVELOPE, wire.clock.now()), None)


def test_a_checkpoint_does_not_overtake_the_start_of_its_attempt() -> None:
    """The call may end the attempt, and a start that arrives later would be refused."""

    async def scenario() -> None:
        wire = Wire()
        attempt = attempt_of(wire)
        recorded: list[Recording] = []
        wire.starts.send(attempt, wire.clock.now())
        await asyncio.sleep(0.01)
        assert wire.paths == ["/v1/starts"]
        wire.checkpoints.send(attempt, {"wait": {"key": "wait:sleep#1"}}, recorded.append)
        await asyncio.sleep(0.01)
        assert wire.paths == ["/v1/starts"]
        await wire.answer(0)
        await asyncio.sleep(0.01)
        assert wire.paths == ["/v1/starts", "/v1/checkpoints"]
        await wire.answer(1)
        assert [each.word for each in recorded] == ["committed"]
        assert wire.lost == []

    asyncio.run(scenario())


def test_a_checkpoint_says_that_its_attempt_has_started() -> None:
    async def scenario() -> None:
        wire = Wire()
        attempt = attempt_of(wire)
        wire.starts.send(attempt, wire.clock.now() + 0.02)
        wire.checkpoints.send(attempt, {}, lambda _: None)
        await asyncio.sleep(0.05)
        assert wire.paths == ["/v1/checkpoints"]

    asyncio.run(scenario())
