"""Accounting hears of everything about a customer in order and once, also when it was down or lies about what it heard."""

from __future__ import annotations

import json
import sqlite3
import urllib.error
import urllib.request
from typing import Any

import pytest
from conftest import PATIENCE, Scene, eventually
from tenure import Kind

INVOICE: Kind[dict[str, object], str] = Kind("invoice", queue="invoices", input=dict[str, object], output=str, lease=2)


def order(id: str, customer: str) -> dict[str, object]:
    return {"id": id, "customer": customer, "cents": 4900}


@pytest.fixture
def office(scene: Scene) -> Scene:
    scene.python("invoices/accounting.py", "0", until="accounting listens")
    return scene


def entries(scene: Scene, customer: str) -> list[tuple[str, dict[str, Any]]]:
    books = sqlite3.connect(scene.folder / "books.db")
    try:
        rows = books.execute("SELECT type, body FROM entry WHERE customer = ? ORDER BY rowid", (customer,)).fetchall()
    except sqlite3.OperationalError:  # nothing has arrived
        rows = []
    finally:
        books.close()
    return [(type, json.loads(body)) for type, body in rows]


def test_an_invoice_is_paid(office: Scene) -> None:
    office.python("invoices/invoices.py")
    run = office.client.submit(INVOICE, order("o-1", "acme"))
    run.signal("paid", "bank")
    assert run.result(timeout=PATIENCE) == "invoice 1 was paid by bank"
    issued = {"order": "o-1", "number": 1, "text": "Invoice 1 for acme: 49.00 EUR"}
    paid = {"order": "o-1", "number": 1, "by": "bank"}
    assert entries(office, "acme") == [("invoice.issued", issued), ("invoice.paid", paid)]


def test_a_worker_that_is_killed_leaves_no_gap_and_no_second_message(office: Scene) -> None:
    worker = office.python("invoices/invoices.py")
    run = office.client.submit(INVOICE, order("o-1", "brick"))
    eventually("the first message", lambda: entries(office, "brick"))
    worker.kill()
    office.python("invoices/invoices.py")
    run.signal("paid", "card")
    assert run.result(timeout=PATIENCE) == "invoice 1 was paid by card"
    assert [type for type, _ in entries(office, "brick")] == ["invoice.issued", "invoice.paid"]
    # The next order has the next number.
    following = office.client.submit(INVOICE, order("o-2", "brick"))
    following.signal("paid", "card")
    assert following.result(timeout=PATIENCE) == "invoice 2 was paid by card"


def test_without_money_there_are_reminders(office: Scene) -> None:
    office.python("invoices/invoices.py", DAYS_TO_PAY="0.000002")
    run = office.client.submit(INVOICE, order("o-1", "crane"))
    assert run.result(timeout=PATIENCE) == "invoice 1 was written off after 2 reminders"
    heard = [type for type, _ in entries(office, "crane")]
    assert heard == ["invoice.issued", "invoice.overdue", "invoice.overdue", "invoice.written-off"]


def test_what_is_not_signed_is_not_booked(office: Scene) -> None:
    port = (office.folder / "program-0.log").read_text().split()[-1]
    forged = urllib.request.Request(f"http://127.0.0.1:{port}/", b'{"type": "invoice.paid", "data": {}}')
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(forged, timeout=PATIENCE)
    assert refused.value.code == 401
    assert not (office.folder / "books.db").exists()
