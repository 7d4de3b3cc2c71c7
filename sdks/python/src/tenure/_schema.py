"""JSON Schemas of what tasks take and return, made from their type hints.

They describe what `_json` reads: an input that a schema refuses would fail with DATA_QUALITY. Where a hint says nothing that
a schema could say, it allows everything. Members that a type does not know are allowed, because they are ignored.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

Schema: TypeAlias = dict[str, Any]

_PLAIN: dict[Any, Schema] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    dict: {"type": "object"},
    list: {"type": "array"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
}
_JSON_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def schema_of(hint: Any) -> Schema:
    """The schema of a type. Classes that contain themselves are in `$defs`."""
    made = _Maker()
    schema = made.of(hint)
    return {**schema, "$defs": made.definitions} if made.definitions else schema


def object_schema(hints: dict[str, Any], required: list[str]) -> Schema:
    """The schema of an object with these members."""
    made = _Maker()
    schema: Schema = {"type": "object", "properties": {name: made.of(hint) for name, hint in hints.items()}}
    if required:
        schema["required"] = sorted(required)
    return {**schema, "$defs": made.definitions} if made.definitions else schema


class _Maker:
    """One schema, with the definitions that it refers to."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def of(self, hint: Any) -> Schema:
        try:
            if hint in _PLAIN:
                return dict(_PLAIN[hint])
        except TypeError:  # a hint that cannot be looked up, such as a Literal of a list
            return {}
        if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
            return self._class(hint)
        return self._special(hint)

    def _special(self, hint: Any) -> Schema:
        if isinstance(hint, typing.NewType):
            return self.of(hint.__supertype__)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Annotated, typing.Required, typing.NotRequired, typing.Final, typing.ClassVar):
            return self.of(arguments[0])
        if origin is typing.Literal:
            return _enumerated([each.value if isinstance(each, enum.Enum) else each for each in arguments])
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        return self._generic(origin, arguments) if isinstance(origin, type) else {}

    def _generic(self, origin: type, arguments: tuple[Any, ...]) -> Schema:
        if issubclass(origin, tuple):
            return self._tuple(arguments)
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1] if len(arguments) > 1 else Any)}
        if issubclass(origin, Sequence | AbstractSet):
            return {"type": "array", "items": self.of(arguments[0] if arguments else Any)}
        return self.of(origin) if origin in _PLAIN or not arguments else {}

    def _tuple(self, arguments: tuple[Any, ...]) -> Schema:
        if not arguments:
            return {"type": "array"}
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0])}
        count = len(arguments)
        return {
            "type": "array",
            "prefixItems": [self.of(each) for each in arguments],
            "minItems": count,
            "maxItems": count,
        }

    def _class(self, hint: Any) -> Schema:
        if hasattr(hint, "model_json_schema"):  # pydantic, whose definitions stand in the schema itself
            return self._of_pydantic(hint)
        if issubclass(hint, enum.Enum):
            return _enumerated([each.value for each in hint])
        members = _members(hint)
        if members is None:
            return self._generic(hint, ())
        return self._referred(hint, *members)

    def _referred(self, hint: type, hints: dict[str, Any], required: set[str]) -> Schema:
        """Objects are definitions, so that a type may contain itself."""
        if hint not in self._names:
            name = hint.__name__
            self._names[hint] = name if name not in self.definitions else f"{name}{len(self.definitions)}"
            definition: Schema = {"type": "object"}
            self.definitions[self._names[hint]] = definition
            definition["properties"] = {member: self.of(each) for member, each in hints.items()}
            if required:
                definition["required"] = sorted(required)
        return {"$ref": f"#/$defs/{self._names[hint]}"}

    def _of_pydantic(self, hint: Any) -> Schema:
        schema: Schema = hint.model_json_schema()
        for name, definition in schema.pop("$defs", {}).items():
            self.definitions.setdefault(name, definition)
        return schema


def _enumerated(values: list[Any]) -> Schema:
    return {"enum": values} if all(type(each) in _JSON_NAMES for each in values) else {}


def _members(hint: Any) -> tuple[dict[str, Any], set[str]] | None:
    """The members of a type that is written as an object, and those that must be there."""
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = [each for each in dataclasses.fields(hint) if each.init]
        missing = dataclasses.MISSING
        required = {each.name for each in fields if each.default is missing and each.default_factory is missing}
        return {each.name: hints[each.name] for each in fields}, required
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        absent = {name for name, each in hints.items() if typing.get_origin(each) is typing.NotRequired}
        needed = {name for name, each in hints.items() if typing.get_origin(each) is typing.Required}
        return hints, (set(hint.__required_keys__) - absent) | needed
    if issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints = typing.get_type_hints(hint)
        required = {name for name in hint._fields if name not in hint._field_defaults}
        return {name: hints.get(name, Any) for name in hint._fields}, required
    return None
