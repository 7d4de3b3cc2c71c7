"""Steps: work with effects, executed at least once and recorded once. An effect is a step that sends something.

A failed try is recorded under its own key, and the pause before the next try is a durable timer, so a worker that dies in
between neither repeats a counted try nor shortens a pause.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from . import _json
from ._commands import NEVER
from ._engine import Core
from ._history import Checkpoint
from ._op import Awaiting, Failed, Limited, Op, Runs, timer_item
from ._signature import result_hint
from ._span import Span, milliseconds
from .errors import Setup
from .failure import Failure, StepFailed, from_json
from .options import Left, Retry, Spend, spend_of

T_co = TypeVar("T_co", covariant=True)

#: Enough to reach any cap.
_DOUBLINGS_MAX = 30


class Step:
    """What the work of a step is given with `bind=True`, and what `tenure.current()` finds inside it."""

    def __init__(self, core: Core, key: str, number: int) -> None:
        #: The same in every try and every attempt, and when a run that continues another repeats the step: pass it to
        #: services that recognise repeated requests.
        self.idempotency_key: str = f"{core.origin}/{key}"
        #: Larger in every attempt: a store that remembers the largest one can refuse a late worker.
        self.fence: int = core.fence
        #: Numbers the tries of this step, from 1.
        self.number: int = number
        #: What was left of the run's budget when this try started; None without a budget.
        self.left: Left | None = core.left
        self._spent: Spend | None = None
        self._effects: list[dict[str, Any]] = []

    def spend(self, *, tokens: int = 0, cost_micros: int = 0, tool_calls: int = 0) -> None:
        """Adds to what this try used of the run's budget."""
        self._spent = (self._spent or Spend()).plus(spend_of(tokens, cost_micros, tool_calls))

    def effect(self, effect: Effect) -> None:
        """Asks for an effect, which is recorded with the step if this try succeeds."""
        self._effects.append(effect.to_json())


def step_hint(fn: Callable[..., Any]) -> Any:
    """What the work of a step returns, as far as its hints say it."""
    try:
        return result_hint(fn)
    except (Setup, TypeError):  # its result is read without them too
        return Any


_readers: weakref.WeakKeyDictionary[Any, _json.Reader] = weakref.WeakKeyDictionary()


def _result_reader(fn: Callable[..., Any]) -> _json.Reader | None:
    """How the result of a function is read; None without a hint."""
    if not getattr(fn, "__annotations__", None):
        return None
    try:
        known = _readers.get(fn)
        if known is None:
            known = _readers[fn] = _json.reader(result_hint(fn))
        return known
    except TypeError:  # no weak reference to it, or a hint that says nothing about JSON
        return None


class StepOp(Op[T_co]):
    """Work with effects, executed at least once and recorded once."""

    def __init__(
        self,
        core: Core,
        branch: str,
        name: str,
        work: tuple[Callable[..., Any], tuple[Any, ...], bool],
        retry: Retry,
        timeout_ms: int | None,
        digest: str | None,
        aborts: bool,
    ) -> None:
        super().__init__(core, branch, name, name)
        self._work = work
        self._retry = retry
        self._timeout_ms = timeout_ms
        self._digest = digest
        self._aborts = aborts

    def _run(self, branch: str) -> Runs:
        result, _ = yield from self.keyed(branch)
        return result

    def keyed(self, branch: str) -> Runs:
        """The result, and the key that it is recorded under."""
        core = self._core
        self._check_name()
        core.begin(branch, self._label, self._at)
        key, _ = core.enter(branch, self._label, self._name, self._digest, self._at)
        checkpoint = core.take(branch, key)
        if checkpoint is None:
            checkpoint = yield from self._tries(branch, key)
        core.forget_parts(key)
        result = self._value(branch, checkpoint)
        if type(result) is Failed and self._aborts:
            core.end(result.failure)
            while True:
                yield NEVER
        core.finish(branch)
        if type(result) is Failed:
            raise result.failure
        return result, key

    def _tries(self, branch: str, key: str) -> Runs:
        """Tries until there is a result to record."""
        core, number = self._core, 1
        while True:
            part = f"{key}.{number}"
            recorded = core.take(branch, part)
            if recorded is not None and recorded.error is not None:
                result, failure, spend, effects = None, from_json(StepFailed, recorded.error), None, []
            else:
                recorded = None
                ended = core.until_worked(branch, key, number, self._timeout_ms, self._work)
                result, failure, spend, effects = yield from ended
            if failure is None or number >= self._retry.tries or not failure.is_retryable:
                return self._keep(branch, key, result, failure, spend, effects)
            if recorded is None:
                self._keep(branch, part, None, failure, spend, [])
            yield from self._pause(branch, key, number)
            number += 1

    def _keep(
        self, branch: str, key: str, result: Any, failure: Failure | None, spend: Spend | None, effects: list[Any]
    ) -> Checkpoint:
        step: dict[str, Any] = {"key": key, "outcome": "FAILED" if failure else "SUCCEEDED"}
        if failure is None:
            step["result"] = result
            if effects:  # what a failed try asked for does not happen
                step["effects"] = effects
        else:
            step["error"] = failure.to_json()
        if self._digest is not None:
            step["inputDigest"] = self._digest
        if spend is not None:
            step["spend"] = spend.to_json()
        return self._core.keep(branch, step)

    def _pause(self, branch: str, key: str, number: int) -> Runs:
        """Waits before the next try, with a durable timer that begins when the failure is recorded."""
        core, timer = self._core, f"{key}.{number}.wait"
        if not core.has(timer):
            now = yield from core.until_recorded(branch, key)
            pause = pause_ms(self._retry, number, core.jitter(branch, key, number))
            yield from core.until_arrived(branch, key, "all", [timer_item(timer, now, pause)])
        core.take(branch, timer)

    def _value(self, branch: str, checkpoint: Checkpoint) -> Any:
        if checkpoint.outcome != "SUCCEEDED":
            return Failed(from_json(StepFailed, checkpoint.error or {"message": "recorded without an error"}))
        value = self._core.opened(checkpoint.result)
        reader = _result_reader(self._work[0])
        if reader is None:
            return value
        try:
            return reader(value, "")
        except _json.Unreadable as problem:
            raise self._core.unreadable(branch, checkpoint.key, self._digest, str(problem), self._at) from None


def pause_ms(retry: Retry, number: int, draw: int) -> int:
    """The pause after the `number`-th failed try."""
    base, cap = milliseconds(retry.base, "retry.base"), milliseconds(retry.cap, "retry.cap")
    return int(min(base << min(number - 1, _DOUBLINGS_MAX), cap) + draw % (base // 2 + 1))


class Effect:
    """A call to the outside, by the name of an endpoint and never by its URL."""

    def __init__(
        self, endpoint: str, type: str, body: object = None, *, aggregate: str | None = None, key: str | None = None
    ) -> None:
        self.endpoint: str = endpoint
        #: What happened, in a word.
        self.type: str = type
        try:
            self.body: Any = _json.payload(body)
        except _json.Unwritable as problem:
            told = problem.of(f"the body of effect `{type}`")
            raise Failure(told, reason="EFFECT_UNWRITABLE", retryable=False) from None
        #: Effects with the same aggregate arrive in the order in which they were recorded.
        self.aggregate: str | None = aggregate
        #: Its name among the effects of its step.
        self.key: str = key or type

    def to_json(self) -> dict[str, Any]:
        """The form in which it is recorded."""
        json = {"key": self.key, "endpoint": self.endpoint, "type": self.type, "body": self.body}
        return json if self.aggregate is None else {**json, "aggregate": self.aggregate}


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of an effect. It is false in `if` unless it was delivered."""

    outcome: Literal["DELIVERED", "FAILED", "UNKNOWN"]
    #: What the receiver sees as `webhook-id`.
    effect_id: str
    at: datetime
    #: Why it was given up.
    reason: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver has it."""
        return self.outcome == "DELIVERED"

    def __bool__(self) -> bool:
        return self.delivered


def nothing() -> None:
    """The work of an effect is its record."""


class EffectOp(StepOp[None]):
    """An effect that is asked for when it is awaited."""

    def __init__(self, core: Core, branch: str, name: str, effect: Effect) -> None:
        digest = core.digest(effect.to_json())
        super().__init__(core, branch, name, (nothing, (), False), Retry(1), None, digest, False)
        self._effect = effect

    def delivered(self) -> DeliveryOp:
        """Waits without a worker until the effect is delivered or given up, or its outcome is unknown."""
        self._core.begun(self)
        return DeliveryOp(self._core, self._branch, self)

    def _tries(self, branch: str, key: str) -> Runs:
        """There is nothing to execute: the effect is recorded with an empty result, as soon as its branch is."""
        ended = self._core.until_worked(branch, key, 1, None, self._work)
        result, failure, _, _ = yield from ended
        return self._keep(branch, key, result, failure, None, [self._effect.to_json()])


class DeliveryOp(Limited[Delivery]):
    """What becomes of an effect."""

    def __init__(self, core: Core, branch: str, effect: EffectOp) -> None:
        super().__init__(core, branch, f"delivery:{effect._name}", effect._name)
        self._effect = effect
        self._step = ""

    def within(
        self, span: Span | None = None, /, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> Op[Delivery | None]:
        """Waits no longer than this; None if the effect is still on its way then. It is delivered all the same."""
        self._set_within(span, seconds, minutes, hours, days)
        return self

    def _before(self, branch: str) -> Runs:
        _, self._step = yield from self._effect.keyed(branch)

    def _enter(self, branch: str, enter: Callable[..., tuple[str, bool]]) -> Awaiting:
        key, _ = enter(branch, self._label, self._name, None, self._at)
        effect = {"step": self._step, "key": self._effect._effect.key}
        return self._limited(key, "any", {"key": key, "effect": effect})

    def _read(self, first: Checkpoint, key: str) -> Delivery | None:
        if first.key != key:
            if self._within is None:
                raise self._late("the effect was not delivered in time")
            return None
        told = first.result
        try:
            at = datetime.fromtimestamp(told["atMs"] / 1000, UTC)
            return Delivery(told["outcome"], told["effectId"], at, told.get("reason"))
        except (KeyError, TypeError) as problem:
            text = f"what became of the effect of `{self._name}` cannot be read: {problem!r}"
            raise Failure(text, category="DATA_QUALITY") from None
