"""The tasks of the integration tests, and the program that serves them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from tenure import Ctx, Failure, Flow, Step, Task, Worker, current, durable, task

QUEUE = os.environ.get("TEST_QUEUE", "python")


@task(queue=QUEUE)
def greet(name: str) -> str:
    return f"Hello, {name}!"


@task(queue=QUEUE)
async def agreet(name: str, mark: str = "!") -> str:
    await asyncio.sleep(0)
    return f"Hello, {name}{mark}"


@task(queue=QUEUE, bind=True, lease=2, heartbeat_interval=0.5)
def slow(ctx: Ctx, seconds: float) -> str:
    """Works until it is told, and says why."""
    if ctx.wait_cancelled(seconds):
        raise Failure.cancelled(phase=str(ctx.stop_reason))
    return "done"


@task(queue=QUEUE, lease=6, heartbeat_interval=1)
async def blocks_the_loop(seconds: float) -> str:
    time.sleep(seconds)  # noqa: ASYNC251 - on purpose: the lease must survive it
    return "kept"


@task(queue=QUEUE)
def fails(category: str) -> None:
    if category == "own":
        raise ValueError("not a number")
    raise getattr(Failure, category)(f"a {category} failure")


@task(queue=QUEUE, bind=True)
def spends(ctx: Ctx, tokens: int) -> int | None:
    current().spend(tokens=tokens)
    return ctx.left.tokens if ctx.left else None


@task(queue=QUEUE, isolate=True, bind=True)
def isolated(ctx: Ctx, how: str) -> int:
    ctx.progress(50, "half way")
    assert ctx.client.version()["version"]
    if how == "crash":
        os._exit(7)
    if how == "hang":
        ctx.wait_cancelled(600)
    return os.getpid()


@task(queue=QUEUE)
def not_a_number() -> float:
    return float("nan")


def charge(step: Step, journal: str) -> str:
    """Leaves a line for each execution, so that a test can count them."""
    with Path(journal).open("a") as file:
        file.write(f"charge {step.idempotency_key} {step.fence}\n")
    return f"receipt {step.number}"


async def mail(receipt: str) -> str:
    return f"mailed {receipt}"


@durable(queue=QUEUE, lease=2, heartbeat_interval=0.5)
async def order(flow: Flow, journal: str) -> str:
    receipt = await flow.step("charge", charge, journal, bind=True, retry=3)
    await flow.sleep("cool-off", seconds=0.2)
    by = await flow.signal("approve", str).within(days=1)
    greetings = await flow.all(flow.call(greet, "Ada"), flow.call(agreet, "Bob"))
    name, _ = await flow.any(go=flow.signal("never"), late=flow.sleep(seconds=0.1))
    mailed = await flow.step("mail", mail, receipt)
    return f"{mailed} by {by}: {', '.join(greetings)}; {name}"


@durable(queue=QUEUE)
async def steps(flow: Flow, count: int) -> int:
    total = 0
    for n in range(count):
        total += await flow.step("add", int, n)
    return total


@durable(queue=QUEUE, kind="changed")
async def changed(flow: Flow, _: None) -> str:
    name = "new" if os.environ.get("TEST_CHANGED") else "old"
    await flow.step(name, int, 1)
    await flow.signal("go")
    return name


def ship(journal: str) -> str:
    """Fails for good after two payments, and not after three."""
    lines = Path(journal).read_text().splitlines()
    if len(lines) == 2:
        raise Failure.permanent("the van is gone")
    return lines[-1]


@durable(queue=QUEUE)
async def forked(flow: Flow, journal: str) -> str:
    for _ in range(2):
        await flow.step("pay", charge, journal, bind=True)
    return await flow.step("ship", ship, journal)


TASKS: list[Task[..., Any]] = [
    greet,
    agreet,
    slow,
    blocks_the_loop,
    fails,
    spends,
    isolated,
    not_a_number,
    order,
    steps,
    changed,
    forked,
]


if __name__ == "__main__":
    limit = int(os.environ.get("TEST_CONCURRENCY", "8"))
    timeout = float(os.environ.get("TEST_SHUTDOWN", "25"))
    worker = Worker(*TASKS, concurrency=limit, shutdown_timeout=timeout)
    print("ready", flush=True)
    worker.run()
    sys.exit(0)
