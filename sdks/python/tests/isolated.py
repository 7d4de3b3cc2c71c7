"""A worker with isolated tasks, which leaves a line in a journal for each thing that happens in a process."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from types import SimpleNamespace

from tenure import Ctx, Worker, task

QUEUE = os.environ["TEST_QUEUE"]
JOURNAL = Path(os.environ["TEST_JOURNAL"])
IS_CHILD = "TENURE_ISOLATED" in os.environ
BREAKS = os.environ.get("TEST_BREAKS") if IS_CHILD else None

if BREAKS == "import":
    import no_such_module  # type: ignore[import-not-found]  # noqa: F401


if os.environ.get("TEST_HANDLER"):
    logging.basicConfig(level=logging.INFO)


def note(what: str) -> None:
    with JOURNAL.open("a") as file:
        file.write(f"{what} {'child' if IS_CHILD else 'worker'} {os.getpid()}\n")


@task(queue=QUEUE, bind=True, isolate=True, retry=1)
async def served(ctx: Ctx) -> list[int]:
    ctx.log.info("logged in a child")
    await asyncio.wait_for(ctx.state.opened.wait(), 10)  # it belongs to the loop of the hook
    return [ctx.state.pid, os.getpid()]


worker = Worker(served, concurrency=1)


@worker.on_startup
async def start(state: SimpleNamespace) -> None:
    if BREAKS == "hook":
        raise RuntimeError("no database here")
    state.pid = os.getpid()
    state.opened = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, state.opened.set)
    note("start")


@worker.on_shutdown
async def stop(state: SimpleNamespace) -> None:
    note("stop")


if __name__ == "__main__":
    worker.run()
