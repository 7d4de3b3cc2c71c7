"""Tests without a server: tasks run inline, durable functions in memory, where time passes at once.

ended = FlowTest(order, 500).signal("approve", True).crash(after=1).run()
assert ended.output == "500 cents"
assert ended.executed["charge#1"] == 1
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import inspect
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, ParamSpec, Self, TypeVar

from . import _calls, _json
from ._checkpoints import checkpoints_of
from ._codec import Codec, opened
from ._commands import Complete, Execute, Last, Record, Start, time_ms
from ._current import current_context
from ._engine import Core
from ._history import Checkpoint
from ._lease import Clock, Lease
from ._memory import BEGINNING, TASK_ID, Coordinator, Script, Stuck, Word
from ._run import Run
from ._span import Span, milliseconds
from ._steps import Step, step_hint
from ._stop import Stop
from .ctx import Ctx
from .errors import Setup, TenureError
from .failure import Failure
from .flow import Flow
from .task import Kind, Task

P = ParamSpec("P")
T = TypeVar("T")

#: A run that crashes at every command has this many attempts at most; more is a loop.
ATTEMPTS_MAX = 100_000


class Diverged(TenureError):
    """The code is not the one that was recorded, or does what no replay can repeat."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code="diverged")


def run_inline(task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a task here and now: arguments and result pass through JSON as they would on the wire.

    >>> run_inline(greet, "Ada")  # doctest: +SKIP
    'Hello, Ada!'
    """
    value = json.loads(_json.dumps(task.signature.input_of(args, kwargs)))
    if task.is_durable:
        ended = FlowTest(task, *args, **kwargs).run()
        return task.read_result(ended.json_output)
    ctx = inline_ctx(task.kind, task.queue, value)
    arguments = task.signature.arguments_of(value)
    token = current_context.set(ctx)
    try:
        result = task.invoke(ctx, arguments)
        if inspect.isawaitable(result):
            result = _outside_loops(lambda: asyncio.run(_awaited(result)))
    finally:
        current_context.reset(token)
    return task.read_result(json.loads(task.signature.output_text_of(result)))


def inline_ctx(kind: str = "test", queue: str = "test", input: object = None) -> Ctx:
    """A context for the code of a task, without a lease to lose."""
    envelope = {
        "runId": "run_00000000000000000000000000",
        "taskId": TASK_ID,
        "attempt": 1,
        "fence": 1,
        "kind": kind,
        "queue": queue,
        "taskToken": "",
        "heartbeatTimeoutMs": 86_400_000,
        "heartbeatIntervalMs": 28_800_000,
        "input": input,
    }
    clock = Clock()
    return Ctx(envelope, Lease(clock, envelope, clock.now()), None, SimpleNamespace())


async def _awaited(value: Any) -> Any:
    return await value


def _outside_loops(act: Callable[[], Any]) -> Any:
    """Calls something that starts a loop, also where one runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return act()
    box: list[Any] = []

    def caught() -> None:
        try:
            box.append((act(), None))
        except BaseException as error:
            box.append((None, error))

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(caught,))
    thread.start()
    thread.join()
    result, error = box[0]
    if error is not None:
        raise error
    return result


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How a run in memory ended."""

    #: What the function returned, as JSON.
    json_output: Any
    #: Why it failed; None if it succeeded.
    error: Failure | None
    #: Everything that was recorded, in commit order.
    history: list[Checkpoint]
    #: How often the work of each step was started.
    executed: dict[str, int]
    #: How many leases it took.
    attempts: int
    #: How many commands there were: places at which a worker can crash.
    commands: int
    _read: Callable[[Any], T] = field(repr=False)

    @property
    def output(self) -> T:
        """What the function returned. Raises its failure if it failed."""
        if self.error is not None:
            raise self.error
        return self._read(self.json_output)

    def keys(self) -> list[str]:
        """The keys of the history."""
        return [checkpoint.key for checkpoint in self.history]


class FlowTest(Generic[T]):
    """A durable run in memory. Say what happens to it from outside, then `run()` it."""

    def __init__(self, function: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        if not function.is_durable:
            raise Setup(f"{function!r} is no durable function", next_step="use run_inline for plain tasks")
        self._function = function
        self._arguments = (args, kwargs)
        self._script = Script()
        self._seed = 1
        self._recorded: list[Checkpoint] = []
        self._crashes: set[tuple[str, int]] = set()
        self._patience = 30.0

    def seed(self, seed: int) -> Self:
        """Another seed of random numbers and retry pauses."""
        self._seed = seed
        return self

    def recorded(self, checkpoints: Iterable[Checkpoint]) -> Self:
        """Begins with what another run has recorded (`Ended.history`)."""
        self._recorded = list(checkpoints)
        return self

    def signal(self, name: str, payload: object = None, *, after: Span = 0) -> Self:
        """A signal that is there from the beginning, or comes after a time."""
        at = BEGINNING + milliseconds(after, "after")
        value = _calls.payload(payload, f"the payload of signal `{name}`", "payload")
        self._script.signals.append((at, name, value))
        return self

    def approve(self, name: str, by: str, *, comment: str | None = None, after: Span = 0) -> Self:
        """A person approves, as soon as the approval of this name is open. `by` is the id of a key."""
        return self._decide(name, by, "APPROVED", comment, after)

    def reject(self, name: str, by: str, why: str | None = None, *, after: Span = 0) -> Self:
        """A person rejects it, and says why."""
        return self._decide(name, by, "REJECTED", why, after)

    def _decide(self, name: str, by: str, decision: str, comment: str | None, after: Span) -> Self:
        at = BEGINNING + milliseconds(after, "after")
        self._script.words.append(Word(at, name, by, decision, comment))
        return self

    def child(
        self, task: Task[..., Any] | Kind[Any, Any] | str, result: Callable[[Any], Any], *, takes: Span = 0
    ) -> Self:
        """What calls of a task return, and how long they take. A `Failure` that is raised is theirs."""
        kind = task if isinstance(task, str) else task.kind
        output_of = task.signature.output_of if isinstance(task, Task) else _json.payload
        self._script.kinds[kind] = (milliseconds(takes, "takes"), lambda value: output_of(result(value)))
        return self

    def delivery(self, type: str, outcome: str = "DELIVERED", *, takes: Span = 0) -> Self:
        """What becomes of effects of this type. Others are delivered at once."""
        self._script.deliveries[type] = (milliseconds(takes, "takes"), outcome)
        return self

    def crash(self, *, after: int | None = None, before: int | None = None) -> Self:
        """Lets the worker die, once: after the `n`-th command was carried out, or before it. Commands count from 0."""
        if after is not None:
            self._crashes.add(("after", after))
        if before is not None:
            self._crashes.add(("before", before))
        return self

    def run(self) -> Ended[T]:
        """Runs to the end. Raises `Diverged` if the function stops, and `Stuck` if nothing brings what it waits for."""
        return self._run(set(self._crashes))

    def run_with_every_crash(self) -> list[Ended[T]]:
        """Runs once undisturbed, then once for each place at which a worker can die."""
        first = self.run()
        places = [(word, n) for n in range(first.commands) for word in ("before", "after")]
        return [first, *(self._run({place}) for place in places)]

    def _run(self, crashes: set[tuple[str, int]]) -> Ended[T]:
        attempts = _Attempts(self._function, self._input(), self._script, self._seed, self._recorded, crashes)
        ended: Ended[T] = _outside_loops(lambda: asyncio.run(attempts.run()))
        return ended

    def _input(self) -> Any:
        args, kwargs = self._arguments
        return self._function.signature.input_of(args, kwargs)

    def replay(self, path: str | Path, codec: Codec | None = None) -> None:
        """Replays a golden file, as `tenure export` wrote it. Raises `Diverged` if the code does not fit it."""
        _outside_loops(lambda: asyncio.run(_replayed(self._function, Path(path), codec)))


class _Attempts:
    """One run in memory."""

    def __init__(
        self,
        function: Task[..., Any],
        value: Any,
        script: Script,
        seed: int,
        recorded: list[Checkpoint],
        crashes: set[tuple[str, int]],
    ) -> None:
        self._function = function
        self._value = value
        self._coordinator = Coordinator(script, seed, recorded)
        self._crashes = crashes
        self._fence = 0
        self._commands = 0
        self._executed: dict[str, int] = {}

    async def run(self) -> Ended[Any]:
        for _ in range(ATTEMPTS_MAX):
            complete = await self._attempt()
            if complete is not None:
                return Ended(
                    complete.output,
                    complete.error,
                    self._coordinator.history,
                    self._executed,
                    self._fence,
                    self._commands,
                    self._function.read_result,
                )
        raise Diverged(f"the run had {ATTEMPTS_MAX} attempts and goes on: it repeats itself")

    async def _attempt(self) -> Complete | None:
        """One lease: until the report, a suspension, or a crash."""
        self._fence += 1
        core = Core(self._coordinator.start(self._fence))
        run = Run(core, caller_of(self._function, self._value), self._function.signature.output_of)
        try:
            return await self._carry_out(run)
        finally:
            run.close()

    async def _carry_out(self, run: Run) -> Complete | None:
        while True:
            command = polled(run)
            number, self._commands = self._commands, self._commands + 1
            if self._dies("before", number):
                return None
            if isinstance(command, Execute):
                self._executed[command.key] = self._executed.get(command.key, 0) + 1
                await executed(run, command)
            elif isinstance(command, Record):
                answer = self._coordinator.record(command.steps, command.children, command.wait)
                if self._dies("after", number):
                    self._coordinator.skip_time()
                    return None
                run.recorded(answer)
            elif isinstance(command, Complete):
                return self._completed(command, number)
            else:
                self._coordinator.skip_time()
                return None

    def _completed(self, command: Complete, number: int) -> Complete | None:
        if command.bug is not None:
            raise command.bug
        self._coordinator.record(command.steps, command.children, None)
        self._dies("after", number)  # its report was committed: there is nothing left to lose
        return command

    def _dies(self, word: str, number: int) -> bool:
        if (word, number) not in self._crashes:
            return False
        self._crashes.discard((word, number))
        return True


def polled(run: Run) -> Any:
    """The next command. Steps run one after the other here, so there always is one."""
    try:
        command = run.poll()
    except Stop as stop:
        raise Diverged(str(stop)) from None
    assert command is not None, "no work is under way"
    return command


def caller_of(function: Task[..., Any], value: Any) -> Callable[[Core], Any]:
    """Calls a durable function with an input."""
    return lambda core: function.invoke(Flow(core), function.signature.arguments_of(value))


async def executed(run: Run, command: Execute) -> None:
    """Executes the work of a step."""
    fn, args, bind = command.work
    step = Step(run.core, command.key, command.number)
    context = contextvars.copy_context()
    context.run(current_context.set, step)
    every = (step, *args) if bind else args
    result: Any = None
    failed: Exception | None = None
    try:
        if inspect.iscoroutinefunction(fn):
            working = asyncio.get_running_loop().create_task(fn(*every), context=context)
            limit = None if command.timeout_ms is None else command.timeout_ms / 1000
            result = await asyncio.wait_for(working, limit)
        else:
            result = context.run(fn, *every)
    except TimeoutError as error:
        if command.timeout_ms is not None:
            run.time_out(command.key, command.number)
            return
        failed = error
    except Exception as error:
        failed = error
    run.worked(command.key, command.number, result, failed, step._spent, step._effects, partial(step_hint, fn))


# Golden files.


async def _replayed(function: Task[..., Any], path: Path, codec: Codec | None) -> None:
    head, checkpoints, end = read_golden(path)
    created_at = time_ms(head["createdAt"])
    start = Start(head["taskId"], head["attempt"] + 1, head["seed"], created_at, checkpoints_of(checkpoints))
    calls = caller_of(function, opened(codec, head.get("input")))
    run = Run(Core(start, codec), calls, function.signature.output_of)
    try:
        _compare(path, polled(run), end, codec)
    finally:
        run.close()


def read_golden(path: Path) -> tuple[Any, list[Any], Any]:
    """Head, checkpoints and end of a golden file. A file that was cut or changed is refused."""
    text = path.read_bytes()
    lines = text.splitlines(keepends=True)
    told = [json.loads(line) for line in lines]
    seal = told[-1].get("seal") if told else None
    if seal is None or hashlib.sha256(b"".join(lines[:-1])).hexdigest() != seal["sha256"]:
        raise Setup(f"{path} was cut or changed since it was exported", next_step="export the run again")
    ends = [line["end"] for line in told if "end" in line]
    return told[0]["head"], [line["checkpoint"] for line in told if "checkpoint" in line], ends[0] if ends else None


def _compare(path: Path, command: Any, end: Any, codec: Codec | None) -> None:
    is_over = end is not None and end["state"] in ("succeeded", "failed")
    if not is_over:
        if isinstance(command, Complete):
            raise Diverged(f"{path}: the record goes on where the code ends")
        return
    if isinstance(command, Execute):
        raise Diverged(f"{path}: the code executes `{command.key}` after the recorded end")
    if not isinstance(command, Complete):
        what = command.word if isinstance(command, Last) else "records or waits"
        raise Diverged(f"{path}: the code goes on after the recorded end ({what})")
    if command.bug is not None:
        raise command.bug
    if command.steps or command.children:
        raise Diverged(f"{path}: the code records more than the run did: {[step['key'] for step in command.steps]}")
    if command.outcome != {"succeeded": "SUCCEEDED", "failed": "FAILED"}[end["state"]]:
        raise Diverged(f"{path}: recorded {end['state']}, now {command.outcome}: {command.error}")
    if command.outcome != "SUCCEEDED":
        return
    recorded, now = opened(codec, end.get("output")), opened(codec, command.output)
    if _json.canonical(recorded) != _json.canonical(now):
        raise Diverged(f"{path}: recorded output {recorded!r}, now {now!r}")


__all__ = ["Diverged", "Ended", "FlowTest", "Stuck", "inline_ctx", "read_golden", "run_inline"]
