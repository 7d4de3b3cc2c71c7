"""The package as people get it: a wheel without dependencies, installed into an empty environment."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def test_a_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    for target in ("wheel", "sdist"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(tmp_path)]
        built = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE)
        assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1
    names = zipfile.ZipFile(wheel).namelist()
    assert {"tenure/py.typed", "tenure_pytest.py", "tenure/_wire.py"} <= set(names)
    assert not any(name.startswith("tests/") for name in names)
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    [site] = (tmp_path / "empty" / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    code = "import tenure; from tenure.testing import run_inline; f = tenure.task()(abs); print(run_inline(f, -7))"
    done = subprocess.run([str(python), "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "7", done.stderr


def test_the_command_line_serves_a_module(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("x = 1\n")
    command = [sys.executable, "-m", "tenure", "worker"]
    empty = subprocess.run([*command, "none"], capture_output=True, text=True, cwd=tmp_path)
    assert (empty.returncode, "has no tasks" in empty.stderr) == (1, True)
    absent = subprocess.run([*command, "absent:app"], capture_output=True, text=True, cwd=tmp_path)
    assert (absent.returncode, "there is no module `absent`" in absent.stderr) == (1, True)
    wrong = subprocess.run([*command, "none:x"], capture_output=True, text=True, cwd=tmp_path)
    assert (wrong.returncode, "is no Worker" in wrong.stderr) == (1, True)
