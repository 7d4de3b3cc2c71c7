"""A model that always thinks the same, for trying the agent out and for tests. It speaks the chat completions of OpenAI.

    python examples/agent/model.py [PORT]

It looks the order up, refunds it, and then answers. Each thought costs 700 tokens.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def thought(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The next message, by what the tools have said so far."""
    told = [json.loads(message["content"]) for message in messages if message["role"] == "tool"]
    order = int(messages[1]["content"].split(":")[0].removeprefix("Order "))
    if not told:
        return called("look_up_order", {"order": order})
    if len(told) == 1:
        return called("refund", {"order": order, "cents": told[0]["cents"]})
    refused = told[1].get("error")
    text = f"I am sorry, we cannot refund it: {refused}." if refused else "I am sorry. Your money is on its way."
    return {"role": "assistant", "content": text}


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        choice = {"message": thought(asked["messages"])}
        body = json.dumps({"choices": [choice], "usage": {"total_tokens": 700}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8099), Model)
    print(f"a model thinks at http://127.0.0.1:{server.server_port}/v1/chat/completions", flush=True)
    server.serve_forever()
