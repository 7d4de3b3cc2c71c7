"""Plain JSON values read as what type hints name: `reader` turns a hint into a function, once for each class."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import enum
import types
import typing
import weakref
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias
from uuid import UUID

Json: TypeAlias = Any
"""A plain JSON value: None, bool, int, float, str, list or dict with text keys."""


class Unreadable(ValueError):
    """A JSON value that is not of the wanted type. `path` names the place inside the value."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"at {path or 'the top'}: {problem}")
        self.path = path


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
