"""The figures of the Python SDK, on this machine, with a server of its own.

    TENURE_BINARY=… python tools/bench.py [drain-async] [drain-threads] [wait] [durable] [--runs N] [--rounds N]

- drain: N short tasks are waiting; how many per second does one worker complete, and how much CPU does it use for each?
- wait: 64 coroutines submit and wait for the result of short tasks.
- durable: N durable functions of five steps each.

The server and the worker share the machine, as in docs/performance.md. The best of the rounds is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import time
from typing import Any

from tenure import AsyncClient, Client, Flow, NewRun, Task, Worker, durable, task
from tenure._server import Server

COROUTINES = 64


@task(queue="bench-threads")
def in_thread(n: int) -> int:
    return n


@task(queue="bench-async")
async def on_loop(n: int) -> int:
    return n


async def one(n: int) -> int:
    return n


@durable(queue="bench-durable")
async def five_steps(flow: Flow, n: int) -> int:
    for place in range(5):
        n += await flow.step("add", one, place)
    return n


TASKS: dict[str, Task[[int], int]] = {"drain-async": on_loop, "drain-threads": in_thread, "durable": five_steps}


def drained(server: Server, shape: str, runs: int) -> tuple[float, float]:
    """Runs per second, and CPU microseconds of the worker for each."""
    client = server.client()
    kind = TASKS[shape]
    handles = client.submit_many([NewRun(kind, n) for n in range(runs)])
    last = [handle for handle in handles if not isinstance(handle, Exception)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    worker = subprocess.Popen(
        [sys.executable, __file__, "serve", shape], env=server.environment, stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    began, started = map(float, worker.stdout.readline().split())
    for handle in (last[-1], *last[:: max(1, runs // 20)]):
        handle.wait(timeout=300)
    while any(queue["ready"] or queue["running"] for queue in client.queues.list()):
        time.sleep(0.005)
    seconds = time.monotonic() - began
    worker.terminate()
    worker.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return runs / seconds, 1e6 * (used - started) / runs


async def _waited(server: Server, runs: int) -> float:
    async with AsyncClient(server.url, server.api_key) as client:
        left = iter(range(runs))

        async def caller() -> None:
            for n in left:
                assert await (await client.submit(on_loop, n)).result() == n

        began = time.monotonic()
        await asyncio.gather(*(caller() for _ in range(COROUTINES)))
        return runs / (time.monotonic() - began)


def waited(server: Server, runs: int) -> tuple[float, float]:
    """Runs per second that 64 coroutines submit and wait for."""
    serve = [sys.executable, __file__, "serve", "drain-async"]
    worker = subprocess.Popen(serve, env=server.environment, stdout=subprocess.DEVNULL)
    try:
        Client(server.url, server.api_key).submit(on_loop, 1).result(timeout=60)
        began = time.process_time()
        rate = asyncio.run(_waited(server, runs))
        return rate, 1e6 * (time.process_time() - began) / runs
    finally:
        worker.terminate()
        worker.wait()


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        # A durable function waits for its checkpoints most of the time, so it takes many at once to fill two cores.
        worker = Worker(TASKS[sys.argv[2]], concurrency=64 if sys.argv[2] == "durable" else None)
        # Before the first poll: the time, and what the interpreter and its imports have used.
        worker.on_startup(lambda _: print(time.monotonic(), time.process_time(), flush=True))
        worker.run()
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=["drain-async", "drain-threads", "wait", "durable"])
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    told = parser.parse_args()
    for shape in told.shapes:
        best: tuple[float, float] = (0.0, 0.0)
        for _ in range(told.rounds):
            with Server() as server:
                measure: Any = waited if shape == "wait" else lambda server, runs: drained(server, shape, runs)  # noqa: B023
                runs = told.runs // 10 if shape in ("durable", "wait") else told.runs
                best = max(best, measure(server, runs))
        print(f"{shape:14} {best[0]:8.0f}/s   {best[1]:6.0f} µs CPU of the Python process per run", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
