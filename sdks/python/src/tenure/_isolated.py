"""The child process of an isolated task: serves one task after the other until the worker is gone.

It runs the program up to `Worker.run()`, so it has the start-up hooks and a state of its own, and one event loop for hooks and
tasks: what a hook opened in a loop can be used by every task. The end of the socket ends it: at once while a task runs, because
its lease ended with the worker; otherwise after the shutdown hooks.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import queue
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NoReturn

from . import _json
from ._current import current_context
from ._lease import Clock, Lease
from ._log import TEXT_BYTES_MAX
from ._stderr import asked_level
from .ctx import Ctx
from .failure import STACK_TRACE_BYTES_MAX, cut, of_exception
from .options import Spend
from .task import Task

#: The descriptors of the socket and of the standard error of the worker.
VARIABLE = "TENURE_ISOLATED"
#: The shutdown hooks of a child have this long, and its worker waits as long for it.
CLOSE_SECONDS = 5.0

Hook = Callable[[Any], Any]


def is_isolated() -> bool:
    """Whether this process is the child of a worker."""
    return VARIABLE in os.environ


class Child:
    """What a child has for all its tasks."""

    def __init__(
        self,
        tasks: dict[str, Task[..., Any]],
        state: SimpleNamespace,
        startup: list[Hook],
        shutdown: list[Hook],
        client: Callable[[], Any],
    ) -> None:
        self._tasks = tasks
        self._state = state
        self._startup = startup
        self._shutdown = shutdown
        self._client = client

    def serve(self) -> NoReturn:
        """Serves until the worker is gone."""
        fd, stderr = (int(each) for each in os.environ.pop(VARIABLE).split(","))
        link = _Link(socket.socket(fileno=fd), self._context)
        link.send({"here": True})
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with asyncio.Runner() as loop:
            link.loop = loop
            for hook in self._startup:
                _called(loop, hook, self._state)
            os.dup2(stderr, 2)  # from here on the worker hears of errors itself
            os.close(stderr)
            _pass_logs_on(_LinkHandler(link))
            link.send({"ready": True})
            threading.Thread(target=link.listen, daemon=True).start()
            while (ctx := link.next_run()) is not None:
                link.send({"end": _executed(link, self._tasks[ctx.kind], ctx)})
            self._close(loop)
        os._exit(0)

    def _context(self, link: _Link, envelope: Any) -> Ctx:
        return Ctx(envelope, _ChildLease(link, envelope), self._client, self._state)

    def _close(self, loop: asyncio.Runner) -> None:
        """The worker is gone, or has no use for this child."""
        threading.Timer(CLOSE_SECONDS, os._exit, (1,)).start()
        for hook in self._shutdown:
            try:
                _called(loop, hook, self._state)
            except Exception:
                traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()


def _pass_logs_on(handler: logging.Handler) -> None:
    """The worker says what the logger `tenure` says here, once: handlers of this process would say it again."""
    logger = logging.getLogger("tenure")
    level = logger.getEffectiveLevel() if logger.hasHandlers() else asked_level()
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(level)


def _called(loop: asyncio.Runner, hook: Hook, state: SimpleNamespace) -> None:
    async def call() -> None:
        made = hook(state)
        if inspect.isawaitable(made):
            await made

    loop.run(call())


def _executed(link: _Link, task: Task[..., Any], ctx: Ctx) -> Any:
    token = current_context.set(ctx)
    try:
        if ctx._lease.stop_reason is not None:
            raise asyncio.CancelledError  # told before it began
        arguments = task.signature.arguments_of(ctx._envelope.get("input"))
        result = task.invoke(ctx, arguments)
        if inspect.isawaitable(result):
            result = link.loop.run(link.cancellable(result))
        return {"output": task.signature.output_of(result)}
    except BaseException as error:
        return {"error": _told(error)}
    finally:
        current_context.reset(token)
        link.lease = None


def _told(error: BaseException) -> dict[str, Any]:
    failure = of_exception(error)
    told = {**failure.to_json(), "handBack": failure.is_hand_back, "phase": failure.phase}
    if failure is not error:
        told["stackTrace"] = cut("".join(traceback.format_exception(error)), STACK_TRACE_BYTES_MAX)
    return told


class _ChildLease(Lease):
    """The lease as a child knows it: the parent watches the clock."""

    __slots__ = ("_link",)

    def __init__(self, link: _Link, envelope: Any) -> None:
        super().__init__(Clock(), envelope, 0.0)
        self._link = link
        self.stop_reason = None

    def check(self) -> bool:
        return self.stop_reason is None

    def log_line(self, level: str, text: str) -> None:
        # The parent numbers and sends it.
        kept = text.encode("utf-8", "replace")[:TEXT_BYTES_MAX].decode("utf-8", "ignore")
        self._link.send({"line": [level, kept]})

    def spend(self, more: Spend) -> None:
        self._link.send({"spend": [more.tokens, more.cost_micros, more.tool_calls]})

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "progress" and value is not None:
            self._link.send({"progress": list(value)})


class _Link:
    """The child's end of the socket."""

    def __init__(self, connection: socket.socket, context: Callable[[_Link, Any], Ctx]) -> None:
        self._connection = connection
        self._context = context
        self._lock = threading.Lock()
        self._runs: queue.SimpleQueue[Ctx | None] = queue.SimpleQueue()
        self.loop: asyncio.Runner
        #: The lease of the task that runs or is about to; None while there is none.
        self.lease: Lease | None = None
        self._cancel: Callable[[], object] | None = None

    def send(self, frame: Any) -> None:
        body = _json.dumps(frame).encode("utf-8", "replace")
        with self._lock, suppress(OSError):
            self._connection.sendall(struct.pack(">I", len(body)) + body)

    def next_run(self) -> Ctx | None:
        """Waits for a task; None if there will be none."""
        return self._runs.get()

    def listen(self) -> None:
        while True:
            frame = self._receive()
            if frame is None:
                if self.lease is not None:
                    os._exit(0)  # the worker is gone, and with it the lease
                self._runs.put(None)
                return
            if "run" in frame:
                ctx = self._context(self, frame["run"])
                self.lease = ctx._lease
                self._runs.put(ctx)
            elif self.lease is not None:
                self.lease.stop(frame["stop"])
                if self._cancel is not None:
                    self._cancel()

    async def cancellable(self, awaited: Any) -> Any:
        """Awaits code, and cancels it when the parent says so."""
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(awaited)
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            if self.lease is not None and self.lease.stop_reason is not None:
                task.cancel()  # told just now
            return await task
        finally:
            self._cancel = None

    def _receive(self) -> Any:
        head = self._exactly(4)
        body = self._exactly(struct.unpack(">I", head)[0]) if head else None
        return json.loads(body) if body else None

    def _exactly(self, count: int) -> bytes | None:
        parts = b""
        while len(parts) < count:
            try:
                part = self._connection.recv(count - len(parts))
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return parts


class _LinkHandler(logging.Handler):
    """Sends log records to the parent."""

    def __init__(self, link: _Link) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        try:
            extra = {name: getattr(record, name) for name in ("run_id", "attempt", "kind") if hasattr(record, name)}
            # With the traceback of an exception, which cannot travel itself.
            told = {"name": record.name, "level": record.levelno, "message": self.format(record), "extra": extra}
            self._link.send({"log": told})
        except Exception:
            self.handleError(record)
