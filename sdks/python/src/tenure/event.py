"""What a worker tells `on_event`: what became of attempts, and what a person should look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Committed:
    """A report was accepted."""

    task_id: str
    attempt: int
    outcome: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The attempt lost its lease. Its result was dropped."""

    task_id: str
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The coordinator refused a call, which is a bug of the program or of this package."""

    task_id: str | None
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A report was not answered within as many tries as the worker makes."""

    task_id: str
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """A durable function waits without a worker."""

    task_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Diverged:
    """The code of a durable function does not fit its record. The run waits for other code."""

    task_id: str
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """Code that was told to stop goes on. It keeps its slot until it returns."""

    task_id: str
    attempt: int
    kind: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The I/O thread could not run for a while: code kept the interpreter lock."""

    seconds: float
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The coordinator does not answer polls. Told once a minute."""

    why: str


WorkerEvent: TypeAlias = (
    Committed | LeaseLost | Rejected | Unanswered | Suspended | Diverged | Stuck | Paused | Unreachable
)
