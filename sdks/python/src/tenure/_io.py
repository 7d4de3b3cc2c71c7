"""The thread `tenure-io`: polls, starts, heartbeats, reports and checkpoints of one worker, on a loop of its own.

User code cannot block it, except by keeping the interpreter lock. It hands envelopes over in batches and takes results
from a queue; nothing per task takes a lock that user threads share.

    poll ──envelopes──▶ begin(...)          the worker runs the code
    inbox ◀──reports, checkpoints──         from threads and loops of user code
    tick (100 ms): heartbeats that are due, leases that time has ended, code that was told and goes on

At most: 1 poll, 1 batch of heartbeats, 1 batch of reports, 4 of starts and 4 of checkpoints are in flight.
"""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

from . import _attempt, _calls, _log, _starts, event
from ._announcement import Announcement
from ._attempt import Attempt, Batch, Report
from ._calls import Call, Settings
from ._checkpoint_calls import CheckpointCalls
from ._http import AsyncTransport
from ._lease import ANSWER_SECONDS_MIN, Clock, Lease
from ._mailbox import Mailbox
from ._reports import Reports
from ._starts import Starts
from ._voice import voice
from .errors import Refused, TenureError
from .failure import Failure
from .options import Left
from .task import Task

TICK_SECONDS = 0.1
#: A tick that comes this much later was kept from running.
PAUSE_SECONDS = 0.5
#: What code says within this time after something else is read together with it.
INBOX_SECONDS = 0.001
#: Free slots wait this long for others, so that one poll asks for all of them.
GATHER_SECONDS = 0.001
#: After this time without a free slot, a poll listens for signals alone.
FULL_SECONDS = 1.0
POLL_LEASES_MAX = 256
#: More reports than this wait only if the coordinator is slow; then polling waits too.
REPORTS_MAX = 1000
BATCH_ITEMS_MAX = 1000
TRIES_MAX = 10
BEGIN_SLOTS = 8
QUICK_SECONDS = 0.05
TELL_SECONDS = 60.0


class Answers(NamedTuple):
    """The answers of a call with many items."""

    #: None where nothing was decided.
    items: list[Any]
    server_time: str


class Host(Protocol):
    """The worker, as the I/O thread knows it. All of it is called on that thread and must not block."""

    tasks: dict[str, Task[..., Any]]

    def begin(self, attempts: list[Attempt]) -> None:
        """Runs the code of these attempts."""

    def told(self, attempt: Attempt) -> None:
        """The attempt must stop."""

    def forced(self, attempt: Attempt) -> None:
        """The code was told, had its time, and goes on."""

    def emit(self, what: event.WorkerEvent) -> None:
        """Tells the user."""

    def over(self, error: BaseException | None) -> None:
        """The thread has ended."""


class Io(threading.Thread):
    """Everything that one worker sends."""

    def __init__(
        self,
        host: Host,
        settings: Settings,
        *,
        name: str,
        queues: list[str],
        concurrency: int | None,
        slots_max: int,
        cleanup_timeout: float,
        announcement: Announcement,
        takes_logs: bool,
    ) -> None:
        super().__init__(name="tenure-io", daemon=True)
        self._host = host
        self._settings = settings
        self._queues = queues
        self._announcement = announcement
        #: Lines are plain text, which a worker with a codec does not send.
        self._takes_logs = takes_logs
        self.worker_id = name
        #: The worker id as JSON, for texts that are put together.
        self.worker_json = json.dumps(name)
        self.clock = Clock()
        self._slots = concurrency or min(BEGIN_SLOTS, slots_max)
        self._slots_max = concurrency or slots_max
        self._cleanup_timeout = cleanup_timeout
        self._active = 0
        self._held: dict[str, Attempt] = {}
        self.loop = asyncio.new_event_loop()
        self._inbox = Mailbox(self.loop, INBOX_SECONDS)
        self._starts = Starts(self)
        self.last_error: BaseException | None = None
        self.is_draining = False
        #: Whether a poll is open that may be granted something.
        self._is_polling = False
        self._error: BaseException | None = None
        self._told_at = -TELL_SECONDS
        self._ready = threading.Event()
        self._spawned: set[asyncio.Task[Any]] = set()

    @property
    def slots(self) -> int:
        """How many attempts it may hold now."""
        return self._slots

    # Called from any thread.

    def post(self, act: Callable[..., None], *args: Any) -> None:
        """Lets the I/O thread do something soon. Many calls share one wake-up."""
        self._inbox.put(act, *args)

    def ended(self, attempt: Attempt, report: Report | None) -> None:
        """The code of an attempt has ended, with this report or without one."""
        self.post(self.end, attempt, report)

    def ended_later(self, attempt: Attempt, report: Report | None) -> None:
        """The same, if `flush` follows soon."""
        self._inbox.put_later(self.end, attempt, report)

    def flush(self) -> None:
        """Lets the I/O thread know of what has ended."""
        self._inbox.flush()

    def drain(self, deadline: float | None) -> None:
        """Ends: no more polls; code has until `deadline`, then it is told."""
        self.post(self._drain, deadline)

    # The thread.

    def run(self) -> None:
        """Serves until it is drained."""
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as error:
            self._error = self._error or error
        finally:
            self._ready.set()
            try:
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            finally:
                self.loop.close()
            self._host.over(self._error)

    def start_and_wait(self) -> None:
        """Starts the thread; returns when it can be posted to."""
        self.start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._transport = AsyncTransport(self._settings)
        self.checkpoints = CheckpointCalls(self, self._transport)
        self._slot_freed = asyncio.Event()
        self.reports = Reports(self)
        self._beat_now = asyncio.Event()
        self._drained = asyncio.Event()
        self._drain_begun = asyncio.Event()
        self._drain_deadline: float | None = None
        self._next_tick = self.clock.now()
        self._ready.set()
        loops: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(each) for each in (self._poll_loop(), self.reports.deliver(), self._beat_loop())
        ]
        drained = asyncio.ensure_future(self._drained.wait())
        try:
            await asyncio.wait([*loops, drained], return_when=asyncio.FIRST_COMPLETED)
            for each in loops:
                if each.done() and not each.cancelled() and each.exception() is not None:
                    self._error = self._error or each.exception()
            if not self._drained.is_set() and self._error is None:
                await self._drained.wait()
        finally:
            for each in loops:
                each.cancel()
            drained.cancel()
            await asyncio.gather(*loops, drained, return_exceptions=True)
            await self._transport.close()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Does something on this thread's loop, and keeps hold of it until it is done."""
        task = self.loop.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)
        return task

    # Polls.

    async def _poll_loop(self) -> None:
        while not self.is_draining:
            if not await self._has_room():
                await self._listen()
                continue
            if self._active:
                await asyncio.sleep(GATHER_SECONDS)
            asked = min(self._slots - self._active, POLL_LEASES_MAX)
            if asked > 0 and not self.is_draining:
                self._is_polling = True
                await self._poll(asked)
                self._is_polling = False
        await asyncio.Event().wait()  # the drain decides when the thread ends

    async def _has_room(self) -> bool:
        """Waits a moment for a free slot."""
        if self._active < self._slots and len(self.reports) < REPORTS_MAX:
            return True
        self._slot_freed.clear()
        try:
            async with asyncio.timeout(FULL_SECONDS):
                await self._slot_freed.wait()
        except TimeoutError:
            return False
        return self._active < self._slots and len(self.reports) < REPORTS_MAX

    async def _poll(self, most: int) -> None:
        poll_id = uuid.uuid4().hex
        answer, sent = await self._until_drained(self._polled(most, poll_id))
        if answer is None:  # the drain began: what the open poll was granted is handed back
            answer, sent = await self._polled(most, poll_id, wait_ms=0, tries=TRIES_MAX)
        if answer is not None:
            self._granted(answer, sent, most)

    async def _listen(self) -> None:
        """Every slot is taken: a poll for nothing but signals, until a slot is free."""
        poll = asyncio.ensure_future(self._polled(0, uuid.uuid4().hex))
        freed = asyncio.ensure_future(self._slot_freed.wait())
        drain = asyncio.ensure_future(self._drain_begun.wait())
        self._slot_freed.clear()
        await asyncio.wait([poll, freed, drain], return_when=asyncio.FIRST_COMPLETED)
        for each in (freed, drain):
            each.cancel()
        if poll.done():
            answer, sent = poll.result()
            if answer is not None:
                self._granted(answer, sent, 0)
        else:
            poll.cancel()
            await asyncio.gather(poll, return_exceptions=True)

    async def _until_drained(self, polled: Any) -> Any:
        poll = asyncio.ensure_future(polled)
        drain = asyncio.ensure_future(self._drain_begun.wait())
        await asyncio.wait([poll, drain], return_when=asyncio.FIRST_COMPLETED)
        drain.cancel()
        if poll.done():
            return poll.result()
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        return None, 0.0

    async def _polled(
        self, most: int, poll_id: str, wait_ms: int = _calls.WAIT_MS_MAX, tries: int | None = None
    ) -> tuple[Any, float]:
        """Repeats one poll, with the same id and bytes, until it is answered."""
        body = {
            "workerId": self.worker_id,
            "queues": self._queues,
            "max": most,
            "waitMs": wait_ms,
            "pollId": poll_id,
        }
        pause = _calls.BACKOFF_SECONDS_FIRST
        while tries is None or tries > 0:
            tries = None if tries is None else tries - 1
            sent = self.clock.now()
            address = self._transport.address
            call = _calls.post("/v1/leases", {**body, **self._announcement.members(address)}, wait_ms=wait_ms)
            try:
                answer = await self._transport.call_once(call)
                self._announcement.answered(address, answer)
                return answer, sent
            except Refused as error:
                if self._announcement.is_refused(address, error):
                    continue
                if error.status in (401, 403):
                    self.fail(error)
                    return None, sent
                if not error.retryable:
                    self.emit(event.Rejected(None, error.code or "", error.detail))
                    if tries is not None:  # a drain: what is refused for good was granted nothing
                        return None, sent
                asked = min(error.retry_after or 0.0, _calls.RETRY_AFTER_SECONDS_MAX)
                if error.status != 429:
                    self._transport.move_past(address)
                self._tell_unreachable(error)
                await asyncio.sleep(max(pause, asked))
            except TenureError as error:
                self._transport.move_past(address)
                self._tell_unreachable(error)
                await asyncio.sleep(pause)
            pause = min(2 * pause, _calls.BACKOFF_SECONDS_MAX)
        return None, 0.0

    def fail(self, error: BaseException) -> None:
        """The worker may not go on: it drains and ends with the error."""
        self._error = self._error or error
        self._drain(None)

    def _tell_unreachable(self, error: TenureError) -> None:
        now = self.clock.now()
        if now >= self._told_at + TELL_SECONDS:
            self._told_at = now
            voice.warning("the coordinator grants no work: %s; trying again", error)
            self.emit(event.Unreachable(str(error)))

    def _granted(self, answer: Any, sent: float, asked: int) -> None:
        for signal in answer.get("signals") or ():
            self._beat_soon(signal["taskId"])
        leases = [each for each in answer["leases"] if each["leaseId"] not in self._held]
        if not leases:
            return
        now = self.clock.now()
        batch = Batch(min(len(leases), asked), len(leases) >= asked, now)
        begun: list[Attempt] = []
        for place, envelope in enumerate(leases):
            attempt = self._hold(envelope, sent, now)
            if place >= asked or self.is_draining:
                self.end(attempt, _attempt.released(attempt, self.worker_json))
                continue
            attempt.batch = batch
            if self._may_begin(attempt, now):
                begun.append(attempt)
        if begun:
            self._host.begin(begun)

    def _hold(self, envelope: Any, sent: float, now: float, is_next_stage: bool = False) -> Attempt:
        lease = Lease(self.clock, envelope, sent, now, self._takes_logs)
        attempt = Attempt(envelope, lease, self._host.tasks.get(envelope["kind"]), is_next_stage)
        self._held[envelope["leaseId"]] = attempt
        self._active += 1
        return attempt

    def _may_begin(self, attempt: Attempt, now: float) -> bool:
        """Whether the code may begin at once. If not, a heartbeat or a start goes first."""
        if attempt.task is None:
            failure = Failure.config(f"this worker has no task for kind `{attempt.kind}`")
            self.end(attempt, _attempt.failed(attempt, self.worker_json, failure))
            return False
        if not attempt.lease.is_proven:
            self._beat_now.set()
            return False
        if attempt.needs_start:
            self._starts.send(attempt, now)
            return False
        self._begun(attempt, now)
        return True

    def _begun(self, attempt: Attempt, now: float) -> None:
        attempt.is_begun = True
        attempt.begun_at = now
        if attempt.timeout_at is not None:
            attempt.timeout_at += now
        if not attempt.start_sent and not attempt.is_next_stage:
            self._starts.send(attempt, now, _starts.START_AFTER_SECONDS)

    def begin_if_ready(self, attempt: Attempt) -> None:
        """After an answer that was waited for."""
        if attempt.is_begun or attempt.is_ended or not attempt.lease.is_proven or not attempt.lease.check():
            return
        if attempt.needs_start:
            if not attempt.start_sent:
                self._starts.send(attempt, self.clock.now())
            return
        self._begun(attempt, self.clock.now())
        self._host.begin([attempt])

    # Calls with many items.

    def item(self, attempt: Attempt) -> str:
        return (
            f'"taskId":"{attempt.task_id}","taskToken":"{attempt.lease.token}","attempt":{attempt.number},'
            f'"workerId":{self.worker_json}'
        )

    async def call(self, path: str, body: str, batch: Sequence[Any], timeout: float | None = None) -> Answers:
        """One try of a call with many items: the answer of each, or None where nothing was decided."""
        # Whatever text an item has: one that is no Unicode must not cost the leases of the others.
        call = Call("POST", path, body.encode("utf-8", "replace"), timeout=timeout or _calls.ANSWER_SECONDS)
        address = self._transport.address
        try:
            answer = await self._transport.call_once(call)
            if len(answer["answers"]) != len(batch):
                raise Failure("the answers do not match the items")
        except (TenureError, KeyError, TypeError) as error:
            if not (isinstance(error, Refused) and error.status == 429):
                self._transport.move_past(address)
            self.last_error = error
            if isinstance(error, Refused) and not error.retryable:
                refused = {
                    "status": error.status,
                    "verdict": "REJECTED",
                    "error": error.code,
                    "message": error.detail,
                    "field": error.field,
                }
                return Answers([refused] * len(batch), "")
            return Answers([None] * len(batch), "")
        return Answers(answer["answers"], answer.get("serverTime") or "")

    def asked_pause(self) -> float:
        """How long the coordinator asked to wait, in its last refusal."""
        asked = getattr(self.last_error, "retry_after", None) or 0.0
        return float(min(asked, _calls.RETRY_AFTER_SECONDS_MAX))

    # Heartbeats and the clock.

    def _beat_soon(self, task_id: str) -> None:
        """A hint that the next heartbeat brings news."""
        for attempt in self._held.values():
            if attempt.task_id == task_id:
                attempt.lease.next_beat = 0.0
                self._beat_now.set()

    async def _beat_loop(self) -> None:
        while True:
            self._tick()
            now = self.clock.now()
            due = [each for each in self._held.values() if self._is_beating(each) and each.lease.is_due(now)]
            if due:
                await self._beat(due[:BATCH_ITEMS_MAX])
                continue
            self._beat_now.clear()
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._beat_now.wait()
            except TimeoutError:
                pass

    def _is_beating(self, attempt: Attempt) -> bool:
        return not attempt.is_ended and attempt.lease.stop_reason != "LeaseLost"

    async def _beat(self, batch: list[Attempt]) -> None:
        sent = self.clock.now()
        items = ",".join(self._beat_item(attempt, sent) for attempt in batch)
        patience = max(min(each.lease.interval for each in batch), ANSWER_SECONDS_MIN)
        body = f'{{"heartbeats":[{items}]}}'
        ticking = asyncio.ensure_future(self.call("/v1/heartbeats", body, batch, patience))
        while not ticking.done():  # time goes on while the answer is on its way
            await asyncio.wait([ticking], timeout=TICK_SECONDS)
            self._tick()
        answers = ticking.result()
        for attempt, answer in zip(batch, answers.items, strict=True):
            self._beat_answered(attempt, answer, sent, answers.server_time)

    def _beat_item(self, attempt: Attempt, sent: float) -> str:
        lease = attempt.lease
        lease.sent_beat = sent
        lease.news = False
        members: dict[str, Any] = {}
        if lease.progress is not None:
            percent, message = lease.progress
            members = {"progressPct": percent, "message": message}
        if lease.spent is not None:
            members["spend"] = lease.spent.to_json()
        said = {name: value for name, value in members.items() if value is not None}
        extra = _attempt._quoted(said)[1:-1] if said else ""
        log, attempt.lines_sent = lease.log.member()
        return f"{{{self.item(attempt)}{',' + extra if extra else ''}{log}}}"

    def _beat_answered(self, attempt: Attempt, answer: Any, sent: float, server_time: str) -> None:
        lease = attempt.lease
        verdict = answer.get("verdict") if answer else None
        if verdict == "COMMITTED":
            lease.log.arrived(attempt.lines_sent)
            lease.news = lease.news or lease.log.has_more()
            self.renewed(attempt, answer, sent, server_time)
            self.begin_if_ready(attempt)
        elif verdict == "CANCELLED":
            self.lose(attempt, answer.get("error") or "the coordinator ended the lease")
        elif attempt.lines_sent and _log.is_refused(answer):
            self.stop_logs()
            lease.unanswered()
        elif verdict == "REJECTED":
            lease.next_beat = sent + lease.interval
            self.emit_rejected(attempt, answer)
        else:
            lease.unanswered()

    def stop_logs(self) -> None:
        """The coordinator does not know of lines: it gets none any more."""
        self._takes_logs = False
        for attempt in self._held.values():
            attempt.lease.log.turn_off()

    def renewed(self, attempt: Attempt, answer: Any, sent: float, server_time: str) -> None:
        """A heartbeat or checkpoint was committed."""
        lease = attempt.lease
        lease.renewed(sent, answer.get("leaseExpiresAt"), server_time)
        if answer.get("taskToken"):
            lease.token = answer["taskToken"]
        if "left" in answer:
            lease.left = Left.from_json(answer["left"])
        if answer.get("shouldCancel"):
            lease.cancel_reason = answer.get("cancelReason")
            self._stop(attempt, "CancelRequested")

    def _tick(self) -> None:
        self._inbox.read()  # what waits for a flush that code keeps from happening
        now = self.clock.now()
        late = now - self._next_tick
        self._next_tick = now + TICK_SECONDS
        if late > PAUSE_SECONDS:
            self._tell_pause(late)
        is_time = self._drain_deadline is not None and now >= self._drain_deadline
        for attempt in list(self._held.values()):
            if not attempt.is_ended:
                self._check(attempt, now, is_time)
        if self.is_draining and not self._is_polling and not self._held and not self.reports:
            self._drained.set()

    def _check(self, attempt: Attempt, now: float, is_time: bool) -> None:
        lease = attempt.lease
        if lease.stop_reason == "LeaseLost" or not lease.check():
            self.lose(attempt, lease.lost_because or "")
        elif is_time:
            self._stop(attempt, "ShuttingDown")
        elif attempt.is_begun and attempt.timeout_at is not None and now >= attempt.timeout_at:
            self._stop(attempt, "TimedOut")
        if attempt.forced_at is not None and now >= attempt.forced_at and not attempt.is_stuck:
            attempt.is_stuck = True
            self._host.forced(attempt)

    def _stop(self, attempt: Attempt, reason: Any) -> None:
        lease = attempt.lease
        if lease.stop_reason is None or reason == "LeaseLost":
            lease.stop(reason)
        if not attempt.is_begun:
            self._never_begun(attempt, reason)
            return
        if lease.stop_reason != "CancelRequested" and attempt.forced_at is None:
            attempt.forced_at = self.clock.now() + self._cleanup_timeout
        if not attempt.was_told or reason == "LeaseLost":
            attempt.was_told = True
            self._host.told(attempt)

    def _never_begun(self, attempt: Attempt, reason: str) -> None:
        if reason == "LeaseLost":
            self.end(attempt, None)
        elif reason == "CancelRequested":
            self.end(attempt, _attempt.cancelled(attempt, self.worker_json))
        else:
            self.end(attempt, _attempt.released(attempt, self.worker_json))

    def lose(self, attempt: Attempt, why: str) -> None:
        attempt.lease.lose(why)
        if not attempt.is_ended and not (
            attempt.was_told and attempt.lease.stop_reason == "LeaseLost" and attempt.is_stuck
        ):
            self._stop(attempt, "LeaseLost")

    def _tell_pause(self, seconds: float) -> None:
        kinds = tuple(sorted({each.kind for each in self._held.values() if each.is_begun}))
        voice.warning(
            "code kept the interpreter lock for %.1f s, so no heartbeat could be sent (running: %s); "
            "declare such a task with isolate=True",
            seconds,
            ", ".join(kinds) or "none",
        )
        self.emit(event.Paused(seconds, kinds))

    # Ends.

    def end(self, attempt: Attempt, report: Report | None) -> None:
        """The code of an attempt has ended. Only on this thread."""
        if attempt.is_ended:
            return
        # A resumed process may be the first to notice that the time is over.
        if report is not None and not attempt.lease.check():
            report = None
        attempt.is_ended = True
        if report is None:
            if attempt.lease.stop_reason == "LeaseLost":
                why = attempt.lease.lost_because or ""
                self.emit(event.LeaseLost(attempt.task_id, attempt.number, why))
            self._release(attempt)
            return
        self.reports.file(report)
        if not report.wants_next:
            self.free(attempt)

    def reported(self, report: Report, answer: Any, sent: float) -> None:
        """Something was decided about a report. The answer may bring the next stage of its task."""
        attempt = report.attempt
        self._held.pop(attempt.envelope["leaseId"], None)
        following = answer.get("next") if answer else None
        if report.wants_next:
            self.free(attempt)
        if following is None or following["leaseId"] in self._held:
            return
        now = self.clock.now()
        stage = self._hold(following, sent, now, is_next_stage=True)
        if self._may_begin(stage, now):
            self._host.begin([stage])

    def free(self, attempt: Attempt) -> None:
        """Nothing executes any more, so another attempt may use the slot."""
        self._active -= 1
        self._slot_freed.set()
        batch = attempt.batch
        if batch is None:
            return
        batch.left -= 1
        is_quick = batch.left == 0 and self.clock.now() - batch.granted_at <= QUICK_SECONDS
        if is_quick and batch.is_full:
            self._slots = min(2 * self._slots, self._slots_max)

    def _release(self, attempt: Attempt) -> None:
        """The attempt is over, and needs its slot no longer."""
        self._held.pop(attempt.envelope["leaseId"], None)
        self.free(attempt)

    def emit(self, what: event.WorkerEvent) -> None:
        """Tells the user."""
        self._host.emit(what)

    def emit_rejected(self, attempt: Attempt, answer: Any) -> None:
        """The coordinator refused a call, which is a bug."""
        code, message = answer.get("error") or f"status {answer['status']}", answer.get("message") or ""
        voice.error("the coordinator refused a call for %s (%s): %s", attempt.task_id, code, message)
        self.emit(event.Rejected(attempt.task_id, code, message))

    # Drain.

    def _drain(self, deadline: float | None) -> None:
        """With `None` the code is told at once."""
        self.is_draining = True
        now = self.clock.now()
        self._drain_deadline = now if deadline is None else min(deadline, self._drain_deadline or deadline)
        self._drain_begun.set()
        self._beat_now.set()
