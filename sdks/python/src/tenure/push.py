"""Work that is pushed: tasks behind a URL, for functions of a cloud and services that cannot poll.

    app = push.wsgi(greet, secret="whsec_…", url="https://example.com/work", endpoint="hello")

Each request is verified, run once, and answered with its report. A task that takes longer than its lease needs heartbeats,
and a durable function needs checkpoints: both go back to the coordinator under the task's token and the name of the
`endpoint`, as it was registered. Without that name a task must answer within its lease.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from . import _attempt, _calls
from ._attempt import Attempt, Report
from ._calls import Address, Settings
from ._checkpoint_calls import TRIES_MAX, Recording
from ._codec import Codec, opened
from ._current import current_context
from ._driver import Driver
from ._http import AsyncTransport
from ._lease import ANSWER_SECONDS_MIN, Clock, Lease
from ._mailbox import Mailbox
from ._pool import Pool
from ._tracing import span
from .ctx import Ctx
from .errors import Refused, TenureError
from .failure import Failure
from .options import Left
from .task import Task
from .webhooks import NotVerified, PushVerifier, RecentIds

#: An envelope with a large input, recorded checkpoints and labels.
BODY_BYTES_MAX = 2 * 1024 * 1024
CONCURRENCY = 64

#: What the coordinator adds to the report itself.
_KNOWN_TO_SENDER = frozenset({"taskId", "taskToken", "workerId", "attempt"})

Environ: TypeAlias = dict[str, Any]
StartResponse: TypeAlias = Callable[[str, list[tuple[str, str]]], Any]
WsgiApp: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]
AsgiApp: TypeAlias = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


def wsgi(
    *tasks: Task[..., Any],
    secret: str,
    url: str,
    endpoint: str | None = None,
    concurrency: int = CONCURRENCY,
    codec: Codec | None = None,
) -> WsgiApp:
    """A WSGI application for one URL: mount it in Django or Flask, or serve it alone."""
    receiver = _Receiver(tasks, secret, url, endpoint, concurrency, codec)

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if 0 <= length <= BODY_BYTES_MAX else b""
        headers = {
            name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")
        }
        answer = receiver.handle_blocking(environ["REQUEST_METHOD"], headers, body)
        start_response(answer.status_line, answer.headers)
        return [answer.body]

    return app


def asgi(
    *tasks: Task[..., Any],
    secret: str,
    url: str,
    endpoint: str | None = None,
    concurrency: int = CONCURRENCY,
    codec: Codec | None = None,
) -> AsgiApp:
    """An ASGI application for one URL: mount it in FastAPI or Starlette, or serve it alone."""
    receiver = _Receiver(tasks, secret, url, endpoint, concurrency, codec)

    async def app(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body") or len(body) > BODY_BYTES_MAX:
                break
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        answer = await receiver.handle(scope["method"], headers, body)
        pairs = [(name.encode(), value.encode()) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        await send({"type": "http.response.body", "body": answer.body})

    return app


class _Answer:
    """What the coordinator is answered."""

    def __init__(self, status: int, body: bytes = b"", retry_after: int | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if retry_after is not None:
            self.headers.append(("Retry-After", str(retry_after)))

    @property
    def status_line(self) -> str:
        words = {200: "OK", 202: "Accepted", 401: "Unauthorized", 405: "Method Not Allowed", 503: "Service Unavailable"}
        return f"{self.status} {words.get(self.status, 'Answer')}"


class _Receiver:
    """Verifies requests and runs tasks."""

    def __init__(
        self,
        tasks: tuple[Task[..., Any], ...],
        secret: str,
        url: str,
        endpoint: str | None,
        concurrency: int,
        codec: Codec | None,
    ) -> None:
        self._codec = codec
        self._tasks = {task.kind: task for task in tasks}
        self._verifier = PushVerifier(secret, url)
        self._recent = RecentIds()
        self._endpoint = endpoint
        self._free = threading.Semaphore(concurrency)
        self._link: _Link | None = None
        self._lock = threading.Lock()

    def handle_blocking(self, method: str, headers: dict[str, str], body: bytes) -> _Answer:
        return self._admitted(method, headers, body) or asyncio.run(self._run(body, headers["webhook-id"], True))

    async def handle(self, method: str, headers: dict[str, str], body: bytes) -> _Answer:
        return self._admitted(method, headers, body) or await self._run(body, headers["webhook-id"], False)

    def _admitted(self, method: str, headers: dict[str, str], body: bytes) -> _Answer | None:
        """Refuses what is not to be run; None if it is."""
        if method != "POST":
            return _Answer(405)
        try:
            message_id = self._verifier.verify(headers, body)
        except NotVerified as error:
            return _Answer(401, json.dumps({"error": error.code}).encode())
        if not self._free.acquire(blocking=False):
            return _Answer(503, retry_after=1)
        if not self._recent.is_new(message_id):
            self._free.release()
            return _Answer(202)  # a copy of an attempt that is, or was, under way
        return None

    async def _run(self, body: bytes, message_id: str, is_thread: bool) -> _Answer:
        try:
            report = await self._attempted(json.loads(body), is_thread)
        except BaseException:
            self._recent.forget(message_id)
            raise
        finally:
            self._free.release()
        if report is None:
            return _Answer(202)
        told = json.loads(report.text)
        shown = {name: value for name, value in told.items() if name not in _KNOWN_TO_SENDER}
        return _Answer(200, json.dumps(shown).encode())

    async def _attempted(self, envelope: Any, is_thread: bool) -> Report | None:
        link = self._linked(envelope["callbackBaseUrl"])
        task = self._tasks.get(envelope["kind"])
        lease = Lease(link.clock, envelope, link.clock.now(), takes_logs=self._codec is None)
        attempt = Attempt(envelope, lease, task)
        if task is None:
            failure = Failure.config(f"this endpoint has no task for kind `{envelope['kind']}`")
            return _attempt.failed(attempt, link.worker_json, failure)
        if self._endpoint is not None:
            link.post(link.hold, attempt)
        try:
            if task.is_durable:
                return await self._driver(attempt, link).drive()
            return await self._executed(attempt, task, link, is_thread)
        finally:
            attempt.is_ended = True

    def _driver(self, attempt: Attempt, link: _Link) -> Driver:
        io: Any = link
        mailbox = Mailbox(asyncio.get_running_loop())
        return Driver(attempt, io, link.pool, self._codec, lambda _: None, mailbox)

    async def _executed(self, attempt: Attempt, task: Task[..., Any], link: _Link, is_thread: bool) -> Report | None:
        loop = asyncio.get_running_loop()
        current = asyncio.current_task()
        if task.is_async and current is not None:
            attempt.on_stop = partial(_cancel, loop, current)
        ctx = Ctx(attempt.envelope, attempt.lease, None, None, attempt.trace)
        token = current_context.set(ctx)
        try:
            arguments = task.signature.arguments_of(opened(self._codec, attempt.envelope.get("input")))
            with span(attempt):
                if task.is_async:
                    result = await task.invoke(ctx, arguments)
                elif is_thread:
                    result = task.invoke(ctx, arguments)
                else:
                    result = await asyncio.to_thread(task.invoke, ctx, arguments)
            report: Report | None = _attempt.succeeded(attempt, link.worker_json, result, self._codec, False)
        except (Exception, asyncio.CancelledError) as error:
            report = _attempt.raised(attempt, link.worker_json, error)
        finally:
            current_context.reset(token)
        return report if attempt.lease.check() else None

    def _linked(self, base_url: str) -> _Link:
        with self._lock:
            if self._link is None or self._link.process != os.getpid():  # threads do not survive a fork
                self._link = _Link(base_url, self._endpoint)
                self._link.start()
                self._link.ready.wait()
            return self._link


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    loop.call_soon_threadsafe(task.cancel)


class _Link(threading.Thread):
    """Calls back: heartbeats and checkpoints of pushed attempts, each under its own token."""

    def __init__(self, base_url: str, endpoint: str | None) -> None:
        super().__init__(name="tenure-push", daemon=True)
        self.process = os.getpid()
        self.worker_id = f"push:{endpoint}"
        self.worker_json = json.dumps(self.worker_id)
        self.clock = Clock()
        self.is_draining = False
        self.pool = Pool(32)
        self.ready = threading.Event()
        self._settings = Settings((Address.parse(base_url),), "none", retries=TRIES_MAX)
        self._spawned: set[asyncio.Task[Any]] = set()

    @property
    def checkpoints(self) -> _Link:
        """The driver of durable functions asks this for its calls."""
        return self

    def run(self) -> None:
        """Serves for as long as the process lives."""
        self.loop = asyncio.new_event_loop()
        self._transport = AsyncTransport(self._settings)
        self.loop.call_soon(self.ready.set)
        self.loop.run_forever()

    def post(self, act: Callable[..., Any], *args: Any) -> None:
        """Does something on this thread."""
        self.loop.call_soon_threadsafe(act, *args)

    def spawn(self, work: Any) -> None:
        """Begins something on this thread."""
        task = self.loop.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    def hold(self, attempt: Attempt) -> None:
        """Keeps the lease of an attempt until it has ended."""
        self.spawn(self._beat(attempt))

    def send(self, attempt: Attempt, part: dict[str, Any], done: Callable[[Recording], None]) -> None:
        """Sends one checkpoint call."""
        self.spawn(self._send(attempt, part, done))

    def fetch(self, call: _calls.Call, done: Callable[[Any, BaseException | None], None]) -> None:
        """Reads something for a durable function."""
        self.spawn(self._fetch(call, done))

    def lose(self, attempt: Attempt, why: str) -> None:
        attempt.lease.lose(why)
        if attempt.on_stop is not None and not attempt.is_ended:
            attempt.on_stop()

    async def _fetch(self, call: _calls.Call, done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            done(await self._transport.call(call), None)
        except Exception as error:
            done(None, error)

    async def _send(self, attempt: Attempt, part: dict[str, Any], done: Callable[[Recording], None]) -> None:
        body = {"attempt": attempt.number, "workerId": self.worker_id, **part}
        path = f"/v1/tasks/{_calls.segment(attempt.task_id)}/checkpoints"
        sent = self.clock.now()
        try:
            answer = await self._transport.call(_calls.post(path, body, token=attempt.lease.token))
        except Refused as error:
            is_lost = error.status in (409, 410)
            done(Recording("lost" if is_lost else "refused", why=f"{error.code}: {error.detail}"))
        except TenureError as error:
            done(Recording("unanswered", why=str(error)))
        else:
            self._renewed(attempt, answer, sent)
            done(Recording("committed", answer, answer["serverTime"]))

    async def _beat(self, attempt: Attempt) -> None:
        lease = attempt.lease
        path = f"/v1/tasks/{_calls.segment(attempt.task_id)}/heartbeat"
        while not attempt.is_ended and lease.check():
            now = self.clock.now()
            if not lease.is_due(now):
                await asyncio.sleep(min(0.1, max(0.01, lease.next_beat - now)))
                continue
            body: dict[str, Any] = {"attempt": attempt.number, "workerId": self.worker_id}
            if lease.progress is not None and lease.progress[0] is not None:
                body["progressPct"] = lease.progress[0]
            lease.sent_beat, lease.news = now, False
            call = _calls.post(path, body, token=lease.token)
            try:
                async with asyncio.timeout(max(lease.interval, ANSWER_SECONDS_MIN)):
                    self._renewed(attempt, await self._transport.call_once(call), now)
            except Refused as error:
                if not error.retryable:
                    return self.lose(attempt, error.detail)
                lease.unanswered()
            except (TenureError, TimeoutError):
                lease.unanswered()
        if not attempt.is_ended:
            self.lose(attempt, lease.lost_because or "the lease could not be renewed in time")
        return None

    def _renewed(self, attempt: Attempt, answer: Any, sent: float) -> None:
        lease = attempt.lease
        if answer.get("leaseExpiresAt") is not None:
            lease.renewed(sent, answer["leaseExpiresAt"], answer["serverTime"])
        lease.token = answer.get("taskToken") or lease.token
        lease.left = Left.from_json(answer.get("left"))
        if answer.get("shouldCancel") and lease.stop_reason is None:
            lease.stop("CancelRequested")
            if attempt.on_stop is not None:
                attempt.on_stop()
