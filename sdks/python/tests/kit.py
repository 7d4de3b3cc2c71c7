"""The conformance kit, performed once for the tests of all its cases, beside the other tests.

A case waits nearly all the time, so the kit performs many at once, in a process of its own, from the first test of a
session on. Cases that judge milliseconds are performed one after the other, when everything else is over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SUBJECT = Path(__file__).parent / "subject.py"
#: Eight interpreters start at once, on two cores that do other things too.
START_SECONDS = 60


def command() -> list[str]:
    """What starts the kit, as in the script `conform`."""
    words = os.environ.get("TENURE_CONFORM_COMMAND")
    return words.split() if words else [os.environ.get("TENURE_BINARY") or "tenure", "conform"]


def listed() -> list[dict[str, Any]]:
    """The cases of the kit; none if there is no kit, which a test tells."""
    try:
        done = subprocess.run([*command(), "--list", "--json"], capture_output=True, text=True)
    except OSError:
        return []
    return [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []


class Kit:
    """One performance of some cases."""

    def __init__(self, cases: Iterable[str]) -> None:
        self._cases = list(cases)
        self._process: subprocess.Popen[str] | None = None
        self._changed = threading.Condition()
        self._outcomes: dict[str, Any] = {}
        self._is_over = False

    def start(self) -> None:
        """Begins to perform the cases. Does nothing if that was done, or if there are none."""
        if self._process is not None or not self._cases:
            return
        chosen = [word for case in self._cases for word in ("--only", case)]
        patience = ["--start-timeout", str(START_SECONDS)]
        words = [*command(), "--json", *patience, *chosen, "--", sys.executable, str(SUBJECT)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self._read, args=(self._process,), name="kit", daemon=True).start()

    def outcome(self, case: str) -> Any:
        """Waits until the case is over. None if the kit ended without performing it."""
        self.start()
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or case in self._outcomes)
            return self._outcomes.get(case)

    def close(self) -> None:
        """Ends the kit. Subjects under way end with it: their coordinator is gone, and so is their standard input."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            outcome = json.loads(line)
            with self._changed:
                self._outcomes[outcome["case"]] = outcome
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
