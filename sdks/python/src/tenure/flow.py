"""The context of a durable function: everything that it may wait for, read or draw.

What `flow` gives is a function of the record: the code sees the same results, times and numbers in every attempt. Operations
are lazy: `flow.step(…)` is a value, and awaiting it, or giving it to `all` or `any`, begins it.

This module has the names that users see; `_steps`, `_waits` and `_joins` have what they do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, MutableMapping
from datetime import datetime
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID

from . import _json, _stop
from ._engine import Core, first_number
from ._history import is_name, joined
from ._joins import All, Any_, Branch, Call, Map
from ._log import level_word, text_of
from ._op import Op, caller
from ._span import Span, milliseconds, seconds_of
from ._steps import Delivery, DeliveryOp, Effect, EffectOp, Step, StepOp
from ._waits import Approval, ApprovalOp, Now, Savepoint, Signal, Sleep
from .failure import Failure
from .options import Retry, TaskOptions
from .task import Kind, Task, submission_of

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
Ts = TypeVarTuple("Ts")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

OnError = Literal["continue", "abort"]

_UNSET: Any = object()

_CONTENT_BYTES_MAX = 64 * 1024
"""What people are shown of a question: more than a person reads."""
_LOGGER = logging.getLogger("tenure")


class Flow:
    """The context of a durable function, or of one of its branches."""

    def __init__(self, core: Core, branch: str = "", extra: dict[str, Any] | None = None) -> None:
        self._core = core
        self._branch = branch
        self._extra = extra or {}

    def __repr__(self) -> str:
        return f"<flow of {self._core.task_id}{f', branch {self._branch}' if self._branch else ''}>"

    def _inner(self, branch: str) -> Flow:
        return Flow(self._core, branch, self._extra)

    @overload
    def step(
        self,
        name: str,
        fn: Callable[[Step, *Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        bind: Literal[True],
        retry: Retry | int | None = ...,
        timeout: Span | None = ...,
        input: object = ...,
        on_error: OnError = ...,
    ) -> Op[T]: ...
    @overload
    def step(
        self,
        name: str,
        fn: Callable[[Step, *Ts], T],
        *args: *Ts,
        bind: Literal[True],
        retry: Retry | int | None = ...,
        timeout: Span | None = ...,
        input: object = ...,
        on_error: OnError = ...,
    ) -> Op[T]: ...
    @overload
    def step(
        self,
        name: str,
        fn: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        bind: Literal[False] = ...,
        retry: Retry | int | None = ...,
        timeout: Span | None = ...,
        input: object = ...,
        on_error: OnError = ...,
    ) -> Op[T]: ...
    @overload
    def step(
        self,
        name: str,
        fn: Callable[[*Ts], T],
        *args: *Ts,
        bind: Literal[False] = ...,
        retry: Retry | int | None = ...,
        timeout: Span | None = ...,
        input: object = ...,
        on_error: OnError = ...,
    ) -> Op[T]: ...
    def step(
        self,
        name: str,
        fn: Callable[..., Any],
        *args: *Ts,
        bind: bool = False,
        retry: Retry | int | None = None,
        timeout: Span | None = None,
        input: object = _UNSET,
        on_error: OnError = "continue",
    ) -> Op[Any]:
        """Executes `fn(*args)` at least once and records its result once: every later attempt gets the recorded result.

        `fn` may be a `def`, which runs in the worker's pool of threads, or an `async def`. With `bind` it gets a `Step`
        first. `retry` is how often it is tried, `timeout` how long one try may take, and `input` what the step depends
        on: a replay with another input stops. A failure raises `StepFailed`; with `on_error="abort"` it ends the run.
        """
        tries = Retry(retry) if isinstance(retry, int) else retry
        limit = None if timeout is None else milliseconds(timeout, "timeout")
        has_input = input is not _UNSET
        digest = self._digest(input, f"`input` of step `{name}`") if has_input else None
        work = (fn, args, bind)
        return StepOp(self._core, self._branch, name, work, tries or Retry(1), limit, digest, on_error == "abort")

    @overload
    def sleep(
        self,
        name: str | None = ...,
        /,
        *,
        seconds: float = ...,
        minutes: float = ...,
        hours: float = ...,
        days: float = ...,
    ) -> Op[None]: ...
    @overload
    def sleep(self, span: Span, /) -> Op[None]: ...
    def sleep(
        self,
        name: str | Span | None = None,
        /,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> Op[None]:
        """Waits without a worker until the time is over."""
        if name is not None and not isinstance(name, str):
            return Sleep(self._core, self._branch, None, milliseconds(name, "sleep"))
        span = seconds_of(seconds, minutes, hours, days)
        return Sleep(self._core, self._branch, name, milliseconds(span, "sleep"))

    @overload
    def signal(self, name: str) -> Signal[Any]: ...
    @overload
    def signal(self, name: str, payload: type[T]) -> Signal[T]: ...
    def signal(self, name: str, payload: Any = Any) -> Signal[Any]:
        """Waits for a signal of this name, and takes the oldest one that was not taken."""
        return Signal(self._core, self._branch, name, payload)

    @overload
    def call(self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Call[T]: ...
    @overload
    def call(self, task: Kind[I, T], input: I, /) -> Call[T]: ...
    @overload
    def call(self, task: str, input: object = ..., /, *, queue: str, **options: Unpack[TaskOptions]) -> Call[Any]: ...
    def call(self, task: Any, /, *args: Any, **kwargs: Any) -> Call[Any]:
        """Starts a run and waits for its end without a worker. A failure raises `CallFailed`."""
        submission = submission_of(task, args, kwargs)
        return Call(self._core, self._branch, submission)

    @overload
    def map(
        self,
        task: Task[[A], T] | Kind[A, T],
        items: Iterable[A],
        *,
        max: int | None = ...,
        return_exceptions: Literal[False] = ...,
    ) -> Op[list[T]]: ...
    @overload
    def map(
        self,
        task: Task[[A], T] | Kind[A, T],
        items: Iterable[A],
        *,
        max: int | None = ...,
        return_exceptions: Literal[True],
    ) -> Op[list[T | Exception]]: ...
    def map(
        self,
        task: Task[[A], T] | Kind[A, T],
        items: Iterable[A],
        *,
        max: int | None = None,
        return_exceptions: bool = False,
    ) -> Op[Any]:
        """Calls a task for each item, at most `max` at once. The results come in the order of the items.

        It waits for all, then raises the first failure, unless `return_exceptions` puts failures into the list.
        """
        submissions = [submission_of(task, (item,), {}) for item in items]
        return Map(self._core, self._branch, submissions, max, return_exceptions)

    @overload
    def all(self, a: Op[A], /) -> Op[tuple[A]]: ...
    @overload
    def all(self, a: Op[A], b: Op[B], /) -> Op[tuple[A, B]]: ...
    @overload
    def all(self, a: Op[A], b: Op[B], c: Op[C], /) -> Op[tuple[A, B, C]]: ...
    @overload
    def all(self, a: Op[A], b: Op[B], c: Op[C], d: Op[D], /) -> Op[tuple[A, B, C, D]]: ...
    @overload
    def all(self, a: Op[A], b: Op[B], c: Op[C], d: Op[D], e: Op[E], /) -> Op[tuple[A, B, C, D, E]]: ...
    @overload
    def all(self, a: Op[A], b: Op[B], c: Op[C], d: Op[D], e: Op[E], f: Op[F], /) -> Op[tuple[A, B, C, D, E, F]]: ...
    @overload
    def all(self, *ops: Op[T], return_exceptions: Literal[False] = ...) -> Op[tuple[T, ...]]: ...
    @overload
    def all(self, *ops: Op[T], return_exceptions: Literal[True]) -> Op[tuple[T | Exception, ...]]: ...
    def all(self, *ops: Op[Any], return_exceptions: bool = False) -> Op[Any]:
        """Does several operations at once and waits for all of them.

        It then raises the first failure by place, unless `return_exceptions` puts failures into the result.
        """
        return All(self._core, self._branch, ops, return_exceptions)

    def any(self, **members: Op[T]) -> Op[tuple[str, T]]:
        """Waits for the first of several signals, sleeps, calls, approvals and deliveries: its name and its value.

        The first is the one that the coordinator committed first. A call that lost is cancelled when the run ends.
        """
        return Any_(self._core, self._branch, members)

    def branch(
        self, name: str, fn: Callable[Concatenate[Flow, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Op[T]:
        """Code with an order of its own, for `all`: `async def fn(flow, …)`. It uses the `flow` that it is given."""
        path = joined(self._branch, name)
        return Branch(self._core, self._branch, name, lambda branch: fn(self._inner(branch or path), *args, **kwargs))

    def approval(
        self,
        name: str,
        *,
        subject: str | None = None,
        quorum: int = 1,
        roles: Iterable[str] = (),
        keys: Iterable[str] = (),
        within: Span | None = None,
        default: Literal["APPROVED", "REJECTED"] | None = None,
        about: object = _UNSET,
        content: object = _UNSET,
    ) -> ApprovalOp:
        """Asks people, and waits without a worker until they have decided. A rejection is a value, like an approval.

        People decide about the digest of `about`, and a replay that asks about another value stops. `content` is the
        same and shown to them, up to 64 KiB, except under a codec, which hides it from the coordinator. After `within`,
        `default` counts, or the question expires.
        """
        terms: dict[str, Any] = {"roles": [*roles], "keys": [*keys], "subject": subject, "default": default}
        if quorum != 1:
            terms["quorum"] = quorum
        value = about if about is not _UNSET else content
        digest = None if value is _UNSET else self._digest(value, f"what approval `{name}` is about")
        span = None if within is None else milliseconds(within, "within")
        shown = {member: each for member, each in terms.items() if each}
        if content is not _UNSET and about is _UNSET and self._core.codec is None:
            encoded = _json.encode_loosely(content)
            if len(_json.canonical(encoded)) <= _CONTENT_BYTES_MAX:
                shown["content"] = encoded
        return ApprovalOp(self._core, self._branch, name, shown, span, digest)

    def effect(self, name: str, effect: Effect) -> EffectOp:
        """Sends something to a registered endpoint, once: it is recorded as a step of this name, and the coordinator
        delivers it afterwards, in order. `delivered()` waits for that."""
        return EffectOp(self._core, self._branch, name, effect)

    def now(self) -> Op[datetime]:
        """The coordinator's time of the last checkpoint of this branch, which is the same in every attempt."""
        return Now(self._core, self._branch)

    def random(self, label: str) -> float:
        """A number in [0, 1) that is the same in every attempt. Each label has its own sequence."""
        return (first_number(self.random_bytes(label)) >> 11) / (1 << 53)

    def random_u64(self, label: str) -> int:
        """A number below 2^64, drawn like `random`."""
        return first_number(self.random_bytes(label))

    def random_bytes(self, label: str) -> bytes:
        """32 bytes, drawn like `random`."""
        self._check_name(label)
        return self._core.draw(self._branch, label)

    def uuid(self, label: str) -> UUID:
        """A UUID of version 4, drawn like `random`."""
        return UUID(bytes=self.random_bytes(label)[:16], version=4)

    def patched(self, id: str) -> bool:
        """Whether the code may take the new path of the change `id`: always, unless this run was recorded by code without
        the change and has yet to be replayed past this place. The first answer in a branch is kept."""
        self._check_name(id)
        try:
            return self._core.is_patched(self._branch, id, caller())
        except _stop.Stop as stop:
            self._core.end(stop)
            raise

    @overload
    def resumed(self) -> Any: ...
    @overload
    def resumed(self, state: type[T]) -> T | None: ...
    def resumed(self, state: Any = Any) -> Any:
        """What the last savepoint of this run recorded; None if there was none."""
        if not self._core.has_resumed:
            return None
        try:
            return _json.read(state, self._core.opened(self._core.resumed))
        except _json.Unreadable as problem:
            stop = self._core.unreadable_savepoint(str(problem), caller())
            self._core.end(stop)
            raise stop from None

    def savepoint(self, state: object) -> Op[NoReturn]:
        """Records `state` as the new start of replay, and starts the function over: it finds the state in `resumed`.

        What came before is never replayed again. A savepoint belongs to the function itself, when its branches have
        ended.
        """
        return Savepoint(self._core, self._branch, state)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that is silent while recorded operations are replayed."""
        return _FlowLog(self)

    def _digest(self, value: object, what: str) -> str:
        try:
            return self._core.digest(_json.encode_loosely(value))
        except _json.Unwritable as problem:
            raise Failure(problem.of(what), reason="INPUT_UNWRITABLE", retryable=False) from None

    def _check_name(self, name: str) -> None:
        if not is_name(name):
            stop = _stop.bad_name(name, caller())
            self._core.end(stop)
            raise stop


class _FlowLog(logging.LoggerAdapter[logging.Logger]):
    """Logs with the run, unless this was logged before."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(_LOGGER, flow._extra)
        self._flow = flow

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        core, lines = self._flow._core, self._flow._core.lines
        if lines is not None and level >= logging.INFO and not core.is_replaying(self._flow._branch):
            lines(level_word(level), text_of(msg, args, kwargs.get("exc_info")))
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this method is not where it was logged
        super().log(level, msg, *args, **kwargs)

    def isEnabledFor(self, level: int) -> bool:
        is_replay = self._flow._core.is_replaying(self._flow._branch)
        return not is_replay and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**self._flow._extra, **(kwargs.get("extra") or {})}
        return msg, kwargs


__all__ = [
    "Approval",
    "ApprovalOp",
    "Call",
    "Delivery",
    "DeliveryOp",
    "Effect",
    "EffectOp",
    "Flow",
    "Op",
    "Signal",
    "Step",
]
