"""What must not type-check does not, with mypy and with pyright; what must, does. And generated files are fresh."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BAD = HERE / "types_bad.py"


def bad_lines() -> set[int]:
    return {n for n, line in enumerate(BAD.read_text().splitlines(), 1) if line.endswith("# bad")}


def test_mypy_finds_every_bad_line_and_no_other() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(BAD)]
    # Without its configuration file, which leaves this file out.
    done = subprocess.run([*command, "--config-file="], capture_output=True, text=True, cwd=HERE.parent / "src")
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert found == bad_lines(), done.stdout + done.stderr


def test_pyright_finds_every_bad_line_and_no_other() -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", str(BAD)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
    report = json.loads(done.stdout)["generalDiagnostics"]
    found = {each["range"]["start"]["line"] + 1 for each in report if each["severity"] == "error"}
    assert found == bad_lines(), report


@pytest.mark.parametrize("script", ["make_wire.py", "make_sync.py"])
def test_generated_files_are_fresh(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE.parent / "tools" / script), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_plugin_imports_nothing_of_the_sdk() -> None:
    """A pytest plugin loads in every pytest run of its users."""
    code = "import sys, tenure_pytest; print(sorted(m for m in sys.modules if m.startswith('tenure')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['tenure_pytest']", done.stdout + done.stderr
