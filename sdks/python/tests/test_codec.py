"""A codec hides payloads wherever they are stored, and its digests let a replay recognise them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sealed

from tenure import Setup
from tenure._codec import opened, sealed_submission
from tenure._server import Server
from tenure.testing import FlowTest

PROGRAM = Path(sealed.__file__)


@pytest.fixture(scope="module")
def runs(tenure_server: Server) -> list[str]:
    """A task, a durable function and a plan, whose worker and caller have the codec."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], env=tenure_server.environment, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    ids: list[str] = json.loads(done.stdout.splitlines()[-1])
    return ids


def test_nothing_that_is_stored_shows_the_payload(runs: list[str], tenure_server: Server) -> None:
    client = tenure_server.client()
    for run_id in runs:
        run = client.run(run_id)
        shown: list[Any] = [run.status(), list(run.history()), run.steps(), run.children(), run.plan()]
        shown += [client.run(child["taskId"].replace("task_", "run_")).status() for child in run.children()]
        text = json.dumps(shown)
        assert '"$codec": "packed"' in text
        assert sealed.SECRET not in text


def test_a_client_without_the_codec_is_told_which_one_it_needs(runs: list[str], tenure_server: Server) -> None:
    with pytest.raises(Setup, match="codec `packed`"):
        tenure_server.client().run(runs[0]).result()


def test_a_golden_file_of_sealed_payloads_replays(runs: list[str], tenure_server: Server, tmp_path: Path) -> None:
    file = tmp_path / "function.jsonl"
    binary = os.environ["TENURE_BINARY"]
    export = [binary, "export", runs[1], "--output", str(file)]
    subprocess.run(export, env=tenure_server.environment, check=True, capture_output=True)
    assert sealed.SECRET not in file.read_text()
    FlowTest(sealed.function, "").replay(file, codec=sealed.Packed())


def test_references_of_a_plan_stay_where_the_coordinator_finds_them() -> None:
    steps: list[Any] = [
        {"key": "a", "input": {"from": {"$from": "b"}, "list": [1, {"$from": "c"}], "data": {"$literal": {}}}}
    ]
    codec = sealed.Packed()
    [step] = sealed_submission(codec, {"plan": {"steps": steps}})["plan"]["steps"]
    assert step["input"]["from"] == {"$from": "b"}
    assert step["input"]["list"][1] == {"$from": "c"}
    assert set(step["input"]["data"]) == {"$codec", "data"}
    assert opened(codec, step["input"])["list"] == [1, {"$from": "c"}]
    assert steps[0]["input"]["list"][0] == 1, "the plan of the caller is not changed"
