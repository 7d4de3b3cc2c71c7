"""The durable kinds of the conformance kit, and the marks by which user code says what it does."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from tenure import Effect, Failure, Flow, Kind, Retry, Step, Task, durable

QUEUE = "conform"
DAY = 86_400
PACK: Kind[str, str] = Kind("pack", queue=QUEUE, input=str, output=str)
SQUARE: Kind[int, int] = Kind("square", queue=QUEUE, input=int, output=int)


def send(said: dict[str, Any]) -> None:
    """A plain call outside of the SDK. A mark that does not arrive is missed by the kit."""
    body = json.dumps({**said, "at": time.time_ns() // 1_000_000})
    where = urlsplit(os.environ["TENURE_URL"].split(",")[0])
    try:
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=5)
        connection.request("POST", "/conform/mark", body, {"content-type": "application/json"})
        connection.getresponse().read()
        connection.close()
    except OSError:
        pass


async def mark_step(step: Step, word: str) -> None:
    """A step knows its task by its idempotency key."""
    said = {"task": step.idempotency_key.split("/")[0], "mark": word, "attempt": step.fence, "fence": step.fence}
    await asyncio.to_thread(send, said)


@dataclass
class Order:
    cents: int
    items: list[str] = field(default_factory=list)
    fails: int = 0
    chargeMs: int = 0
    timeoutMs: int | None = None


@durable(queue=QUEUE)
async def order(flow: Flow, input: Order) -> dict[str, str]:
    async def charge(step: Step) -> str:
        await mark_step(step, "charge")
        await asyncio.sleep(input.chargeMs / 1000)
        if step.number <= input.fails:
            raise Failure.infra("the bank is closed")
        return f"receipt-{input.cents}"

    async def mail(step: Step) -> None:
        await mark_step(step, "mail")

    limit = None if input.timeoutMs is None else input.timeoutMs / 1000
    retry = Retry(3, base=0.1)
    receipt = await flow.step("charge", charge, bind=True, input=input.cents, retry=retry, timeout=limit)
    await flow.sleep("cool-off", seconds=0.3)
    if await flow.signal("approve", bool).within(days=7):
        packed = ", ".join(await flow.map(PACK, input.items))
    else:
        packed = await flow.step("refund", lambda: "refunded")
    await flow.step("mail", mail, bind=True)
    return {"receipt": receipt, "packed": packed}


@durable(queue=QUEUE)
async def sleeper(flow: Flow, input: Any) -> datetime:
    await flow.sleep(hours=1)
    return await flow.now()


@durable(queue=QUEUE)
async def signaller(flow: Flow, input: Any) -> list[Any]:
    first, second = await flow.signal("go"), await flow.signal("go")
    return [first, second, await flow.signal("go").within(seconds=1)]


@durable(queue=QUEUE)
async def children(flow: Flow, input: Any) -> Any:
    if isinstance(input, dict):
        await flow.call(SQUARE, input["detached"]).detach()
        return "detached"
    ends = await flow.map(SQUARE, input, max=2, return_exceptions=True)
    return [{"failed": end.message} if isinstance(end, Failure) else end for end in ends]


@durable(queue=QUEUE)
async def parallel(flow: Flow, input: dict[str, Any]) -> dict[str, Any]:
    async def slow(step: Step) -> int:
        await mark_step(step, "slow")
        await asyncio.sleep(input.get("slowMs", 0) / 1000)
        return 3

    async def left(flow: Flow) -> int:
        return await flow.step("a", lambda: 1) + await flow.step("b", lambda: 2)

    async def right(flow: Flow) -> int:
        return await flow.step("a", slow, bind=True)

    third = [flow.branch("third", right)] if input.get("wide") else []
    both = await flow.all(flow.branch("left", left), flow.branch("right", right), *third)
    won = [(await flow.any(go=flow.signal("go"), late=flow.sleep(0.3)))[0] for _ in range(2)]
    return {"left": both[0], "right": both[1], "won": won}


async def think(step: Step) -> int | None:
    await mark_step(step, "think")
    step.spend(tokens=400)
    return step.left.tokens if step.left else None


@durable(queue=QUEUE)
async def budgeted(flow: Flow, input: Any) -> list[int | None]:
    return [await flow.step("think", think, bind=True) for _ in range(5)]


@durable(queue=QUEUE)
async def approval(flow: Flow, input: Any) -> dict[str, Any]:
    asked = await flow.approval("pay", about=input, quorum=2, within=DAY, default="REJECTED")
    return {"outcome": asked.outcome, "reason": asked.reason}


@durable(queue=QUEUE)
async def effects(flow: Flow, input: Any) -> str:
    async def letter(step: Step) -> None:
        await mark_step(step, "letter")

    delivery = await flow.effect("tell", Effect("crm", "order.paid", input, aggregate="o-7")).delivered()
    if not delivery:
        await flow.step("letter", letter, bind=True)
    return delivery.outcome


def increased(n: int) -> int:
    return n + 1


@durable(queue=QUEUE)
async def looper(flow: Flow, input: Any) -> dict[str, Any]:
    state: dict[str, Any] = flow.resumed() or {"steps": 0, "draws": []}
    while True:
        state["steps"] = await flow.step("count", increased, state["steps"])
        if state["steps"] >= 25 or state["steps"] % 10 == 0:
            state["draws"].append(str(flow.random_u64("x")))
        if state["steps"] >= 25:
            return state
        if state["steps"] % 10 == 0:
            await flow.savepoint(state)


async def value_of(flow: Flow, name: str, value: Any, input: int = 1) -> Any:
    return await flow.step(name, lambda: value, input=input)


@durable(queue=QUEUE)
async def versions(flow: Flow, input: dict[str, Any]) -> Any:
    code, value = input["code"], input.get("value")
    if code == "v1":
        return [await value_of(flow, "a", value), await value_of(flow, "b", 2)]
    if code == "v2":
        first = await value_of(flow, "a", value)
        name = "c" if flow.patched("c-for-b") else "b"
        return [first, await value_of(flow, name, name)]
    if code == "renamed":
        return await value_of(flow, "z", 1)
    if code == "other-input":
        return await value_of(flow, "a", 1, input=2)
    if code == "shorter":
        return await value_of(flow, "a", 1)
    return await misused(flow, code)


async def misused(flow: Flow, code: str) -> Any:
    if code == "foreign-await":
        first = await value_of(flow, "a", 1)
        await asyncio.sleep(0.05)
        return [first, await value_of(flow, "b", 2)]
    if code == "two-at-once":
        outer = flow

        async def uses_outer(_: Flow, name: str) -> Any:
            return await value_of(outer, name, 1)

        return list(await flow.all(flow.branch("x", uses_outer, "a"), flow.branch("y", uses_outer, "b")))
    if code == "not-awaited":
        flow.step("a", lambda: 1)
        return "done"
    if code == "bug":
        raise ZeroDivisionError("a bug in the function")
    raise Failure.permanent("it cannot be done" if code == "failure" else f"no code is called {code}")


DURABLE: list[Task[..., Any]] = [
    order, sleeper, signaller, children, parallel, budgeted, approval, effects, looper, versions
]  # fmt: skip
