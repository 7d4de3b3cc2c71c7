"""Webhooks are believed only if they are signed, fresh and meant for us; pushed work is run once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import io
import json
import threading
import time
import wsgiref.simple_server
from typing import Any

import pytest
from tasks import agreet, greet, steps

from tenure import push
from tenure._server import Server
from tenure.webhooks import NotVerified, PushVerifier, RecentIds, Verifier, push_token, secret_bytes

SECRET = "whsec_" + base64.b64encode(b"\x01" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"\x02" * 32).decode()
NOW = 1_800_000_000
URL = "https://example.com/work"


def signed(body: bytes, secret: str = SECRET, at: int = NOW, more: dict[str, str] | None = None) -> dict[str, str]:
    mac = hmac.digest(secret_bytes(secret), f"msg_1.{at}.".encode() + body, hashlib.sha256)
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": "v1," + base64.b64encode(mac).decode(),
        **(more or {}),
    }


def test_an_event_is_read() -> None:
    body = json.dumps({"type": "run.succeeded", "timestamp": "…", "data": {"runId": "run_1"}}).encode()
    headers = signed(body, more={"tenure-sequence": "4", "tenure-gap": "2", "tenure-aggregate": "order-7"})
    event = Verifier(SECRET).verify(headers, body, now=NOW + 10)
    assert (event.type, event.data, event.id) == ("run.succeeded", {"runId": "run_1"}, "msg_1")
    assert (event.sequence, event.gap, event.aggregate) == (4, 2, "order-7")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"body": b"{} "}, "wrong_signature"),
        ({"secret": OTHER}, "wrong_signature"),
        ({"now": NOW + 301}, "too_old"),
        ({"now": NOW - 301}, "too_new"),
        ({"headers": {}}, "missing_id"),
    ],
)
def test_what_was_changed_is_refused(change: dict[str, Any], code: str) -> None:
    headers = signed(b"{}", change.get("secret", SECRET))
    headers = change.get("headers", headers)
    with pytest.raises(NotVerified) as refused:
        Verifier(SECRET).verify(headers, change.get("body", b"{}"), now=change.get("now", NOW))
    assert refused.value.code == code


def test_both_secrets_hold_during_a_rotation() -> None:
    Verifier(OTHER, SECRET).verify(signed(b"{}"), b"{}", now=NOW)
    both = signed(b"{}")
    both["Webhook-Signature"] = signed(b"{}", OTHER)["Webhook-Signature"] + " " + both["Webhook-Signature"]
    Verifier(SECRET).verify(both, b"{}", now=NOW)


def test_a_repeated_id_is_recognised() -> None:
    recent = RecentIds()
    assert [recent.is_new("a", now=NOW), recent.is_new("a", now=NOW + 1)] == [True, False]
    recent.forget("a")
    assert recent.is_new("a", now=NOW + 2)
    assert recent.is_new("a", now=NOW + 2000)


def test_a_push_is_bound_to_its_url() -> None:
    """R-23: a receiver with the same secret elsewhere refuses it."""
    body = b"{}"
    token = push_token(secret_bytes(SECRET), URL, "msg_1", NOW)
    headers = signed(body, more={"tenure-push-token": token})
    assert PushVerifier(SECRET, URL).verify(headers, body, now=NOW) == "msg_1"
    with pytest.raises(NotVerified, match="another URL"):
        PushVerifier(SECRET, URL + "/other").verify(headers, body, now=NOW)


def pushed(body: bytes, url: str = URL) -> dict[str, str]:
    at = int(time.time())
    token = push_token(secret_bytes(SECRET), url, "msg_1", at)
    return signed(body, at=at, more={"tenure-push-token": token})


def envelope(kind: str, value: Any) -> bytes:
    told = {
        "runId": "run_1",
        "taskId": "task_1",
        "taskToken": "t",
        "attempt": 1,
        "fence": 1,
        "kind": kind,
        "queue": "q",
        "leaseId": "l",
        "heartbeatTimeoutMs": 90_000,
        "heartbeatIntervalMs": 30_000,
        "cancelGracePeriodMs": 1000,
        "callbackBaseUrl": "http://127.0.0.1:9",
        "input": value,
    }
    return json.dumps(told).encode()


def over_wsgi(app: push.WsgiApp, headers: dict[str, str], body: bytes) -> tuple[str, Any, dict[str, str]]:
    environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    environ |= {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": str(len(body))}
    seen: list[Any] = []
    answer = b"".join(
        app({**environ, "wsgi.input": io.BytesIO(body)}, lambda status, pairs: seen.append((status, dict(pairs))))
    )
    return seen[0][0], json.loads(answer) if answer else None, seen[0][1]


def test_a_pushed_task_is_answered_with_its_report() -> None:
    app = push.wsgi(greet, agreet, secret=SECRET, url=URL)
    body = envelope("greet", "Ada")
    status, told, _ = over_wsgi(app, pushed(body), body)
    assert status == "200 OK"
    assert told == {"outcome": "SUCCEEDED", "output": "Hello, Ada!"}
    status, told, _ = over_wsgi(app, pushed(body), body)
    assert (status, told) == ("202 Accepted", None), "a copy is not run again"


def test_a_push_to_another_url_is_not_run() -> None:
    app = push.wsgi(greet, secret=SECRET, url=URL)
    body = envelope("greet", "Ada")
    assert over_wsgi(app, pushed(body, URL + "/other"), body)[0] == "401 Unauthorized"


def test_a_pushed_failure_has_its_category() -> None:
    body = envelope("greet", 7)
    _, told, _ = over_wsgi(push.wsgi(greet, secret=SECRET, url=URL), pushed(body), body)
    assert (told["outcome"], told["error"]["category"]) == ("FAILED", "DATA_QUALITY")
    other = envelope("nothing", 7)
    _, told, _ = over_wsgi(push.wsgi(greet, secret=SECRET, url=URL), pushed(other), other)
    assert told["error"]["category"] == "CONFIGURATION"


def test_a_busy_endpoint_says_so() -> None:
    body = envelope("greet", "Ada")
    status, _, headers = over_wsgi(push.wsgi(greet, secret=SECRET, url=URL, concurrency=0), pushed(body), body)
    assert (status[:3], headers["Retry-After"]) == ("503", "1")


def test_asgi_does_the_same() -> None:
    app = push.asgi(greet, agreet, secret=SECRET, url=URL)
    body = envelope("agreet", {"name": "Ada", "mark": "?"})
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in pushed(body).items()]
    asyncio.run(app({"type": "http", "method": "POST", "headers": headers}, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 200
    assert json.loads(sent[1]["body"])["output"] == "Hello, Ada?"


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def test_a_real_server_pushes_tasks_and_durable_functions(tenure_server: Server) -> None:
    """The same tasks as a worker's, without one: an endpoint gets them by POST."""
    apps: dict[str, push.WsgiApp] = {}
    receiver = wsgiref.simple_server.make_server(
        "127.0.0.1", 0, lambda environ, start: apps["app"](environ, start), handler_class=Quiet
    )
    url = f"http://127.0.0.1:{receiver.server_address[1]}/"
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    client = tenure_server.client()
    try:
        secret = client.endpoints.create("functions", url, queues=["pushed"])["secret"]
        apps["app"] = push.wsgi(greet, steps, secret=secret, url=url, endpoint="functions")
        assert client.submit(greet.options(queue="pushed"), "Ada").result(timeout=60) == "Hello, Ada!"
        assert client.submit(steps.options(queue="pushed"), 3).result(timeout=60) == 3
    finally:
        client.endpoints.delete("functions")
        receiver.shutdown()
