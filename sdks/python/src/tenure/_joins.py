"""Calls of other runs, and operations made of several: `map`, `all`, `any` and branches.

A call is started once, whatever happens to the worker, because its key is unique in its run. Each member of `all` and `any`
has a branch of its own, so the record does not depend on which one was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from . import _json, _stop
from ._codec import sealed_submission
from ._commands import Code, Until
from ._engine import Core
from ._history import Checkpoint, is_name, joined
from ._op import Awaiting, Failed, Limited, Op, Runs, WaitingOp
from ._span import Span
from .failure import CallFailed, Failure, from_json
from .task import Submission

T_co = TypeVar("T_co", covariant=True)

#: The coordinator's limit of live children per task.
CHILDREN_MAX = 10_000


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
        return Failed(failure)


def _settled(ends: Iterable[Any], return_exceptions: bool) -> list[Any]:
    """All results, or the first failure by place."""
    results = []
    for end in ends:
        if isinstance(end, Failed):
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
    """Runs code in a branch. It begins with the time that the outer branch has now: in a replay a branch beside it may end
    before the first turn of this one."""
    return _inside(core, outer, joined(outer, name), at, code, core.joined_at(outer))


def _inside(core: Core, outer: str, inner: str, at: str, code: Callable[[str], Any], floor: int) -> Runs:
    """A branch opens when the outer branch is recorded and closes when it is recorded itself."""
    yield from core.until_recorded(outer, f"{inner}/#0")
    core.open(outer, inner, floor, at)
    failed: Failed | None = None
    result = None
    try:
        result = yield from code(inner)
    except Failure as failure:
        failed = Failed(failure)
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
                ends[place] = Failed(failure)
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
        return _in_branch(self._core, branch, self._name, self._at, self._body)

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
