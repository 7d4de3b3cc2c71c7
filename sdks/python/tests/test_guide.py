"""Every Python block of the guide runs as it stands there, on a real server, with a worker where the page has one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenure._server import Server

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("python*.md"), key=lambda page: page.stem)
#: Pages whose blocks need a worker, and the file that is one.
WORKERS = {"python": "worker.py", "python-durable": "orders.py"}


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_there_are_pages() -> None:
    assert [page.stem for page in PAGES] == [
        "python",
        "python-deploying",
        "python-durable",
        "python-frameworks",
        "python-from-celery",
        "python-testing",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, tenure_server: Server) -> None:
    for place, block in enumerate(blocks(page)):
        named = re.match(r"# (\w+\.py)\n", block)
        (tmp_path / (named[1] if named else f"block_{place}.py")).write_text(block)
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    environment = {**tenure_server.environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    worker = None
    if page.stem in WORKERS:
        command = [sys.executable, str(tmp_path / WORKERS[page.stem])]
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        for script in sorted(tmp_path.glob("block_*.py"), key=lambda path: int(path.stem.rpartition("_")[2])):
            done = subprocess.run(
                [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, f"{script.read_text()}\n{done.stderr}"
        tests = sorted(tmp_path.glob("test_*.py"))
        if tests:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, tests)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=120)
            assert done.returncode == 0, done.stdout
    finally:
        if worker is not None:
            worker.terminate()
            assert worker.wait(timeout=60) == 0


def test_the_readme_shows_the_first_page() -> None:
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    assert "def greet(name: str) -> str:" in readme
    for page in PAGES:
        assert f"guide/{page.name}" in readme, f"the README does not name {page.name}"
