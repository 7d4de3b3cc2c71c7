"""Values on the wire: written, read by hints, and in canonical form."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import _json

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Color(enum.Enum):
    RED = "red"


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Point(NamedTuple):
    x: int
    y: int = 0


Name = NewType("Name", str)


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: UUID
    at: datetime
    day: date
    total: Decimal
    color: Color
    lines: list[Line]
    raw: bytes
    note: str | None = None
    by: dict[str, Name] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    movie: Movie | None = None
    point: Point = field(default_factory=lambda: Point(0))
    mode: Literal["a", "b"] = "a"


def order() -> Order:
    return Order(
        UUID(int=7),
        datetime(2026, 1, 1, 12, 0, 0, 5000, tzinfo=UTC),
        date(2026, 1, 2),
        Decimal("1.50"),
        Color.RED,
        [Line("lamp", 2)],
        b"\x00\xff",
        by={"a": Name("b")},
        pair=(1, "x"),
        movie={"title": "M"},
        point=Point(3, 4),
        mode="b",
    )


def test_a_value_of_every_kind_survives_the_wire() -> None:
    encoded = json.loads(_json.dumps(_json.payload(order())))
    assert encoded["at"] == "2026-01-01T12:00:00.005Z"
    assert encoded["raw"] == "AP8="
    assert _json.read(Order, encoded) == order()


def test_an_unknown_member_is_ignored_and_a_missing_one_is_named() -> None:
    assert _json.read(Line, {"sku": "x", "newer": 1}) == Line("x")
    with pytest.raises(_json.Unreadable, match="Line lacks sku"):
        _json.read(list[Line], [{"count": 2}])


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (int, "7", "expected an integer"),
        (int, True, "expected an integer"),
        (int, 1.0, "expected an integer"),
        (str, None, "expected text"),
        (Color, "blue", "is no Color"),
        (datetime, "2026-01-01", "is no datetime"),
        (list[int], [1, "x"], r"at \[1\]"),
        (dict[str, Line], {"a": {"sku": 1}}, r"at \.a\.sku"),
        (Literal["a"], "b", "expected one of"),
        (tuple[int, int], [1], "a list of 2"),
        (int | str, 1.5, "expected an integer.*or.*expected text"),
    ],
)
def test_what_is_not_of_the_type_is_named_with_its_place(hint: Any, value: Any, problem: str) -> None:
    with pytest.raises(_json.Unreadable, match=problem):
        _json.read(hint, value)


@pytest.mark.parametrize("value", [math.nan, math.inf, {1: 2}, object(), "\ud800", datetime(2026, 1, 1), {"a": {2: 1}}])
def test_what_has_no_json_form_is_refused(value: object) -> None:
    with pytest.raises(_json.Unwritable):
        _json.payload(value)


def test_size_and_depth_are_limited() -> None:
    _json.payload("x" * (_json.PAYLOAD_BYTES_MAX - 2))
    with pytest.raises(_json.Unwritable, match="the limit is 262144"):
        _json.payload("x" * (_json.PAYLOAD_BYTES_MAX - 1))
    deep: Any = 0
    for _ in range(32):
        deep = [deep]
    assert _json.payload(deep) == deep
    with pytest.raises(_json.Unwritable, match="32 levels"):
        _json.payload([deep])


@given(plain)
def test_canonical_json_is_the_same_after_a_round_trip(value: Any) -> None:
    again = json.loads(_json.dumps(_json.encode(value)))
    assert _json.canonical(again) == _json.canonical(_json.encode(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_read_back_as_itself(number: float) -> None:
    text = _json.ecmascript(number)
    assert float(text) == number
    assert "E" not in text
    assert not text.endswith(".0")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5, "-1.5"),
        (5e-324, "5e-324"),
    ],
)
def test_doubles_are_laid_out_as_ecmascript_does(number: float, text: str) -> None:
    assert _json.ecmascript(number) == text


def test_pydantic_models_are_read_and_written() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", name=(str, ...), at=(datetime, ...))
    made = model(name="Ada", at=datetime(2026, 1, 1, tzinfo=UTC))
    assert _json.read(model, _json.payload(made)) == made
    with pytest.raises(_json.Unreadable, match="name"):
        _json.read(model, {"at": "2026-01-01T00:00:00Z"})
