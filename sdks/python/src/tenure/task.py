"""Tasks and durable functions: a Python function with a kind, a queue and options.

A function with one parameter gets the input itself; with several, an object with a member for each. So every task can be
submitted from every language. Arguments and results are read and written by the hints of the function.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, Unpack, overload

from . import _calls, _json
from ._signature import Signature
from ._wire import Builds
from .errors import Setup
from .options import RunOptions, TaskOptions, to_wire

if TYPE_CHECKING:
    from .ctx import Ctx
    from .flow import Flow

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)


class Task(Generic[P, T_co]):
    """A function that can be submitted, called and scheduled. Made by `@task` and `@durable`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        kind: str,
        options: RunOptions,
        skipped: int = 0,
        is_durable: bool = False,
        is_isolated: bool = False,
        builds: Builds | None = None,
    ) -> None:
        #: The function as it was written.
        self.fn: Callable[..., Any] = fn
        #: Its name on the wire.
        self.kind: str = kind
        self.is_durable: bool = is_durable
        self.is_isolated: bool = is_isolated
        #: Which builds may continue its runs; None if they do not remember their build.
        self.builds: Builds | None = builds
        self.is_async: bool = inspect.iscoroutinefunction(fn)
        #: Whether the function takes `ctx` or `flow` first.
        self.is_bound: bool = skipped > 0
        self.signature: Signature = Signature(fn, skipped)
        self._options = options
        self._wire = to_wire(options)
        self.__name__ = kind
        self.__doc__ = fn.__doc__

    @property
    def queue(self) -> str:
        """Where its runs wait."""
        return typing.cast(str, self._wire["queue"])

    def input_schema(self) -> dict[str, Any]:
        """What it takes, as a JSON Schema made from its type hints."""
        return self.signature.input_schema()

    def output_schema(self) -> dict[str, Any]:
        """What it returns, as a JSON Schema made from its type hints."""
        return self.signature.output_schema()

    def options(self, **options: Unpack[RunOptions]) -> Task[P, T_co]:
        """The same task with other options. It works wherever the task does: in `submit`, `call`, `map`, schedules."""
        other: Task[P, T_co] = Task.__new__(Task)
        other.__dict__.update(self.__dict__)
        other._options = typing.cast(RunOptions, {**self._options, **options})
        other._wire = to_wire(other._options)
        return other

    def invoke(self, context: object, arguments: dict[str, Any]) -> Any:
        """Calls the function, with `ctx` or `flow` first if it takes one."""
        first = (context,) if self.is_bound else ()
        if not self.signature.positional:
            return self.fn(*first, **arguments)
        given = [arguments[name] for name in self.signature.positional if name in arguments]
        rest = {name: value for name, value in arguments.items() if name not in self.signature.positional}
        return self.fn(*first, *given, **rest)

    def submission(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The submission of a run with these arguments."""
        return {"kind": self.kind, **self._wire, "input": self.signature.input_of(args, kwargs)}

    def read_result(self, output: _json.Json) -> T_co:
        """Reads an output as what the function returns."""
        return typing.cast(T_co, self.signature.result(output))

    def __repr__(self) -> str:
        return f"<{'durable' if self.is_durable else 'task'} {self.kind} in {self.queue}>"


class Kind(Generic[I_contra, O_co]):
    """A task whose code is elsewhere: its name, its queue, and the types of its input and output."""

    def __init__(
        self, kind: str, *, input: type[I_contra], output: type[O_co], queue: str, **options: Unpack[TaskOptions]
    ) -> None:
        self.kind: str = kind
        self._input = input
        self._output = output
        self._options: dict[str, Any] = {**options, "queue": queue}
        self._wire = to_wire(self._options)

    @property
    def queue(self) -> str:
        """Where its runs wait."""
        return typing.cast(str, self._wire["queue"])

    def options(self, **options: Unpack[RunOptions]) -> Kind[I_contra, O_co]:
        """The same kind with other options."""
        other: Kind[I_contra, O_co] = Kind.__new__(Kind)
        other.__dict__.update(self.__dict__)
        other._options = {**self._options, **options}
        other._wire = to_wire(other._options)
        return other

    def submission(self, input: I_contra) -> dict[str, Any]:
        """The submission of a run with this input."""
        value = _calls.payload(input, f"the input of `{self.kind}`", "input", lambda: self._input)
        return {"kind": self.kind, **self._wire, "input": value}

    def read_result(self, output: _json.Json) -> O_co:
        """Reads an output."""
        return typing.cast(O_co, _json.read(self._output, output))

    def __repr__(self) -> str:
        return f"<kind {self.kind} in {self.queue}>"


@dataclass(slots=True)
class Submission:
    """A run to submit, in its form on the wire, and how to read its result."""

    wire: dict[str, Any]
    read_result: Callable[[_json.Json], Any]


def submission_of(task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Submission:
    """The submission that the arguments of `submit`, `call`, `NewRun` and schedules stand for."""
    if isinstance(task, (Task, Kind)):
        return Submission(task.submission(*args, **kwargs), task.read_result)
    if isinstance(task, Plan):
        return Submission(task.submission(), _as_it_is)
    if isinstance(task, str):
        return _named(task, args, kwargs)
    raise Setup(
        f"{task!r} is no task", next_step="decorate the function with @task or @durable, or pass the name of a kind"
    )


def _named(kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Submission:
    if len(args) > 1:
        raise Setup(f"`{kind}` by name takes one input", next_step="pass a dict with the members")
    if not kwargs.get("queue"):
        raise Setup(f"`{kind}` by name needs a queue", next_step="pass queue=…", field="queue")
    value = _calls.payload(args[0] if args else None, f"the input of `{kind}`", "input")
    return Submission({"kind": kind, **to_wire(kwargs), "input": value}, _as_it_is)


def _as_it_is(value: _json.Json) -> Any:
    return value


class NewRun(Generic[T_co]):
    """One run of `submit_many`."""

    @overload
    def __init__(self: NewRun[T], task: Task[P, T], *args: P.args, **kwargs: P.kwargs) -> None: ...
    @overload
    def __init__(self: NewRun[T], task: Kind[I, T], input: I, /) -> None: ...
    @overload
    def __init__(
        self: NewRun[Any], task: str, input: object = ..., /, *, queue: str, **options: Unpack[TaskOptions]
    ) -> None: ...
    def __init__(self, task: Any, *args: Any, **kwargs: Any) -> None:
        self.submission: Submission = submission_of(task, args, kwargs)


@dataclass(frozen=True)
class PlanStep:
    """One step of a plan."""

    key: str
    task: Task[..., Any] | Kind[Any, Any] | None = None
    """Who works on it; none for a step that asks people."""
    input: object = None
    depends_on: Sequence[str] | None = None
    always: bool = False
    gate: bool = False
    on_error: Literal["abort", "continue", "retry"] | None = None
    ceiling: Mapping[Literal["tokens", "cost_micros", "steps", "tool_calls"], int] = field(default_factory=dict)
    when: Mapping[str, object] | None = None
    """The step runs only if this holds: `{"path": "check.output.total", "op": "at-least", "value": 1000}`."""
    approval: Mapping[str, object] | None = None
    """What people are asked instead of a task: `{"subject": "Pay?", "content": {"$from": "check"}, "quorum": 2}`."""

    def to_json(self) -> dict[str, Any]:
        """The form on the wire. A reference such as `{"$from": "draft"}` may stand in the input."""
        json = {"key": self.key, **self._work()}
        if self.when is not None:
            json["when"] = _calls.payload(self.when, f"the condition of step `{self.key}`", "when")
        if self.depends_on is not None:
            json["dependsOn"] = list(self.depends_on)
        if self.always:
            json["always"] = True
        if self.gate:
            json["gate"] = True
        if self.on_error is not None:
            json["onError"] = self.on_error
        if self.ceiling:
            units = {"cost_micros": "costMicros", "tool_calls": "toolCalls"}
            json["ceiling"] = {units.get(unit, unit): limit for unit, limit in self.ceiling.items()}
        return json

    def _work(self) -> dict[str, Any]:
        if self.approval is not None:
            return {"approval": _calls.payload(self.approval, f"the approval of step `{self.key}`", "approval")}
        if self.task is None:
            raise Setup(f"step `{self.key}` has neither a task nor an approval", next_step="give it one of them")
        allowed = {"cancelGraceMs", "deadlineMs", "heartbeatIntervalMs", "leaseMs", "lostMax", "maxAttempts", "retry"}
        wire = {name: value for name, value in self.task._wire.items() if name in allowed or name == "queue"}
        value = _calls.payload(self.input, f"the input of step `{self.key}`", "input")
        return {"kind": self.task.kind, **wire, "input": value}


class Plan:
    """What a run does, step by step, without code of its own."""

    def __init__(self, steps: Sequence[PlanStep], **options: Unpack[TaskOptions]) -> None:
        self.steps: list[PlanStep] = list(steps)
        self._options: dict[str, Any] = {**options}

    def submission(self) -> dict[str, Any]:
        """The submission of a run of this plan."""
        return {**to_wire(self._options), "plan": {"steps": [step.to_json() for step in self.steps]}}


class TaskDecorator(Protocol):
    """What `@task(...)` does to a function."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, T]], /) -> Task[P, T]: ...
    @overload
    def __call__(self, fn: Callable[P, T], /) -> Task[P, T]: ...


class BoundTaskDecorator(Protocol):
    """What `@task(bind=True, ...)` does to a function that takes `ctx` first."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Ctx, P], Coroutine[Any, Any, T]], /) -> Task[P, T]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Ctx, P], T], /) -> Task[P, T]: ...


class DurableDecorator(Protocol):
    """What `@durable(...)` does to a function that takes `flow` first."""

    def __call__(self, fn: Callable[Concatenate[Flow, P], Coroutine[Any, Any, T]], /) -> Task[P, T]: ...


@overload
def task(
    *,
    queue: str = ...,
    kind: str | None = ...,
    bind: Literal[False] = ...,
    isolate: bool = ...,
    **options: Unpack[TaskOptions],
) -> TaskDecorator: ...
@overload
def task(
    *,
    queue: str = ...,
    kind: str | None = ...,
    bind: Literal[True],
    isolate: bool = ...,
    **options: Unpack[TaskOptions],
) -> BoundTaskDecorator: ...
def task(
    *,
    queue: str = "default",
    kind: str | None = None,
    bind: bool = False,
    isolate: bool = False,
    **options: Unpack[TaskOptions],
) -> Any:
    """Makes a task of a function.

    A `def` runs in a pool of threads, an `async def` on the worker's loop, and with `isolate` either one in a process of
    its own. `bind` passes `ctx` first. The kind is the name of the function.

    >>> @task(queue="mail")
    ... def greet(name: str) -> str:
    ...     return f"Hello, {name}!"
    >>> greet.kind
    'greet'
    """

    def decorate(fn: Callable[..., Any]) -> Task[..., Any]:
        return _made(fn, kind, queue, options, skipped=int(bind), is_isolated=isolate)

    return decorate


def durable(
    *, queue: str = "default", kind: str | None = None, builds: Builds | None = None, **options: Unpack[TaskOptions]
) -> DurableDecorator:
    """Makes a durable function of an `async def` that takes `flow` first.

    With `builds="pin"`, a run that has recorded something is continued only by workers of the build that recorded it, which
    `TENURE_BUILD_ID` names; with `builds="any"`, by every worker, and the run remembers the last build.

    >>> @durable(queue="orders")
    ... async def order(flow: Flow, cents: int) -> int:
    ...     return await flow.step("charge", abs, cents)
    >>> order.is_durable
    True
    """

    def decorate(fn: Callable[..., Any]) -> Task[..., Any]:
        if not inspect.iscoroutinefunction(fn):
            raise Setup(f"`{fn.__qualname__}` is no `async def`", next_step="durable functions await their steps")
        return _made(fn, kind, queue, options, skipped=1, is_durable=True, builds=builds)

    return typing.cast(DurableDecorator, decorate)


def _made(
    fn: Callable[..., Any],
    kind: str | None,
    queue: str,
    options: TaskOptions,
    *,
    skipped: int,
    is_durable: bool = False,
    is_isolated: bool = False,
    builds: Builds | None = None,
) -> Task[..., Any]:
    if not callable(fn) or not hasattr(fn, "__name__"):
        raise Setup(f"{fn!r} is no function", next_step="write @task() with parentheses above a function")
    every = typing.cast(RunOptions, {**options, "queue": queue})
    name = kind or fn.__name__
    return Task(
        fn,
        kind=name,
        options=every,
        skipped=skipped,
        is_durable=is_durable,
        is_isolated=is_isolated,
        builds=builds,
    )
