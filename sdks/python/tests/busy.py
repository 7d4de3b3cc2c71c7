"""Tasks that keep a worker busy, and the program that serves them in several ways."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import sys
import threading
import time

from tenure import Client, Ctx, Flow, Setup, Task, Worker, current, durable, task

QUEUE = os.environ.get("TEST_QUEUE", "busy")
BUSY_SECONDS = 3.0


def spin() -> str:
    """Eight threads that compute, as long as a lease of 6 s must survive."""
    end = time.monotonic() + BUSY_SECONDS

    def compute() -> None:
        while time.monotonic() < end:
            sum(range(200))

    threads = [threading.Thread(target=compute) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return "kept"


async def block() -> str:
    time.sleep(BUSY_SECONDS)  # noqa: ASYNC251 - on purpose
    return "kept"


@task(queue=QUEUE, lease=6, heartbeat_interval=1)
async def blocks_the_loop() -> str:
    return await block()


@task(queue=QUEUE, lease=6, heartbeat_interval=1)
def spins_in_threads() -> str:
    return spin()


@durable(queue=QUEUE, lease=6, heartbeat_interval=1)
async def blocks_in_a_step(flow: Flow) -> str:
    return await flow.step("block", block)


@durable(queue=QUEUE, lease=6, heartbeat_interval=1)
async def spins_in_a_step(flow: Flow) -> str:
    return await flow.step("spin", spin)


@task(queue=QUEUE, isolate=True, lease=2, heartbeat_interval=0.5)
def isolated_that_spins() -> str:
    return spin()


@task(queue=QUEUE, isolate=True, lease=2, heartbeat_interval=0.5)
def isolated_that_logs() -> str:
    logging.getLogger("tenure").warning("slowly")
    time.sleep(BUSY_SECONDS + 1)
    return "kept"


@task(queue=QUEUE, isolate=True, lease=8, heartbeat_interval=1)
def isolated_with_input(value: str) -> str:
    return "kept"


@task(queue=QUEUE, bind=True, isolate=True, cancel_grace=2)
def isolated_that_goes_on(ctx: Ctx) -> None:
    ctx.progress(0, "begun")
    while True:
        sum(range(200))


@task(queue=QUEUE, bind=True, lease=2, heartbeat_interval=0.5)
def waits(ctx: Ctx) -> str:
    assert current() is ctx
    return "told" if ctx.wait_cancelled(2.5 * BUSY_SECONDS) else "kept"


@task(queue=QUEUE, bind=True, lease=2, heartbeat_interval=0.5)
def says_what_cannot_be_sent(ctx: Ctx) -> str:
    ctx.progress(float("nan"), "half of a pair \ud800, a null \0 and much more" * 9000)
    try:
        ctx.spend(tokens=-1)
    except Setup:
        return "told" if ctx.wait_cancelled(BUSY_SECONDS) else "kept"
    return "spent"


class Slow:
    """A codec that asks a slow service, in the worker and for what an isolated task takes and returns."""

    name = "slow"

    def encode(self, plain: bytes) -> bytes:
        return plain

    def decode(self, stored: bytes) -> bytes:
        if b"x" in stored and os.environ.get("TEST_QUEUE") == "busy-codec":
            time.sleep(BUSY_SECONDS)
        return stored

    def digest(self, plain: bytes) -> str:
        return hashlib.sha256(plain).hexdigest()


class Waiting(logging.Handler):
    """A handler behind a slow disk."""

    def emit(self, record: logging.LogRecord) -> None:
        if "slowly" in record.getMessage():
            time.sleep(BUSY_SECONDS)


LOCAL: list[Task[..., object]] = [blocks_the_loop, spins_in_threads, blocks_in_a_step, spins_in_a_step]
ISOLATED: list[Task[..., object]] = [
    isolated_that_spins,
    isolated_that_logs,
    isolated_with_input,
    isolated_that_goes_on,
    waits,
    says_what_cannot_be_sent,
]


async def serve() -> None:
    worker = Worker(*LOCAL, concurrency=4)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.serve()


if __name__ == "__main__":
    mode = sys.argv[1]
    if mode == "serve":
        asyncio.run(serve())
    elif mode == "run":
        Worker(*LOCAL, concurrency=4).run()
    else:
        if mode == "handler" and "TENURE_ISOLATED" not in os.environ:
            logging.getLogger("tenure").addHandler(Waiting())
        codec = Slow() if mode == "codec" else None
        Worker(*ISOLATED, client=Client(codec=codec), concurrency=4).run()
