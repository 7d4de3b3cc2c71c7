"""OpenTelemetry, where it is installed: beside the test environment, so that all other tests run without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure._server import Server

PROGRAM = Path(__file__).parent / "traced.py"
#: `check` installs it here.
INSTALLED = Path(__file__).resolve().parents[1] / ".venv" / "otel"


def test_the_spans_of_attempts_are_children_of_their_caller(tenure_server: Server) -> None:
    environment = {**tenure_server.environment, "PYTHONPATH": os.pathsep.join([str(INSTALLED), *sys.path])}
    done = subprocess.run([sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    spans = told["spans"]
    [caller] = [span for span in spans if span["name"] == "caller"]
    ours = [span for span in spans if span["name"] == "tenure.attempt" and span["trace"] == caller["trace"]]
    assert {span["attributes"]["tenure.kind"] for span in ours} == {"in_a_thread", "on_the_loop", "function"}
    assert {span["parent"] for span in ours} == {caller["id"]}
    assert all(span["attributes"]["tenure.run_id"].startswith("run_") for span in ours)
    inside = [span for span in spans if span["name"] == "inside" and span["trace"] == caller["trace"]]
    attempts = {span["id"] for span in ours}
    assert len(inside) == 2
    assert all(span["parent"] in attempts for span in inside)
    assert told["alone"] is None, "a run that was submitted outside of any span continues no trace"


def test_nothing_of_it_is_needed() -> None:
    with pytest.raises(ImportError):
        __import__("opentelemetry")
