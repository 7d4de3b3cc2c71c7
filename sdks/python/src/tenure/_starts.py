"""The starts of attempts: sent for work that takes longer than a moment, and before the code of a later attempt begins."""

from __future__ import annotations

from collections import deque
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
        self._waiting: deque[tuple[float, Attempt]] = deque()

    def send(self, attempt: Attempt, due: float) -> None:
        """Sends the start of an attempt at that time, if it has not ended by then."""
        attempt.start_sent = True
        now = self._io.clock.now()
        is_first = not self._waiting
        self._waiting.append((due, attempt))
        if is_first or due <= now:
            self._io.loop.call_later(max(0.0, due - now), self._send_due)

    def _send_due(self) -> None:
        now = self._io.clock.now()
        due: list[Attempt] = []
        later: deque[tuple[float, Attempt]] = deque()
        for when, attempt in self._waiting:
            if attempt.is_ended or attempt.is_start_implied or attempt.lease.stop_reason == "LeaseLost":
                continue
            if when <= now and len(due) < BATCH_ITEMS_MAX:
                due.append(attempt)
            else:
                later.append((when, attempt))
        self._waiting = later
        if due:
            self._io.spawn(self._send_batch(due))
        if later:
            soonest = min(when for when, _ in later)
            self._io.loop.call_later(max(SPACING_SECONDS, soonest - now), self._send_due)

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
            self.send(attempt, self._io.clock.now() + pause)
        elif not attempt.is_begun:
            self._io.lose(attempt, "its start was not answered")
