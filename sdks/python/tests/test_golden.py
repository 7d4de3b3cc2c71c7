"""Golden files of every SDK replay in Python (S4-74): the same keys, digests, times and results."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples import FUNCTIONS, order

from tenure import Flow, durable
from tenure.errors import Setup
from tenure.testing import Diverged, FlowTest, read_golden

GOLDEN = Path(__file__).resolve().parents[3] / "protocol" / "golden"


@pytest.mark.golden(str(GOLDEN / "*.jsonl"))
def test_a_golden_file_replays(golden_path: Path) -> None:
    function: Any = FUNCTIONS[golden_path.stem.partition("-")[0]]
    FlowTest(function, read_golden(golden_path)[0]["input"]).replay(golden_path)


def test_a_renamed_step_differs_with_its_line() -> None:
    @durable(queue="orders", kind="order")
    async def renamed(flow: Flow, order: dict[str, Any]) -> str:
        return await flow.step("bill", str, order["cents"], input=order["cents"])

    with pytest.raises(Diverged, match=r"recorded charge#1, now bill#1 \(test_golden\.py:\d+\)"):
        FlowTest(renamed, {}).replay(GOLDEN / "order-approved.jsonl")


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    changed = tmp_path / "order.jsonl"
    changed.write_bytes((GOLDEN / "order-approved.jsonl").read_bytes().replace(b"500 cents", b"501 cents"))
    with pytest.raises(Setup, match="cut or changed"):
        FlowTest(order, None).replay(changed)  # type: ignore[arg-type]


def test_another_output_differs(tmp_path: Path) -> None:
    lines = (GOLDEN / "order-refunded.jsonl").read_text().splitlines(keepends=True)
    end = json.loads(lines[-2])
    end["end"]["output"] = "order 8 was kept"
    body = "".join([*lines[:-2], json.dumps(end) + "\n"])
    seal = {"seal": {"sha256": hashlib.sha256(body.encode()).hexdigest()}}
    other = tmp_path / "order.jsonl"
    other.write_text(body + json.dumps(seal) + "\n")
    with pytest.raises(Diverged, match="recorded output 'order 8 was kept'"):
        FlowTest(order, None).replay(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("flags", [[], ["--execute"]], ids=["recorded", "executed"])
def test_the_replay_command_finds_a_python_worker_the_same(flags: list[str]) -> None:
    """`tenure replay` serves golden files to the worker as it would be deployed."""
    binary = os.environ.get("TENURE_BINARY")
    assert binary, "set TENURE_BINARY to the program `tenure`"
    files = [str(path) for path in sorted(GOLDEN.glob("order-*.jsonl"))] + [
        str(path) for path in sorted(GOLDEN.glob("payout-*.jsonl"))
    ]
    worker = [sys.executable, str(Path(__file__).parent / "examples.py")]
    done = subprocess.run(
        [binary, "replay", *flags, *files, "--", *worker], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("same") == len(files), done.stdout
