"""A server that answers as a test says: for what no real coordinator does on demand."""

from __future__ import annotations

import http.server
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    #: The port that it came from: requests of one connection have the same.
    peer: str = ""
    at: float = field(default_factory=time.monotonic)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def accepted(run_id: str = "run_1", **members: Any) -> dict[str, Any]:
    """The answer to a submission."""
    told = {"runId": run_id, "taskId": "task_1", "state": "queued", "createdAt": "2026-01-01T00:00:00.000Z"}
    return {**told, **members}


def problem(status: int, code: str, **members: Any) -> tuple[int, dict[str, Any]]:
    """An error answer."""
    return status, {"error": code, "message": f"it is {code}", "status": status, **members}


class Drop(Exception):
    """No answer, or only its first bytes."""

    def __init__(self, text: bytes = b"") -> None:
        super().__init__()
        self.text = text


class Stub:
    """Answers each request with the next of `replies`, or what that says of the request; the last one stays."""

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.requests: list[Request] = []
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                stub._answer(self)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.command, handler.path, headers, body, str(handler.client_address[1]))
        self.requests.append(request)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, Drop):
            handler.wfile.write(reply.text)
            handler.wfile.flush()
            handler.close_connection = True
            return
        status, told = reply if isinstance(reply, tuple) else (200, reply)
        text = told if isinstance(told, bytes) else json.dumps(told).encode()
        handler.send_response(status)
        handler.send_header("content-length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)
