"""The parts between the two threads of a worker: what is shared by many short tasks, and what each has for itself."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from tenure import Client, Ctx, Worker, _runners, current, task
from tenure._attempt import Attempt, Report
from tenure._lease import Clock, Lease
from tenure._mailbox import Mailbox
from tenure._pool import FIRST_THREADS, Pool
from tenure._runners import Runners
from tenure._starts import START_AFTER_SECONDS, Starts

PATIENCE = 30.0
NOTE: ContextVar[str] = ContextVar("note", default="")


class Hand(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at


def attempt_of(number: int = 1, clock: Clock | None = None, worked: Any = None) -> Attempt:
    envelope = {
        "taskId": f"task_{number}",
        "leaseId": f"lease_{number}",
        "runId": f"run_{number}",
        "taskToken": "t",
        "kind": "word",
        "queue": "words",
        "attempt": 1,
        "heartbeatTimeoutMs": 90_000,
        "heartbeatIntervalMs": 30_000,
    }
    clock = clock or Clock()
    return Attempt(envelope, Lease(clock, envelope, clock.now()), worked)


class Stage:
    """Runners with code that a test gives."""

    def __init__(self, code: Callable[[Attempt], Any]) -> None:
        self.tasks: dict[str, Any] = {}
        self.flushed = 0
        self._code = code
        self.runners = Runners(asyncio.get_running_loop(), self._run, self._flush)

    def _flush(self) -> None:
        self.flushed += 1

    async def _run(self, attempt: Attempt) -> None:
        self.tasks[attempt.task_id] = asyncio.current_task()
        try:
            await self._code(attempt)
        except asyncio.CancelledError:
            self.tasks[attempt.task_id] = "cancelled"


async def until(holds: Callable[[], bool]) -> None:
    """Lets the loop go on until this holds."""
    while not holds():  # noqa: ASYNC110 - nothing here could set an event
        await asyncio.sleep(0)


def test_attempts_that_do_not_wait_share_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runners, "TURN_SECONDS", PATIENCE)

    async def main() -> None:
        async def nothing(attempt: Attempt) -> None: ...

        stage = Stage(nothing)
        for number in range(3):
            stage.runners.add(attempt_of(number))
        await until(lambda: len(stage.tasks) == 3 and stage.flushed > 0)
        assert len(set(stage.tasks.values())) == 1
        assert stage.flushed == 1

    asyncio.run(main())


def test_attempts_that_wait_wait_together() -> None:
    async def main() -> None:
        arrived, everyone = 0, asyncio.Event()

        async def meet(attempt: Attempt) -> None:
            nonlocal arrived
            arrived += 1
            if arrived == 20:
                everyone.set()
            await everyone.wait()

        stage = Stage(meet)
        for number in range(20):
            stage.runners.add(attempt_of(number))
        await asyncio.wait_for(everyone.wait(), PATIENCE)
        assert len(set(stage.tasks.values())) == 20

    asyncio.run(main())


def test_what_an_attempt_leaves_in_its_context_is_not_there_for_the_next() -> None:
    async def main() -> None:
        found = []

        async def note(attempt: Attempt) -> None:
            found.append(NOTE.get())
            NOTE.set(attempt.task_id)

        stage = Stage(note)
        for number in range(3):
            stage.runners.add(attempt_of(number))
        await until(lambda: len(found) == 3)
        assert found == ["", "", ""]

    asyncio.run(main())


def test_a_cancellation_hits_its_attempt_alone() -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def one_waits(attempt: Attempt) -> None:
            if attempt.task_id == "task_1":
                await asyncio.Event().wait()
            if attempt.task_id == "task_2":
                ended.set()

        stage = Stage(one_waits)
        attempts = [attempt_of(number) for number in range(3)]
        for each in attempts:
            stage.runners.add(each)
        await asyncio.wait_for(ended.wait(), PATIENCE)
        assert attempts[0].on_stop is None, "it is over, and what tells it to stop must not reach another one"
        assert attempts[1].on_stop is not None
        attempts[1].on_stop()
        await until(lambda: stage.tasks["task_1"] == "cancelled")
        assert stage.tasks["task_2"] != "cancelled"
        assert stage.tasks["task_0"] != "cancelled"

    asyncio.run(main())


def test_code_that_cancels_itself_takes_its_task_along() -> None:
    async def main() -> None:
        waited = asyncio.Event()

        async def cancel_first(attempt: Attempt) -> None:
            if attempt.task_id == "task_0":
                running = asyncio.current_task()
                assert running is not None
                running.cancel()
            else:
                await asyncio.sleep(0)
                waited.set()

        stage = Stage(cancel_first)
        for number in range(2):
            stage.runners.add(attempt_of(number))
        await asyncio.wait_for(waited.wait(), PATIENCE)

    asyncio.run(main())


class Ended:
    """The I/O thread, as far as the end of an attempt needs it."""

    worker_json = '"w"'
    is_draining = False

    def __init__(self) -> None:
        self.reports: list[Report | None] = []

    def ended(self, attempt: Attempt, report: Report | None) -> None:
        self.reports.append(report)

    ended_later = ended


@pytest.mark.parametrize("reason", ["LeaseLost", "CancelRequested", "time"])
@pytest.mark.parametrize("is_async", [True, False], ids=["loop", "thread"])
def test_code_that_was_told_to_stop_before_it_began_does_not_begin(reason: str, is_async: bool) -> None:
    begun = []

    @task(queue="words")
    async def on_loop() -> None:
        begun.append(1)

    @task(queue="words")
    def in_thread() -> None:
        begun.append(1)

    chosen: Any = on_loop if is_async else in_thread
    worker: Any = Worker(chosen, client=Client("http://127.0.0.1:1", "key"))
    worker._prepare_client()
    worker._io = Ended()
    clock = Hand()
    attempt = attempt_of(clock=clock, worked=chosen)
    if reason == "time":
        clock.at += 89.0
    else:
        attempt.lease.stop(reason)  # type: ignore[arg-type]
    if is_async:
        asyncio.run(worker._run_on_loop(attempt))
    else:
        worker._run_in_thread(attempt)
    [report] = worker._io.reports
    assert begun == []
    assert (report and report.outcome) == ("CANCELLED" if reason == "CancelRequested" else None)


def test_each_attempt_finds_its_own_ctx() -> None:
    found = []

    @task(queue="words")
    async def who() -> None:
        context = current()
        assert isinstance(context, Ctx)
        found.append(context.task_id)

    async def main() -> None:
        worker: Any = Worker(who, client=Client("http://127.0.0.1:1", "key"))
        worker._prepare_client()
        worker._io = Ended()
        runners = Runners(asyncio.get_running_loop(), worker._run_on_loop, lambda: None)
        for number in range(5):
            runners.add(attempt_of(number, worked=who))
        await until(lambda: len(found) == 5)

    asyncio.run(main())
    assert found == [f"task_{number}" for number in range(5)]


class Line:
    """The I/O thread, as far as starts need it."""

    def __init__(self, clock: Hand) -> None:
        self.clock = clock
        self.loop = self
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.sent: list[str] = []

    def call_later(self, delay: float, act: Callable[[], None]) -> Any:
        self.timers.append((self.clock.at + delay, act))
        return self

    def cancel(self) -> None:
        self.timers.pop()

    def spawn(self, work: Any) -> None:
        work.close()
        self.sent.append("starts")

    def go_on(self, seconds: float) -> None:
        self.clock.at += seconds
        due = [act for when, act in self.timers if when <= self.clock.at]
        self.timers = [each for each in self.timers if each[0] > self.clock.at]
        for act in due:
            act()


def test_a_start_is_due_when_the_code_has_run_for_a_moment() -> None:
    line: Any = Line(Hand())
    starts = Starts(line)
    attempt = attempt_of(clock=line.clock)
    attempt.is_begun = True
    starts.send(attempt, line.clock.at, START_AFTER_SECONDS)
    line.go_on(2 * START_AFTER_SECONDS)
    assert line.sent == [], "the code waits for the loop, and was not begun"
    attempt.has_entered = True
    line.go_on(2 * START_AFTER_SECONDS)
    assert line.sent == ["starts"]
    ended = attempt_of(2, line.clock)
    ended.is_begun = ended.has_entered = True
    starts.send(ended, line.clock.at, START_AFTER_SECONDS)
    ended.is_ended = True
    line.go_on(1.0)
    assert line.sent == ["starts"]


def test_what_comes_soon_after_something_else_is_read_without_another_wake_up() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        mailbox = Mailbox(loop, 0.001)
        read: list[int] = []
        wakes = 0
        wake = mailbox._wake

        def counted() -> None:
            nonlocal wakes
            wakes += 1
            wake()

        mailbox._wake = counted  # type: ignore[method-assign]
        mailbox.put_later(read.append, 0)
        assert wakes == 0
        mailbox.flush()
        await asyncio.sleep(0)
        assert (read, wakes) == ([0], 1)
        mailbox.put(read.append, 1)
        mailbox.put(_fail)
        mailbox.put(read.append, 2)
        assert wakes == 1, "the mailbox looks again by itself"
        loop.set_exception_handler(lambda *_: None)
        await until(lambda: read == [0, 1, 2])
        await until(lambda: not mailbox._is_awake)
        mailbox.put(read.append, 3)
        assert wakes == 2, "it found nothing, so it has to be woken"
        await until(lambda: read == [0, 1, 2, 3])

    asyncio.run(main())


def _fail() -> None:
    raise RuntimeError("a call that fails must not keep the others from being made")


def test_a_pool_gives_slow_work_threads_of_its_own() -> None:
    pool = Pool(50)
    everyone = threading.Barrier(20)
    timers: list[Callable[[], None]] = []

    def later(seconds: float, act: Callable[[], None]) -> None:
        timers.append(act)

    met = threading.Semaphore(0)

    def meet() -> None:
        everyone.wait(PATIENCE)
        met.release()

    pool.submit_many([meet] * 20, later)
    assert pool._threads <= FIRST_THREADS, "quick work needs no more"
    while timers:
        timers.pop()()
    for _ in range(20):
        assert met.acquire(timeout=PATIENCE)
    pool.close()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 has no eager tasks")
def test_a_loop_with_eager_tasks_runs_them_too() -> None:
    async def main() -> None:
        factory: Any = getattr(asyncio, "eager_task_factory", None)
        asyncio.get_running_loop().set_task_factory(factory)

        async def wait_a_moment(attempt: Attempt) -> None:
            await asyncio.sleep(0)

        stage = Stage(wait_a_moment)
        for number in range(5):
            stage.runners.add(attempt_of(number))
        await until(lambda: len(stage.tasks) == 5 and stage.flushed > 0)

    asyncio.run(main())
