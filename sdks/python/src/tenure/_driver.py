"""Drives one attempt of a durable function: polls the engine, carries out its commands, brings the answers back.

The engine decides what the function does next, and the coordinator what is true. Nothing is remembered here: after a crash,
the next attempt starts from what the coordinator has recorded.

- A call about which nothing was decided fails the attempt with `checkpoint_save_failed`; no later step has started (S2-92).
- A lost lease drops the function at once. What it was doing is not reported.
- A cancelled run starts no further step. One that runs may end within half of the grace period, and is recorded.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from . import _attempt, _calls, event
from ._attempt import Attempt, Report
from ._checkpoint_calls import Recording
from ._checkpoints import checkpoints_of, parts_of, recorded_of, riding_of, seed_of
from ._codec import Codec, opened
from ._commands import Complete, Execute, Last, Record, Recorded, Start, time_ms
from ._current import current_context
from ._engine import Core
from ._io import Io
from ._mailbox import Mailbox
from ._pool import Pool
from ._run import Run
from ._steps import Step, nothing, step_hint
from ._stop import Stop
from .ctx import log_extra
from .failure import Failure
from .flow import Flow
from .task import Task


class _Ended(Exception):
    """The attempt is over, with this report or without one."""

    def __init__(self, report: Report | None) -> None:
        super().__init__()
        self.report = report


class _Wake:
    """An `asyncio.Event` for one that waits: a run waits twice for each step, so this is kept small."""

    __slots__ = ("_loop", "_waiter", "is_set")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self.is_set: bool = False

    def set(self) -> None:
        """Lets the one that waits go on."""
        self.is_set = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self) -> None:
        """Waits until it is set."""
        if not self.is_set:
            self._waiter = self._loop.create_future()
            await self._waiter


class Driver:
    """One attempt of a durable function, on the loop of the user's code."""

    def __init__(
        self,
        attempt: Attempt,
        io: Io,
        pool: Pool,
        codec: Codec | None,
        emit: Callable[[Any], None],
        mailbox: Mailbox,
    ) -> None:
        self._attempt = attempt
        self._io = io
        self._pool = pool
        self._codec = codec
        self._emit = emit
        self._mailbox = mailbox
        self._loop = asyncio.get_running_loop()
        self._wake = _Wake(self._loop)
        self._steps: dict[str, asyncio.Task[Any]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._cancel_timer: asyncio.TimerHandle | None = None
        self._is_given_up = False
        self._call: asyncio.Future[Recorded] | None = None
        #: What became of a call that had one part.
        self._recording: Recording | None = None
        attempt.on_stop = self.told

    async def drive(self) -> Report | None:
        """Runs the function until it returns or waits, or until the attempt is over. Returns its report, if it has one."""
        run: Run | None = None
        try:
            run = Run(Core(await self._start(), self._codec), self._function, self._output_of)
            run.core.lines = self._attempt.lease.log_line
            run.core.left = self._attempt.lease.left
            return await self._carry_out(run)
        except _Ended as ended:
            return ended.report
        finally:
            self._stop_steps()
            if run is not None:
                run.close()

    def told(self) -> None:
        """The attempt must stop."""
        if self._attempt.lease.stop_reason == "CancelRequested":
            # Half of the grace period is for steps that run, the other half for the report.
            grace = self._attempt.envelope["cancelGracePeriodMs"] / 2000
            self._cancel_timer = self._loop.call_later(grace, self._give_up)
        else:
            self._give_up()
        self._wake.set()

    def _give_up(self) -> None:
        self._is_given_up = True
        self._stop_steps()
        self._wake.set()

    def _function(self, core: Core) -> Any:
        task: Task[..., Any] = self._attempt.task  # type: ignore[assignment]
        plain = opened(self._codec, self._attempt.envelope.get("input"))
        arguments = task.signature.arguments_of(plain)
        return task.invoke(Flow(core, "", log_extra(self._attempt.envelope)), arguments)

    def _output_of(self, value: object) -> Any:
        task: Task[..., Any] = self._attempt.task  # type: ignore[assignment]
        return task.signature.output_of(value)

    async def _carry_out(self, run: Run) -> Report | None:
        while True:
            self._check_given_up()
            self._wake.is_set = False
            self._take_answer(run)
            try:
                command = run.poll()
            except Stop as stop:
                return await self._park(stop)
            if command is None:
                await self._wake.wait()
            elif isinstance(command, Execute):
                if self._attempt.lease.stop_reason == "CancelRequested":
                    return _attempt.cancelled(self._attempt, self._io.worker_json)
                self._execute(run, command)
            elif isinstance(command, Record):
                self._record(command)
            elif isinstance(command, Complete):
                return await self._conclude(command)
            else:
                return self._last(command)

    def _check_given_up(self) -> None:
        """Ends the attempt if its time is over."""
        if not self._is_given_up:
            return
        reason = self._attempt.lease.stop_reason
        if reason == "LeaseLost":
            raise _Ended(None)
        if reason == "CancelRequested":
            raise _Ended(_attempt.cancelled(self._attempt, self._io.worker_json))
        raise _Ended(_attempt.raised(self._attempt, self._io.worker_json, asyncio.CancelledError()))

    def _take_answer(self, run: Run) -> None:
        if self._recording is not None:
            recording, self._recording = self._recording, None
            if recording.word != "committed" or recording.answer.get("resultsLeftOut"):
                self._await_call(self._judged(recording))
                return
            run.core.left = self._attempt.lease.left
            run.recorded(recorded_of(recording.answer, recording.server_time))
        elif self._call is not None and self._call.done():
            call, self._call = self._call, None
            run.core.left = self._attempt.lease.left
            run.recorded(call.result())

    def _last(self, command: Last) -> Report | None:
        if command.word == "cancel":
            return _attempt.cancelled(self._attempt, self._io.worker_json)
        if command.word == "suspend":
            self._emit(event.Suspended(self._attempt.task_id, self._attempt.number))
        return None

    # Steps.

    def _execute(self, run: Run, command: Execute) -> None:
        fn, args, bind = command.work
        key, number = command.key, command.number
        step = Step(run.core, key, number)
        context = contextvars.copy_context()
        context.run(current_context.set, step)
        every = (step, *args) if bind else args

        def worked(result: Any, error: BaseException | None) -> None:
            timer = self._timers.pop(key, None)
            if timer is not None:
                timer.cancel()
            self._steps.pop(key, None)
            run.worked(key, number, result, error, step._spent, step._effects, partial(step_hint, fn))
            self._wake.set()

        if command.timeout_ms is not None:
            self._timers[key] = self._loop.call_later(command.timeout_ms / 1000, self._time_out, run, key, number)
        if inspect.iscoroutinefunction(fn):
            self._steps[key] = self._loop.create_task(self._awaited(fn, every, worked), context=context)
        elif fn is nothing:
            self._loop.call_soon(worked, None, None)
        else:
            self._pool.submit(lambda: self._in_thread(context, fn, every, worked))

    async def _awaited(
        self, fn: Any, args: tuple[Any, ...], worked: Callable[[Any, BaseException | None], None]
    ) -> None:
        try:
            result = await fn(*args)
        except asyncio.CancelledError as error:
            if not self._is_given_up:
                worked(None, error)
            raise
        except Exception as error:
            worked(None, error)
        else:
            worked(result, None)

    def _in_thread(
        self,
        context: contextvars.Context,
        fn: Any,
        args: tuple[Any, ...],
        worked: Callable[[Any, BaseException | None], None],
    ) -> None:
        result, failed = None, None
        try:
            result = context.run(fn, *args)
        except BaseException as error:
            failed = error
        self._mailbox.put(worked, result, failed)

    def _time_out(self, run: Run, key: str, number: int) -> None:
        task = self._steps.pop(key, None)
        self._timers.pop(key, None)
        run.time_out(key, number)
        if task is not None:
            task.cancel()
        self._wake.set()

    def _stop_steps(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer.cancel()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._steps.values():
            task.cancel()
        self._steps.clear()

    # Calls.

    async def _start(self) -> Start:
        """What the attempt begins with. Checkpoints that the envelope has no room for are read in pages."""
        envelope = self._attempt.envelope
        recorded = list(envelope.get("checkpoints") or ())
        recorded += await self._pages(envelope.get("checkpointsAfter"))
        seed = envelope.get("seed")
        return Start(
            self._attempt.task_id,
            envelope["fence"],
            seed_of(self._attempt.task_id) if seed is None else seed,
            time_ms(envelope["enqueuedAt"]),
            checkpoints_of(recorded),
            envelope.get("origin"),
        )

    async def _pages(self, after: int | None) -> list[Any]:
        found: list[Any] = []
        while after is not None:
            path = f"/v1/tasks/{_calls.segment(self._attempt.task_id)}/checkpoints"
            page = await self._fetch(_calls.get(path, {"after": after}, token=self._attempt.lease.token))
            found += page["checkpoints"]
            after = page.get("nextAfter")
        return found

    async def _fetch(self, call: _calls.Call) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if not answer.done():
                answer.set_result((result, error))

        self._io.post(
            lambda: self._io.checkpoints.fetch(call, lambda result, error: self._mailbox.put(settle, result, error))
        )
        result, error = await answer
        if error is not None:
            failure = Failure.hand_back(f"cannot read what is recorded: {error}")
            raise _Ended(_attempt.raised(self._attempt, self._io.worker_json, failure))
        return result

    def _record(self, command: Record) -> None:
        """Sends a call of the engine, in parts if it is large. Most have one part, and need no task to wait for it."""
        parts = parts_of(command.steps, command.children, command.wait) or [{}]
        if len(parts) == 1:
            self._post(parts[0], self._recorded)
        else:
            self._await_call(self._record_all(parts))

    def _recorded(self, recording: Recording) -> None:
        self._recording = recording
        self._wake.set()

    def _await_call(self, call: Coroutine[Any, Any, Recorded]) -> None:
        self._call = asyncio.ensure_future(call)
        self._call.add_done_callback(lambda _: self._wake.set())

    async def _record_all(self, parts: list[dict[str, Any]]) -> Recorded:
        """The last answer counts, unless an earlier one ends the call."""
        answer = None
        for part in parts:
            answer = await self._send(part)
            if answer.state != "running" or answer.should_cancel:
                return answer
        assert answer is not None, "a call has at least one part"
        return answer

    async def _send(self, part: dict[str, Any]) -> Recorded:
        answer: asyncio.Future[Recording] = self._loop.create_future()

        def settle(recording: Recording) -> None:
            if not answer.done():
                answer.set_result(recording)

        self._post(part, settle)
        return await self._judged(await answer)

    def _post(self, part: dict[str, Any], settle: Callable[[Recording], None]) -> None:
        """Has one call sent. `settle` is called here, on this thread."""
        done = partial(self._mailbox.put, settle)
        self._io.post(lambda: self._io.checkpoints.send(self._attempt, part, done))

    async def _judged(self, recording: Recording) -> Recorded:
        if recording.word == "committed":
            told = recording.answer
            if told.get("resultsLeftOut"):
                told = {**told, "results": await self._left_out()}
            return recorded_of(told, recording.server_time)
        worker = self._io.worker_json
        if recording.word == "lost":
            self._io.post(self._io.lose, self._attempt, recording.why)
            self._attempt.lease.lose(recording.why)
            raise _Ended(None)
        if recording.word == "refused":
            text = f"the coordinator refused a checkpoint ({recording.why})"
            self._emit(event.Rejected(self._attempt.task_id, recording.why.partition(":")[0], recording.why))
            raise _Ended(_attempt.failed(self._attempt, worker, Failure.permanent(text)))
        failure = Failure.infra(
            f"checkpoint_save_failed: the coordinator did not record the last steps ({recording.why}). No later step "
            "was started; another attempt continues from what is recorded"
        )
        failure.retryable = True
        raise _Ended(_attempt.failed(self._attempt, worker, failure))

    async def _left_out(self) -> list[Any]:
        """Results that an answer had no room for. What the envelope brought is known."""
        envelope = self._attempt.envelope
        known = [each["number"] for each in envelope.get("checkpoints") or ()]
        after = envelope.get("checkpointsAfter")
        found = await self._pages(after if after is not None else (known[-1] if known else 0))
        return [each for each in found if each["outcome"] != "STARTED" and each["kind"] != "STEP"]

    async def _conclude(self, command: Complete) -> Report | None:
        """The end of the function. What is too large to ride with the report is recorded before it."""
        before, riding = riding_of(command.steps, command.children)
        for part in before:
            if (await self._send(part)).state != "running":
                return None
        self._check_given_up()
        return _attempt.returned(self._attempt, self._io.worker_json, command, riding, not self._io.is_draining)

    async def _park(self, stop: Stop) -> Report | None:
        """The function cannot go on with this code: the run waits for another build."""
        await self._send({"diverged": stop.diverged()})
        self._emit(event.Diverged(self._attempt.task_id, self._attempt.number, str(stop)))
        return None
