"""JSON as the coordinator keeps it: written from Python values, and in canonical form. `_reading` reads it by type hints.

- `encode` turns any supported value into plain JSON values and refuses what would not be the same value afterwards.
- `canonical` and `digest` give equal bytes in every language: RFC 8785, with every integer in full.

It decides nothing about limits of the protocol except those of a payload: its size and its depth.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import hashlib
import json
import math
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from ._hints import LOOSE, NONE, TYPED, Arms, arms_of, at_item, at_member, has_bytes, has_set, of_fields
from ._reading import Json as Json
from ._reading import Reader as Reader
from ._reading import Unreadable as Unreadable
from ._reading import read as read
from ._reading import read_time as read_time
from ._reading import reader as reader

#: A larger payload belongs in separate storage, with a reference here.
PAYLOAD_BYTES_MAX = 256 * 1024
#: Few programs nest deeper, and every reader can recurse over it.
PAYLOAD_DEPTH_MAX = 32

#: Integers are kept with all their digits, as long as no reader takes them for infinity.
_INTEGER_MAX = int(sys.float_info.max)
_WORD = 1 << 63

_SCALARS = frozenset({str, bool, type(None)})


class Unwritable(ValueError):
    """A value that has no JSON form, would be another value afterwards, or is beyond a limit of payloads."""

    def __init__(self, path: str, problem: str, *, is_too_large: bool = False, subject: str = "the value") -> None:
        super().__init__(f"{subject}{f' at {path}' if path else ''}: {problem}")
        #: The place inside the value.
        self.path = path
        self.problem = problem
        self.is_too_large = is_too_large

    def of(self, subject: str) -> Unwritable:
        """The same problem, with what the value is: an argument, a result, the payload of a signal."""
        return Unwritable(self.path, self.problem, is_too_large=self.is_too_large, subject=subject)


class _Untold(Unwritable):
    """A hint could say that the value is read back as what it is."""


# Writing.


def encode(value: object, hint: Callable[[], Any] | None = None) -> Json:
    """The plain JSON form of a value. `hint` says as what it is read; it is asked only where that matters."""
    try:
        return _encode(value, "", 0, NONE)
    except _Untold:
        return _encode(value, "", 0, TYPED if hint is None else arms_of(hint()))


def encode_loosely(value: object) -> Json:
    """The JSON form of a value that is compared and never read."""
    return _encode(value, "", 0, LOOSE)


def _encode(value: object, path: str, depth: int, arms: Arms) -> Json:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is int:
        return _whole(typing.cast("int", value), path)
    if kind is float:
        return _finite(value, path)
    if kind is dict:
        return _encode_mapping(typing.cast("dict[object, object]", value), path, depth, arms)
    if kind is list or kind is tuple:
        return _encode_items(typing.cast("Sequence[object]", value), path, depth, arms)
    return _encode_other(value, path, depth, arms)


def _encode_mapping(value: Mapping[object, object], path: str, depth: int, arms: Arms) -> dict[str, Json]:
    _check_depth(path, depth)
    encoded: dict[str, Json] = {}
    for key, member in value.items():
        name = key.value if isinstance(key, enum.Enum) else key
        if not isinstance(name, str):
            raise Unwritable(path, f"the key {_shown(key)} is not text; use text keys")
        inner = arms and at_member(arms, name)
        encoded[name] = _encode(member, f"{path}.{name}", depth + 1, inner)
    if len(encoded) != len(value):
        raise Unwritable(path, "two keys are written as the same text")
    return encoded


def _encode_members(members: dict[str, object], path: str, depth: int, kind: type, arms: Arms) -> dict[str, Json]:
    """The members of an object of a class, which says what they are."""
    _check_depth(path, depth)
    known = arms and of_fields(kind, arms)
    if not known:
        return {name: _encode(each, f"{path}.{name}", depth + 1, arms) for name, each in members.items()}
    return {name: _encode(each, f"{path}.{name}", depth + 1, known.get(name, TYPED)) for name, each in members.items()}


def _encode_items(value: Sequence[object], path: str, depth: int, arms: Arms) -> list[Json]:
    _check_depth(path, depth)
    if not arms:
        return [_encode(item, f"{path}[{place}]", depth + 1, NONE) for place, item in enumerate(value)]
    return [_encode(item, f"{path}[{n}]", depth + 1, at_item(arms, n)) for n, item in enumerate(value)]


def _check_depth(path: str, depth: int) -> None:
    if depth >= PAYLOAD_DEPTH_MAX:
        raise Unwritable(path, f"more than {PAYLOAD_DEPTH_MAX} levels of objects and arrays, which is the limit")


def _encode_other(value: object, path: str, depth: int, arms: Arms) -> Json:
    if isinstance(value, enum.Enum):
        return _encode(value.value, path, depth, arms)
    if hasattr(value, "model_dump"):  # pydantic, without importing it
        return _encode(value.model_dump(mode="json", by_alias=True), path, depth, arms)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _encode_members(members, path, depth, type(value), arms)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Unwritable(path, "a datetime without a time zone names no instant; give it one")
        return write_exact_time(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        if not has_bytes(arms):
            raise _untold(path, "bytes", "text", "bytes")
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, UUID | Decimal):
        return str(value)
    return _encode_subclass(value, path, depth, arms)


def _encode_subclass(value: object, path: str, depth: int, arms: Arms) -> Json:
    """Subclasses of the plain types, named tuples and sets."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int):
        return _whole(int(value), path)
    if isinstance(value, float):
        return _finite(float(value), path)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        members = dict(zip(value._fields, value, strict=True))
        return _encode_members(members, path, depth, type(value), arms)
    if isinstance(value, Mapping):
        return _encode_mapping(value, path, depth, arms)
    if isinstance(value, AbstractSet):
        if not has_set(arms):
            raise _untold(path, "a set", "a list", "set[…]")
        items = [_encode(item, f"{path}[{n}]", depth + 1, at_item(arms, n)) for n, item in enumerate(value)]
        return sorted(items, key=canonical)
    if isinstance(value, Sequence):
        return _encode_items(value, path, depth, arms)
    raise Unwritable(path, f"{type(value).__qualname__} has no JSON form; use a dataclass, dict or text")


def _untold(path: str, what: str, form: str, hint: str) -> _Untold:
    return _Untold(path, f"{what} would arrive as {form}; name the type in a hint (`{hint}`), or pass {form}")


def _whole(number: int, path: str) -> int:
    if not -_WORD <= number < _WORD and abs(number) > _INTEGER_MAX:
        raise Unwritable(path, "an integer of more than 308 digits; send text")
    return number


def _finite(value: object, path: str) -> float:
    number = typing.cast("float", value)
    if not math.isfinite(number):
        raise Unwritable(path, f"{number} is no JSON number; send None or text")
    return number


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def dumps(value: Json) -> str:
    """The text of a plain JSON value."""
    kind = type(value)
    if kind is int:
        return repr(value)
    if kind is str:
        return _quoted(value)
    return _ENCODER(value)


def _encoder() -> Callable[[Json], str]:
    """What `JSONEncoder.encode` does, without making the encoder of the standard library anew for every value."""
    plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False)
    try:
        parts = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
            None, plain.default, _quoted, None, ":", ",", False, False, False
        )
        if "".join(parts({"a": [1, "b"]}, 0)) == '{"a":[1,"b"]}':
            return lambda value: "".join(parts(value, 0))
    except (AttributeError, TypeError):  # another interpreter, or a newer one
        pass
    return plain.encode


_quoted: Callable[[str], str] = json.encoder.encode_basestring
_ENCODER = _encoder()


def payload(value: object, hint: Callable[[], Any] | None = None) -> Json:
    """Encodes what travels as a payload, within its limits."""
    encoded = encode(value, hint)
    if encoded is None or encoded is True or encoded is False or type(encoded) is int:
        return encoded
    _check_text(dumps(encoded), encoded)
    return encoded


def payload_text(value: object, hint: Callable[[], Any] | None = None) -> str:
    """The text of what travels as a payload, within its limits."""
    encoded = encode(value, hint)
    text = dumps(encoded)
    _check_text(text, encoded)
    return text


def _check_text(text: str, encoded: Json) -> None:
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            place = _not_unicode(encoded, "") or ""
            raise Unwritable(place, f"half of a surrogate pair is no text ({error.reason})") from None
    if size > PAYLOAD_BYTES_MAX:
        problem = f"it has {size} bytes, the limit is {PAYLOAD_BYTES_MAX}: store it elsewhere and pass a reference"
        raise Unwritable("", problem, is_too_large=True)


def _not_unicode(value: Json, path: str) -> str | None:
    """Where the text is that cannot be sent."""
    if isinstance(value, str):
        return None if value.encode("utf-8", "ignore").decode() == value else path
    if isinstance(value, dict):
        within = [
            place
            for name, each in value.items()
            for place in (_not_unicode(name, path), _not_unicode(each, f"{path}.{name}"))
        ]
    elif isinstance(value, list):
        within = [_not_unicode(each, f"{path}[{n}]") for n, each in enumerate(value)]
    else:
        return None
    return next((place for place in within if place is not None), None)


def copied(value: Json) -> Json:
    """The same plain value, which may be changed without changing this one."""
    if type(value) is dict:
        return {name: copied(member) for name, member in value.items()}
    if type(value) is list:
        return [copied(item) for item in value]
    return value


def write_time(value: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, as the coordinator writes it."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def write_exact_time(value: datetime) -> str:
    """The same with microseconds if it has any: a payload loses nothing."""
    if value.microsecond % 1000 == 0:
        return write_time(value)
    return value.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


# Canonical form.


def canonical(value: Json) -> bytes:
    """RFC 8785, and integers with all their digits."""
    parts: list[str] = []
    _canonical(value, parts)
    return "".join(parts).encode()


def digest(value: Json) -> str:
    """SHA-256 of the canonical form, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _canonical(value: Json, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(_quoted(value))
    elif isinstance(value, dict):
        parts.append("{")
        for place, name in enumerate(sorted(value, key=_utf16)):
            parts.append("," if place else "")
            parts.append(_quoted(name) + ":")
            _canonical(value[name], parts)
        parts.append("}")
    elif isinstance(value, list):
        parts.append("[")
        for place, item in enumerate(value):
            parts.append("," if place else "")
            _canonical(item, parts)
        parts.append("]")
    else:
        parts.append(_scalar(value))


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _scalar(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return ecmascript(value)


def ecmascript(number: float) -> str:
    """A double as ECMAScript prints it: Python's shortest digits, laid out anew."""
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    return sign + _laid_out(digits, point)


def _laid_out(digits: str, point: int) -> str:
    """`digits` with the decimal point before its place `point`, by the rules of `Number::toString`."""
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    rest = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"
