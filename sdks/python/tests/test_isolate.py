"""Isolated tasks: their process has hooks and a state of its own, and says why it cannot be started."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure import Ctx, RunFailed, Setup, Worker, _json, task
from tenure._isolated import _executed, _Link, _LinkHandler
from tenure._lease import Clock, Lease
from tenure._server import Server

PROGRAM = Path(__file__).parent / "isolated.py"
PATIENCE = 60.0


@contextmanager
def serving(server: Server, journal: Path, **variables: str) -> Iterator[Any]:
    """The worker, and how its task is submitted."""
    queue = f"isolated-{journal.parent.name}"
    environment = {**server.environment, "TEST_QUEUE": queue, "TEST_JOURNAL": str(journal), **variables}
    process = subprocess.Popen([sys.executable, str(PROGRAM)], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        with server.client() as client:
            yield lambda: client.submit("served", None, queue=queue, max_attempts=1)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        (journal.parent / "errors").write_text(errors)
    finally:
        process.kill()
        process.wait()


def test_hooks_and_state_are_those_of_the_child(tmp_path: Path, tenure_server: Server) -> None:
    journal = tmp_path / "journal"
    with serving(tenure_server, journal) as submit:
        first, second = submit().result(timeout=PATIENCE), submit().result(timeout=PATIENCE)
    assert first == second, "the child is kept warm"
    [pid, child] = first
    assert pid == child
    lines = [line.split() for line in journal.read_text().splitlines()]
    assert [line[:2] for line in lines].count(["start", "child"]) == 1
    assert ["stop", "child", str(child)] in lines
    assert [line[:2] for line in lines].count(["stop", "worker"]) == 1


@pytest.mark.parametrize("variables", [{}, {"TEST_HANDLER": "1"}], ids=["plain", "handler"])
def test_what_a_child_logs_is_said_once(variables: dict[str, str], tmp_path: Path, tenure_server: Server) -> None:
    with serving(tenure_server, tmp_path / "journal", **variables) as submit:
        submit().result(timeout=PATIENCE)
    assert (tmp_path / "errors").read_text().count("logged in a child") == 1


class Frames:
    """The child's end of the socket: keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, frame: Any) -> None:
        self.sent.append(frame)


def test_a_traceback_is_passed_on_and_a_bad_record_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    link: Any = Frames()
    logger = logging.Logger("child")
    logger.addHandler(_LinkHandler(link))
    try:
        raise ValueError("no such order")
    except ValueError:
        logger.exception("order %d", 7)
    logger.error("%d orders", "many")
    [told] = link.sent
    assert told["log"]["message"].startswith("order 7\nTraceback")
    assert told["log"]["message"].endswith("ValueError: no such order")


@pytest.mark.parametrize(
    ("breaks", "why"),
    [
        (
            "import",
            r"ended before it came to Worker\.run\(\).*exit code 1: ModuleNotFoundError: No module named 'no_such",
        ),
        ("hook", r"ended in its start-up hooks, with exit code 1: RuntimeError: no database here"),
    ],
)
def test_a_child_that_cannot_start_says_why(breaks: str, why: str, tmp_path: Path, tenure_server: Server) -> None:
    journal = tmp_path / "journal"
    with serving(tenure_server, journal, TEST_BREAKS=breaks) as submit, pytest.raises(RunFailed, match=why) as failed:
        submit().result(timeout=PATIENCE)
    assert failed.value.category == "INFRASTRUCTURE"


def test_a_worker_inside_a_loop_refuses_isolated_tasks() -> None:
    @task(queue="isolated", isolate=True)
    def alone() -> None: ...

    with pytest.raises(Setup, match=r"`alone` has isolate=True, which needs Worker\.run\(\)"):
        asyncio.run(Worker(alone).serve())


def test_a_task_that_was_told_before_it_began_does_not_begin() -> None:
    begun: list[int] = []

    @task(queue="isolated", bind=True, isolate=True)
    def marks(ctx: Ctx) -> None:
        begun.append(ctx.attempt)

    ours, theirs = socket.socketpair()
    envelope = {
        "runId": "run_1",
        "taskId": "task_1",
        "taskToken": "t",
        "kind": "marks",
        "attempt": 1,
        "heartbeatTimeoutMs": 90_000,
        "heartbeatIntervalMs": 30_000,
    }
    link = _Link(theirs, lambda _, told: Ctx(told, Lease(Clock(), told, Clock().now())))
    threading.Thread(target=link.listen, daemon=True).start()
    for frame in ({"run": envelope}, {"stop": "CancelRequested"}):
        body = _json.dumps(frame).encode()
        ours.sendall(struct.pack(">I", len(body)) + body)
    ctx = link.next_run()
    assert ctx is not None
    assert ctx.wait_cancelled(PATIENCE)
    assert _executed(link, marks, ctx)["error"]["message"] == "CancelledError"
    assert begun == []
