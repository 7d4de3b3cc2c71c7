"""Everything that a codec must hide, done once: a worker and its caller in one process. Prints the ids of the runs."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import zlib
from typing import Any

from tenure import AsyncClient, Flow, Plan, PlanStep, Worker, durable, task
from tenure.client import Client

QUEUE = "sealed"
SECRET = "the treasure is below the oak"
PATIENCE = 60.0


class Packed:
    """Hides enough for a test, and is the same for the same bytes."""

    name = "packed"

    def encode(self, plain: bytes) -> bytes:
        return zlib.compress(plain)

    def decode(self, stored: bytes) -> bytes:
        return zlib.decompress(stored)

    def digest(self, plain: bytes) -> str:
        return hmac.new(b"a key of the test", plain, hashlib.sha256).hexdigest()


@task(queue=QUEUE)
def told(text: str) -> str:
    return text


@task(queue=QUEUE)
async def twice(first: str, second: str) -> list[str]:
    return [first, second]


@durable(queue=QUEUE)
async def function(flow: Flow, text: str) -> list[str]:
    if (before := flow.resumed(list[str])) is None:
        stepped = await flow.step("tell", told.fn, text, input=text)
        await flow.savepoint([stepped])
        raise AssertionError("a savepoint starts the function over")
    signalled = await flow.signal("word", str)
    called = await flow.call(told, text)
    return [*before, signalled, called]


async def main() -> None:
    codec = Packed()
    worker = Worker(told, twice, function, client=Client(codec=codec))
    serving = asyncio.create_task(worker.serve())
    async with AsyncClient(codec=codec) as client:
        plain: Any = await client.submit(told, SECRET)
        assert await plain.result(PATIENCE) == SECRET
        durably = await client.submit(function, SECRET)
        await durably.signal("word", SECRET)
        assert await durably.result(PATIENCE) == [SECRET] * 3
        steps = [
            PlanStep("one", told, SECRET),
            PlanStep("two", twice, {"first": {"$from": "one"}, "second": SECRET}, depends_on=["one"]),
        ]
        planned = await client.submit(Plan(steps))
        assert (await planned.result(PATIENCE))["two"] == [SECRET, SECRET]
    worker.stop()
    await serving
    print(json.dumps([plain.id, durably.id, planned.id]))


if __name__ == "__main__":
    asyncio.run(main())
