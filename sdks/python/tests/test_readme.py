"""The programs in the README of the repository, as it prints them: a worker, and a client in another process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tenure._server import Server

README = Path(__file__).resolve().parents[3] / "README.md"
BLOCK = re.compile(r"^```python\n# (\w+\.py)(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Long for a quiet machine; the test machine is not quiet.
PATIENCE = 60.0


def test_the_readme_greets(tenure_server: Server, tmp_path: Path) -> None:
    for name, text in BLOCK.findall(README.read_text()):
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
