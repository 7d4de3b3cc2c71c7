"""The starts of attempts: sent for work that takes longer than a moment, and before the code of a later attempt begins."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from . import _calls
from ._attempt import Attempt

if TYPE_CHECKING:
    from ._io import Io

#: Work that ends sooner sends no start.
START_AFTER_SECONDS = 0.005
SPACING_SECONDS = 0.002
BATCH_ITEMS_MAX = 1000
TRIES_MAX = 10


class Starts:
    """Sends starts; belongs to the I/O thread."""

    def __init__(self, io: Io) -> None:
        self._io = io
        self._waiting: list[tuple[float, Attempt]] = []
        #: When they are looked at next.
        self._looks_at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def send(self, attempt: Attempt, now: float, delay: float = 0.0) -> None:
        """Sends the start of an attempt after that time, if it has not ended by then."""
        attempt.start_sent = True
        self._waiting.append((now + delay, attempt))
        if now + delay < self._looks_at:
            self._look_at(now, now + delay)

    def _look_at(self, now: float, then: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = then
        self._timer = self._io.loop.call_later(max(0.0, then - now), self._send_due)

    def _send_due(self) -> None:
        now = self._io.clock.now()
        due: list[Attempt] = []
        later: list[tuple[float, Attempt]] = []
        for when, attempt in self._waiting:
            if attempt.is_ended or attempt.is_start_implied or attempt.lease.stop_reason == "LeaseLost":
                continue
            if when > now or len(due) == BATCH_ITEMS_MAX:
                later.append((when, attempt))
            elif attempt.is_begun and not attempt.has_entered:
                later.append((now + START_AFTER_SECONDS, attempt))  # its code has not had its moment yet
            else:
                due.append(attempt)
        self._waiting = later
        self._looks_at, self._timer = math.inf, None
        if due:
            self._io.spawn(self._send_batch(due))
        if later:
            self._look_at(now, max(now + SPACING_SECONDS, min(when for when, _ in later)))

    async def _send_batch(self, batch: list[Attempt]) -> None:
        items = ",".join(f"{{{self._io.item(attempt)}}}" for attempt in batch)
        for attempt in batch:
            attempt.is_starting = True
        answers = await self._io.call("/v1/starts", f'{{"starts":[{items}]}}', batch)
        for attempt, answer in zip(batch, answers.items, strict=True):
            attempt.is_starting = False
            self._answered(attempt, answer)
        self._io.checkpoints.go_on()

    def _answered(self, attempt: Attempt, answer: Any) -> None:
        verdict = answer.get("verdict") if answer else None
        if verdict == "COMMITTED":
            attempt.needs_start = False
            self._io.begin_if_ready(attempt)
        elif verdict is None and (answer is None or answer["status"] in (429, 503)):
            self._try_again(attempt)
        else:
            if verdict != "CANCELLED":
                self._io.emit_rejected(attempt, answer)
            self._io.lose(attempt, answer.get("error") or "its start was refused")

    def _try_again(self, attempt: Attempt) -> None:
        attempt.start_tries += 1
        if attempt.start_tries < TRIES_MAX:
            pause = min(_calls.BACKOFF_SECONDS_FIRST * 2**attempt.start_tries, _calls.BACKOFF_SECONDS_MAX)
            self.send(attempt, self._io.clock.now(), pause)
        elif not attempt.is_begun:
            self._io.lose(attempt, "its start was not answered")
