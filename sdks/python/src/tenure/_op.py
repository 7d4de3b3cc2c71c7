"""What all operations of `flow` have in common: each is a generator that yields what it waits for to the engine.

An operation takes its key, compares it with the record, and then either reads what was recorded or wants something new.
Invariant: an operation that cannot go on sets the ending of the attempt and never returns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from . import _json, _stop
from ._commands import NEVER, Until
from ._engine import Core
from ._history import TIMEOUT, Checkpoint, is_name
from ._span import Span, milliseconds, seconds_of
from ._stop import Stop
from .failure import Failure

T_co = TypeVar("T_co", covariant=True)
Runs: TypeAlias = Generator[Until, None, Any]

#: Files whose names are kept, because every operation says where it was made.
FILES_KEPT = 256
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(slots=True)
class Failed:
    """Keeps failures apart from exceptions that are values."""

    failure: Failure


def caller() -> str:
    """The line of user code that made an operation."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{_file_name(frame.f_code.co_filename)}:{frame.f_lineno}"


_file_name = lru_cache(FILES_KEPT)(os.path.basename)


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


def timer_item(key: str, now: int, span_ms: int) -> dict[str, Any]:
    return {"key": key, "until": write_ms(now + span_ms)}


def write_ms(ms: int) -> str:
    """Milliseconds since 1970 as an instant of the wire."""
    return _json.write_time(datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000))


class Limited(WaitingOp[T_co]):
    """A waiting operation that may have a limit: after it the result is None."""

    _within: int | None = None

    def _limited(self, key: str, mode: Literal["all", "any"], item: dict[str, Any]) -> Awaiting:
        timer, span = f"{key}.{TIMEOUT}", self._within
        if span is None:
            return Awaiting(key, mode, (key, timer), lambda now: [item], False)
        return Awaiting(key, "any", (key, timer), lambda now: [item, timer_item(timer, now, span)], True)

    def _late(self, message: str) -> Failure:
        """Recorded code may have had a limit. Then nothing is what was recorded."""
        return Failure(message, category="TIMEOUT")

    def _set_within(self, span: Span | None, seconds: float, minutes: float, hours: float, days: float) -> None:
        extra = 0 if span is None else milliseconds(span, "within")
        self._within = extra + milliseconds(seconds_of(seconds, minutes, hours, days), "within")
