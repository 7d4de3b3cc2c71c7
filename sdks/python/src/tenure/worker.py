"""A worker: runs the code of tasks under leases until it is told to stop.

`def` tasks run in a pool of threads, `async def` tasks and durable functions on the loop of `run()` or `serve()`, isolated
tasks in processes of their own. The thread `tenure-io` sends everything; user code cannot lose a lease by being slow.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

from . import _attempt, _isolate, event
from ._announcement import Announcement
from ._attempt import Attempt
from ._codec import opened
from ._current import current_context
from ._driver import Driver
from ._io import Io
from ._isolated import Child, is_isolated
from ._mailbox import Mailbox
from ._pool import Pool
from ._runners import Runners
from ._stderr import show_logs
from ._tracing import span
from ._voice import voice
from .aio import AsyncClient
from .client import Client
from .ctx import Ctx
from .errors import Setup, TenureError
from .event import WorkerEvent
from .failure import Failure
from .task import Task

_LOGGER = logging.getLogger("tenure")

CONCURRENCY_MAX = 1000
#: Without `concurrency`, a worker takes up to this many at once if whole batches end quickly.
ASYNC_SLOTS_MAX = 256
THREAD_SLOTS_MAX = 128

#: How long a thread may keep the interpreter lock while another one waits. The I/O thread waits often and needs little.
SWITCH_SECONDS = 0.0005

Hook = TypeVar("Hook", bound=Callable[[Any], Any])


class Worker:
    """Runs tasks.

    >>> Worker(greet, order).run()  # doctest: +SKIP

    Queues come from the tasks. SIGTERM and Ctrl-C drain: no new work, `shutdown_timeout` seconds for what runs, then it
    is told to stop and handed back after `cleanup_timeout`. A second signal skips the waiting.
    """

    def __init__(
        self,
        *tasks: Task[..., Any],
        client: Client | AsyncClient | None = None,
        name: str | None = None,
        concurrency: int | None = None,
        shutdown_timeout: float = 25,
        cleanup_timeout: float = 1,
        on_event: Callable[[WorkerEvent], None] | None = None,
    ) -> None:
        self.tasks: dict[str, Task[..., Any]] = {}
        for task in tasks:
            self._add(task)
        if concurrency is not None and not 1 <= concurrency <= CONCURRENCY_MAX:
            raise Setup(
                f"a concurrency of {concurrency}", next_step=f"choose 1 to {CONCURRENCY_MAX}", field="concurrency"
            )
        self._client = client
        self.name: str = name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._concurrency = concurrency
        self._shutdown_timeout = shutdown_timeout
        self._cleanup_timeout = cleanup_timeout
        self._on_event = on_event
        #: What start-up hooks put here is found as `ctx.state`.
        self.state: SimpleNamespace = SimpleNamespace()
        self._startup: list[Callable[[Any], Any]] = []
        self._shutdown: list[Callable[[Any], Any]] = []
        self._running: Io | None = None
        self._signals = 0
        self._is_run = False

    def _add(self, task: Task[..., Any]) -> None:
        if not isinstance(task, Task):
            raise Setup(f"{task!r} is no task", next_step="decorate the function with @task or @durable")
        if self.tasks.setdefault(task.kind, task) is not task:
            raise Setup(f"two tasks have the kind `{task.kind}`", next_step="give one of them another kind=")

    def on_startup(self, hook: Hook) -> Hook:
        """Calls this with `state` before the first poll: open pools and load models here. It may be `async def`."""
        self._startup.append(hook)
        return hook

    def on_shutdown(self, hook: Hook) -> Hook:
        """Calls this with `state` after the last report. It may be `async def`."""
        self._shutdown.append(hook)
        return hook

    def run(self) -> None:
        """Works until SIGTERM or Ctrl-C. Raises what ended it otherwise.

        Where the program has not set up logging, what `tenure` logs is written to standard error, as TENURE_LOG says.
        """
        if is_isolated():
            self._prepare_client()
            Child(self.tasks, self.state, self._startup, self._shutdown, self._task_client).serve()
        show_logs()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._is_run = True
        try:
            asyncio.run(self._serve_with_signals())
        except KeyboardInterrupt:
            pass

    def _check_isolated(self) -> None:
        """A child runs the program again, up to `run()`: under `serve()` it would become a second worker."""
        isolated = [kind for kind, task in self.tasks.items() if task.is_isolated]
        if isolated and not self._is_run:
            raise Setup(
                f"`{isolated[0]}` has isolate=True, which needs Worker.run()",
                next_step="start this worker with run(), in a program of its own",
            )

    async def _serve_with_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, ValueError, RuntimeError):
                loop.add_signal_handler(number, self.stop)
        await self.serve()

    def stop(self) -> None:
        """Drains: finishes what runs and ends. A second call skips the waiting."""
        self._signals += 1
        if self._running is None:
            return
        is_patient = self._signals == 1
        now = self._running.clock.now()
        self._running.drain(now + self._shutdown_timeout if is_patient else None)

    async def serve(self) -> None:
        """Works inside a running loop, until `stop`. Isolated tasks need `run`."""
        if not self.tasks:
            raise Setup("the worker has no tasks", next_step="pass tasks to Worker(…)")
        self._check_isolated()
        self._loop = asyncio.get_running_loop()
        self._mailbox = Mailbox(self._loop)
        self._over: asyncio.Future[BaseException | None] = self._loop.create_future()
        self._prepare_client()
        self._pool = Pool(self._concurrency or THREAD_SLOTS_MAX)
        self._stuck = 0
        for hook in self._startup:
            await _called(hook, self.state)
        self._io = Io(
            self,
            self._settings,
            name=self.name,
            queues=sorted({task.queue for task in self.tasks.values()}),
            concurrency=self._concurrency,
            slots_max=self._slots_max(),
            cleanup_timeout=self._cleanup_timeout,
            announcement=Announcement(self.tasks.values(), self._codec is not None),
            takes_logs=self._codec is None,
        )
        self._isolates = _isolate.Isolates(self._io, self._codec)
        self._runners = Runners(self._loop, self._run_on_loop, self._io.flush)
        self._io.start_and_wait()
        self._running = self._io
        _LOGGER.info("worker %s serves %s", self.name, ", ".join(sorted(self.tasks)))
        try:
            if self._signals:
                self._signals = 0
                self.stop()
            error = await asyncio.shield(self._over)
        except asyncio.CancelledError:
            self.stop()
            await self._over
            raise
        finally:
            self._running = None
            self._isolates.close()
            self._pool.close()
            voice.flush()
            for hook in self._shutdown:
                await _called(hook, self.state)
        if error is not None:
            raise error

    def _slots_max(self) -> int:
        has_threads = any(not task.is_async for task in self.tasks.values())
        return THREAD_SLOTS_MAX if has_threads else ASYNC_SLOTS_MAX

    # Called on the I/O thread.

    def begin(self, attempts: list[Attempt]) -> None:
        """Runs the code of these attempts."""
        on_loop: list[Attempt] = []
        in_threads: list[Callable[[], None]] = []
        for attempt in attempts:
            task = attempt.task
            assert task is not None, "an attempt without a task never begins"
            if task.is_isolated:
                attempt.has_entered = True
                self._isolates.run(attempt)
            elif task.is_async:
                on_loop.append(attempt)
            else:
                in_threads.append(partial(self._run_in_thread, attempt))
        if in_threads:
            self._pool.submit_many(in_threads, self._io.loop.call_later)
        if on_loop:
            self._on_loop(self._begin_on_loop, on_loop)

    def told(self, attempt: Attempt) -> None:
        """The attempt must stop."""
        if attempt.task is not None and attempt.task.is_isolated:
            self._isolates.told(attempt)
        elif attempt.task is not None and attempt.task.is_async:
            self._on_loop(self._tell, attempt)

    def forced(self, attempt: Attempt) -> None:
        """The code was told, had its time, and goes on."""
        task = attempt.task
        assert task is not None, "an attempt without a task never begins"
        if task.is_isolated:
            self._isolates.kill(attempt)
            return
        self.told(attempt)  # code that swallowed its cancellation gets another one
        if attempt.lease.stop_reason == "TimedOut":
            failure = Failure.timeout("dropped after its time limit")
            self._io.reports.file(_attempt.failed(attempt, self._io.worker_json, failure))
            attempt.lease.lose("its time limit passed")
        voice.warning("`%s` (%s) was told to stop and goes on; it keeps its slot", task.kind, attempt.task_id)
        self.emit(event.Stuck(attempt.task_id, attempt.number, task.kind))
        self._stuck += 1
        if self._io.is_draining:
            self._io.end(attempt, None)  # its thread ends with the process, and its lease with time
        elif self._stuck >= self._io.slots:
            self._io.fail(TenureError("every slot of the worker is stuck", code="stuck"))

    def emit(self, what: WorkerEvent) -> None:
        """Tells the user, on the loop of the user's code."""
        if self._on_event is not None:
            self._on_loop(self._tell_user, what)

    def over(self, error: BaseException | None) -> None:
        """The I/O thread has ended."""
        self._on_loop(self._set_over, error)

    def _on_loop(self, act: Callable[..., Any], *args: Any) -> None:
        self._mailbox.put(act, *args)

    # Called on the loop of user code.

    def _set_over(self, error: BaseException | None) -> None:
        if not self._over.done():
            self._over.set_result(error)

    def _tell_user(self, what: WorkerEvent) -> None:
        try:
            if self._on_event is not None:
                self._on_event(what)
        except Exception:
            _LOGGER.exception("on_event failed")

    def _tell(self, attempt: Attempt) -> None:
        if attempt.on_stop is not None:
            attempt.on_stop()

    def _begin_on_loop(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if attempt.task is not None and attempt.task.is_durable:
                self._loop.create_task(self._drive(attempt))
            else:
                self._runners.add(attempt)

    async def _drive(self, attempt: Attempt) -> None:
        attempt.has_entered = True
        driver = Driver(attempt, self._io, self._pool, self._codec, self.emit, self._mailbox)
        report = None
        try:
            _check_may_begin(attempt)
            with span(attempt):
                report = await driver.drive()
        except asyncio.CancelledError as error:
            report = self._raised(attempt, error)
        except Exception as error:
            _LOGGER.exception("the driver of `%s` failed", attempt.kind)
            report = _attempt.raised(attempt, self._io.worker_json, error)
        finally:
            self._end(attempt, report)

    async def _run_on_loop(self, attempt: Attempt) -> None:
        task: Any = attempt.task
        report = None
        attempt.has_entered = True
        try:
            _check_may_begin(attempt)
            ctx = self._ctx(attempt)
            current_context.set(ctx)
            arguments = self._arguments(task, attempt)
            with span(attempt):
                result = await task.invoke(ctx, arguments)
            report = self._succeeded(attempt, result)
        except (Exception, asyncio.CancelledError) as error:
            report = self._raised(attempt, error)
        finally:
            if attempt.is_stuck and not attempt.is_ended:
                self._stuck -= 1
            self._io.ended_later(attempt, report)

    def _end(self, attempt: Attempt, report: Any) -> None:
        if attempt.is_stuck and not attempt.is_ended:
            self._stuck -= 1
        self._io.ended(attempt, report)

    # Called on threads of the pool.

    def _run_in_thread(self, attempt: Attempt) -> None:
        attempt.has_entered = True
        task: Any = attempt.task
        report = None
        token = None
        try:
            _check_may_begin(attempt)
            ctx = self._ctx(attempt)
            token = current_context.set(ctx)
            arguments = self._arguments(task, attempt)
            with span(attempt):
                result = task.invoke(ctx, arguments)
            report = self._succeeded(attempt, result)
        except BaseException as error:
            report = self._raised(attempt, error)
        finally:
            if token is not None:
                current_context.reset(token)
            self._end(attempt, report)

    def _arguments(self, task: Task[..., Any], attempt: Attempt) -> dict[str, Any]:
        return task.signature.arguments_of(opened(self._codec, attempt.envelope.get("input")))

    def _succeeded(self, attempt: Attempt, result: Any) -> Any:
        return _attempt.succeeded(attempt, self._io.worker_json, result, self._codec, not self._io.is_draining)

    def _raised(self, attempt: Attempt, error: BaseException) -> Any:
        if attempt.lease.stop_reason == "LeaseLost":
            return None
        return _attempt.raised(attempt, self._io.worker_json, error, not self._io.is_draining)

    def _ctx(self, attempt: Attempt) -> Ctx:
        return Ctx(attempt.envelope, attempt.lease, self._task_client, self.state, attempt.trace)

    def _prepare_client(self) -> None:
        client = self._client or Client()
        self._codec = client._codec
        self._settings = client._settings
        self._made_client: Client | None = client if isinstance(client, Client) else None
        self._client_lock = threading.Lock()

    def _task_client(self) -> Client:
        """A client for the code of tasks, made when it is first asked for."""
        with self._client_lock:
            if self._made_client is None:
                made = Client.__new__(Client)
                addresses = ",".join(each.origin + each.prefix for each in self._settings.addresses)
                made.__init__(  # type: ignore[misc]
                    addresses, self._settings.api_key, ca_file=self._settings.ca_file, codec=self._codec
                )
                self._made_client = made
            return self._made_client


def _check_may_begin(attempt: Attempt) -> None:
    """Code that waited for its thread, or for the loop, may have been told to stop before it began."""
    if attempt.lease.stop_reason is not None or not attempt.lease.check():
        raise asyncio.CancelledError


async def _called(hook: Callable[[Any], Any], state: SimpleNamespace) -> None:
    result = hook(state)
    if inspect.isawaitable(result):
        await result
