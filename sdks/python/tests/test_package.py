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


APP = """
from tenure import Worker, task

@task(queue="none")
def word() -> str:
    return "word"

app = Worker(word)
other = 7
"""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none"], "`none` has no tasks; decorate functions"),
        (["absent:app"], "there is no module `absent` in {here} or on the path of Python; start it in the directory"),
        (["wroker:app"], "there is no module `wroker` in {here} or on the path of Python; do you mean worker?"),
        (["none:x"], "`none:x` is no Worker but of type int; write x = Worker(…) in none"),
        (["worker:ap"], "`worker:ap` does not exist; worker has worker:app"),
        (["worker:word"], "`worker:word` is no Worker but <task word in none>; worker has worker:app"),
        (["tasks:word"], "name tasks alone to serve all its tasks"),
        (["worker.py:app"], "`worker.py:app` is a path, not a module; write worker:app"),
        (["jobs/worker.py"], "`jobs/worker.py` is a path, not a module; write jobs.worker"),
        ([":app"], "`:app` names no module; write module:app"),
        (["worker:app", "--concurrency", "2"], "--concurrency is for a module with tasks"),
        (["worker.py", "--reload"], "`worker.py` is a path, not a module; write worker"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_name_says_what_to_write(arguments: list[str], problem: str, tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "worker.py").write_text(APP)
    (tmp_path / "tasks.py").write_text(MODULE.format(queue="none", word="x"))
    command = [sys.executable, "-m", "tenure", "worker", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert f"error: {problem.format(here=tmp_path)}" in done.stderr or problem in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_imports_what_is_not_there_shows_where(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    command = [sys.executable, "-m", "tenure", "worker", "broken"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "broken.py" in done.stderr
    assert "No module named 'no_such_module'" in done.stderr


def test_reload_says_what_it_watches_and_waits_after_an_error(tmp_path: Path, tenure_server: Server) -> None:
    (tmp_path / "lib" / "env").mkdir(parents=True)
    (tmp_path / "lib" / "env" / "pyvenv.cfg").touch()
    (tmp_path / "lib" / "env" / "large.py").touch()
    (tmp_path / "lib" / "part.py").touch()
    command = [sys.executable, "-m", "tenure", "worker", "app:app", "--reload"]
    worker = subprocess.Popen(
        command, cwd=tmp_path, env=tenure_server.environment, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert worker.stderr is not None
        lines = iter(worker.stderr.readline, "")
        assert next(lines) == f"tenure: app:app was started in {tmp_path}; watching 1 Python files there and below\n"
        assert "there is no module `app`" in next(lines)
        assert next(lines) == "tenure: app:app ended with exit code 1; waiting for a change of its source\n"
        (tmp_path / "app.py").write_text(APP)
        assert next(lines) == "tenure: app.py changed; starting again\n"
        assert "serves word" in next(lines)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
        worker.wait()
