"""Lines of an attempt: numbered, bounded, sent with the next call, and never in the way of the work."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from stub import Request, Stub

from tenure import Client, Ctx, Worker, task
from tenure._log import BUFFER_BYTES_MAX, CALL_BYTES_MAX, LogBuffer, is_refused, level_word, text_of
from tenure._server import Server

NOW = "2026-01-01T00:00:00.000Z"


def lines_of(buffer: LogBuffer, bytes_max: int = CALL_BYTES_MAX) -> tuple[list[Any], int]:
    member, last = buffer.member(bytes_max)
    return (json.loads(member.removeprefix(',"log":')) if member else []), last


def test_lines_are_numbered_and_kept_until_they_arrived() -> None:
    buffer = LogBuffer()
    assert buffer.member() == ("", 0)
    buffer.add("info", "one")
    buffer.add("warn", "two")
    lines, last = lines_of(buffer)
    assert [(line["n"], line["level"], line["text"]) for line in lines] == [(1, "info", "one"), (2, "warn", "two")]
    assert lines_of(buffer) == (lines, last), "a call that is repeated brings the same"
    buffer.add("info", "three")
    buffer.arrived(last)
    assert [line["n"] for line in lines_of(buffer)[0]] == [3]


def test_the_oldest_give_way_and_leave_a_gap() -> None:
    buffer = LogBuffer()
    for number in range(1, 1001):
        buffer.add("info", f"{number:04}" + "x" * 996)
    lines, _ = lines_of(buffer, BUFFER_BYTES_MAX)
    assert lines[-1]["n"] == 1000
    assert lines[0]["n"] == 1000 - len(lines) + 1
    assert sum(len(line["text"]) for line in lines) <= BUFFER_BYTES_MAX
    some, last = lines_of(buffer)
    assert sum(len(line["text"]) for line in some) <= CALL_BYTES_MAX
    assert some[-1]["n"] == last


@pytest.mark.parametrize(
    ("text", "kept"), [("a\0b", "a\ufffdb"), ("\udc80", "?"), ("é" * 100_000, "é" * 2048), ("two\nlines", "two\nlines")]
)
def test_any_text_can_be_sent(text: str, kept: str) -> None:
    buffer = LogBuffer()
    buffer.add("info", text)
    assert lines_of(buffer)[0][0]["text"] == kept


def test_records_are_put_into_words() -> None:
    assert text_of("%s of %d", ("one", 2), None) == "one of 2"
    assert text_of("%d", ("not a number",), None) == "%d"
    try:
        raise ValueError("no")
    except ValueError:
        assert text_of("it failed", (), True).endswith("ValueError: no")
    levels = [logging.ERROR, logging.CRITICAL, logging.WARNING, logging.INFO, logging.DEBUG, 1]
    assert [level_word(level) for level in levels] == ["error", "error", "warn", "info", "debug", "trace"]


def test_a_refusal_of_lines_is_recognised() -> None:
    assert is_refused({"error": "invalid_argument", "field": "reports[0].log"})
    assert is_refused({"error": "invalid_argument", "field": "log[3].level"})
    assert is_refused({"error": "invalid_argument"})
    assert not is_refused({"error": "invalid_argument", "field": "reports[0].output"})
    assert not is_refused({"error": "task_expired"})
    assert not is_refused(None)


@task(bind=True)
def noisy(ctx: Ctx) -> str:
    ctx.log.info("begun with %d", 1)
    ctx.log.debug("nobody asked for this")
    ctx.log.warning("done")
    return "ok"


def envelope(number: int) -> dict[str, Any]:
    return {
        "taskId": f"task_{number}",
        "runId": f"run_{number}",
        "taskToken": "token",
        "leaseId": f"lease_{number}",
        "attempt": 1,
        "fence": 1,
        "kind": "noisy",
        "queue": "default",
        "input": [],
        "heartbeatTimeoutMs": 90_000,
        "heartbeatIntervalMs": 30_000,
        "cancelGracePeriodMs": 30_000,
        "leaseExpiresAt": "2026-01-01T00:01:30.000Z",
        "serverTime": NOW,
    }


def reports_of(count: int, answer_item: Any) -> list[Any]:
    """The reports of a worker that gets one task after the other, as they arrived."""
    granted = committed = 0
    reports: list[Any] = []
    over = threading.Event()

    def answer(request: Request) -> Any:
        nonlocal granted, committed
        if request.path == "/v1/leases":
            if granted == count or granted > committed:
                return {"leases": [], "serverTime": NOW}
            granted += 1
            return {"leases": [envelope(granted)], "serverTime": NOW}
        if request.path != "/v1/reports":
            return {"answers": [], "serverTime": NOW}
        answers = []
        for item in request.json["reports"]:
            reports.append(item)
            answers.append({"taskId": item["taskId"], **answer_item(item)})
        committed += sum(each["status"] == 200 for each in answers)
        if committed == count:
            over.set()
        return {"answers": answers, "serverTime": NOW}

    async def serve(url: str) -> None:
        worker = Worker(noisy, client=Client(url, "key"), concurrency=1)
        serving = asyncio.create_task(worker.serve())
        await asyncio.to_thread(over.wait, 30)
        worker.stop()
        await serving

    with Stub(answer) as stub:
        asyncio.run(serve(stub.url))
    return reports


COMMITTED = {"status": 200, "verdict": "COMMITTED", "state": "succeeded"}


def test_what_a_task_logs_travels_with_its_report() -> None:
    (report,) = reports_of(1, lambda _: COMMITTED)
    assert [(line["n"], line["level"], line["text"]) for line in report["log"]] == [
        (1, "info", "begun with 1"),
        (2, "warn", "done"),
    ]


def test_a_record_says_where_it_was_logged(caplog: pytest.LogCaptureFixture) -> None:
    reports_of(1, lambda _: COMMITTED)
    assert {record.filename for record in caplog.records if record.getMessage() == "done"} == {"test_log.py"}


def test_a_coordinator_that_does_not_know_lines_gets_the_report_without() -> None:
    refused = {"status": 400, "verdict": "REJECTED", "error": "invalid_argument", "field": "reports[0].log"}
    first, again, second = reports_of(2, lambda item: refused if "log" in item else COMMITTED)
    assert "log" in first
    assert (again["taskId"], again["output"], "log" in again) == ("task_1", "ok", False)
    assert (second["taskId"], "log" in second) == ("task_2", False), "it is not tried again"


PROGRAM = """
import sys, logging
from tenure import Worker, task
if "own" in sys.argv:
    logging.basicConfig(format="mine %(message)s", level=logging.INFO)

@task(queue="quiet")
def word() -> str:
    return "word"

worker = Worker(word, name="w", client=None)

@worker.on_startup
def stop(state):
    worker.stop()

worker.run()
"""


@pytest.mark.parametrize(
    ("word", "arguments", "told"),
    [
        (None, [], "INFO tenure: worker w serves word\n"),
        ("error", [], ""),
        ("off", [], ""),
        (None, ["own"], "mine worker w serves word\n"),
    ],
)
def test_a_worker_says_what_it_serves(
    word: str | None, arguments: list[str], told: str, tmp_path: Path, tenure_server: Server
) -> None:
    (tmp_path / "quiet.py").write_text(PROGRAM)
    environment = {name: each for name, each in tenure_server.environment.items() if name != "TENURE_LOG"}
    if word is not None:
        environment["TENURE_LOG"] = word
    command = [sys.executable, str(tmp_path / "quiet.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, told)


def test_an_unknown_level_is_told(tmp_path: Path, tenure_server: Server) -> None:
    command = [sys.executable, "-m", "tenure", "worker", "none"]
    environment = {**tenure_server.environment, "TENURE_LOG": "loud"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "error: TENURE_LOG is `loud`" in done.stderr
    assert "set it to debug, info, warn, error or off" in done.stderr
