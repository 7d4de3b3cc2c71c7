"""Tasks in processes of their own: the same program, started again, serves one task at a time over a socket.

The child (`_isolated`) runs the program up to `Worker.run()`, so functions are found without pickling.
Frames are JSON with a length before them. The parent's I/O thread talks to the child, keeps it warm, and kills its process
group when a lease is lost, before another worker can begin. What a child writes to its standard error before it is ready is kept,
so that a program that cannot be started again says why.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from . import _attempt, _json
from ._attempt import Attempt
from ._codec import Codec, opened
from ._io import Io
from ._isolated import CLOSE_SECONDS, VARIABLE
from ._lease import usable
from ._voice import voice
from .failure import Failure, from_json
from .options import Spend

#: Larger than any input or output, with room for the rest of a frame.
_FRAME_BYTES_MAX = 4 * 1024 * 1024
#: Children that wait for work.
WARM_MAX = 4
#: A program that has not come to `Worker.run()` by then will not: it waits for something else.
ARRIVE_SECONDS = 120.0
#: What is kept of what a child wrote before it was ready: the end of a traceback.
TAIL_BYTES = 4 * 1024


class _Child:
    """One child process, as the parent sees it."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self.connection = connection
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        #: It has yet to come to `Worker.run()`, or its start-up hooks run.
        self.is_new = True
        #: The last of what it wrote to its standard error before it was ready.
        self.tail = b""
        assert process.stderr is not None, "a child writes to a pipe until it is ready"
        self.told = threading.Thread(target=self._pass_on, args=(process.stderr,), daemon=True)
        self.told.start()

    def _pass_on(self, errors: IO[bytes]) -> None:
        """What it writes goes where this process writes."""
        with suppress(OSError, ValueError):
            for line in errors:
                self.tail = (self.tail + line)[-TAIL_BYTES:]
                os.write(2, line)

    def is_alive(self) -> bool:
        """Whether it can take work."""
        return self.process.poll() is None and self.reader is not None and not self.reader.at_eof()

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
        """Lets it end: its shutdown hooks have a while."""
        if self.writer is not None:
            self.writer.close()
        threading.Thread(target=self._buried, daemon=True).start()

    def _buried(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(CLOSE_SECONDS + 1)
        self.kill(signal.SIGKILL)
        self.process.wait()

    def last_words(self) -> str:
        """The end of what it wrote, as one line for people."""
        self.told.join(1)
        lines = [line.strip() for line in self.tail.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it wrote nothing to its standard error"


class _NotReady(Exception):
    """The child ended, or did something else, before it could take work."""


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
            if lease.stop_reason == "CancelRequested":
                # Half of the grace period is for the code, the other half for the report.
                grace = attempt.envelope["cancelGracePeriodMs"] / 2000
                self._io.loop.call_later(grace, self._kill_unless_ended, attempt)

    def kill(self, attempt: Attempt) -> None:
        """The child had its time."""
        child = self._busy.get(attempt.task_id)
        if child is not None:
            child.kill(signal.SIGKILL)

    def _kill_unless_ended(self, attempt: Attempt) -> None:
        if not attempt.is_ended:
            self.kill(attempt)

    def close(self) -> None:
        """Ends all children, and waits until their shutdown hooks have run."""
        children = [*self._warm, *self._busy.values()]
        for child in self._busy.values():
            child.kill(signal.SIGKILL)
        for child in self._warm:
            with suppress(OSError):
                child.connection.shutdown(socket.SHUT_WR)
        end = time.monotonic() + CLOSE_SECONDS
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, end - time.monotonic()))
            child.kill(signal.SIGKILL)

    async def _run(self, attempt: Attempt) -> None:
        report = None
        try:
            report = await self._in_child(attempt)
        except (Failure, asyncio.CancelledError) as error:
            report = None if attempt.lease.stop_reason == "LeaseLost" else self._raised(attempt, error)
        except Exception as error:
            voice.exception("an isolated task could not be run")
            failure = Failure.infra(f"the isolated process could not be used: {error}")
            report = self._raised(attempt, failure)
        finally:
            self._io.end(attempt, report)

    def _raised(self, attempt: Attempt, error: BaseException) -> Any:
        return _attempt.raised(attempt, self._io.worker_json, error)

    async def _in_child(self, attempt: Attempt) -> Any:
        child = self._warm_one() or await self._spawn()
        self._busy[attempt.task_id] = child
        is_sent = False
        try:
            if child.is_new:
                await self._ready(child)
            envelope = {**attempt.envelope, "input": await self._opened(attempt.envelope.get("input"))}
            _check_told(attempt)
            child.send({"run": envelope})
            is_sent = True
            end = await self._until_end(attempt, child)
        except _NotReady as problem:
            child.kill(signal.SIGKILL)
            child.close()
            _check_told(attempt)
            raise Failure.infra(str(problem)) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            end = None
        except asyncio.CancelledError:
            if is_sent:
                child.kill(signal.SIGKILL)
            self._keep(child)
            raise
        finally:
            self._busy.pop(attempt.task_id, None)
        if end is None:
            child.close()
            return await self._died(attempt, child)
        self._keep(child)
        if self._codec is None:
            return self._report(attempt, end)
        return await asyncio.to_thread(self._report, attempt, end)

    def _warm_one(self) -> _Child | None:
        """A child that waits. One that has ended meanwhile is no use."""
        while self._warm:
            child = self._warm.pop()
            if child.is_alive():
                return child
            child.close()
        return None

    async def _ready(self, child: _Child) -> None:
        """Waits until a new child has come to `Worker.run()`, and its start-up hooks have ended."""
        program = " ".join([Path(sys.executable).name, *sys.orig_argv[1:]])
        try:
            async with asyncio.timeout(ARRIVE_SECONDS):
                await child.receive()
        except TimeoutError:
            raise _NotReady(
                f"the isolated process (`{program}`) did not come to Worker.run() within {ARRIVE_SECONDS:g} s: an isolated "
                "task needs a program that starts its worker by itself"
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise _NotReady(await self._why(child, f"(`{program}`) ended before it came to Worker.run()")) from None
        try:
            await child.receive()
        except (asyncio.IncompleteReadError, ConnectionError):
            raise _NotReady(await self._why(child, "ended in its start-up hooks")) from None
        child.is_new = False

    async def _why(self, child: _Child, what: str) -> str:
        words = await asyncio.to_thread(child.last_words)
        return f"the isolated process {what}, with exit code {await _exit_code(child)}: {words}"

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
        failure = Failure.infra(f"the isolated process ended with exit code {await _exit_code(child)}")
        return _attempt.raised(attempt, self._io.worker_json, failure)

    def _keep(self, child: _Child) -> None:
        if len(self._warm) < WARM_MAX and not child.is_new and child.is_alive():
            self._warm.append(child)
        else:
            child.close()

    async def _spawn(self) -> _Child:
        ours, theirs = socket.socketpair()
        process = await asyncio.to_thread(_started, theirs.fileno())
        theirs.close()
        child = _Child(process, ours)
        await child.open()
        return child


def _started(fd: int) -> subprocess.Popen[bytes]:
    errors = os.dup(2)
    try:
        return subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, VARIABLE: f"{fd},{errors}"},
            pass_fds=(fd, errors),
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    finally:
        os.close(errors)


def _check_told(attempt: Attempt) -> None:
    if attempt.lease.stop_reason is not None:
        raise asyncio.CancelledError


async def _exit_code(child: _Child) -> int | None:
    for _ in range(50):
        if child.process.poll() is not None:
            break
        await asyncio.sleep(0.02)
    return child.process.returncode


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
