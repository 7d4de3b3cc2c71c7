"""Against a real server: workers as processes of their own, killed and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tenure import AsyncClient, Budget, Client, Cron, Every, NewRun, Plan, PlanStep, RunFailed, Task
from tenure._server import Server
from tenure.errors import OutputUnreadable, Refused, TimedOut, Unreachable

T = TypeVar("T")
TASKS = Path(__file__).parent / "tasks.py"
#: Long for a quiet machine; the test machine is not quiet.
PATIENCE = 60.0


@dataclass
class Running:
    """A worker process, and the tasks of its queue."""

    process: subprocess.Popen[bytes]
    queue: str
    client: Client

    def task(self, name: str) -> Task[..., Any]:
        import tasks

        found: Task[..., Any] = getattr(tasks, name)
        return found.options(queue=self.queue)

    def submit(self, name: str, *args: Any) -> Any:
        return self.client.submit(self.task(name), *args)

    def result(self, name: str, *args: Any) -> Any:
        return self.submit(name, *args).result(timeout=PATIENCE)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)


@contextmanager
def running(server: Server, queue: str, **variables: str) -> Iterator[Running]:
    environment = {**server.environment, "TEST_QUEUE": queue, **variables}
    process = subprocess.Popen([sys.executable, str(TASKS)], env=environment)
    try:
        yield Running(process, queue, server.client())
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def worker(tenure_server: Server) -> Iterator[Running]:
    with running(tenure_server, "shared") as started:
        yield started


def eventually(condition: Callable[[], T]) -> T:
    """Waits for a condition, and returns what made it true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not become true")


def test_tasks_run_in_threads_and_on_the_loop(worker: Running) -> None:
    assert worker.result("greet", "Ada") == "Hello, Ada!"
    assert worker.result("agreet", "Ada", "?") == "Hello, Ada?"


def test_many_are_submitted_in_one_call(worker: Running) -> None:
    greet = worker.task("greet")
    runs = worker.client.submit_many([NewRun(greet, str(n)) for n in range(50)])
    handles = [run for run in runs if not isinstance(run, Exception)]
    assert [handle.result(timeout=PATIENCE) for handle in handles] == [f"Hello, {n}!" for n in range(50)]
    long_name = worker.task("greet").options(labels={"l": "x" * 300})
    refused = worker.client.submit_many([NewRun(greet, "a"), NewRun(long_name, "b")])
    assert isinstance(refused[1], Refused)


def test_the_asynchronous_client_shares_submissions(worker: Running, tenure_server: Server) -> None:
    async def all_of_them() -> list[Any]:
        async with AsyncClient(tenure_server.url, tenure_server.api_key) as client:
            greet = worker.task("agreet")

            async def one(n: int) -> Any:
                return await (await client.submit(greet, str(n))).result(timeout=PATIENCE)

            return await asyncio.gather(*(one(n) for n in range(64)))

    assert asyncio.run(all_of_them()) == [f"Hello, {n}!" for n in range(64)]


def test_the_same_key_is_the_same_run(worker: Running) -> None:
    key = uuid.uuid4().hex
    greet = worker.task("greet").options(idempotency_key=key)
    first, second = worker.client.submit(greet, "Ada"), worker.client.submit(greet, "Ada")
    assert first.id == second.id
    assert (first.replayed, second.replayed) == (False, True)
    with pytest.raises(Refused) as refused:
        worker.client.submit(greet, "Bob")
    assert refused.value.code == "idempotency_key_reused"
    assert "its own idempotency key" in str(refused.value)


@pytest.mark.parametrize(
    ("how", "category"),
    [
        ("permanent", "USER_CODE"),
        ("data", "DATA_QUALITY"),
        ("config", "CONFIGURATION"),
    ],
)
def test_failures_keep_their_category(worker: Running, how: str, category: str) -> None:
    with pytest.raises(RunFailed, match=f"a {how} failure") as failed:
        worker.result("fails", how)
    assert (failed.value.category, failed.value.attempt, failed.value.state) == (category, 1, "failed")


def test_an_exception_is_user_code_with_its_stack(worker: Running) -> None:
    once = worker.task("fails").options(max_attempts=1)
    with pytest.raises(RunFailed, match="ValueError: not a number") as failed:
        worker.client.submit(once, "own").result(timeout=PATIENCE)
    assert failed.value.category == "USER_CODE"
    assert 'raise ValueError("not a number")' in (failed.value.stack_trace or "")


def test_an_output_without_a_json_form_fails_for_good(worker: Running) -> None:
    with pytest.raises(RunFailed, match="RESULT_UNWRITABLE") as failed:
        worker.result("not_a_number")
    assert failed.value.attempt == 1


def test_a_wrong_input_is_named(worker: Running) -> None:
    run = worker.client.submit("greet", {"name": 7}, queue=worker.queue)
    with pytest.raises(RunFailed, match="expected text") as failed:
        run.result(timeout=PATIENCE)
    assert failed.value.category == "DATA_QUALITY"


def test_an_unreadable_output_names_its_place(worker: Running) -> None:
    run = worker.submit("greet", "Ada")
    run.wait(timeout=PATIENCE)
    with pytest.raises(OutputUnreadable, match="expected an integer"):
        worker.client.run(run.id, int).result(timeout=PATIENCE)


def test_a_run_that_takes_too_long_is_left_alone(worker: Running) -> None:
    run = worker.submit("slow", 600)
    with pytest.raises(TimedOut):
        run.result(timeout=0.2)
    run.cancel(reason="test")
    ended = run.wait(timeout=PATIENCE)
    assert ended["state"] == "cancelled"


def test_cancel_reaches_a_thread_soon(worker: Running) -> None:
    """S4-35: the phase of the code stands in the record."""
    run = worker.submit("slow", 600)
    eventually(lambda: run.status()["state"] == "running")
    run.cancel(reason="enough")
    assert run.wait(timeout=PATIENCE)["state"] == "cancelled"


def test_a_blocked_loop_keeps_its_lease(worker: Running) -> None:
    """S3-66: with a lease of 6 s, a loop that is blocked for 3 s keeps it."""
    run = worker.submit("blocks_the_loop", 3.0)
    assert run.result(timeout=PATIENCE) == "kept"
    assert run.status()["attempt"] == 1


def test_a_budget_is_spent_and_seen(worker: Running) -> None:
    spends = worker.task("spends").options(budget=Budget(tokens=1000))
    run = worker.client.submit(spends, 400)
    assert run.result(timeout=PATIENCE) == 1000
    budget = run.status().get("budget")
    assert budget is not None
    assert budget["used"]["tokens"] == 400


def test_isolated_tasks_have_a_process(worker: Running) -> None:
    first, second = worker.result("isolated", "run"), worker.result("isolated", "run")
    assert first == second, "the child is kept warm"
    assert first != worker.process.pid


def test_an_isolated_crash_fails_the_attempt_alone(worker: Running) -> None:
    once = worker.task("isolated").options(max_attempts=1)
    with pytest.raises(RunFailed, match="exit code 7") as failed:
        worker.client.submit(once, "crash").result(timeout=PATIENCE)
    assert failed.value.category == "INFRASTRUCTURE"
    assert worker.result("greet", "still here") == "Hello, still here!"


def test_an_isolated_task_is_told_to_stop(worker: Running) -> None:
    run = worker.submit("isolated", "hang")
    eventually(lambda: (run.status().get("lease") or {}).get("message") == "half way")
    run.cancel()
    assert run.wait(timeout=PATIENCE)["state"] in ("cancelled", "succeeded")


def test_a_plan_runs_its_stages(worker: Running) -> None:
    plan = Plan([PlanStep("one", worker.task("greet"), "Ada"), PlanStep("two", worker.task("agreet"), {"name": "Bob"})])
    run = worker.client.submit(plan)
    ended = run.wait(timeout=PATIENCE)
    assert ended["state"] == "succeeded", ended
    assert [stage["state"] for stage in ended["plan"]] == ["succeeded", "succeeded"]
    graph = Plan([PlanStep("one", worker.task("greet"), "Ada"), PlanStep("two", worker.task("greet"), "B", ["one"])])
    run = worker.client.submit(graph)
    run.wait(timeout=PATIENCE)
    assert [stage["state"] for stage in run.plan()] == ["succeeded", "succeeded"]


def test_a_schedule_fires(worker: Running) -> None:
    name = f"s-{uuid.uuid4().hex[:8]}"
    schedules = worker.client.schedules
    made = schedules.create(name, Every(seconds=1), worker.task("greet"), "clock")
    assert made["everyMs"] == 1000
    fired = schedules.trigger(name)
    assert worker.client.run(fired["runId"], str).result(timeout=PATIENCE) == "Hello, clock!"
    schedules.update(name, Cron("0 3 * * *", time_zone="Europe/Berlin"))
    assert len(schedules.preview(name, 2)) == 2
    assert schedules.pause(name)["state"] == "paused"
    assert schedules.delete(name)["state"] == "deleted"


def test_resources_answer(worker: Running) -> None:
    client = worker.client
    run = worker.submit("greet", "Ada")
    run.result(timeout=PATIENCE)
    # The coordinator writes down who works a moment after it granted the first work.
    end = time.monotonic() + PATIENCE
    while not any(each["workerId"] for each in client.workers.list()):
        assert time.monotonic() < end, "the worker is not listed"
        time.sleep(0.05)
    assert client.queues.pause("paused-queue", reason="test")["queue"] == "paused-queue"
    client.queues.resume("paused-queue")
    secret = client.endpoints.create("crm", "http://127.0.0.1:9/", types=["run.failed"])["secret"]
    assert secret.startswith("whsec_")
    assert client.endpoints.rotate("crm")["secret"] != secret
    assert [each["name"] for each in client.endpoints.list()] == ["crm"]
    client.endpoints.delete("crm")
    key = client.keys.create(["reader"], name="r")
    assert client.keys.revoke(key["key"]["keyId"])["revokedAt"]
    assert client.version()["version"]
    session = client.session()
    assert "client" in session["roles"]
    assert client.console_code()["path"].startswith("/console")
    assert run.id in [each["runId"] for each in client.runs(queue=worker.queue, state="succeeded")]
    assert run.record()["state"] == "succeeded"
    assert run.explain()["runId"] == run.id
    assert [entry["kind"] for entry in run.history()]
    assert run.logs() == []
    assert client.set_aside.get()["tasks"] == []
    assert client.keys.rotate_signing()["kid"] != client.keys.rotate_signing()["kid"]
    assert list(client.approvals.list()) == []
    assert client.audit.verify()["findings"] == []


def test_a_durable_function_goes_on_after_each_kill(tenure_server: Server, tmp_path: Path) -> None:
    """S2-90, S4-74: three workers die, and the customer is charged under one key."""
    journal = tmp_path / "journal"
    with running(tenure_server, "kills") as first:
        run = first.submit("order", str(journal))
        eventually(journal.exists)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    with running(tenure_server, "kills") as second:
        eventually(lambda: run.status()["state"] == "waiting")
        second.process.send_signal(signal.SIGKILL)
        second.process.wait()
    run.signal("approve", "Ann")
    with running(tenure_server, "kills"):
        expected = "mailed receipt 1 by Ann: Hello, Ada!, Hello, Bob!; late"
        assert run.result(timeout=PATIENCE) == expected
    keys = [step["key"] for step in run.steps() if step["kind"] == "STEP"]
    assert keys == ["charge#1", "mail#1"]
    executions = [line.split() for line in journal.read_text().splitlines()]
    assert len({key for _, key, _ in executions}) == 1
    assert [int(fence) for _, _, fence in executions] == sorted(int(fence) for _, _, fence in executions)


def test_two_hundred_steps_are_recorded_in_order(worker: Running) -> None:
    run = worker.submit("steps", 200)
    assert run.result(timeout=PATIENCE) == sum(range(200))
    assert len(run.steps()) == 200


def test_changed_code_parks_the_run_until_other_code_comes(tenure_server: Server) -> None:
    with running(tenure_server, "changes") as old:
        run = old.submit("changed", None)
        eventually(lambda: run.status()["state"] == "waiting")
    run.signal("go")
    with running(tenure_server, "changes", TEST_CHANGED="1"):
        found = eventually(lambda: (run.status().get("durable") or {}).get("waiting", {}).get("diverged"))
        assert found["recorded"] == "old#1"
        assert found["actual"].startswith("new#1 (tasks.py:")
    with running(tenure_server, "changes"):
        run.resume()
        assert run.result(timeout=PATIENCE) == "old"


def test_a_killed_worker_loses_its_lease_and_another_goes_on(tenure_server: Server) -> None:
    with running(tenure_server, "takeover") as first:
        run = first.submit("slow", 1.0)
        eventually(lambda: run.status().get("startedAt"))
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    with running(tenure_server, "takeover"):
        assert run.result(timeout=PATIENCE) == "done"
    assert run.status()["attempt"] == 2


def test_a_stopped_process_reports_nothing_afterwards(tenure_server: Server) -> None:
    """S3-48: a process that was stopped past its lease drops its result."""
    # With one slot that is taken, the stopped process has no poll that could be granted the next attempt.
    with running(tenure_server, "stopped", TEST_CONCURRENCY="1") as first:
        run = first.submit("slow", 2.0)
        eventually(lambda: run.status().get("startedAt"))
        first.process.send_signal(signal.SIGSTOP)
        with running(tenure_server, "stopped"):
            assert run.result(timeout=PATIENCE) == "done"
            first.process.send_signal(signal.SIGCONT)
            assert first.stop() == 0
    assert run.status()["attempt"] == 2
    assert run.record()["attempts"][0]["outcome"] == "LOST"


def test_sigterm_finishes_what_runs(tenure_server: Server) -> None:
    with running(tenure_server, "drain") as only:
        run = only.submit("slow", 1.0)
        eventually(lambda: run.status()["state"] == "running")
        assert only.stop() == 0
        assert run.wait(timeout=PATIENCE)["state"] == "succeeded"


def test_sigterm_hands_back_what_does_not_end(tenure_server: Server) -> None:
    """S4-40: the attempt is released, and costs the run none of its attempts."""
    with running(tenure_server, "release", TEST_SHUTDOWN="0.2") as first:
        run = first.submit("slow", 30.0)
        eventually(lambda: run.status()["state"] == "running")
        assert first.stop() == 0
    status = run.status()
    assert status["state"] in ("queued", "retry")
    assert (status["failures"], status["lost"]) == (0, 0)
    run.cancel(now=True)


def test_a_wrong_key_ends_the_worker_with_an_error(tenure_server: Server) -> None:
    environment = {**tenure_server.environment, "TENURE_API_KEY": "tnr_wrong"}
    done = subprocess.run(
        [sys.executable, str(TASKS)], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode != 0
    assert "unauthenticated" in done.stderr


def test_work_survives_a_restart_of_the_server() -> None:
    with Server() as server, running(server, "restart") as worker:
        run = worker.client.submit(worker.task("slow").options(lease=30, heartbeat_interval=1), 2.0)
        eventually(lambda: run.status()["state"] == "running")
        server.kill()
        with pytest.raises(Unreachable):
            Client(server.url, server.api_key, retries=0).version()
        server.start()
        assert run.result(timeout=PATIENCE) == "done"
        assert run.status()["attempt"] == 1


def test_the_binary_is_named() -> None:
    assert os.environ.get("TENURE_BINARY"), "set TENURE_BINARY to the program `tenure`"


def test_a_step_that_a_fork_repeats_has_the_key_that_it_had(worker: Running, tmp_path: Path) -> None:
    """S2-90: a service that has seen the key of the first run does nothing twice."""
    journal = tmp_path / "journal"
    first = worker.submit("forked", str(journal))
    with pytest.raises(RunFailed):
        first.result(timeout=PATIENCE)
    again = first.fork(from_step="pay#2")
    again.result(timeout=PATIENCE)
    one, two, repeated = [line.split()[1] for line in journal.read_text().splitlines()]
    assert again.id != first.id
    assert one != two
    assert repeated == two
