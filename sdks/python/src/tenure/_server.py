"""A coordinator for tests: the program `tenure` on a free port, with a store in a temporary directory."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from .client import Client
from .errors import Setup

#: A debug build on a busy machine may take this long to open its store.
READY_SECONDS = 60.0


class Server:
    """A coordinator that lives as long as a `with` block."""

    def __init__(self, binary: str | None = None) -> None:
        found = binary or os.environ.get("TENURE_BINARY") or shutil.which("tenure")
        if not found:
            raise Setup("the program `tenure` was not found", next_step="set TENURE_BINARY to it")
        self._binary = found
        self.directory = Path(tempfile.mkdtemp(prefix="tenure-test-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        #: The address of the coordinator.
        self.url = ""
        #: A key with all roles.
        self.api_key = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program that talks to this coordinator."""
        return {**os.environ, "TENURE_URL": self.url, "TENURE_API_KEY": self.api_key, **self._homes()}

    def client(self) -> Client:
        """A client of this coordinator."""
        return Client(self.url, self.api_key)

    def start(self) -> None:
        """Starts the coordinator, or starts it again on the same port and store."""
        log = self.directory / "server.log"
        store = f"sqlite:{self.directory / 'tenure.db'}"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [self._binary, "dev", "--port", str(self._port), "--store", store],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._homes()},
            )
        self._wait_ready(log)

    def kill(self) -> None:
        """Kills the coordinator without a warning."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _homes(self) -> dict[str, str]:
        home = str(self.directory)
        return {"XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home}

    def _wait_ready(self, log: Path) -> None:
        end = time.monotonic() + READY_SECONDS
        assert self._process is not None, "it was started"
        while time.monotonic() < end and self._process.poll() is None:
            text = log.read_text(errors="replace")
            url = re.search(r"export TENURE_URL=(\S+)", text)
            key = re.search(r"export TENURE_API_KEY=(\S+)", text)
            if url and key:
                self.url, self.api_key = url[1], key[1]
                self._port = int(self.url.rsplit(":", 1)[1])
                return
            time.sleep(0.02)
        raise Setup(f"the coordinator did not start: {log.read_text(errors='replace')[-2000:]}")
