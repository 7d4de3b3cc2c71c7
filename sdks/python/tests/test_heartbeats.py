"""Heartbeats do not depend on what user code does: on the loop, in threads, in steps, in children, in handlers and codecs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure import Client, Setup, Task
from tenure._server import Server
from tenure.options import Spend
from tenure.testing import inline_ctx

PROGRAM = Path(__file__).parent / "busy.py"
PATIENCE = 60.0


@contextmanager
def serving(server: Server, mode: str) -> Iterator[Client]:
    """A worker that runs the busy tasks, in one of the ways in which a program can be a worker."""
    environment = {**server.environment, "TEST_QUEUE": f"busy-{mode}"}
    process = subprocess.Popen([sys.executable, str(PROGRAM), mode], env=environment, stderr=subprocess.DEVNULL)
    try:
        with server.client() as client:
            yield client
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module", params=["run", "serve"])
def client(request: pytest.FixtureRequest, tenure_server: Server) -> Iterator[tuple[Client, str]]:
    with serving(tenure_server, request.param) as found:
        yield found, f"busy-{request.param}"


def kept(client: Client, task: Task[..., object], queue: str) -> None:
    run = client.submit(task.options(queue=queue))
    assert run.result(timeout=PATIENCE) == "kept"
    assert run.status()["attempt"] == 1


@pytest.mark.parametrize("name", ["blocks_the_loop", "spins_in_threads", "blocks_in_a_step", "spins_in_a_step"])
def test_a_lease_of_six_seconds_survives_three(client: tuple[Client, str], name: str) -> None:
    """S3-66: the loop is blocked, or eight threads spin, for 3 s."""
    import busy

    kept(client[0], getattr(busy, name), client[1])


@pytest.mark.parametrize("name", ["isolated_that_spins", "isolated_that_logs"])
def test_a_child_that_is_busy_keeps_its_lease(tenure_server: Server, name: str) -> None:
    """S3-66: with a lease of 2 s, for 3 s: neither the child nor a handler of the worker that waits stops its heartbeats."""
    import busy

    with serving(tenure_server, "handler") as found:
        kept(found, getattr(busy, name), "busy-handler")


def test_a_child_that_does_not_look_is_ended_when_its_run_is_cancelled(tenure_server: Server) -> None:
    """S4-35: it ends within the grace period, and the run as cancelled."""
    import busy

    with serving(tenure_server, "cancel") as found:
        run: Any = found.submit(busy.isolated_that_goes_on.options(queue="busy-cancel"))
        end = time.monotonic() + PATIENCE
        while (run.status().get("lease") or {}).get("message") != "begun":
            assert time.monotonic() < end, "the child has not begun"
            time.sleep(0.02)
        run.cancel("enough")
        ended = run.wait(timeout=PATIENCE)
    assert (ended["state"], ended["attempt"]) == ("cancelled", 1)


def test_what_code_says_costs_no_lease(tenure_server: Server) -> None:
    """S3-66: text that is no Unicode, and amounts that are none, reach no heartbeat; work beside them goes on."""
    import busy

    with serving(tenure_server, "said") as found:
        kept(found, busy.says_what_cannot_be_sent, "busy-said")


@pytest.mark.parametrize("amount", [1.5, -1, 2**53, "7", None])
def test_an_amount_that_is_none_is_told_in_the_code(amount: Any) -> None:
    ctx = inline_ctx()
    with pytest.raises(Setup, match="is no amount to spend"):
        ctx.spend(tokens=amount)
    assert ctx._lease.spent is None
    ctx.spend(tokens=2**53 - 1)
    ctx.spend(tokens=7)
    assert ctx._lease.spent == Spend(tokens=2**53 - 1)


def test_a_message_fits_a_heartbeat() -> None:
    ctx: Any = inline_ctx()
    ctx.progress(150, "x" * 10_000)
    assert ctx._lease.progress == (100.0, "x" * 4096)
    ctx.progress(None, ValueError("n\0 \ud800"))
    assert ctx._lease.progress == (None, "n\ufffd ?")


def test_a_codec_that_waits_keeps_the_leases_of_others(tenure_server: Server) -> None:
    """S3-66: the codec of an isolated task takes 3 s, and a lease of 2 s beside it is kept."""
    import busy

    with serving(tenure_server, "codec"):
        client = Client(tenure_server.url, tenure_server.api_key, codec=busy.Slow())
        other = client.submit(busy.waits.options(queue="busy-codec"))
        run = client.submit(busy.isolated_with_input.options(queue="busy-codec"), "x")
        assert run.result(timeout=PATIENCE) == "kept"
        assert other.result(timeout=PATIENCE) == "kept"
        assert (run.status()["attempt"], other.status()["attempt"]) == (1, 1)
