"""Operations that wait for time, signals and people, and those that read the time or start the function over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Never, TypeVar

from . import _json, _stop
from ._commands import NEVER
from ._engine import Core
from ._history import Checkpoint, joined
from ._op import Awaiting, Limited, Op, Runs, WaitingOp, timer_item, write_ms
from ._span import Span
from .failure import Failure

T_co = TypeVar("T_co", covariant=True)


class Sleep(WaitingOp[None]):
    """A sleep, with or without a name."""

    def __init__(self, core: Core, branch: str, name: str | None, span_ms: int) -> None:
        super().__init__(core, branch, "sleep" if name is None else f"sleep:{name}", name or "unnamed")
        self._span_ms = span_ms

    def _enter(self, branch: str, enter: Callable[..., tuple[str, bool]]) -> Awaiting:
        key, _ = enter(branch, self._label, self._name, None, self._at)
        return Awaiting(key, "all", (key,), lambda now: [timer_item(key, now, self._span_ms)], True)

    def _read(self, first: Checkpoint, key: str) -> None:
        return None


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
            told = problem.of("the state of the savepoint")
            raise Failure(told, reason="RESULT_UNWRITABLE", retryable=False) from None
        core.begin(branch, "savepoint", self._at)
        if branch:
            raise _stop.savepoint_in_branch(branch, self._at)
        key, _ = core.enter(branch, "savepoint", "savepoint", None, self._at)
        core.keep(branch, {"key": key, "outcome": "SUCCEEDED", "result": state, "savepoint": True})
        yield from core.until_recorded(branch, key)
        while True:
            yield NEVER


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
