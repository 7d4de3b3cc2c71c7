"""Tasks in processes of their own: the same program, started again, serves one task at a time over a socket.

The child runs the program up to `Worker.run()`, which notices `TENURE_ISOLATED`, so functions are found without pickling.
Frames are JSON with a length before them. The parent's I/O thread talks to the child, keeps it warm, and kills its process
group when a lease is lost, before another worker can begin. The end of the socket ends the child.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NoReturn

from . import _attempt, _json
from ._attempt import Attempt
from ._codec import Codec, opened
from ._current import current_context
from ._io import Io
from ._lease import Clock, Lease, usable
from ._log import TEXT_BYTES_MAX
from ._voice import voice
from .ctx import Ctx
from .failure import STACK_TRACE_BYTES_MAX, Failure, cut, from_json, of_exception
from .options import Spend
from .task import Task

_VARIABLE = "TENURE_ISOLATED"
#: Larger than any input or output, with room for the rest of a frame.
_FRAME_BYTES_MAX = 4 * 1024 * 1024
#: Children that wait for work.
WARM_MAX = 4


def is_isolated() -> bool:
    """Whether this process is the child of a worker."""
    return _VARIABLE in os.environ


class _Child:
    """One child process, as the parent sees it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self.connection = connection
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(sock=self.connection, limit=_FRAME_BYTES_MAX)

    def send(self, frame: Any) -> None:
        assert self.writer is not None, "a child is opened before it is used"
        body = _json.dumps(frame).encode()
        self.writer.write(struct.pack(">I", len(body)) + body)

    async def receive(self) -> Any:
        assert self.reader is not None, "a child is opened before it is used"
        (size,) = struct.unpack(">I", await self.reader.readexactly(4))
        return json.loads(await self.reader.readexactly(size))

    def kill(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.kill(signal.SIGKILL)
        threading.Thread(target=self.process.wait, daemon=True).start()


class Isolates:
    """The children of one worker. All of it runs on the I/O thread."""

    def __init__(self, io: Io, codec: Codec | None) -> None:
        self._io = io
        self._codec = codec
        self._warm: list[_Child] = []
        self._busy: dict[str, _Child] = {}

    def run(self, attempt: Attempt) -> None:
        """Runs the code of an attempt in a child."""
        self._io.spawn(self._run(attempt))

    def told(self, attempt: Attempt) -> None:
        """Tells the child to stop. A lost lease ends it before another worker can begin."""
        child = self._busy.get(attempt.task_id)
        if child is None:
            return
        lease = attempt.lease
        if lease.stop_reason == "LeaseLost":
            child.kill(signal.SIGTERM)
            grace = min(1.0, (lease.ttl - usable(lease.ttl)) / 2)
            self._io.loop.call_later(grace, child.kill, signal.SIGKILL)
        else:
            child.send({"stop": lease.stop_reason})

    def kill(self, attempt: Attempt) -> None:
        """The child had its time."""
        child = self._busy.get(attempt.task_id)
        if child is not None:
            child.kill(signal.SIGKILL)

    def close(self) -> None:
        """Ends all children."""
        for child in [*self._warm, *self._busy.values()]:
            child.kill(signal.SIGKILL)

    async def _run(self, attempt: Attempt) -> None:
        report = None
        try:
            report = await self._in_child(attempt)
        except Exception as error:
            voice.exception("an isolated task could not be run")
            failure = Failure.infra(f"the isolated process could not be used: {error}")
            report = _attempt.raised(attempt, self._io.worker_json, failure)
        finally:
            self._io.end(attempt, report)

    async def _in_child(self, attempt: Attempt) -> Any:
        child = self._warm.pop() if self._warm else await self._spawn()
        self._busy[attempt.task_id] = child
        try:
            if attempt.lease.stop_reason is not None:
                self.told(attempt)
            envelope = {**attempt.envelope, "input": await self._opened(attempt.envelope.get("input"))}
            child.send({"run": envelope})
            end = await self._until_end(attempt, child)
        except (asyncio.IncompleteReadError, ConnectionError):
            end = None
        finally:
            self._busy.pop(attempt.task_id, None)
        if end is None:
            child.close()
            return await self._died(attempt, child)
        self._keep(child)
        if self._codec is None:
            return self._report(attempt, end)
        return await asyncio.to_thread(self._report, attempt, end)

    async def _opened(self, value: Any) -> Any:
        """A codec is the user's, and may ask a service for its key: the thread that keeps leases does not wait for it."""
        return value if self._codec is None else await asyncio.to_thread(opened, self._codec, value)

    async def _until_end(self, attempt: Attempt, child: _Child) -> Any:
        lease = attempt.lease
        while True:
            frame = await child.receive()
            if "progress" in frame:
                lease.progress, lease.news = tuple(frame["progress"]), True
            elif "spend" in frame:
                lease.spend(Spend(*frame["spend"]))
            elif "line" in frame:
                lease.log_line(*frame["line"])
            elif "log" in frame:
                _log(frame["log"])
            elif "end" in frame:
                return frame["end"]

    def _report(self, attempt: Attempt, end: Any) -> Any:
        takes_next = not self._io.is_draining
        if attempt.lease.stop_reason == "LeaseLost":
            return None
        if "error" not in end:
            return _attempt.succeeded(attempt, self._io.worker_json, end["output"], self._codec, takes_next)
        error = end["error"]
        failure = from_json(Failure, error)
        failure.is_hand_back, failure.phase = error["handBack"], error.get("phase")
        failure.stack_trace = error.get("stackTrace")
        return _attempt.raised(attempt, self._io.worker_json, failure, takes_next)

    async def _died(self, attempt: Attempt, child: _Child) -> Any:
        if attempt.lease.stop_reason == "LeaseLost":
            return None
        for _ in range(50):
            if child.process.poll() is not None:
                break
            await asyncio.sleep(0.02)
        code = child.process.returncode
        failure = Failure.infra(f"the isolated process ended with exit code {code}")
        return _attempt.raised(attempt, self._io.worker_json, failure)

    def _keep(self, child: _Child) -> None:
        if len(self._warm) < WARM_MAX and child.process.poll() is None:
            self._warm.append(child)
        else:
            child.close()

    async def _spawn(self) -> _Child:
        ours, theirs = socket.socketpair()
        fd = theirs.fileno()
        environment = {**os.environ, _VARIABLE: str(fd)}
        process = await asyncio.to_thread(
            lambda: subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]], env=environment, pass_fds=(fd,), start_new_session=True
            )
        )
        theirs.close()
        child = _Child(process, ours)
        await child.open()
        return child


def _log(record: Any) -> None:
    voice.handle(
        logging.makeLogRecord(
            {
                **record["extra"],
                "name": record["name"],
                "levelno": record["level"],
                "levelname": logging.getLevelName(record["level"]),
                "msg": record["message"],
            }
        )
    )


# The child.


def serve(
    tasks: dict[str, Task[..., Any]],
    state: SimpleNamespace,
    startup: list[Callable[[Any], Any]],
    client: Callable[[], Any],
) -> NoReturn:
    """Serves one task after the other until the parent is gone."""
    connection = socket.socket(fileno=int(os.environ.pop(_VARIABLE)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = _Link(connection)
    logging.getLogger("tenure").addHandler(_LinkHandler(link))
    for hook in startup:
        made = hook(state)
        if inspect.isawaitable(made):
            asyncio.run(_awaited(made))
    threading.Thread(target=link.listen, daemon=True).start()
    while True:
        envelope = link.next_run()
        link.send(
            {"end": _executed(link, tasks[envelope["kind"]], Ctx(envelope, _ChildLease(link, envelope), client, state))}
        )


async def _awaited(value: Any) -> Any:
    return await value


def _executed(link: _Link, task: Task[..., Any], ctx: Ctx) -> Any:
    link.lease = ctx._lease
    token = current_context.set(ctx)
    try:
        arguments = task.signature.arguments_of(ctx._envelope.get("input"))
        result = task.invoke(ctx, arguments)
        if inspect.isawaitable(result):
            result = asyncio.run(link.cancellable(result))
        return {"output": task.signature.output_of(result)}
    except BaseException as error:
        return {"error": _told(error)}
    finally:
        current_context.reset(token)
        link.lease = None


def _told(error: BaseException) -> dict[str, Any]:
    import traceback

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

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._runs: list[Any] = []
        self._has_run = threading.Semaphore(0)
        self.lease: Lease | None = None
        self._cancel: Callable[[], object] | None = None

    def send(self, frame: Any) -> None:
        body = _json.dumps(frame).encode()
        with self._lock, suppress(OSError):
            self._connection.sendall(struct.pack(">I", len(body)) + body)

    def next_run(self) -> Any:
        self._has_run.acquire()
        return self._runs.pop(0)

    def listen(self) -> None:
        while True:
            frame = self._receive()
            if frame is None:
                os._exit(0)  # the parent is gone, and with it the lease
            if "run" in frame:
                self._runs.append(frame["run"])
                self._has_run.release()
            elif self.lease is not None:
                self.lease.stop(frame["stop"])
                if self._cancel is not None:
                    self._cancel()

    async def cancellable(self, awaited: Any) -> Any:
        """Awaits code, and cancels it when the parent says so."""
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(awaited)
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
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
            part = self._connection.recv(count - len(parts))
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
        extra = {name: getattr(record, name) for name in ("run_id", "attempt", "kind") if hasattr(record, name)}
        told = {"name": record.name, "level": record.levelno, "message": record.getMessage(), "extra": extra}
        self._link.send({"log": told})
