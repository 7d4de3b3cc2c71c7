"""Durable functions in memory: what each operation does, in every attempt alike."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest
from examples import Invoice, Order, Payout, invoice, order, payout

from tenure import CallFailed, Failure, Flow, Kind, Retry, Step, StepFailed, current, durable, task
from tenure._commands import Start
from tenure._engine import Core
from tenure.testing import Diverged, FlowTest, Stuck, run_inline

SQUARE: Kind[int, int] = Kind("square", queue="numbers", input=int, output=int)


def double(n: int) -> int:
    return 2 * n


async def adouble(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


def test_an_order_survives_a_crash_at_every_command() -> None:
    """S2-90: whatever dies where, each step is recorded once and the output is the same."""
    test = FlowTest(order, Order(7, 500, ["lamp", "cable"])).signal("approve", True)
    test.child("pack", lambda item: f"parcel with {item}", takes=5)
    runs = test.run_with_every_crash()
    assert len(runs) > 10
    for ended in runs:
        assert ended.output == "order 7: parcel with lamp, parcel with cable"
        assert ended.keys() == runs[0].keys()
        assert ended.executed["charge#1"] <= 2
    assert runs[0].executed == {"charge#1": 1, "mail#1": 1}


def test_nothing_is_approved_by_itself() -> None:
    ended = FlowTest(order, Order(8, 1, [])).run()
    assert ended.output == "order 8 was refunded"
    assert ended.keys() == ["charge#1", "sleep#1", "signal:approve#1.timeout", "refund#1"]


def test_people_decide() -> None:
    def paid(test: FlowTest[str]) -> str:
        return test.run().output

    assert paid(FlowTest(payout, Payout("Ada", 5)).approve("pay", "ann").approve("pay", "bob")).startswith("paid 5")
    rejected = FlowTest(payout, Payout("Ada", 5)).approve("pay", "ann").reject("pay", "bob", "too dear")
    assert paid(rejected) == "not paid: too dear"
    twice = FlowTest(payout, Payout("Ada", 5)).approve("pay", "ann").approve("pay", "ann")
    assert paid(twice) == "not paid: no reason was given"


def test_effects_are_awaited() -> None:
    assert FlowTest(invoice, Invoice("Ada", 7)).run().output == "invoice 7 was delivered"
    failed = FlowTest(invoice, Invoice("Ada", 7)).delivery("invoice.issued", "FAILED", takes=60)
    assert failed.run().output == "invoice 7 was sent by letter: tries_exhausted"


@durable()
async def everything_at_once(flow: Flow, n: int) -> list[Any]:
    async def left(flow: Flow, start: int) -> int:
        first = await flow.step("a", double, start)
        return await flow.step("b", adouble, first)

    pair = await flow.all(flow.branch("left", left, n), flow.step("right", double, 5))
    calls = await flow.all(flow.call(SQUARE, 2), flow.call(SQUARE, 3).named("other"))
    return [pair, calls]


def test_all_gives_members_branches_and_keeps_calls_in_order() -> None:
    for ended in FlowTest(everything_at_once, 1).child(SQUARE, lambda n: n * n).run_with_every_crash():
        assert ended.output == [[4, 10], [4, 9]]
        assert sorted(set(ended.keys())) == ["2/right#1", "child:other#1", "child:square#1", "left/a#1", "left/b#1"]


@durable()
async def races(flow: Flow, _: None) -> list[Any]:
    first = await flow.any(go=flow.signal("go", str), late=flow.sleep(minutes=1))
    second = await flow.any(go=flow.signal("go", str), late=flow.sleep(minutes=1))
    third = await flow.any(done=flow.call(SQUARE, 7), late=flow.sleep(days=1))
    return [first, second, third]


def test_the_first_to_be_committed_wins_in_every_replay() -> None:
    test = FlowTest(races, None).signal("go", "now", after=90).child(SQUARE, lambda n: n * n, takes=3600)
    for ended in test.run_with_every_crash():
        assert ended.output == [["late", None], ["go", "now"], ["done", 49]]
        assert {"go/signal:go#2", "late/sleep#1"} <= set(ended.keys())


def test_steps_cannot_race() -> None:
    @durable()
    async def racing(flow: Flow, _: None) -> Any:
        return await flow.any(a=flow.step("a", double, 1))

    with pytest.raises(Diverged, match=r"cannot be a member of `flow\.any`"):
        FlowTest(racing, None).run()


@durable()
async def mapped(flow: Flow, items: list[int]) -> list[Any]:
    results = await flow.map(SQUARE, items, max=2, return_exceptions=True)
    return [{"failed": r.message} if isinstance(r, Failure) else r for r in results]


def squared(n: int) -> int:
    if n < 0:
        raise Failure.data("no roots")
    return n * n


def test_map_bounds_calls_and_keeps_their_order() -> None:
    for ended in FlowTest(mapped, [3, -1, 2]).child(SQUARE, squared, takes=1).run_with_every_crash():
        assert ended.output == [9, {"failed": "no roots"}, 4]


def test_a_failed_call_is_raised_with_its_category() -> None:
    @durable()
    async def calls(flow: Flow, _: None) -> str:
        try:
            await flow.call(SQUARE, -1)
        except CallFailed as failure:
            return f"{failure.category}: {failure.message}"
        return "squared"

    assert FlowTest(calls, None).child(SQUARE, squared).run().output == "DATA_QUALITY: no roots"
    late = FlowTest(calls, None)
    with pytest.raises(Stuck, match="child:square#1"):
        late.run()


def test_a_call_has_a_limit() -> None:
    @durable()
    async def limited(flow: Flow, _: None) -> int | None:
        return await flow.call(SQUARE, 2).within(seconds=5)

    assert FlowTest(limited, None).child(SQUARE, squared, takes=9).run().output is None
    assert FlowTest(limited, None).child(SQUARE, squared, takes=3).run().output == 4


class Flaky(Exception):
    pass


def test_tries_are_recorded_and_the_last_failure_is_raised() -> None:
    seen: list[tuple[int, str]] = []

    def fails(step: Step) -> None:
        seen.append((step.number, step.idempotency_key))
        raise Flaky("busy")

    @durable()
    async def retries(flow: Flow, _: None) -> str:
        try:
            await flow.step("s", fails, bind=True, retry=Retry(3, base=1))
        except StepFailed as failure:
            return f"{failure.category} {failure.message}"
        return "never"

    ended = FlowTest(retries, None).run()
    assert ended.output == "USER_CODE Flaky: busy"
    assert ended.keys() == ["s#1.1", "s#1.1.wait", "s#1.2", "s#1.2.wait", "s#1"]
    assert [number for number, _ in seen] == [1, 2, 3]
    assert len({key for _, key in seen}) == 1


def test_a_failure_that_no_try_can_mend_is_not_retried() -> None:
    def fails() -> None:
        raise Failure.data("wrong")

    @durable()
    async def once(flow: Flow, _: None) -> None:
        await flow.step("s", fails, retry=5)

    ended = FlowTest(once, None).run()
    assert ended.error is not None
    assert ended.error.category == "DATA_QUALITY"
    assert ended.executed == {"s#1": 1}


def test_abort_ends_the_run_past_every_except() -> None:
    def fails() -> None:
        raise Flaky("no")

    @durable()
    async def aborts(flow: Flow, _: None) -> str:
        try:
            await flow.step("s", fails, on_error="abort")
        except StepFailed:
            return "caught"
        return "passed"

    ended = FlowTest(aborts, None).run()
    assert ended.error is not None
    assert ended.error.message == "Flaky: no"


def test_an_async_step_has_a_timeout() -> None:
    async def hangs() -> None:
        await asyncio.sleep(60)

    @durable()
    async def waits(flow: Flow, _: None) -> str:
        try:
            await flow.step("s", hangs, timeout=0.05)
        except StepFailed as failure:
            return f"{failure.category} {failure.reason}"
        return "never"

    assert FlowTest(waits, None).run().output == "TIMEOUT STEP_TIMEOUT"


def increased(n: int) -> int:
    return n + 1


@durable()
async def looper(flow: Flow, last: int) -> list[Any]:
    state = flow.resumed(dict[str, Any]) or {"n": 0, "drawn": []}
    n, drawn = state["n"], state["drawn"]
    for _ in range(10):
        if n == last:
            return [n, drawn]
        n = await flow.step("count", increased, n)
    drawn.append([flow.random("x"), str(flow.uuid("y"))])
    return await flow.savepoint({"n": n, "drawn": drawn})


def test_a_savepoint_starts_over_with_its_state() -> None:
    runs = FlowTest(looper, 25).run_with_every_crash()
    for ended in runs:
        assert ended.output == runs[0].output
        assert ended.output[0] == 25
        assert all(0 <= number < 1 for number, _ in ended.output[1])
        assert {"savepoint#11"} <= set(ended.keys())


def test_time_is_that_of_the_record() -> None:
    @durable()
    async def clock(flow: Flow, _: None) -> float:
        before = await flow.now()
        await flow.sleep(days=1)
        return (await flow.now() - before) / timedelta(hours=1)

    assert FlowTest(clock, None).run().output == 24.0


def test_old_runs_keep_the_old_path() -> None:
    @durable(kind="f")
    async def old(flow: Flow, _: None) -> list[int]:
        return [await flow.step("charge", double, 1), await flow.step("mail", double, 2)]

    @durable(kind="f")
    async def new(flow: Flow, _: None) -> list[int]:
        checked = [await flow.step("check", double, 0)] if flow.patched("fraud-check") else []
        return [*checked, await flow.step("charge", double, 1), await flow.step("mail", double, 2)]

    recorded = FlowTest(old, None).run().history
    assert FlowTest(new, None).recorded(recorded).run().keys() == ["charge#1", "mail#1"]
    assert FlowTest(new, None).run().keys() == ["patched:fraud-check#1", "check#1", "charge#1", "mail#1"]


def test_other_code_stops_before_anything_is_executed() -> None:
    @durable(kind="f")
    async def one(flow: Flow, _: None) -> int:
        return await flow.step("a", double, 1, input=1)

    @durable(kind="f")
    async def two(flow: Flow, _: None) -> int:
        return await flow.step("b", double, 1, input=1)

    @durable(kind="f")
    async def other_input(flow: Flow, _: None) -> int:
        return await flow.step("a", double, 1, input=2)

    @durable(kind="f")
    async def shorter(flow: Flow, _: None) -> int:
        return 0

    recorded = FlowTest(one, None).run().history
    for function, problem in [(two, "now b#1"), (other_input, "with input"), (shorter, "never reaches")]:
        with pytest.raises(Diverged, match=problem):
            FlowTest(function, None).recorded(recorded).run()


@pytest.mark.parametrize("word", ["sleep", "gather", "forgotten", "twice", "name", "outer"])
def test_what_no_replay_could_repeat_stops_the_run(word: str) -> None:
    @durable()
    async def misuse(flow: Flow, word: str) -> Any:
        if word == "sleep":
            await asyncio.sleep(0.01)
        if word == "gather":
            await asyncio.gather(flow.step("a", double, 1), flow.step("b", double, 1))
        if word == "forgotten":
            flow.step("a", double, 1)
        if word == "twice":
            step = flow.step("a", double, 1)
            await step
            await step
        if word == "name":
            await flow.step("a/b", double, 1)
        if word == "outer":

            async def inner(_: Flow) -> int:
                return await flow.step("a", double, 1)

            await flow.all(flow.branch("left", inner), flow.branch("right", inner))
        return None

    problems = {
        "sleep": "awaits something that is not `flow`",
        "gather": r"`a` \(test_flow.py:\d+\).*use flow.all",
        "forgotten": r"never awaited `a` \(test_flow.py:\d+\)",
        "twice": "a second time",
        "name": "is no name here",
        "outer": "begins while",
    }
    with pytest.raises(Diverged, match=problems[word]):
        FlowTest(misuse, word).run()


def test_except_exception_does_not_catch_a_stop() -> None:
    @durable()
    async def stubborn(flow: Flow, _: None) -> str:
        try:
            await flow.step("a b", double, 1)
        except Exception:
            return "caught"
        return "passed"

    with pytest.raises(Diverged):
        FlowTest(stubborn, None).run()


def test_a_bug_is_raised_as_it_is() -> None:
    @durable()
    async def buggy(flow: Flow, n: int) -> float:
        await flow.step("a", double, n)
        return 1 / n

    with pytest.raises(ZeroDivisionError):
        FlowTest(buggy, 0).run()


def test_results_have_their_types_in_the_first_attempt_too() -> None:
    def loads() -> Order:
        return Order(1, 2, ["x"])

    @durable()
    async def typed(flow: Flow, _: None) -> str:
        loaded = await flow.step("load", loads)
        return type(loaded).__name__ + loaded.items[0]

    assert FlowTest(typed, None).run().output == "Orderx"


def test_code_that_changes_a_result_does_not_change_the_record() -> None:
    @durable()
    async def changes(flow: Flow, _: None) -> list[int]:
        numbers = await flow.step("a", lambda: [1])
        numbers.append(2)
        await flow.step("b", double, 1)
        return numbers

    for ended in FlowTest(changes, None).run_with_every_crash():
        assert ended.history[0].result == [1]
        assert ended.output == [1, 2]


def test_current_finds_the_step() -> None:
    def think() -> int:
        current().spend(tokens=400)
        step = current()
        assert isinstance(step, Step)
        return step.number

    @durable()
    async def agent(flow: Flow, _: None) -> int:
        return await flow.step("think", think)

    assert FlowTest(agent, None).run().output == 1


def test_a_log_is_silent_in_replay(caplog: pytest.LogCaptureFixture) -> None:
    @durable()
    async def logs(flow: Flow, _: None) -> None:
        flow.log.warning("before")
        await flow.step("a", double, 1)
        flow.log.warning("between")
        await flow.sleep(days=1)
        flow.log.warning("after")

    with caplog.at_level(logging.WARNING, "tenure"):
        FlowTest(logs, None).run()
    assert [record.message for record in caplog.records] == ["before", "between", "after"]


def test_draws_differ_by_label_and_not_by_attempt() -> None:
    flow = Flow(Core(Start("task_1", 1, 7, 0)))
    again = Flow(Core(Start("task_1", 2, 7, 0)))
    assert [flow.random("a"), flow.random("a"), flow.random("b")] == [
        again.random("a"),
        again.random("a"),
        again.random("b"),
    ]
    assert flow.uuid("c").version == 4


def test_a_task_runs_inline() -> None:
    @task(bind=True)
    async def total(ctx: Any, lines: list[Order], factor: int = 1) -> int:
        assert not ctx.cancelled
        return factor * sum(line.cents for line in lines)

    assert run_inline(total, [Order(1, 2, []), Order(2, 3, [])], factor=2) == 10


def test_a_flow_test_runs_inside_a_loop_too() -> None:
    async def inside() -> str:
        return FlowTest(order, Order(8, 1, [])).run().output

    assert asyncio.run(inside()) == "order 8 was refunded"


def test_the_fixture_makes_runs(flow: Any) -> None:
    assert flow(everything_at_once, 1).child(SQUARE, squared).run().output[0] == [4, 10]
