"""JSON as the coordinator keeps it: written from Python values, read by type hints, and in canonical form.

- `encode` turns any supported value into plain JSON values and refuses what has no JSON form.
- `reader` turns a type hint into a function that reads plain JSON values as that type.
- `canonical` and `digest` give equal bytes in every language: RFC 8785, with every integer in full.

It decides nothing about limits of the protocol except those of a payload: its size and its depth.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import enum
import hashlib
import json
import math
import types
import typing
import weakref
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias
from uuid import UUID

Json: TypeAlias = Any
"""A plain JSON value: None, bool, int, float, str, list or dict with text keys."""

#: A larger payload belongs in separate storage, with a reference here.
PAYLOAD_BYTES_MAX = 256 * 1024
#: Few programs nest deeper, and every reader can recurse over it.
PAYLOAD_DEPTH_MAX = 32

_SCALARS = frozenset({str, int, bool, type(None)})


class Unwritable(ValueError):
    """A value that has no JSON form, or one beyond a limit of payloads."""

    def __init__(self, path: str, problem: str, *, is_too_large: bool = False) -> None:
        super().__init__(f"{path or 'the value'}: {problem}")
        self.path = path
        self.is_too_large = is_too_large


class Unreadable(ValueError):
    """A JSON value that is not of the wanted type. `path` names the place inside the value."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"at {path or 'the top'}: {problem}")
        self.path = path


# Writing.


def encode(value: object, path: str = "", depth: int = 0) -> Json:
    """The plain JSON form of a value."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is float:
        return _finite(value, path)
    if kind is dict:
        return _encode_mapping(typing.cast("dict[object, object]", value), path, depth)
    if kind is list or kind is tuple:
        return _encode_items(typing.cast("Sequence[object]", value), path, depth)
    return _encode_other(value, path, depth)


def _encode_mapping(value: Mapping[object, object], path: str, depth: int) -> dict[str, Json]:
    _check_depth(path, depth)
    encoded: dict[str, Json] = {}
    for key, member in value.items():
        name = key.value if isinstance(key, enum.Enum) else key
        if not isinstance(name, str):
            raise Unwritable(path, f"the key {key!r} is not text; use text keys")
        encoded[name] = encode(member, f"{path}.{name}", depth + 1)
    return encoded


def _encode_items(value: Sequence[object], path: str, depth: int) -> list[Json]:
    _check_depth(path, depth)
    return [encode(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value)]


def _check_depth(path: str, depth: int) -> None:
    if depth >= PAYLOAD_DEPTH_MAX:
        raise Unwritable(path, f"more than {PAYLOAD_DEPTH_MAX} levels of objects and arrays, which is the limit")


def _encode_other(value: object, path: str, depth: int) -> Json:
    if isinstance(value, enum.Enum):
        return encode(value.value, path, depth)
    if hasattr(value, "model_dump"):  # pydantic, without importing it
        return encode(value.model_dump(mode="json", by_alias=True), path, depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members: dict[object, object] = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _encode_mapping(members, path, depth)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Unwritable(path, "a datetime without a time zone names no instant; give it one")
        return write_time(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, UUID | Decimal):
        return str(value)
    return _encode_subclass(value, path, depth)


def _encode_subclass(value: object, path: str, depth: int) -> Json:
    """Subclasses of the plain types, named tuples and sets."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return _finite(float(value), path)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _encode_mapping(dict(zip(value._fields, value, strict=True)), path, depth)
    if isinstance(value, Mapping):
        return _encode_mapping(value, path, depth)
    if isinstance(value, AbstractSet):
        items = [encode(item, path, depth + 1) for item in value]
        return sorted(items, key=canonical)
    if isinstance(value, Sequence):
        return _encode_items(value, path, depth)
    raise Unwritable(path, f"{type(value).__qualname__} has no JSON form; return a dataclass, dict or text")


def _finite(value: object, path: str) -> float:
    number = typing.cast("float", value)
    if not math.isfinite(number):
        raise Unwritable(path, f"{number} is no JSON number; send None or text")
    return number


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


def payload(value: object) -> Json:
    """Encodes what travels as a payload, within its limits."""
    encoded = encode(value)
    if encoded is None or encoded is True or encoded is False or type(encoded) is int:
        return encoded
    _check_size(dumps(encoded))
    return encoded


def payload_text(value: object) -> str:
    """The text of what travels as a payload, within its limits."""
    text = dumps(encode(value))
    _check_size(text)
    return text


def _check_size(text: str) -> None:
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise Unwritable("", f"half of a surrogate pair is no text ({error.reason})") from None
    if size > PAYLOAD_BYTES_MAX:
        problem = f"it has {size} bytes, the limit is {PAYLOAD_BYTES_MAX}: store it elsewhere and pass a reference"
        raise Unwritable("", problem, is_too_large=True)


def copied(value: Json) -> Json:
    """The same plain value, which may be changed without changing this one."""
    if type(value) is dict:
        return {name: copied(member) for name, member in value.items()}
    if type(value) is list:
        return [copied(item) for item in value]
    return value


def write_time(value: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, as the coordinator writes it."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


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


# Reading.

Reader: TypeAlias = Callable[[Json, str], Any]

_readers: weakref.WeakKeyDictionary[type, Reader] = weakref.WeakKeyDictionary()


def read(hint: Any, value: Json) -> Any:
    """Reads a plain JSON value as the type that a hint names."""
    return reader(hint)(value, "")


def reader(hint: Any) -> Reader:
    """A function that reads plain JSON values as this type."""
    if hint is Any:
        return _any
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        known = _readers.get(hint)
        if known is None:
            known = _readers[hint] = _class_reader(hint)
        return known
    return _special_reader(hint)


def _any(value: Json, path: str) -> Any:
    return value


def _special_reader(hint: Any) -> Reader:
    if hint is None:
        return _none
    if isinstance(hint, typing.TypeVar):
        return _any
    if isinstance(hint, typing.NewType):
        return reader(hint.__supertype__)
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
        return reader(arguments[0])
    if origin is typing.Literal:
        return _literal_reader(arguments)
    if origin in (typing.Union, types.UnionType):
        return _union_reader(arguments)
    if isinstance(origin, type):
        return _generic_reader(origin, arguments)
    raise TypeError(f"the hint {hint!r} says nothing about JSON; use a dataclass, TypedDict or plain types")


def _none(value: Json, path: str) -> None:
    if value is not None:
        raise Unreadable(path, f"expected null, found {_shown(value)}")


def _literal_reader(allowed: tuple[Any, ...]) -> Reader:
    def read_literal(value: Json, path: str) -> Any:
        for one in allowed:
            plain = one.value if isinstance(one, enum.Enum) else one
            if plain == value and isinstance(plain, bool) == isinstance(value, bool):
                return one
        raise Unreadable(path, f"expected one of {list(allowed)}, found {_shown(value)}")

    return read_literal


def _union_reader(members: tuple[Any, ...]) -> Reader:
    readers = [reader(member) for member in members]

    def read_union(value: Json, path: str) -> Any:
        problems = []
        for member in readers:
            try:
                return member(value, path)
            except Unreadable as problem:
                problems.append(str(problem))
        raise Unreadable(path, "; or ".join(dict.fromkeys(problems)))

    return read_union


def _generic_reader(origin: type, arguments: tuple[Any, ...]) -> Reader:
    if issubclass(origin, tuple):
        return _tuple_reader(arguments)
    if issubclass(origin, Mapping):
        return _mapping_reader(arguments)
    if issubclass(origin, AbstractSet):
        items = _items_reader(arguments)
        make: Callable[[list[Any]], Any] = frozenset if origin is frozenset else set
        return lambda value, path: make(items(value, path))
    if issubclass(origin, Sequence) or origin in (typing.get_origin(typing.Iterable[int]),):
        return _items_reader(arguments)
    return reader(origin)


def _items_reader(arguments: tuple[Any, ...]) -> Callable[[Json, str], list[Any]]:
    item = reader(arguments[0] if arguments else Any)

    def read_items(value: Json, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise Unreadable(path, f"expected a list, found {_shown(value)}")
        return [item(one, f"{path}[{place}]") for place, one in enumerate(value)]

    return read_items


def _tuple_reader(arguments: tuple[Any, ...]) -> Reader:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        items = _items_reader(arguments[:1])
        return lambda value, path: tuple(items(value, path))
    readers = [reader(argument) for argument in arguments]

    def read_tuple(value: Json, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(readers):
            raise Unreadable(path, f"expected a list of {len(readers)} items, found {_shown(value)}")
        return tuple(each(one, f"{path}[{n}]") for n, (each, one) in enumerate(zip(readers, value, strict=True)))

    return read_tuple


def _mapping_reader(arguments: tuple[Any, ...]) -> Reader:
    key = reader(arguments[0] if arguments else str)
    member = reader(arguments[1] if len(arguments) > 1 else Any)

    def read_mapping(value: Json, path: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise Unreadable(path, f"expected an object, found {_shown(value)}")
        return {key(name, path): member(one, f"{path}.{name}") for name, one in value.items()}

    return read_mapping


def _class_reader(hint: type) -> Reader:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hasattr(hint, "model_validate"):  # pydantic, without importing it
        return _validated(hint.model_validate)
    if issubclass(hint, enum.Enum):
        return _parsed(hint, Any, hint)
    if dataclasses.is_dataclass(hint):
        return _object_reader(hint, _dataclass_members)
    if typing.is_typeddict(hint):
        return _object_reader(hint, _typeddict_members)
    if issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return _object_reader(hint, _namedtuple_members)
    if issubclass(hint, list | Sequence | AbstractSet | Mapping) and not issubclass(hint, str | bytes):
        return _generic_reader(hint, ())
    problem = f"{hint.__qualname__} cannot be read from JSON; use a dataclass, TypedDict, enum or pydantic model"
    raise TypeError(problem)


def _validated(validate: Callable[[Json], Any]) -> Reader:
    def read_validated(value: Json, path: str) -> Any:
        try:
            return validate(value)
        except ValueError as error:
            raise Unreadable(path, str(error)) from None

    return read_validated


def _parsed(hint: type, plain: Any, parse: Callable[[Any], Any]) -> Reader:
    def read_parsed(value: Json, path: str) -> Any:
        if plain is not Any and type(value) is not plain:
            raise Unreadable(path, f"expected {hint.__name__} as text, found {_shown(value)}")
        try:
            return parse(value)
        except (ValueError, TypeError, InvalidOperation, binascii.Error):
            raise Unreadable(path, f"{_shown(value)} is no {hint.__name__}") from None

    return read_parsed


def _exactly(hint: type, name: str) -> Reader:
    def read_exactly(value: Json, path: str) -> Any:
        if type(value) is not hint:
            raise Unreadable(path, f"expected {name}, found {_shown(value)}")
        return value

    return read_exactly


def _float(value: Json, path: str) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    raise Unreadable(path, f"expected a number, found {_shown(value)}")


def read_time(text: str) -> datetime:
    """An RFC 3339 instant."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("no time zone")
    return instant


_PLAIN: dict[type, Reader] = {
    object: _any,
    type(None): _none,
    str: _exactly(str, "text"),
    int: _exactly(int, "an integer"),
    bool: _exactly(bool, "true or false"),
    float: _float,
    dict: _exactly(dict, "an object"),
    list: _exactly(list, "a list"),
    datetime: _parsed(datetime, str, read_time),
    date: _parsed(date, str, date.fromisoformat),
    UUID: _parsed(UUID, str, UUID),
    Decimal: _parsed(Decimal, str, Decimal),
    bytes: _parsed(bytes, str, lambda text: base64.b64decode(text, validate=True)),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Members:
    """How to read an object: a reader for each member, and which of them must be there."""

    readers: dict[str, Reader]
    required: frozenset[str]


def _dataclass_members(hint: Any) -> _Members:
    hints = typing.get_type_hints(hint, include_extras=True)
    fields = [field for field in dataclasses.fields(hint) if field.init]
    missing = dataclasses.MISSING
    required = {f.name for f in fields if f.default is missing and f.default_factory is missing}
    return _Members({f.name: reader(hints[f.name]) for f in fields}, frozenset(required))


def _typeddict_members(hint: Any) -> _Members:
    hints = typing.get_type_hints(hint, include_extras=True)
    # The keys that the class names do not know of `NotRequired` where annotations are texts.
    absent = {name for name, each in hints.items() if typing.get_origin(each) is typing.NotRequired}
    needed = {name for name, each in hints.items() if typing.get_origin(each) is typing.Required}
    required = (frozenset(hint.__required_keys__) - absent) | needed
    return _Members({name: reader(each) for name, each in hints.items()}, required)


def _namedtuple_members(hint: Any) -> _Members:
    hints = typing.get_type_hints(hint)
    required = frozenset(name for name in hint._fields if name not in hint._field_defaults)
    return _Members({name: reader(hints.get(name, Any)) for name in hint._fields}, required)


def _object_reader(hint: type, describe: Callable[[Any], _Members]) -> Reader:
    """Members that the type does not know are ignored, so that a newer writer can be read."""
    described: list[_Members] = []  # resolved at first use: a hint may name a class that comes later

    def read_object(value: Json, path: str) -> Any:
        if not isinstance(value, dict):
            raise Unreadable(path, f"expected an object for {hint.__name__}, found {_shown(value)}")
        if not described:
            described.append(describe(hint))
        members = described[0]
        missing = members.required.difference(value)
        if missing:
            raise Unreadable(path, f"{hint.__name__} lacks {', '.join(sorted(missing))}")
        known = members.readers
        return hint(**{n: known[n](one, f"{path}.{n}") for n, one in value.items() if n in known})

    return read_object


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
