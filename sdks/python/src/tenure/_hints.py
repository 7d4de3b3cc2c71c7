"""What type hints say about the places inside a value, for values whose JSON form alone does not say what they were.

Bytes are written as text and sets as lists. A reader gives them back only where a hint names them, so they are written only
there. A hint is held as its arms: the members of its union, without what says nothing about JSON.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

Arms: typing.TypeAlias = tuple[Any, ...]

#: Hints have not been asked for: most values need none.
NONE: Arms = ()
#: No hint is known for the value as a whole. Classes inside it say what their own members are.
TYPED: Arms = (Any,)
#: The value is not read again, so that every form will do.
LOOSE: Arms = ("loose",)

_WRAPPERS = (typing.Annotated, typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)


def arms_of(hint: Any) -> Arms:
    """The arms of a hint."""
    while True:
        origin = typing.get_origin(hint)
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif origin in _WRAPPERS:
            hint = typing.get_args(hint)[0]
        else:
            break
    if origin in (typing.Union, types.UnionType):
        return tuple(arm for member in typing.get_args(hint) for arm in arms_of(member))
    return (hint,)


def has_bytes(arms: Arms) -> bool:
    """Whether the hint reads bytes."""
    return arms is LOOSE or bytes in arms


def has_set(arms: Arms) -> bool:
    """Whether the hint reads a set."""
    return arms is LOOSE or any(_is_a(arm, AbstractSet) for arm in arms)


def at_member(arms: Arms, name: str) -> Arms:
    """What the hint says about a member of an object."""
    if arms in (NONE, LOOSE):
        return arms
    found: list[Any] = []
    for arm in arms:
        arguments = typing.get_args(arm)
        if typing.is_typeddict(arm):
            found += arms_of(typing.get_type_hints(arm, include_extras=True).get(name, Any))
        elif len(arguments) == 2 and _is_a(arm, Mapping):
            found += arms_of(arguments[1])
    return tuple(found) or TYPED


def at_item(arms: Arms, place: int) -> Arms:
    """What the hint says about an item of a list, tuple or set."""
    if arms in (NONE, LOOSE):
        return arms
    found: list[Any] = []
    for arm in arms:
        arguments = typing.get_args(arm)
        if not arguments:
            continue
        if _is_a(arm, tuple) and arguments[-1] is not Ellipsis:
            found += arms_of(arguments[place]) if place < len(arguments) else ()
        elif _is_a(arm, Sequence) or _is_a(arm, AbstractSet):
            found += arms_of(arguments[0])
    return tuple(found) or TYPED


def of_fields(kind: type, arms: Arms) -> dict[str, Arms]:
    """What a dataclass or named tuple says about its members."""
    if arms is LOOSE:
        return {}
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError:  # a hint that names what only a function knows
        return {}
    names = [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(hints)
    return {name: arms_of(hints[name]) for name in names if name in hints}


def _is_a(arm: Any, kind: type) -> bool:
    origin = typing.get_origin(arm) or arm
    return isinstance(origin, type) and issubclass(origin, kind)
