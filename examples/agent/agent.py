r"""An AI agent for customer service: it uses tools, stays within a budget, and asks a person before it pays money back.

    python examples/agent/model.py          # a model for trying it out; or set MODEL_URL and MODEL_KEY to a real one
    python examples/agent/agent.py          # the worker
    tenure submit support --queue agents --budget tokens=20000,tool-calls=10,steps=50 \
        --input '{"order": 7, "complaint": "The lamp arrived broken."}'
    tenure inbox                            # the refund waits for a person

The budget of `support` goes with each submission from Python; the command line names its own.

Each thought and each use of a tool is a step. After a crash another worker goes on behind the last one that was
recorded: no thought is paid for twice, and the refund keeps its key.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tenure import Budget, Failure, Flow, Step, Worker, durable

MODEL_URL = os.environ.get("MODEL_URL", "http://127.0.0.1:8099/v1/chat/completions")
SHOP = os.environ.get("SHOP_FILE", "refunds.jsonl")
#: Tools that move money, and what people are told about them.
ASK_FIRST = {"refund": "Refund order {order} with {cents} cents"}


@dataclass
class Ticket:
    order: int
    complaint: str


def look_up_order(step: Step, order: int) -> dict[str, Any]:
    """What was ordered, and for how much."""
    return {"order": order, "item": "lamp", "cents": 4900, "delivered": True}


def refund(step: Step, order: int, cents: int) -> dict[str, Any]:
    """Pays money back. A real shop recognises a repeated request by its key; this one is a file."""
    with open(SHOP, "a") as shop:
        print(json.dumps({"key": step.idempotency_key, "order": order, "cents": cents}), file=shop)
    return {"refunded": cents}


TOOLS: dict[str, Callable[..., dict[str, Any]]] = {"look_up_order": look_up_order, "refund": refund}


def parameters_of(tool: Callable[..., Any]) -> list[str]:
    return [name for name in tool.__annotations__ if name not in ("step", "return")]


def describe(name: str, tool: Callable[..., Any]) -> dict[str, Any]:
    """A tool in the form that models expect."""
    names = parameters_of(tool)
    parameters = {"type": "object", "properties": {word: {"type": "integer"} for word in names}, "required": names}
    return {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": parameters}}


def think(step: Step, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Asks the model what to do next, and counts what that cost."""
    tools = [describe(name, tool) for name, tool in TOOLS.items()]
    body = json.dumps({"model": os.environ.get("MODEL", "small"), "messages": messages, "tools": tools}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ.get('MODEL_KEY', '')}"}
    request = urllib.request.Request(MODEL_URL, body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    step.spend(tokens=answer["usage"]["total_tokens"])
    message: dict[str, Any] = answer["choices"][0]["message"]
    return message


def use(step: Step, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Uses a tool."""
    step.spend(tool_calls=1)
    return TOOLS[name](step, **arguments)


async def answer_call(flow: Flow, call: dict[str, Any]) -> dict[str, Any]:
    """What the model is told about its use of a tool."""
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    if name not in TOOLS or sorted(arguments) != sorted(parameters_of(TOOLS[name])):
        return {"error": f"there is no tool {name} with these arguments"}
    if name in ASK_FIRST:
        subject = ASK_FIRST[name].format(**arguments)
        word = await flow.approval(name, subject=subject, about=arguments, within=86_400, default="REJECTED")
        if not word:
            return {"error": f"a person refused: {word.reason or 'no reason was given'}"}
    return await flow.step(name, use, name, arguments, bind=True, retry=3, input=arguments)


@durable(queue="agents", budget=Budget(tokens=20_000, tool_calls=10, steps=50))
async def support(flow: Flow, ticket: Ticket) -> str:
    """Answers a complaint."""
    system = "You answer complaints of customers of a shop. Look the order up before you decide."
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": system},
        {"role": "user", "content": f"Order {ticket.order}: {ticket.complaint}"},
    ]
    while True:
        message = await flow.step("think", think, messages, bind=True, retry=3, timeout=90)
        messages.append(message)
        if not message.get("tool_calls"):
            if not message.get("content"):
                raise Failure.data("the model neither answered nor used a tool")
            return str(message["content"])
        for call in message["tool_calls"]:
            told = await answer_call(flow, call)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(told)})


if __name__ == "__main__":
    Worker(support).run()
