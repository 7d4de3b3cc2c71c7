"""`python -m tenure worker module:app` starts a worker; with `--reload` again after every change of its source.

`app` is a `Worker`. Without it, all tasks of the module are served.
"""

from __future__ import annotations

import argparse
import difflib
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

from ._stderr import FORMAT, asked_level
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
    worker.add_argument(
        "--reload", action="store_true", help="start again when a Python file below this directory changes"
    )
    worker.add_argument("--concurrency", type=int, help="how many tasks at once, for a module with tasks")
    told = parser.parse_args(arguments)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        logging.basicConfig(level=asked_level(), format=FORMAT)
        if told.reload and "TENURE_ISOLATED" not in os.environ:
            return reload(told.app, told.concurrency)
        found(told.app, told.concurrency).run()
    except Setup as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def found(app: str, concurrency: int | None = None) -> Worker:
    """The worker that `module:app` names."""
    name, _, attribute = app.partition(":")
    _check_name(app, name)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports one that is not
        here = f"in {os.getcwd()} or on the path of Python"
        raise Setup(f"there is no module `{error.name}` {here}", next_step=_instead(name)) from None
    if not attribute:
        return _of_module(module, concurrency)
    worker = getattr(module, attribute, None)
    if isinstance(worker, ModuleType):
        return _of_module(worker, concurrency)
    if isinstance(worker, Worker):
        if concurrency is not None:
            raise Setup(
                "--concurrency is for a module with tasks", next_step=f"write Worker(…, concurrency=…) in {name}"
            )
        return worker
    what = f"is no Worker but {_described(worker)}" if hasattr(module, attribute) else "does not exist"
    raise Setup(f"`{app}` {what}", next_step=_workers_of(module, attribute))


def _check_name(app: str, name: str) -> None:
    if name.endswith(".py") or "/" in name or os.sep in name:
        right = name.removesuffix(".py").replace(os.sep, ".").replace("/", ".").strip(".")
        raise Setup(f"`{app}` is a path, not a module", next_step=f"write {right}{app[len(name) :]}")
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise Setup(f"`{app}` names no module", next_step="write module:app, as in worker:worker")


def _instead(name: str) -> str:
    """What may be meant by the name of a module that is not there."""
    known = sorted(path.stem for path in Path.cwd().glob("*.py") if path.stem.isidentifier())
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"do you mean {close[0]}?"
    return "start it in the directory from which the module is imported"


def _workers_of(module: ModuleType, attribute: str) -> str:
    workers = [name for name, each in vars(module).items() if isinstance(each, Worker)]
    if workers:
        return f"{module.__name__} has {', '.join(f'{module.__name__}:{each}' for each in workers)}"
    if any(isinstance(each, Task) for each in vars(module).values()):
        return f"name {module.__name__} alone to serve all its tasks, or write {attribute} = Worker(…) in it"
    return f"write {attribute} = Worker(…) in {module.__name__}"


def _described(value: object) -> str:
    return repr(value) if isinstance(value, Task) else f"of type {type(value).__name__}"


def _of_module(module: ModuleType, concurrency: int | None) -> Worker:
    tasks = {id(each): each for each in vars(module).values() if isinstance(each, Task)}
    if not tasks:
        raise Setup(f"`{module.__name__}` has no tasks", next_step="decorate functions with @task or @durable")
    return Worker(*tasks.values(), concurrency=concurrency)


class _Terminated(Exception):
    """SIGTERM arrived. Ctrl-C goes to the worker too, SIGTERM to this process alone."""


def reload(app: str, concurrency: int | None = None) -> int:
    """Runs the worker as a child, and again whenever a source file below this directory changes."""
    _check_name(app, app.partition(":")[0])
    command = [sys.executable, "-m", "tenure", "worker", app]
    if concurrency is not None:
        command += ["--concurrency", str(concurrency)]
    signal.signal(signal.SIGTERM, _terminate)
    before = _stamps()
    _tell(f"{app} was started in {Path.cwd()}; watching {len(before)} Python files there and below")
    child = subprocess.Popen(command)
    has_told = False
    try:
        while True:
            time.sleep(LOOK_SECONDS)
            now = _stamps()
            if now != before:
                _tell(f"{_changed(before, now)} changed; starting again")
                before, has_told = now, False
                child.terminate()
                child.wait()
                child = subprocess.Popen(command)
            elif child.poll() is not None and not has_told:
                has_told = True
                _tell(f"{app} ended with exit code {child.returncode}; waiting for a change of its source")
    except KeyboardInterrupt:
        return child.wait()
    except _Terminated:
        child.terminate()
        return child.wait()


def _terminate(*_: object) -> None:
    raise _Terminated


def _tell(text: str) -> None:
    print(f"tenure: {text}", file=sys.stderr, flush=True)


def _changed(before: dict[str, float], now: dict[str, float]) -> str:
    """The files that changed, came or went, as paths below this directory."""
    paths = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    shown = ", ".join(os.path.relpath(path) for path in paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more"


def _stamps() -> dict[str, float]:
    stamps = {}
    for path in _sources(Path.cwd()):
        with suppress(FileNotFoundError):  # editors rename files
            stamps[str(path)] = path.stat().st_mtime
    return stamps


def _sources(directory: Path) -> Iterator[Path]:
    """Python files below the directory, without hidden folders and environments, which are large and do not change."""
    for folder, folders, files in os.walk(directory):
        folders[:] = [each for each in folders if _is_source(Path(folder) / each)]
        yield from (Path(folder) / each for each in files if each.endswith(".py") and not each.startswith("."))


def _is_source(folder: Path) -> bool:
    is_hidden = folder.name.startswith(".") or folder.name in ("__pycache__", "node_modules")
    return not is_hidden and not (folder / "pyvenv.cfg").exists()


if __name__ == "__main__":
    sys.exit(main())
