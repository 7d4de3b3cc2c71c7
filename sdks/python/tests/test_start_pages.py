"""The programs of the pages that one reads first, as they are printed there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tenure import Client
from tenure._server import Server

START = Path(__file__).resolve().parents[3] / "docs" / "start"
FIRST_TASK = START / "first-task.md"
FIRST_DURABLE = START / "durable-function.md"
BLOCK = re.compile(r"^```python\n# (\w+\.py)(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Long for a quiet machine; the test machine is not quiet.
PATIENCE = 60.0


def test_the_first_task_greets(tenure_server: Server, tmp_path: Path) -> None:
    for name, text in BLOCK.findall(FIRST_TASK.read_text()):
        (tmp_path / name).write_text(f"#{text}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["greet.py", "hello.py"]
    environment = tenure_server.environment
    worker = subprocess.Popen([sys.executable, "hello.py"], cwd=tmp_path, env=environment)
    try:
        greeted = subprocess.run(
            [sys.executable, "greet.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert (greeted.returncode, greeted.stdout) == (0, "Hello, Ada!\n"), greeted.stderr
    finally:
        worker.terminate()
        assert worker.wait(timeout=PATIENCE) == 0


def test_the_first_durable_function_waits_for_its_signal_and_ships(tenure_server: Server, tmp_path: Path) -> None:
    ((name, text),) = BLOCK.findall(FIRST_DURABLE.read_text())
    assert name == "order.py"
    (tmp_path / name).write_text(f"#{text}")
    environment = tenure_server.environment
    client = Client(url=environment["TENURE_URL"], api_key=environment["TENURE_API_KEY"])
    run = client.submit("order", 500, queue="orders")
    worker = subprocess.Popen([sys.executable, name], cwd=tmp_path, env=environment)
    try:
        run.signal("approve", True)
        assert run.result(timeout=PATIENCE) == "shipped"
    finally:
        worker.terminate()
        assert worker.wait(timeout=PATIENCE) == 0
