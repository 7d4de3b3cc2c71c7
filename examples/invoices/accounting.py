"""The other end of the webhooks: it believes only what is signed, and applies each message once.

    python examples/invoices/accounting.py [PORT]

It registers itself at the coordinator of TENURE_URL, which needs a key with the role admin. `tenure dev` lets webhooks
go to this machine; `tenure serve` needs --allow-private-receivers for that.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from tenure import Client, Refused
from tenure.webhooks import Event, NotVerified, Verifier

BOOKS = os.environ.get("BOOKS_FILE", "books.db")
TABLE = "CREATE TABLE IF NOT EXISTS entry (id TEXT PRIMARY KEY, type TEXT, customer TEXT, body TEXT)"


def book(event: Event) -> bool:
    """Writes the entry. Its id and its effect are one transaction, so a repeated delivery changes nothing."""
    with sqlite3.connect(BOOKS, timeout=30) as books:
        books.execute(TABLE)
        row = (event.id, event.type, event.aggregate, json.dumps(event.data))
        return books.execute("INSERT INTO entry VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row).rowcount == 1


class Receiver(BaseHTTPRequestHandler):
    verifier: Verifier

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = self.verifier.verify(dict(self.headers.items()), body)
        except NotVerified as refused:
            self.answer(401, str(refused))
            return
        print(event.type, "booked" if book(event) else "known", flush=True)
        self.answer(200, "")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def register(url: str) -> str:
    """The secret with which the coordinator signs. It is shown once, so a restart takes a new one."""
    with Client() as client:
        try:
            # It hears of what the function asks for, and not of the ends of runs.
            return client.endpoints.create("accounting", url, types=[])["secret"]
        except Refused as refused:
            if refused.code != "endpoint_exists":
                raise
            client.endpoints.update("accounting", url=url)
            return client.endpoints.rotate("accounting")["secret"]


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8098), Receiver)
    Receiver.verifier = Verifier(register(f"http://127.0.0.1:{server.server_port}/"))
    print(f"accounting listens on port {server.server_port}", flush=True)
    server.serve_forever()
