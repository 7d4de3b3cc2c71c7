"""How long a worker may trust a lease, by its own clock alone.

The coordinator ends a lease some time after it granted or renewed it, and the worker sees neither moment. It knows when it
*sent* a request, which is earlier, so it counts from there and stops early. Wall clocks decide nothing; of the coordinator's
times only the difference of two in one answer is used.

Invariants:
- a lease that is lost stays lost, whatever answer arrives later;
- an answer to an older request never shortens what a newer one proved;
- the code is told before another worker can begin.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from ._commands import time_ms
from ._log import LogBuffer
from .options import Left, Spend

StopReason: TypeAlias = Literal["CancelRequested", "TimedOut", "ShuttingDown", "LeaseLost"]

#: New progress or spend is sent at most this often.
NEWS_SECONDS = 3.0
FIRST_REPEAT_SECONDS = 0.1
ANSWER_SECONDS_MIN = 0.5


def usable(ttl: float) -> float:
    """How much of a lease is used: the rest covers clocks that run at different speeds and a last write on its way."""
    most = 0.9 * ttl - 1
    return most if most > ttl / 2 else 0.75 * ttl


class Clock:
    """Two clocks, and the one that ran further counts: one of them goes on while the machine sleeps."""

    def __init__(self) -> None:
        self._boot: Callable[[], float] = time.monotonic
        if hasattr(time, "CLOCK_BOOTTIME"):
            self._boot = functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
        self._first = time.monotonic()
        self._first_boot = self._boot()

    def now(self) -> float:
        """Seconds since this clock was made."""
        ran, elapsed = time.monotonic() - self._first, self._boot() - self._first_boot
        return ran if ran > elapsed else elapsed


class Lease:
    """The right to work on one attempt, as far as this process can prove it.

    The I/O thread writes; the code of the task reads, and adds progress, spend and lines.
    """

    __slots__ = (
        "_answered",
        "_event",
        "_lock",
        "_repeat",
        "cancel_reason",
        "clock",
        "interval",
        "is_proven",
        "left",
        "log",
        "lost_because",
        "news",
        "next_beat",
        "progress",
        "sent_beat",
        "spent",
        "stop_reason",
        "token",
        "ttl",
        "valid_until",
    )

    def __init__(
        self, clock: Clock, envelope: Any, sent: float, now: float | None = None, takes_logs: bool = True
    ) -> None:
        if now is None:
            now = clock.now()
        self.clock: Clock = clock
        self.token: str = envelope["taskToken"]
        self.ttl: float = envelope["heartbeatTimeoutMs"] / 1000
        self.interval: float = envelope["heartbeatIntervalMs"] / 1000
        budget = envelope.get("budgetLeft")
        self.left: Left | None = None if budget is None else Left.from_json(budget)
        self.stop_reason: StopReason | None = None
        self.cancel_reason: str | None = None
        self.lost_because: str | None = None
        self.progress: tuple[float | None, str | None] | None = None
        self.spent: Spend | None = None
        #: Whether there is progress, spend or a line that no heartbeat has brought.
        self.news: bool = False
        #: What the code logs, until the coordinator has it.
        self.log: LogBuffer = LogBuffer(takes_logs)
        self.sent_beat: float = now
        self._answered = sent
        self._repeat = FIRST_REPEAT_SECONDS
        self._event: threading.Event | None = None
        self._lock: threading.Lock | None = None
        span = usable(self.ttl)
        left = sent + span - now
        #: A grant is proven if at least half of it is left; a long poll may have been older than its lease.
        self.is_proven: bool = left >= span / 2
        self.valid_until: float = sent + span if self.is_proven else now + span
        self.next_beat: float = now + min(self.interval, left / 2) if self.is_proven else now

    def check(self) -> bool:
        """Whether the lease holds. The clock decides, also after the process was stopped for a while."""
        if self.stop_reason == "LeaseLost":
            return False
        if self.clock.now() < self.valid_until:
            return True
        self.lose("the lease could not be renewed in time")
        return False

    def lose(self, why: str) -> None:
        """Gives the lease up for ever."""
        if self.stop_reason != "LeaseLost":
            self.lost_because = why
            self.stop("LeaseLost")

    def stop(self, reason: StopReason) -> None:
        """Tells the code to stop. The first reason stands, except that a lost lease is always told."""
        if self.stop_reason is None or reason == "LeaseLost":
            self.stop_reason = reason
        event = self._event
        if event is not None:
            event.set()

    def renewed(self, sent: float, lease_expires_at: str | None, server_time: str) -> None:
        """An answer to a request that was sent at `sent`."""
        if self.stop_reason == "LeaseLost" or (self.is_proven and sent < self._answered):
            return
        ttl = self.ttl
        if lease_expires_at is not None:
            ttl = min(ttl, (time_ms(lease_expires_at) - time_ms(server_time)) / 1000)
        if self.check():
            self._answered = sent
            self.is_proven = True
            self.valid_until = sent + usable(ttl)
            self.next_beat = sent + self.interval
            self._repeat = FIRST_REPEAT_SECONDS

    def unanswered(self) -> None:
        """A heartbeat got no answer: the next one comes sooner."""
        self.next_beat = self.clock.now() + min(self._repeat, self.interval)
        self._repeat *= 2

    def is_due(self, now: float) -> bool:
        """Whether a heartbeat is due."""
        return now >= self.next_beat or (self.news and now >= self.sent_beat + NEWS_SECONDS)

    def log_line(self, level: str, text: str) -> None:
        """Adds a line to the log of this attempt."""
        self.log.add(level, text)
        self.news = self.news or self.log.is_on

    def spend(self, more: Spend) -> None:
        """Adds to what this attempt used."""
        if self._lock is None:
            self._lock = threading.Lock()
        with self._lock:
            self.spent = (self.spent or Spend()).plus(more)
        self.news = True

    def wait(self, timeout: float | None) -> bool:
        """Blocks until the code is told to stop. Whether it was."""
        if self._event is None:
            self._event = threading.Event()
        if self.stop_reason is None:
            self._event.wait(timeout)
        return self.stop_reason is not None or not self.check()
