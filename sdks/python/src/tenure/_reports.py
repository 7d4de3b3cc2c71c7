"""The reports of one worker: those that wait share a call, and one is repeated only while nothing was decided about it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from . import _attempt, _calls, _log, event
from ._attempt import Report
from .failure import Failure

if TYPE_CHECKING:
    from ._io import Io

BATCH_ITEMS_MAX = 1000
BATCH_BYTES_MAX = 512 * 1024
TRIES_MAX = 10


class Reports:
    """Delivers reports; belongs to the I/O thread."""

    def __init__(self, io: Io) -> None:
        self._io = io
        self._waiting: deque[Report] = deque()
        self._in_flight = 0
        self._has_some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + self._in_flight

    def file(self, report: Report) -> None:
        """Sends a report soon."""
        self._waiting.append(report)
        self._has_some.set()

    async def deliver(self) -> None:
        """Delivers reports until it is cancelled."""
        while True:
            if not self._waiting:
                self._has_some.clear()
                await self._has_some.wait()
            batch = self._batch()
            self._in_flight = len(batch)
            again = await self._send(batch)
            self._waiting.extendleft(reversed(again))
            self._in_flight = 0
            if again:
                tries = min(report.tries for report in again)
                pause = min(_calls.BACKOFF_SECONDS_FIRST * 2 ** (tries - 1), _calls.BACKOFF_SECONDS_MAX)
                await asyncio.sleep(max(pause, self._io.asked_pause()))

    def _batch(self) -> list[Report]:
        batch: list[Report] = []
        size = 0
        while self._waiting and len(batch) < BATCH_ITEMS_MAX:
            size += len(self._waiting[0].text)
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _send(self, batch: list[Report]) -> list[Report]:
        """Sends a batch. Returns those about which nothing was decided."""
        body = f'{{"reports":[{",".join(report.text for report in batch)}]}}'
        sent = self._io.clock.now()
        answers = await self._io.call("/v1/reports", body, batch)
        pairs = zip(batch, answers.items, strict=True)
        return [report for report, answer in pairs if not self._answered(report, answer, sent)]

    def _answered(self, report: Report, answer: Any, sent: float) -> bool:
        """Whether something was decided about it."""
        attempt = report.attempt
        verdict = answer.get("verdict") if answer else None
        if verdict is None and (answer is None or answer["status"] in (429, 503)):
            report.tries += 1
            if report.tries <= TRIES_MAX:
                return False
            self._io.emit(event.Unanswered(attempt.task_id, attempt.number, str(self._io.last_error)))
        elif verdict == "COMMITTED":
            self._io.emit(event.Committed(attempt.task_id, attempt.number, report.outcome, report.error))
        elif verdict == "CANCELLED":
            self._io.emit(event.LeaseLost(attempt.task_id, attempt.number, answer.get("error") or ""))
        elif report.bare is not None and _log.is_refused(answer):
            self._io.stop_logs()
            report.text, report.bare = report.bare, None
            self.file(report)
            return True
        elif self._files_instead(report, answer):
            return True
        self._io.reported(report, answer, sent)
        return True

    def _files_instead(self, report: Report, answer: Any) -> bool:
        """A report that is refused for what it carries becomes a failure. Whether it did."""
        self._io.emit_rejected(report.attempt, answer)
        if answer["status"] == 409:
            return False
        code, message = answer.get("error") or "", answer.get("message") or ""
        if report.outcome == "RELEASED" and code in ("invalid_argument", "release_unsupported"):
            failure = Failure.infra("the worker shut down before the task was done")
            failure.retryable = True
        elif report.has_riders:
            failure = Failure.permanent(f"the coordinator refused the last steps ({code}): {message}")
        else:
            return False
        self.file(_attempt.failed(report.attempt, self._io.worker_json, failure))
        if report.wants_next:
            self._io.free(report.attempt)
        return True
