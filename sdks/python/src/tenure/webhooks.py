"""For receivers of webhooks: verify what arrives before you believe it (Standard Webhooks, HMAC-SHA-256).

    verifier = Verifier("whsec_…")
    event = verifier.verify(request.headers, body)

`RecentIds` recognises a repeated delivery within one process. What must not happen twice keeps `event.id` in the same
transaction as its effect.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import Setup, TenureError

#: How far the time of a message may be off, before and after.
TOLERANCE_SECONDS = 300
SECRET_BYTES = range(24, 65)
RECENT_MAX = 50_000
_SIGNATURES_MAX = 8


class NotVerified(TenureError):
    """What arrived is not what the coordinator sent. Answer 401."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail, code=code, next_step="answer 401, and check the secret of the endpoint")


@dataclass(frozen=True, slots=True)
class Event:
    """A message that was verified."""

    #: What happened, such as `run.succeeded`; empty if the body is an effect of your own without a type.
    type: str
    data: Any
    #: Equal on every try: remember it to apply each message once.
    id: str
    #: Its place in its aggregate at this endpoint: 1, 2, 3, without gaps; None for pushed work.
    sequence: int | None
    #: How many messages right before this one were given up.
    gap: int
    aggregate: str | None = None


def secret_bytes(text: str) -> bytes:
    """The bytes of a secret, as `tenure endpoints create` printed it."""
    try:
        secret = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise Setup("a secret is written as base64, with or without `whsec_` before it", field="secret") from None
    if len(secret) not in SECRET_BYTES:
        raise Setup("a secret has 24 to 64 bytes", field="secret")
    return secret


class Verifier:
    """Checks signature and time. While a secret is rotated, give both."""

    def __init__(self, secret: str, *more: str) -> None:
        self._secrets = [secret_bytes(each) for each in (secret, *more)]

    def __repr__(self) -> str:
        return "<webhook verifier>"

    def verify(self, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> Event:
        """The event of a request. Raises `NotVerified`."""
        named = {name.lower(): value for name, value in headers.items()}
        message_id = named.get("webhook-id", "")
        self.check(message_id, named.get("webhook-timestamp", ""), named.get("webhook-signature", ""), body, now=now)
        try:
            told = json.loads(body)
        except ValueError:
            told = None
        is_enveloped = isinstance(told, dict) and isinstance(told.get("type"), str) and "data" in told
        sequence = named.get("tenure-sequence")
        return Event(
            told["type"] if is_enveloped else "",
            told["data"] if is_enveloped else told,
            message_id,
            int(sequence) if sequence and sequence.isdecimal() else None,
            int(named.get("tenure-gap") or 0),
            named.get("tenure-aggregate"),
        )

    def check(self, message_id: str, timestamp: str, signatures: str, body: bytes, *, now: float | None = None) -> None:
        """Checks the three headers and the bytes of the body."""
        if not message_id or not message_id.isascii() or len(message_id) > 128:
            raise NotVerified("missing_id", "there is no webhook-id")
        if not timestamp.isdecimal():
            raise NotVerified("bad_timestamp", "the webhook-timestamp is no number")
        off = int(timestamp) - (time.time() if now is None else now)
        if off < -TOLERANCE_SECONDS:
            raise NotVerified("too_old", "the message is more than five minutes old")
        if off > TOLERANCE_SECONDS:
            raise NotVerified("too_new", "the message is from more than five minutes ahead")
        signed = f"{message_id}.{timestamp}.".encode() + body
        expected = [base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)) for secret in self._secrets]
        for given in signatures.split(" ")[:_SIGNATURES_MAX]:
            version, _, value = given.partition(",")
            if version == "v1" and any(hmac.compare_digest(value.encode(), each) for each in expected):
                return
        raise NotVerified("wrong_signature", "no signature fits the body")


class PushVerifier:
    """Checks pushed work: signature, time, and that it was sent to this URL."""

    def __init__(self, secret: str, url: str, *more: str) -> None:
        self._verifier = Verifier(secret, *more)
        self._url = url

    def verify(self, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> str:
        """The id of the message. Raises `NotVerified`."""
        named = {name.lower(): value for name, value in headers.items()}
        message_id, timestamp = named.get("webhook-id", ""), named.get("webhook-timestamp", "")
        self._verifier.check(message_id, timestamp, named.get("webhook-signature", ""), body, now=now)
        given = named.get("tenure-push-token", "").split(" ")[:_SIGNATURES_MAX]
        for secret in self._verifier._secrets:
            expected = push_token(secret, self._url, message_id, int(timestamp))
            if any(hmac.compare_digest(token.encode(), expected.encode()) for token in given):
                return message_id
        raise NotVerified("wrong_audience", "the task was pushed to another URL")


def push_token(secret: bytes, url: str, message_id: str, timestamp: int) -> str:
    """The token that binds a push to its URL: a JWT whose text follows from what it says."""
    escaped = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (url, message_id)]
    claims = (
        f'{{"iss":"tenure","aud":"{escaped[0]}","jti":"{escaped[1]}","iat":{timestamp},'
        f'"exp":{timestamp + TOLERANCE_SECONDS}}}'
    )
    head = b'{"alg":"HS256","typ":"JWT"}'
    signed = f"{_url_safe(head)}.{_url_safe(claims.encode())}"
    return f"{signed}.{_url_safe(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def _url_safe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class RecentIds:
    """The ids of messages that were handled: a repeated one is recognised. Bounded, and lost with the process."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def is_new(self, message_id: str, *, now: float | None = None) -> bool:
        """Notes an id. Whether it was not noted before."""
        moment = time.time() if now is None else now
        with self._lock:
            horizon = moment - 2 * TOLERANCE_SECONDS
            while self._known and (next(iter(self._known.values())) < horizon or len(self._known) >= RECENT_MAX):
                self._known.popitem(last=False)
            if message_id in self._known:
                return False
            self._known[message_id] = moment
            return True

    def forget(self, message_id: str) -> None:
        """The message could not be handled: its repetition is new."""
        with self._lock:
            self._known.pop(message_id, None)
