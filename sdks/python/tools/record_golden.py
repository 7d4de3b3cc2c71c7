"""Records golden files with the examples of the tests, for the other SDKs to replay.

    TENURE_BINARY=… python tools/record_golden.py FOLDER

A server, a worker and a receiver of effects are started for it. `protocol/golden` has what this wrote; files that are
there are never written again.
"""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(EXAMPLES))

from examples import Invoice, Order, Payout, invoice, order, payout  # noqa: E402

from tenure import Client, RunHandle  # noqa: E402
from tenure._server import Server  # noqa: E402
from tenure.options import Retry  # noqa: E402

PATIENCE = 30.0
#: The customer whose effects do not arrive.
UNREACHABLE = "Bob"


class Recorder:
    """Makes runs on one server and exports them."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._client = server.client()
        made = [self._client.keys.create(["approver"], name=name) for name in ("ann", "bob")]
        self._people = [Client(server.url, key["secret"]) for key in made]

    def order(self, name: str, input: Order, approves: bool) -> None:
        run = self._client.submit(order, input)
        run.signal("approve", approves)
        self._export(run, name)

    def payout(self, name: str, input: Payout, *votes: tuple[Any, str | None]) -> None:
        run = self._client.submit(payout, input)
        asked: Any = eventually(lambda: list(self._client.approvals.list(state="pending")))[0]
        for person, (decision, comment) in zip(self._people, votes, strict=False):
            person.approvals.decide(asked["approvalId"], decision, digest=asked["digest"], comment=comment)
        self._export(run, name)

    def invoice(self, name: str, input: Invoice) -> None:
        self._export(self._client.submit(invoice, input), name)

    def endpoint(self, url: str) -> None:
        self._client.endpoints.create("billing", url, max_tries=1, on_dead="skip", retry=Retry(base=1, cap=1))

    def _export(self, run: RunHandle[Any], name: str) -> None:
        print(f"{name}: {run.result(PATIENCE)}")
        file = str(self._folder / f"{name}.jsonl")
        command = [os.environ["TENURE_BINARY"], "export", run.id, "--output", file]
        subprocess.run(command, env=self._server.environment, check=True)


def eventually(condition: Any) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise SystemExit("it did not become true")


@contextmanager
def working(server: Server) -> Iterator[None]:
    worker = subprocess.Popen([sys.executable, str(EXAMPLES / "examples.py")], env=server.environment)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait()


@contextmanager
def receiver() -> Iterator[str]:
    """Takes what is for any customer but one."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(500 if self.headers["tenure-aggregate"] == UNREACHABLE else 200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def main() -> None:
    folder = Path(sys.argv[1])
    with Server() as server, working(server), receiver() as url:
        recorder = Recorder(server, folder)
        recorder.order("order-approved-python", Order(21, 1250, ["lämp", "cable"]), True)
        recorder.order("order-refunded-python", Order(22, 400, []), False)
        recorder.payout("payout-approved-python", Payout("Søren", 9000), ("APPROVED", None), ("APPROVED", "as agreed"))
        recorder.payout("payout-rejected-python", Payout("Eve", 70_000_000), ("REJECTED", "who is Eve?"))
        recorder.endpoint(url)
        recorder.invoice("invoice-delivered-python", Invoice("Ada", 12_345))
        recorder.invoice("invoice-given-up-python", Invoice(UNREACHABLE, 678))


if __name__ == "__main__":
    main()
