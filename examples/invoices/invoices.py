"""Invoices: a number without gaps, accounting is told by webhook, and the function waits two weeks for the money.

    python examples/invoices/accounting.py  # registers itself as the endpoint `accounting`, and notes what arrives
    python examples/invoices/invoices.py    # the worker
    tenure submit invoice --queue invoices --input '{"id": "o-1", "customer": "acme", "cents": 4900}'
    tenure runs signal RUN paid --data '"bank"'

Webhooks are recorded with the step that asks for them, so a crash neither loses one nor makes a second one. All webhooks
about one customer arrive in the order in which they were decided (`aggregate`).
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from typing import Any

from tenure import Effect, Flow, Worker, durable

NUMBERS = os.environ.get("NUMBERS_FILE", "numbers.db")
DAYS_TO_PAY = float(os.environ.get("DAYS_TO_PAY", "14"))
REMINDERS = 2


@dataclass
class Order:
    id: str
    customer: str
    cents: int


def take_number(order: str) -> int:
    """The number of the invoice. An order that has one keeps it, so a step that is executed twice leaves no gap."""
    with sqlite3.connect(NUMBERS, timeout=30) as numbers:
        numbers.execute("CREATE TABLE IF NOT EXISTS invoice (number INTEGER PRIMARY KEY, order_id TEXT UNIQUE)")
        numbers.execute("INSERT INTO invoice (order_id) VALUES (?) ON CONFLICT DO NOTHING", (order,))
        row = numbers.execute("SELECT number FROM invoice WHERE order_id = ?", (order,)).fetchone()
    return int(row[0])


def render(number: int, customer: str, cents: int) -> str:
    """The text of the invoice. A large PDF belongs in your own storage, and its address here."""
    return f"Invoice {number} for {customer}: {cents / 100:.2f} EUR"


def print_letter(text: str) -> None:
    """What is done where accounting cannot be reached."""
    print(f"a letter: {text}", flush=True)


async def tell(flow: Flow, name: str, order: Order, body: dict[str, Any]) -> bool:
    """Has accounting told, in order, and waits until it has heard or was given up."""
    type = f"invoice.{name}"
    message = {"type": type, "data": {"order": order.id, **body}}
    delivery = await flow.effect(name, Effect("accounting", type, message, aggregate=order.customer)).delivered()
    return bool(delivery)


@durable(queue="invoices", kind="invoice")
async def invoice(flow: Flow, order: Order) -> str:
    number = await flow.step("number", take_number, order.id, retry=5, input=order.id)
    text = await flow.step("render", render, number, order.customer, order.cents)
    if not await tell(flow, "issued", order, {"number": number, "text": text}):
        await flow.step("letter", print_letter, text)
    for reminder in range(1, REMINDERS + 1):
        # No worker and no process waits meanwhile.
        paid = await flow.signal("paid", str).within(days=DAYS_TO_PAY)
        if paid is not None:
            await tell(flow, "paid", order, {"number": number, "by": paid})
            return f"invoice {number} was paid by {paid}"
        await tell(flow, "overdue", order, {"number": number, "reminder": reminder})
    await tell(flow, "written-off", order, {"number": number})
    return f"invoice {number} was written off after {REMINDERS} reminders"


if __name__ == "__main__":
    Worker(invoice).run()
