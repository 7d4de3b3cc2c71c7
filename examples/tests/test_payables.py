"""Large invoices wait for two people, small ones do not, and a killed worker pays nothing twice."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from typing import Any

import pytest
from conftest import EXAMPLES, Scene, eventually

PLAN = EXAMPLES / "payables/payables.yaml"
PROGRAM = EXAMPLES / "payables/payables.py"
#: Pays, and then waits until there is a file `go` before it says so.
SLOW = """#!/bin/sh
"{program}" >said || exit
echo "$TENURE_KIND" >>done.txt
while [ "$TENURE_KIND" = payable.pay ] && [ ! -e go ]; do sleep 0.02; done
cat said
"""


@pytest.fixture
def office(scene: Scene) -> Scene:
    scene.python("invoices/accounting.py", "0", until="accounting listens")
    (scene.folder / "inbox").mkdir()
    return scene


def work(office: Scene, program: object = PROGRAM) -> subprocess.Popen[bytes]:
    words = ["work", "--queue", "payables", "--exec", str(program)]
    return office.start(os.environ["TENURE_BINARY"], *words, until="works on")


def arrives(office: Scene, number: str, total: str, more: str = "") -> str:
    """A run for an invoice."""
    text = f"Supplier: ACME\nNumber: {number}\nTotal: {total}\n{more}"
    (office.folder / "inbox" / f"{number}.txt").write_text(text)
    return str(json.loads(office.tenure("submit", "--json", "--plan", PLAN))["runId"])


def end(office: Scene, run: str) -> dict[str, Any]:
    def ask() -> dict[str, Any] | None:
        shown = json.loads(office.tenure("runs", "show", "--json", run))
        return dict(shown) if shown["state"] in ("succeeded", "failed", "halted") else None

    return eventually(f"the end of {run}", ask)


def decide(office: Scene, run: str, name: str, decision: str) -> None:
    question = office.question(run)
    office.approver(name).approvals.decide(question["approvalId"], decision, digest=question["digest"])


def rows(office: Scene, file: str, table: str) -> list[tuple[Any, ...]]:
    if not (office.folder / file).exists():
        return []
    books = sqlite3.connect(office.folder / file)
    try:
        return books.execute(f"SELECT * FROM {table}").fetchall()
    finally:
        books.close()


def test_two_people_approve_and_a_killed_worker_pays_once(office: Scene) -> None:
    slow = office.folder / "slow.sh"
    slow.write_text(SLOW.format(program=PROGRAM))
    slow.chmod(0o755)
    first = work(office, slow)
    run = arrives(office, "17", "1000.01 EUR")
    question = office.question(run)
    assert question["subject"] == "Pay 1000.01 EUR to ACME for invoice 17?"
    assert rows(office, "ledger.db", "payment") == []
    decide(office, run, "ann", "APPROVED")
    decide(office, run, "bea", "APPROVED")
    eventually("the payment", lambda: "payable.pay" in office.lines("done.txt"))
    first.kill()
    first.wait()
    (office.folder / "go").touch()
    work(office, slow)
    assert end(office, run)["state"] == "succeeded"
    assert office.lines("done.txt").count("payable.pay") == 2
    assert rows(office, "ledger.db", "payment") == [("ACME", "17", 100001, run)]
    told = eventually("accounting to hear", lambda: rows(office, "books.db", "entry"))
    assert [(type, customer) for _, type, customer, _ in told] == [("payable.paid", "ACME")]


def test_a_small_invoice_asks_nobody_and_is_paid_once(office: Scene) -> None:
    work(office)
    assert end(office, arrives(office, "18", "1000.00 EUR"))["state"] == "succeeded"
    again = end(office, arrives(office, "18", "1000.00 EUR"))
    assert (again["state"], again["error"]["category"]) == ("failed", "DATA_QUALITY")
    assert "was paid by" in again["error"]["message"]
    assert len(rows(office, "ledger.db", "payment")) == 1


@pytest.mark.parametrize(
    ("total", "more", "reason"),
    [
        ("5000.00 EUR", "", "NOT_APPROVED"),
        ("5000.00 USD", "", "NOT_RETRYABLE"),
        ("5.00 EUR", "blah " * 15_000, "BUDGET_EXHAUSTED"),
    ],
)
def test_nothing_is_paid_that_is_rejected_wrong_or_too_long(office: Scene, total: str, more: str, reason: str) -> None:
    work(office)
    run = arrives(office, "19", total, more)
    if reason == "NOT_APPROVED":
        decide(office, run, "ann", "REJECTED")
    assert end(office, run)["error"]["reason"] == reason
    assert rows(office, "ledger.db", "payment") == []
