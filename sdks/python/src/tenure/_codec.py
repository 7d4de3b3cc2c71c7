"""Payloads that the coordinator stores but cannot read: encryption or compression by the client and the worker.

Stored form: `{"$codec": name, "data": base64}`. Digests of inputs are those of the plain values, under a key of the codec,
so that replay and idempotency do not depend on a nonce. A codec whose caller repeats submissions with the same key must
be deterministic.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Protocol

from . import _json
from .errors import Setup


class Codec(Protocol):
    """Turns the bytes of a payload into other bytes, and back."""

    @property
    def name(self) -> str:
        """Stands beside the bytes, so that a reader knows what wrote them."""
        ...

    def encode(self, plain: bytes) -> bytes:
        """What is stored."""
        ...

    def decode(self, stored: bytes) -> bytes:
        """What was written."""
        ...

    def digest(self, plain: bytes) -> str:
        """64 hexadecimal digits that identify the plain bytes: an HMAC under a key of the codec."""
        ...


def sealed(codec: Codec | None, value: _json.Json) -> _json.Json:
    """The stored form of a plain value."""
    if codec is None or value is None:
        return value
    data = base64.b64encode(codec.encode(_json.dumps(value).encode())).decode()
    return _json.payload({"$codec": codec.name, "data": data})


def opened(codec: Codec | None, value: _json.Json) -> _json.Json:
    """The plain value of a stored one. A value that no codec wrote is plain; parts of it may not be, as in a plan."""
    if _is_sealed(value):
        return _unsealed(codec, value)
    if codec is None or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [opened(codec, each) for each in value]
    return {name: opened(codec, each) for name, each in value.items()}


def _is_sealed(value: _json.Json) -> bool:
    return isinstance(value, dict) and len(value) == 2 and "$codec" in value and "data" in value


def _unsealed(codec: Codec | None, value: Any) -> _json.Json:
    if codec is None or codec.name != value["$codec"]:
        raise Setup(
            f"the value was written by the codec `{value['$codec']}`", next_step="give client and worker that codec"
        )
    return json.loads(codec.decode(base64.b64decode(value["data"])))


def digest_of(codec: Codec | None, value: _json.Json) -> str:
    """What identifies a plain value."""
    return _json.digest(value) if codec is None else codec.digest(_json.canonical(value))


def sealed_submission(codec: Codec | None, wire: dict[str, Any]) -> dict[str, Any]:
    """A submission with its inputs in stored form. The caller may change the result."""
    run = dict(wire)
    if codec is None:
        return run
    if run.get("input") is not None:
        run["input"] = sealed(codec, run["input"])
    if "plan" in run:
        steps = [{**step, "input": _sealed_parts(codec, step.get("input"))} for step in run["plan"]["steps"]]
        run["plan"] = {**run["plan"], "steps": steps}
    return run


def _sealed_parts(codec: Codec, value: _json.Json) -> _json.Json:
    """The input of a step of a plan. The coordinator must find the references in it, and puts sealed outputs there."""
    if not _has_reference(value):
        return sealed(codec, value)
    if isinstance(value, list):
        return [_sealed_parts(codec, each) for each in value]
    assert isinstance(value, dict), "only containers have references in them"
    if "$from" in value:
        return value
    return {name: _sealed_parts(codec, each) for name, each in value.items()}


def _has_reference(value: _json.Json) -> bool:
    if isinstance(value, list):
        return any(_has_reference(each) for each in value)
    if not isinstance(value, dict) or "$literal" in value:
        return False
    return "$from" in value or any(_has_reference(each) for each in value.values())
