"""The checkpoint calls of all durable functions of one worker: calls that wait share one request.

A call is repeated, with the same content and a bound on repetitions, only while nothing was decided about it. A committed
call renews its lease and implies the start; one that ends the attempt must not overtake its start, which would be refused.
Each call gets exactly one `Recording`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _calls, _log
from ._attempt import Attempt
from ._http import AsyncTransport
from ._json import dumps

if TYPE_CHECKING:
    from ._io import Io

#: An answer that does not come must not keep other runs from their next step.
REQUESTS_MAX = 4
#: Below the coordinator's limit of 1 MiB on a body. A larger call travels alone.
BATCH_BYTES_MAX = 768 * 1024
BATCH_ITEMS_MAX = 1000
#: How long a call waits for others, while there are requests in flight anyway.
GATHER_SECONDS = 0.001
TRIES_MAX = 10


@dataclass(slots=True)
class Recording:
    """What became of a call."""

    word: Literal["committed", "lost", "refused", "unanswered"]
    answer: Any = None
    server_time: str = ""
    why: str = ""


@dataclass(slots=True)
class _Pending:
    attempt: Attempt
    members: str
    done: Callable[[Recording], None]
    #: Lines that travel with it, and the number of the last.
    log: str = ""
    last_line: int = 0


class CheckpointCalls:
    """Sends checkpoints; belongs to the I/O thread."""

    def __init__(self, io: Io, transport: AsyncTransport) -> None:
        self._io = io
        self._transport = transport
        self._pending: deque[_Pending] = deque()
        #: Calls of attempts whose start is on its way.
        self._held_back: list[_Pending] = []
        self._in_flight = 0
        self._is_scheduled = False

    def send(self, attempt: Attempt, part: dict[str, Any], done: Callable[[Recording], None]) -> None:
        """Sends one call. `done` is called on this thread."""
        attempt.start_sent = True
        log, last_line = attempt.lease.log.member()
        pending = _Pending(attempt, dumps(part)[1:-1], done, log, last_line)
        if attempt.is_starting:
            self._held_back.append(pending)
        else:
            self._schedule(pending)

    def go_on(self) -> None:
        """Starts were answered: sends the calls that waited for them."""
        held_back, self._held_back = self._held_back, []
        for pending in held_back:
            if pending.attempt.is_starting:
                self._held_back.append(pending)
            else:
                self._schedule(pending)

    def _schedule(self, pending: _Pending) -> None:
        pending.attempt.is_start_implied = True
        self._pending.append(pending)
        if not self._is_scheduled:
            # What comes in the same moment shares a request; beside others, a moment is a little longer.
            self._is_scheduled = True
            self._io.loop.call_later(GATHER_SECONDS if self._in_flight else 0, self._send_batches)

    def fetch(self, call: _calls.Call, done: Callable[[Any, BaseException | None], None]) -> None:
        """Reads something for a durable function."""
        self._io.spawn(self._fetch(call, done))

    async def _fetch(self, call: _calls.Call, done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            done(await self._transport.call(call), None)
        except Exception as error:
            done(None, error)

    def _send_batches(self) -> None:
        self._is_scheduled = False
        while self._pending and self._in_flight < REQUESTS_MAX:
            batch: list[_Pending] = []
            size = 0
            while self._pending and len(batch) < BATCH_ITEMS_MAX:
                size += len(self._pending[0].members) + len(self._pending[0].log)
                if batch and size > BATCH_BYTES_MAX:
                    break
                batch.append(self._pending.popleft())
            self._in_flight += 1
            self._io.spawn(self._deliver(batch)).add_done_callback(self._delivered)

    def _delivered(self, done: asyncio.Future[Any]) -> None:
        self._in_flight -= 1
        self._send_batches()

    async def _deliver(self, batch: list[_Pending]) -> None:
        why = "the coordinator was too busy"
        pause = _calls.BACKOFF_SECONDS_FIRST
        for _ in range(TRIES_MAX + 1):
            batch = [each for each in batch if self._is_wanted(each)]
            if not batch:
                return
            items = ",".join(
                f"{{{self._io.item(each.attempt)}{',' if each.members else ''}{each.members}{each.log}}}"
                for each in batch
            )
            sent = self._io.clock.now()
            answers, server_time = await self._io.call("/v1/checkpoints", f'{{"checkpoints":[{items}]}}', batch)
            undecided = []
            for each, answer in zip(batch, answers, strict=True):
                if answer is None or (answer.get("verdict") is None and answer["status"] in (429, 503)):
                    undecided.append(each)
                elif each.log and _log.is_refused(answer):
                    self._io.stop_logs()
                    each.log = ""
                    undecided.append(each)
                else:
                    if answer.get("verdict") == "COMMITTED":
                        each.attempt.lease.log.arrived(each.last_line)
                    each.done(self._recording(each.attempt, answer, sent, server_time))
            if not undecided:
                return
            if answers[0] is None:
                why = str(self._io.last_error)
            batch = undecided
            await asyncio.sleep(max(pause, self._io.asked_pause()))
            pause = min(2 * pause, _calls.BACKOFF_SECONDS_MAX)
        for each in batch:
            each.done(Recording("unanswered", why=why))

    def _is_wanted(self, pending: _Pending) -> bool:
        """A call of an attempt that was given up meanwhile is not sent again."""
        if pending.attempt.lease.check():
            return True
        pending.done(Recording("lost", why=pending.attempt.lease.lost_because or ""))
        return False

    def _recording(self, attempt: Attempt, answer: Any, sent: float, server_time: str) -> Recording:
        verdict = answer.get("verdict")
        code = answer.get("error") or f"status {answer['status']}"
        if verdict == "COMMITTED":
            attempt.needs_start = False
            if answer.get("leaseExpiresAt") is not None:
                self._io.renewed(attempt, answer, sent, server_time)
            return Recording("committed", answer, server_time)
        if verdict == "CANCELLED":
            return Recording("lost", why=code)
        return Recording("refused", why=f"{code}: {answer.get('message') or ''}")


__all__ = ["CheckpointCalls", "Recording"]
