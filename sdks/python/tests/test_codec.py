"""A codec hides payloads wherever they are stored, and its digests let a replay recognise them."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sealed

from tenure import Setup, _json
from tenure._codec import digest_of, opened, sealed_submission
from tenure._codec import sealed as stored_form
from tenure._server import Server
from tenure.testing import FlowTest

PROGRAM = Path(sealed.__file__)
VECTORS = json.loads((Path(__file__).parents[3] / "protocol/scenarios/durable/codec.json").read_text(encoding="utf-8"))


class Turned:
    """The codec of the vectors, which every language has."""

    name: str = VECTORS["name"]

    def encode(self, plain: bytes) -> bytes:
        return plain[::-1]

    def decode(self, stored: bytes) -> bytes:
        return stored[::-1]

    def digest(self, plain: bytes) -> str:
        return hmac.new(VECTORS["key"].encode(), plain, hashlib.sha256).hexdigest()


@pytest.mark.parametrize("vector", VECTORS["values"], ids=str)
def test_what_another_language_stored_is_read_and_identified(vector: dict[str, Any]) -> None:
    codec = Turned()
    assert opened(codec, vector["stored"]) == vector["plain"]
    assert opened(codec, stored_form(codec, vector["plain"])) == vector["plain"]
    assert digest_of(codec, vector["plain"]) == vector["digest"]


@pytest.mark.parametrize("call", VECTORS["calls"], ids=str)
def test_a_call_is_the_same_call_in_every_language(call: dict[str, Any]) -> None:
    identity = [call["kind"], call["queue"], digest_of(Turned(), call["input"])]
    assert _json.digest(identity) == call["inputDigest"]


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
