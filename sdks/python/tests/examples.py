"""The examples of the Rust SDK in Python, and the functions that several tests share."""

from __future__ import annotations

from dataclasses import dataclass

from tenure import Effect, Flow, durable, task


@dataclass
class Order:
    id: int
    cents: int
    items: list[str]


@dataclass
class Payout:
    to: str
    cents: int


@dataclass
class Invoice:
    customer: str
    cents: int


@task(queue="orders")
def pack(item: str) -> str:
    return f"parcel with {item}"


def charge(cents: int) -> str:
    return f"receipt for {cents} cents"


def refund(receipt: str) -> None:
    assert receipt


async def mail(number: int, parcels: list[str]) -> str:
    return f"order {number}: {', '.join(parcels)}"


@durable(queue="orders")
async def order(flow: Flow, order: Order) -> str:
    receipt = await flow.step("charge", charge, order.cents, retry=5, input=order.cents)
    await flow.sleep(2)
    if await flow.signal("approve", bool).within(days=7) is not True:
        await flow.step("refund", refund, receipt)
        return f"order {order.id} was refunded"
    parcels = await flow.map(pack, order.items)
    return await flow.step("mail", mail, order.id, parcels)


def look_up(name: str) -> str:
    return f"account of {name}"


def transfer(account: str, cents: int) -> str:
    return f"paid {cents} cents to the {account}"


@durable(queue="payouts")
async def payout(flow: Flow, payout: Payout) -> str:
    account = await flow.step("look-up", look_up, payout.to, input=payout.to)
    subject = f"Pay {payout.cents} cents to {payout.to}"
    approval = await flow.approval("pay", quorum=2, within=86_400, default="REJECTED", subject=subject, about=payout)
    if not approval:
        return f"not paid: {approval.reason or 'no reason was given'}"
    return await flow.step("transfer", transfer, account, payout.cents, input=payout)


def number(cents: int) -> int:
    return cents % 1000


def send_letter(customer: str, number: int) -> None:
    assert customer
    assert number


@durable(queue="invoices")
async def invoice(flow: Flow, invoice: Invoice) -> str:
    n = await flow.step("number", number, invoice.cents)
    told = Effect("billing", "invoice.issued", invoice, aggregate=invoice.customer)
    delivery = await flow.effect("tell", told).delivered()
    if delivery:
        return f"invoice {n} was delivered"
    await flow.step("letter", send_letter, invoice.customer, n, input=invoice.customer)
    return f"invoice {n} was sent by letter: {delivery.reason}"


FUNCTIONS = {"order": order, "payout": payout, "invoice": invoice}


if __name__ == "__main__":
    from tenure import Worker

    Worker(order, payout, invoice, pack).run()
