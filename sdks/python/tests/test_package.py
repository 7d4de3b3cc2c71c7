"""The package as people get it: installed into an empty environment, and its command line."""

from __future__ import annotations

import signal
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenure._server import Server

PACKAGE = Path(__file__).resolve().parents[1]
PATIENCE = 60.0
MODULE = """
from tenure import task

@task(queue="{queue}")
def word() -> str:
    return "{word}"
"""
SUBMIT = "import app; from tenure import Client; print(Client().submit(app.word).result(timeout=60))"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a wheel and a source archive."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run([str(PACKAGE / "tools" / "dist"), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@contextmanager
def working(command: list[str], folder: Path, server: Server) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that is told to stop at the end, and stops."""
    worker = subprocess.Popen(command, cwd=folder, env=server.environment)
    try:
        yield worker
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        worker.wait()


def test_a_wheel_works_in_an_empty_environment(built: Path, tmp_path: Path, tenure_server: Server) -> None:
    [wheel] = built.glob("*.whl")
    venv.create(tmp_path / "empty", with_pip=False)
    python = str(tmp_path / "empty" / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", str(wheel)]
    installed = subprocess.run(install, capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    (tmp_path / "app.py").write_text(MODULE.format(queue="empty", word="hello"))
    with working([python, "-m", "tenure", "worker", "app"], tmp_path, tenure_server):
        submit = [python, "-c", SUBMIT]
        done = subprocess.run(submit, cwd=tmp_path, env=tenure_server.environment, capture_output=True, text=True)
        assert done.stdout.strip() == "hello", done.stderr


def test_the_wheel_is_what_the_source_archive_makes(built: Path, tmp_path: Path) -> None:
    [wheel], [archive] = built.glob("*.whl"), built.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(tmp_path, filter="data")
    [unpacked] = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")]
    subprocess.run(command, cwd=unpacked, check=True, capture_output=True)
    [again] = (tmp_path / "again").glob("*.whl")
    assert again.read_bytes() == wheel.read_bytes()
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"tenure/py.typed", "tenure_pytest.py", "tenure/_wire.py"} <= names
    assert not any(name.startswith("tests/") for name in names)


def test_the_command_line_starts_again_with_changed_source(tmp_path: Path, tenure_server: Server) -> None:
    app = tmp_path / "app.py"
    app.write_text(MODULE.format(queue="reload", word="one"))
    command = [sys.executable, "-m", "tenure", "worker", "app", "--reload", "--concurrency", "2"]
    client = tenure_server.client()

    def answer() -> object:
        return client.submit("word", queue="reload").result(timeout=PATIENCE)

    with working(command, tmp_path, tenure_server):
        assert answer() == "one"
        app.write_text("this is no Python\n")
        app.write_text(MODULE.format(queue="reload", word="second"))
        end = time.monotonic() + PATIENCE
        while answer() != "second":
            assert time.monotonic() < end, "the changed source was not started"


def test_the_command_line_serves_a_module(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("x = 1\n")
    command = [sys.executable, "-m", "tenure", "worker"]
    empty = subprocess.run([*command, "none"], capture_output=True, text=True, cwd=tmp_path)
    assert (empty.returncode, "has no tasks" in empty.stderr) == (1, True)
    absent = subprocess.run([*command, "absent:app"], capture_output=True, text=True, cwd=tmp_path)
    assert (absent.returncode, "there is no module `absent`" in absent.stderr) == (1, True)
    wrong = subprocess.run([*command, "none:x"], capture_output=True, text=True, cwd=tmp_path)
    assert (wrong.returncode, "is no Worker" in wrong.stderr) == (1, True)
