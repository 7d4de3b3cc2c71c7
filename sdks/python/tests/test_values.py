"""Values that JSON would lose or change: told where they arise, before anything is sent or recorded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub import Stub, accepted

from tenure import AsyncClient, Client, Effect, Failure, Flow, Kind, NewRun, Plan, PlanStep, Setup, _json, durable, task
from tenure._attempt import Attempt, succeeded
from tenure._lease import Clock, Lease
from tenure.testing import FlowTest, run_inline


class Color(Enum):
    RED = "red"


@dataclass
class Line:
    price: float
    raw: bytes = b""


@dataclass
class Order:
    lines: list[Line]
    tags: set[str] = field(default_factory=set)


class Movie(TypedDict):
    title: str
    posters: NotRequired[list[bytes]]


class Pair(NamedTuple):
    left: bytes
    right: frozenset[int]


@task(queue="values")
def charge(order: Order, note: str | None = None) -> Any:
    return order


@task(queue="values")
def untold(value):  # type: ignore[no-untyped-def]  # a function without hints is what this is about
    return value


NOT_JSON: list[tuple[Any, str]] = [
    (math.nan, "nan is no JSON number"),
    ({"a": [1, -math.inf]}, r"at \.a\[1\]: -inf is no JSON number"),
    ({(1, 2): 3}, r"the key \(1, 2\) is not text"),
    ({"a": {7: 1}}, r"at \.a: the key 7 is not text"),
    ({None: 1}, "the key None is not text"),
    ({Color.RED: 1, "red": 2}, "two keys are written as the same text"),
    ({"ids": {1, 2}}, r"at \.ids: a set would arrive as a list"),
    ([b"\x00"], r"at \[0\]: bytes would arrive as text"),
    ({"n": 10**309}, r"at \.n: an integer of more than 308 digits"),
    ({"n": 10**5000}, r"at \.n: an integer of more than 308 digits"),
    ({"at": datetime(2026, 1, 1)}, r"at \.at: a datetime without a time zone"),
    ({"x": ["ok", "\ud800"]}, r"at \.x\[1\]: half of a surrogate pair"),
    ({"x": timedelta(1)}, r"at \.x: timedelta has no JSON form"),
]


@pytest.mark.parametrize(("value", "problem"), NOT_JSON)
def test_an_argument_is_named_before_anything_is_sent(value: Any, problem: str) -> None:
    with Stub(accepted()) as stub:
        with Client(stub.url, "k") as client, pytest.raises(Setup, match=problem) as told:
            client.submit(untold, value)

        async def submit() -> None:
            async with AsyncClient(stub.url, "k") as client:
                await client.submit(untold, value)

        with pytest.raises(Setup, match=problem):
            asyncio.run(submit())
        assert stub.requests == []
    assert "argument `value` of `untold`" in str(told.value)
    assert told.value.field == "value"


def test_each_argument_is_named_with_its_place() -> None:
    with pytest.raises(Setup, match=r"argument `order` of `charge` at \.lines\[1\]\.price: nan"):
        NewRun(charge, Order([Line(1.0), Line(math.nan)]), note="x")


@pytest.mark.parametrize(
    ("act", "subject"),
    [
        (lambda client: client.submit("far", math.nan, queue="q"), "the input of `far`: nan"),
        (lambda client: client.submit(Kind("far", queue="q", input=float, output=object), math.nan), "of `far`: nan"),
        (lambda client: client.submit(Plan([PlanStep("one", untold, [math.nan])])), r"of step `one` at \[0\]: nan"),
        (lambda client: client.run("run_1").signal("go", {"x": math.nan}), r"signal `go` at \.x: nan"),
        (lambda client: client.artifacts.create("d", "t", "a", fields={"x": {1}}), r"artifact at \.x: a set"),
    ],
    ids=["name", "kind", "plan", "signal", "artifact"],
)
def test_every_other_value_of_the_caller_is_named(act: Callable[[Client], Any], subject: str) -> None:
    with Stub(accepted()) as stub, Client(stub.url, "k") as client:
        with pytest.raises(Setup, match=subject):
            act(client)
        assert stub.requests == []


def test_what_a_hint_names_arrives_as_it_was() -> None:
    order = Order([Line(1.5, b"\xff")], {"a", "b"})
    assert run_inline(charge, order) == _json.payload(order)
    assert charge.signature.arguments_of({"order": _json.payload(order)})["order"] == order
    typed: list[tuple[Any, Any]] = [
        (bytes | None, b"\x01"),
        (set[int], {3, 1}),
        (dict[str, frozenset[int]], {"a": frozenset({1})}),
        (list[bytes], [b"a"]),
        (tuple[int, bytes], (1, b"a")),
        (tuple[bytes, ...], (b"a", b"b")),
        (Movie, {"title": "M", "posters": [b"a"]}),
        (Pair, Pair(b"a", frozenset({2}))),
        (list[Order], [order]),
    ]
    for hint, value in typed:
        assert _json.read(hint, _json.payload(value, partial(returned, hint))) == value


def returned(hint: Any) -> Any:
    return hint


@pytest.mark.parametrize("hint", [Any, object, str, list[str], dict[str, int], list[Any], tuple[int, int]])
@pytest.mark.parametrize("value", [b"a", {1}, [b"a"], [{1}], {"a": {1}}, {"a": b""}])
def test_a_hint_that_names_something_else_does_not_help(hint: Any, value: Any) -> None:
    with pytest.raises(_json.Unwritable, match="would arrive as"):
        _json.payload(value, lambda: hint)


@given(st.datetimes(timezones=st.just(UTC)) | st.integers(-(10**300), 10**300))
def test_instants_and_integers_lose_nothing(value: Any) -> None:
    assert _json.read(type(value), _json.payload(value)) == value


def report_of(code: Any, result: object) -> str:
    envelope = {
        "taskId": "task_1",
        "taskToken": "t",
        "kind": code.kind,
        "attempt": 1,
        "heartbeatTimeoutMs": 90_000,
        "heartbeatIntervalMs": 30_000,
    }
    clock = Clock()
    return succeeded(Attempt(envelope, Lease(clock, envelope, clock.now()), code), '"w"', result, None, False).text


def test_a_result_fails_its_task_for_good_with_its_place() -> None:
    told = report_of(untold, {"total": math.nan})
    assert '"outcome":"FAILED"' in told
    assert "what `untold` returned at .total: nan is no JSON number" in told
    assert '"retryable":false' in told
    assert '"output":{"lines":' in report_of(task(queue="q")(annotated), Order([Line(1.0, b"x")]))


def annotated() -> Order:
    raise AssertionError("only its hints are looked at")


def test_a_task_in_a_test_fails_as_it_would_on_a_worker() -> None:
    @task(queue="values")
    def bad() -> Any:
        return {"seen": {1}}

    with pytest.raises(_json.Unwritable, match=r"bad` returned at \.seen: a set"):
        run_inline(bad)


def seen() -> set[int]:
    return {1, 2}


def scattered() -> Any:
    return {"rows": [math.nan]}


def test_steps_say_which_result_cannot_be_recorded() -> None:
    @durable(queue="values")
    async def good(flow: Flow) -> int:
        return len(await flow.step("seen", seen) | {3})

    @durable(queue="values")
    async def bad(flow: Flow) -> Any:
        return await flow.step("scan", scattered, retry=5)

    assert FlowTest(good).run().output == 3
    ended = FlowTest(bad).run()
    assert ended.executed == {"scan#1": 1}, "another try would return the same"
    with pytest.raises(Failure, match=r"what step `scan#1` returned at \.rows\[0\]: nan") as failed:
        _ = ended.output
    assert failed.value.reason == "RESULT_UNWRITABLE"


@pytest.mark.parametrize(
    ("ends", "problem"),
    [
        (lambda flow: flow.savepoint({"seen": {1}}), r"state of the savepoint at \.seen: a set"),
        (lambda flow: flow.step("x", int, input={1: 2}), "`input` of step `x`: the key 1"),
        (lambda flow: flow.approval("ok", about=[math.nan]), r"approval `ok` is about at \[0\]: nan"),
        (lambda flow: flow.effect("tell", Effect("crm", "paid", {"x": b""})), r"effect `paid` at \.x: bytes"),
    ],
    ids=["savepoint", "input", "approval", "effect"],
)
def test_what_a_durable_function_says_fails_it_for_good(ends: Callable[[Flow], Any], problem: str) -> None:
    @durable(queue="values")
    async def flawed(flow: Flow) -> None:
        await ends(flow)

    with pytest.raises(Failure, match=problem) as failed:
        _ = FlowTest(flawed).run().output
    assert failed.value.retryable is False


def test_a_durable_function_says_what_it_cannot_return() -> None:
    @durable(queue="values")
    async def flawed(flow: Flow) -> Any:
        return [b"raw"]

    with pytest.raises(Failure, match=r"flawed` returned at \[0\]: bytes would arrive as text"):
        _ = FlowTest(flawed).run().output
