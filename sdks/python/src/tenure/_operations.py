"""What the operations of `flow` do: each is a generator that yields what it waits for to the engine.

An operation takes its key, compares it with the record, and then either reads what was recorded or wants something new.
Invariant: an operation that cannot go on sets the ending of the attempt and never returns.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Literal, Never, TypeAlias, TypeVar

from . import _json, _stop
from ._codec import sealed_submission
from ._engine import NEVER, Code, Core, Until
from ._history import TIMEOUT, Checkpoint, is_name, joined
from ._span import Span, milliseconds, seconds_of
from ._stop import Stop
from .failure import CallFailed, Failure, StepFailed, from_json
from .options import Left, Retry, Spend
from .task import Submission, result_hint

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Runs: TypeAlias = Generator[Until, None, Any]

#: The coordinator's limit of live children per task.
CHILDREN_MAX = 10_000
#: Enough to reach any cap.
_DOUBLINGS_MAX = 30
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def caller() -> str:
    """The line of user code that made an operation."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


class Op(Generic[T_co]):
    """Something that a durable function does, once it is awaited."""

    def __init__(self, core: Core, branch: str, label: str, name: str) -> None:
        self._core = core
        self._branch = branch
        self._label = label
        self._name = name
        self._at = caller()
        core.made(self)

    def told(self) -> str:
        """For messages: what it is, and where it was made."""
        return f"`{self._label}` ({self._at})"

    def __await__(self) -> Generator[Any, Any, T_co]:
        core = self._core
        if not core.is_inside:
            stop = _stop.foreign_await(self.told(), [])
            core.end(stop)
            raise RuntimeError(f"{self.told()} is awaited outside of its durable function, in a task or a step")
        try:
            core.begun(self)
            result: T_co = yield from self._run(self._branch)
        except Stop as stop:
            core.end(stop)
            while True:
                yield NEVER
        return result

    def _run(self, branch: str) -> Runs:
        raise NotImplementedError

    def _check_name(self) -> None:
        if not is_name(self._name):
            raise _stop.bad_name(self._name, self._at)


@dataclass(slots=True)
class Awaiting:
    """What a waiting operation waits for, after it took its key."""

    key: str
    mode: Literal["all", "any"]
    #: What satisfies it.
    keys: tuple[str, ...]
    #: The items of the wait, with the time from which spans count.
    items: Callable[[int], list[dict[str, Any]]]
    #: Whether a span counts from the branch's recorded time.
    needs_time: bool


class WaitingOp(Op[T_co]):
    """An operation that waits without a worker. It may be a member of `any`."""

    def _run(self, branch: str) -> Runs:
        core = self._core
        self._check_name()
        yield from self._before(branch)
        core.begin(branch, self._label, self._at)
        waiting = self._enter(branch, core.enter)
        if not any(core.has(key) for key in waiting.keys):
            now = 0
            if waiting.needs_time:
                now = yield from core.until_recorded(branch, waiting.key)
            yield from core.until_arrived(branch, waiting.key, waiting.mode, waiting.items(now))
        first = core.take_first(branch, waiting.keys)
        assert first is not None, "one of them has arrived"
        core.forget_parts(waiting.key)
        core.finish(branch)
        return self._read(first, waiting.key)

    def _before(self, branch: str) -> Runs:
        """What must be recorded first."""
        yield from ()

    def _enter(self, branch: str, enter: Callable[..., tuple[str, bool]]) -> Awaiting:
        raise NotImplementedError

    def _read(self, first: Checkpoint, key: str) -> Any:
        raise NotImplementedError


def _timer(key: str, now: int, span_ms: int) -> dict[str, Any]:
    return {"key": key, "until": write_ms(now + span_ms)}


def write_ms(ms: int) -> str:
    """Milliseconds since 1970 as an instant of the wire."""
    return _json.write_time(datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000))


class Sleep(WaitingOp[None]):
    """A sleep, with or without a name."""

    def __init__(self, core: Core, branch: str, name: str | None, span_ms: int) -> None:
        super().__init__(core, branch, "sleep" if name is None else f"sleep:{name}", name or "unnamed")
        self._span_ms = span_ms

    def _enter(self, branch: str, enter: Callable[..., tuple[str, bool]]) -> Awaiting:
        key, _ = enter(branch, self._label, self._name, None, self._at)
        return Awaiting(key, "all", (key,), lambda now: [_timer(key, now, self._span_ms)], True)

    def _read(self, first: Checkpoint, key: str) -> None:
        return None


class Limited(WaitingOp[T_co]):
    """A waiting operation that may have a limit: after it the result is None."""

    _within: int | None = None

    def _limited(self, key: str, mode: Literal["all", "any"], item: dict[str, Any]) -> Awaiting:
        timer, span = f"{key}.{TIMEOUT}", self._within
        if span is None:
            return Awaiting(key, mode, (key, timer), lambda now: [item], False)
        return Awaiting(key, "any", (key, timer), lambda now: [item, _timer(timer, now, span)], True)

    def _late(self, message: str) -> Failure:
        """Recorded code may have had a limit. Then nothing is what was recorded."""
        return Failure(message, category="TIMEOUT")

    def _set_within(self, span: Span | None, seconds: float, minutes: float, hours: float, days: float) -> None:
        extra = 0 if span is None else milliseconds(span, "within")
        self._within = extra + milliseconds(seconds_of(seconds, minutes, hours, days), "within")


class Signal(Limited[T_co]):
    """A signal that is awaited."""

    def __init__(self, core: Core, branch: str, name: str, payload: Any) -> None:
        super().__init__(core, branch, f"signal:{name}", name)
        self._payload = payload

    def within(
        self, span: Span | None = None, /, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> Op[T_co | None]:
        """Waits no longer than this; None when no signal has come by then."""
        self._set_within(span, seconds, minutes, hours, days)
        return self

    def _enter(self, branch: str, enter: Callable[..., tuple[str, bool]]) -> Awaiting:
        key, _ = enter(branch, self._label, self._name, None, self._at)
        return self._limited(key, "any", {"key": key, "signal": self._name})

    def _read(self, first: Checkpoint, key: str) -> Any:
        if first.key != key:
            if self._within is None:
                raise self._late("no signal came in time")
            return None
        try:
            return _json.read(self._payload, self._core.opened(first.result))
        except _json.Unreadable as problem:
            text = f"the payload of signal `{self._name}` cannot be read {problem}"
            raise Failure(text, category="DATA_QUALITY") from None


class Call(Limited[T_co]):
    """A run that is started and awaited."""

    def __init__(self, core: Core, branch: str, submission: Submission) -> None:
        kind = submission.wire.get("kind", "plan")
        name = kind.replace("/", "-").replace(":", "-")
        super().__init__(core, branch, f"child:{name}", name)
        self._submission = submission
        run = sealed_submission(core.codec, submission.wire)
        run.pop("idempotencyKey", None)  # a child is one because of its key in its parent
        self._child = run
        identity = [kind, run.get("queue", ""), core.digest(submission.wire.get("input"))]
        self._digest = _json.digest(identity)

    def named(self, name: str) -> Call[T_co]:
        """Gives the call a name of its own; it is the kind otherwise."""
        self._name, self._label = name, f"child:{name}"
        return self

    def within(
        self, span: Span | None = None, /, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> Op[T_co | None]:
        """Waits no longer than this; None if the run has not ended by then. It is cancelled when this one ends."""
        self._set_within(span, seconds, minutes, hours, days)
        return self

    def detach(self) -> Op[None]:
        """Starts a run that outlives this one, and does not wait for it."""
        self._core.begun(self)
        return Detached(self._core, self._branch, self)

    def start(self, branch: str, enter: Callable[..., tuple[str, bool]], detached: bool = False) -> str:
        """Takes the key, and has the run started if it is new."""
        key, is_recorded = enter(branch, self._label, self._name, self._digest, self._at)
        if not is_recorded:
            child = {"key": key, "inputDigest": self._digest, "run": self._child}
            self._core.start_child(branch, {**child, "detached": True} if detached else child)
        return key

    def _enter(self, branch: str, enter: Callable[..., tuple[str, bool]]) -> Awaiting:
        key = self.start(branch, enter)
        return self._limited(key, "all", {"key": key, "child": key})

    def _read(self, first: Checkpoint, key: str) -> Any:
        if first.key != key:
            if self._within is None:
                raise self._late(f"`{key}` has not ended in time")
            return None
        return self.read(first)

    def read(self, end: Checkpoint) -> Any:
        """What the run returned."""
        if end.outcome != "SUCCEEDED":
            category: Literal["CANCELLED", "INFRASTRUCTURE"]
            category = "CANCELLED" if end.outcome == "CANCELLED" else "INFRASTRUCTURE"
            raise from_json(CallFailed, end.error or {"message": f"`{end.key}` was cancelled"}, category)
        try:
            return self._submission.read_result(self._core.opened(end.result))
        except _json.Unreadable as problem:
            raise CallFailed(f"the result of `{end.key}` cannot be read {problem}", category="DATA_QUALITY") from None


class Detached(Op[None]):
    """A run that is started and not awaited."""

    def __init__(self, core: Core, branch: str, call: Call[Any]) -> None:
        super().__init__(core, branch, call._label, call._name)
        self._call = call

    def _run(self, branch: str) -> Runs:
        self._check_name()
        self._core.begin(branch, self._label, self._at)
        self._call.start(branch, self._core.enter, detached=True)
        self._core.finish(branch)
        yield from ()


class Map(Op[Any]):
    """Several runs of one task."""

    def __init__(
        self, core: Core, branch: str, submissions: list[Submission], most: int | None, return_exceptions: bool
    ) -> None:
        self._calls: list[Call[Any]] = [Call(core, branch, submission) for submission in submissions]
        for call in self._calls:
            core.begun(call)
        label = self._calls[0]._label if self._calls else "child:none"
        super().__init__(core, branch, label, label.partition(":")[2])
        self._most = max(1, most) if most is not None else CHILDREN_MAX
        self._return_exceptions = return_exceptions

    def _run(self, branch: str) -> Runs:
        core, calls = self._core, self._calls
        self._check_name()
        if len(calls) > CHILDREN_MAX:
            raise _stop.too_many("calls", len(calls), CHILDREN_MAX, self._at)
        core.begin(branch, self._label, self._at)
        ends: list[Any] = [None] * len(calls)
        live: dict[int, str] = {}
        begun, last = 0, ""
        while begun < len(calls) or live:
            # A recorded call is entered even if fewer may run now than when it was recorded.
            while begun < len(calls) and (len(live) < self._most or core.is_recorded_next(branch, calls[begun]._label)):
                live[begun] = last = calls[begun].start(branch, core.enter)
                begun += 1
            mode: Literal["all", "any"] = "all" if begun == len(calls) else "any"
            items = [{"key": key, "child": key} for key in live.values()]
            yield from core.until_arrived(branch, last, mode, items)
            for place, key in list(live.items()):
                end = core.take(branch, key)
                if end is not None:
                    ends[place] = _value_or_failure(calls[place], end)
                    del live[place]
        core.finish(branch)
        return _settled(ends, self._return_exceptions)


def _value_or_failure(call: Call[Any], end: Checkpoint) -> Any:
    try:
        return call.read(end)
    except Failure as failure:
        return _Failed(failure)


@dataclass(slots=True)
class _Failed:
    """Keeps failures apart from exceptions that are values."""

    failure: Failure


def _settled(ends: Iterable[Any], return_exceptions: bool) -> list[Any]:
    """All results, or the first failure by place."""
    results = []
    for end in ends:
        if isinstance(end, _Failed):
            if not return_exceptions:
                raise end.failure
            end = end.failure
        results.append(end)
    return results


class All(Op[Any]):
    """Several operations at once."""

    def __init__(self, core: Core, branch: str, ops: tuple[Op[Any], ...], return_exceptions: bool) -> None:
        for op in ops:
            if not isinstance(op, Op):
                raise TypeError(f"{op!r} is no operation of `flow`; put other work inside flow.step")
            core.begun(op)
        super().__init__(core, branch, "all", "all")
        self._ops = ops
        self._return_exceptions = return_exceptions

    def _run(self, branch: str) -> Runs:
        if self._ops and all(type(op) is Call and op._within is None for op in self._ops):
            ends = yield from self._calls(branch)
        else:
            ends = yield from _joined(self._member(branch, place, op) for place, op in enumerate(self._ops, 1))
        return tuple(_settled(ends, self._return_exceptions))

    def _calls(self, branch: str) -> Runs:
        """Calls alone are entered in order in the flow's own branch."""
        core = self._core
        core.begin(branch, self._label, self._at)
        calls: list[Any] = list(self._ops)
        for call in calls:
            call._check_name()
        keys = [call.start(branch, core.enter) for call in calls]
        yield from core.until_arrived(branch, keys[-1], "all", [{"key": key, "child": key} for key in keys])
        ends = []
        for call, key in zip(calls, keys, strict=True):
            end = core.take(branch, key)
            assert end is not None, "all have arrived"
            ends.append(_value_or_failure(call, end))
        core.finish(branch)
        return ends

    def _member(self, branch: str, place: int, op: Op[Any]) -> Runs:
        """Each member has a branch: its own name, or its place."""
        if isinstance(op, Branch):
            return op._run(branch)
        return _in_branch(self._core, branch, str(place), self._at, lambda inner: op._run(inner))


def _in_branch(core: Core, outer: str, name: str, at: str, code: Callable[[str], Any]) -> Runs:
    """Runs code in a branch, which opens when the outer branch is recorded and closes when it is recorded itself."""
    inner = joined(outer, name)
    floor = core.joined_at(outer)
    yield from core.until_recorded(outer, f"{inner}/#0")
    core.open(outer, inner, floor, at)
    failed: _Failed | None = None
    result = None
    try:
        result = yield from code(inner)
    except Failure as failure:
        failed = _Failed(failure)
    yield from core.until_recorded(inner, f"{inner}/#0")
    core.close(outer, inner)
    if failed is not None:
        raise failed.failure
    return result


def _joined(members: Iterable[Runs]) -> Runs:
    """Drives several members until all have ended. A failure is a value here; any other exception is not."""
    runs = list(members)
    waits: list[Until | None] = [None] * len(runs)
    ends: list[Any] = [None] * len(runs)
    left = set(range(len(runs)))
    while left:
        for place in sorted(left):
            until = waits[place]
            if until is not None and not until.ready():
                continue
            try:
                yielded = runs[place].send(None)
            except StopIteration as end:
                ends[place] = end.value
                left.discard(place)
            except Failure as failure:
                ends[place] = _Failed(failure)
                left.discard(place)
            else:
                if type(yielded) is not Until:
                    yield yielded  # something foreign: the engine stops the run
                waits[place] = yielded
        waiting = [until for place in left if (until := waits[place]) is not None]
        if left and not any(until.ready() for until in waiting):
            yield Until(lambda waiting=waiting: any(until.ready() for until in waiting))  # type: ignore[misc]
    return ends


class Branch(Op[T_co]):
    """Code with an order of its own."""

    def __init__(self, core: Core, branch: str, name: str, code: Callable[[str], Code]) -> None:
        super().__init__(core, branch, name, name)
        self._code = code

    def _run(self, branch: str) -> Runs:
        self._check_name()
        return (yield from _in_branch(self._core, branch, self._name, self._at, self._body))

    def _body(self, inner: str) -> Runs:
        coroutine = self._code(inner)
        try:
            return (yield from coroutine.__await__())
        finally:
            coroutine.close()


class Any_(Op[Any]):
    """The first of several."""

    def __init__(self, core: Core, branch: str, members: Mapping[str, Op[Any]]) -> None:
        for op in members.values():
            core.begun(op)
        super().__init__(core, branch, "any", "any")
        self._members = dict(members)

    def _run(self, branch: str) -> Runs:
        core = self._core
        for name, op in self._members.items():
            if not isinstance(op, WaitingOp):
                raise _stop.not_in_any(op.told())
            if not is_name(name):
                raise _stop.bad_name(name, self._at)
            op._check_name()
        if not self._members:
            raise _stop.Misuse(f"`any` ({self._at}) has no members: nothing could be the first")
        floor = core.joined_at(branch)
        now = yield from core.until_recorded(branch, f"{joined(branch, 'any')}/#0")
        now = max(now, floor)
        waits: dict[str, Awaiting] = {}
        for name, op in self._members.items():
            inner = joined(branch, name)
            core.open(branch, inner, floor, self._at)
            yield from op._before(inner)  # type: ignore[attr-defined]
            waits[name] = op._enter(inner, core.enter_if_next)  # type: ignore[attr-defined]
        winner, first = yield from self._first(branch, now, waits)
        for name in self._members:
            inner = joined(branch, name)
            core.forget_parts(waits[name].key)
            yield from core.until_recorded(inner, f"{inner}/#0")
            core.close(branch, inner)
        return winner, self._members[winner]._read(first, waits[winner].key)  # type: ignore[attr-defined]

    def _first(self, branch: str, now: int, waits: dict[str, Awaiting]) -> Runs:
        """One wait for all members. The first by commit order wins."""
        core = self._core
        names = {key: name for name, waiting in waits.items() for key in waiting.keys}
        if not any(core.has(key) for key in names):
            items = [item for waiting in waits.values() for item in waiting.items(now)]
            items.sort(key=lambda item: str(item["key"]))
            yield from core.until_arrived(branch, min(names), "any", items)
        first = core.take_first(branch, tuple(names))
        assert first is not None, "one of them has arrived"
        return names[first.key], first


@dataclass(frozen=True, slots=True)
class Vote:
    """The word of one person."""

    #: The id of the API key under which it came.
    key: str
    decision: Literal["APPROVED", "REJECTED"]
    at: datetime
    comment: str | None


@dataclass(frozen=True, slots=True)
class Approval:
    """What came of an approval. It is false in `if` unless it was approved."""

    outcome: Literal["APPROVED", "REJECTED", "EXPIRED", "WITHDRAWN"]
    #: In the order in which they came. Empty if time decided.
    votes: tuple[Vote, ...] = ()

    @property
    def approved(self) -> bool:
        """Whether as many as were asked for approved it, or time did so by default."""
        return self.outcome == "APPROVED"

    @property
    def reason(self) -> str | None:
        """The first comment, of the rejection if there is one."""
        rejections = [vote for vote in self.votes if vote.decision == "REJECTED"]
        return next((vote.comment for vote in [*rejections[:1], *self.votes] if vote.comment is not None), None)

    def __bool__(self) -> bool:
        return self.approved


class ApprovalOp(WaitingOp[Approval]):
    """A question to people."""

    def __init__(
        self, core: Core, branch: str, name: str, terms: dict[str, Any], span_ms: int | None, digest: str | None
    ) -> None:
        super().__init__(core, branch, f"approval:{name}", name)
        self._terms = terms if digest is None else {**terms, "digest": digest}
        self._span_ms = span_ms
        self._digest = digest

    def _enter(self, branch: str, enter: Callable[..., tuple[str, bool]]) -> Awaiting:
        key, _ = enter(branch, self._label, self._name, self._digest, self._at)

        def items(now: int) -> list[dict[str, Any]]:
            # From a recorded time, so that a question that is repeated is the same question.
            expiry = {} if self._span_ms is None else {"expiresAt": write_ms(now + self._span_ms)}
            return [{"key": key, "approval": {**self._terms, **expiry}}]

        return Awaiting(key, "any", (key,), items, True)

    def _read(self, first: Checkpoint, key: str) -> Approval:
        try:
            told = first.result
            votes = tuple(_vote(vote) for vote in told["votes"])
            return Approval(told["outcome"], votes)
        except (KeyError, TypeError) as problem:
            text = f"what came of approval `{self._name}` cannot be read: {problem!r}"
            raise Failure(text, category="DATA_QUALITY") from None


def _vote(vote: Any) -> Vote:
    at = datetime.fromtimestamp(vote["atMs"] / 1000, UTC)
    return Vote(vote["key"], vote["decision"], at, vote.get("comment"))


class Step:
    """What the work of a step is given with `bind=True`, and what `tenure.current()` finds inside it."""

    def __init__(self, core: Core, key: str, number: int) -> None:
        #: The same in every try and every attempt: pass it to services that recognise repeated requests.
        self.idempotency_key: str = f"{core.task_id}/{key}"
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
        self._spent = (self._spent or Spend()).plus(Spend(tokens, cost_micros, tool_calls))

    def effect(self, effect: Effect) -> None:
        """Asks for an effect, which is recorded with the step if this try succeeds."""
        self._effects.append(effect.to_json())


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
        if type(result) is _Failed and self._aborts:
            core.end(result.failure)
            while True:
                yield NEVER
        core.finish(branch)
        if type(result) is _Failed:
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
            yield from core.until_arrived(branch, key, "all", [_timer(timer, now, pause)])
        core.take(branch, timer)

    def _value(self, branch: str, checkpoint: Checkpoint) -> Any:
        if checkpoint.outcome != "SUCCEEDED":
            return _Failed(from_json(StepFailed, checkpoint.error or {"message": "recorded without an error"}))
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
            raise Failure(problem, reason="EFFECT_UNWRITABLE", retryable=False) from None
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


class Now(Op[datetime]):
    """Reads the time; it is not recorded and has no key."""

    def __init__(self, core: Core, branch: str) -> None:
        super().__init__(core, branch, "now", "now")

    def _run(self, branch: str) -> Runs:
        self._core.begin(branch, "now", self._at)
        now = yield from self._core.until_recorded(branch, f"{joined(branch, 'now')}#0")
        self._core.finish(branch)
        return datetime.fromtimestamp(now // 1000, UTC).replace(microsecond=now % 1000 * 1000)


class Savepoint(Op[Never]):
    """A new start of replay."""

    def __init__(self, core: Core, branch: str, state: object) -> None:
        super().__init__(core, branch, "savepoint", "savepoint")
        self._state = state

    def _run(self, branch: str) -> Runs:
        core = self._core
        try:
            state = core.sealed(_json.payload(self._state))
        except _json.Unwritable as problem:
            raise Failure(problem, reason="RESULT_UNWRITABLE", retryable=False) from None
        core.begin(branch, "savepoint", self._at)
        if branch:
            raise _stop.savepoint_in_branch(branch, self._at)
        key, _ = core.enter(branch, "savepoint", "savepoint", None, self._at)
        core.keep(branch, {"key": key, "outcome": "SUCCEEDED", "result": state, "savepoint": True})
        yield from core.until_recorded(branch, key)
        while True:
            yield NEVER
