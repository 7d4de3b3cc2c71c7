"""What the engine of durable functions says and is told: commands out, answers in, and what the code waits for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from . import _json
from ._history import Checkpoint
from .failure import Failure


class Until:
    """What the code waits for: asked again after every event."""

    __slots__ = ("ready",)

    def __init__(self, ready: Callable[[], bool]) -> None:
        self.ready = ready


NEVER = Until(lambda: False)

Code: TypeAlias = Coroutine[Any, None, Any]
Waits: TypeAlias = Generator[Until, None, Any]


@dataclass(slots=True)
class Start:
    """What an attempt begins with."""

    task_id: str
    fence: int
    seed: int
    #: When the run was accepted, in milliseconds: the function's time before its first checkpoint.
    created_at: int
    #: In commit order. What precedes the last savepoint may be left out.
    checkpoints: list[Checkpoint] = field(default_factory=list)
    #: The task with which a line of continuations began; this one when absent. Idempotency keys of steps begin with it.
    origin: str | None = None


@dataclass(slots=True)
class Execute:
    """A step's work begins. If it has a timeout, call `Run.time_out` when that is over."""

    key: str
    number: int
    timeout_ms: int | None
    work: Any


@dataclass(slots=True)
class Record:
    """One call to the coordinator, recorded as a whole or not at all. Pass its answer to `Run.recorded`."""

    steps: list[dict[str, Any]]
    children: list[dict[str, Any]]
    wait: dict[str, Any] | None


@dataclass(slots=True)
class Complete:
    """The end: report it. What has yet to be recorded rides along."""

    steps: list[dict[str, Any]]
    children: list[dict[str, Any]]
    outcome: Literal["SUCCEEDED", "FAILED"]
    output: Any = None
    error: Failure | None = None
    #: An exception that is no failure: another attempt, with other code, can go on.
    bug: BaseException | None = None


@dataclass(slots=True)
class Last:
    """The attempt is over without a report of the function."""

    word: Literal["suspend", "halt", "cancel"]


Command: TypeAlias = Execute | Record | Complete | Last


@dataclass(slots=True)
class Recorded:
    """The coordinator's answer to a call that it committed."""

    state: Literal["running", "waiting", "halted"]
    recorded_at: int
    results: list[Checkpoint] = field(default_factory=list)
    should_cancel: bool = False


def time_ms(text: str) -> int:
    """An instant of the wire in milliseconds since 1970."""
    return round(_json.read_time(text).timestamp() * 1000)
