"""The other language of the codec's test: a worker, and a client, that use the Python SDK."""

import hashlib
import hmac
import os
import sys
import zlib

from tenure import Client, Worker, durable, task

KEY = bytes(range(32))
NOTES = os.environ["NOTES"]


class Veiled:
    """Compresses, and hides the bytes from a reader who does not look closely: enough for a test."""

    name = "veiled"

    def encode(self, plain: bytes) -> bytes:
        return bytes(byte ^ KEY[n % 32] for n, byte in enumerate(zlib.compress(plain)))

    def decode(self, stored: bytes) -> bytes:
        return zlib.decompress(bytes(byte ^ KEY[n % 32] for n, byte in enumerate(stored)))

    def digest(self, plain: bytes) -> str:
        return hmac.new(KEY, plain, hashlib.sha256).hexdigest()


def charge(order: dict) -> str:
    with open(NOTES, "a") as notes:
        notes.write(f"charged by python: {order['cents']}\n")
    return f"sesame-{order['cents']}"


@task(queue="veiled")
def pack(item: str) -> str:
    return f"{item} packed by python"


@durable(queue="veiled")
async def pay(flow, order: dict) -> dict:
    receipt = await flow.step("charge", charge, order, input=order["cents"])
    word = await flow.signal("go", str)
    packed = await flow.call(pack, order["item"])
    return {"receipt": receipt, "word": word, "packed": packed}


if __name__ == "__main__":
    client = Client(codec=Veiled())
    match sys.argv[1:]:
        case ["work"]:
            Worker(pack, pay, client=client).run()
        case ["submit", item]:
            print(client.submit(pay, {"cents": 500, "item": item}).id)
        case ["signal", run]:
            client.run(run).signal("go", "sesame, open")
        case ["result", run]:
            print(client.run(run).result(timeout=60)["packed"])
