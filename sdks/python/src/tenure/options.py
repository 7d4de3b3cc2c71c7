"""The options of a run, with the names that users see, and their form on the wire."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from ._span import Span, instant, milliseconds
from .errors import Setup

#: The largest integer that every JSON parser keeps exactly.
AMOUNT_MAX = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Retry:
    """How often something is tried, and how the pause between tries grows: from `base`, doubling, up to `cap`."""

    tries: int = 3
    base: Span = 5
    cap: Span = 300

    def __post_init__(self) -> None:
        if not 1 <= self.tries <= 100:
            raise Setup(f"{self.tries} tries", next_step="allow between 1 and 100", field="retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run and its descendants may use. The call that crosses a limit halts the run, with every step kept."""

    tokens: int | None = None
    cost_micros: int | None = None
    steps: int | None = None
    tool_calls: int | None = None
    wall: Span | None = None
    active: Span | None = None
    #: Limits that end nothing: crossing one is noted, or asked about.
    soft: Mapping[Literal["tokens", "cost_micros", "steps", "tool_calls"], int] | None = None
    on_soft: Literal["note", "ask"] | None = None

    def to_json(self) -> dict[str, Any]:
        """The form on the wire."""
        json = _units(self.tokens, self.cost_micros, self.steps, self.tool_calls)
        if self.wall is not None:
            json["wallMs"] = milliseconds(self.wall, "budget.wall")
        if self.active is not None:
            json["activeMs"] = milliseconds(self.active, "budget.active")
        if self.soft is not None:
            soft = self.soft
            json["soft"] = _units(
                soft.get("tokens"), soft.get("cost_micros"), soft.get("steps"), soft.get("tool_calls")
            )
        if self.on_soft is not None:
            json["onSoft"] = self.on_soft
        return json


def _units(tokens: int | None, cost_micros: int | None, steps: int | None, tool_calls: int | None) -> dict[str, Any]:
    units = {"tokens": tokens, "costMicros": cost_micros, "steps": steps, "toolCalls": tool_calls}
    return {unit: limit for unit, limit in units.items() if limit is not None}


@dataclass(frozen=True, slots=True)
class Spend:
    """What was used of a budget."""

    tokens: int = 0
    cost_micros: int = 0
    tool_calls: int = 0

    def plus(self, more: Spend) -> Spend:
        """The sum."""
        return Spend(
            min(self.tokens + more.tokens, AMOUNT_MAX),
            min(self.cost_micros + more.cost_micros, AMOUNT_MAX),
            min(self.tool_calls + more.tool_calls, AMOUNT_MAX),
        )

    def to_json(self) -> dict[str, Any]:
        """The form on the wire."""
        return {"tokens": self.tokens, "costMicros": self.cost_micros, "toolCalls": self.tool_calls}


def spend_of(tokens: int, cost_micros: int, tool_calls: int) -> Spend:
    """What code says that it used. Told here, in the code: a heartbeat with anything else would be refused."""
    return Spend(_used("tokens", tokens), _used("cost_micros", cost_micros), _used("tool_calls", tool_calls))


def _used(unit: str, amount: int) -> int:
    try:
        count = operator.index(amount)
    except TypeError:
        count = -1
    if not 0 <= count <= AMOUNT_MAX:
        raise Setup(f"{amount!r} is no amount to spend", next_step="pass a whole number, from 0", field=unit)
    return count


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a run's budget. A unit without a limit is None."""

    tokens: int | None = None
    cost_micros: int | None = None
    steps: int | None = None
    tool_calls: int | None = None
    active: float | None = None
    wall_ends_at: str | None = None

    @classmethod
    def from_json(cls, json: Any) -> Left | None:
        """Reads what the coordinator says; None without a budget."""
        if json is None:
            return None
        active = json.get("activeMs")
        return Left(
            json.get("tokens"),
            json.get("costMicros"),
            json.get("steps"),
            json.get("toolCalls"),
            None if active is None else active / 1000,
            json.get("wallEndsAt"),
        )


@dataclass(frozen=True, slots=True)
class FlowKey:
    """Limits across all runs with the same key: how many at once, how many in a while, only the last of a burst."""

    key: str
    limit: int | None = None
    #: How many starts in how much time: `(10, 1)` is ten per second.
    rate: tuple[int, Span] | None = None
    debounce: Span | None = None
    debounce_max: Span | None = None
    #: `"life"`: a run counts until it has ended, not only while it is leased.
    hold: Literal["lease", "life"] | None = None

    def to_json(self) -> dict[str, Any]:
        """The form on the wire."""
        json: dict[str, Any] = {"key": self.key}
        if self.limit is not None:
            json["limit"] = self.limit
        if self.rate is not None:
            json["rate"] = {"count": self.rate[0], "perMs": milliseconds(self.rate[1], "flow_key.rate")}
        if self.debounce is not None:
            json["debounceMs"] = milliseconds(self.debounce, "flow_key.debounce")
        if self.debounce_max is not None:
            json["debounceMaxMs"] = milliseconds(self.debounce_max, "flow_key.debounce_max")
        if self.hold is not None:
            json["hold"] = self.hold
        return json


@dataclass(frozen=True, slots=True)
class Stall:
    """What happens to an attempt that lives but makes no progress."""

    after: Span
    action: Literal["warn", "cancel", "requeue"] = "warn"

    def to_json(self) -> dict[str, Any]:
        """The form on the wire."""
        return {"afterMs": milliseconds(self.after, "stall"), "action": self.action}


class TaskOptions(TypedDict, total=False):
    """Options of a run, apart from its queue."""

    idempotency_key: str
    delay: Span
    run_at: datetime
    deadline: datetime | Span
    ttl: Span
    priority: int
    labels: Mapping[str, str]
    max_attempts: int
    max_lost_attempts: int
    retry: Retry | int
    lease: Span
    heartbeat_interval: Span
    cancel_grace: Span
    attempt_timeout: Span
    budget: Budget
    flow_key: FlowKey | str
    stall: Stall | Span
    goal: str
    asset: str
    seed: int
    traceparent: str


class RunOptions(TaskOptions, total=False):
    """All options of a run."""

    queue: str


def _plain(name: str) -> Callable[[Any, str], dict[str, Any]]:
    return lambda value, field: {name: value}


def _span(name: str) -> Callable[[Any, str], dict[str, Any]]:
    return lambda value, field: {name: milliseconds(value, field)}


def _deadline(value: Any, field: str) -> dict[str, Any]:
    if isinstance(value, datetime):
        return {"deadline": instant(value, field)}
    return {"deadlineMs": milliseconds(value, field)}


def _retry(value: Any, field: str) -> dict[str, Any]:
    if isinstance(value, int):
        return {"maxAttempts": value}
    pauses = {"baseMs": milliseconds(value.base, field), "capMs": milliseconds(value.cap, field)}
    return {"maxAttempts": value.tries, "retry": pauses}


def _flow_key(value: Any, field: str) -> dict[str, Any]:
    key = FlowKey(value, limit=1) if isinstance(value, str) else value
    return {"flow": key.to_json()}


def _stall(value: Any, field: str) -> dict[str, Any]:
    stall = value if isinstance(value, Stall) else Stall(value)
    return {"stall": stall.to_json()}


#: In this order: what comes later wins, so `max_attempts` beats the tries of `retry`.
_WRITERS: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    "queue": _plain("queue"),
    "idempotency_key": _plain("idempotencyKey"),
    "delay": _span("delayMs"),
    "run_at": lambda value, field: {"runAt": instant(value, field)},
    "deadline": _deadline,
    "ttl": _span("ttlMs"),
    "priority": _plain("priority"),
    "labels": lambda value, field: {"labels": dict(value)},
    "retry": _retry,
    "max_attempts": _plain("maxAttempts"),
    "max_lost_attempts": _plain("lostMax"),
    "lease": _span("leaseMs"),
    "heartbeat_interval": _span("heartbeatIntervalMs"),
    "cancel_grace": _span("cancelGraceMs"),
    "attempt_timeout": lambda value, field: {"resources": {"timeoutMs": milliseconds(value, field)}},
    "budget": lambda value, field: {"budget": value.to_json()},
    "flow_key": _flow_key,
    "stall": _stall,
    "goal": _plain("goal"),
    "asset": _plain("assetId"),
    "seed": _plain("seed"),
    "traceparent": _plain("traceparent"),
}


def to_wire(options: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a submission that options stand for."""
    unknown = [name for name in options if name not in _WRITERS]
    if unknown:
        raise Setup(
            f"there is no option `{unknown[0]}`", next_step=f"known are {', '.join(_WRITERS)}", field=unknown[0]
        )
    wire: dict[str, Any] = {}
    for name, write in _WRITERS.items():
        value = options.get(name)
        if value is not None:
            wire.update(write(value, name))
    return wire
