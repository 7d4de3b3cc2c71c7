#!/usr/bin/env python3
"""The four steps of `payables.yaml`, as a program under `tenure work --exec`: the input on stdin, the output on stdout.

A step can be executed twice, if its worker dies before it reports. Each of these may be: the run that took an invoice
finds it again, the ledger has one payment for each invoice, and a webhook is recorded once.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

LEDGER = os.environ.get("LEDGER_FILE", "ledger.db")
TABLE = "CREATE TABLE IF NOT EXISTS payment (supplier, number, cents, run, PRIMARY KEY (supplier, number))"
TOKENS_PER_WORD = 4
AT_FAULT = 65


def refuse(why: str) -> NoReturn:
    """The end of standard error becomes the message of the failure."""
    print(why, file=sys.stderr)
    sys.exit(AT_FAULT)


def tenure(*words: str) -> None:
    subprocess.run(["tenure", *words], check=True, stdout=subprocess.DEVNULL)


def take(inbox: Path) -> Path:
    """The oldest invoice, which no other run has then. A run that has one keeps it."""
    taken = Path("taken", os.environ["TENURE_RUN_ID"])
    taken.parent.mkdir(exist_ok=True)
    while not taken.exists():
        waiting = sorted(inbox.glob("*.txt"))
        if not waiting:
            refuse(f"no invoice waits in {inbox}")
        try:
            waiting[0].rename(taken)
        except FileNotFoundError:
            continue
    return taken


def extract(step: dict[str, Any]) -> dict[str, Any]:
    """Stands for a model that reads a scan, and says what it cost."""
    text = take(Path(step["inbox"])).read_text()
    tenure("spend", f"tokens={TOKENS_PER_WORD * len(text.split())}")
    return {name.lower(): value for name, value in re.findall(r"^(\w+): *(.+)$", text, re.M)}


def check(invoice: dict[str, Any]) -> dict[str, Any]:
    if missing := {"supplier", "number", "total"} - invoice.keys():
        refuse(f"the invoice has no {' and no '.join(sorted(missing))}")
    total = re.fullmatch(r"(\d+)\.(\d\d) EUR", invoice["total"])
    if not total:
        refuse(f"the total of {invoice['number']} is no amount in EUR: {invoice['total']}")
    checked = {"supplier": invoice["supplier"], "number": invoice["number"], "amount": invoice["total"]}
    question = "Pay {amount} to {supplier} for invoice {number}?".format(**checked)
    return {**checked, "cents": int("".join(total.groups())), "question": question}


def pay(invoice: dict[str, Any]) -> dict[str, Any]:
    """A bank gets the key of the payment, too: supplier and number."""
    run, key = os.environ["TENURE_RUN_ID"], (invoice["supplier"], invoice["number"])
    with sqlite3.connect(LEDGER, timeout=30) as ledger:
        ledger.execute(TABLE)
        ledger.execute("INSERT INTO payment VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", (*key, invoice["cents"], run))
        (payer,) = ledger.execute("SELECT run FROM payment WHERE supplier = ? AND number = ?", key).fetchone()
    if payer != run:
        refuse(f"invoice {invoice['number']} of {invoice['supplier']} was paid by {payer}")
    return {"paid": invoice["amount"]}


def tell(invoice: dict[str, Any]) -> dict[str, Any]:
    """Recorded with this step, and delivered afterwards, in order for each supplier."""
    message = {"type": "payable.paid", "data": {name: invoice[name] for name in ("supplier", "number", "cents")}}
    tenure("effect", "accounting", "payable.paid", "--body", json.dumps(message), "--aggregate", invoice["supplier"])
    return {"told": "accounting"}


STEPS = {"payable.extract": extract, "payable.check": check, "payable.pay": pay, "payable.tell": tell}

print(json.dumps(STEPS[os.environ["TENURE_KIND"]](json.load(sys.stdin))))
