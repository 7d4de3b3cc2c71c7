"""One call to a coordinator, apart from how its bytes travel: settings, addresses, answers, and when to try again.

Shared by the blocking and the asynchronous transport, so both decide alike:
- an answer is a result, a refusal, or no decision (no answer, half an answer, 429, 503);
- only what was not decided is sent again, with the same bytes, within a bound;
- 429 stays at its address, because a rate is that of the tenant; everything else moves to the next address.
"""

from __future__ import annotations

import json
import os
import random
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from . import _json
from .errors import Protocol, Refused, RunRefused, Setup, TenureError, UnknownOutcome, Unreachable

#: A coordinator that accepts no connection within this time is not there.
CONNECT_SECONDS = 5.0
#: Beyond the wait that a call asks for.
ANSWER_SECONDS = 15.0
#: The coordinator's limit of one long poll.
WAIT_MS_MAX = 30_000
BACKOFF_SECONDS_FIRST = 0.1
BACKOFF_SECONDS_MAX = 5.0
#: A server may ask the client to wait, but must not hang it.
RETRY_AFTER_SECONDS_MAX = 30.0
RETRIES = 4
#: An unused connection is closed after this time, before most servers and proxies do it.
IDLE_SECONDS = 30.0
#: The largest answer is a page of runs with inputs and outputs.
ANSWER_BYTES_MAX = 512 * 1024 * 1024
_ECHO_CHARS_MAX = 120
USER_AGENT = "tenure-python/0.1.0"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a coordinator listens."""

    host: str
    port: int
    is_tls: bool
    prefix: str

    @property
    def origin(self) -> str:
        """For messages: the address without a path."""
        scheme = "https" if self.is_tls else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Reads a URL."""
        try:
            parts = urlsplit(text.strip())
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Setup(f"`{text}` is no URL of a coordinator", next_step="write http://host:port", field="url")
        is_tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if is_tls else 80), is_tls, parts.path.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Settings:
    """What a client needs to know before its first call."""

    addresses: tuple[Address, ...]
    api_key: str = field(repr=False)
    ca_file: str | None = None
    retries: int = RETRIES

    @classmethod
    def of(cls, url: str | None, api_key: str | None, ca_file: str | None, retries: int) -> Settings:
        """Arguments first, then the environment."""
        urls = url if url is not None else os.environ.get("TENURE_URL", "")
        addresses = tuple(Address.parse(each) for each in urls.split(",") if each.strip())
        if not addresses:
            raise Setup(
                "no coordinator is named",
                next_step="set TENURE_URL (`tenure dev` prints it), or pass url=…",
                field="url",
            )
        key = api_key if api_key is not None else os.environ.get("TENURE_API_KEY", "")
        if not key or not key.isascii() or not key.isprintable():
            raise Setup(
                "there is no usable API key", next_step="set TENURE_API_KEY, or pass api_key=…", field="api_key"
            )
        return cls(addresses, key.strip(), ca_file or os.environ.get("TENURE_CA_FILE") or None, retries)

    def tls(self) -> ssl.SSLContext | None:
        """What certificates are trusted, if an address needs any."""
        if not any(address.is_tls for address in self.addresses):
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise Setup(f"cannot read the certificates in {self.ca_file}: {error}", field="ca_file") from None


@dataclass(frozen=True, slots=True)
class Call:
    """One request, with the bytes that every repetition sends."""

    method: str
    path: str
    body: bytes | None = None
    #: The key of a submission, or the token of a task.
    idempotency_key: str | None = None
    token: str | None = None
    timeout: float = ANSWER_SECONDS

    def head(self, address: Address, api_key: str) -> bytes:
        """The request line and headers."""
        lines = [
            f"{self.method} {address.prefix}{self.path} HTTP/1.1",
            f"Host: {address.host}:{address.port}",
            f"Authorization: Bearer {self.token or api_key}",
            f"User-Agent: {USER_AGENT}",
        ]
        if self.idempotency_key is not None:
            lines.append(f"Idempotency-Key: {self.idempotency_key}")
        if self.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def with_path(self, path: str) -> Call:
        """The same call at another path."""
        return replace(self, path=path)


def get(path: str, query: Mapping[str, Any] | None = None, *, wait_ms: int = 0, token: str | None = None) -> Call:
    """A call that reads. With `wait_ms` the answer may take that much longer."""
    every = {name: _text(value) for name, value in (query or {}).items() if value is not None}
    if wait_ms:
        every["waitMs"] = str(wait_ms)
    full = f"{path}?{urlencode(every)}" if every else path
    return Call("GET", full, token=token, timeout=ANSWER_SECONDS + wait_ms / 1000)


def ended(run_id: str, wait_ms: int | None) -> Call:
    """Reads a run when it has ended, or after `wait_ms` or the longest wait that there is."""
    wait_ms = WAIT_MS_MAX if wait_ms is None else min(wait_ms, WAIT_MS_MAX)
    return get(f"/v1/runs/{segment(run_id)}", wait_ms=wait_ms)


def post(
    path: str, body: Any, *, idempotency_key: str | None = None, token: str | None = None, wait_ms: int = 0
) -> Call:
    """A call that changes something."""
    if idempotency_key is not None:
        check_key(idempotency_key)
    return Call("POST", path, body_bytes(body), idempotency_key, token, timeout=ANSWER_SECONDS + wait_ms / 1000)


def body_text(body: Any) -> str:
    """A request body, or a part of one. Payloads inside were checked when they were encoded."""
    try:
        text = _json.dumps(body)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError) as error:
        raise Setup(f"the request has no JSON form: {error}") from None
    return text


def body_bytes(body: Any) -> bytes:
    """The bytes of a request body."""
    return body_text(body).encode()


def payload(value: object, subject: str, field: str, hint: Callable[[], Any] | None = None) -> Any:
    """A value of the caller in a request. One that cannot be sent is told here, before anything is."""
    try:
        return _json.payload(value, hint)
    except _json.Unwritable as problem:
        raise Setup(f"cannot be sent: {problem.of(subject)}", field=field) from None


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def check_key(key: str) -> None:
    """Refuses an idempotency key that no header can hold."""
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise Setup(
            "an idempotency key is 1 to 255 printable ASCII characters",
            next_step="hash longer or other text",
            field="idempotency_key",
        )


def new_key() -> str:
    """A key for a submission that has none, so that it can be repeated."""
    return os.urandom(16).hex()


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes
    retry_after: float | None = None


class NoAnswer(Exception):
    """No answer, or half of one."""


def judge(address: Address, answer: Answer) -> Any:
    """The result of a call, or its refusal as an exception."""
    try:
        parsed = json.loads(answer.body) if answer.body else None
    except ValueError:
        parsed = _NOT_JSON
    if 200 <= answer.status < 300 and parsed is not _NOT_JSON:
        return parsed
    if isinstance(parsed, dict) and isinstance(parsed.get("error"), str):
        return _refuse(address, parsed, answer)
    text = answer.body[: 4 * _ECHO_CHARS_MAX].decode("utf-8", "replace")[:_ECHO_CHARS_MAX]
    raise Protocol(address.origin, answer.status, f"status {answer.status} with `{text}`")


_NOT_JSON = object()


def _refuse(address: Address, problem: dict[str, Any], answer: Answer) -> Any:
    problem.setdefault("status", answer.status)
    refusal: Any = {**problem, "type": _page(address, problem)}
    error = UnknownOutcome(refusal) if problem["error"] == "unknown_outcome" else Refused(refusal)
    if error.retry_after is None:
        error.retry_after = answer.retry_after
    raise error


def _page(address: Address, problem: Mapping[str, Any]) -> str:
    """Where the coordinator serves the page of a code."""
    page = str(problem.get("type") or "/errors/" + str(problem["error"]).replace("_", "-"))
    return f"{address.origin}{address.prefix}{page}" if page.startswith("/") else page


class Addresses:
    """Which of several coordinators is asked. All calls of a client follow the same choice."""

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self._addresses = addresses
        self._current = 0

    @property
    def current(self) -> Address:
        """The one to ask."""
        return self._addresses[self._current]

    @property
    def is_multiple(self) -> bool:
        """Whether there is another one."""
        return len(self._addresses) > 1

    def move_past(self, address: Address) -> None:
        """Asks the next one, unless another call has moved already."""
        if self._addresses[self._current] == address:
            self._current = (self._current + 1) % len(self._addresses)


class Tries:
    """The repetitions of one call: how many, and how long to wait before the next."""

    def __init__(self, retries: int, addresses: Addresses) -> None:
        self._left = retries
        self._addresses = addresses
        self._pause = BACKOFF_SECONDS_FIRST

    def pause_after(self, address: Address, error: TenureError) -> float:
        """How long to wait before the next try. Raises the error if there is none."""
        if not error.retryable or self._left <= 0:
            raise error
        self._left -= 1
        stays = isinstance(error, Refused) and error.status == 429
        if not stays:
            self._addresses.move_past(address)
        pause = self._pause * random.uniform(0.75, 1.25)
        self._pause = min(2 * self._pause, BACKOFF_SECONDS_MAX)
        asked = getattr(error, "retry_after", None)
        if asked is not None and (stays or not self._addresses.is_multiple):
            pause = max(pause, min(asked, RETRY_AFTER_SECONDS_MAX))
        return pause


def unreachable(address: Address, error: BaseException) -> Unreachable:
    """The error of a call without an answer."""
    return Unreachable(address.origin, str(error) or type(error).__name__)


def seconds(header: str | None) -> float | None:
    """The value of a `Retry-After` header, if it is a number."""
    try:
        return float(header) if header is not None else None
    except ValueError:
        return None


def run_refused(address: Address, result: Any) -> RunRefused:
    """The refusal of one run of a batch."""
    problem: Any = {
        "error": result["error"],
        "message": result.get("message"),
        "field": result.get("field"),
        "status": 422,
        "type": _page(address, result),
    }
    return RunRefused(problem)
