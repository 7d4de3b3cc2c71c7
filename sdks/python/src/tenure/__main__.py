"""`python -m tenure worker module:app` starts a worker; with `--reload` again after every change of its source.

`app` is a `Worker`. Without it, all tasks of the module are served.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from .errors import Setup
from .task import Task
from .worker import Worker

#: How often source files are looked at.
LOOK_SECONDS = 0.5


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tenure", description="Workers for Tenure.")
    commands = parser.add_subparsers(dest="command", required=True)
    worker = commands.add_parser("worker", help="start a worker")
    worker.add_argument("app", help="module:app, where app is a Worker, or a module with tasks")
    worker.add_argument("--reload", action="store_true", help="start again when a source file changes")
    worker.add_argument("--concurrency", type=int, help="how many tasks at once, for a module with tasks")
    told = parser.parse_args(arguments)
    logging.basicConfig(
        level=os.environ.get("TENURE_LOG", "INFO").upper(), format="%(levelname)s %(name)s: %(message)s"
    )
    sys.path.insert(0, os.getcwd())
    if told.reload and "TENURE_ISOLATED" not in os.environ:
        return reload(told.app, told.concurrency)
    try:
        found(told.app, told.concurrency).run()
    except Setup as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def found(app: str, concurrency: int | None = None) -> Worker:
    """The worker that `module:app` names."""
    name, _, attribute = app.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, name.partition(".")[0]):
            raise
        raise Setup(f"there is no module `{name}`", next_step="name it as in an import, from its directory") from None
    if not attribute:
        return _of_module(module, concurrency)
    worker = getattr(module, attribute, None)
    if isinstance(worker, ModuleType):
        return _of_module(worker, concurrency)
    if not isinstance(worker, Worker):
        raise Setup(f"`{app}` is no Worker", next_step=f"write {attribute} = Worker(…) in {name}")
    return worker


def _of_module(module: ModuleType, concurrency: int | None) -> Worker:
    tasks = {id(each): each for each in vars(module).values() if isinstance(each, Task)}
    if not tasks:
        raise Setup(f"`{module.__name__}` has no tasks", next_step="decorate functions with @task or @durable")
    return Worker(*tasks.values(), concurrency=concurrency)


class _Terminated(Exception):
    """SIGTERM arrived. Ctrl-C goes to the worker too, SIGTERM to this process alone."""


def reload(app: str, concurrency: int | None = None) -> int:
    """Runs the worker as a child, and again whenever a source file below this directory changes."""
    command = [sys.executable, "-m", "tenure", "worker", app]
    if concurrency is not None:
        command += ["--concurrency", str(concurrency)]
    signal.signal(signal.SIGTERM, _terminate)
    before = _stamps()
    child = subprocess.Popen(command)
    try:
        while True:
            time.sleep(LOOK_SECONDS)
            now = _stamps()
            if now != before:
                before = now
                print("source changed; starting again", file=sys.stderr)
                child.terminate()
                child.wait()
                child = subprocess.Popen(command)
    except KeyboardInterrupt:
        return child.wait()
    except _Terminated:
        child.terminate()
        return child.wait()


def _terminate(*_: object) -> None:
    raise _Terminated


def _stamps() -> dict[str, float]:
    stamps = {}
    for path in _sources(Path.cwd()):
        with suppress(FileNotFoundError):  # editors rename files
            stamps[str(path)] = path.stat().st_mtime
    return stamps


def _sources(directory: Path) -> Iterator[Path]:
    for path in directory.rglob("*.py"):
        if not any(part.startswith(".") or part == "__pycache__" for part in path.parts[len(directory.parts) :]):
            yield path


if __name__ == "__main__":
    sys.exit(main())
