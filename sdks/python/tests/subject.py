"""The subject of the conformance kit: the agreed kinds, on the public surface of this package alone.

As a worker it serves the queue `conform` and says with marks what its code does. As a client it reads one call per line
from standard input and writes one answer per line.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import wsgiref.simple_server
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from subject_durable import DURABLE, send

from tenure import Client, Ctx, Failure, NewRun, Task, TenureError, Worker, push, task, webhooks

SETTINGS = json.loads(os.environ.get("TENURE_CONFORM", '{"role": "worker"}'))
QUEUE = "conform"
SLICE_SECONDS = 0.05


def mark(ctx: Ctx, word: str, **more: Any) -> None:
    send({"task": ctx.task_id, "mark": word, "attempt": ctx.attempt, "fence": ctx.fence, **more})


@task(queue=QUEUE, bind=True)
def echo(ctx: Ctx, input: Any) -> Any:
    mark(ctx, "began")
    return input


@dataclass
class Fail:
    category: str
    message: str
    retryable: bool | None = None
    crash: bool = False


FAILURES: dict[str, Callable[[str], Failure]] = {
    "USER_CODE": Failure,
    "DATA_QUALITY": Failure.data,
    "CONFIGURATION": Failure.config,
    "TIMEOUT": Failure.timeout,
    "PERMANENT": Failure.permanent,
    "HAND_BACK": Failure.hand_back,
    "INFRASTRUCTURE": Failure.infra,
}


@task(queue=QUEUE, bind=True)
def fail(ctx: Ctx, input: Fail) -> None:
    mark(ctx, "began")
    if input.crash:
        os.abort()
    if input.category == "USER_CODE" and input.retryable is None:
        raise RuntimeError(input.message)
    failure = FAILURES.get(input.category, Failure.infra)(input.message)
    if input.retryable is not None:
        failure.retryable = input.retryable
    raise failure


@dataclass
class Span:
    ms: int
    crash: bool = False


def waited(ctx: Ctx, ms: int) -> int:
    mark(ctx, "began")
    end = time.monotonic() + ms / 1000
    while time.monotonic() < end:
        if ctx.cancelled:
            mark(ctx, "stopped")
            raise Failure.cancelled("cancelled", phase="waiting")
        time.sleep(min(SLICE_SECONDS, max(0.0, end - time.monotonic())))
    mark(ctx, "done")
    return ms


@task(queue=QUEUE, bind=True)
def slow(ctx: Ctx, input: Span) -> int:
    return waited(ctx, input.ms)


@task(queue=QUEUE, kind="ignore-cancel", bind=True)
def ignore_cancel(ctx: Ctx, input: Span) -> int:
    mark(ctx, "began")
    time.sleep(input.ms / 1000)
    mark(ctx, "done")
    return input.ms


@dataclass
class Block:
    ms: int
    how: str


@task(queue=QUEUE, bind=True)
async def block(ctx: Ctx, input: Block) -> int:
    mark(ctx, "began")
    end = time.monotonic() + input.ms / 1000
    if input.how == "loop":
        time.sleep(input.ms / 1000)  # noqa: ASYNC251 - on purpose
    elif input.how == "spin":
        threads = [threading.Thread(target=spin, args=(end,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        keep_the_lock(input.ms / 1000)
    mark(ctx, "done")
    return input.ms


def spin(end: float) -> None:
    while time.monotonic() < end:
        pass


def keep_the_lock(seconds: float) -> None:
    """One regular expression that backtracks for about this long: it keeps the interpreter lock."""
    size = 18
    while True:
        began = time.monotonic()
        re.match(r"(a+)+$", "a" * size + "b")
        took = time.monotonic() - began
        if took >= seconds / 2:
            return
        size += 1


@dataclass
class Often:
    n: int
    everyMs: int


@task(queue=QUEUE, bind=True)
def progress(ctx: Ctx, input: Often) -> int:
    mark(ctx, "began")
    for n in range(input.n):
        ctx.progress(100 * n / input.n, f"{n} of {input.n}")
        time.sleep(input.everyMs / 1000)
    return input.n


@task(queue=QUEUE, bind=True)
def spend(ctx: Ctx, input: Often) -> int:
    for _ in range(input.n):
        ctx.spend(tokens=100)
        time.sleep(input.everyMs / 1000)
    return input.n


@task(queue=QUEUE, bind=True)
def logger(ctx: Ctx, input: Often) -> int:
    for n in range(1, input.n + 1):
        ctx.log.info("line %d", n)
        time.sleep(input.everyMs / 1000)
    return input.n


@task(queue=QUEUE, bind=True)
def stage(ctx: Ctx, input: Any) -> list[Any]:
    return [ctx.stage, input]


@task(queue=QUEUE, bind=True, isolate=True)
def isolated(ctx: Ctx, input: Span) -> int:
    send({"task": ctx.task_id, "mark": "pid", "attempt": ctx.attempt, "pid": os.getpid()})
    if input.crash:
        os.abort()
    return waited(ctx, input.ms)


@task(queue=QUEUE)
def big(input: dict[str, Any]) -> Any:
    return "x" * input["bytes"] if "bytes" in input else float("nan")


@task(queue=QUEUE, bind=True)
def submitter(ctx: Ctx, input: Any) -> str:
    return ctx.client.submit("echo", {}, queue=QUEUE, idempotency_key=ctx.run_id).id


TASKS: list[Task[..., Any]] = [
    echo, fail, slow, ignore_cancel, block, progress, spend, logger, stage, isolated, big, submitter, *DURABLE
]  # fmt: skip


# The client.


@dataclass
class Item:
    cents: int


@dataclass
class Order:
    id: str
    items: list[Item] = field(default_factory=list)


class Calls:
    """Performs the calls of the kit."""

    def __init__(self) -> None:
        self._client = Client()
        self._recent: dict[str, webhooks.RecentIds] = defaultdict(webhooks.RecentIds)

    def answer(self, call: Any) -> Any:
        try:
            return {"id": call["id"], "ok": getattr(self, f"do_{call['do']}")(call)}
        except TenureError as error:
            return {"id": call["id"], "error": told(error)}

    def do_submit(self, call: Any) -> Any:
        handle = self._client.submit(call["kind"], call.get("input"), **options(call))
        return {"runId": handle.id, "replayed": handle.replayed}

    def do_many(self, call: Any) -> Any:
        runs = [NewRun(run["kind"], run.get("input"), **options(run)) for run in call["runs"]]
        ends = self._client.submit_many(runs)
        return [{"error": told(end)} if isinstance(end, Exception) else {"runId": end.id} for end in ends]

    def do_result(self, call: Any) -> Any:
        wanted: Any = Order if call.get("as") == "order" else object
        limit = call.get("timeoutMs")
        found = self._client.run(call["runId"], wanted).result(None if limit is None else limit / 1000)
        return vars(found) if isinstance(found, Order) else found

    def do_cancel(self, call: Any) -> None:
        self._client.run(call["runId"]).cancel(call.get("reason"))

    def do_signal(self, call: Any) -> None:
        self._client.run(call["runId"]).signal(call["name"], call.get("payload"))

    def do_retry(self, call: Any) -> Any:
        return {"runId": self._client.run(call["runId"]).retry().id}

    def do_fork(self, call: Any) -> Any:
        return {"runId": self._client.run(call["runId"]).fork().id}

    def do_runs(self, call: Any) -> Any:
        ids = []
        for run in self._client.runs(queue=QUEUE):
            ids.append(run["runId"])
            if len(ids) == call.get("take"):
                break
        return ids

    def do_verify(self, call: Any) -> Any:
        event = webhooks.Verifier(*call["secrets"]).verify(call["headers"], call["body"].encode())
        is_new = self._recent[call["secrets"][0]].is_new(event.id)
        return {"id": event.id, "type": event.type, "data": event.data, "repeated": not is_new}

    def do_push(self, call: Any) -> Any:
        app = push.wsgi(
            *TASKS, secret=call["secret"], url=call["url"], endpoint=QUEUE, concurrency=SETTINGS.get("concurrency") or 8
        )
        server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, Threaded, Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return {"port": server.server_address[1]}


class Threaded(wsgiref.simple_server.WSGIServer):
    """A thread for each request."""

    def process_request(self, request: Any, address: Any) -> None:
        def handle() -> None:
            self.finish_request(request, address)
            self.shutdown_request(request)

        threading.Thread(target=handle, daemon=True).start()


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def options(call: Any) -> dict[str, Any]:
    key = call.get("idempotencyKey")
    return {"queue": call["queue"], **({"idempotency_key": key} if key else {})}


def told(error: Exception) -> dict[str, Any]:
    """An error as the kit reads it."""
    shown = {"RunRefused": "Refused", "NotVerified": "Verification"}
    name = type(error).__name__
    said = {"class": shown.get(name, name), "message": str(error)}
    for member in ("code", "retryable", "field", "state", "reason", "category", "attempt"):
        if hasattr(error, member):
            said[member] = getattr(error, member)
    return said


def serve_client() -> None:
    calls = Calls()
    lock = threading.Lock()

    def say(line: Any) -> None:
        with lock:
            print(json.dumps(line), flush=True)

    say({"ready": True})
    for line in sys.stdin:
        call = json.loads(line)
        threading.Thread(target=lambda call=call: say(calls.answer(call)), daemon=True).start()


def main() -> None:
    if SETTINGS["role"] == "client":
        serve_client()
        return
    Worker(
        *TASKS,
        name=None if SETTINGS.get("processes", 1) != 1 else "subject",
        concurrency=SETTINGS.get("concurrency"),
        shutdown_timeout=SETTINGS.get("shutdownTimeoutMs", 25_000) / 1000,
        on_event=lambda event: print(event, file=sys.stderr, flush=True),
    ).run()


if __name__ == "__main__":
    main()
